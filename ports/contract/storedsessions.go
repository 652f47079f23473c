// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
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
	{"a session makes a connection pending and clears its error, unless it is connected", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		for n, status := range everyStatus {
			want := h.connect(t, s, h.one, 0, status)
			x := h.begin(t, s, h.one, 0, n+1)
			if status != integration.ConnectionConnected {
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
			name         string
			opened       bool
			begins       time.Time // the new one
			stale        time.Time
			makesItOver  bool
			lookedAtOnce time.Time
		}{
			{"one that was opened", true, minutes(9), minutes(9), false, time.Time{}},
			{"one that was opened, at its end", true, minutes(10).Add(2 * time.Second), minutes(0), true, time.Time{}},
			{"one that is being opened", false, minutes(1), now.Add(3 * time.Second), false, time.Time{}},
			{"one that was never opened", false, minutes(1), now.Add(4 * time.Second).Add(time.Microsecond), true, time.Time{}},
			{"one that was never opened, past its end", false, minutes(11), minutes(0), true, time.Time{}},
		} {
			n++
			was := h.begin(t, s, h.one, 0, n)
			was.Opened = tt.opened
			if n == 2 {
				was.ExpiresAt = minutes(10).Add(2 * time.Second)
			}
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
	{"a session changes while it is pending and never after", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		x := h.begin(t, s, h.one, 0, 1)
		opened := signedIn(x)
		opened.Status = integration.SessionPending
		holds(t, "open", true)(s.SaveSession(t.Context(), h.owner, opened, nil))
		h.inSession(t, "opened", s, opened)
		done := signedIn(x)
		c := h.connection(h.one, 0, integration.ConnectionConnected)
		holds(t, "end", true)(s.SaveSession(t.Context(), h.owner, done, &c))
		c.ID = connectionID(1)
		for _, status := range []integration.SessionStatus{integration.SessionPending, integration.SessionFailed} {
			late, gone := opened, h.connection(h.one, 0, integration.ConnectionFailed)
			late.Status = status
			holds(t, "save after the end", false)(s.SaveSession(t.Context(), h.owner, late, &gone))
			h.inSession(t, "ended", s, done)
			h.stands(t, "its connection", s, h.one, 0, c)
		}
	}},
	{"a session that would connect what another integration holds stores nothing", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		x := h.begin(t, s, h.one, 0, 1)
		here := h.connection(h.one, 0, integration.ConnectionDisconnected)
		here.ID = connectionID(1)
		h.refresh(t, s, h.one, now.Add(time.Hour), here) // the account went, and so the mailbox is free
		there := h.connect(t, s, h.two, 0, integration.ConnectionConnected)
		c := h.connection(h.one, 0, integration.ConnectionConnected)
		_, err := s.SaveSession(t.Context(), h.owner, signedIn(x), &c)
		refused(t, "connect", err, fault.ConnectedElsewhere)
		h.inSession(t, "the session", s, x)
		h.stands(t, "here", s, h.one, 0, here)
		h.stands(t, "there", s, h.two, 0, there)
		failed := h.connection(h.one, 0, integration.ConnectionFailed)
		holds(t, "fail", true)(s.SaveSession(t.Context(), h.owner, signedIn(x), &failed))
		h.stands(t, "there", s, h.two, 0, there)
	}},
	{"of many ends of a session one counts", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		x := h.begin(t, s, h.one, 0, 1)
		won := make([]bool, crowd)
		for _, err := range atOnce(crowd, func(n int) (err error) {
			won[n], err = s.SaveSession(t.Context(), h.owner, signedIn(x), nil)
			return err
		}) {
			must(t, "end", err)
		}
		if n := count(won); n != 1 {
			t.Fatalf("%d ended it", n)
		}
	}},
	{"of many who would look at a session one does, and none once it has ended", func(t testing.TB, s Stores) {
		h, bob := newSending(t, s, "ann", 1), newSending(t, s, "bob", 2)
		x := h.begin(t, s, h.one, 0, 1)
		seconds := func(n int) time.Time { return now.Add(time.Duration(n) * time.Second) }
		look := func(since, at int) (bool, error) {
			return s.TakeLook(t.Context(), h.owner, x.ID, seconds(since), seconds(at))
		}
		taken := make([]bool, crowd)
		for _, err := range atOnce(crowd, func(n int) (err error) {
			taken[n], err = look(7, 10)
			return err
		}) {
			must(t, "look", err)
		}
		if n := count(taken); n != 1 {
			t.Fatalf("%d looked", n)
		}
		x.LookedAt = seconds(10)
		h.inSession(t, "looked at", s, x)
		holds(t, "look too early", false)(look(9, 12))
		h.inSession(t, "looked at", s, x)
		holds(t, "look later", true)(look(10, 13))
		holds(t, "look of another", false)(s.TakeLook(t.Context(), bob.owner, x.ID, seconds(20), seconds(23)))
		holds(t, "look at nothing", false)(s.TakeLook(t.Context(), h.owner, "x", seconds(20), seconds(23)))
		holds(t, "end", true)(s.SaveSession(t.Context(), h.owner, signedIn(x), nil))
		holds(t, "look after the end", false)(look(10000, 10003))
		h.inSession(t, "ended", s, signedIn(x))
	}},
	{"sessions that are over are listed oldest first, of all accounts, while they are pending", func(t testing.TB, s Stores) {
		ann, bob := newSending(t, s, "ann", 1), newSending(t, s, "bob", 2)
		third, first := ann.begin(t, s, ann.one, 0, 3), ann.begin(t, s, ann.two, 1, 1)
		second, ended := bob.begin(t, s, bob.one, 0, 2), bob.begin(t, s, bob.one, 1, 4)
		first.Opened = true
		holds(t, "open", true)(s.SaveSession(t.Context(), ann.owner, first, nil))
		holds(t, "end", true)(s.SaveSession(t.Context(), bob.owner, signedIn(ended), nil))
		for _, tt := range []struct {
			before time.Time
			most   int
			want   []integration.Session
		}{
			{now.Add(time.Hour), 9, []integration.Session{first, second, third}},
			{now.Add(time.Hour), 2, []integration.Session{first, second}},
			{second.ExpiresAt, 9, []integration.Session{first}},
			{second.ExpiresAt.Add(time.Microsecond), 9, []integration.Session{first, second}},
			{now, 9, nil},
		} {
			got, err := s.PendingSessions(t.Context(), tt.before, tt.most)
			must(t, "list", err)
			var sessions []integration.Session
			for _, x := range got {
				if owner := map[bool]sending{true: bob, false: ann}[x.Session.ID == second.ID].owner; x.Account != owner {
					t.Fatalf("%s belongs to %q", x.Session.ID, x.Account)
				}
				sessions = append(sessions, x.Session)
			}
			if diff := cmp.Diff(tt.want, sessions); diff != "" {
				t.Fatalf("before %s, at most %d (-want +got):\n%s", tt.before, tt.most, diff)
			}
		}
	}},
	{"a session commits the answer that tells of it, or is refused with it", func(t testing.TB, s Stores) {
		h := newSending(t, s, "ann", 1)
		x, y := h.begin(t, s, h.one, 0, 1), h.begin(t, s, h.one, 1, 2)
		c := h.connection(h.one, 1, integration.ConnectionConnected)
		pending := h.connected(t, s, h.one, 1)
		committed(t, s, h.owner, map[string]func(ctx context.Context) error{
			"alone": func(ctx context.Context) error {
				_, err := s.SaveSession(ctx, h.owner, signedIn(x), nil)
				return err
			},
			"with its connection": func(ctx context.Context) error {
				_, err := s.SaveSession(ctx, h.owner, signedIn(y), &c)
				return err
			},
		}, func() {
			h.inSession(t, "alone", s, x)
			h.inSession(t, "with its connection", s, y)
			h.stands(t, "its connection", s, h.one, 1, pending)
		})
		late := claimOf(h.owner, 99)
		holds(t, "save after the end", false)(s.SaveSession(completing(t, late, claimed(t, s, late)), h.owner, x, nil))
		if r := remembered(t, s, late.Place); r.Answer != nil {
			t.Fatalf("an answer is stored for nothing: %+v", r)
		}
	}},
}

// every is each nth of a list, from the one at that place on.
func every[T any](all []T, n, from int) (some []T) {
	for i := from; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some
}
