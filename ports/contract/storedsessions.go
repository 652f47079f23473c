// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
)

func sessionID(n int) string { return fmt.Sprintf("80000000-0000-7000-8000-%012d", n) }

// aSession is the nth one, begun n seconds after now and over ten minutes later.
func aSession(i integration.Integration, m mailbox.Mailbox, n int) integration.Session {
	at := now.Add(time.Duration(n) * time.Second)
	return integration.Session{
		ID: sessionID(n), IntegrationID: i.ID, MailboxID: m.ID, Status: integration.SessionPending,
		Before: hostile, CreatedAt: at, ExpiresAt: at.Add(10 * time.Minute),
	}
}

// begin begins the nth session of a mailbox.
func (h sending) begin(t testing.TB, s Stores, i integration.Integration, box, n int) integration.Session {
	t.Helper()
	x := aSession(i, h.boxes[box], n)
	must(t, "begin session", s.BeginSession(t.Context(), h.owner, x, connectionID(n), now))
	return x
}

// inSession checks a session as it is stored.
func (h sending) inSession(t testing.TB, what string, s Stores, want integration.Session) {
	t.Helper()
	got, err := s.Session(t.Context(), h.owner, want.IntegrationID, want.MailboxID, want.ID)
	must(t, what, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// signedIn is a session with another value in every field that may change.
func signedIn(x integration.Session) integration.Session {
	x.Status, x.Opened, x.PlatformID, x.Before = integration.SessionConnected, true, "platform-"+hostile, "stamp"
	x.AccountID, x.AccountAddress, x.AccountName, x.Reason = "account", "a@b.test", hostile, "reason"
	x.ExpiresAt, x.ConnectedAt, x.LookedAt = now.Add(time.Hour), now.Add(time.Minute), now.Add(2*time.Minute)
	return x
}

// sessionChecks are of how sessions begin and are found.
var sessionChecks = []storeCheck{
	{"a session is kept as it began, and its connection is pending", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		x := h.begin(t, s, h.one, 0, 1)
		h.inSession(t, "begun", s, x)
		h.stands(t, "the connection", s, h.one, 0, integration.Connection{
			ID: connectionID(1), IntegrationID: h.one.ID, MailboxID: h.boxes[0].ID, Status: integration.ConnectionPending, UpdatedAt: x.CreatedAt,
		})
		h.stands(t, "that of the other mailbox", s, h.one, 1, integration.Connection{})
	}},
	{"a session makes a connection pending and clears its error, unless it is connected or being disconnected", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		for n, status := range everyStatus {
			want := h.connect(t, s, h.one, 0, status)
			x := h.begin(t, s, h.one, 0, n+1)
			if status != integration.ConnectionConnected && status != integration.ConnectionDisconnecting {
				want.Status, want.HasError, want.Reason, want.UpdatedAt = integration.ConnectionPending, false, "", x.CreatedAt
			}
			h.stands(t, string(status), s, h.one, 0, want)
			x.Status = integration.SessionFailed
			holds(t, "end", true)(s.SaveSession(t.Context(), h.owner, x, nil))
		}
	}},
	{"one session of a mailbox is pending at an integration, until it is over or was never opened", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		minutes := func(n int) time.Time { return now.Add(time.Duration(n) * time.Minute) }
		for n, tt := range []struct {
			name        string
			opened      bool
			begins      time.Time // the new one
			stale       time.Time
			makesItOver bool
		}{
			{"one that was opened", true, minutes(9), minutes(9), false},
			{"one that was opened, at its end", true, minutes(10).Add(2 * time.Second), minutes(0), true},
			{"one that is being opened", false, minutes(1), now.Add(3 * time.Second), false},
			{"one that was never opened", false, minutes(1), now.Add(4 * time.Second).Add(time.Microsecond), true},
			{"one that was never opened, past its end", false, minutes(11), minutes(0), true},
		} {
			n++ // the seconds that the session of before began, and ends, late
			was := h.begin(t, s, h.one, 0, n)
			was.Opened = tt.opened
			holds(t, tt.name, true)(s.SaveSession(t.Context(), h.owner, was, nil))
			fresh := aSession(h.one, h.boxes[0], 10+n)
			fresh.CreatedAt, fresh.ExpiresAt = tt.begins, tt.begins.Add(time.Hour)
			err := s.BeginSession(t.Context(), h.owner, fresh, connectionID(9), tt.stale)
			if !tt.makesItOver {
				refused(t, tt.name, err, fault.SessionActive)
				h.inSession(t, tt.name, s, was)
				_, err = s.Session(t.Context(), h.owner, h.one.ID, h.boxes[0].ID, fresh.ID)
				refused(t, tt.name, err, fault.SessionNotFound)
				fresh = was
			} else {
				must(t, tt.name, err)
				was.Status = integration.SessionExpired
				h.inSession(t, tt.name, s, was)
				h.inSession(t, tt.name, s, fresh)
			}
			fresh.Status = integration.SessionFailed
			holds(t, "end", true)(s.SaveSession(t.Context(), h.owner, fresh, nil))
		}
	}},
	{"no session begins for a mailbox that another integration holds, and all stays as it was", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		h.begin(t, s, h.one, 1, 90) // of another mailbox: no hindrance
		for n, status := range everyStatus {
			there := h.connect(t, s, h.two, 0, status)
			here := h.connected(t, s, h.one, 0)
			x := aSession(h.one, h.boxes[0], n+1)
			err := s.BeginSession(t.Context(), h.owner, x, connectionID(n+1), now)
			h.stands(t, string(status), s, h.two, 0, there)
			if !status.Held() {
				must(t, string(status), err)
				x.Status = integration.SessionFailed
				c := h.connection(h.one, 0, integration.ConnectionDisconnected)
				holds(t, "end", true)(s.SaveSession(t.Context(), h.owner, x, &c))
				continue
			}
			refused(t, string(status), err, fault.ConnectedElsewhere)
			h.stands(t, string(status), s, h.one, 0, here)
			_, err = s.Session(t.Context(), h.owner, h.one.ID, h.boxes[0].ID, x.ID)
			refused(t, string(status), err, fault.SessionNotFound)
		}
	}},
	{"of many sessions of a mailbox at two integrations at once one begins", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		both := []integration.Integration{h.one, h.two}
		begun := make([]bool, crowd)
		for n, err := range atOnce(crowd, func(n int) error {
			return s.BeginSession(t.Context(), h.owner, aSession(both[n%2], h.boxes[0], n), connectionID(n), now)
		}) {
			begun[n] = err == nil
			if err != nil && !errors.Is(err, fault.ConnectedElsewhere) && !errors.Is(err, fault.SessionActive) {
				t.Fatalf("%d: %v", n, err)
			}
		}
		if n := count(begun); n != 1 {
			t.Fatalf("%d began", n)
		}
		for n, i := range both {
			pending := h.connected(t, s, i, 0).Status == integration.ConnectionPending
			if won := begun[n] || count(every(begun, 2, n)) == 1; pending != won {
				t.Fatalf("pending at %d: %v", n, pending)
			}
		}
		all, err := s.PendingSessions(t.Context(), now.Add(time.Hour), crowd)
		must(t, "pending", err)
		if len(all) != 1 {
			t.Fatalf("%d are pending", len(all))
		}
	}},
	{"of many new sessions after one that is over one begins", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		h.begin(t, s, h.one, 0, 1)
		if n := winners(t, atOnce(crowd, func(n int) error {
			x := aSession(h.one, h.boxes[0], n+1000)
			return s.BeginSession(t.Context(), h.owner, x, connectionID(n), now)
		}), fault.SessionActive); n != 1 {
			t.Fatalf("%d began", n)
		}
	}},
	{"a session is found by its integration, mailbox and account alone", func(t testing.TB, s Stores) {
		h, bob := newSending(t, s, "ann", 1), newSending(t, s, "bob", 2)
		x := h.begin(t, s, h.one, 0, 1)
		find := func(owner sending, i integration.Integration, m mailbox.Mailbox, id string) error {
			_, err := s.Session(t.Context(), owner.owner, i.ID, m.ID, id)
			return err
		}
		must(t, "find", find(h, h.one, h.boxes[0], x.ID))
		unknown := find(h, h.one, h.boxes[0], sessionID(9))
		refused(t, "unknown", unknown, fault.SessionNotFound)
		same(t, "of another integration", find(h, h.two, h.boxes[0], x.ID), unknown)
		same(t, "of another mailbox", find(h, h.one, h.boxes[1], x.ID), unknown)
		same(t, "of another account", find(bob, h.one, h.boxes[0], x.ID), unknown)
		same(t, "nonsense", find(h, h.one, h.boxes[0], "x"), unknown)
		holds(t, "save of another account", false)(s.SaveSession(t.Context(), bob.owner, signedIn(x), nil))
		elsewhere := signedIn(x)
		elsewhere.MailboxID = h.boxes[1].ID
		holds(t, "save of another mailbox", false)(s.SaveSession(t.Context(), h.owner, elsewhere, nil))
		elsewhere = signedIn(x)
		elsewhere.IntegrationID = h.two.ID
		holds(t, "save of another integration", false)(s.SaveSession(t.Context(), h.owner, elsewhere, nil))
		h.inSession(t, "untouched", s, x)
	}},
}

// every is each nth of a list, from the one at that place on.
func every[T any](all []T, n, from int) (some []T) {
	for i := from; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some
}
