// SPDX-License-Identifier: Apache-2.0

package mailbox

import (
	"slices"

	"github.com/tenantry/tenantry/core/fault"
)

// Admit returns those of the wanted mailboxes that need a new place on a
// domain which holds the existing addresses. What exists takes none, so all
// of three can be asked for again. When the new ones do not all fit, none is
// admitted: mailbox_limit_reached.
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

// The results that a provisioning reports for a mailbox.
const (
	ResultCreated = "created"
	ResultExists  = "exists"
	ResultFailed  = "failed"
)

// Step is what a provisioning does next for one mailbox.
type Step int

const (
	// Make asks the platform for it.
	Make Step = iota + 1
	// Complete gives a mailbox of ours its password and sign-in.
	Complete
	// Keep leaves it alone: it was there before, or nothing is outstanding.
	Keep
)

// NextStep decides by how far the stored row has come and whether the
// platform has a mailbox of that address. A row still reserved never reached
// the platform, so what is found there is not our making.
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
