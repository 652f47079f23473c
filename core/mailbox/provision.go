// SPDX-License-Identifier: Apache-2.0

package mailbox

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
)

// SelectNew returns the wanted mailboxes that do not exist yet. existing has the addresses of the
// domain's mailboxes. SelectNew fails with mailbox_limit_reached if the domain would have more than
// limit mailboxes. Without new mailboxes it never fails, so a request can be repeated.
func SelectNew(existing []string, wanted []Spec, limit int) ([]Spec, error) {
	var newSpecs []Spec
	for _, w := range wanted {
		if !slices.Contains(existing, w.Address) {
			newSpecs = append(newSpecs, w)
		}
	}
	if len(newSpecs) > 0 && len(existing)+len(newSpecs) > limit {
		return nil, fault.MailboxLimitReached.With("the domain has %d of at most %d mailboxes, so %d new ones cannot be created",
			len(existing), limit, len(newSpecs))
	}
	return newSpecs, nil
}

// The results of provisioning for a mailbox.
const (
	ResultCreated = "created"
	ResultExists  = "exists"
	ResultFailed  = "failed"
)

// Step is the next action of provisioning for one mailbox.
type Step int

const (
	// Create creates the mailbox at the platform.
	Create Step = iota + 1
	// Complete sets the password and the sign-in of a managed mailbox.
	Complete
	// Keep does nothing: the mailbox existed before, or its creation is complete.
	Keep
)

// NextStep returns the next action for a mailbox. stage is the stage of the stored row, and found
// says whether the platform has a mailbox with the address. For a row in stage Reserved, such a
// mailbox existed before the request.
func NextStep(stage Stage, found bool) Step {
	switch {
	case stage == Ready:
		return Keep
	case !found:
		return Create
	case stage == Reserved:
		return Keep
	default:
		return Complete
	}
}

const (
	maxAlias   = 64
	aliasBytes = 6 // bytes of the hash; each byte becomes two hexadecimal characters
)

// Alias returns the directory alias of a managed mailbox. The platform derives an address on the
// tenant's built-in domain from the alias. Therefore anna@one.example and anna@two.example need
// different aliases. A hash of the whole address makes them different, and reproducible.
func Alias(address string) string {
	sum := sha256.Sum256([]byte(address))
	tail := "-" + hex.EncodeToString(sum[:aliasBytes])
	local, _, _ := strings.Cut(address, "@")
	return strings.TrimRight(local[:min(len(local), maxAlias-len(tail))], ".") + tail
}
