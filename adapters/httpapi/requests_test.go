// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const (
	domainsOfA         = "/v1/tenants/" + string(tenantOfA) + "/domains"
	mailboxesOfA       = "/v1/tenants/" + string(tenantOfA) + "/mailboxes"
	unknownMailboxPath = mailboxesOfA + "/00000000-0000-4000-8000-00000000000f"
)

func gzipText(text string) string {
	var buffer bytes.Buffer
	compressor := gzip.NewWriter(&buffer)
	_, _ = compressor.Write([]byte(text))
	_ = compressor.Close()
	return buffer.String()
}

// TestInvalidBodiesAreRefused checks the codes for invalid and unusual bodies. No answer contains
// the secret canary of a request, and no answer lists more than 10 errors.
func TestInvalidBodiesAreRefused(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	const canary = "Hunter2-Secret"
	add := func(body string) call { return call{method: "POST", path: domainsOfA, body: body} }
	provision := func(body string) call { return call{method: "POST", path: mailboxesOfA, body: body} }
	change := func(body string) call { return call{method: "PATCH", path: unknownMailboxPath, body: body} }
	withHeaders := func(c call, headers ...string) call {
		c.headers = map[string]string{}
		for i := 0; i < len(headers); i += 2 {
			c.headers[headers[i]] = headers[i+1]
		}
		return c
	}
	for _, tc := range []struct {
		name   string
		call   call
		status int
		code   string
	}{
		{"malformed", add(`{"domain":`), 400, "invalid_request"},
		{"empty body", add(``), 400, "invalid_request"},
		{"null", add(`null`), 400, "invalid_request"},
		{"array", add(`[]`), 400, "invalid_request"},
		{"trailing data", add(`{"domain":"example.com"} x`), 400, "invalid_request"},
		{"two documents", add(`{"domain":"example.com"}{}`), 400, "invalid_request"},
		{"byte order mark", add("\ufeff{\"domain\":\"example.com\"}"), 400, "invalid_request"},
		{"missing member", add(`{}`), 400, "invalid_request"},
		{"wrong type", add(`{"domain":7}`), 400, "invalid_request"},
		{"a number that overflows float64", add(`{"domain":1e400}`), 400, "invalid_request"},
		{"null member", add(`{"domain":null}`), 400, "invalid_request"},
		{"unknown member", add(`{"domain":"example.com","Hunter2-Secret":1}`), 400, "invalid_request"},
		{"duplicate member", add(`{"domain":"example.com","domain":"example.org"}`), 400, "invalid_request"},
		{"member with a different case", add(`{"Domain":"example.com"}`), 400, "invalid_request"},
		{"duplicate member with a different case", add(`{"domain":"example.com","DOMAIN":"example.org"}`), 400, "invalid_request"},
		{"U+0000", add(`{"domain":"example.com\u0000"}`), 400, "invalid_request"},
		{"invalid UTF-8", add("{\"domain\":\"\xff\"}"), 400, "invalid_request"},
		{"lone surrogate", add(`{"domain":"\ud800"}`), 400, "invalid_request"},
		{"nested too deep", add(strings.Repeat(`{"domain":`, 17) + `1` + strings.Repeat(`}`, 17)), 400, "invalid_request"},
		{"exactly 64 KiB", add(`{"domain":"` + strings.Repeat("a", 64<<10-13) + `"}`), 400, "invalid_domain"},
		{"64 KiB and one byte", add(`{"domain":"` + strings.Repeat("a", 64<<10-12) + `"}`), 413, "request_too_large"},
		{"no Content-Type", withHeaders(add(`{"domain":"example.com"}`), "Content-Type", ""), 415, "unsupported_media_type"},
		{"text", withHeaders(add(`{"domain":"example.com"}`), "Content-Type", "text/plain"), 415, "unsupported_media_type"},
		{"form", withHeaders(add(`domain=example.com`), "Content-Type", "application/x-www-form-urlencoded"), 415, "unsupported_media_type"},
		{"a different JSON media type", withHeaders(add(`{"domain":"example.com"}`), "Content-Type", "application/merge-patch+json"), 415, "unsupported_media_type"},
		{"utf-16", withHeaders(add(`{"domain":"example.com"}`), "Content-Type", "application/json; charset=utf-16"), 415, "unsupported_media_type"},
		{"explicit utf-8", withHeaders(add(`{"domain":"com"}`), "Content-Type", "application/json; charset=UTF-8"), 400, "invalid_domain"},
		{"a space before a parameter", withHeaders(add(`{"domain":"com"}`), "Content-Type", "application/json ; charset=utf-8"), 400, "invalid_domain"},
		{"a parameter with a plus sign", withHeaders(add(`{"domain":"com"}`), "Content-Type", `application/json; profile="a+b"`), 400, "invalid_domain"},
		{"gzip", withHeaders(add(gzipText(`{"domain":"example.com"}`)), "Content-Encoding", "gzip"), 415, "unsupported_media_type"},
		{"identity encoding", withHeaders(add(`{"domain":"com"}`), "Content-Encoding", "identity"), 400, "invalid_domain"},
		{"operation without a body: a member", call{method: "POST", path: domainsOfA + "/example.com/verify", body: `{"a":1}`}, 400, "invalid_request"},
		{"operation without a body: null", call{method: "POST", path: domainsOfA + "/example.com/verify", body: `null`}, 400, "invalid_request"},
		{"operation without a body: {} without a Content-Type", withHeaders(call{method: "POST", path: domainsOfA + "/example.com/verify", body: `{}`}, "Content-Type", ""), 404, "domain_not_found"},
		{"operation without a body: a Content-Type without a body", withHeaders(call{method: "POST", path: domainsOfA + "/example.com/verify"}, "Content-Type", "text/plain"), 404, "domain_not_found"},
		{"operation without a body: text", withHeaders(call{method: "POST", path: domainsOfA + "/example.com/verify", body: `{}`}, "Content-Type", "text/plain"), 415, "unsupported_media_type"},

		{"password of the wrong type", provision(`{"domain":"example.com","account_password":["Hunter2-Secret"],"mailboxes":[{"name":"A","email":"a@example.com"}]}`), 400, "invalid_request"},
		{"password misspelt", provision(`{"domain":"example.com","account_passwort":"Hunter2-Secret","mailboxes":[{"name":"A","email":"a@example.com"}]}`), 400, "invalid_request"},
		{"mailboxes null", provision(`{"domain":"example.com","account_password":"Hunter2-Secret","mailboxes":null}`), 400, "invalid_request"},
		{"no mailboxes", provision(`{"domain":"example.com","account_password":"Hunter2-Secret","mailboxes":[]}`), 400, "invalid_request"},
		{"a mailbox is null", provision(`{"domain":"example.com","account_password":"Hunter2-Secret","mailboxes":[null]}`), 400, "invalid_request"},
		{"a mailbox without a name", provision(`{"domain":"example.com","account_password":"Hunter2-Secret","mailboxes":[{"email":"a@example.com"}]}`), 400, "invalid_request"},
		{"a name with a line break", provision(`{"domain":"example.com","account_password":"Hunter2-Secret","mailboxes":[{"name":"a\nb","email":"a@example.com"}]}`), 400, "invalid_request"},
		{"thousands of bad items", provision(`{"domain":"example.com","account_password":"Hunter2-Secret","mailboxes":[` + strings.Repeat(`1,`, 20000) + `1]}`), 400, "invalid_request"},
		{"unknown domain", provision(`{"domain":"example.com","account_password":"x","mailboxes":[{"name":"A","email":"a@example.com"}]}`), 404, "domain_not_found"},

		{"patch with null name", change(`{"display_name":null}`), 400, "invalid_request"},
		{"patch with an array", change(`[1]`), 400, "invalid_request"},
		{"patch with null", change(`null`), 400, "invalid_request"},
		{"patch: an unknown member beside a known one", change(`{"daily_send_limit":5,"Daily_Send_Limit":99}`), 400, "invalid_request"},
		{"patch: duplicate", change(`{"daily_send_limit":5,"daily_send_limit":25}`), 400, "invalid_request"},
		{"patch: a space before a parameter", withHeaders(change(`{"daily_send_limit":5}`), "Content-Type", "application/json ; charset=utf-8"), 404, "mailbox_not_found"},
		{"patch: a parameter with a plus sign", withHeaders(change(`{"daily_send_limit":5}`), "Content-Type", `application/json; profile="a+b"`), 404, "mailbox_not_found"},
		{"patch: ownership before an empty change", change(`{}`), 404, "mailbox_not_found"},
		{"patch: ownership before the limit", change(`{"daily_send_limit":99}`), 404, "mailbox_not_found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.call.key = env.accountA.key
			client := client.forTest(t)
			got := client.expect(tc.call, tc.status, tc.code)
			if strings.Contains(got.raw, canary) {
				t.Errorf("the answer contains the secret %s: %s", canary, got.raw)
			}
			if list, _ := got.body["errors"].([]any); len(list) > 10 {
				t.Errorf("the answer lists %d errors, want at most 10", len(list))
			}
		})
	}
}

