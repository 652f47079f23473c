// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
)

// sessionEndChecks are of how sessions go on and end.
var sessionEndChecks = []storeCheck{
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
