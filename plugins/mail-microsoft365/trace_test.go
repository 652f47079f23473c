// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
	"github.com/tenantry/tenantry/plugins/sdk"
)

func (s *sendingTenant) sendAt(t conformance.T, box string, count int, at time.Time) {
	t.Helper()
	s.control(t, http.MethodPost, "/messages", options{"mailbox": box, "count": count, "at": at.Format(time.RFC3339Nano)})
}

// readTrace reads the trace of all senders to its end and counts the pages.
func (s *sendingTenant) readTrace(t conformance.T, from, to time.Time) (sent []sendlimit.Sent, pages int) {
	t.Helper()
	return readTracePages(t, s.client, sendlimit.TraceQuery{From: from, To: to, Senders: s.allSenders()})
}

func readTracePages(t conformance.T, c sdk.MailTenant, query sendlimit.TraceQuery) (sent []sendlimit.Sent, pages int) {
	t.Helper()
	for {
		page, err := c.Sent(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		sent, query.Cursor, pages = append(sent, page.Sent...), page.Next, pages+1
		if query.Cursor == "" {
			return sent, pages
		}
		if pages > 500 {
			t.Fatal("the trace has more than 500 pages")
		}
	}
}

func oneSenderQuery(from, to time.Time, cursor string) sendlimit.TraceQuery {
	return sendlimit.TraceQuery{From: from, To: to, Senders: []string{"a@a.example"}, Cursor: cursor}
}

// messagesPerSender counts the messages of each sender, without messages that were refused. A
// message with several rows counts once.
func messagesPerSender(sent []sendlimit.Sent) map[string]int {
	counts, counted := map[string]int{}, map[string]bool{}
	for _, m := range sent {
		if !counted[m.Message] && !m.Refused {
			counts[m.Sender]++
		}
		counted[m.Message] = true
	}
	return counts
}

// TestSentReadsEveryMessageOfTheTimeRange checks that every message of the time range is read, and
// no other message. Pages have different sizes and may repeat rows. Many messages may have the same
// time and several recipients.
func TestSentReadsEveryMessageOfTheTimeRange(t *testing.T) {
	env := newTestEnv(t)
	fixture := newSendingTenant(t, env)
	base := time.Now().UTC().Truncate(time.Hour)
	round := 0
	checkProperty(t, func(rt *rapid.T) {
		round++
		from := base.Add(time.Duration(-round) * 30 * time.Minute)
		to := from.Add(20 * time.Minute)
		env.setBehaviour(t, fixture.tenantInfo.GUID, options{
			"trace_page": rapid.IntRange(6, 40).Draw(rt, "page"), "trace_quota": 1_000_000,
			"trace_duplicates": rapid.Bool().Draw(rt, "duplicates"), "trace_bare": rapid.Bool().Draw(rt, "bare"),
		})
		want := map[string]int{}
		for range rapid.IntRange(0, 6).Draw(rt, "batches") {
			box := rapid.SampledFrom(fixture.mailboxes).Draw(rt, "box")
			count := rapid.IntRange(1, 12).Draw(rt, "count")
			at := from.Add(time.Duration(rapid.IntRange(-1, 20).Draw(rt, "minute")) * time.Minute)
			if rapid.Bool().Draw(rt, "not on the minute") {
				at = at.Add(123456700 * time.Nanosecond)
			}
			fixture.sendAt(t, box, count, at)
			if !at.Before(from) && at.Before(to) {
				want[box] += count
			}
		}
		sent, _ := fixture.readTrace(t, from, to)
		got := messagesPerSender(sent)
		for _, box := range fixture.mailboxes {
			if got[box] != want[box] {
				rt.Fatalf("%d messages of %s are read, want %d", got[box], box, want[box])
			}
		}
		for _, m := range sent {
			if m.At.Before(from) || !m.At.Before(to) || m.At.Location() != time.UTC {
				rt.Fatalf("the message of %s is not in UTC or not between %s and %s", m.At, from, to)
			}
		}
	})
}

func TestSentSplitsATimeRangeOfMoreThanTenDays(t *testing.T) {
	fixture := newSendingTenant(t, newTestEnv(t))
	now := time.Now().UTC()
	for _, days := range []int{1, 9, 10, 11, 24} {
		fixture.sendAt(t, fixture.mailboxes[0], 2, now.Add(time.Duration(-days)*24*time.Hour))
	}
	sent, pages := fixture.readTrace(t, now.Add(-25*24*time.Hour), now)
	if got := messagesPerSender(sent)[fixture.mailboxes[0]]; got != 10 || pages != 3 {
		t.Fatalf("%d messages in %d pages, want 10 in 3", got, pages)
	}
}

// TestSentAsksForFiftySendersAtATime checks that each batch is read in all time ranges, and that a
// query without senders sends no request.
func TestSentAsksForFiftySendersAtATime(t *testing.T) {
	env := newTestEnv(t)
	fixture := newSendingTenant(t, env)
	now := time.Now().UTC()
	for i, box := range fixture.mailboxes {
		for _, days := range []int{1, 11} {
			fixture.sendAt(t, box, 2+i, now.Add(time.Duration(-days)*24*time.Hour))
		}
	}
	query := sendlimit.TraceQuery{From: now.Add(-12 * 24 * time.Hour), To: now, Senders: slices.Repeat([]string{"nobody@" + fixture.domain}, 120)}
	query.Senders[0], query.Senders[49], query.Senders[50] = fixture.mailboxes[0], fixture.mailboxes[1], fixture.mailboxes[2]
	env.control(t, http.MethodDelete, "/calls", nil)
	sent, pages := readTracePages(t, fixture.client, query)
	if got := messagesPerSender(sent); got[fixture.mailboxes[0]] != 4 || got[fixture.mailboxes[1]] != 6 || got[fixture.mailboxes[2]] != 8 {
		t.Errorf("the counts are %v, want 4, 6 and 8 for %v", got, fixture.mailboxes)
	}
	if queries := env.calls(t)[exchange.GetMessageTrace]; pages != 6 || queries != 6 {
		t.Errorf("%d pages by %d requests, want 6 by 6", pages, queries)
	}
	query.Senders = nil
	if page, err := fixture.client.Sent(t.Context(), query); err != nil || len(page.Sent) > 0 || page.Next != "" || env.calls(t)[exchange.GetMessageTrace] != 6 {
		t.Errorf("a query without senders: %+v, %v, want an empty page without a request", page, err)
	}
}

func TestSentReportsRefusedAndLateMessages(t *testing.T) {
	env := newTestEnv(t)
	fixture := newSendingTenant(t, env)
	fixture.block(fixture.domain, fixture.mailboxes[0])
	now := time.Now().UTC()
	env.control(t, http.MethodPost, "/messages", options{"mailbox": fixture.mailboxes[0], "count": 3})
	env.control(t, http.MethodPost, "/messages", options{"mailbox": fixture.mailboxes[1], "count": 2, "bounced": true})
	env.control(t, http.MethodPost, "/messages", options{"mailbox": fixture.mailboxes[2], "count": 1, "recipients": 40})
	sent, _ := fixture.readTrace(t, now, time.Now().Add(time.Minute))
	if got := messagesPerSender(sent); got[fixture.mailboxes[0]] != 0 || got[fixture.mailboxes[1]] != 2 || got[fixture.mailboxes[2]] != 1 {
		t.Fatalf("the counts are %v, want 0, 2 and 1 for %v", got, fixture.mailboxes)
	}
	env.setBehaviour(t, fixture.tenantInfo.GUID, options{"trace_ms": 3_600_000})
	env.control(t, http.MethodPost, "/messages", options{"mailbox": fixture.mailboxes[2], "count": 4})
	visibleAtFirst, _ := fixture.readTrace(t, now, time.Now().Add(time.Minute))
	env.Advance(t, 61*time.Minute)
	visibleLater, _ := fixture.readTrace(t, now, time.Now().Add(2*time.Minute))
	if messagesPerSender(visibleAtFirst)[fixture.mailboxes[2]] != 1 || messagesPerSender(visibleLater)[fixture.mailboxes[2]] != 5 {
		t.Fatalf("the counts are %v at first and %v later, want 1 and 5 for %s", messagesPerSender(visibleAtFirst), messagesPerSender(visibleLater), fixture.mailboxes[2])
	}
}

// TestSentIsOneRequest checks that a call sends one request, even if the request fails. A used-up
// quota is a Throttled outcome.
func TestSentIsOneRequest(t *testing.T) {
	env := newTestEnv(t)
	fixture := newSendingTenant(t, env)
	now := time.Now()
	for _, f := range []options{
		{"kind": "status", "status": 429}, {"kind": "status", "status": 503}, {"kind": "status", "status": 500}, {"kind": "drop_before"}, nil,
	} {
		env.control(t, http.MethodDelete, "/calls", nil)
		if f != nil {
			f["operation"], f["times"] = exchange.GetMessageTrace, 1
			env.injectFault(t, f)
		}
		_, err := fixture.client.Sent(t.Context(), oneSenderQuery(now.Add(-time.Hour), now, ""))
		if (err == nil) != (f == nil) || outcome.KindOf(err) == outcome.Refused {
			t.Errorf("fault %v: %v, want an error only with a fault, and no refusal", f, err)
		}
		if got := env.calls(t)[exchange.GetMessageTrace]; got != 1 {
			t.Errorf("fault %v: %d requests, want 1", f, got)
		}
	}
	for _, status := range []int{400, 429} {
		env.setBehaviour(t, fixture.tenantInfo.GUID, options{"trace_quota": 1, "trace_throttled": status})
		_, err := fixture.client.Sent(t.Context(), oneSenderQuery(now.Add(-time.Hour), now, ""))
		expectOutcome(t, err, outcome.Throttled, fault.Code{})
		if o := new(outcome.Error); !errors.As(err, &o) || o.RetryAfter != time.Minute {
			t.Errorf("retry after %s, want 1m0s", o.RetryAfter)
		}
	}
}

// TestSentReadsUnusualRows covers rows that are unusual but valid, and malformed rows. A malformed
// row must be an error and not an empty trace.
func TestSentReadsUnusualRows(t *testing.T) {
	fake := newFakePlatform(t)
	from, to := fake.now.Add(-time.Hour), fake.now
	received := fake.now.Add(-time.Minute).UTC().Format("2006-01-02T15:04:05.0000000")
	validRow := `{"MessageTraceId":"m-1","Received":"` + received + `","SenderAddress":"a@a.example","RecipientAddress":"b@b.example"}`
	fullPage := strings.Repeat(validRow+",", exchange.TracePage-1) + validRow
	for name, tc := range map[string]struct {
		rows, warnings string
		rowsRead       int
		hasNext        bool
		kind           outcome.Kind
	}{
		"no row":                       {``, ``, 0, false, 0},
		"a row without a zone":         {validRow, ``, 1, false, 0},
		"a row in UTC":                 {strings.Replace(validRow, received, received+"Z", 1), ``, 1, false, 0},
		"a row in a different zone":    {strings.Replace(validRow, received, fake.now.Add(-time.Minute).In(time.FixedZone("", 7200)).Format(time.RFC3339Nano), 1), ``, 1, false, 0},
		"a report without sender":      {strings.Replace(validRow, "a@a.example", "", 1), ``, 0, false, 0},
		"before the time range":        {strings.Replace(validRow, received, from.Add(-time.Second).UTC().Format(time.RFC3339Nano), 1), ``, 0, false, 0},
		"a warning for another reason": {validRow, `"Micro delay applied."`, 1, true, 0},
		"a warning and no row":         {``, `"Micro delay applied."`, 0, false, 0},
		"no time":                      {strings.Replace(validRow, received, "", 1), ``, 0, false, outcome.Broken},
		"no id":                        {strings.Replace(validRow, "m-1", "", 1), ``, 0, false, outcome.Broken},
		"a full page of equal rows":    {fullPage, `"There are more results."`, exchange.TracePage, true, 0},
	} {
		fake.answers[exchange.GetMessageTrace] = `{"value":[` + tc.rows + `],"@adminapi.warnings":[` + tc.warnings + `]}`
		page, err := fake.client.Sent(t.Context(), oneSenderQuery(from, to, ""))
		if len(page.Sent) != tc.rowsRead || (page.Next != "") != tc.hasNext || outcome.KindOf(err) != tc.kind {
			t.Errorf("%s: %d rows, next %q, %v, want %d rows, next: %v, %s", name, len(page.Sent), page.Next, err, tc.rowsRead, tc.hasNext, tc.kind)
			continue
		}
		if page.Next == "" {
			continue
		}
		repeated, err := fake.client.Sent(t.Context(), oneSenderQuery(from, to, page.Next))
		if len(tc.rows) > len(validRow) {
			expectOutcome(t, err, outcome.Broken, fault.Code{}) // a full page of rows with one time, so the trace cannot advance
		} else if err != nil || repeated.Next != "" {
			t.Errorf("%s, next page: %v and next %q, want the end", name, err, repeated.Next)
		}
	}
	fake.answers[exchange.GetMessageTrace] = `{"value":[]}`
	for _, cursor := range []string{"x", "!", `{}`, "eyJzIjotMX0", "eyJiIjotMX0", "eyJiIjoxfQ"} {
		_, err := fake.client.Sent(t.Context(), oneSenderQuery(from, to, cursor))
		expectOutcome(t, err, outcome.Refused, fault.ProviderError)
	}
}

// TestSentQueriesTheWholeTimeRange checks that times are UTC without a zone, and that they cover at
// least the range. The next page must begin exactly where the last page ended.
func TestSentQueriesTheWholeTimeRange(t *testing.T) {
	fake := newFakePlatform(t)
	zone := time.FixedZone("", 3600)
	from, to := time.Date(2026, 11, 2, 1, 0, 0, 5, zone), time.Date(2026, 11, 3, 1, 0, 0, 5, zone)
	fake.answers[exchange.GetMessageTrace] = `{"value":[{"MessageTraceId":"m-1","Received":"2026-11-02T07:01:22.0480000Z",
		"SenderAddress":"a@a.example","RecipientAddress":"b@b.example"}],"@adminapi.warnings":["more"]}`
	page, err := fake.client.Sent(t.Context(), oneSenderQuery(from, to, ""))
	if err != nil {
		t.Fatal(err)
	}
	const head = `{"CmdletInput":{"CmdletName":"Get-MessageTraceV2","Parameters":{"EndDate":`
	if got, want := fake.bodies[exchange.GetMessageTrace], head+`"2026-11-03T00:00:01","ResultSize":5000,"SenderAddress":["a@a.example"],"StartDate":"2026-11-02T00:00:00"}}}`; got != want {
		t.Errorf("sent\n%s, want\n%s", got, want)
	}
	if _, err := fake.client.Sent(t.Context(), oneSenderQuery(from, to, page.Next)); err != nil {
		t.Fatal(err)
	}
	if got, want := fake.bodies[exchange.GetMessageTrace], head+`"2026-11-02T07:01:22.048","ResultSize":5000,"SenderAddress":["a@a.example"],"StartDate":"2026-11-02T00:00:00","StartingRecipientAddress":"b@b.example"}}}`; got != want {
		t.Errorf("sent\n%s, want\n%s", got, want)
	}
}