// TestUnknownMembersAreLocated checks that the error for an unknown member has the location of the
// member. The member's name is omitted when it could be a secret.
func TestUnknownMembersAreLocated(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	for _, tc := range []struct{ method, path, validMember string }{
		{"POST", domainsOfA, `"domain":"example.com"`},
		{"PATCH", unknownMailboxPath, `"daily_send_limit":5`},
	} {
		for member, wantLocation := range map[string]string{"nickname": "body.nickname", "Hunter2-Secret": "body"} {
			t.Run(tc.method+" "+member, func(t *testing.T) {
				got := client.forTest(t).expect(call{
					method: tc.method, path: tc.path, key: env.accountA.key, body: `{` + tc.validMember + `,"` + member + `":1}`,
				}, 400, "invalid_request")
				problems, _ := got.body["errors"].([]any)
				if len(problems) != 1 {
					t.Fatalf("the errors are %v, want one error", problems)
				}
				if unknownMember, _ := problems[0].(map[string]any); unknownMember["location"] != wantLocation {
					t.Fatalf("the location is %v, want %s", unknownMember["location"], wantLocation)
				}
			})
		}
	}
}

// TestNullOptionalMembersAreLocated checks the location of the error for an optional member that is
// null.
func TestNullOptionalMembersAreLocated(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	for _, tc := range []struct{ path, body, wantLocation string }{
		{"/v1/keys", `{"name":"k","scopes":["*"],"tenant_ids":null}`, "body.tenant_ids"},
		{"/v1/keys/x/rotate", `{"overlap_hours":null}`, "body.overlap_hours"},
		{"/v1/webhooks", `{"url":"https://hooks.example.test/","event_types":["*"],"description":null}`, "body.description"},
		{"/v1/webhooks/x/rotate-secret", `{"overlap_hours":null}`, "body.overlap_hours"},
		{integrationsPath, `{"provider":"instantly","name":"n","api_key":"k","workspace_id":null}`, "body.workspace_id"},
	} {
		got := client.expect(call{method: "POST", path: tc.path, body: tc.body, key: env.accountA.key}, 400, "invalid_request")
		if locations := got.locations(); !slices.Equal(locations, []string{tc.wantLocation}) {
			t.Errorf("POST %s: the locations are %v, want %s", tc.path, locations, tc.wantLocation)
		}
	}
}

