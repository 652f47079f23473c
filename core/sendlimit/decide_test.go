// SPDX-License-Identifier: Apache-2.0

package sendlimit_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

var (
	noon  = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	today = sendlimit.DayOf(noon, time.UTC)
)

func TestDecideBlocksOnlyAboveTheLimit(t *testing.T) {
	tenantPolicy, domainPolicy := sendlimit.Policies{sendlimit.TenantWide: 25}, sendlimit.Policies{"a.test": 25}
	blockedToday := noon.Add(-time.Hour)
	yesterday := today.Start.Add(-time.Minute)
	for _, tc := range []struct {
		name       string
		policies   sendlimit.Policies
		mailbox    sendlimit.MailboxState
		want       sendlimit.Action // "" for no change
		wantListed bool
	}{
		{"at its limit", tenantPolicy, sendlimit.MailboxState{Sent: 25, Counted: true}, "", false},
		{"above its limit", tenantPolicy, sendlimit.MailboxState{Sent: 26, Counted: true}, sendlimit.Blocked, true},
		{"above its own limit", tenantPolicy, sendlimit.MailboxState{OwnLimit: 3, Sent: 4, Counted: true}, sendlimit.Blocked, true},
		{"above its own limit, without a policy", domainPolicy, sendlimit.MailboxState{OwnLimit: 3, Domain: "b.test", Sent: 90, Counted: true}, "", false},
		{"already blocked", tenantPolicy, sendlimit.MailboxState{Sent: 30, Counted: true, BlockedAt: blockedToday}, "", true},
		{"not counted", tenantPolicy, sendlimit.MailboxState{}, "", false},
		{"blocked and not counted", tenantPolicy, sendlimit.MailboxState{BlockedAt: blockedToday}, "", true},
		{"limit raised to the count", tenantPolicy, sendlimit.MailboxState{OwnLimit: 25, Sent: 25, Counted: true, BlockedAt: blockedToday}, sendlimit.Unblocked, false},
		{"a partial count above the limit", tenantPolicy, sendlimit.MailboxState{Sent: 26}, sendlimit.Blocked, true},
		{"a partial count at the limit", tenantPolicy, sendlimit.MailboxState{Sent: 25}, "", false},
		{"a partial count at the limit, blocked today", tenantPolicy, sendlimit.MailboxState{Sent: 25, BlockedAt: blockedToday}, "", true},
		{"a partial count at the limit, blocked yesterday", tenantPolicy, sendlimit.MailboxState{Sent: 25, BlockedAt: yesterday}, sendlimit.Unblocked, false},
		{"blocked on the previous day", tenantPolicy, sendlimit.MailboxState{Counted: true, BlockedAt: yesterday}, sendlimit.Unblocked, false},
		{"blocked on the previous day, not counted yet", tenantPolicy, sendlimit.MailboxState{BlockedAt: yesterday}, sendlimit.Unblocked, false},
		{"blocked on the previous day, and above the limit again", tenantPolicy, sendlimit.MailboxState{Sent: 26, Counted: true, BlockedAt: yesterday}, "", true},
		{"blocked after the end of the day, by clock skew", tenantPolicy, sendlimit.MailboxState{Counted: true, BlockedAt: today.End.Add(time.Hour)}, "", true},
		{"no longer covered by a policy", domainPolicy, sendlimit.MailboxState{Domain: "b.test", Sent: 30, Counted: true, BlockedAt: blockedToday}, sendlimit.Unblocked, false},
	} {
		mailbox := tc.mailbox
		mailbox.ID, mailbox.Address = "id", "ada@a.test"
		if mailbox.Domain == "" {
			mailbox.Domain = "a.test"
		}
		decision := sendlimit.Decide("guid", tc.policies, []sendlimit.MailboxState{mailbox}, today, noon)
		var got sendlimit.Action
		if len(decision.Changes) > 0 {
			got = decision.Changes[0].Action
		}
		scope, _ := tc.policies.Covering(mailbox.Domain)
		if got != tc.want || slices.Contains(decision.BlockLists[scope], mailbox.Address) != tc.wantListed {
			t.Errorf("%s: got %+v, want the change %q and the address listed: %t", tc.name, decision, tc.want, tc.wantListed)
		}
	}
}

func TestDecideReturnsEvents(t *testing.T) {
	decision := sendlimit.Decide("guid", sendlimit.Policies{"a.test": 25}, []sendlimit.MailboxState{
		{ID: "1", Address: "ada@a.test", Domain: "a.test", Sent: 26, Counted: true},
		{ID: "2", Address: "bob@a.test", Domain: "a.test", OwnLimit: 5, BlockedAt: today.Start.Add(-time.Hour)},
	}, today, noon)
	want := sendlimit.Decision{BlockLists: map[string][]string{"a.test": {"ada@a.test"}}, Changes: []sendlimit.Change{
		{MailboxID: "1", Scope: "a.test", Action: sendlimit.Blocked, At: noon, Event: sendlimit.Event{Tenant: "guid", Address: "ada@a.test", Action: sendlimit.Blocked, Sent: 26, Limit: 25}},
		{MailboxID: "2", Scope: "a.test", Action: sendlimit.Unblocked, At: noon, Event: sendlimit.Event{Tenant: "guid", Address: "bob@a.test", Action: sendlimit.Unblocked, Limit: 5}},
	}}
	if diff := cmp.Diff(want, decision); diff != "" {
		t.Error(diff)
	}
}

