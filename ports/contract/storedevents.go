// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	compare "github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// anEvent is the nth event, of the tenant with that number.
func anEvent(n, of int, at time.Time) sendlimit.Event {
	action := sendlimit.Blocked
	if n%3 == 0 {
		action = sendlimit.Unblocked
	}
	entropy := [ident.Entropy]byte{8: byte(n >> 8), 9: byte(n)}
	return sendlimit.Event{ID: ident.New(at, entropy), Tenant: guid(of), Address: fmt.Sprintf("box%d@d%d.test", n, of),
		Action: action, Sent: n, Limit: 25, At: at.UTC().Truncate(time.Microsecond)}
}

func recordEvents(t testing.TB, s Stores, owner access.AccountID, events ...sendlimit.Event) {
	t.Helper()
	must(t, "record", s.RecordEvents(t.Context(), owner, events))
}

func eventPage(t testing.TB, s Stores, owner access.AccountID, q ports.EventQuery) ports.EventPage {
	t.Helper()
	page, err := s.Events(t.Context(), owner, q)
	must(t, "list events", err)
	return page
}

// plainly is what a page has to be.
func plainly(all []sendlimit.Event, q ports.EventQuery) ports.EventPage {
	page := ports.EventPage{Events: []sendlimit.Event{}}
	for _, e := range slices.Backward(all) {
		if q.Tenant != "" && e.Tenant != q.Tenant || q.Action != "" && e.Action != q.Action {
			continue
		}
		if page.Total >= q.Offset && len(page.Events) < q.Limit {
			page.Events = append(page.Events, e)
		}
		page.Total++
	}
	return page
}

// logOf is a log of three tenants over some days, with hours and days that
// have one event, many or none. Its end is the same for every seed.
func logOf(t testing.TB, s Stores, owner access.AccountID) (all []sendlimit.Event) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 3; n++ {
		attach(t, s, owner, n)
	}
	at := now.Add(-9 * 24 * time.Hour)
	for n := range 400 {
		all = append(all, anEvent(n, 1+r.IntN(3), at))
		switch r.IntN(20) {
		case 0:
			at = at.Add(time.Duration(r.IntN(50)) * time.Hour)
		case 1:
			at = at.Truncate(time.Hour).Add(time.Hour) // the first moment of an hour
		case 2:
			at = at.Truncate(time.Hour).Add(time.Hour - time.Millisecond)
		default:
			at = at.Add(time.Duration(r.IntN(3)) * time.Minute)
		}
	}
	slices.SortFunc(all, func(a, b sendlimit.Event) int { return cmp.Compare(a.ID, b.ID) })
	for i := 0; i < len(all); {
		n := min(1+r.IntN(60), len(all)-i)
		recordEvents(t, s, owner, all[i:i+n]...)
		i += n
	}
	return all
}

