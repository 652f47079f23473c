// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/sendlimit"
)

// TestEachMissingMailboxExpires checks that a missing mailbox is excluded only for its own period.
// A second missing mailbox does not extend the exclusion of the first.
func TestEachMissingMailboxExpires(t *testing.T) {
	var missing missingMailboxes
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	missing.add("t", []string{"early"}, start)
	missing.add("t", []string{"late"}, start.Add(sendlimit.MaxInterval/2))
	for elapsed, want := range map[time.Duration]int{0: 1, sendlimit.MaxInterval / 2: 0, sendlimit.MaxInterval: 1, 2 * sendlimit.MaxInterval: 2} {
		mailboxes := []sendlimit.MailboxState{{ID: "early"}, {ID: "late"}}
		if got := missing.exclude("t", mailboxes, start.Add(elapsed)); len(got) != want {
			t.Errorf("%s after the first: %d mailboxes are not excluded, want %d", elapsed, len(got), want)
		}
	}
	missing.add("other", nil, start.Add(2*sendlimit.MaxInterval))
	if len(missing.byTenant["t"]) != 0 {
		t.Errorf("expired ids are kept: %v", missing.byTenant)
	}
}
