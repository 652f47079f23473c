// SPDX-License-Identifier: Apache-2.0

package graph_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/graph"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/login"
)

// newFakeGraph starts a fake of Graph and its login host. handle answers the requests to Graph.
func newFakeGraph(t *testing.T, handle http.HandlerFunc) graph.Client {
	t.Helper()
	tokens := 0
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login/{tenant}/oauth2/v2.0/token", func(w http.ResponseWriter, _ *http.Request) {
		tokens++
		fmt.Fprintf(w, `{"access_token":"t%d","expires_in":3600}`, tokens)
	})
	mux.HandleFunc("/v1.0/", handle)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	client, retry := call.NewHTTPClient(), call.RetryPolicy{MaxAttempts: 3, BaseDelay: time.Millisecond}
	return graph.Client{
		URL: graph.BaseURL(server.URL), HTTP: client, Retry: retry,
		Tokens: login.TokenSource{
			Host: login.Host{
				URL: server.URL + "/login", HTTP: client, Retry: retry, Now: time.Now,
				Credential: login.Credential{ClientID: "c", Secret: secret.New("s")},
			},
			Tokens: &login.TokenCache{Now: time.Now}, Tenant: "7b1d9c52-6a0e-4a55-8f0e-0c2f5b6a9d11", Scope: "x",
		},
	}
}

// thing is the type of the objects in these tests.
type thing struct {
	ID string `json:"id"`
}

var things = graph.StaticPath("/things")

func TestBaseURLEndsWithTheVersion(t *testing.T) {
	for host, want := range map[string]string{
		"https://graph.microsoft.com":       "https://graph.microsoft.com/v1.0",
		"https://graph.microsoft.com/":      "https://graph.microsoft.com/v1.0",
		"https://graph.microsoft.com/v1.0":  "https://graph.microsoft.com/v1.0",
		"https://graph.microsoft.com/v1.0/": "https://graph.microsoft.com/v1.0",
		"http://127.0.0.1:1/graph":          "http://127.0.0.1:1/graph/v1.0",
	} {
		if got := graph.BaseURL(host); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}

func TestRequestsHaveMethodPathTokenAndBody(t *testing.T) {
	var head, body string // head is the method, the URI and two headers
	c := newFakeGraph(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		head, body = r.Method+" "+r.RequestURI+" "+r.Header.Get("Authorization")+" "+r.Header.Get("Content-Type"), string(raw)
		if len(r.Header.Get("client-request-id")) != 36 {
			t.Error("the header client-request-id does not have the length of a UUID")
		}
		_, _ = w.Write([]byte(`{}`))
	})
	for _, tc := range []struct {
		send       func() error
		head, body string
	}{
		{func() error { _, err := graph.Get[thing](t.Context(), c, things, ""); return err }, "GET /v1.0/things Bearer t1 ", ""},
		{
			func() error {
				_, err := graph.List[thing](t.Context(), c, graph.StaticPath("/roleAssignments"),
					graph.Query("$filter", "principalId eq 'a' and roleDefinitionId eq 'b+c'", "$top", "999"))
				return err
			},
			"GET /v1.0/roleAssignments?$filter=principalId%20eq%20%27a%27%20and%20roleDefinitionId%20eq%20%27b%2Bc%27&$top=999 Bearer t1 ", "",
		},
		{
			func() error {
				_, err := graph.Get[thing](t.Context(), c, graph.StaticPath("/servicePrincipals(appId='a-b')"), "?$select=id")
				return err
			},
			"GET /v1.0/servicePrincipals(appId='a-b')?$select=id Bearer t1 ", "",
		},
		{
			func() error {
				_, err := graph.Write[thing](t.Context(), c, call.Repeatable, "PATCH", graph.PathWith("/users/%s", "a/../b?c@d"), map[string]bool{"x": true})
				return err
			},
			"PATCH /v1.0/users/a%2F..%2Fb%3Fc@d Bearer t1 application/json", `{"x":true}`,
		},
		{
			func() error {
				_, err := graph.Write[thing](t.Context(), c, call.Repeatable, "POST", graph.PathWith("/domains/%s/verify", "a.test"), nil)
				return err
			},
			"POST /v1.0/domains/a.test/verify Bearer t1 ", "",
		},
	} {
		if err := tc.send(); err != nil || head != tc.head || body != tc.body {
			t.Errorf("sent %s %s (%v)\nwant %s %s", head, body, err, tc.head, tc.body)
		}
	}
}

