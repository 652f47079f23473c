// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/login"
)

const guid tenant.GUID = "7b1d9c52-6a0e-4a55-8f0e-0c2f5b6a9d11"

// newFakeExchange starts a fake of Exchange and the login host. handle answers InvokeCommand.
func newFakeExchange(t *testing.T, handle http.HandlerFunc) exchange.Client {
	t.Helper()
	tokens := 0
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login/{tenant}/oauth2/v2.0/token", func(w http.ResponseWriter, _ *http.Request) {
		tokens++
		fmt.Fprintf(w, `{"access_token":"t%d","expires_in":3600}`, tokens)
	})
	mux.HandleFunc("/adminapi/", handle)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	client, retry := call.NewHTTPClient(), call.RetryPolicy{MaxAttempts: 3, BaseDelay: time.Millisecond}
	return exchange.Client{
		URL: server.URL, HTTP: client, Retry: retry, Tenant: guid, Limiter: new(exchange.Limiters).For("c", guid, 0),
		Tokens: login.TokenSource{
			Host: login.Host{
				URL: server.URL + "/login", HTTP: client, Retry: retry, Now: time.Now,
				Credential: login.Credential{ClientID: "c", Secret: secret.New("s")},
			},
			Tokens: &login.TokenCache{Now: time.Now}, Tenant: guid, Scope: "x",
		},
	}
}

// row is the type of the rows in these tests.
type row struct {
	Name       exchange.Text
	Dehydrated exchange.Bool `json:"IsDehydrated"`
	Changed    exchange.Time `json:"WhenChanged"`
}

// invoke runs Get-OrganizationConfig with this effect.
func invoke(t *testing.T, c exchange.Client, effect call.Effect) ([]row, error) {
	t.Helper()
	return exchange.Invoke[row](t.Context(), c, exchange.Command{Effect: effect, Cmdlet: exchange.GetOrganizationConfig})
}

