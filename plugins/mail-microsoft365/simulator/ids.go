// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// guid derives an id from what it belongs to, so that a run can be repeated:
// the same steps in the same data folder give the same ids.
func guid(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	sum[6] = sum[6]&0x0f | 0x40
	sum[8] = sum[8]&0x3f | 0x80
	x := hex.EncodeToString(sum[:16])
	return fmt.Sprintf("%s-%s-%s-%s-%s", x[:8], x[8:12], x[12:16], x[16:20], x[20:])
}

// newGUID is for ids that nobody will ask for again.
func newGUID() string { return guid(randomText(16)) }

// digits derives n decimal digits.
func digits(n int, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	number := fmt.Sprintf("%020d", binary.BigEndian.Uint64(sum[:8]))
	return number[len(number)-n:]
}

// letter derives one lower-case letter.
func letter(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return string(rune('a' + sum[0]%26))
}

// digest derives an opaque text.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// randomText is an unguessable text of n bytes, base64url.
func randomText(n int) string {
	raw := make([]byte, n)
	_, _ = rand.Read(raw) // never fails, by its documentation
	return base64.RawURLEncoding.EncodeToString(raw)
}
