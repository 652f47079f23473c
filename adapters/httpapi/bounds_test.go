// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
)

// boundedKeys has keys of account A with different bounds.
type boundedKeys struct {
	readOnly, webhooksOnly, keysOnly, otherTenant, expired, otherAddress string
}

// secondTenant is a tenant without objects. The key otherTenant is limited to it.
const secondTenant = tenant.GUID("aaaaaaaa-0000-4000-8000-000000000009")

func newBoundedKeys(t *testing.T, env *testEnv) boundedKeys {
	t.Helper()
	keyWith := func(change func(*access.Bounds)) string {
		b := access.Unbounded()
		change(&b)
		return env.addBoundedKey(t, env.accountA.account.ID, b)
	}
	return boundedKeys{
		readOnly: keyWith(func(b *access.Bounds) {
			b.Scopes = nil
			for _, s := range access.OperationScopes() {
				if strings.HasSuffix(string(s), ":read") {
					b.Scopes = append(b.Scopes, s)
				}
			}
		}),
		webhooksOnly: keyWith(func(b *access.Bounds) { b.Scopes = []access.Scope{"webhooks:*"} }),
		keysOnly:     keyWith(func(b *access.Bounds) { b.Scopes = []access.Scope{"keys:*"} }),
		otherTenant:  keyWith(func(b *access.Bounds) { b.Tenants = []tenant.GUID{secondTenant} }),
		expired:      keyWith(func(b *access.Bounds) { b.ExpiresAt = time.Now().Add(-time.Second) }),
		otherAddress: keyWith(func(b *access.Bounds) { b.Networks = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} }),
	}
}

func (op operation) methodAndPath() string { return strings.ToUpper(op.method) + " " + op.path }

// callOf returns a well-formed request for an operation on objects of account A.
func callOf(op operation, owned map[string]string, key string) call {
	body := validBodies[op.methodAndPath()]
	switch op.methodAndPath() {
	case "POST /v1/integrations":
		body = `{"provider":"instantly","name":"More","api_key":"` + exampleAPIKey + `"}`
	case "POST /v1/keys":
		body = `{"name":"more","scopes":["webhooks:read"]}`
	case "POST /v1/webhooks":
		body = `{"url":"https://hooks.example.test/more","event_types":["*"]}`
	}
	path := fillPath(op.path, owned)
	if op.path == "/api-key/rotate" {
		path += "?user_email=nobody@a.example"
	}
	return call{method: strings.ToUpper(op.method), path: path, body: body, key: key}
}

// TestEveryOperationChecksTheKey sends each operation with keys that have expired or are used from
// a wrong address, and with keys that lack the scope if the operation has one.
func TestEveryOperationChecksTheKey(t *testing.T) {
	env := newTestEnv(t)
	owned, _ := addOwnedObjects(env, t)
	env.attachTenant(t, env.accountA, secondTenant)
	keys := newBoundedKeys(t, env)
	client := serve(t, env.handler(t))
	for _, op := range allOperations() {
		t.Run(op.methodAndPath(), func(t *testing.T) {
			client := client.forTest(t)
			for key, reason := range map[string]string{keys.expired: "expired", keys.otherAddress: "address"} {
				got := client.expect(callOf(op, owned, key), 401, "invalid_api_key")
				if detail, _ := got.body["detail"].(string); !strings.Contains(detail, reason) {
					t.Errorf("the detail is %q, want one with %q", detail, reason)
				}
			}
			scope, _ := op.doc["x-required-scope"].(string)
			if scope == "" {
				client.expect(callOf(op, owned, keys.webhooksOnly), 200, "")
				return
			}
			if security := op.doc["security"].([]any)[0].(map[string]any)["bearer"].([]any); len(security) != 1 || security[0] != scope {
				t.Errorf("the security is %v, want %s", security, scope)
			}
			refusedKeys := []string{keys.webhooksOnly}
			if strings.HasPrefix(scope, "webhooks:") {
				refusedKeys = []string{keys.keysOnly}
			}
			if strings.HasSuffix(scope, ":write") {
				refusedKeys = append(refusedKeys, keys.readOnly)
			} else if got := client.do(callOf(op, owned, keys.readOnly)); got.code() == "insufficient_scope" {
				t.Errorf("a key with every read scope is refused: %s", got.raw)
			}
			for _, key := range refusedKeys {
				got := client.expect(callOf(op, owned, key), 403, "insufficient_scope")
				if got.body["required_scope"] != scope || got.header.Get("X-RateLimit-Bucket") != "" {
					t.Errorf("got the headers %v and the body %s, want the required scope %s and no rate-limit bucket", got.header, got.raw, scope)
				}
			}
		})
	}
}