func TestInvokeSendsCommandAndHeaders(t *testing.T) {
	var received *http.Request
	var body string
	c := newFakeExchange(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		received, body = r, string(raw)
		_, _ = w.Write([]byte(`{"value":[]}`))
	})
	_, err := exchange.Invoke[row](t.Context(), c, exchange.Command{
		Effect: call.Read, Cmdlet: exchange.GetMailbox, Select: []string{"Name", "IsDehydrated"},
		Parameters: map[string]any{"Identity": `a"b$(c)@d.test`, "RecipientTypeDetails": []string{exchange.SharedMailbox}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := "/adminapi/beta/" + string(guid) + "/InvokeCommand?$select=Name%2CIsDehydrated"; received.Method != "POST" || received.RequestURI != want {
		t.Fatalf("sent %s %s, want POST %s", received.Method, received.RequestURI, want)
	}
	if want := `{"CmdletInput":{"CmdletName":"Get-Mailbox","Parameters":{"Identity":"a\"b$(c)@d.test","RecipientTypeDetails":["SharedMailbox"]}}}`; body != want {
		t.Fatalf("sent %s, want %s", body, want)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer t1", "Content-Type": "application/json; charset=utf-8", "Accept": "application/json",
		"X-AnchorMailbox": "APP:SystemMailbox{bb558c35-97f1-4cb9-8ff7-d53741dc928c}@" + string(guid),
		"X-CmdletName":    "Get-Mailbox", "X-ResponseFormat": "json", "X-SerializationLevel": "Partial",
		"Prefer": "odata.maxpagesize=1000",
	} {
		if got := received.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if len(received.Header.Get("connection-id")) != 36 || len(received.Header.Get("client-request-id")) != 36 {
		t.Error("the header connection-id or client-request-id does not have the length of a UUID")
	}
}

func TestParametersAreNeverNull(t *testing.T) {
	c := newFakeExchange(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		if string(raw) != `{"CmdletInput":{"CmdletName":"Get-OrganizationConfig","Parameters":{}}}` {
			t.Errorf("sent %s, want the parameters {}", raw)
		}
		_, _ = w.Write([]byte(`{"value":[]}`))
	})
	if _, err := invoke(t, c, call.Read); err != nil {
		t.Fatal(err)
	}
}

func TestInvokeReadsRowsInAnyForm(t *testing.T) {
	isTrue := exchange.Bool{Set: true, Value: true}
	for body, want := range map[string][]row{
		`{"@adminapi.warnings":[],"value":[{"Name":"a","IsDehydrated":true,"WhenChanged@data.type":"System.DateTime","WhenChanged":"2026-11-02T08:55:10.0000000+00:00"}]}`: {
			{"a", isTrue, exchange.Time{Time: time.Date(2026, 11, 2, 8, 55, 10, 0, time.UTC)}},
		},
		`{"value":[{"Name":null,"IsDehydrated":"True","WhenChanged":""}]}`: {{"", isTrue, exchange.Time{}}},
		`{"value":[{"Name":["x"],"IsDehydrated":null}]}`:                   {{}},
		`{"value":{"Name":"single"}}`:                                      {{Name: "single"}},
		`{"value":[{"Name":"a"}],"@adminapi.errors":[]}`:                   {{Name: "a"}},
		`{"value":[],"@adminapi.errors":null}`:                             {},
		`{"@adminapi.warnings":["no settings have been modified"]}`:        nil,
		`{"value":null}`: nil, ``: nil,
	} {
		c := newFakeExchange(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
		got, err := invoke(t, c, call.Read)
		if err != nil || len(got) != len(want) || (len(want) > 0 && !cmp.Equal(got, want)) {
			t.Errorf("%s: %v, %v, want %v", body, got, err, want)
		}
	}
	for _, body := range []string{`{"value":7}`, `{"value":["x"]}`, `<html>`} {
		c := newFakeExchange(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
		if _, err := invoke(t, c, call.Read); outcome.KindOf(err) != outcome.Broken {
			t.Errorf("%s: %v, want broken", body, err)
		}
	}
}

// TestInvokeFollowsPagesWithTheServersCookies reads three pages. The second page replaces the
// cookie of the first.
func TestInvokeFollowsPagesWithTheServersCookies(t *testing.T) {
	var bodies, cookies []string
	c := newFakeExchange(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		bodies, cookies = append(bodies, string(raw)), append(cookies, r.Header.Get("Cookie"))
		if r.Header.Get("X-CmdletName") == "" {
			t.Error("a request has no header X-CmdletName, want one in each request")
		}
		if len(bodies) == 3 {
			_, _ = w.Write([]byte(`{"value":[{"Name":"c"}]}`))
			return
		}
		w.Header().Add("Set-Cookie", fmt.Sprintf("exchangecookie=%d; path=/; secure; HttpOnly", len(bodies)))
		next := fmt.Sprintf("https://outlook.office365.com%s?$skiptoken=%d", r.URL.Path, len(bodies)) // a link to the public host
		_ = json.NewEncoder(w).Encode(map[string]any{"value": []any{map[string]any{"Name": "a"}}, "@odata.nextLink": next})
	})
	got, err := invoke(t, c, call.Read)
	if err != nil || len(got) != 3 || bodies[0] != bodies[1] || bodies[0] != bodies[2] {
		t.Fatalf("got %v, %v, want three rows; sent %v, want three equal bodies", got, err, bodies)
	}
	if want := []string{"", "exchangecookie=1", "exchangecookie=2"}; !slices.Equal(cookies, want) {
		t.Errorf("the requests had the cookies %q, want %q", cookies, want)
	}
}

func TestInvokeFailsWhenAPageIsMissing(t *testing.T) {
	for name, next := range map[string]func(http.ResponseWriter, *http.Request) string{
		"expired link": func(_ http.ResponseWriter, r *http.Request) string {
			return "http://" + r.Host + r.URL.Path + "?$skiptoken=x"
		},
		"link to a different host": func(http.ResponseWriter, *http.Request) string { return "https://evil.example/adminapi" },
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeExchange(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("$skiptoken") != "" {
					w.WriteHeader(http.StatusBadRequest)
					_, _ = w.Write([]byte(`{"error":{"code":"BadRequest","message":"Expired or Invalid pagination request. Default Expiry time is 00:30:00"}}`))
					return
				}
				_ = json.NewEncoder(w).Encode(map[string]any{"value": []any{}, "@odata.nextLink": next(w, r)})
			})
			got, err := invoke(t, c, call.Read)
			if !errors.Is(err, fault.ProviderError) || got != nil {
				t.Fatalf("got %v, %v, want no rows and a provider error", got, err)
			}
		})
	}
}

