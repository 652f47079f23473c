// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"net/http"
	"testing"
	"time"
)

func TestCallsInsideAWaitAreViolations(t *testing.T) {
	start := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	var observed waits
	observed.observe("a", 429, http.Header{"Retry-After": {"10"}}, start)
	observed.observe("a", 503, http.Header{"Retry-After": {"2"}}, start.Add(time.Second)) // does not end the longer wait
	observed.observe("b", 429, http.Header{}, start)
	observed.observe("b", 500, http.Header{"Retry-After": {"10"}}, start)
	observed.observe("", 429, http.Header{"Retry-After": {"10"}}, start)
	for _, tc := range []struct {
		scope string
		after time.Duration
		want  string
	}{
		{"a", 0, ""}, {"a", gracePeriod, ""}, {"a", gracePeriod + 1, IgnoredRetryAfter}, {"a", 10*time.Second - 1, IgnoredRetryAfter},
		{"a", 10 * time.Second, ""}, {"b", time.Second, ""}, {"", time.Second, ""},
	} {
		if got := observed.violation(tc.scope, start.Add(tc.after)); got != tc.want {
			t.Errorf("scope %q after %s: %q, want %q", tc.scope, tc.after, got, tc.want)
		}
	}
}
