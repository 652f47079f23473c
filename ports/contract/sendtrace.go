// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
)

var traceChecks = []check{
	{"every message is told, whatever the pages", func(t testing.TB, w World) {
		s := senders(t, w, Setup{TracePage: 7})
		for i, box := range s.boxes {
			w.Send(t, s.who.GUID, box, 5+i)
		}
		got := counts(s.read(t, w))
		for i, box := range s.boxes {
			if got[box] != 5+i {
				t.Fatalf("%s sent %d, want %d", box, got[box], 5+i)
			}
		}
	}},
	{"nothing was sent", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		if got := s.read(t, w); len(got) != 0 {
			t.Fatalf("got %+v", got)
		}
	}},
	{"what others sent is not told", func(t testing.TB, w World) {
		s := senders(t, w, Setup{TracePage: 7})
		for i, box := range s.boxes {
			w.Send(t, s.who.GUID, box, 5+i)
		}
		all := s.boxes
		for what, asked := range map[string][]string{
			"one": all[1:2], "two": {strings.ToUpper(all[2]), all[0]}, "nobody": nil, "who is not there": {"nobody@" + s.domain},
		} {
			s.boxes = asked
			sent := s.read(t, w)
			for _, m := range sent {
				if !slices.ContainsFunc(asked, func(box string) bool { return strings.EqualFold(box, m.Sender) }) {
					t.Fatalf("asked for %s, told of %+v", what, m)
				}
			}
			for i, box := range all {
				want := 0
				if slices.ContainsFunc(asked, func(one string) bool { return strings.EqualFold(one, box) }) {
					want = 5 + i
				}
				if got := counts(sent)[box]; got != want {
					t.Fatalf("asked for %s: %s sent %d, want %d", what, box, got, want)
				}
			}
		}
	}},
	{"a span has its beginning and not its end", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		began := w.Now(t)
		w.Send(t, s.who.GUID, s.boxes[0], 2)
		sent := s.read(t, w)
		if now := w.Now(t); len(sent) == 0 || !sentWithin(sent[0].At, began, now) {
			t.Fatalf("the trace shows %+v, want messages between %s and %s", sent, began, now)
		}
		at := sent[0].At
		for what, tt := range map[string]struct {
			from, to time.Time
			want     int
		}{
			"at its beginning": {at, at.Add(time.Second), 2},
			"at its end":       {at.Add(-time.Hour), at, 0},
			"before it":        {at.Add(time.Millisecond), at.Add(time.Hour), 0},
		} {
			page, err := s.client.Sent(call(t), s.from(tt.from, tt.to))
			must(t, "sent", err)
			if got := counts(page.Sent)[s.boxes[0]]; got != tt.want {
				t.Fatalf("%s: %d messages, want %d", what, got, tt.want)
			}
		}
	}},
	{"messages show late, at their own time", func(t testing.TB, w World) {
		s := senders(t, w, Setup{TraceLag: time.Hour})
		began := w.Now(t)
		w.Send(t, s.who.GUID, s.boxes[0], 3)
		ended := w.Now(t)
		if got := s.read(t, w); len(got) != 0 {
			t.Fatalf("at once: %+v", got)
		}
		w.Advance(t, 2*time.Hour)
		got := s.read(t, w)
		if counts(got)[s.boxes[0]] != 3 || !sentWithin(got[0].At, began, ended) {
			t.Fatalf("the trace shows %+v, want messages between %s and %s", got, began, ended)
		}
	}},
	{"what a rule stopped was not sent", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		s.blocks(t, s.domain, true, s.boxes[0])
		for _, box := range s.boxes {
			w.Send(t, s.who.GUID, box, 2)
		}
		if got := counts(s.read(t, w)); got[s.boxes[0]] != 0 || got[s.boxes[1]] != 2 || got[s.boxes[2]] != 2 {
			t.Fatalf("sent %v", got)
		}
	}},
	{"a trace that cannot be had is not empty", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		for how, kind := range map[Failure]outcome.Kind{Throttles: outcome.Throttled, IsDown: outcome.Down, Breaks: outcome.Broken} {
			lift := w.Fail(t, s.who.GUID, "Sent", how)
			_, err := s.client.Sent(call(t), s.from(w.Now(t).Add(-time.Hour), w.Now(t)))
			lift()
			ended(t, "sent", err, kind)
		}
		w.Revoke(t, s.who.GUID, GrantExchangeRole)
		_, err := s.client.Sent(call(t), s.from(w.Now(t).Add(-time.Hour), w.Now(t)))
		refused(t, "sent", err, fault.AccessDenied)
	}},
	{"a cursor that is none is refused", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		q := s.from(w.Now(t).Add(-time.Hour), w.Now(t))
		q.Cursor = "no cursor"
		_, err := s.client.Sent(call(t), q)
		ended(t, "sent", err, outcome.Refused)
	}},
}

// from asks for what all mailboxes sent in a span.
func (s sendingTenant) from(from, to time.Time) sendlimit.TraceQuery {
	return sendlimit.TraceQuery{From: from, To: to, Senders: s.boxes}
}

// read reads the trace of the last day to its end.
func (s sendingTenant) read(t testing.TB, w World) []sendlimit.Sent {
	t.Helper()
	to := w.Now(t).Add(time.Minute)
	return s.all(t, s.from(to.Add(-24*time.Hour), to))
}

// all is the whole answer to a query.
func (s sendingTenant) all(t testing.TB, q sendlimit.TraceQuery) (all []sendlimit.Sent) {
	t.Helper()
	for pages := 0; ; pages++ {
		page, err := s.client.Sent(call(t), q)
		must(t, "sent", err)
		all = append(all, page.Sent...)
		if page.Next == "" {
			return all
		}
		if q.Cursor = page.Next; pages > 200 {
			t.Fatalf("the trace never ends")
		}
	}
}

// counts counts messages by sender, each once.
func counts(sent []sendlimit.Sent) map[string]int {
	out, seen := map[string]int{}, map[string]bool{}
	for _, m := range sent {
		if !m.Refused && !seen[m.Message] {
			out[m.Sender]++
		}
		seen[m.Message] = true
	}
	return out
}

// sentWithin reports whether at is between two times of the platform's clock, give or
// take a minute.
func sentWithin(at, from, to time.Time) bool {
	return at.After(from.Add(-time.Minute)) && at.Before(to.Add(time.Minute))
}
