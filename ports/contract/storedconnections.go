// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
)

func connectionID(n int) string { return fmt.Sprintf("60000000-0000-7000-8000-%012d", n) }

// sending is an account with two mailboxes and two integrations.
type sending struct {
	owner    access.AccountID
	d        domain.Domain
	boxes    []mailbox.Mailbox
	one, two integration.Integration
}

// newSending is the nth account; its ids are its own, and no other's.
func newSending(t testing.TB, s Stores, name string, n int) sending {
	t.Helper()
	h := sending{owner: newAccount(t, s, name)}
	h.d = addDomain(t, s, h.owner, attach(t, s, h.owner, n).GUID, name+".test")
	for _, local := range []string{"sales", "support"} {
		h.boxes = append(h.boxes, addMailbox(t, s, h.owner, h.d, local, mailbox.Ready))
	}
	h.one, h.two = addIntegration(t, s, h.owner, 10*n), addIntegration(t, s, h.owner, 10*n+1)
	return h
}

// connection is one of a mailbox, with something in every field.
func (h sending) connection(i integration.Integration, box int, status integration.ConnectionStatus) integration.Connection {
	return integration.Connection{
		ID: connectionID(100*int(i.CreatedAt.Sub(now)/time.Second) + box), IntegrationID: i.ID, MailboxID: h.boxes[box].ID, Status: status,
		AccountID: "account-" + hostile, AccountAddress: "Sales@ann.test", AccountName: hostile,
		HasError: status == integration.ConnectionFailed, Reason: hostile, ConnectedAt: now.Add(time.Minute), UpdatedAt: now,
	}
}

// connect makes a mailbox's connection stand like that, whatever it was.
func (h sending) connect(t testing.TB, s Stores, i integration.Integration, box int, status integration.ConnectionStatus) integration.Connection {
	t.Helper()
	want := h.connection(i, box, status)
	was := h.connected(t, s, i, box)
	if was.ID != "" {
		want.ID = was.ID
	}
	holds(t, "connect", true)(s.SaveConnection(t.Context(), h.owner, want, was.UpdatedAt))
	return want
}

// connected is a mailbox's connection as it is stored.
func (h sending) connected(t testing.TB, s Stores, i integration.Integration, box int) integration.Connection {
	t.Helper()
	e, err := s.EligibleMailbox(t.Context(), h.owner, i.ID, h.boxes[box].ID)
	must(t, "find eligible mailbox", err)
	return e.Connection
}

