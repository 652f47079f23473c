// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
)

// refreshDue claims due refreshes and returns their ids.
func refreshDue(t testing.TB, s Stores, before, at time.Time, most int) (ids []string) {
	t.Helper()
	all, err := s.DueRefreshes(t.Context(), before, at, most)
	must(t, "due refreshes", err)
	for _, i := range all {
		ids = append(ids, i.ID)
	}
	return ids
}

func (h sending) refresh(t testing.TB, s Stores, i integration.Integration, began time.Time, connections ...integration.Connection) int {
	t.Helper()
	stored, err := s.SaveRefresh(t.Context(), h.owner, i, began, connections)
	must(t, "save refresh", err)
	return stored
}

var refreshChecks = []storeCheck{
	{"refreshes are due longest ago first, as many as asked for, and each is handed out once", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		for n := 1; n <= 4; n++ {
			owner := ann
			if n%2 == 0 {
				owner = bob
			}
			addIntegration(t, s, owner, n)
		}
		hours := func(n int) time.Time { return now.Add(time.Duration(n) * time.Hour) }
		inOrder(t, "never refreshed", refreshDue(t, s, now, hours(1), 2), integrationID(1), integrationID(2))
		inOrder(t, "the others", refreshDue(t, s, now, hours(2), 9), integrationID(3), integrationID(4))
		inOrder(t, "all began", refreshDue(t, s, hours(1), hours(3), 9))
		inOrder(t, "the first", refreshDue(t, s, hours(1).Add(time.Microsecond), hours(9), 1), integrationID(1))
		inOrder(t, "the rest", refreshDue(t, s, hours(9), hours(9), 9), integrationID(2), integrationID(3), integrationID(4))
		got, err := s.DueRefreshes(t.Context(), hours(10), hours(10), 1)
		must(t, "due", err)
		want := anIntegration(ann, 1)
		if diff := cmp.Diff([]integration.Integration{want}, got); diff != "" {
			t.Fatalf("not as it is stored (-want +got):\n%s", diff)
		}
		kept(t, s, want, 1)
	}},
	{"of many who ask at once each gets others", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		for n := range 10 {
			addIntegration(t, s, ann, n)
			addIntegration(t, s, bob, 100+n)
		}
		got := make([][]integration.Integration, crowd)
		for _, err := range atOnce(crowd, func(n int) (err error) {
			got[n], err = s.DueRefreshes(t.Context(), now, now.Add(time.Hour), 3)
			return err
		}) {
			must(t, "due", err)
		}
		handed := map[string]int{}
		for _, some := range got {
			for _, i := range some {
				handed[i.ID]++
			}
		}
		for id, n := range handed {
			if n != 1 {
				t.Fatalf("%s was handed out %d times", id, n)
			}
		}
		if len(handed) != 20 {
			t.Fatalf("%d were handed out", len(handed))
		}
	}},
	{"accounts without an active plan are not refreshed", func(t testing.TB, s Stores) {
		ann, bob, eve := newAccount(t, s, "ann"), newAccount(t, s, "bob"), newAccount(t, s, "eve")
		addIntegration(t, s, ann, 1)
		addIntegration(t, s, bob, 2)
		addIntegration(t, s, eve, 3)
		_, err := s.SetActive(t.Context(), ann, false)
		must(t, "suspend", err)
		closeAccount(t, s, eve)
		inOrder(t, "due", refreshDue(t, s, now, now, 9), integrationID(2))
		_, err = s.SetActive(t.Context(), ann, true)
		must(t, "resume", err)
		inOrder(t, "due", refreshDue(t, s, now, now, 9), integrationID(1))
	}},
	{"a refresh that was asked for counts as begun", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		h.refresh(t, s, h.one, now.Add(time.Hour))
		inOrder(t, "before it", refreshDue(t, s, now.Add(time.Hour), now.Add(2*time.Hour), 9), h.two.ID)
		h.refresh(t, s, h.two, now) // it took long: another has begun meanwhile
		inOrder(t, "before the other", refreshDue(t, s, now.Add(2*time.Hour), now.Add(2*time.Hour), 9), h.one.ID)
	}},
	{"a refresh stores the integration and what it showed", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		was := h.connect(t, s, h.one, 0, integration.ConnectionConnected)
		seen := h.connection(h.one, 0, integration.ConnectionFailed)
		seen.ID, seen.AccountID, seen.AccountAddress, seen.AccountName, seen.Reason = connectionID(7), "other", "o@b.test", "", "other"
		seen.ConnectedAt, seen.UpdatedAt = time.Time{}, now.Add(time.Minute)
		fresh := h.connection(h.one, 1, integration.ConnectionConnected)
		after := retested(h.one)
		if n := h.refresh(t, s, after, was.UpdatedAt, seen, fresh); n != 2 {
			t.Fatalf("%d were stored", n)
		}
		seen.ID = was.ID
		h.stands(t, "seen", s, h.one, 0, seen)
		h.stands(t, "new", s, h.one, 1, fresh)
		after.Provider, after.Name, after.Given, after.CreatedAt = h.one.Provider, h.one.Name, h.one.Given, h.one.CreatedAt
		kept(t, s, after, 10)
	}},
	{"a refresh leaves what changed since it began, what another holds and what went, and stores the rest", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		more := addDomain(t, s, h.owner, guid(1), "more.test")
		for _, local := range []string{"a", "b", "c"} {
			h.boxes = append(h.boxes, addMailbox(t, s, h.owner, more, local, mailbox.Ready))
		}
		changed := h.connect(t, s, h.one, 0, integration.ConnectionDisconnecting)
		theirs := h.connect(t, s, h.two, 1, integration.ConnectionPending)
		former := h.connect(t, s, h.two, 2, integration.ConnectionDisconnected)
		held := h.connect(t, s, h.two, 3, integration.ConnectionOther)
		gone := h.connection(h.one, 0, integration.ConnectionConnected)
		gone.MailboxID = unknownMailbox
		foreign := gone
		foreign.MailboxID = newSending(t, s, "bob", 2).boxes[0].ID
		stored := h.refresh(t, s, h.one, changed.UpdatedAt.Add(-time.Microsecond), gone, foreign,
			h.connection(h.one, 0, integration.ConnectionConnected), h.connection(h.one, 1, integration.ConnectionConnected),
			h.connection(h.one, 2, integration.ConnectionConnected), h.connection(h.one, 3, integration.ConnectionFailed),
			h.connection(h.one, 4, integration.ConnectionFailed), h.connection(h.one, 4, integration.ConnectionConnected))
		if stored != 2 {
			t.Fatalf("%d were stored", stored)
		}
		h.stands(t, "changed", s, h.one, 0, changed)
		h.stands(t, "held elsewhere, and refused", s, h.one, 1, integration.Connection{})
		h.stands(t, "held elsewhere", s, h.two, 1, theirs)
		h.stands(t, "free elsewhere", s, h.one, 2, h.connection(h.one, 2, integration.ConnectionConnected))
		h.stands(t, "free there", s, h.two, 2, former)
		h.stands(t, "failed here", s, h.one, 3, integration.Connection{})
		h.stands(t, "and held there", s, h.two, 3, held)
		h.stands(t, "told twice", s, h.one, 4, h.connection(h.one, 4, integration.ConnectionConnected))
	}},
	{"a refresh and sessions elsewhere at the same time share the mailboxes", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		for n := range 4 {
			d := addDomain(t, s, h.owner, guid(1), []string{"a.test", "b.test", "c.test", "e.test"}[n])
			for _, local := range []string{"a", "b", "c"} {
				h.boxes = append(h.boxes, addMailbox(t, s, h.owner, d, local, mailbox.Ready))
			}
		}
		var seen []integration.Connection
		for box := range h.boxes {
			seen = append(seen, h.connection(h.one, box, integration.ConnectionConnected))
		}
		errs := atOnce(len(h.boxes)+2, func(n int) error {
			if n >= len(h.boxes) {
				_, err := s.SaveRefresh(t.Context(), h.owner, h.one, now, seen)
				return err
			}
			return s.BeginSession(t.Context(), h.owner, aSession(h.two, h.boxes[n], n), connectionID(5000+n), now)
		})
		must(t, "a refresh", errs[len(h.boxes)])
		must(t, "the other refresh", errs[len(h.boxes)+1])
		begun := winners(t, errs[:len(h.boxes)], fault.ConnectedElsewhere)
		counted(t, s, h.owner, h.two.ID, integration.Counts{Total: begun, Pending: begun})
		counted(t, s, h.owner, h.one.ID, integration.Counts{Total: len(h.boxes) - begun, Connected: len(h.boxes) - begun})
	}},
}