// TestUnblockEventWithoutPolicyKeepsTheLimitOfTheBlock checks the limit in the event of an
// unblocked mailbox. If no policy covers the mailbox any more, the event has the limit that applied
// when the mailbox was blocked.
func TestUnblockEventWithoutPolicyKeepsTheLimitOfTheBlock(t *testing.T) {
	blocked := sendlimit.MailboxState{ID: "1", Address: "ada@a.test", Domain: "a.test", Sent: 26, Counted: true, BlockedAt: noon, ExceededLimit: 25}
	withOwnLimit, withoutExceededLimit := blocked, blocked
	withOwnLimit.OwnLimit, withoutExceededLimit.ExceededLimit = 7, 0
	for _, tc := range []struct {
		name     string
		policies sendlimit.Policies
		mailbox  sendlimit.MailboxState
		want     int
	}{
		{"the limit was raised", sendlimit.Policies{"a.test": 26}, blocked, 26},
		{"no policy", nil, blocked, 25},
		{"only a policy of a different domain", sendlimit.Policies{"b.test": 30}, blocked, 25},
		{"the mailbox's own limit, which no policy enforces", nil, withOwnLimit, 25},
		{"the limit of the block is unknown", nil, withoutExceededLimit, 0},
	} {
		changes := sendlimit.Decide("guid", tc.policies, []sendlimit.MailboxState{tc.mailbox}, today, noon).Changes
		if len(changes) != 1 || changes[0].Action != sendlimit.Unblocked || changes[0].Event.Limit != tc.want {
			t.Errorf("%s: got %+v, want one unblocked mailbox with the limit %d", tc.name, changes, tc.want)
		}
	}
}

// TestDecideIsConsistent checks a decision that was applied. The rules then list exactly the
// blocked mailboxes, and the next decision changes nothing.
func TestDecideIsConsistent(t *testing.T) {
	domains := []string{"a.test", "b.test", "c.test"}
	rapid.Check(t, func(t *rapid.T) {
		policies := sendlimit.Policies{}
		for _, scope := range append(domains, sendlimit.TenantWide) {
			if rapid.Bool().Draw(t, "policy") {
				policies[scope] = rapid.IntRange(1, 25).Draw(t, "limit")
			}
		}
		var mailboxes []sendlimit.MailboxState
		for index := range rapid.IntRange(0, 12).Draw(t, "mailboxes") {
			mailbox := sendlimit.MailboxState{ID: string(rune('a' + index)), Domain: rapid.SampledFrom(domains).Draw(t, "domain"),
				OwnLimit: rapid.IntRange(0, 25).Draw(t, "own"), Sent: rapid.IntRange(0, 40).Draw(t, "sent"), Counted: rapid.Bool().Draw(t, "counted")}
			mailbox.Address = mailbox.ID + "@" + mailbox.Domain
			if rapid.Bool().Draw(t, "blocked") {
				mailbox.BlockedAt = noon.Add(time.Duration(rapid.IntRange(-60, 30).Draw(t, "hours")) * time.Hour)
			}
			mailboxes = append(mailboxes, mailbox)
		}
		decision := sendlimit.Decide("guid", policies, mailboxes, today, noon)
		if len(decision.BlockLists) != len(policies) {
			t.Fatalf("the decision has block lists for %d policies, want %d", len(decision.BlockLists), len(policies))
		}
		mailboxesAfter := applyChanges(t, mailboxes, decision)
		for _, mailbox := range mailboxesAfter {
			blockingRules := 0
			for scope, list := range decision.BlockLists {
				if slices.Contains(list, mailbox.Address) {
					blockingRules++
					if covering, _ := policies.Covering(mailbox.Domain); covering != scope {
						t.Fatalf("%s is blocked by the rule of %q, want the rule of %q", mailbox.Address, scope, covering)
					}
				}
			}
			if blocked := !mailbox.BlockedAt.IsZero(); blocked != (blockingRules == 1) || blockingRules > 1 {
				t.Fatalf("%d rules block %+v, want one for a blocked mailbox, otherwise none", blockingRules, mailbox)
			}
			if limit := policies.Effective(mailbox.OwnLimit, mailbox.Domain); limit > 0 && mailbox.Sent > limit {
				if _, covered := policies.Covering(mailbox.Domain); covered == mailbox.BlockedAt.IsZero() {
					t.Fatalf("got %+v above the limit %d, want it blocked: %t", mailbox, limit, covered)
				}
			}
		}
		if nextDecision := sendlimit.Decide("guid", policies, mailboxesAfter, today, noon); len(nextDecision.Changes) > 0 || cmp.Diff(decision.BlockLists, nextDecision.BlockLists) != "" {
			t.Fatalf("the next decision differs: %+v after %+v", nextDecision, decision)
		}
	})
}

