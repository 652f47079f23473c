// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// completeHeader returns headers that break no rule.
func completeHeader() http.Header {
	return http.Header{
		"User-Agent": {"app/1.0"}, "Client-Request-Id": {"6f9619ff-8b86-d011-b42d-00cf4fc964ff"}, "X-Anchormailbox": {"SMTP:a@b.example"},
	}
}

func TestJournalNamesBrokenRules(t *testing.T) {
	kit, err := simulate.Open("microsoft365", simulate.Options{URL: "http://platform.test", DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s := &simulator{kit: kit}
	without := func(name string) http.Header {
		header := completeHeader()
		header.Del(name)
		return header
	}
	for _, tt := range []struct {
		name, host, path string
		header           http.Header
		want             string
	}{
		{"good Graph request", graphHost, "/v1.0/users?$top=999", completeHeader(), ""},
		{"good Exchange request", exchangeHost, "/adminapi/beta/t/InvokeCommand", completeHeader(), ""},
		{"no User-Agent", graphHost, "/v1.0/users", without("User-Agent"), noUserAgent},
		{"User-Agent of the library", graphHost, "/v1.0/users", http.Header{"User-Agent": {"Go-http-client/1.1"}}, noUserAgent},
		{"no client-request-id", exchangeHost, "/adminapi/beta/t/InvokeCommand", without("client-request-id"), noClientRequestID},
		{"client-request-id that is not a GUID", graphHost, "/v1.0/users", http.Header{"User-Agent": {"app"}, "Client-Request-Id": {"7"}}, noClientRequestID},
		{"$count without ConsistencyLevel", graphHost, "/v1.0/users?$count=true", completeHeader(), noConsistency},
		{"page too large", graphHost, "/v1.0/users?$top=1000", completeHeader(), pageTooLarge},
		{"no anchor", exchangeHost, "/adminapi/beta/t/InvokeCommand", without("X-AnchorMailbox"), noAnchor},
		{"page for a browser", loginHost, "/organizations/v2.0/adminconsent", http.Header{}, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, tt.host+tt.path, nil)
		r.Header = tt.header
		if got := s.violation(r, simulate.Call{Host: tt.host, Operation: "x"}, nil); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestTokenLoopIsAViolation(t *testing.T) {
	var requests tokenCounter
	body := []byte(url.Values{"grant_type": {"client_credentials"}, "scope": {"graph"}}.Encode())
	now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	for n := range maxTokenRequests {
		if requests.countAndCheck("t", body, now) {
			t.Fatalf("request %d is too many, want %d requests allowed", n+1, maxTokenRequests)
		}
	}
	if !requests.countAndCheck("t", body, now) || requests.countAndCheck("u", body, now) || requests.countAndCheck("t", body, now.Add(tokenWindow)) {
		t.Fatal("want too many requests only in the same tenant and window")
	}
	if code := []byte(strings.Replace(string(body), "client_credentials", "authorization_code", 1)); requests.countAndCheck("t", code, now) {
		t.Fatal("the request with the code of a sign-in counts, want it ignored")
	}
}
