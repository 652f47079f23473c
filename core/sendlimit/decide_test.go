// SPDX-License-Identifier: Apache-2.0

package sendlimit_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/sendlimit"
)

var (
	noon  = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	today = sendlimit.DayOf(noon, time.UTC)
)

func TestEffectiveLimit(t *testing.T) {
	p := sendlimit.Policies{sendlimit.TenantWide: 20, "a.test": 10}
	for _, tt := range []struct {
		name     string
		policies sendlimit.Policies
		own      int
		domain   string
		want     int
		scope    string
		covered  bool
	}{
		{"its own goes first", p, 5, "a.test", 5, "a.test", true},
		{"its own may be larger", p, 25, "a.test", 25, "a.test", true},
		{"then the domain's", p, 0, "a.test", 10, "a.test", true},
		{"then the tenant's", p, 0, "b.test", 20, sendlimit.TenantWide, true},
		{"none", sendlimit.Policies{"a.test": 10}, 0, "b.test", 0, sendlimit.TenantWide, false},
		{"a stored limit without a policy is shown and not enforced", nil, 7, "b.test", 7, sendlimit.TenantWide, false},
	} {
		scope, covered := tt.policies.Covering(tt.domain)
		if got := tt.policies.Effective(tt.own, tt.domain); got != tt.want || scope != tt.scope || covered != tt.covered {
			t.Errorf("%s: %d, %q %v", tt.name, got, scope, covered)
		}
	}
}

func TestDecide(t *testing.T) {
	wide, domain := sendlimit.Policies{sendlimit.TenantWide: 25}, sendlimit.Policies{"a.test": 25}
	blocked := noon.Add(-time.Hour)
	yesterday := today.Start.Add(-time.Minute)
	for _, tt := range []struct {
		name     string
		policies sendlimit.Policies
		box      sendlimit.Box
		want     sendlimit.Action // "" stays as it is
		listed   bool
	}{
		{"at its limit", wide, sendlimit.Box{Sent: 25, Counted: true}, "", false},
		{"beyond it", wide, sendlimit.Box{Sent: 26, Counted: true}, sendlimit.Blocked, true},
		{"beyond its own", wide, sendlimit.Box{Own: 3, Sent: 4, Counted: true}, sendlimit.Blocked, true},
		{"beyond, where no policy is", domain, sendlimit.Box{Own: 3, Domain: "b.test", Sent: 90, Counted: true}, "", false},
		{"blocked already", wide, sendlimit.Box{Sent: 30, Counted: true, BlockedAt: blocked}, "", true},
		{"not counted", wide, sendlimit.Box{}, "", false},
		{"blocked and not counted", wide, sendlimit.Box{BlockedAt: blocked}, "", true},
		{"limit raised to the count", wide, sendlimit.Box{Own: 25, Sent: 25, Counted: true, BlockedAt: blocked}, sendlimit.Unblocked, false},
		{"beyond it by a part", wide, sendlimit.Box{Sent: 26}, sendlimit.Blocked, true},
		{"a part below the limit", wide, sendlimit.Box{Sent: 25}, "", false},
		{"a part below the limit, blocked today", wide, sendlimit.Box{Sent: 25, BlockedAt: blocked}, "", true},
		{"a part below the limit, blocked yesterday", wide, sendlimit.Box{Sent: 25, BlockedAt: yesterday}, sendlimit.Unblocked, false},
		{"the day turned", wide, sendlimit.Box{Counted: true, BlockedAt: yesterday}, sendlimit.Unblocked, false},
		{"the day turned, nothing counted yet", wide, sendlimit.Box{BlockedAt: yesterday}, sendlimit.Unblocked, false},
		{"the day turned, and it is beyond again", wide, sendlimit.Box{Sent: 26, Counted: true, BlockedAt: yesterday}, "", true},
		{"blocked in a day that is not yet", wide, sendlimit.Box{Counted: true, BlockedAt: today.End.Add(time.Hour)}, "", true},
		{"not covered any more", domain, sendlimit.Box{Domain: "b.test", Sent: 30, Counted: true, BlockedAt: blocked}, sendlimit.Unblocked, false},
	} {
		box := tt.box
		box.ID, box.Address = "id", "ada@a.test"
		if box.Domain == "" {
			box.Domain = "a.test"
		}
		r := sendlimit.Decide("guid", tt.policies, []sendlimit.Box{box}, today, noon)
		var got sendlimit.Action
		if len(r.Changes) > 0 {
			got = r.Changes[0].Action
		}
		scope, _ := tt.policies.Covering(box.Domain)
		if got != tt.want || slices.Contains(r.Lists[scope], box.Address) != tt.listed {
			t.Errorf("%s: %+v", tt.name, r)
		}
	}
}

