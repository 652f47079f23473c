// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"
	"time"

	compare "github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// midnight is when the day of these checks began.
var midnight = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// counting is a tenant that can be asked what it sends, with two mailboxes.
type counting struct {
	owner access.AccountID
	guid  tenant.GUID
	boxes []mailbox.Mailbox
}

func newCounting(t testing.TB, s Stores, name string, n int) counting {
	t.Helper()
	return countingOf(t, s, newAccount(t, s, name), n)
}

func countingOf(t testing.TB, s Stores, owner access.AccountID, n int) counting {
	t.Helper()
	w := counting{owner: owner, guid: guid(n)}
	prepare(t, s, owner, attach(t, s, owner, n))
	d := addDomain(t, s, owner, w.guid, "a.test")
	for _, local := range []string{"ada", "bob"} {
		w.boxes = append(w.boxes, addMailbox(t, s, owner, d, local, mailbox.Ready))
	}
	return w
}

// prepare makes a tenant's mail server ready.
func prepare(t testing.TB, s Stores, owner access.AccountID, made tenant.Tenant) {
	t.Helper()
	made.Bootstrap = tenant.BootstrapReady
	must(t, "save tenant", s.SaveTenant(t.Context(), owner, made))
}

func (w counting) claim(t testing.TB, s Stores) ports.SendRun {
	t.Helper()
	r, won, err := s.ClaimTenant(t.Context(), w.owner, w.guid, leased, later)
	must(t, "claim", err)
	if !won {
		t.Fatal("not claimed")
	}
	return r
}

// lost lets another have the tenant of a run.
func (w counting) lost(t testing.TB, s Stores, r ports.SendRun) ports.SendRun {
	t.Helper()
	holds(t, "let the lease end", true)(s.HoldTenant(t.Context(), r, over))
	return w.claim(t, s)
}

func (w counting) refused(t testing.TB, what string, s Stores, at time.Time) {
	t.Helper()
	if _, won, err := s.ClaimTenant(t.Context(), w.owner, w.guid, leased, at); err != nil || won {
		t.Fatalf("%s was claimed: %v", what, err)
	}
}

// count stores that each mailbox sent n today.
func (w counting) count(t testing.TB, s Stores, r ports.SendRun, n int) ports.SendCounts {
	t.Helper()
	c := ports.SendCounts{Today: midnight, At: later, Mark: later.Add(-6 * time.Hour), Boxes: map[string][]sendlimit.Count{}}
	for _, m := range w.boxes {
		c.Boxes[m.ID] = []sendlimit.Count{{Day: midnight, Settled: n - 1, Recent: 1}}
	}
	holds(t, "save counts", true)(s.SaveCounts(t.Context(), r, c))
	return c
}

func (w counting) list(t testing.TB, s Stores, r ports.SendRun) []ports.SendBox {
	t.Helper()
	boxes, err := s.SendBoxes(t.Context(), r, midnight)
	must(t, "list mailboxes", err)
	return boxes
}

func dueTenants(t testing.TB, s Stores, at time.Time, most int) (ids []string) {
	t.Helper()
	all, err := s.DueTenants(t.Context(), at, most)
	must(t, "list due tenants", err)
	for _, d := range all {
		ids = append(ids, string(d.Tenant))
	}
	return ids
}

func (w counting) id() string { return string(w.guid) }

