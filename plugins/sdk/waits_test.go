// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// hostStore is a ports.Waits in memory. It replaces the host.
type hostStore map[string]time.Duration

func (s hostStore) Wait(_ context.Context, scope string, atLeast time.Duration) time.Duration {
	s[scope] = max(s[scope], atLeast)
	return s[scope]
}

func TestWaitsHoldBackTheCallsOfAScope(t *testing.T) {
	now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	waits := NewWaits(func() time.Time { return now })
	waits.Extend(t.Context(), "a", 10*time.Second)
	waits.Extend(t.Context(), "a", 5*time.Second) // a shorter wait does not end a longer wait
	waits.Extend(t.Context(), "b", 3*time.Second)
	for _, tc := range []struct {
		scopes []string
		want   time.Duration
	}{
		{nil, 0}, {[]string{"a"}, 10 * time.Second}, {[]string{"b", "a"}, 10 * time.Second}, {[]string{"c", "b"}, 3 * time.Second}, {[]string{"c"}, 0},
	} {
		if got := waits.Left(t.Context(), tc.scopes...); got != tc.want {
			t.Errorf("the scopes %v wait %s, want %s", tc.scopes, got, tc.want)
		}
	}
	now = now.Add(10 * time.Second)
	if err := waits.Check(t.Context(), "a", "b"); err != nil || len(waits.until) != 0 {
		t.Fatalf("after the waits: %v, still stored are %v, want no error and no waits", err, waits.until)
	}
}

func TestProcessesShareWaitsThroughTheHost(t *testing.T) {
	store := hostStore{}
	throttledProcess, secondProcess := NewWaits(nil), NewWaits(nil)
	throttledProcess.Share(store)
	secondProcess.Share(store)
	throttledProcess.Extend(t.Context(), "tenant", time.Minute)
	if got := secondProcess.Left(t.Context(), "another tenant", "tenant"); got != time.Minute {
		t.Fatalf("the second process waits %s, want 1m", got)
	}
}

func TestNilWaitsHoldNothingBack(t *testing.T) {
	var waits *Waits
	waits.Extend(t.Context(), "a", time.Minute)
	waits.Observe(t.Context(), "a", 429, http.Header{"Retry-After": {"7"}})
	if err := waits.Check(t.Context(), "a"); err != nil {
		t.Fatalf("a nil Waits holds a call back: %v", err)
	}
}

// TestClientObservesRetryAfter checks that a client sends nothing while its scope has to wait.
func TestClientObservesRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		status    int
		header    string
		throttled bool
	}{
		{429, "7", true}, {503, "7", true}, {429, "", false}, {429, "soon", false}, {500, "7", false}, {200, "7", false},
	} {
		calls := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls++
			w.Header().Set("Retry-After", tc.header)
			w.WriteHeader(tc.status)
		}))
		now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
		waits := NewWaits(func() time.Time { return now })
		get := func(scope string) error {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := waits.Client(NewHTTPClient(time.Minute), scope).Do(r)
			if err != nil {
				return TransportError(err)
			}
			return resp.Body.Close()
		}
		if err := get("key"); err != nil {
			t.Fatal(err)
		}
		err := get("key")
		result := OutcomeOf(err)
		throttled := result.Kind == Throttled && result.RetryAfter == 7*time.Second && calls == 1
		if throttled != tc.throttled || !tc.throttled && err != nil {
			t.Errorf("status %d, Retry-After %q: got %v after %d requests; must the second call be throttled without a request? %v", tc.status, tc.header, err, calls, tc.throttled)
		}
		if err := get("different key"); err != nil {
			t.Errorf("a call with a different scope: %v, want no error", err)
		}
		now = now.Add(7 * time.Second)
		if err := get("key"); err != nil {
			t.Errorf("a call after the wait: %v, want no error", err)
		}
		server.Close()
	}
}

func TestRetryAfterReadsSecondsAndDates(t *testing.T) {
	now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "-3": 0, "soon": 0,
		"900":                           15 * time.Minute,
		"9223372036854775807":           time.Hour, // the longest wait that RetryAfter returns
		"Mon, 02 Nov 2026 09:00:30 GMT": 30 * time.Second,
		"Mon, 02 Nov 2026 08:00:00 GMT": 0,
		"Tue, 03 Nov 2026 09:00:00 GMT": time.Hour,
	} {
		if got := RetryAfter(http.Header{"Retry-After": {text}}, now); got != want {
			t.Errorf("Retry-After %q is read as %s, want %s", text, got, want)
		}
	}
}
