// SPDX-License-Identifier: Apache-2.0

package mailbox_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/mailbox"
)

func TestOnlyCreatedMailboxesAreListed(t *testing.T) {
	for stage, want := range map[mailbox.Stage]bool{
		mailbox.Reserved: false, mailbox.Creating: false, mailbox.Created: true, mailbox.Ready: true,
	} {
		if stage.IsListed() != want {
			t.Errorf("%s: listed is %t, want %t", stage, !want, want)
		}
	}
}

func TestWithPlatformStateUpdatesAMailbox(t *testing.T) {
	const (
		address     = "anna@example.test"
		initialName = "anna.1@t.onmicrosoft.test"
	)
	for _, tc := range []struct {
		name            string
		stage           mailbox.Stage
		provisioned     bool
		storedName      string
		listedName      string
		wantStage       mailbox.Stage
		wantProvisioned bool
		wantName        string
	}{
		{"the list shows the old sign-in name", mailbox.Ready, true, address, initialName, mailbox.Ready, true, address},
		{"the list shows the new sign-in name", mailbox.Ready, true, initialName, "Anna@example.test", mailbox.Ready, true, "Anna@example.test"},
		{"a managed mailbox that is not complete", mailbox.Created, true, initialName, "other@t.test", mailbox.Created, true, initialName},
		{"a managed mailbox whose creation has an unknown outcome", mailbox.Creating, false, "", initialName, mailbox.Created, true, initialName},
		{"a foreign mailbox", mailbox.Ready, false, initialName, "other@t.test", mailbox.Ready, false, "other@t.test"},
		{"a mailbox that existed before the request", mailbox.Reserved, false, "", initialName, mailbox.Ready, false, initialName},
	} {
		t.Run(tc.name, func(t *testing.T) {
			stored := mailbox.Mailbox{ID: "id", Stage: tc.stage, Provisioned: tc.provisioned, PrincipalName: tc.storedName, Address: address, DailySendLimit: 5}
			got := stored.WithPlatformState(mailbox.Platform{
				ObjectID: "object", DisplayName: "Anna", Address: address, PrincipalName: tc.listedName, Alias: "anna.1", AccountEnabled: true,
			}, time.Unix(1, 0))
			want := mailbox.Mailbox{
				ID: "id", Stage: tc.wantStage, Provisioned: tc.wantProvisioned, ObjectID: "object", DisplayName: "Anna", Address: address,
				PrincipalName: tc.wantName, Alias: "anna.1", AccountEnabled: true, DailySendLimit: 5,
			}
			got.Observed = mailbox.Observed{}
			if got != want {
				t.Fatalf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestUsageUnderComputesTheRemainder(t *testing.T) {
	for _, tc := range []struct {
		name        string
		sent, limit int
		blockedAt   time.Time
		remaining   int
		percent     float64
	}{
		{"nothing sent", 0, 25, time.Time{}, 25, 0},
		{"some", 7, 25, time.Time{}, 18, 28},
		{"a third is shown with one decimal", 1, 3, time.Time{}, 2, 33.3},
		{"two thirds round up", 2, 3, time.Time{}, 1, 66.7},
		{"all sent", 25, 25, time.Time{}, 0, 100},
		{"above the limit nothing remains", 26, 25, time.Unix(1, 0), 0, 104},
		{"no limit", 7, 0, time.Time{}, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := mailbox.Mailbox{SendsToday: tc.sent, BlockedAt: tc.blockedAt}
			want := mailbox.Usage{
				Mailbox: m, Limit: tc.limit, Remaining: tc.remaining, Percent: tc.percent, Blocked: !tc.blockedAt.IsZero(),
			}
			if got := mailbox.UsageUnder(m, tc.limit); got != want {
				t.Fatalf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestUsageIsConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent, limit := rapid.IntRange(0, 10000).Draw(t, "sent"), rapid.IntRange(1, 25).Draw(t, "limit")
		usage := mailbox.UsageUnder(mailbox.Mailbox{SendsToday: sent}, limit)
		exact := float64(sent) / float64(limit) * 100
		if usage.Remaining < 0 || usage.Remaining+min(sent, limit) != limit || usage.Percent-exact > 0.051 || exact-usage.Percent > 0.051 {
			t.Fatalf("%d of %d: Remaining or Percent is wrong: %+v", sent, limit, usage)
		}
	})
}
