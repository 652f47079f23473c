// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// sending is what the store tells of the tenant at a moment.
func (w counting) sending(t testing.TB, s Stores, at time.Time) tenant.Sending {
	t.Helper()
	out, err := s.Sending(t.Context(), w.owner, w.guid, at)
	must(t, "sending", err)
	return out
}

func (w counting) has(t testing.TB, s Stores, want tenant.Sending) {
	t.Helper()
	if got := w.sending(t, s, later); got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

var sendRoomChecks = []storeCheck{
	{"licences come back as they were read last", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		w.has(t, s, tenant.Sending{})
		for _, read := range []struct {
			have tenant.Licenses
			at   time.Duration
			want tenant.Sending
		}{
			{tenant.Licenses{Paid: 25, Trial: 5}, 0, tenant.Sending{Licenses: tenant.Licenses{Paid: 25, Trial: 5}, LicensesAt: now}},
			{tenant.Licenses{Paid: 1}, time.Hour, tenant.Sending{Licenses: tenant.Licenses{Paid: 1}, LicensesAt: now.Add(time.Hour)}},
			{tenant.Licenses{Paid: 9}, time.Minute, tenant.Sending{Licenses: tenant.Licenses{Paid: 1}, LicensesAt: now.Add(time.Hour)}},
			{tenant.Licenses{}, 2 * time.Hour, tenant.Sending{LicensesAt: now.Add(2 * time.Hour)}},
		} {
			must(t, "save", s.SaveLicenses(t.Context(), w.owner, w.guid, read.have, now.Add(read.at)))
			w.has(t, s, read.want)
		}
	}},
	{"a tenant that is saved, or connected anew, keeps its licences", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		have := tenant.Licenses{Paid: 25}
		must(t, "save", s.SaveLicenses(t.Context(), w.owner, w.guid, have, now))
		held, err := s.Tenant(t.Context(), w.owner, w.guid)
		must(t, "tenant", err)
		must(t, "save tenant", s.SaveTenant(t.Context(), w.owner, held))
		_, err = s.Attach(t.Context(), w.owner, held, 100)
		must(t, "attach", err)
		w.has(t, s, tenant.Sending{Licenses: have, LicensesAt: now})
	}},
	{"what all mailboxes sent on the day is summed, and of no other day or tenant", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		others := countingOf(t, s, w.owner, 2)
		w.count(t, s, w.claim(t, s), 7)
		w.has(t, s, tenant.Sending{Today: 14, TodayAt: later.UTC().Truncate(time.Microsecond)})
		others.has(t, s, tenant.Sending{})
		for name, moment := range map[string]time.Time{
			"the day before": midnight.Add(-time.Microsecond), "the day after": midnight.Add(24 * time.Hour),
		} {
			if got := w.sending(t, s, moment); got.Today != 0 || !got.TodayAt.IsZero() {
				t.Fatalf("%+v on %s", got, name)
			}
		}
		if got := w.sending(t, s, midnight.Add(24*time.Hour-time.Microsecond)).Today; got != 14 {
			t.Fatalf("%d at the day's end", got)
		}
	}},
	{"a mailbox that was counted on an earlier day has sent none today", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		r := w.claim(t, s)
		w.count(t, s, r, 7)
		next := midnight.Add(24 * time.Hour)
		holds(t, "save counts", true)(s.SaveCounts(t.Context(), r, ports.SendCounts{
			Today: next, At: next.Add(time.Hour), Mark: next,
			Boxes: map[string][]sendlimit.Count{w.boxes[0].ID: {{Day: next, Recent: 3}}},
		}))
		if got := w.sending(t, s, next.Add(2*time.Hour)); got.Today != 3 || !got.TodayAt.Equal(next.Add(time.Hour)) {
			t.Fatalf("%+v, want 3 an hour into the day", got)
		}
		holds(t, "save counts", true)(s.SaveCounts(t.Context(), r, ports.SendCounts{
			Today: next, At: next.Add(2 * time.Hour), Mark: next,
			Boxes: map[string][]sendlimit.Count{w.boxes[1].ID: {{Day: next}}},
		}))
		if got := w.sending(t, s, next.Add(3*time.Hour)); got.Today != 3 || !got.TodayAt.Equal(next.Add(time.Hour)) {
			t.Fatalf("%+v, want the oldest count's time", got)
		}
	}},
	{"the day is the tenant's own", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		_, err := s.SetDay(t.Context(), w.guid, "Pacific/Auckland")
		must(t, "set day", err)
		w.count(t, s, w.claim(t, s), 7)
		auckland, err := sendlimit.Place("Pacific/Auckland")
		must(t, "place", err)
		day := sendlimit.DayOf(later, auckland)
		if within, after := w.sending(t, s, day.End.Add(-time.Second)).Today, w.sending(t, s, day.End).Today; within != 14 || after != 0 {
			t.Fatalf("%d within the day, %d after it", within, after)
		}
	}},
	{"another account's tenant is as unknown as one that is not there", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		bob := newAccount(t, s, "bob")
		foreign := s.SaveLicenses(t.Context(), bob, w.guid, tenant.Licenses{Paid: 9}, now)
		refused(t, "save", foreign, fault.TenantNotFound)
		same(t, "save", foreign, s.SaveLicenses(t.Context(), w.owner, noGUID, tenant.Licenses{Paid: 9}, now))
		_, foreign = s.Sending(t.Context(), bob, w.guid, later)
		refused(t, "sending", foreign, fault.TenantNotFound)
		_, unknown := s.Sending(t.Context(), w.owner, noGUID, later)
		same(t, "sending", foreign, unknown)
		w.has(t, s, tenant.Sending{})
	}},
	{"licences go with their tenant", func(t testing.TB, s Stores) {
		w := newCounting(t, s, "ann", 1)
		must(t, "save", s.SaveLicenses(t.Context(), w.owner, w.guid, tenant.Licenses{Paid: 9}, now))
		must(t, "delete", s.DeleteTenant(t.Context(), w.owner, w.guid))
		refused(t, "save", s.SaveLicenses(t.Context(), w.owner, w.guid, tenant.Licenses{Paid: 9}, now), fault.TenantNotFound)
		attach(t, s, w.owner, 1)
		w.has(t, s, tenant.Sending{})
	}},
}