// TestFieldsOfCoreAreLocatedInTheBody sends a domain that core/domain refuses. The error of
// core/domain names the field "domain". In the answer, this field must have the location
// body.domain.
func TestFieldsOfCoreAreLocatedInTheBody(t *testing.T) {
	env := newTestEnv(t)
	got := serve(t, env.handler(t)).expect(call{
		method: "POST", path: domainsOfA, key: env.accountA.key, body: `{"domain":"com"}`,
	}, 400, "invalid_domain")
	if !strings.Contains(got.raw, `"errors":[{"location":"body.domain",`) {
		t.Fatalf("got %s, want the location body.domain", got.raw)
	}
}

func TestSendLimitMustBeAnIntegerLiteral(t *testing.T) {
	env := newTestEnv(t)
	path := env.addMailbox(t, env.accountA)
	client := serve(t, env.handler(t))
	for body, code := range map[string]string{
		`{"daily_send_limit":5}`: "", `{"daily_send_limit": 25 }`: "", `{"daily_send_limit":1}`: "",
		`{"daily_send_limit":0}`: "invalid_send_limit", `{"daily_send_limit":26}`: "invalid_send_limit",
		`{"daily_send_limit":-0}`: "invalid_send_limit", `{"daily_send_limit":-1}`: "invalid_send_limit",
		`{"daily_send_limit":5.0}`: "invalid_send_limit", `{"daily_send_limit":1e1}`: "invalid_send_limit",
		`{"daily_send_limit":2.5}`: "invalid_send_limit", `{"daily_send_limit":1e400}`: "invalid_send_limit",
		`{"daily_send_limit":18446744073709551621}`: "invalid_send_limit",
		`{"daily_send_limit":"5"}`:                  "invalid_send_limit", `{"daily_send_limit":null}`: "invalid_send_limit",
		`{"daily_send_limit":[5]}`: "invalid_send_limit", `{"daily_send_limit":{}}`: "invalid_send_limit",
		`{"daily_send_limit":true}`: "invalid_send_limit",
		`{}`:                        "no_updates", `{"limit":5}`: "no_updates", `{"DISPLAY_NAME":"x","y":2}`: "no_updates",
		`{"display_name":"  "}`: "invalid_request", `{"display_name":5}`: "invalid_request",
		`{"display_name":"Ana","x":1}`: "invalid_request",
	} {
		t.Run(body, func(t *testing.T) {
			status := 400
			if code == "" {
				status = 200
			}
			client.forTest(t).expect(call{method: "PATCH", path: path, body: body, key: env.accountA.key}, status, code)
		})
	}
}

