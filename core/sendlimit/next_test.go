// SPDX-License-Identifier: Apache-2.0

package sendlimit_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

func TestNext(t *testing.T) {
	wide := sendlimit.Policies{sendlimit.TenantWide: 20}
	evening := today.End.Add(-10 * time.Minute)
	for _, tt := range []struct {
		name     string
		policies sendlimit.Policies
		box      sendlimit.Box
		at       time.Time
		wait     time.Duration // before what is taken off to spread tenants
	}{
		{"nothing sent", wide, sendlimit.Box{Counted: true}, noon, 30 * time.Minute},
		{"half of it", wide, sendlimit.Box{Counted: true, Sent: 10}, noon, 17*time.Minute + 30*time.Second},
		{"at its limit", wide, sendlimit.Box{Counted: true, Sent: 20}, noon, 5 * time.Minute},
		{"at its own", wide, sendlimit.Box{Own: 4, Counted: true, Sent: 4}, noon, 5 * time.Minute},
		{"blocked, so nothing is urgent", wide, sendlimit.Box{Counted: true, Sent: 21, BlockedAt: noon}, noon, 30 * time.Minute},
		{"no policy", nil, sendlimit.Box{Own: 4, Counted: true, Sent: 4}, noon, 30 * time.Minute},
		{"not counted", wide, sendlimit.Box{}, noon, 30 * time.Minute},
		{"at its limit by a part", wide, sendlimit.Box{Sent: 20}, noon, 5 * time.Minute},
	} {
		next := sendlimit.Next("guid", tt.policies, []sendlimit.Box{tt.box}, today, tt.at)
		if wait := next.Sub(tt.at); wait > tt.wait || wait <= tt.wait*9/10 {
			t.Errorf("%s: after %s", tt.name, wait)
		}
	}
	anyBlocked := []sendlimit.Box{{Counted: true, Sent: 21, BlockedAt: noon}}
	if next := sendlimit.Next("guid", wide, anyBlocked, today, evening); !next.Equal(today.End) {
		t.Errorf("who is blocked is let go at %s", next)
	}
}

func TestTenantsAreSpread(t *testing.T) {
	waits := map[time.Duration]int{}
	for n := range 1000 {
		next := sendlimit.Next(tenant.GUID(fmt.Sprint(n)), nil, nil, today, noon)
		waits[next.Sub(noon).Truncate(18*time.Second)]++
	}
	if len(waits) < 9 {
		t.Fatalf("1000 tenants in %d tenths", len(waits))
	}
}

// TestCloserIsSooner: more sent never makes a tenant wait longer.
func TestCloserIsSooner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, sent := rapid.IntRange(1, 25).Draw(t, "limit"), rapid.IntRange(0, 24).Draw(t, "sent")
		at := func(sent int) time.Time {
			return sendlimit.Next("guid", sendlimit.Policies{sendlimit.TenantWide: limit}, []sendlimit.Box{{Counted: true, Sent: sent}}, today, noon)
		}
		if at(sent + 1).After(at(sent)) {
			t.Fatalf("%d of %d: later than %d", sent+1, limit, sent)
		}
	})
}

func TestPlaces(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/St_Johns"} {
		if location, err := sendlimit.Place(name); err != nil || location.String() != name {
			t.Errorf("%s: %v, %v", name, location, err)
		}
	}
	for _, name := range []string{"", "Local", "Mars/Olympus", "../etc/passwd"} {
		if _, err := sendlimit.Place(name); err == nil {
			t.Errorf("%q is a place", name)
		}
	}
}

func TestWhatBecomesOfAPolicy(t *testing.T) {
	rule := sendlimit.Rule{ID: "r"}
	made, written := rule, rule
	made.Made, written.Written = true, true
	inForce := sendlimit.Policy{PerDay: 5, RuleID: "r", UpdatedAt: noon}
	later := noon.Add(time.Hour)
	for _, tt := range []struct {
		name   string
		was    sendlimit.Policy
		perDay int
		rule   sendlimit.Rule
		want   sendlimit.Set
	}{
		{"the first", sendlimit.Policy{}, 5, made, sendlimit.Created},
		{"the first, with a rule that was there", sendlimit.Policy{}, 5, rule, sendlimit.Created},
		{"the first, without mailboxes", sendlimit.Policy{}, 5, sendlimit.Rule{}, sendlimit.Created},
		{"the same again", inForce, 5, rule, sendlimit.Unchanged},
		{"another limit", inForce, 6, rule, sendlimit.Updated},
		{"a rule put right", inForce, 5, written, sendlimit.Updated},
		{"a rule that was gone", inForce, 5, made, sendlimit.Created},
	} {
		p, got := tt.was.With(tt.perDay, tt.rule, later)
		if got != tt.want || p.PerDay != tt.perDay || p.RuleID != tt.rule.ID || (got == sendlimit.Unchanged) == p.UpdatedAt.Equal(later) {
			t.Errorf("%s: %s, %+v", tt.name, got, p)
		}
	}
	if kept, _ := inForce.With(6, sendlimit.Rule{}, later); kept.RuleID != "r" {
		t.Errorf("a known rule was forgotten: %+v", kept)
	}
}
