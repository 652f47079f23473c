// SPDX-License-Identifier: Apache-2.0

package ident

import (
	"encoding/hex"
	"strconv"
	"time"
)

// Entropy is how many random bytes a new id takes.
const Entropy = 10

// New makes a UUIDv7: ids made later sort later, which keeps the pages of an
// index that they are added to together.
func New(now time.Time, random [Entropy]byte) string {
	var id [16]byte
	for i, ms := 5, now.UnixMilli(); i >= 0; i, ms = i-1, ms>>8 {
		id[i] = byte(ms)
	}
	copy(id[6:], random[:])
	id[6] = id[6]&0x0f | 0x70 // version
	id[8] = id[8]&0x3f | 0x80 // variant
	text := hex.EncodeToString(id[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// Time is when New made an id, to the millisecond. id is a UUID, as Lookup
// gives it.
func Time(id string) time.Time {
	ms, err := strconv.ParseUint(id[:8]+id[9:13], 16, 64)
	if err != nil {
		return time.UnixMilli(0)
	}
	return time.UnixMilli(int64(ms)).UTC()
}