func TestOnlyJSONIsAcceptable(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	listTenants := call{method: "GET", path: "/v1/tenants", key: env.accountA.key}
	for _, tc := range []struct {
		name, accept string
		status       int
		code         string
	}{
		{"no Accept", "", 200, ""},
		{"anything", "*/*", 200, ""},
		{"application", "application/*", 200, ""},
		{"problem", "application/problem+json", 200, ""},
		{"JSON among others", "text/html, application/json;q=0.1", 200, ""},
		{"JSON excluded", "application/json;q=0, */*", 406, "not_acceptable"},
		{"HTML", "text/html", 406, "not_acceptable"},
		{"nonsense", "json", 406, "not_acceptable"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			withAccept := listTenants
			withAccept.headers = map[string]string{"Accept": tc.accept}
			got := client.forTest(t).expect(withAccept, tc.status, tc.code)
			if got.header.Get("Cache-Control") != "no-store" || got.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("got the headers %v, want no-store and nosniff", got.header)
			}
		})
	}
}

// TestUnusualAcceptHeadersGetJSON sends Accept headers that allow JSON, but that huma misreads.
// Each answer must be JSON. The test also rotates the API key, because the old key no longer works
// if the answer with the new key is lost.
func TestUnusualAcceptHeadersGetJSON(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	key := env.accountA.key
	for _, accept := range acceptHeadersOfJSON {
		headers := map[string]string{"Accept": accept, "Idempotency-Key": ""}
		listed := client.expect(call{method: "GET", path: "/v1/tenants", key: key, headers: headers}, 200, "")
		rotated := client.expect(call{method: "POST", path: "/api-key/rotate?user_email=ann@a.example", key: key, headers: headers}, 200, "")
		for _, got := range []reply{listed, rotated} {
			if kind := got.header.Get("Content-Type"); kind != "application/json" {
				t.Errorf("for Accept %q the Content-Type is %q, want application/json", accept, kind)
			}
		}
		key = memberText(rotated, "api_key")
	}
	client.expect(call{method: "GET", path: "/v1/tenants", key: key}, 200, "")
}

