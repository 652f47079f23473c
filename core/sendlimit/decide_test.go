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
	wide, domain := sendlimit.Policies{sendlimit.TenantWide: 25}, sendlimit.Policies{"a.test": 25}
	blocked := noon.Add(-time.Hour)
	yesterday := today.Start.Add(-time.Minute)
	for _, tt := range []struct {
		name     string
		policies sendlimit.Policies
		box      sendlimit.MailboxState
		want     sendlimit.Action // "" for no change
		listed   bool
	}{
		{"at its limit", wide, sendlimit.MailboxState{Sent: 25, Counted: true}, "", false},
		{"above its limit", wide, sendlimit.MailboxState{Sent: 26, Counted: true}, sendlimit.Blocked, true},
		{"above its own limit", wide, sendlimit.MailboxState{OwnLimit: 3, Sent: 4, Counted: true}, sendlimit.Blocked, true},
		{"above its own limit, without a policy", domain, sendlimit.MailboxState{OwnLimit: 3, Domain: "b.test", Sent: 90, Counted: true}, "", false},
		{"already blocked", wide, sendlimit.MailboxState{Sent: 30, Counted: true, BlockedAt: blocked}, "", true},
		{"not counted", wide, sendlimit.MailboxState{}, "", false},
		{"blocked and not counted", wide, sendlimit.MailboxState{BlockedAt: blocked}, "", true},
		{"limit raised to the count", wide, sendlimit.MailboxState{OwnLimit: 25, Sent: 25, Counted: true, BlockedAt: blocked}, sendlimit.Unblocked, false},
		{"a partial count above the limit", wide, sendlimit.MailboxState{Sent: 26}, sendlimit.Blocked, true},
		{"a partial count below the limit", wide, sendlimit.MailboxState{Sent: 25}, "", false},
		{"a partial count below the limit, blocked today", wide, sendlimit.MailboxState{Sent: 25, BlockedAt: blocked}, "", true},
		{"a partial count below the limit, blocked yesterday", wide, sendlimit.MailboxState{Sent: 25, BlockedAt: yesterday}, sendlimit.Unblocked, false},
		{"blocked on the previous day", wide, sendlimit.MailboxState{Counted: true, BlockedAt: yesterday}, sendlimit.Unblocked, false},
		{"blocked on the previous day, not counted yet", wide, sendlimit.MailboxState{BlockedAt: yesterday}, sendlimit.Unblocked, false},
		{"blocked on the previous day, and above the limit again", wide, sendlimit.MailboxState{Sent: 26, Counted: true, BlockedAt: yesterday}, "", true},
		{"blocked after the end of the day", wide, sendlimit.MailboxState{Counted: true, BlockedAt: today.End.Add(time.Hour)}, "", true},
		{"no longer covered by a policy", domain, sendlimit.MailboxState{Domain: "b.test", Sent: 30, Counted: true, BlockedAt: blocked}, sendlimit.Unblocked, false},
	} {
		box := tt.box
		box.ID, box.Address = "id", "ada@a.test"
		if box.Domain == "" {
			box.Domain = "a.test"
		}
		r := sendlimit.Decide("guid", tt.policies, []sendlimit.MailboxState{box}, today, noon)
		var got sendlimit.Action
		if len(r.Changes) > 0 {
			got = r.Changes[0].Action
		}
		scope, _ := tt.policies.Covering(box.Domain)
		if got != tt.want || slices.Contains(r.BlockLists[scope], box.Address) != tt.listed {
			t.Errorf("%s: %+v", tt.name, r)
		}
	}
}

