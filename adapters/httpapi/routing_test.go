// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
)

func TestUnknownRoutesAndMethodsAreRefused(t *testing.T) {
	env := newTestEnv(t)
	env.options.Guard.Pages = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(rw, "a page") })
	client := serve(t, env.handler(t))
	for _, tc := range []struct {
		method, path    string
		status          int
		code, wantAllow string
	}{
		{"GET", "/nowhere", 404, "route_not_found", ""},
		{"GET", "/", 404, "route_not_found", ""},
		{"GET", "/v1", 404, "route_not_found", ""},
		{"GET", "/v1/nowhere", 404, "route_not_found", ""},
		{"GET", "/v1/tenants/", 404, "route_not_found", ""},
		{"GET", "/v1//tenants", 404, "route_not_found", ""},
		{"GET", "//v1/tenants", 404, "route_not_found", ""},
		{"GET", "/v1/../v1/tenants", 404, "route_not_found", ""},
		{"GET", "/v1/./tenants", 404, "route_not_found", ""},
		{"GET", "/v1%2Ftenants", 404, "route_not_found", ""},
		{"GET", "/V1/tenants", 404, "route_not_found", ""},
		{"GET", "/docs/", 404, "route_not_found", ""},
		{"GET", "/docs/errors/nonsense", 404, "route_not_found", ""},
		{"GET", "/docs/assets/nonsense.js", 404, "route_not_found", ""},
		{"GET", "/docs/assets/..%2Fpages.go", 404, "route_not_found", ""},
		{"GET", "/connect", 404, "route_not_found", ""},
		{"PUT", "/v1/tenants", 405, "method_not_allowed", "GET, HEAD"},
		{"OPTIONS", "/v1/tenants", 405, "method_not_allowed", "GET, HEAD"},
		{"POST", "/v1/tenants/connect-url", 405, "method_not_allowed", "GET, HEAD"},
		{"PATCH", "/v1/tenants/connect-url", 405, "method_not_allowed", "GET, HEAD"},
		{"DELETE", "/v1/tenants/connect-url", 405, "method_not_allowed", "GET, HEAD"},
		{"DELETE", "/v1/tenants/connect%2Durl", 405, "method_not_allowed", "GET, HEAD"},
		{"DELETE", "/v1/tenants%2Fconnect-url", 404, "route_not_found", ""},
		{"GET", "/v1/tenants/x/sync", 405, "method_not_allowed", "POST"},
		{"BREW", "/v1/tenants/x", 405, "method_not_allowed", "DELETE, GET, HEAD"},
		{"GET", "/api-key/rotate", 405, "method_not_allowed", "POST"},
		{"POST", "/docs", 405, "method_not_allowed", "GET, HEAD"},
		{"GET", "/v1/tenants/%2e%2e", 404, "tenant_not_found", ""},
		{"GET", "/v1/tenants/a%2Fb", 404, "tenant_not_found", ""},
		{"GET", "/v1/tenants/%00", 404, "tenant_not_found", ""},
		{"GET", "/v1/tenants/%ff", 404, "tenant_not_found", ""},
		{"GET", "/v1/tenants/{tenant_id}", 404, "tenant_not_found", ""},
		{"GET", domainsOfA + "/%2e%2e/dns", 404, "domain_not_found", ""},
		{"GET", domainsOfA + "/a%00b.example/dns", 404, "domain_not_found", ""},
		{"GET", domainsOfA + "/" + strings.Repeat("a", 3000) + "/dns", 404, "domain_not_found", ""},
		{"GET", "/connect/microsoft365/callback", 200, "", ""},
	} {
		t.Run(tc.method+" "+tc.path[:min(60, len(tc.path))], func(t *testing.T) {
			got := client.forTest(t).expect(call{method: tc.method, path: tc.path, key: env.accountA.key}, tc.status, tc.code)
			allow := got.header.Get("Allow")
			if tc.wantAllow != "" && !sameMethods(allow, tc.wantAllow) {
				t.Errorf("Allow is %q, want the methods %q", allow, tc.wantAllow)
			}
		})
	}
}

// sameMethods reports whether two Allow headers have the same methods, in any order.
func sameMethods(got, want string) bool {
	for _, method := range strings.Split(want, ", ") {
		if !strings.Contains(got, method) {
			return false
		}
	}
	return len(got) == len(want)
}