// TestInvokePageSendsOneRequest checks that InvokePage does not repeat a failed request. It also
// checks that mayHaveMore is true if the answer has a warning or a link to a next page.
func TestInvokePageSendsOneRequest(t *testing.T) {
	for _, tc := range []struct {
		status      int
		body        string
		mayHaveMore bool
		fails       bool
	}{
		{200, `{"value":[{"Name":"a"}]}`, false, false},
		{200, `{"value":[{"Name":"a"}],"@adminapi.warnings":[]}`, false, false},
		{200, `{"value":[{"Name":"a"}],"@adminapi.warnings":null}`, false, false},
		{200, `{"value":[{"Name":"a"}],"@adminapi.warnings":["There are more results."]}`, true, false},
		{200, `{"value":[{"Name":"a"}],"@odata.nextLink":"https://outlook.office365.com/adminapi/x"}`, true, false},
		{200, `{"value":[],"@adminapi.errors":["no"]}`, false, true},
		{503, ``, false, true},
		{429, ``, false, true},
		{500, ``, false, true},
	} {
		requests := 0
		c := newFakeExchange(t, func(w http.ResponseWriter, _ *http.Request) {
			requests++
			w.WriteHeader(tc.status)
			_, _ = w.Write([]byte(tc.body))
		})
		rows, mayHaveMore, err := exchange.InvokePage[row](t.Context(), c, exchange.Command{Effect: call.Read, Cmdlet: exchange.GetMessageTrace})
		if requests != 1 || (err != nil) != tc.fails || mayHaveMore != tc.mayHaveMore || (len(rows) == 1) == tc.fails {
			t.Errorf("%d %s: %d requests, got %v, mayHaveMore %v, %v, want one request, mayHaveMore %v, an error: %v, and otherwise one row",
				tc.status, tc.body, requests, rows, mayHaveMore, err, tc.mayHaveMore, tc.fails)
		}
	}
}

func TestTextsAreReadFromListsInAnyForm(t *testing.T) {
	for list, want := range map[string][]string{
		`["a","b"]`: {"a", "b"}, `"a"`: {"a"}, `[]`: nil, `null`: nil, `""`: nil, `["a",null,""]`: {"a"}, `{"x":1}`: nil, `5`: nil,
	} {
		var got exchange.Texts
		if err := json.Unmarshal([]byte(list), &got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", list, got, err, want)
		}
	}
}

func TestARefusedTokenIsReplacedOnce(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		var sentTokens []string
		c := newFakeExchange(t, func(w http.ResponseWriter, r *http.Request) {
			sentTokens = append(sentTokens, r.Header.Get("Authorization"))
			w.WriteHeader(status)
			_, _ = w.Write(make([]byte, 4096)) // Exchange answers 403 with NUL bytes
		})
		if _, err := c.Tokens.Token(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := invoke(t, c, call.Create)
		if !call.IsDenied(err) || exchange.Status(err) != status || strings.Join(sentTokens, ",") != "Bearer t1,Bearer t2" {
			t.Fatalf("status %d: %v after %v, want a denial after the tokens t1 and t2", status, err, sentTokens)
		}
	}
}