func TestInvalidIdempotencyKeysAreRefused(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	addDomain := call{method: "POST", path: domainsOfA, body: `{"domain":"com"}`, key: env.accountA.key}
	for name, tc := range map[string]struct {
		values   []string
		wantCode string
	}{
		"none":                {nil, "idempotency_key_required"},
		"empty":               {[]string{""}, "invalid_idempotency_key"},
		"255 characters":      {[]string{strings.Repeat("k", 255)}, "invalid_domain"},
		"256 characters":      {[]string{strings.Repeat("k", 256)}, "invalid_idempotency_key"},
		"a space inside":      {[]string{"a b"}, "invalid_idempotency_key"},
		"Latin-1":             {[]string{"caf\xe9"}, "invalid_idempotency_key"},
		"an emoji":            {[]string{"😀"}, "invalid_idempotency_key"},
		"visible punctuation": {[]string{`!"#$%&'()*+,-./:;<=>?@[\]^_{|}~`}, "invalid_domain"},
		"two headers":         {[]string{"a", "a"}, "invalid_idempotency_key"},
	} {
		t.Run(name, func(t *testing.T) {
			r := addDomain.request(t, client.server.URL)
			r.Header["Idempotency-Key"] = tc.values
			got := client.forTest(t).send(r)
			if got.status != 400 || got.code() != tc.wantCode {
				t.Fatalf("got %d %q, want 400 %q", got.status, got.code(), tc.wantCode)
			}
		})
	}
}

func TestRequestIDIsEchoedWhenValid(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	longestID := strings.Repeat("a", 128)
	for id, wantEcho := range map[string]bool{
		"req-7.A_b": true, longestID: true, longestID + "a": false, "": false, "<script>": false, "${jndi}": false, "a b": false, "é": false, "a,b": false,
	} {
		got := client.do(call{method: "GET", path: "/v1/tenants", headers: map[string]string{"X-Request-ID": id}})
		if (got.header.Get("X-Request-ID") == id) != wantEcho {
			t.Errorf("for the id %q the answer has the id %q, want the same id: %v", id, got.header.Get("X-Request-ID"), wantEcho)
		}
	}
	r := call{method: "GET", path: "/v1/tenants"}.request(t, client.server.URL)
	r.Header["X-Request-Id"] = []string{"one", "two"}
	if got := client.send(r).header.Values("X-Request-ID"); len(got) != 1 || got[0] == "one" || got[0] == "two" {
		t.Errorf("for two ids the answer has the ids %v, want one new id", got)
	}
}

func TestInvalidQueryParametersAreRefused(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	rotate := func(query string) call {
		return call{method: "POST", path: "/api-key/rotate" + query, key: env.accountA.key, headers: map[string]string{"Idempotency-Key": ""}}
	}
	client.expect(rotate(""), 400, "invalid_request")
	client.expect(rotate("?user_email="), 400, "invalid_request")
	client.expect(rotate("?user_email=a@a.example&user_email=a@a.example"), 400, "invalid_request")
	client.expect(rotate("?user%5Femail=a@a.example&user_email=b"), 400, "invalid_request")
	client.expect(rotate("?user_email=%zz"), 400, "invalid_request")
	client.expect(rotate("?user_email=%00"), 400, "invalid_request")
	client.expect(rotate("?user_email=%ff"), 400, "invalid_request")
	client.expect(rotate("?user_email=bob@b.example"), 403, "access_denied")
	client.expect(call{method: "GET", path: "/v1/tenants?limit=abc&limit=2&x=%zz", key: env.accountA.key}, 200, "")
	client.expect(rotate("?x&user_email=ann@a.example"), 200, "")
}

func TestHeadAnswersLikeGet(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	for path, status := range map[string]int{"/v1/tenants": 200, "/v1/tenants/x": 404, "/docs": 200, "/openapi.json": 200, "/nowhere": 404} {
		got := client.do(call{method: http.MethodHead, path: path, key: env.accountA.key})
		if got.status != status || got.raw != "" || got.header.Get("Content-Length") == "" {
			t.Errorf("HEAD %s got %d %q %v, want %d with a Content-Length and no body", path, got.status, got.raw, got.header, status)
		}
	}
}