// TestNetworksOfKeyMustContainTheClient sends requests with keys that are limited to a network. A
// trusted proxy names the client's address. Without a trusted proxy, the client's address is the
// address of the peer. All requests come from 127.0.0.1.
func TestNetworksOfKeyMustContainTheClient(t *testing.T) {
	for _, tt := range []struct {
		name, trusted, network, forwarded string
		allowed                           bool
	}{
		{"the peer", "", "127.0.0.0/8", "", true},
		{"a different peer", "", "192.0.2.0/24", "", false},
		{"a forged header without a trusted proxy", "", "192.0.2.0/24", "192.0.2.7", false},
		{"a header without a trusted proxy does no harm", "", "127.0.0.0/8", "192.0.2.7", true},
		{"a forged header, and a different proxy is trusted", "10.0.0.0/8", "192.0.2.0/24", "192.0.2.7", false},
		{"the client behind a proxy", "127.0.0.1/32", "192.0.2.0/24", "192.0.2.7", true},
		{"the client behind two proxies", "127.0.0.1/32,10.0.0.0/8", "192.0.2.0/24", "192.0.2.7, 10.1.2.3", true},
		{"a different client behind a proxy", "127.0.0.1/32", "192.0.2.0/24", "198.51.100.7", false},
		{"a client behind a proxy forges an entry", "127.0.0.1/32", "192.0.2.0/24", "192.0.2.7, 198.51.100.7", false},
		{"a client behind a proxy forges an entry and the proxy", "127.0.0.1/32", "192.0.2.0/24", "192.0.2.7, 127.0.0.1, 198.51.100.7", false},
		{"the network of the proxy", "127.0.0.1/32", "127.0.0.0/8", "192.0.2.7", false},
		{"the proxy itself", "127.0.0.1/32", "127.0.0.0/8", "", true},
		{"an IPv4 address in IPv6 notation", "127.0.0.1/32", "192.0.2.0/24", "::ffff:192.0.2.7", true},
		{"an IPv6 client", "127.0.0.1/32", "2001:db8::/32", "2001:db8::7", true},
		{"a different IPv6 client", "127.0.0.1/32", "2001:db8::/32", "2001:db9::7", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := newTestEnv(t)
			for _, proxy := range strings.FieldsFunc(tt.trusted, func(r rune) bool { return r == ',' }) {
				env.options.Guard.TrustedProxies = append(env.options.Guard.TrustedProxies, netip.MustParsePrefix(proxy))
			}
			client := serve(t, env.handler(t))
			key := memberText(createKey(client, env.accountA.key, `{"name":"bound","scopes":["*"],"allowed_cidrs":["`+tt.network+`"]}`), "api_key")
			request := call{method: "GET", path: "/v1/tenants", key: key, headers: map[string]string{"X-Forwarded-For": tt.forwarded}}
			if tt.allowed {
				client.expect(request, 200, "")
				return
			}
			if got := client.expect(request, 401, "invalid_api_key"); !strings.Contains(memberText(got, "detail"), "address") {
				t.Errorf("the answer does not name the address: %s", got.raw)
			}
		})
	}
}

// statusForOtherTenant has the operations whose path has no parameter, or only integration_id or
// key_id. The value is the status of the answer to a key that is limited to a different tenant.
var statusForOtherTenant = map[string]int{
	"GET /v1/tenants": 200, "GET /v1/dns/provisioning-runs": 200, "GET /v1/enforcement/events": 200,
	"GET /v1/integrations": 200, "GET /v1/integrations/{integration_id}": 200, "GET /v1/integrations/{integration_id}/mailboxes": 200,
	"GET /v1/me": 200, "GET /v1/keys": 200, "GET /v1/events": 200, "GET /v1/audit": 200, "GET /v1/webhooks": 200, "POST /v1/webhooks": 200,
	"POST /v1/integrations": 200, "POST /v1/integrations/{integration_id}/test": 200, "POST /v1/integrations/{integration_id}/mailboxes/refresh": 200,
	// These operations concern tenants outside the bounds of the key: a new tenant, all tenants,
	// and connections of mailboxes in other tenants. POST /v1/keys would create a key that is not
	// limited to some tenants. The key with the id key_id is not limited to some tenants either.
	"GET /v1/tenants/connect-url": 403, "GET /v1/audit/export": 403, "DELETE /v1/integrations/{integration_id}": 403,
	"POST /v1/keys": 403, "DELETE /v1/keys/{key_id}": 403, "POST /v1/keys/{key_id}/rotate": 403,
	"POST /api-key/rotate": 403, // the code is access_denied, because user_email is not the address of the account
}