func applyChanges(t *rapid.T, mailboxes []sendlimit.MailboxState, decision sendlimit.Decision) []sendlimit.MailboxState {
	mailboxesAfter := slices.Clone(mailboxes)
	for _, c := range decision.Changes {
		index := slices.IndexFunc(mailboxesAfter, func(m sendlimit.MailboxState) bool { return m.ID == c.MailboxID })
		if blocked := !mailboxesAfter[index].BlockedAt.IsZero(); blocked == (c.Action == sendlimit.Blocked) {
			t.Fatalf("the mailbox %s is already %s", c.MailboxID, c.Action)
		}
		mailboxesAfter[index].BlockedAt = time.Time{}
		if c.Action == sendlimit.Blocked {
			mailboxesAfter[index].BlockedAt = noon
		}
	}
	return mailboxesAfter
}

func TestNextEvaluationComesSoonerNearALimit(t *testing.T) {
	tenantPolicy := sendlimit.Policies{sendlimit.TenantWide: 20}
	evening := today.End.Add(-10 * time.Minute)
	for _, tc := range []struct {
		name     string
		policies sendlimit.Policies
		mailbox  sendlimit.MailboxState
		at       time.Time
		maxWait  time.Duration // without the offset by which the waits of tenants differ
	}{
		{"nothing sent", tenantPolicy, sendlimit.MailboxState{Counted: true}, noon, 30 * time.Minute},
		{"at half its limit", tenantPolicy, sendlimit.MailboxState{Counted: true, Sent: 10}, noon, 17*time.Minute + 30*time.Second},
		{"at its limit", tenantPolicy, sendlimit.MailboxState{Counted: true, Sent: 20}, noon, 5 * time.Minute},
		{"at its own limit", tenantPolicy, sendlimit.MailboxState{OwnLimit: 4, Counted: true, Sent: 4}, noon, 5 * time.Minute},
		{"a blocked mailbox", tenantPolicy, sendlimit.MailboxState{Counted: true, Sent: 21, BlockedAt: noon}, noon, 30 * time.Minute},
		{"no policy", nil, sendlimit.MailboxState{OwnLimit: 4, Counted: true, Sent: 4}, noon, 30 * time.Minute},
		{"not counted", tenantPolicy, sendlimit.MailboxState{}, noon, 30 * time.Minute},
		{"a partial count at the limit", tenantPolicy, sendlimit.MailboxState{Sent: 20}, noon, 5 * time.Minute},
	} {
		next := sendlimit.NextEvaluation("guid", tc.policies, []sendlimit.MailboxState{tc.mailbox}, today, tc.at)
		if wait := next.Sub(tc.at); wait > tc.maxWait || wait <= tc.maxWait*9/10 {
			t.Errorf("%s: the next evaluation is after %s, want up to a tenth less than %s", tc.name, wait, tc.maxWait)
		}
	}
	for name, tc := range map[string]struct {
		mailbox sendlimit.MailboxState
		at      time.Time
	}{
		"blocked before this pass": {sendlimit.MailboxState{Counted: true, Sent: 21, BlockedAt: noon}, evening},
		"blocked in this pass":     {sendlimit.MailboxState{Counted: true, Sent: 21}, today.End.Add(-time.Minute)},
	} {
		if next := sendlimit.NextEvaluation("guid", tenantPolicy, []sendlimit.MailboxState{tc.mailbox}, today, tc.at); !next.Equal(today.End) {
			t.Errorf("%s: the next evaluation is at %s, want the end of the day", name, next)
		}
	}
}

func TestNextEvaluationSpreadsTenants(t *testing.T) {
	const interval = 18 * time.Second // a tenth of the range of the waits, which is a tenth of 30 minutes
	waits := map[time.Duration]int{}
	for n := range 1000 {
		next := sendlimit.NextEvaluation(tenant.GUID(fmt.Sprint(n)), nil, nil, today, noon)
		waits[next.Sub(noon).Truncate(interval)]++
	}
	if len(waits) < 9 {
		t.Fatalf("the waits of 1000 tenants are in %d intervals of %s, want at least 9", len(waits), interval)
	}
}

func TestNextEvaluationIsNotLaterAfterAMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, sent := rapid.IntRange(1, 25).Draw(t, "limit"), rapid.IntRange(0, 24).Draw(t, "sent")
		at := func(sent int) time.Time {
			return sendlimit.NextEvaluation("guid", sendlimit.Policies{sendlimit.TenantWide: limit}, []sendlimit.MailboxState{{Counted: true, Sent: sent}}, today, noon)
		}
		if at(sent + 1).After(at(sent)) {
			t.Fatalf("with %d messages of %d the next evaluation is later than with %d", sent+1, limit, sent)
		}
	})
}

func TestEventMessagesNameCountAndLimit(t *testing.T) {
	for want, blockEvent := range map[string]sendlimit.Event{
		"Mailbox blocked: sent 26, limit 25":  {Action: sendlimit.Blocked, Sent: 26, Limit: 25},
		"Mailbox unblocked: sent 0, limit 25": {Action: sendlimit.Unblocked, Limit: 25},
	} {
		if got := blockEvent.Message(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