func TestWriteAcceptsResponsesWithAndWithoutABody(t *testing.T) {
	for _, tc := range []struct {
		status int
		body   string
		want   thing
	}{{204, "", thing{}}, {200, `{"id":"a"}`, thing{"a"}}, {201, `{"id":"a","new":[1]}`, thing{"a"}}, {202, "", thing{}}, {200, "<html>", thing{}}} {
		c := newFakeGraph(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tc.status)
			_, _ = w.Write([]byte(tc.body))
		})
		got, err := graph.Write[thing](t.Context(), c, call.Repeatable, "PATCH", things, struct{}{})
		if err != nil || got != tc.want {
			t.Errorf("%d %q: %v, %v, want %v", tc.status, tc.body, got, err, tc.want)
		}
	}
}

func TestListFollowsPages(t *testing.T) {
	for name, tc := range map[string]struct {
		next func(self string) string
		want outcome.Kind
	}{
		"an opaque link to the same host": {func(self string) string { return self + "/v1.0/things?$skiptoken=RFNw%2BdAI" }, 0},
		"the public host":                 {func(string) string { return "https://graph.microsoft.com/v1.0/things?$skiptoken=RFNw%2BdAI" }, 0},
		"a different name of the host": {func(self string) string {
			return strings.Replace(self, "127.0.0.1", "localhost", 1) + "/v1.0/things?$skiptoken=RFNw%2BdAI"
		}, 0},
		"a different host and API": {func(string) string { return "https://evil.example/beta/things?$skiptoken=RFNw%2BdAI" }, outcome.Broken},
		"the same page":            {func(self string) string { return self + "/v1.0/things" }, outcome.Broken},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeGraph(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.RequestURI, "$skiptoken=RFNw%2BdAI") {
					_, _ = w.Write([]byte(`{"value":[{"id":"b"}]}`))
					return
				}
				page := map[string]any{"value": []thing{{"a"}}, "@odata.nextLink": tc.next("http://" + r.Host)}
				_ = json.NewEncoder(w).Encode(page)
			})
			got, err := graph.List[thing](t.Context(), c, things, "")
			if outcome.KindOf(err) != tc.want || (err == nil && !cmp.Equal(got, []thing{{"a"}, {"b"}})) {
				t.Fatalf("got %v, %v, want the things a and b, or the outcome %s", got, err, tc.want)
			}
		})
	}
}

func TestListAcceptsEmptyAndRefusesMalformedCollections(t *testing.T) {
	for body, want := range map[string]outcome.Kind{
		`{"value":[]}`: 0, `{"value":null}`: 0, `{}`: 0, `{"value":[],"@odata.nextLink":null}`: 0,
		`{"value":7}`: outcome.Broken, `<html>`: outcome.Broken, ``: outcome.Broken,
	} {
		c := newFakeGraph(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
		got, err := graph.List[thing](t.Context(), c, things, "")
		if outcome.KindOf(err) != want || len(got) != 0 {
			t.Errorf("%s: %v, %v, want no things and the outcome %s", body, got, err, want)
		}
	}
}

func TestARefusedTokenIsReplaced(t *testing.T) {
	var sentTokens []string
	c := newFakeGraph(t, func(w http.ResponseWriter, r *http.Request) {
		sentTokens = append(sentTokens, r.Header.Get("Authorization"))
		if len(sentTokens) == 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"id":"a"}`))
	})
	if _, err := c.Tokens.Token(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := graph.Get[thing](t.Context(), c, things, "")
	if err != nil || got.ID != "a" || !cmp.Equal(sentTokens, []string{"Bearer t1", "Bearer t2"}) {
		t.Fatalf("got %v, %v after %v, want the thing a after the tokens t1 and t2", got, err, sentTokens)
	}
}
