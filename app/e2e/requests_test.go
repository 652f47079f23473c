// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// sendRaw sends a request. The values in headers replace the default headers, which are valid. A
// header with an empty value is omitted. A newline separates several values of a header.
func (c caller) sendRaw(method, path, body string, headers map[string]string) reply {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.ready.APIURL+path, strings.NewReader(body))
	must(c.t, err)
	r.Host = headers["Host"]
	r.Header = http.Header{"Authorization": {"Bearer " + c.key}, "Idempotency-Key": {"raw"}, "Content-Type": {"application/json"}}
	for name, value := range headers {
		r.Header.Del(name)
		if value != "" {
			r.Header[http.CanonicalHeaderKey(name)] = strings.Split(value, "\n")
		}
	}
	answer, err := http.DefaultClient.Do(r)
	must(c.t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	must(c.t, err)
	got := parseReply(answer, text)
	if err := checkDocumented(c.t, method, path, got); err != nil {
		c.t.Errorf("%s %s: the answer %d differs from the OpenAPI document: %v\n%s", method, path, got.status, err, text)
	}
	return got
}

// TestInvalidRequestsHaveErrorCodes checks the status and error code of invalid requests. The last
// three requests of its table are valid.
func TestInvalidRequestsHaveErrorCodes(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t).newAccount(nil)
	domainsPath := "/v1/tenants/" + strings.Repeat("0", 8) + "/domains"
	for _, tc := range []struct {
		name, method, path, body string
		headers                  map[string]string
		status                   int
		code                     string
	}{
		{"unknown route", "GET", "/v1/nothing", "", nil, 404, "route_not_found"},
		{"unknown route outside /v1", "GET", "/nothing", "", nil, 404, "route_not_found"},
		{"a final slash", "GET", "/v1/tenants/", "", nil, 404, "route_not_found"},
		{"wrong method", "PUT", "/v1/tenants", "", nil, 405, "method_not_allowed"},
		{"authentication is checked before the route", "GET", "/v1/nothing", "", map[string]string{"Authorization": ""}, 401, "invalid_auth_header"},
		{"a different authentication scheme", "GET", "/v1/tenants", "", map[string]string{"Authorization": "Basic eDp5"}, 401, "invalid_auth_header"},
		{"two Authorization headers", "GET", "/v1/tenants", "", map[string]string{"Authorization": "Bearer " + c.key + "\nBearer " + c.key}, 401, "invalid_auth_header"},
		{"nothing after Bearer", "GET", "/v1/tenants", "", map[string]string{"Authorization": "Bearer "}, 401, "missing_api_key"},
		{"a key in upper case", "GET", "/v1/tenants", "", map[string]string{"Authorization": "Bearer " + strings.ToUpper(c.key)}, 401, "invalid_api_key"},
		{"an unknown key", "GET", "/v1/tenants", "", map[string]string{"Authorization": "Bearer tny_live_" + strings.Repeat("0", 48)}, 401, "invalid_api_key"},
		{"only HTML accepted", "GET", "/v1/tenants", "", map[string]string{"Accept": "text/html"}, 406, "not_acceptable"},
		{"no idempotency key", "POST", domainsPath, "{}", map[string]string{"Idempotency-Key": ""}, 400, "idempotency_key_required"},
		{"a long idempotency key", "POST", domainsPath, "{}", map[string]string{"Idempotency-Key": strings.Repeat("k", 256)}, 400, "invalid_idempotency_key"},
		{"an idempotency key with a space", "POST", domainsPath, "{}", map[string]string{"Idempotency-Key": "a b"}, 400, "invalid_idempotency_key"},
		{"the idempotency key is checked before the body", "POST", domainsPath, "nonsense", map[string]string{"Idempotency-Key": ""}, 400, "idempotency_key_required"},
		{"a form as the body", "POST", domainsPath, "a=b", map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"},
		{"a body that is too large", "POST", domainsPath, `{"domain":"` + strings.Repeat("x", 64<<10) + `"}`, nil, 413, "request_too_large"},
		{"malformed JSON", "POST", domainsPath, `{"domain":`, nil, 400, "invalid_request"},
		{"two JSON values", "POST", domainsPath, `{"domain":"a.example"} {}`, nil, 400, "invalid_request"},
		{"a repeated member", "POST", domainsPath, `{"domain":"a.example","domain":"a.example"}`, nil, 400, "invalid_request"},
		{"a member in capitals", "POST", domainsPath, `{"Domain":"a.example"}`, nil, 400, "invalid_request"},
		{"invalid UTF-8", "POST", domainsPath, "{\"domain\":\"\xff.example\"}", nil, 400, "invalid_request"},
		{"U+0000", "POST", domainsPath, `{"domain":"a\u0000.example"}`, nil, 400, "invalid_request"},
		{"17 levels of nesting", "POST", domainsPath, strings.Repeat("[", 17) + strings.Repeat("]", 17), nil, 400, "invalid_request"},
		{"the body is checked before ownership", "POST", domainsPath, `{}`, nil, 400, "invalid_request"},
		{"ownership is checked before the domain name", "POST", domainsPath, `{"domain":"com"}`, nil, 404, "tenant_not_found"},
		{"unknown query parameters are ignored", "GET", "/v1/tenants?x=1&x=2", "", nil, 200, ""},
		{"application/* accepted", "GET", "/v1/tenants", "", map[string]string{"Accept": "text/html, application/*;q=0.1"}, 200, ""},
		{"the scheme in small letters", "GET", "/v1/tenants", "", map[string]string{"Authorization": "bearer " + c.key}, 200, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := c.withT(t).sendRaw(tc.method, tc.path, tc.body, tc.headers)
			if got.status != tc.status || got.code() != tc.code {
				t.Errorf("got %d %q, want %d %q\n%s", got.status, got.code(), tc.status, tc.code, got.raw)
			}
			if (got.status == 401) != (got.header.Get("WWW-Authenticate") == "Bearer") {
				t.Errorf("the answer %d has the WWW-Authenticate %q, want Bearer with 401 only", got.status, got.header.Get("WWW-Authenticate"))
			}
			if got.status == 405 && got.header.Get("Allow") == "" {
				t.Error("the answer 405 has no Allow header")
			}
			if strings.HasPrefix(tc.path, "/v1") && got.status == 200 && got.header.Get("Cache-Control") != "no-store" {
				t.Errorf("Cache-Control is %q, want no-store", got.header.Get("Cache-Control"))
			}
			if bytes.Contains(got.raw, []byte("$schema")) || got.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("the answer has a $schema or allows CORS: %s", got.raw)
			}
		})
	}
}

func TestValidRequestIDsAreEchoed(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t)
	for sent, kept := range map[string]bool{"a.B-9_": true, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false, "a b": false, "ü": false} {
		got := c.sendRaw("GET", "/v1/nothing", "", map[string]string{"X-Request-ID": sent})
		if id := got.header.Get("X-Request-ID"); (id == sent) != kept || id == "" {
			t.Errorf("the request id %q is returned as %q, want it unchanged: %v", sent, id, kept)
		}
	}
}

func TestHeadIsAnsweredWithoutABody(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t)
	for path, status := range map[string]int{"/v1/tenants": 200, "/openapi.json": 200, "/v1/tenants/x": 404} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodHead, c.ready.APIURL+path, http.NoBody)
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+c.key)
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != status || len(body) != 0 {
			t.Errorf("HEAD %s is answered %d with %d bytes (%v), want %d and no body", path, answer.StatusCode, len(body), err, status)
		}
	}
}
