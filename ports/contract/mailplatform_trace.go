// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
)

var traceChecks = []mailCheck{
	{"mail/trace/every-message", "every message is returned, whatever the page size", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{TracePage: 7})
		for i, address := range sending.mailboxes {
			env.Send(t, sending.testTenant.GUID, address, 5+i)
		}
		got := countBySender(sending.readTrace(t, env))
		for i, address := range sending.mailboxes {
			if got[address] != 5+i {
				t.Fatalf("the trace shows %d messages of %s, want %d", got[address], address, 5+i)
			}
		}
	}},
	{"mail/trace/nothing-sent", "a trace without messages is empty", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		if got := sending.readTrace(t, env); len(got) != 0 {
			t.Fatalf("the trace shows %+v, want no messages", got)
		}
	}},
	{"mail/trace/senders", "messages of other senders are not returned", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{TracePage: 7})
		for i, address := range sending.mailboxes {
			env.Send(t, sending.testTenant.GUID, address, 5+i)
		}
		allMailboxes := sending.mailboxes
		for queried, senders := range map[string][]string{
			"one sender": allMailboxes[1:2], "two senders": {strings.ToUpper(allMailboxes[2]), allMailboxes[0]}, "no sender": nil, "an unknown mailbox": {"nobody@" + sending.domain},
		} {
			sending.mailboxes = senders
			sent := sending.readTrace(t, env)
			for _, message := range sent {
				if !slices.ContainsFunc(senders, func(address string) bool { return strings.EqualFold(address, message.Sender) }) {
					t.Fatalf("the query for %s returned a message of a different sender: %+v", queried, message)
				}
			}
			for i, address := range allMailboxes {
				want := 0
				if slices.ContainsFunc(senders, func(sender string) bool { return strings.EqualFold(sender, address) }) {
					want = 5 + i
				}
				if got := countBySender(sent)[address]; got != want {
					t.Fatalf("the query for %s returned %d messages of %s, want %d", queried, got, address, want)
				}
			}
		}
	}},
	{"mail/trace/time-span", "a time span includes its beginning and excludes its end", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		began := env.Now(t)
		env.Send(t, sending.testTenant.GUID, sending.mailboxes[0], 1) // two messages could have different times
		sent := sending.readTrace(t, env)
		if now := env.Now(t); len(sent) == 0 || !isWithin(sent[0].At, began, now) {
			t.Fatalf("the trace shows %+v, want a message between %s and %s", sent, began, now)
		}
		at := sent[0].At
		for name, tc := range map[string]struct {
			from, to time.Time
			want     int
		}{
			"at the beginning of the span": {at, at.Add(time.Second), 1},
			"at the end of the span":       {at.Add(-time.Hour), at, 0},
			"before the span":              {at.Add(time.Millisecond), at.Add(time.Hour), 0},
		} {
			page, err := sending.client.Sent(callContext(t), sending.traceQuery(tc.from, tc.to))
			must(t, "sent", err)
			if got := countBySender(page.Sent)[sending.mailboxes[0]]; got != tc.want {
				t.Fatalf("%s: %d messages, want %d", name, got, tc.want)
			}
		}
	}},
	{"mail/trace/late", "late messages are returned with their own time", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{TraceLag: time.Hour})
		began := env.Now(t)
		env.Send(t, sending.testTenant.GUID, sending.mailboxes[0], 3)
		ended := env.Now(t)
		if got := sending.readTrace(t, env); len(got) != 0 {
			t.Fatalf("the trace shows %+v before the lag has passed, want no messages", got)
		}
		env.Advance(t, 2*time.Hour)
		got := sending.readTrace(t, env)
		if countBySender(got)[sending.mailboxes[0]] != 3 || !isWithin(got[0].At, began, ended) {
			t.Fatalf("the trace shows %+v, want three messages between %s and %s", got, began, ended)
		}
	}},
	{"mail/trace/blocked", "a message that a rule blocked counts as refused", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		sending.block(t, sending.domain, true, sending.mailboxes[0])
		for _, address := range sending.mailboxes {
			env.Send(t, sending.testTenant.GUID, address, 2)
		}
		if got := countBySender(sending.readTrace(t, env)); got[sending.mailboxes[0]] != 0 || got[sending.mailboxes[1]] != 2 || got[sending.mailboxes[2]] != 2 {
			t.Fatalf("the trace shows the messages %v, want none of %s and two of each other mailbox", got, sending.mailboxes[0])
		}
	}},
	{"mail/trace/failed-read", "a failed read of the trace is an error, not an empty list", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		for failure, kind := range map[Failure]outcome.Kind{Throttles: outcome.Throttled, IsDown: outcome.Down, Breaks: outcome.Broken} {
			lift := env.Fail(t, sending.testTenant.GUID, "Sent", failure)
			_, err := sending.client.Sent(callContext(t), sending.traceQuery(env.Now(t).Add(-time.Hour), env.Now(t)))
			lift()
			requireOutcome(t, "sent", err, kind)
		}
		env.Revoke(t, sending.testTenant.GUID, GrantExchangeRole)
		_, err := sending.client.Sent(callContext(t), sending.traceQuery(env.Now(t).Add(-time.Hour), env.Now(t)))
		requireRefusal(t, "sent", err, fault.AccessDenied)
	}},
	{"mail/trace/invalid-cursor", "an invalid cursor is refused", func(t T, env MailPlatformEnv) {
		sending := newSendingTenant(t, env, Setup{})
		query := sending.traceQuery(env.Now(t).Add(-time.Hour), env.Now(t))
		query.Cursor = "no cursor"
		_, err := sending.client.Sent(callContext(t), query)
		requireOutcome(t, "sent", err, outcome.Refused)
	}},
}

// traceQuery returns the query for the messages of s.mailboxes in a time span.
func (s sendingTenant) traceQuery(from, to time.Time) sendlimit.TraceQuery {
	return sendlimit.TraceQuery{From: from, To: to, Senders: s.mailboxes}
}

// readTrace returns the trace rows of s.mailboxes from the last 24 hours.
func (s sendingTenant) readTrace(t T, env MailPlatformEnv) []sendlimit.Sent {
	t.Helper()
	to := env.Now(t).Add(time.Minute)
	return s.allPages(t, s.traceQuery(to.Add(-24*time.Hour), to))
}

// allPages returns the rows of all pages of a query.
func (s sendingTenant) allPages(t T, q sendlimit.TraceQuery) (rows []sendlimit.Sent) {
	t.Helper()
	for pages := 0; ; pages++ {
		page, err := s.client.Sent(callContext(t), q)
		must(t, "sent", err)
		rows = append(rows, page.Sent...)
		if page.Next == "" {
			return rows
		}
		if q.Cursor = page.Next; pages > 200 {
			t.Fatalf("the trace has more than 200 pages")
		}
	}
}

// countBySender counts the messages of each sender that were not refused. A message counts once,
// whatever its number of recipients.
func countBySender(sent []sendlimit.Sent) map[string]int {
	counts, seen := map[string]int{}, map[string]bool{}
	for _, m := range sent {
		if !m.Refused && !seen[m.Message] {
			counts[m.Sender]++
		}
		seen[m.Message] = true
	}
	return counts
}

// isWithin reports whether at lies between two times of the platform's clock, with a tolerance of
// one minute.
func isWithin(at, from, to time.Time) bool {
	return at.After(from.Add(-time.Minute)) && at.Before(to.Add(time.Minute))
}
