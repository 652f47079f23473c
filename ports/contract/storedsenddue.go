// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/sendlimit"
)

// limitsOf are the ways to change a limit of a tenant.
func limitsOf(t testing.TB, s Stores, w counting) map[string]func(owner access.AccountID, perDay int, at time.Time) error {
	p := setPolicy(t, s, w.owner, w.guid, sendlimit.TenantWide, 20)
	return map[string]func(access.AccountID, int, time.Time) error{
		"policy": func(owner access.AccountID, perDay int, at time.Time) error {
			p.PerDay, p.UpdatedAt = perDay, at
			return s.SavePolicy(t.Context(), owner, p)
		},
		"own": func(owner access.AccountID, perDay int, at time.Time) error {
			return s.SetSendLimit(t.Context(), owner, w.boxes[0].ID, perDay, at)
		},
	}
}

var sendDueChecks = []storeCheck{
	{"a tenant whose limits change is due at once", func(t testing.TB, s Stores) {
		w, other := newCounting(t, s, "ann", 1), newCounting(t, s, "bob", 2)
		again := later.Add(30 * time.Minute)
		holds(t, "release", true)(s.ReleaseTenant(t.Context(), other.claim(t, s), again))
		at := later
		for what, set := range limitsOf(t, s, w) {
			r, won, err := s.ClaimTenant(t.Context(), w.owner, w.guid, leased, again.Add(time.Hour))
			if err != nil || !won {
				t.Fatalf("not claimed: %v", err)
			}
			holds(t, "release", true)(s.ReleaseTenant(t.Context(), r, again))
			if set(other.owner, 3, at) == nil {
				t.Fatalf("%s: a stranger set it", what)
			}
			inOrder(t, what+" not changed", dueTenants(t, s, at, 9))
			must(t, what, set(w.owner, 3, at))
			inOrder(t, what+" before", dueTenants(t, s, at.Add(-time.Microsecond), 9))
			inOrder(t, what, dueTenants(t, s, at, 9), w.id())
			holds(t, "release", true)(s.ReleaseTenant(t.Context(), w.claim(t, s), again))
			must(t, what+" again", set(w.owner, 3, at))
			inOrder(t, what+" as it was", dueTenants(t, s, at, 9))
		}
	}},
	{"who is due keeps its place when its limits change", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		all := limitsOf(t, s, w)
		since := later.Add(time.Minute)
		holds(t, "release", true)(s.ReleaseTenant(t.Context(), w.claim(t, s), since))
		for what, set := range all {
			must(t, what, set(w.owner, 3, since.Add(time.Hour)))
			due, err := s.DueTenants(t.Context(), since.Add(2*time.Hour), 9)
			if must(t, "list", err); len(due) != 1 || !due[0].At.Equal(since.Truncate(time.Microsecond)) {
				t.Fatalf("%s: %+v", what, due)
			}
		}
	}},
	{"a tenant whose limits change during a run is due right after it", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		again := later.Add(30 * time.Minute)
		perDay := 3
		for what, set := range limitsOf(t, s, w) {
			for _, at := range []time.Time{later, later.Add(time.Second), now} {
				r := w.claim(t, s)
				inOrder(t, what+" leased", dueTenants(t, s, again, 9))
				for range 2 { // both in one moment
					perDay++
					must(t, what, set(w.owner, perDay, at))
				}
				holds(t, "release", true)(s.ReleaseTenant(t.Context(), r, again))
				inOrder(t, what, dueTenants(t, s, later.Add(time.Second), 9), w.id())
				r = w.claim(t, s)
				must(t, what+" as it was", set(w.owner, perDay, at))
				holds(t, "release", true)(s.ReleaseTenant(t.Context(), r, later))
			}
			holds(t, "release", true)(s.ReleaseTenant(t.Context(), w.claim(t, s), again))
			inOrder(t, "nothing changed", dueTenants(t, s, again.Add(-time.Microsecond), 9))
			r, _, err := s.ClaimTenant(t.Context(), w.owner, w.guid, leased, again)
			must(t, "claim", err)
			holds(t, "release", true)(s.ReleaseTenant(t.Context(), r, later))
		}
	}},
}