func TestDecideReturnsEvents(t *testing.T) {
	r := sendlimit.Decide("guid", sendlimit.Policies{"a.test": 25}, []sendlimit.MailboxState{
		{ID: "1", Address: "ada@a.test", Domain: "a.test", Sent: 26, Counted: true},
		{ID: "2", Address: "bob@a.test", Domain: "a.test", OwnLimit: 5, BlockedAt: today.Start.Add(-time.Hour)},
	}, today, noon)
	want := sendlimit.Decision{BlockLists: map[string][]string{"a.test": {"ada@a.test"}}, Changes: []sendlimit.Change{
		{MailboxID: "1", Scope: "a.test", Action: sendlimit.Blocked, At: noon, Event: sendlimit.Event{Tenant: "guid", Address: "ada@a.test", Action: sendlimit.Blocked, Sent: 26, Limit: 25}},
		{MailboxID: "2", Scope: "a.test", Action: sendlimit.Unblocked, At: noon, Event: sendlimit.Event{Tenant: "guid", Address: "bob@a.test", Action: sendlimit.Unblocked, Limit: 5}},
	}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

// If no policy covers a mailbox any more, its unblock event has the limit of the block.
func TestUnblockEventLimit(t *testing.T) {
	blocked := sendlimit.MailboxState{ID: "1", Address: "ada@a.test", Domain: "a.test", Sent: 26, Counted: true, BlockedAt: noon, BlockedBy: 25}
	own, old := blocked, blocked
	own.OwnLimit, old.BlockedBy = 7, 0
	for _, tt := range []struct {
		name     string
		policies sendlimit.Policies
		box      sendlimit.MailboxState
		want     int
	}{
		{"raised", sendlimit.Policies{"a.test": 26}, blocked, 26},
		{"no policy", nil, blocked, 25},
		{"only a policy of a different domain", sendlimit.Policies{"b.test": 30}, blocked, 25},
		{"its own limit, which is not enforced", nil, own, 25},
		{"unknown", nil, old, 0},
	} {
		all := sendlimit.Decide("guid", tt.policies, []sendlimit.MailboxState{tt.box}, today, noon).Changes
		if len(all) != 1 || all[0].Action != sendlimit.Unblocked || all[0].Event.Limit != tt.want {
			t.Errorf("%s: %+v", tt.name, all)
		}
	}
}

// TestDecideIsConsistent checks that a decision blocks exactly the listed mailboxes, and that the
// next decision after it was applied changes nothing.
func TestDecideIsConsistent(t *testing.T) {
	domains := []string{"a.test", "b.test", "c.test"}
	rapid.Check(t, func(t *rapid.T) {
		policies := sendlimit.Policies{}
		for _, scope := range append(domains, sendlimit.TenantWide) {
			if rapid.Bool().Draw(t, "policy") {
				policies[scope] = rapid.IntRange(1, 25).Draw(t, "limit")
			}
		}
		var boxes []sendlimit.MailboxState
		for n := range rapid.IntRange(0, 12).Draw(t, "boxes") {
			b := sendlimit.MailboxState{ID: string(rune('a' + n)), Domain: rapid.SampledFrom(domains).Draw(t, "domain"),
				OwnLimit: rapid.IntRange(0, 25).Draw(t, "own"), Sent: rapid.IntRange(0, 40).Draw(t, "sent"), Counted: rapid.Bool().Draw(t, "counted")}
			b.Address = b.ID + "@" + b.Domain
			if rapid.Bool().Draw(t, "blocked") {
				b.BlockedAt = noon.Add(time.Duration(rapid.IntRange(-60, 30).Draw(t, "hours")) * time.Hour)
			}
			boxes = append(boxes, b)
		}
		r := sendlimit.Decide("guid", policies, boxes, today, noon)
		if len(r.BlockLists) != len(policies) {
			t.Fatalf("%d rules for %d policies", len(r.BlockLists), len(policies))
		}
		now := applyChanges(t, boxes, r)
		for _, b := range now {
			listed := 0
			for scope, list := range r.BlockLists {
				if slices.Contains(list, b.Address) {
					listed++
					if covering, _ := policies.Covering(b.Domain); covering != scope {
						t.Fatalf("%s is blocked by the rule of %q", b.Address, scope)
					}
				}
			}
			if blocked := !b.BlockedAt.IsZero(); blocked != (listed == 1) || listed > 1 {
				t.Fatalf("%+v is in %d rules", b, listed)
			}
			if limit := policies.Effective(b.OwnLimit, b.Domain); limit > 0 && b.Sent > limit {
				if _, covered := policies.Covering(b.Domain); covered == b.BlockedAt.IsZero() {
					t.Fatalf("%+v with the limit %d", b, limit)
				}
			}
		}
		if again := sendlimit.Decide("guid", policies, now, today, noon); len(again.Changes) > 0 || cmp.Diff(r.BlockLists, again.BlockLists) != "" {
			t.Fatalf("decided again: %+v after %+v", again, r)
		}
	})
}

func applyChanges(t *rapid.T, boxes []sendlimit.MailboxState, r sendlimit.Decision) []sendlimit.MailboxState {
	now := slices.Clone(boxes)
	for _, c := range r.Changes {
		at := slices.IndexFunc(now, func(b sendlimit.MailboxState) bool { return b.ID == c.MailboxID })
		if blocked := !now[at].BlockedAt.IsZero(); blocked == (c.Action == sendlimit.Blocked) {
			t.Fatalf("%s: %s, but it already is", c.MailboxID, c.Action)
		}
		now[at].BlockedAt = time.Time{}
		if c.Action == sendlimit.Blocked {
			now[at].BlockedAt = noon
		}
	}
	return now
}

func TestNextComesSoonerNearALimit(t *testing.T) {
	wide := sendlimit.Policies{sendlimit.TenantWide: 20}
	evening := today.End.Add(-10 * time.Minute)
	for _, tt := range []struct {
		name     string
		policies sendlimit.Policies
		box      sendlimit.MailboxState
		at       time.Time
		wait     time.Duration // without the tenant's individual offset
	}{
		{"nothing sent", wide, sendlimit.MailboxState{Counted: true}, noon, 30 * time.Minute},
		{"at half its limit", wide, sendlimit.MailboxState{Counted: true, Sent: 10}, noon, 17*time.Minute + 30*time.Second},
		{"at its limit", wide, sendlimit.MailboxState{Counted: true, Sent: 20}, noon, 5 * time.Minute},
		{"at its own limit", wide, sendlimit.MailboxState{OwnLimit: 4, Counted: true, Sent: 4}, noon, 5 * time.Minute},
		{"blocked, so nothing is urgent", wide, sendlimit.MailboxState{Counted: true, Sent: 21, BlockedAt: noon}, noon, 30 * time.Minute},
		{"no policy", nil, sendlimit.MailboxState{OwnLimit: 4, Counted: true, Sent: 4}, noon, 30 * time.Minute},
		{"not counted", wide, sendlimit.MailboxState{}, noon, 30 * time.Minute},
		{"a partial count at the limit", wide, sendlimit.MailboxState{Sent: 20}, noon, 5 * time.Minute},
	} {
		next := sendlimit.NextEvaluation("guid", tt.policies, []sendlimit.MailboxState{tt.box}, today, tt.at)
		if wait := next.Sub(tt.at); wait > tt.wait || wait <= tt.wait*9/10 {
			t.Errorf("%s: after %s", tt.name, wait)
		}
	}
	anyBlocked := []sendlimit.MailboxState{{Counted: true, Sent: 21, BlockedAt: noon}}
	if next := sendlimit.NextEvaluation("guid", wide, anyBlocked, today, evening); !next.Equal(today.End) {
		t.Errorf("the next evaluation after a block is at %s, want the end of the day", next)
	}
}

func TestNextSpreadsTenants(t *testing.T) {
	waits := map[time.Duration]int{}
	for n := range 1000 {
		next := sendlimit.NextEvaluation(tenant.GUID(fmt.Sprint(n)), nil, nil, today, noon)
		waits[next.Sub(noon).Truncate(18*time.Second)]++
	}
	if len(waits) < 9 {
		t.Fatalf("1000 tenants in %d tenths", len(waits))
	}
}

// A higher count never lengthens the interval.
func TestNextShrinksWithCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, sent := rapid.IntRange(1, 25).Draw(t, "limit"), rapid.IntRange(0, 24).Draw(t, "sent")
		at := func(sent int) time.Time {
			return sendlimit.NextEvaluation("guid", sendlimit.Policies{sendlimit.TenantWide: limit}, []sendlimit.MailboxState{{Counted: true, Sent: sent}}, today, noon)
		}
		if at(sent + 1).After(at(sent)) {
			t.Fatalf("%d of %d: later than %d", sent+1, limit, sent)
		}
	})
}

func TestEventMessagesNameCountAndLimit(t *testing.T) {
	for want, e := range map[string]sendlimit.Event{
		"Mailbox blocked: sent 26, limit 25":  {Action: sendlimit.Blocked, Sent: 26, Limit: 25},
		"Mailbox unblocked: sent 0, limit 25": {Action: sendlimit.Unblocked, Limit: 25},
	} {
		if got := e.Message(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
