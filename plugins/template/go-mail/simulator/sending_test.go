// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestNegativePageSizeIsRefused sets the number of rows on a page of the message trace.
func TestNegativePageSizeIsRefused(t *testing.T) {
	for body, wantError := range map[string]bool{`{"trace_page": -1}`: true, `{"trace_page": 0}`: false, `{"trace_page": 1}`: false} {
		c := &call{http: httptest.NewRequest(http.MethodPost, "/behaviour", strings.NewReader(body)), tenant: &tenant{}}
		if _, err := setBehaviour(c); (err != nil) != wantError {
			t.Errorf("%s: error %v, want an error: %t", body, err, wantError)
		}
	}
}

// TestCursorAfterTheLastRowGetsAnEmptyPage reads a trace with two rows, in pages of one row.
func TestCursorAfterTheLastRowGetsAnEmptyPage(t *testing.T) {
	now := time.Now()
	customer := &tenant{Behaviour: behaviour{TracePageSize: 1}}
	for range 2 {
		customer.Messages = append(customer.Messages, message{Sender: "a@a.example", At: now})
	}
	for cursor, want := range map[string]struct {
		Rows int
		Next string
	}{"": {1, "1"}, "1": {1, ""}, "2": {0, ""}, "9223372036854775807": {0, ""}} {
		query := url.Values{"sender": {"a@a.example"}, "cursor": {cursor}, "from": {now.Add(-time.Hour).Format(time.RFC3339)}, "to": {now.Add(time.Hour).Format(time.RFC3339)}}
		answer, code := listMessages(&call{http: httptest.NewRequest(http.MethodGet, "/messages?"+query.Encode(), nil), tenant: customer, now: now})
		raw, err := json.Marshal(answer)
		if err != nil || code != "" {
			t.Fatalf("cursor %q: %q, %v", cursor, code, err)
		}
		var page struct {
			Messages []message `json:"messages"`
			Next     string    `json:"next"`
		}
		if err := json.Unmarshal(raw, &page); err != nil || len(page.Messages) != want.Rows || page.Next != want.Next {
			t.Errorf("cursor %q: %s, %v, want %d rows and the next cursor %q", cursor, raw, err, want.Rows, want.Next)
		}
	}
}
