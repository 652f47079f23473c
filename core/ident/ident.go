// SPDX-License-Identifier: Apache-2.0

// Package ident creates the ids of resources, and parses the ids that callers put into paths.
package ident

import (
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Zero is the UUID that no resource has.
const Zero = "00000000-0000-0000-0000-000000000000"

const length = len(Zero)

// Parse returns the lower-case form of a UUID of the form 8-4-4-4-12, and whether raw is such a
// UUID. Hex digits may be in upper or lower case. Braces and the prefix urn:uuid: are not accepted.
func Parse(raw string) (string, bool) {
	if len(raw) != length {
		return "", false
	}
	canonical := make([]byte, length)
	for i := range length {
		char, ok := canonicalChar(raw[i], i)
		if !ok {
			return "", false
		}
		canonical[i] = char
	}
	return string(canonical), true
}

// ParseOrZero returns the UUID to look up for raw. It returns Zero for a malformed id, so that the
// caller gets the same answer as for an unknown id, after the same queries.
func ParseOrZero(raw string) string {
	if id, ok := Parse(raw); ok {
		return id
	}
	return Zero
}

func canonicalChar(char byte, position int) (byte, bool) {
	switch {
	case position == 8 || position == 13 || position == 18 || position == 23:
		return char, char == '-'
	case '0' <= char && char <= '9', 'a' <= char && char <= 'f':
		return char, true
	case 'A' <= char && char <= 'F':
		return char - 'A' + 'a', true
	default:
		return 0, false
	}
}

// EntropyBytes is the number of random bytes in an id.
const EntropyBytes = 10

// New returns a UUIDv7. An id sorts after the ids of earlier milliseconds, so new rows go to the
// end of an index.
func New(now time.Time, random [EntropyBytes]byte) string {
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

// NewFrom is New with random bytes that it reads from random. It fails if the read fails.
func NewFrom(random io.Reader, now time.Time) (string, error) {
	var entropy [EntropyBytes]byte
	if _, err := io.ReadFull(random, entropy[:]); err != nil {
		return "", fmt.Errorf("read random bytes: %w", err)
	}
	return New(now, entropy), nil
}

// Time returns the time that was passed to New for an id, to the millisecond. id must be a
// canonical UUID, as ParseOrZero returns it.
func Time(id string) time.Time {
	ms, err := strconv.ParseUint(id[:8]+id[9:13], 16, 64)
	if err != nil {
		return time.UnixMilli(0)
	}
	return time.UnixMilli(int64(ms)).UTC()
}
