// SPDX-License-Identifier: Apache-2.0

package mailbox

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	maxAlias   = 64
	aliasBytes = 6 // of the hash, twice as many characters
)

// Alias returns the directory alias of a managed mailbox. The platform derives an address on the
// tenant's built-in domain from it, so anna@one.example and anna@two.example need different
// aliases. A hash of the whole address makes them unique and reproducible.
func Alias(address string) string {
	sum := sha256.Sum256([]byte(address))
	tail := "-" + hex.EncodeToString(sum[:aliasBytes])
	local, _, _ := strings.Cut(address, "@")
	return strings.TrimRight(local[:min(len(local), maxAlias-len(tail))], ".") + tail
}
