// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// TestEachMissingMailboxExpires checks that a missing mailbox is excluded only for its own period.
// A mailbox that goes missing later does not extend the period of a mailbox that went missing
// earlier.
func TestEachMissingMailboxExpires(t *testing.T) {
	const guid, differentGUID = tenant.GUID("11111111-2222-4333-8444-555555555555"), tenant.GUID("22222222-2222-4333-8444-555555555555")
	var missing missingMailboxes
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	missing.add(guid, []string{"early"}, start)
	missing.add(guid, []string{"late"}, start.Add(sendlimit.MaxInterval/2))
	for elapsed, want := range map[time.Duration]int{0: 1, sendlimit.MaxInterval / 2: 0, sendlimit.MaxInterval: 1, 2 * sendlimit.MaxInterval: 2} {
		mailboxes := []sendlimit.MailboxState{{ID: "early"}, {ID: "late"}}
		if got := missing.exclude(guid, mailboxes, start.Add(elapsed)); len(got) != want {
			t.Errorf("%s after the mailbox early went missing: %d mailboxes are not excluded, want %d", elapsed, len(got), want)
		}
	}
	missing.add(differentGUID, nil, start.Add(2*sendlimit.MaxInterval))
	if len(missing.byTenant[guid]) != 0 {
		t.Errorf("the missing mailboxes are %v, want the expired ids deleted", missing.byTenant)
	}
}
