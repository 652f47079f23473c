// SPDX-License-Identifier: Apache-2.0

package main

import (
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

// sendAt makes the simulator record messages that a mailbox sent at a time.
func (s *sendingTenant) sendAt(t conformance.T, box string, count int, at time.Time) {
	t.Helper()
	s.control(t, http.MethodPost, "/messages", options{"mailbox": box, "count": count, "at": at.Format(time.RFC3339Nano)})
}

// readTrace reads the trace of all senders to its end and counts the pages.
func (s *sendingTenant) readTrace(t conformance.T, from, to time.Time) (sent []sendlimit.Sent, pages int) {
	t.Helper()
	return readTracePages(t, s.client, sendlimit.TraceQuery{From: from, To: to, Senders: s.allSenders()})
}

// readTracePages reads the trace of a query to its end and counts the pages.
func readTracePages(t conformance.T, client sdk.MailTenant, query sendlimit.TraceQuery) (sent []sendlimit.Sent, pages int) {
	t.Helper()
	for {
		page, err := client.Sent(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		sent, query.Cursor, pages = append(sent, page.Sent...), page.Next, pages+1
		if query.Cursor == "" {
			return sent, pages
		}
		if pages > 500 { // far more than a test needs, so the cursors do not advance
			t.Fatal("the trace has more than 500 pages, want an end")
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
	for _, row := range sent {
		if !counted[row.Message] && !row.Refused {
			counts[row.Sender]++
		}
		counted[row.Message] = true
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
	round := 0 // each round has a time range of its own
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
		for _, row := range sent {
			if row.At.Before(from) || !row.At.Before(to) || row.At.Location() != time.UTC {
				rt.Fatalf("got a message of %s, want a time in UTC from %s and before %s", row.At, from, to)
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
		t.Fatalf("got %d messages in %d pages, want 10 messages in 3 pages", got, pages)
	}
}

// TestSentAsksForFiftySendersAtATime checks that Sent reads each batch of senders in all time
// ranges, and that a query without senders sends no request.
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
	// The first and the last sender of the first batch, and the first sender of the second batch.
	query.Senders[0], query.Senders[49], query.Senders[50] = fixture.mailboxes[0], fixture.mailboxes[1], fixture.mailboxes[2]
	env.control(t, http.MethodDelete, "/calls", nil)
	sent, pages := readTracePages(t, fixture.client, query)
	if got := messagesPerSender(sent); got[fixture.mailboxes[0]] != 4 || got[fixture.mailboxes[1]] != 6 || got[fixture.mailboxes[2]] != 8 {
		t.Errorf("the counts are %v, want 4, 6 and 8 for %v", got, fixture.mailboxes)
	}
	// Three batches of senders are read in two time ranges.
	if queries := env.calls(t)[exchange.GetMessageTrace]; pages != 6 || queries != 6 {
		t.Errorf("got %d pages by %d requests, want 6 pages by 6 requests", pages, queries)
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
	atFirst, _ := fixture.readTrace(t, now, time.Now().Add(time.Minute))
	env.Advance(t, 61*time.Minute)
	later, _ := fixture.readTrace(t, now, time.Now().Add(2*time.Minute))
	if messagesPerSender(atFirst)[fixture.mailboxes[2]] != 1 || messagesPerSender(later)[fixture.mailboxes[2]] != 5 {
		t.Fatalf("the counts are %v at first and %v later, want 1 and 5 for %s", messagesPerSender(atFirst), messagesPerSender(later), fixture.mailboxes[2])
	}
}

// TestSentIsOneRequest checks that a call of Sent sends one request, even if the request fails. It
// also checks that a used-up quota becomes a Throttled outcome.
func TestSentIsOneRequest(t *testing.T) {
	env := newTestEnv(t)
	fixture := newSendingTenant(t, env)
	now := time.Now()
	for _, failure := range []options{
		{"kind": "status", "status": 429}, {"kind": "status", "status": 503}, {"kind": "status", "status": 500}, {"kind": "drop_before"}, nil,
	} {
		env.control(t, http.MethodDelete, "/calls", nil)
		if failure != nil {
			failure["operation"], failure["times"] = exchange.GetMessageTrace, 1
			env.injectFault(t, failure)
		}
		_, err := fixture.client.Sent(t.Context(), oneSenderQuery(now.Add(-time.Hour), now, ""))
		if (err == nil) != (failure == nil) || outcome.KindOf(err) == outcome.Refused {
			t.Errorf("failure %v: got %v, want an error only with a failure, and no refusal", failure, err)
		}
		if got := env.calls(t)[exchange.GetMessageTrace]; got != 1 {
			t.Errorf("failure %v: %d requests, want 1", failure, got)
		}
	}
	for _, status := range []int{400, 429} {
		env.setBehaviour(t, fixture.tenantInfo.GUID, options{"trace_quota": 1, "trace_throttled": status})
		_, err := fixture.client.Sent(t.Context(), oneSenderQuery(now.Add(-time.Hour), now, ""))
		expectOutcome(t, err, outcome.Throttled, fault.Code{})
		if retryAfter := outcome.RetryAfter(err); retryAfter != time.Minute {
			t.Errorf("status %d: the retry delay is %s, want 1m0s", status, retryAfter)
		}
	}
}

// TestSentReadsUnusualRows covers rows that are unusual but valid, and malformed rows. A malformed
// row must cause an error and not an empty trace.
func TestSentReadsUnusualRows(t *testing.T) {
	fake := newFakePlatform(t)
	from, to := fake.now.Add(-time.Hour), fake.now
	received := fake.now.Add(-time.Minute).UTC().Format("2006-01-02T15:04:05.0000000")
	validRow := `{"MessageTraceId":"m-1","Received":"` + received + `","SenderAddress":"a@a.example","RecipientAddress":"b@b.example"}`
	fullPage := strings.Repeat(validRow+",", exchange.TracePage-1) + validRow
	for name, tc := range map[string]struct {
		rows, warnings string
		rowCount       int  // number of rows that Sent returns
		hasNext        bool // Sent returns a cursor
		wantKind       outcome.Kind
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
		if len(page.Sent) != tc.rowCount || (page.Next != "") != tc.hasNext || outcome.KindOf(err) != tc.wantKind {
			t.Errorf("%s: got %d rows, the cursor %q and %v, want %d rows, a cursor: %v, and the kind %s", name, len(page.Sent), page.Next, err, tc.rowCount, tc.hasNext, tc.wantKind)
			continue
		}
		if page.Next == "" {
			continue
		}
		nextPage, err := fake.client.Sent(t.Context(), oneSenderQuery(from, to, page.Next))
		if tc.rows == fullPage {
			expectOutcome(t, err, outcome.Broken, fault.Code{}) // all rows have the same time, so the trace cannot advance
		} else if err != nil || nextPage.Next != "" {
			t.Errorf("%s, next page: got %v and the cursor %q, want no error and no cursor", name, err, nextPage.Next)
		}
	}
	fake.answers[exchange.GetMessageTrace] = `{"value":[]}`
	// The last three cursors are the encoded texts {"s":-1}, {"b":-1} and {"b":1}.
	for _, cursor := range []string{"x", "!", `{}`, "eyJzIjotMX0", "eyJiIjotMX0", "eyJiIjoxfQ"} {
		_, err := fake.client.Sent(t.Context(), oneSenderQuery(from, to, cursor))
		expectOutcome(t, err, outcome.Refused, fault.ProviderError)
	}
}

// TestSentQueriesTheWholeTimeRange checks that a query has times in UTC without a zone, and that
// they cover at least the requested range. The query for the next page must end exactly at the last
// row of the previous page, because the trace is read backwards.
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
	const bodyStart = `{"CmdletInput":{"CmdletName":"Get-MessageTraceV2","Parameters":{"EndDate":`
	if got, want := fake.bodies[exchange.GetMessageTrace], bodyStart+`"2026-11-03T00:00:01","ResultSize":5000,"SenderAddress":["a@a.example"],"StartDate":"2026-11-02T00:00:00"}}}`; got != want {
		t.Errorf("sent\n%s, want\n%s", got, want)
	}
	if _, err := fake.client.Sent(t.Context(), oneSenderQuery(from, to, page.Next)); err != nil {
		t.Fatal(err)
	}
	if got, want := fake.bodies[exchange.GetMessageTrace], bodyStart+`"2026-11-02T07:01:22.048","ResultSize":5000,"SenderAddress":["a@a.example"],"StartDate":"2026-11-02T00:00:00","StartingRecipientAddress":"b@b.example"}}}`; got != want {
		t.Errorf("sent\n%s, want\n%s", got, want)
	}
}
