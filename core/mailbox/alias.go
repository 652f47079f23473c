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

// Alias is the directory alias of a mailbox we make. The platform turns it
// into an address on the tenant's built-in domain, so anna@one.example and
// anna@two.example need different ones; the hash of the whole address tells
// them apart, and the same address always gives the same alias.
func Alias(address string) string {
	sum := sha256.Sum256([]byte(address))
	tail := "-" + hex.EncodeToString(sum[:aliasBytes])
	local, _, _ := strings.Cut(address, "@")
	return strings.TrimRight(local[:min(len(local), maxAlias-len(tail))], ".") + tail
}