// TestTenantsOutsideTheBoundsAreForeign sends each operation with a key that is limited to a
// different tenant than the tenant of the objects. If the path names such an object, the answer
// must be the same as for an object of a different account.
func TestTenantsOutsideTheBoundsAreForeign(t *testing.T) {
	env := newTestEnv(t)
	owned, notOwned := addOwnedObjects(env, t)
	env.attachTenant(t, env.accountA, secondTenant)
	key := newBoundedKeys(t, env).otherTenant
	client := serve(t, env.handler(t))
	for _, op := range allOperations() {
		t.Run(op.methodAndPath(), func(t *testing.T) {
			client := client.forTest(t)
			hiddenParam := ""
			for _, param := range parametersOf(op.path) {
				if param != "integration_id" && param != "key_id" && hiddenParam == "" {
					hiddenParam = param
				}
			}
			if hiddenParam == "" {
				status, listed := statusForOtherTenant[op.methodAndPath()]
				if got := client.do(callOf(op, owned, key)); !listed || got.status != status {
					t.Errorf("got %d, want %d\n%s", got.status, status, got.raw)
				}
				return
			}
			got := client.expect(callOf(op, owned, key), 404, notFoundCodes[hiddenParam])
			values := map[string]string{hiddenParam: notOwned[hiddenParam][0]}
			for name, value := range owned {
				if values[name] == "" {
					values[name] = value
				}
			}
			want := client.expect(callOf(op, values, env.accountA.key), 404, notFoundCodes[hiddenParam])
			if comparableText(got) != comparableText(want) {
				t.Errorf("got\n%s\nwant\n%s", comparableText(got), comparableText(want))
			}
		})
	}
}

// TestListsLeaveOutOtherTenants compares the lists that a key for one tenant and a key for a
// different tenant get.
func TestListsLeaveOutOtherTenants(t *testing.T) {
	env := newTestEnv(t)
	owned, _ := addOwnedObjects(env, t)
	env.attachTenant(t, env.accountA, secondTenant)
	env.addEnforcementEvents(t, env.accountA, 3)
	ownKey := env.addBoundedKey(t, env.accountA.account.ID, access.Bounds{Scopes: []access.Scope{"*"}, Tenants: []tenant.GUID{env.accountA.tenant}})
	otherKey := newBoundedKeys(t, env).otherTenant
	client := serve(t, env.handler(t))
	for _, key := range []string{ownKey, otherKey} {
		client.expect(call{method: "POST", path: "/v1/webhooks", body: `{"url":"https://hooks.example.test/200","event_types":["*"]}`, key: key}, 200, "")
	}
	for _, tt := range []struct {
		path, list         string
		wantOwn, wantOther int
	}{
		{"/v1/tenants", "tenants", 1, 1},
		{"/v1/dns/provisioning-runs", "runs", 1, 0},
		{"/v1/enforcement/events", "events", 3, 0},
		{"/v1/integrations", "integrations", 1, 1},
		{"/v1/events", "events", 5, 1},
		{"/v1/audit", "entries", 1, 1},
		{"/v1/webhooks", "webhooks", 1, 1},
		{"/v1/integrations/" + owned["integration_id"] + "/mailboxes", "mailboxes", 1, 0},
	} {
		for key, want := range map[string]int{ownKey: tt.wantOwn, otherKey: tt.wantOther} {
			got := client.expect(call{method: "GET", path: tt.path, key: key}, 200, "")
			if list := got.body[tt.list].([]any); len(list) != want {
				t.Errorf("%s has %d entries, want %d\n%s", tt.path, len(list), want, got.raw)
			}
			if key == otherKey && strings.Contains(got.raw, string(env.accountA.tenant)) {
				t.Errorf("%s shows the tenant of account A: %s", tt.path, got.raw)
			}
		}
	}
	connections := func(key string) any {
		got := client.expect(call{method: "GET", path: "/v1/integrations/" + owned["integration_id"], key: key}, 200, "")
		return got.body["mailbox_connections"].(map[string]any)["total"]
	}
	if countForOwn, countForOther := connections(ownKey), connections(otherKey); countForOwn != 1.0 || countForOther != 0.0 {
		t.Errorf("the keys see %v and %v connections, want 1 and 0", countForOwn, countForOther)
	}
	events := "/v1/enforcement/events?tenant_id=" + string(env.accountA.tenant)
	client.expect(call{method: "GET", path: events, key: ownKey}, 200, "")
	client.expect(call{method: "GET", path: events, key: otherKey}, 404, "tenant_not_found")
	client.expect(call{method: "GET", path: "/v1/tenants/" + strings.ToUpper(string(env.accountA.tenant)), key: ownKey}, 200, "")
}