// TestFirstFailingCheckDeterminesTheAnswer sends requests that fail one check of the service after
// another, in the order of the checks. Most of these requests would also fail later checks.
func TestFirstFailingCheckDeterminesTheAnswer(t *testing.T) {
	env := newTestEnv(t)
	accountWithoutPlan := env.addAccount(t, "carl@c.example", "cccccccc-0000-4000-8000-000000000003")
	env.deactivate(t, accountWithoutPlan)
	client := serve(t, env.handler(t))
	pathOfB := "/v1/tenants/" + string(env.accountB.tenant) + "/domains"
	invalidHeaders := map[string]string{"Accept": "text/html", "Idempotency-Key": "a b", "Content-Type": "text/plain"}
	tooLarge := strings.Repeat("x", 70<<10)

	client.expect(call{method: "PUT", path: "/v1/nowhere", body: tooLarge, headers: invalidHeaders}, 401, "invalid_auth_header")
	client.expect(call{method: "GET", path: "/v1/tenants", headers: map[string]string{"Authorization": "Bearer "}}, 401, "missing_api_key")
	client.expect(call{method: "GET", path: "/v1/tenants", key: "tny_live_short"}, 401, "invalid_api_key")
	client.expect(call{method: "PUT", path: "/v1/nowhere", body: tooLarge, key: accountWithoutPlan.key, headers: invalidHeaders}, 402, "no_api_plan")
	client.expect(call{method: "PUT", path: "/v1/nowhere", body: tooLarge, key: env.accountA.key, headers: invalidHeaders}, 404, "route_not_found")
	client.expect(call{method: "PUT", path: pathOfB, body: tooLarge, key: env.accountA.key, headers: invalidHeaders}, 405, "method_not_allowed")
	client.expect(call{method: "POST", path: pathOfB, body: tooLarge, key: env.accountA.key, headers: invalidHeaders}, 406, "not_acceptable")
	invalidHeaders["Accept"] = ""
	client.expect(call{method: "POST", path: pathOfB, body: tooLarge, key: env.accountA.key, headers: invalidHeaders}, 400, "invalid_idempotency_key")
	invalidHeaders["Idempotency-Key"] = "k"
	client.expect(call{method: "POST", path: pathOfB, body: tooLarge, key: env.accountA.key, headers: invalidHeaders}, 415, "unsupported_media_type")
	invalidHeaders["Content-Type"] = "application/json"
	client.expect(call{method: "POST", path: pathOfB, body: tooLarge, key: env.accountA.key, headers: invalidHeaders}, 413, "request_too_large")
	client.expect(call{method: "POST", path: pathOfB, body: `{"domain":1}`, key: env.accountA.key}, 400, "invalid_request")
	client.expect(call{method: "POST", path: pathOfB, body: `{"domain":"com"}`, key: env.accountA.key}, 404, "tenant_not_found")
	client.expect(call{method: "POST", path: domainsOfA, body: `{"domain":"com"}`, key: env.accountA.key}, 400, "invalid_domain")
}

// TestBoundsAreCheckedInTheDocumentedOrder checks which steps of the middleware precede and follow
// the checks of a key's bounds. Each request would also fail a later check.
func TestBoundsAreCheckedInTheDocumentedOrder(t *testing.T) {
	env := newTestEnv(t)
	env.attachTenant(t, env.accountA, secondTenant)
	accountWithoutPlan := env.addAccount(t, "carl@c.example", "cccccccc-0000-4000-8000-000000000003")
	env.deactivate(t, accountWithoutPlan)
	client := serve(t, env.handler(t))
	addKey := func(owner testAccount, change func(*access.Bounds)) string {
		bounds := access.Bounds{Scopes: []access.Scope{"events:read"}}
		change(&bounds)
		return env.addBoundedKey(t, owner.account.ID, bounds)
	}
	setExpired := func(bounds *access.Bounds) { bounds.ExpiresAt = time.Now().Add(-time.Second) }
	requireOtherNetwork := func(bounds *access.Bounds) { bounds.Networks = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} }
	keepBounds := func(*access.Bounds) {}
	invalidHeaders := map[string]string{"Accept": "text/html", "Idempotency-Key": "a b", "Content-Type": "text/plain"}
	expectRefusal := func(method, path, key string, status int, code string) reply {
		t.Helper()
		return client.expect(call{method: method, path: path, body: "x", key: key, headers: invalidHeaders}, status, code)
	}
	for name, change := range map[string]func(*access.Bounds){"expired": setExpired, "address": requireOtherNetwork} {
		if got := expectRefusal("PUT", "/v1/nowhere", addKey(accountWithoutPlan, change), 401, "invalid_api_key"); !strings.Contains(memberText(got, "detail"), name) {
			t.Errorf("got %s, want %q in the detail", got.raw, name)
		}
	}
	expectRefusal("PUT", "/v1/nowhere", addKey(accountWithoutPlan, keepBounds), 402, "no_api_plan")
	otherTenantKey := addKey(env.accountA, func(bounds *access.Bounds) { bounds.Tenants = []tenant.GUID{secondTenant} })
	expectRefusal("PUT", "/v1/nowhere", otherTenantKey, 404, "route_not_found")
	expectRefusal("PUT", domainsOfA, otherTenantKey, 405, "method_not_allowed")
	expectRefusal("POST", domainsOfA, otherTenantKey, 406, "not_acceptable")
	invalidHeaders["Accept"] = ""
	expectRefusal("POST", domainsOfA, otherTenantKey, 403, "insufficient_scope")
	writerKey := addKey(env.accountA, func(bounds *access.Bounds) {
		bounds.Scopes, bounds.Tenants = []access.Scope{"domains:write"}, []tenant.GUID{secondTenant}
	})
	expectRefusal("POST", domainsOfA, writerKey, 400, "invalid_idempotency_key")
	client.expect(call{method: "POST", path: domainsOfA, body: `{"domain":1}`, key: writerKey}, 400, "invalid_request")
	client.expect(call{method: "POST", path: domainsOfA, body: `{"domain":"com"}`, key: writerKey}, 404, "tenant_not_found")
	// A request for a tenant that the key must not see counts in the bucket, like a request for a
	// tenant of a different account.
	if got := client.do(call{method: "POST", path: domainsOfA, body: `{"domain":"com"}`, key: writerKey}); got.header.Get("X-RateLimit-Bucket") == "" {
		t.Errorf("got the headers %v, want a rate-limit bucket", got.header)
	}
}

func TestTwoAuthorizationHeadersAreRefused(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	r := call{method: "GET", path: "/v1/tenants"}.request(t, client.server.URL)
	r.Header["Authorization"] = []string{"Bearer " + env.accountA.key, "Bearer " + env.accountA.key}
	if got := client.send(r); got.status != 401 || got.code() != "invalid_auth_header" {
		t.Fatalf("got %d %q, want 401 invalid_auth_header", got.status, got.code())
	}
}