func TestAChangeIsItsEvent(t *testing.T) {
	r := sendlimit.Decide("guid", sendlimit.Policies{"a.test": 25}, []sendlimit.Box{
		{ID: "1", Address: "ada@a.test", Domain: "a.test", Sent: 26, Counted: true},
		{ID: "2", Address: "bob@a.test", Domain: "a.test", Own: 5, BlockedAt: today.Start.Add(-time.Hour)},
	}, today, noon)
	want := sendlimit.Ruling{Lists: map[string][]string{"a.test": {"ada@a.test"}}, Changes: []sendlimit.Change{
		{Box: "1", Scope: "a.test", Action: sendlimit.Blocked, At: noon, Event: sendlimit.Event{Tenant: "guid", Address: "ada@a.test", Action: sendlimit.Blocked, Sent: 26, Limit: 25}},
		{Box: "2", Scope: "a.test", Action: sendlimit.Unblocked, At: noon, Event: sendlimit.Event{Tenant: "guid", Address: "bob@a.test", Action: sendlimit.Unblocked, Limit: 5}},
	}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

// If no policy covers a mailbox any more, its unblock event has the limit of the block.
func TestTheLimitOfARelease(t *testing.T) {
	blocked := sendlimit.Box{ID: "1", Address: "ada@a.test", Domain: "a.test", Sent: 26, Counted: true, BlockedAt: noon, BlockedBy: 25}
	own, old := blocked, blocked
	own.Own, old.BlockedBy = 7, 0
	for _, tt := range []struct {
		name     string
		policies sendlimit.Policies
		box      sendlimit.Box
		want     int
	}{
		{"raised", sendlimit.Policies{"a.test": 26}, blocked, 26},
		{"no policy", nil, blocked, 25},
		{"that of another domain", sendlimit.Policies{"b.test": 30}, blocked, 25},
		{"its own, which is not enforced", nil, own, 25},
		{"not known", nil, old, 0},
	} {
		all := sendlimit.Decide("guid", tt.policies, []sendlimit.Box{tt.box}, today, noon).Changes
		if len(all) != 1 || all[0].Action != sendlimit.Unblocked || all[0].Event.Limit != tt.want {
			t.Errorf("%s: %+v", tt.name, all)
		}
	}
}

// TestRulings checks that a decision blocks exactly the listed mailboxes, and that the next
// decision after it was applied changes nothing.
func TestRulings(t *testing.T) {
	domains := []string{"a.test", "b.test", "c.test"}
	rapid.Check(t, func(t *rapid.T) {
		policies := sendlimit.Policies{}
		for _, scope := range append(domains, sendlimit.TenantWide) {
			if rapid.Bool().Draw(t, "policy") {
				policies[scope] = rapid.IntRange(1, 25).Draw(t, "limit")
			}
		}
		var boxes []sendlimit.Box
		for n := range rapid.IntRange(0, 12).Draw(t, "boxes") {
			b := sendlimit.Box{ID: string(rune('a' + n)), Domain: rapid.SampledFrom(domains).Draw(t, "domain"),
				Own: rapid.IntRange(0, 25).Draw(t, "own"), Sent: rapid.IntRange(0, 40).Draw(t, "sent"), Counted: rapid.Bool().Draw(t, "counted")}
			b.Address = b.ID + "@" + b.Domain
			if rapid.Bool().Draw(t, "blocked") {
				b.BlockedAt = noon.Add(time.Duration(rapid.IntRange(-60, 30).Draw(t, "hours")) * time.Hour)
			}
			boxes = append(boxes, b)
		}
		r := sendlimit.Decide("guid", policies, boxes, today, noon)
		if len(r.Lists) != len(policies) {
			t.Fatalf("%d rules for %d policies", len(r.Lists), len(policies))
		}
		now := carriedOut(t, boxes, r)
		for _, b := range now {
			listed := 0
			for scope, list := range r.Lists {
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
			if limit := policies.Effective(b.Own, b.Domain); limit > 0 && b.Sent > limit {
				if _, covered := policies.Covering(b.Domain); covered == b.BlockedAt.IsZero() {
					t.Fatalf("%+v with the limit %d", b, limit)
				}
			}
		}
		if again := sendlimit.Decide("guid", policies, now, today, noon); len(again.Changes) > 0 || cmp.Diff(r.Lists, again.Lists) != "" {
			t.Fatalf("decided again: %+v after %+v", again, r)
		}
	})
}

func carriedOut(t *rapid.T, boxes []sendlimit.Box, r sendlimit.Ruling) []sendlimit.Box {
	now := slices.Clone(boxes)
	for _, c := range r.Changes {
		at := slices.IndexFunc(now, func(b sendlimit.Box) bool { return b.ID == c.Box })
		if blocked := !now[at].BlockedAt.IsZero(); blocked == (c.Action == sendlimit.Blocked) {
			t.Fatalf("%s: %s, which it is", c.Box, c.Action)
		}
		now[at].BlockedAt = time.Time{}
		if c.Action == sendlimit.Blocked {
			now[at].BlockedAt = noon
		}
	}
	return now
}