// TestReplaysNeedTheBoundsOfTheFirstRequest repeats a write with the same Idempotency-Key, but with
// API keys that have different bounds.
func TestReplaysNeedTheBoundsOfTheFirstRequest(t *testing.T) {
	env := newTestEnv(t)
	owned, _ := addOwnedObjects(env, t)
	env.attachTenant(t, env.accountA, secondTenant)
	keys := newBoundedKeys(t, env)
	client := serve(t, env.handler(t))
	send := func(path, body, key string) reply {
		return client.do(call{method: "POST", path: path, body: body, key: key, headers: map[string]string{"Idempotency-Key": "one"}})
	}
	syncPath := "/v1/tenants/" + owned["tenant_id"] + "/sync"
	first := send(syncPath, "", env.accountA.key)
	if first.status != 200 {
		t.Fatalf("got %d %s, want 200", first.status, first.raw)
	}
	writer := env.addBoundedKey(t, env.accountA.account.ID, access.Bounds{Scopes: []access.Scope{"tenants:write"}})
	if repeated := send(syncPath, "", writer); repeated.raw != first.raw || repeated.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("a key with the scope got %d %s, want a replay", repeated.status, repeated.raw)
	}
	for key, code := range map[string]string{keys.readOnly: "insufficient_scope", keys.otherTenant: "tenant_not_found"} {
		if repeated := send(syncPath, "", key); repeated.code() != code || repeated.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("got %d %s, want %s", repeated.status, repeated.raw, code)
		}
	}
	const everything = `{"name":"everything","scopes":["*"]}`
	headers := map[string]string{"Idempotency-Key": "two"}
	created := client.expect(call{method: "POST", path: "/v1/keys", body: everything, key: env.accountA.key, headers: headers}, 200, "")
	if repeated := client.expect(call{method: "POST", path: "/v1/keys", body: everything, key: env.accountA.key, headers: headers}, 200, ""); repeated.raw != created.raw {
		t.Errorf("the repetition got %s, want %s", repeated.raw, created.raw)
	}
	manager := env.addBoundedKey(t, env.accountA.account.ID, access.Bounds{Scopes: []access.Scope{"keys:write"}})
	client.expect(call{method: "POST", path: "/v1/keys", body: everything, key: manager, headers: headers}, 403, "insufficient_scope")
}

// TestIdempotencyKeyIsForOneWrite sends the same Idempotency-Key with a write that manages keys and
// with a different write. For API keys without bounds, the second write must be a conflict. An API
// key with bounds must not get the answer of the first write.
func TestIdempotencyKeyIsForOneWrite(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	createKey := call{method: "POST", path: "/v1/keys", body: `{"name":"everything","scopes":["*"]}`}
	createWebhook := call{method: "POST", path: "/v1/webhooks", body: `{"url":"https://hooks.example.test/200","event_types":["*"]}`}
	send := func(c call, key, idempotencyKey string) reply {
		c.key, c.headers = key, map[string]string{"Idempotency-Key": idempotencyKey}
		return client.do(c)
	}
	unlimited := env.addBoundedKey(t, env.accountA.account.ID, access.Unbounded())
	withExpiry := access.Unbounded()
	withExpiry.ExpiresAt = time.Now().Add(time.Hour)
	limited := env.addBoundedKey(t, env.accountA.account.ID, withExpiry)
	for idempotencyKey, writes := range map[string][2]call{"one": {createKey, createWebhook}, "two": {createWebhook, createKey}} {
		first := send(writes[0], env.accountA.key, idempotencyKey)
		if first.status != 200 {
			t.Fatalf("got %d %s, want 200", first.status, first.raw)
		}
		for _, key := range []string{env.accountA.key, unlimited} {
			if got := send(writes[1], key, idempotencyKey); got.status != 409 || got.code() != "idempotency_key_conflict" {
				t.Errorf("%s after %s got %d %s, want a conflict", writes[1].path, writes[0].path, got.status, got.raw)
			}
			if got := send(writes[0], key, idempotencyKey); got.raw != first.raw {
				t.Errorf("%s got %d %s, want the replay %s", writes[0].path, got.status, got.raw, first.raw)
			}
		}
		if got := send(createKey, limited, idempotencyKey); got.header.Get("Idempotency-Replayed") != "" || got.code() != "insufficient_scope" {
			t.Errorf("a limited key got %d %s, want insufficient_scope", got.status, got.raw)
		}
	}
}