var sendRunChecks = []storeCheck{
	{"a claim ahead of time leaves a tenant due as it was", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		for range 2 {
			r, won, err := s.ClaimTenant(t.Context(), w.owner, w.guid, leased, later.Add(1000*time.Hour))
			if must(t, "claim", err); !won {
				t.Fatal("not claimed")
			}
			holds(t, "let the lease end", true)(s.HoldTenant(t.Context(), r, over))
			inOrder(t, "due", dueTenants(t, s, now, 9), w.id())
		}
	}},
	{"a tenant is taken from whoever has it", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		first, won, err := s.SeizeTenant(t.Context(), w.owner, w.guid, leased)
		if must(t, "take one that never had a run", err); !won {
			t.Fatal("not taken")
		}
		holds(t, "hold", true)(s.HoldTenant(t.Context(), first, over))
		r := w.claim(t, s)
		taken, won, err := s.SeizeTenant(t.Context(), w.owner, w.guid, leased)
		must(t, "take", err)
		if want := (ports.SendRun{Account: w.owner, Tenant: w.guid, Epoch: taken.Epoch, Place: r.Place}); !won || taken.Epoch <= r.Epoch || taken.Place != want.Place || taken.Tenant != want.Tenant || taken.Account != want.Account {
			t.Fatalf("taken %v: %+v after %+v", won, taken, r)
		}
		holds(t, "the run that had it", false)(s.HoldTenant(t.Context(), r, leased))
		holds(t, "its changes", false)(s.SaveChanges(t.Context(), r, ports.SendChanges{}))
		w.refused(t, "a tenant that was taken", s, later.Add(time.Hour))
		holds(t, "give back", true)(s.ReleaseTenant(t.Context(), taken, later))
		inOrder(t, "due", dueTenants(t, s, later, 9), w.id())
		if _, won, err := s.SeizeTenant(t.Context(), newAccount(t, s, "bob"), w.guid, leased); err != nil || won {
			t.Fatalf("taken by another account: %v", err)
		}
	}},
	{"a tenant is due from its connecting on, and then when its last run said", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		inOrder(t, "before", dueTenants(t, s, now.Add(-time.Second), 9))
		w.refused(t, "an early one", s, now.Add(-time.Second))
		all, err := s.DueTenants(t.Context(), later, 9)
		must(t, "list", err)
		if diff := compare.Diff([]ports.DueTenant{{Account: w.owner, Tenant: w.guid, At: now.Truncate(time.Microsecond)}}, all); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		r := w.claim(t, s)
		if diff := compare.Diff(ports.SendRun{Account: w.owner, Tenant: w.guid, Epoch: r.Epoch, Place: "UTC", Due: now.Truncate(time.Microsecond)}, r); diff != "" {
			t.Fatalf("claimed (-want +got):\n%s", diff)
		}
		at := later.Add(7 * time.Minute)
		holds(t, "release", true)(s.ReleaseTenant(t.Context(), r, at))
		inOrder(t, "before its time", dueTenants(t, s, at.Add(-time.Microsecond), 9))
		w.refused(t, "before its time", s, at.Add(-time.Microsecond))
		inOrder(t, "at its time", dueTenants(t, s, at, 9), w.id())
		if _, won, err := s.ClaimTenant(t.Context(), w.owner, w.guid, leased, at); err != nil || !won {
			t.Fatalf("not claimed in time: %v", err)
		}
	}},
	{"a tenant is due when its time is further ahead than any look's", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		for _, ahead := range []time.Duration{sendlimit.Latest + 10*time.Minute, 30 * 24 * time.Hour, 400 * 24 * time.Hour} {
			holds(t, "release", true)(s.ReleaseTenant(t.Context(), w.claim(t, s), later.Add(ahead)))
			inOrder(t, "ahead of a right clock", dueTenants(t, s, later, 9), w.id())
		}
		holds(t, "release", true)(s.ReleaseTenant(t.Context(), w.claim(t, s), later.Add(sendlimit.Latest)))
		inOrder(t, "in its time", dueTenants(t, s, later, 9))
		w.refused(t, "in its time", s, later)
		inOrder(t, "by all times", dueTenants(t, s, later.Add(365*24*time.Hour), 9), w.id())
	}},
	{"of many claims at once one wins", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		for range 2 { // with and without a row of an earlier run
			won, runs := make([]bool, crowd), make([]ports.SendRun, crowd)
			for _, err := range atOnce(crowd, func(i int) (err error) {
				runs[i], won[i], err = s.ClaimTenant(t.Context(), w.owner, w.guid, leased, later)
				return err
			}) {
				must(t, "claim", err)
			}
			if n := count(won); n != 1 {
				t.Fatalf("%d won", n)
			}
			for i := range won {
				if won[i] {
					holds(t, "release", true)(s.ReleaseTenant(t.Context(), runs[i], later))
				}
			}
		}
	}},
	{"a tenant is claimed from another only when the lease is over, by the database's clock", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		first := w.claim(t, s)
		w.refused(t, "a leased one", s, later.Add(1000*time.Hour))
		inOrder(t, "a leased one", dueTenants(t, s, later.Add(1000*time.Hour), 9))
		holds(t, "shorten the lease", true)(s.HoldTenant(t.Context(), first, time.Millisecond))
		untilWon(t, func() (bool, error) {
			second, won, err := s.ClaimTenant(t.Context(), w.owner, w.guid, leased, later)
			if won && second.Epoch <= first.Epoch {
				t.Fatalf("epoch %d after %d", second.Epoch, first.Epoch)
			}
			return won, err
		})
	}},
	{"a run that lost its tenant changes nothing", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		first := w.claim(t, s)
		second := w.lost(t, s, first)
		w.count(t, s, second, 7)
		want := w.list(t, s, second)
		late := ports.SendCounts{Today: midnight, At: later, Mark: later, Boxes: map[string][]sendlimit.Count{w.boxes[0].ID: {{Day: midnight, Settled: 99}}}}
		holds(t, "hold", false)(s.HoldTenant(t.Context(), first, leased))
		holds(t, "counts", false)(s.SaveCounts(t.Context(), first, late))
		holds(t, "changes", false)(s.SaveChanges(t.Context(), first, done(w.blocked(0, 1))))
		holds(t, "release", false)(s.ReleaseTenant(t.Context(), first, later.Add(time.Hour)))
		if diff := compare.Diff(want, w.list(t, s, second)); diff != "" {
			t.Fatalf("written (-want +got):\n%s", diff)
		}
		if page := eventPage(t, s, w.owner, ports.EventQuery{Limit: 9}); page.Total != 0 {
			t.Fatalf("%d events", page.Total)
		}
		holds(t, "the second", true)(s.ReleaseTenant(t.Context(), second, later))
		holds(t, "hold what was released", false)(s.HoldTenant(t.Context(), second, leased))
		if third := w.claim(t, s); !third.Mark.Equal(later.Add(-6 * time.Hour).Truncate(time.Microsecond)) {
			t.Fatalf("the mark is %s", third.Mark)
		}
	}},
	{"accounts take turns, and who has much at work comes later", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		var all []counting
		for n := 1; n <= 5; n++ {
			owner := ann
			if n > 3 {
				owner = bob
			}
			all = append(all, countingOf(t, s, owner, n))
			r := all[n-1].claim(t, s)
			holds(t, "release", true)(s.ReleaseTenant(t.Context(), r, later.Add(time.Duration(n)*time.Second)))
		}
		at := later.Add(time.Minute)
		inOrder(t, "turns", dueTenants(t, s, at, 4), all[0].id(), all[3].id(), all[1].id(), all[4].id())
		for _, w := range all[:2] {
			if _, won, err := s.ClaimTenant(t.Context(), ann, w.guid, leased, at); err != nil || !won {
				t.Fatalf("not claimed: %v", err)
			}
		}
		inOrder(t, "with two of ann's at work", dueTenants(t, s, at, 9), all[3].id(), all[4].id(), all[2].id())
	}},
	{"tenants that cannot be asked are left out", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		there, err := s.Tenant(t.Context(), w.owner, w.guid)
		must(t, "find", err)
		out := func(what string) {
			t.Helper()
			inOrder(t, what, dueTenants(t, s, later, 9))
			w.refused(t, what, s, later)
		}
		gone := there
		gone.Consent = tenant.ConsentRevoked
		must(t, "revoke", s.SaveTenant(t.Context(), w.owner, gone))
		out("without consent")
		gone = there
		gone.Bootstrap = tenant.BootstrapFailed
		must(t, "fail", s.SaveTenant(t.Context(), w.owner, gone))
		out("without a mail server")
		must(t, "mend", s.SaveTenant(t.Context(), w.owner, there))
		inOrder(t, "back", dueTenants(t, s, later, 9), w.id())
		// What is blocked is to be let go, whoever pays.
		_, err = s.SetActive(t.Context(), w.owner, false)
		must(t, "suspend", err)
		inOrder(t, "of a suspended account", dueTenants(t, s, later, 9), w.id())
		r := w.claim(t, s)
		must(t, "delete", s.DeleteTenant(t.Context(), w.owner, w.guid))
		out("deleted")
		holds(t, "hold", false)(s.HoldTenant(t.Context(), r, leased))
		holds(t, "release", false)(s.ReleaseTenant(t.Context(), r, later))
	}},
	{"a tenant is claimed for its holder alone", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		stranger := w
		stranger.owner = newAccount(t, s, "bob")
		stranger.refused(t, "a foreign tenant", s, later)
		r := w.claim(t, s)
		r.Account = stranger.owner
		holds(t, "hold", false)(s.HoldTenant(t.Context(), r, leased))
		holds(t, "counts", false)(s.SaveCounts(t.Context(), r, ports.SendCounts{Today: midnight, At: later, Mark: later}))
		holds(t, "changes", false)(s.SaveChanges(t.Context(), r, done(w.blocked(0, 1))))
		if n := len(w.list(t, s, r)); n != 0 {
			t.Fatalf("%d foreign mailboxes", n)
		}
	}},
	{"counts are kept by mailbox and day, and today's are shown", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		r := w.claim(t, s)
		must(t, "limit", s.SetSendLimit(t.Context(), w.owner, w.boxes[1].ID, 9, now))
		yesterday := midnight.Add(-24 * time.Hour)
		c := ports.SendCounts{Today: midnight, At: later, Mark: midnight, Boxes: map[string][]sendlimit.Count{
			w.boxes[0].ID:  {{Day: midnight, Settled: 3, Recent: 4}, {Day: yesterday, Settled: 8}},
			unknownMailbox: {{Day: midnight, Settled: 3}},
		}}
		for range 2 {
			holds(t, "save", true)(s.SaveCounts(t.Context(), r, c))
		}
		boxes, err := s.SendBoxes(t.Context(), r, yesterday)
		must(t, "list", err)
		want := []ports.SendBox{
			{Box: sendlimit.Box{ID: w.boxes[0].ID, Address: "ada@a.test", Domain: "a.test"}, Counts: []sendlimit.Count{{Day: yesterday, Settled: 8}, {Day: midnight, Settled: 3, Recent: 4}}},
			{Box: sendlimit.Box{ID: w.boxes[1].ID, Address: "bob@a.test", Domain: "a.test", Own: 9}},
		}
		if diff := compare.Diff(want, boxes); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if n := len(w.list(t, s, r)[0].Counts); n != 1 {
			t.Fatalf("%d counts from today on", n)
		}
		shown, err := s.Mailboxes(t.Context(), w.owner, w.guid)
		must(t, "mailboxes", err)
		if shown[0].SendsToday != 7 || !shown[0].SendsTodayAt.Equal(later.Truncate(time.Microsecond)) || shown[1].SendsToday != 0 || !shown[1].SendsTodayAt.IsZero() {
			t.Fatalf("shown %+v", shown)
		}
	}},
	{"a part is no whole until it is counted as one, shows nobody, and leaves the mark", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		r := w.claim(t, s)
		counted := func(what string, want sendlimit.Count) {
			t.Helper()
			if got := w.list(t, s, r)[0]; len(got.Counts) != 1 || got.Counts[0] != want || got.On(sendlimit.DayOf(midnight, time.UTC)).Counted == want.Part {
				t.Fatalf("%s: %+v", what, got)
			}
		}
		save := func(c ports.SendCounts, count sendlimit.Count) {
			t.Helper()
			c.At, c.Boxes = later, map[string][]sendlimit.Count{w.boxes[0].ID: {count}}
			holds(t, "save", true)(s.SaveCounts(t.Context(), r, c))
		}
		part := sendlimit.Count{Day: midnight, Recent: 3, Part: true}
		whole := sendlimit.Count{Day: midnight, Recent: 3}
		for range 2 {
			save(ports.SendCounts{}, part)
			counted("a part", part)
		}
		shown, err := s.Mailboxes(t.Context(), w.owner, w.guid)
		if must(t, "mailboxes", err); !shown[0].SendsTodayAt.IsZero() {
			t.Fatalf("shown %+v", shown[0])
		}
		save(ports.SendCounts{Today: midnight, Mark: midnight}, whole)
		counted("the whole", whole)
		whole.Recent++
		save(ports.SendCounts{}, whole)
		counted("more", whole)
		if r = w.lost(t, s, r); !r.Mark.Equal(midnight) {
			t.Fatalf("the mark is %s", r.Mark)
		}
	}},
	{"counts are forgotten two days after the mark has passed them, by the run before too, once a day", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		r := w.claim(t, s)
		w.count(t, s, r, 7)
		days := func() int {
			boxes, err := s.SendBoxes(t.Context(), r, midnight.Add(-240*time.Hour))
			must(t, "list", err)
			return len(boxes[0].Counts)
		}
		save := func(what string, mark time.Time, want int) {
			t.Helper()
			for range 2 { // a run may store days one by one
				holds(t, "save", true)(s.SaveCounts(t.Context(), r, ports.SendCounts{Today: midnight, At: later, Mark: mark}))
			}
			if n := days(); n != want {
				t.Fatalf("%s: %d days", what, n)
			}
		}
		save("on the second day", midnight.Add(48*time.Hour), 1)
		r = w.lost(t, s, r)
		save("long after it, by a clock that is ahead", midnight.Add(1000*time.Hour), 1)
		r.Mark = midnight.Add(48*time.Hour + time.Microsecond)
		save("after it", midnight.Add(72*time.Hour), 0)
	}},
}
