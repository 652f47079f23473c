// SPDX-License-Identifier: Apache-2.0

package mailbox

import (
	"slices"

	"github.com/tenantry/tenantry/core/fault"
)

// Admit returns the wanted mailboxes that need a new slot on a domain with the existing addresses.
// Existing ones need none, so a request can be repeated. If the new ones do not all fit, Admit
// fails with mailbox_limit_reached.
func Admit(existing []string, wanted []Spec, limit int) ([]Spec, error) {
	var fresh []Spec
	for _, w := range wanted {
		if !slices.Contains(existing, w.Address) {
			fresh = append(fresh, w)
		}
	}
	if len(fresh) > 0 && len(existing)+len(fresh) > limit {
		return nil, fault.MailboxLimitReached.With("the domain holds %d of %d mailboxes, %d new ones do not fit",
			len(existing), limit, len(fresh))
	}
	return fresh, nil
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
	// Make asks the platform for it.
	Make Step = iota + 1
	// Complete gives a mailbox of ours its password and sign-in.
	Complete
	// Keep leaves it alone: it was there before, or nothing is outstanding.
	Keep
)

// NextStep returns the next action from the stage of the stored row and whether the platform has a
// mailbox with the address. A row in stage Reserved never reached the platform, so an existing
// mailbox there is foreign.
func NextStep(stage Stage, found bool) Step {
	switch {
	case stage == Ready:
		return Keep
	case !found:
		return Make
	case stage == Reserved:
		return Keep
	default:
		return Complete
	}
}
