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
	for _, tc := range []struct {
		name, host, path string
		header           http.Header
		want             string // "" if no rule is broken
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
		r := httptest.NewRequest(http.MethodGet, tc.host+tc.path, nil)
		r.Header = tc.header
		if got := s.violation(r, simulate.Call{Host: tc.host, Operation: "x"}, nil); got != tc.want {
			t.Errorf("%s: the violation is %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestTokenLoopIsAViolation(t *testing.T) {
	var counter tokenCounter
	tokenRequest := []byte(url.Values{"grant_type": {"client_credentials"}, "scope": {"graph"}}.Encode())
	now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	for i := range maxTokenRequests {
		if counter.countAndCheck("t", tokenRequest, now) {
			t.Fatalf("request %d is a violation, want %d requests allowed", i+1, maxTokenRequests)
		}
	}
	if !counter.countAndCheck("t", tokenRequest, now) || counter.countAndCheck("u", tokenRequest, now) || counter.countAndCheck("t", tokenRequest, now.Add(tokenWindow)) {
		t.Fatal("want a violation only for a further request of the same tenant in the same window")
	}
	if codeRequest := []byte(strings.Replace(string(tokenRequest), "client_credentials", "authorization_code", 1)); counter.countAndCheck("t", codeRequest, now) {
		t.Fatal("the request with the code of a sign-in counts, want it ignored")
	}
}