var enforcementEventChecks = []storeCheck{
	{"an event is kept as it was", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		e := anEvent(7, 1, now)
		e.Address = hostile
		recordEvents(t, s, ann, e)
		if diff := compare.Diff(ports.EventPage{Events: []sendlimit.Event{e}, Total: 1}, eventPage(t, s, ann, ports.EventQuery{Limit: 50})); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}},
	{"every page of every filter is that of the plain list, with its total", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		all := logOf(t, s, ann)
		for _, of := range []tenant.GUID{"", guid(1), guid(3)} {
			for _, action := range []sendlimit.Action{"", sendlimit.Blocked, sendlimit.Unblocked} {
				for _, limit := range []int{1, 50, 200} {
					for offset := 0; offset <= len(all)+1; offset += 37 {
						q := ports.EventQuery{Tenant: of, Action: action, Limit: limit, Offset: offset}
						if diff := compare.Diff(plainly(all, q), eventPage(t, s, ann, q)); diff != "" {
							t.Fatalf("%+v (-want +got):\n%s", q, diff)
						}
					}
				}
			}
		}
	}},
	{"pages collect every event once, also while more come", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		all := logOf(t, s, ann)
		seen := map[string]int{}
		for offset, added := 0, 0; ; offset += 30 {
			page := eventPage(t, s, ann, ports.EventQuery{Limit: 30, Offset: offset})
			for _, e := range page.Events {
				seen[e.ID]++
			}
			if offset+len(page.Events) >= page.Total {
				break
			}
			added++ // what comes is newer, so it moves what is old to later offsets
			recordEvents(t, s, ann, anEvent(1000+added, 1, now.Add(time.Duration(added)*time.Second)))
		}
		for _, e := range all {
			if seen[e.ID] == 0 {
				t.Fatalf("%s was on no page", e.ID)
			}
		}
	}},
	{"an event that comes twice is one", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		one, two := anEvent(1, 1, now), anEvent(2, 1, now)
		recordEvents(t, s, ann, one)
		other := one
		other.Sent = 99
		recordEvents(t, s, ann, other, two)
		recordEvents(t, s, ann)
		if diff := compare.Diff(ports.EventPage{Events: []sendlimit.Event{two, one}, Total: 2}, eventPage(t, s, ann, ports.EventQuery{Limit: 50})); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}},
	{"many who write at once lose no count", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		attach(t, s, ann, 2)
		if n := winners(t, atOnce(crowd, func(i int) error {
			return s.RecordEvents(t.Context(), ann, []sendlimit.Event{anEvent(2*i, 1+i%2, now), anEvent(2*i+1, 2-i%2, now.Add(time.Hour))})
		}), nil); n != crowd {
			t.Fatalf("%d of %d wrote", n, crowd)
		}
		if page := eventPage(t, s, ann, ports.EventQuery{Limit: 200}); page.Total != 2*crowd || len(page.Events) != 2*crowd {
			t.Fatalf("%d of %d events", len(page.Events), page.Total)
		}
	}},
	{"an account sees its own events alone, and a tenant that it does not hold is not there", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attach(t, s, ann, 1)
		attach(t, s, bob, 2)
		recordEvents(t, s, bob, anEvent(1, 2, now))
		if page := eventPage(t, s, ann, ports.EventQuery{Limit: 50}); page.Total != 0 || len(page.Events) != 0 {
			t.Fatalf("%+v", page)
		}
		_, foreign := s.Events(t.Context(), ann, ports.EventQuery{Tenant: guid(2), Limit: 50})
		_, unknown := s.Events(t.Context(), ann, ports.EventQuery{Tenant: guid(9), Limit: 50})
		same(t, "events of a tenant", foreign, unknown)
		if !errors.Is(foreign, fault.TenantNotFound) {
			t.Fatal(foreign)
		}
	}},
	{"events stay when their tenant goes", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		recordEvents(t, s, ann, anEvent(1, 1, now))
		must(t, "delete", s.DeleteTenant(t.Context(), ann, guid(1)))
		if page := eventPage(t, s, ann, ports.EventQuery{Limit: 50}); page.Total != 1 {
			t.Fatalf("%+v", page)
		}
	}},
	{"whole days are dropped, with their counts", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		all := logOf(t, s, ann)
		attach(t, s, bob, 9)
		recordEvents(t, s, bob, anEvent(1, 9, all[0].At))
		before := all[200].At.Add(-time.Minute)
		cut := before.Truncate(24 * time.Hour)
		left := slices.DeleteFunc(slices.Clone(all), func(e sendlimit.Event) bool { return e.At.Before(cut) })
		if len(left) == len(all) || len(left) == 0 {
			t.Fatal("the log has nothing to drop, or nothing to keep")
		}
		n, err := s.DropEvents(t.Context(), before)
		must(t, "drop", err)
		if want := len(all) - len(left) + 1; n != want {
			t.Fatalf("%d dropped, want %d", n, want)
		}
		for _, q := range []ports.EventQuery{{Limit: 200}, {Limit: 200, Tenant: guid(2), Action: sendlimit.Blocked, Offset: 3}} {
			if diff := compare.Diff(plainly(left, q), eventPage(t, s, ann, q)); diff != "" {
				t.Fatalf("%+v (-want +got):\n%s", q, diff)
			}
		}
		again, err := s.DropEvents(t.Context(), before)
		must(t, "drop again", err)
		if again != 0 {
			t.Fatalf("%d dropped twice", again)
		}
	}},
}