func (h sending) stands(t testing.TB, what string, s Stores, i integration.Integration, box int, want integration.Connection) {
	t.Helper()
	if diff := cmp.Diff(want, h.connected(t, s, i, box)); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func counted(t testing.TB, s Stores, owner access.AccountID, id string, want integration.Counts) {
	t.Helper()
	got, err := s.ConnectionCounts(t.Context(), owner, id)
	must(t, "count", err)
	if got != want {
		t.Fatalf("counted %+v, want %+v", got, want)
	}
}

// everyStatus are the statuses of connections.
var everyStatus = []integration.ConnectionStatus{
	integration.ConnectionPending, integration.ConnectionConnected, integration.ConnectionFailed,
	integration.ConnectionDisconnected, integration.ConnectionDisconnecting, integration.ConnectionOther,
}

var connectionChecks = []storeCheck{
	{"connections are counted by status, and other is what is none of the four", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		counted(t, s, h.owner, h.one.ID, integration.Counts{})
		more := addDomain(t, s, h.owner, guid(1), "more.test")
		for _, local := range []string{"a", "b", "c"} {
			h.boxes = append(h.boxes, addMailbox(t, s, h.owner, more, local, mailbox.Ready))
		}
		h.boxes = append(h.boxes, addMailbox(t, s, h.owner, h.d, "z", mailbox.Ready))
		for n, status := range everyStatus {
			h.connect(t, s, h.one, n, status)
		}
		h.connect(t, s, h.two, 3, integration.ConnectionConnected)
		counted(t, s, h.owner, h.one.ID, integration.Counts{
			Total: 6, Connected: 1, Pending: 1, Failed: 1, Disconnected: 1, Other: 2, HasErrors: true,
		})
		counted(t, s, h.owner, h.two.ID, integration.Counts{Total: 1, Connected: 1})
		counted(t, s, newAccount(t, s, "bob"), h.one.ID, integration.Counts{})
	}},
	{"a connection is saved only as long as it is as it was", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		first := h.connect(t, s, h.one, 0, integration.ConnectionConnected)
		h.stands(t, "stored", s, h.one, 0, first)
		again := first
		again.ID, again.Status, again.UpdatedAt = connectionID(7), integration.ConnectionFailed, now.Add(time.Second)
		for _, before := range []time.Time{{}, now.Add(-time.Second), again.UpdatedAt} {
			holds(t, "save of another state", false)(s.SaveConnection(t.Context(), h.owner, again, before))
			h.stands(t, "not saved", s, h.one, 0, first)
		}
		again.AccountID, again.AccountAddress, again.AccountName, again.HasError, again.Reason = "", "", "", true, ""
		again.ConnectedAt = time.Time{}
		holds(t, "save", true)(s.SaveConnection(t.Context(), h.owner, again, first.UpdatedAt))
		again.ID = first.ID // there is one for each integration and mailbox
		h.stands(t, "saved", s, h.one, 0, again)
		holds(t, "save of one that is not there", false)(s.SaveConnection(t.Context(), h.owner, h.connection(h.one, 1, integration.ConnectionFailed), now))
		holds(t, "save of a foreign one", false)(s.SaveConnection(t.Context(), newAccount(t, s, "bob"), again, again.UpdatedAt))
	}},
	{"one integration holds a mailbox, whichever status it has there", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		for _, here := range everyStatus {
			h.connect(t, s, h.two, 0, integration.ConnectionDisconnected)
			before := h.connect(t, s, h.one, 0, here)
			was := h.connected(t, s, h.two, 0)
			for _, there := range everyStatus {
				what := fmt.Sprintf("%s here, %s there", here, there)
				saved, err := s.SaveConnection(t.Context(), h.owner, h.connection(h.two, 0, there), was.UpdatedAt)
				if here.Held() && there.Held() {
					refused(t, what, err, fault.ConnectedElsewhere)
					h.stands(t, what, s, h.two, 0, was)
				} else {
					holds(t, what, true)(saved, err)
					h.connect(t, s, h.two, 0, integration.ConnectionDisconnected)
				}
				h.stands(t, what, s, h.one, 0, before)
			}
			h.connect(t, s, h.one, 0, integration.ConnectionDisconnected)
		}
	}},
	{"of many who connect a mailbox at two integrations one wins", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		won := make([]bool, crowd)
		winners(t, atOnce(crowd, func(n int) (err error) {
			i := []integration.Integration{h.one, h.two}[n%2]
			won[n], err = s.SaveConnection(t.Context(), h.owner, h.connection(i, 0, everyStatus[n%2]), time.Time{})
			return err
		}), fault.ConnectedElsewhere)
		if n := count(won); n != 1 {
			t.Fatalf("%d won", n)
		}
	}},
	{"who disconnects a mailbox ends its session", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		x, other := h.begin(t, s, h.one, 0, 1), h.begin(t, s, h.one, 1, 2)
		for _, status := range []integration.ConnectionStatus{integration.ConnectionDisconnecting, integration.ConnectionFailed} {
			h.connect(t, s, h.one, 0, status)
			h.inSession(t, string(status), s, x)
		}
		h.connect(t, s, h.one, 0, integration.ConnectionDisconnected)
		x.Status, x.Reason = integration.SessionFailed, "disconnected"
		h.inSession(t, "ended", s, x)
		h.inSession(t, "of the other mailbox", s, other)
		h.begin(t, s, h.two, 0, 3)
	}},
	{"connections go with their mailbox and with their tenant", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		for box := range h.boxes {
			h.begin(t, s, h.one, box, box+1)
			h.connect(t, s, h.two, box, integration.ConnectionDisconnected)
		}
		rediscover(t, s, h, "found@ann.test", h.boxes[1].Address)
		counted(t, s, h.owner, h.one.ID, integration.Counts{Total: 1, Pending: 1})
		counted(t, s, h.owner, h.two.ID, integration.Counts{Total: 1, Disconnected: 1})
		_, err := s.Session(t.Context(), h.owner, h.one.ID, h.boxes[0].ID, sessionID(1))
		refused(t, "its session", err, fault.SessionNotFound)
		must(t, "delete tenant", s.DeleteTenant(t.Context(), h.owner, guid(1)))
		counted(t, s, h.owner, h.one.ID, integration.Counts{})
		integrated(t, s, h.owner, h.two, h.one)
	}},
	{"connections commit the answer that tells of them, or are refused with it", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		was := h.connect(t, s, h.one, 0, integration.ConnectionConnected)
		next := was
		next.Status, next.UpdatedAt = integration.ConnectionDisconnecting, now.Add(time.Second)
		committed(t, s, h.owner, map[string]func(ctx context.Context) error{
			"another": func(ctx context.Context) error {
				_, err := s.SaveConnection(ctx, h.owner, next, was.UpdatedAt)
				return err
			},
			"a new one": func(ctx context.Context) error {
				_, err := s.SaveConnection(ctx, h.owner, h.connection(h.two, 1, integration.ConnectionFailed), time.Time{})
				return err
			},
		}, func() {
			h.stands(t, "the one", s, h.one, 0, was)
			h.stands(t, "the new one", s, h.two, 1, integration.Connection{})
		})
		c := claimOf(h.owner, 99)
		ctx := completing(t, c, claimed(t, s, c))
		holds(t, "save of a state of before", false)(s.SaveConnection(ctx, h.owner, was, was.UpdatedAt))
		if r := remembered(t, s, c.Place); r.Answer != nil {
			t.Fatalf("an answer is stored for nothing: %+v", r)
		}
	}},
}
