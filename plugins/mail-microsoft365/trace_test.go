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
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// send makes a mailbox send messages at a moment.
func (s *senderWorld) send(t testing.TB, box string, count int, at time.Time, more knobs) {
	t.Helper()
	in := knobs{"mailbox": box, "count": count, "at": at.Format(time.RFC3339Nano)}
	for name, value := range more {
		in[name] = value
	}
	s.control(t, http.MethodPost, "/messages", in)
}

// read reads the trace to its end and counts pages.
func (s *senderWorld) read(t testing.TB, from, to time.Time) (sent []sendlimit.Sent, pages int) {
	t.Helper()
	return readAll(t, s.client, sendlimit.TraceQuery{From: from, To: to, Senders: s.all()})
}

func readAll(t testing.TB, c sdk.MailTenant, q sendlimit.TraceQuery) (sent []sendlimit.Sent, pages int) {
	t.Helper()
	for {
		page, err := c.Sent(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		sent, q.Cursor, pages = append(sent, page.Sent...), page.Next, pages+1
		if q.Cursor == "" {
			return sent, pages
		}
		if pages > 500 {
			t.Fatal("the pages never end")
		}
	}
}

// asks for what one sender sent.
func asks(from, to time.Time, cursor string) sendlimit.TraceQuery {
	return sendlimit.TraceQuery{From: from, To: to, Senders: []string{"a@a.example"}, Cursor: cursor}
}

// perSender counts each message once, however many rows it has.
func perSender(sent []sendlimit.Sent) map[string]int {
	counts, seen := map[string]int{}, map[string]bool{}
	for _, m := range sent {
		if !seen[m.Message] && !m.Refused {
			counts[m.Sender]++
		}
		seen[m.Message] = true
	}
	return counts
}

// TestEachMessageIsRead checks that every message of the span is read and none
// from outside it. Pages are of any size and may repeat rows, and many messages
// may have one time and several recipients.
func TestEachMessageIsRead(t *testing.T) {
	w := newWorld(t)
	s := newSenders(t, w)
	base := time.Now().UTC().Truncate(time.Hour)
	hour := 0
	sampled(t, func(rt *rapid.T) {
		hour++
		from := base.Add(time.Duration(-hour) * 30 * time.Minute)
		to := from.Add(20 * time.Minute)
		w.behave(t, s.who.GUID, knobs{
			"trace_page": rapid.IntRange(6, 40).Draw(rt, "page"), "trace_quota": 1_000_000,
			"trace_duplicates": rapid.Bool().Draw(rt, "duplicates"), "trace_bare": rapid.Bool().Draw(rt, "bare"),
		})
		want := map[string]int{}
		for range rapid.IntRange(0, 6).Draw(rt, "batches") {
			box := rapid.SampledFrom(s.boxes).Draw(rt, "box")
			count := rapid.IntRange(1, 12).Draw(rt, "count")
			at := from.Add(time.Duration(rapid.IntRange(-1, 20).Draw(rt, "minute")) * time.Minute)
			if rapid.Bool().Draw(rt, "not on the minute") {
				at = at.Add(123456700 * time.Nanosecond)
			}
			s.send(t, box, count, at, nil)
			if !at.Before(from) && at.Before(to) {
				want[box] += count
			}
		}
		sent, _ := s.read(t, from, to)
		got := perSender(sent)
		for _, box := range s.boxes {
			if got[box] != want[box] {
				rt.Fatalf("%s: %d, want %d", box, got[box], want[box])
			}
		}
		for _, m := range sent {
			if m.At.Before(from) || !m.At.Before(to) || m.At.Location() != time.UTC {
				rt.Fatalf("%s is not within %s and %s", m.At, from, to)
			}
		}
	})
}

// TestASpanThatIsTooLong for one query is read by several.
func TestASpanThatIsTooLong(t *testing.T) {
	s := newSenders(t, newWorld(t))
	now := time.Now().UTC()
	for _, days := range []int{1, 9, 10, 11, 24} {
		s.send(t, s.boxes[0], 2, now.Add(time.Duration(-days)*24*time.Hour), nil)
	}
	sent, pages := s.read(t, now.Add(-25*24*time.Hour), now)
	if got := perSender(sent)[s.boxes[0]]; got != 10 || pages != 3 {
		t.Fatalf("%d messages in %d pages", got, pages)
	}
}

// TestManySenders are asked about fifty at a time, each in all spans, and of
// none nobody is asked.
func TestManySenders(t *testing.T) {
	w := newWorld(t)
	s := newSenders(t, w)
	now := time.Now().UTC()
	for i, box := range s.boxes {
		for _, days := range []int{1, 11} {
			s.send(t, box, 2+i, now.Add(time.Duration(-days)*24*time.Hour), nil)
		}
	}
	q := sendlimit.TraceQuery{From: now.Add(-12 * 24 * time.Hour), To: now, Senders: slices.Repeat([]string{"nobody@" + s.domain}, 120)}
	q.Senders[0], q.Senders[49], q.Senders[50] = s.boxes[0], s.boxes[1], s.boxes[2]
	w.control(t, http.MethodDelete, "/calls", nil)
	sent, pages := readAll(t, s.client, q)
	if got := perSender(sent); got[s.boxes[0]] != 4 || got[s.boxes[1]] != 6 || got[s.boxes[2]] != 8 {
		t.Errorf("counted %v", got)
	}
	if asked := w.calls(t)[exchange.GetMessageTrace]; pages != 6 || asked != 6 {
		t.Errorf("%d pages by %d requests", pages, asked)
	}
	q.Senders = nil
	if page, err := s.client.Sent(t.Context(), q); err != nil || len(page.Sent) > 0 || page.Next != "" || w.calls(t)[exchange.GetMessageTrace] != 6 {
		t.Errorf("of nobody: %+v, %v", page, err)
	}
}

func TestWhatTheTraceTells(t *testing.T) {
	w := newWorld(t)
	s := newSenders(t, w)
	s.block(s.domain, s.boxes[0])
	now := time.Now().UTC()
	w.control(t, http.MethodPost, "/messages", knobs{"mailbox": s.boxes[0], "count": 3})
	w.control(t, http.MethodPost, "/messages", knobs{"mailbox": s.boxes[1], "count": 2, "bounced": true})
	w.control(t, http.MethodPost, "/messages", knobs{"mailbox": s.boxes[2], "count": 1, "recipients": 40})
	sent, _ := s.read(t, now, time.Now().Add(time.Minute))
	if got := perSender(sent); got[s.boxes[0]] != 0 || got[s.boxes[1]] != 2 || got[s.boxes[2]] != 1 {
		t.Fatalf("counted %v", got)
	}
	w.behave(t, s.who.GUID, knobs{"trace_ms": 3_600_000})
	w.control(t, http.MethodPost, "/messages", knobs{"mailbox": s.boxes[2], "count": 4})
	late, _ := s.read(t, now, time.Now().Add(time.Minute))
	w.Advance(t, 61*time.Minute)
	shown, _ := s.read(t, now, time.Now().Add(2*time.Minute))
	if perSender(late)[s.boxes[2]] != 1 || perSender(shown)[s.boxes[2]] != 5 {
		t.Fatalf("late %v, then %v", perSender(late), perSender(shown))
	}
}

// TestAPageIsOneRequest: a call counts once in the tenant's quota, whatever the
// platform answers; that the quota is used up is a throttle.
func TestAPageIsOneRequest(t *testing.T) {
	w := newWorld(t)
	s := newSenders(t, w)
	now := time.Now()
	for _, f := range []knobs{
		{"kind": "status", "status": 429}, {"kind": "status", "status": 503}, {"kind": "status", "status": 500}, {"kind": "drop_before"}, nil,
	} {
		w.control(t, http.MethodDelete, "/calls", nil)
		if f != nil {
			f["operation"], f["times"] = exchange.GetMessageTrace, 1
			w.fault(t, f)
		}
		_, err := s.client.Sent(t.Context(), asks(now.Add(-time.Hour), now, ""))
		if (err == nil) != (f == nil) || outcome.Of(err) == outcome.Refused {
			t.Errorf("%v: %v", f, err)
		}
		if got := w.calls(t)[exchange.GetMessageTrace]; got != 1 {
			t.Errorf("%v: %d requests", f, got)
		}
	}
	for _, status := range []int{400, 429} {
		w.behave(t, s.who.GUID, knobs{"trace_quota": 1, "trace_throttled": status})
		_, err := s.client.Sent(t.Context(), asks(now.Add(-time.Hour), now, ""))
		ends(t, err, outcome.Throttled, fault.Code{})
		if o := new(outcome.Error); !errors.As(err, &o) || o.RetryAfter != time.Minute {
			t.Errorf("come back after %s", o.RetryAfter)
		}
	}
}

// TestATraceThatMakesNoSense is never taken for an empty one.
func TestATraceThatMakesNoSense(t *testing.T) {
	im := newImitation(t)
	from, to := im.now.Add(-time.Hour), im.now
	received := im.now.Add(-time.Minute).UTC().Format("2006-01-02T15:04:05.0000000")
	full := `{"MessageTraceId":"m-1","Received":"` + received + `","SenderAddress":"a@a.example","RecipientAddress":"b@b.example"}`
	many := strings.Repeat(full+",", exchange.TracePage-1) + full
	for name, tt := range map[string]struct {
		rows, warnings string
		rowsRead       int
		next           bool
		kind           outcome.Kind
	}{
		"no row":                       {``, ``, 0, false, 0},
		"a row without a zone":         {full, ``, 1, false, 0},
		"a row with one":               {strings.Replace(full, received, received+"Z", 1), ``, 1, false, 0},
		"a row of another zone":        {strings.Replace(full, received, im.now.Add(-time.Minute).In(time.FixedZone("", 7200)).Format(time.RFC3339Nano), 1), ``, 1, false, 0},
		"a report without sender":      {strings.Replace(full, "a@a.example", "", 1), ``, 0, false, 0},
		"before what was asked for":    {strings.Replace(full, received, from.Add(-time.Second).UTC().Format(time.RFC3339Nano), 1), ``, 0, false, 0},
		"a warning for another reason": {full, `"Micro delay applied."`, 1, true, 0},
		"a warning and no row":         {``, `"Micro delay applied."`, 0, false, 0},
		"no time":                      {strings.Replace(full, received, "", 1), ``, 0, false, outcome.Broken},
		"no id":                        {strings.Replace(full, "m-1", "", 1), ``, 0, false, outcome.Broken},
		"a page of one row":            {many, `"There are more results."`, exchange.TracePage, true, 0},
	} {
		im.answers[exchange.GetMessageTrace] = `{"value":[` + tt.rows + `],"@adminapi.warnings":[` + tt.warnings + `]}`
		page, err := im.client.Sent(t.Context(), asks(from, to, ""))
		if len(page.Sent) != tt.rowsRead || (page.Next != "") != tt.next || outcome.Of(err) != tt.kind {
			t.Errorf("%s: %d rows, next %q, %v", name, len(page.Sent), page.Next, err)
			continue
		}
		if page.Next == "" {
			continue
		}
		again, err := im.client.Sent(t.Context(), asks(from, to, page.Next))
		if len(tt.rows) > len(full) {
			ends(t, err, outcome.Broken, fault.Code{}) // as many of one moment as a page holds
		} else if err != nil || again.Next != "" {
			t.Errorf("%s, continued: %q, %v", name, again.Next, err)
		}
	}
	im.answers[exchange.GetMessageTrace] = `{"value":[]}`
	for _, cursor := range []string{"x", "!", `{}`, "eyJzIjotMX0", "eyJiIjotMX0", "eyJiIjoxfQ"} {
		_, err := im.client.Sent(t.Context(), asks(from, to, cursor))
		ends(t, err, outcome.Refused, fault.ProviderError)
	}
}

// TestTheTracesQuery is what the platform is asked: times in UTC without saying
// so, no narrower than the span, and after a page exactly where it ended.
func TestTheTracesQuery(t *testing.T) {
	im := newImitation(t)
	place := time.FixedZone("", 3600)
	from, to := time.Date(2026, 11, 2, 1, 0, 0, 5, place), time.Date(2026, 11, 3, 1, 0, 0, 5, place)
	im.answers[exchange.GetMessageTrace] = `{"value":[{"MessageTraceId":"m-1","Received":"2026-11-02T07:01:22.0480000Z",
		"SenderAddress":"a@a.example","RecipientAddress":"b@b.example"}],"@adminapi.warnings":["more"]}`
	page, err := im.client.Sent(t.Context(), asks(from, to, ""))
	if err != nil {
		t.Fatal(err)
	}
	const head = `{"CmdletInput":{"CmdletName":"Get-MessageTraceV2","Parameters":{"EndDate":`
	if got, want := im.bodies[exchange.GetMessageTrace], head+`"2026-11-03T00:00:01","ResultSize":5000,"SenderAddress":["a@a.example"],"StartDate":"2026-11-02T00:00:00"}}}`; got != want {
		t.Errorf("asked\n%s, want\n%s", got, want)
	}
	if _, err := im.client.Sent(t.Context(), asks(from, to, page.Next)); err != nil {
		t.Fatal(err)
	}
	if got, want := im.bodies[exchange.GetMessageTrace], head+`"2026-11-02T07:01:22.048","ResultSize":5000,"SenderAddress":["a@a.example"],"StartDate":"2026-11-02T00:00:00","StartingRecipientAddress":"b@b.example"}}}`; got != want {
		t.Errorf("asked\n%s, want\n%s", got, want)
	}
}
