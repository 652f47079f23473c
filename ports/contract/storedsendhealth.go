// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"
	"time"

	compare "github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// health checks what operators are told at a moment, at which tenants are
// behind that were not counted for an hour.
func health(t testing.TB, what string, s Stores, at time.Time, want ports.SendHealth) {
	t.Helper()
	got, err := s.SendHealth(t.Context(), at, at.Add(-time.Hour))
	must(t, what, err)
	want.Due = want.Due.Truncate(time.Microsecond)
	if diff := compare.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// limit enforces a limit in the whole tenant.
func (w counting) limit(t testing.TB, s Stores) {
	t.Helper()
	p, err := s.ReservePolicy(t.Context(), w.owner, w.guid, sendlimit.TenantWide, now)
	must(t, "reserve", err)
	p.PerDay = 5
	must(t, "save policy", s.SavePolicy(t.Context(), w.owner, p))
}

var sendWatchChecks = []storeCheck{
	{"the tenant that waits for longest is told, but not while somebody works on it", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		other := newCounting(t, s, "bob", 2)
		health(t, "before", s, now.Add(-time.Second), ports.SendHealth{})
		health(t, "never looked at", s, later, ports.SendHealth{Due: now})
		holds(t, "release", true)(s.ReleaseTenant(t.Context(), other.claim(t, s), later.Add(time.Minute)))
		r := w.claim(t, s)
		health(t, "at work", s, later, ports.SendHealth{})
		health(t, "the other", s, later.Add(time.Hour), ports.SendHealth{Due: later.Add(time.Minute)})
		holds(t, "release", true)(s.ReleaseTenant(t.Context(), r, later.Add(time.Second)))
		health(t, "both", s, later.Add(time.Hour), ports.SendHealth{Due: later.Add(time.Second)})
	}},
	{"at once does not mean for ever, and an earlier life does not count", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		_, err := s.SetDay(t.Context(), w.guid, "Europe/Berlin")
		must(t, "set day", err)
		health(t, "its day was set", s, later, ports.SendHealth{Due: now})
	}},
	{"tenants with a limit that were not counted lately are behind", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		r := w.claim(t, s)
		health(t, "without a limit", s, later.Add(48*time.Hour), ports.SendHealth{})
		w.limit(t, s)
		health(t, "ready for an hour", s, now.Add(time.Hour), ports.SendHealth{Limited: 1})
		health(t, "never counted", s, now.Add(time.Hour+time.Second), ports.SendHealth{Limited: 1, Behind: 1})
		w.count(t, s, r, 3)
		health(t, "counted", s, later.Add(time.Hour), ports.SendHealth{Limited: 1})
		health(t, "counted long ago", s, later.Add(time.Hour+time.Second), ports.SendHealth{Limited: 1, Behind: 1})
		ahead := ports.SendCounts{Today: midnight, At: later.Add(48 * time.Hour), Mark: midnight, Boxes: map[string][]sendlimit.Count{w.boxes[0].ID: {{Day: midnight}}}}
		holds(t, "count by a clock that is ahead", true)(s.SaveCounts(t.Context(), r, ahead))
		health(t, "counted ahead of now", s, later, ports.SendHealth{Limited: 1, Behind: 1})
		there, err := s.Tenant(t.Context(), w.owner, w.guid)
		must(t, "find", err)
		there.Consent = tenant.ConsentRevoked
		must(t, "revoke", s.SaveTenant(t.Context(), w.owner, there))
		health(t, "without consent", s, later.Add(48*time.Hour), ports.SendHealth{})
	}},
	{"a tenant without mailboxes is behind when it was not looked at for a day", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		w.limit(t, s)
		r := w.claim(t, s)
		holds(t, "save", true)(s.SaveCounts(t.Context(), r, ports.SendCounts{Today: midnight, At: later, Mark: midnight}))
		health(t, "within the day", s, midnight.Add(27*time.Hour), ports.SendHealth{Limited: 1})
		health(t, "later", s, midnight.Add(27*time.Hour+time.Second), ports.SendHealth{Limited: 1, Behind: 1})
	}},
	{"blocked mailboxes are counted, and those that nobody can release", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		r := w.claim(t, s)
		holds(t, "block", true)(s.SaveChanges(t.Context(), r, done(w.blocked(0, 1), w.blocked(1, 2))))
		health(t, "blocked", s, later, ports.SendHealth{Blocked: 2})
		holds(t, "let go", true)(s.SaveChanges(t.Context(), r, done(w.changed(1, 3, sendlimit.Unblocked))))
		there, err := s.Tenant(t.Context(), w.owner, w.guid)
		must(t, "find", err)
		there.Bootstrap = tenant.BootstrapFailed
		must(t, "fail", s.SaveTenant(t.Context(), w.owner, there))
		health(t, "stranded", s, later, ports.SendHealth{Blocked: 1, Stranded: 1})
	}},
	{"standings are an account's own", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		countingOf(t, s, w.owner, 2)
		stranger := newCounting(t, s, "bob", 3)
		r := w.claim(t, s)
		w.count(t, s, r, 3)
		holds(t, "block", true)(s.SaveChanges(t.Context(), r, done(w.blocked(0, 1))))
		stranger.count(t, s, stranger.claim(t, s), 3)
		got, err := s.SendStandings(t.Context(), w.owner)
		must(t, "standings", err)
		want := map[tenant.GUID]ports.SendStanding{w.guid: {CountedAt: later.Truncate(time.Microsecond), Blocked: 1}}
		if diff := compare.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}},
}
