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
	readOnly, webhooksOnly, keysOnly, secondTenantOnly, expired, foreignNetwork string
}

// secondTenant is a tenant of account A without objects. The key secondTenantOnly is limited to it.
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
		webhooksOnly:     keyWith(func(b *access.Bounds) { b.Scopes = []access.Scope{"webhooks:*"} }),
		keysOnly:         keyWith(func(b *access.Bounds) { b.Scopes = []access.Scope{"keys:*"} }),
		secondTenantOnly: keyWith(func(b *access.Bounds) { b.Tenants = []tenant.GUID{secondTenant} }),
		expired:          keyWith(func(b *access.Bounds) { b.ExpiresAt = time.Now().Add(-time.Second) }),
		foreignNetwork:   keyWith(func(b *access.Bounds) { b.Networks = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} }),
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
		path += "?user_email=nobody@a.example" // not the address of account A, so the key stays valid
	}
	return call{method: strings.ToUpper(op.method), path: path, body: body, key: key}
}

// TestEveryOperationChecksTheKey sends each operation with a key that has expired, and with a key
// that is limited to a network without the client. If the operation requires a scope, the test also
// sends it with keys that lack the scope.
func TestEveryOperationChecksTheKey(t *testing.T) {
	env := newTestEnv(t)
	owned, _ := addOwnedObjects(env, t)
	env.attachTenant(t, env.accountA, secondTenant)
	keys := newBoundedKeys(t, env)
	client := serve(t, env.handler(t))
	for _, op := range allOperations() {
		t.Run(op.methodAndPath(), func(t *testing.T) {
			client := client.forTest(t)
			for key, reason := range map[string]string{keys.expired: "expired", keys.foreignNetwork: "address"} {
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
	for _, tc := range []struct {
		name, trusted, network, forwarded string
		wantAllowed                       bool
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
		t.Run(tc.name, func(t *testing.T) {
			env := newTestEnv(t)
			for _, proxy := range strings.FieldsFunc(tc.trusted, func(r rune) bool { return r == ',' }) {
				env.options.Guard.TrustedProxies = append(env.options.Guard.TrustedProxies, netip.MustParsePrefix(proxy))
			}
			client := serve(t, env.handler(t))
			key := memberText(createKey(client, env.accountA.key, `{"name":"bound","scopes":["*"],"allowed_cidrs":["`+tc.network+`"]}`), "api_key")
			request := call{method: "GET", path: "/v1/tenants", key: key, headers: map[string]string{"X-Forwarded-For": tc.forwarded}}
			if tc.wantAllowed {
				client.expect(request, 200, "")
				return
			}
			if got := client.expect(request, 401, "invalid_api_key"); !strings.Contains(memberText(got, "detail"), "address") {
				t.Errorf("the answer does not name the address: %s", got.raw)
			}
		})
	}
}

// statusForSecondTenantKey has the operations whose path has no parameter, or only integration_id
// or key_id. The value is the status of the answer to the key secondTenantOnly.
var statusForSecondTenantKey = map[string]int{
	"GET /v1/tenants": 200, "GET /v1/dns/provisioning-runs": 200, "GET /v1/enforcement/events": 200,
	"GET /v1/integrations": 200, "GET /v1/integrations/{integration_id}": 200, "GET /v1/integrations/{integration_id}/mailboxes": 200,
	"GET /v1/me": 200, "GET /v1/keys": 200, "GET /v1/events": 200, "GET /v1/audit": 200, "GET /v1/webhooks": 200, "POST /v1/webhooks": 200,
	"POST /v1/integrations": 200, "POST /v1/integrations/{integration_id}/test": 200, "POST /v1/integrations/{integration_id}/mailboxes/refresh": 200,
	// These operations concern tenants outside the bounds of the key: a new tenant, all tenants,
	// and connections of mailboxes in other tenants. POST /v1/keys would create a key without a
	// limit to some tenants. The key with the id key_id also has no such limit.
	"GET /v1/tenants/connect-url": 403, "GET /v1/audit/export": 403, "DELETE /v1/integrations/{integration_id}": 403,
	"POST /v1/keys": 403, "DELETE /v1/keys/{key_id}": 403, "POST /v1/keys/{key_id}/rotate": 403,
	"POST /api-key/rotate": 403, // the code is access_denied, because user_email is not the address of the account
}

// TestTenantsOutsideTheBoundsAreForeign sends each operation with the key secondTenantOnly. If the
// path names an object of the first tenant of account A, the answer must be the same as for an
// object of a different account. Integrations and keys belong to no tenant.
func TestTenantsOutsideTheBoundsAreForeign(t *testing.T) {
	env := newTestEnv(t)
	owned, notOwned := addOwnedObjects(env, t)
	env.attachTenant(t, env.accountA, secondTenant)
	key := newBoundedKeys(t, env).secondTenantOnly
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
				status, listed := statusForSecondTenantKey[op.methodAndPath()]
				if got := client.do(callOf(op, owned, key)); !listed || got.status != status {
					t.Errorf("got %d, want %d (listed in statusForSecondTenantKey: %v)\n%s", got.status, status, listed, got.raw)
				}
				return
			}
			got := client.expect(callOf(op, owned, key), 404, notFoundCodes[hiddenParam])
			foreignValues := map[string]string{hiddenParam: notOwned[hiddenParam][0]}
			for name, value := range owned {
				if foreignValues[name] == "" {
					foreignValues[name] = value
				}
			}
			want := client.expect(callOf(op, foreignValues, env.accountA.key), 404, notFoundCodes[hiddenParam])
			if comparableText(got) != comparableText(want) {
				t.Errorf("got\n%s\nwant\n%s", comparableText(got), comparableText(want))
			}
		})
	}
}

// TestListsLeaveOutOtherTenants compares the lists that a key for the first tenant of account A and
// the key secondTenantOnly get.
func TestListsLeaveOutOtherTenants(t *testing.T) {
	env := newTestEnv(t)
	owned, _ := addOwnedObjects(env, t)
	env.attachTenant(t, env.accountA, secondTenant)
	env.addEnforcementEvents(t, env.accountA, owned["mailbox_id"], 3)
	firstTenantKey := env.addBoundedKey(t, env.accountA.account.ID, access.Bounds{Scopes: []access.Scope{"*"}, Tenants: []tenant.GUID{env.accountA.tenant}})
	secondTenantKey := newBoundedKeys(t, env).secondTenantOnly
	client := serve(t, env.handler(t))
	for _, key := range []string{firstTenantKey, secondTenantKey} {
		client.expect(call{method: "POST", path: "/v1/webhooks", body: `{"url":"https://hooks.example.test/200","event_types":["*"]}`, key: key}, 200, "")
	}
	for _, tc := range []struct {
		path, list                        string
		wantFirstTenant, wantSecondTenant int
	}{
		{"/v1/tenants", "tenants", 1, 1},
		{"/v1/dns/provisioning-runs", "runs", 1, 0},
		{"/v1/enforcement/events", "events", 3, 0},
		{"/v1/integrations", "integrations", 1, 1},
		{"/v1/events", "events", 8, 1},
		{"/v1/audit", "entries", 1, 1},
		{"/v1/webhooks", "webhooks", 1, 1},
		{"/v1/integrations/" + owned["integration_id"] + "/mailboxes", "mailboxes", 1, 0},
	} {
		for key, want := range map[string]int{firstTenantKey: tc.wantFirstTenant, secondTenantKey: tc.wantSecondTenant} {
			got := client.expect(call{method: "GET", path: tc.path, key: key}, 200, "")
			if list := got.body[tc.list].([]any); len(list) != want {
				t.Errorf("%s has %d entries, want %d\n%s", tc.path, len(list), want, got.raw)
			}
			if key == secondTenantKey && strings.Contains(got.raw, string(env.accountA.tenant)) {
				t.Errorf("%s shows the first tenant to the key secondTenantOnly: %s", tc.path, got.raw)
			}
		}
	}
	connectionCount := func(key string) any {
		got := client.expect(call{method: "GET", path: "/v1/integrations/" + owned["integration_id"], key: key}, 200, "")
		return got.body["mailbox_connections"].(map[string]any)["total"]
	}
	if first, second := connectionCount(firstTenantKey), connectionCount(secondTenantKey); first != 1.0 || second != 0.0 {
		t.Errorf("the keys of the first and the second tenant see %v and %v connections, want 1 and 0", first, second)
	}
	events := "/v1/enforcement/events?tenant_id=" + string(env.accountA.tenant)
	client.expect(call{method: "GET", path: events, key: firstTenantKey}, 200, "")
	client.expect(call{method: "GET", path: events, key: secondTenantKey}, 404, "tenant_not_found")
	client.expect(call{method: "GET", path: "/v1/tenants/" + strings.ToUpper(string(env.accountA.tenant)), key: firstTenantKey}, 200, "")
}

// TestReplaysNeedTheBoundsOfTheFirstRequest repeats a write with the same Idempotency-Key, but with
// API keys that have different bounds. A key that may send the write gets the stored answer. A key
// without the scope or the tenant of the write does not. The answer to the creation of a key is not
// replayed to an API key that may not create such a key.
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
	synced := send(syncPath, "", env.accountA.key)
	if synced.status != 200 {
		t.Fatalf("got %d %s, want 200", synced.status, synced.raw)
	}
	tenantWriter := env.addBoundedKey(t, env.accountA.account.ID, access.Bounds{Scopes: []access.Scope{"tenants:write"}})
	if repeated := send(syncPath, "", tenantWriter); repeated.raw != synced.raw || repeated.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("a key with the scope got %d %s, want a replay", repeated.status, repeated.raw)
	}
	for key, code := range map[string]string{keys.readOnly: "insufficient_scope", keys.secondTenantOnly: "tenant_not_found"} {
		if repeated := send(syncPath, "", key); repeated.code() != code || repeated.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("got %d %s, want %s and no replay", repeated.status, repeated.raw, code)
		}
	}
	const everything = `{"name":"everything","scopes":["*"]}`
	headers := map[string]string{"Idempotency-Key": "two"}
	created := client.expect(call{method: "POST", path: "/v1/keys", body: everything, key: env.accountA.key, headers: headers}, 200, "")
	if repeated := client.expect(call{method: "POST", path: "/v1/keys", body: everything, key: env.accountA.key, headers: headers}, 200, ""); repeated.raw != created.raw {
		t.Errorf("the repetition got %s, want %s", repeated.raw, created.raw)
	}
	keyManager := env.addBoundedKey(t, env.accountA.account.ID, access.Bounds{Scopes: []access.Scope{"keys:write"}})
	client.expect(call{method: "POST", path: "/v1/keys", body: everything, key: keyManager, headers: headers}, 403, "insufficient_scope")
}

// TestIdempotencyKeyIsForOneWrite sends the same Idempotency-Key with a write that manages keys and
// with a different write, in both orders. For API keys without bounds, the second write must be a
// conflict. An API key that expires must not get the stored answer.
func TestIdempotencyKeyIsForOneWrite(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	createKey := call{method: "POST", path: "/v1/keys", body: `{"name":"everything","scopes":["*"]}`}
	createWebhook := call{method: "POST", path: "/v1/webhooks", body: `{"url":"https://hooks.example.test/200","event_types":["*"]}`}
	send := func(c call, key, idempotencyKey string) reply {
		c.key, c.headers = key, map[string]string{"Idempotency-Key": idempotencyKey}
		return client.do(c)
	}
	unboundedKey := env.addBoundedKey(t, env.accountA.account.ID, access.Unbounded())
	expiring := access.Unbounded()
	expiring.ExpiresAt = time.Now().Add(time.Hour)
	expiringKey := env.addBoundedKey(t, env.accountA.account.ID, expiring)
	for idempotencyKey, writes := range map[string][2]call{"one": {createKey, createWebhook}, "two": {createWebhook, createKey}} {
		firstAnswer := send(writes[0], env.accountA.key, idempotencyKey)
		if firstAnswer.status != 200 {
			t.Fatalf("got %d %s, want 200", firstAnswer.status, firstAnswer.raw)
		}
		for _, key := range []string{env.accountA.key, unboundedKey} {
			if got := send(writes[1], key, idempotencyKey); got.status != 409 || got.code() != "idempotency_key_conflict" {
				t.Errorf("%s after %s got %d %s, want a conflict", writes[1].path, writes[0].path, got.status, got.raw)
			}
			if got := send(writes[0], key, idempotencyKey); got.raw != firstAnswer.raw {
				t.Errorf("%s got %d %s, want the replay %s", writes[0].path, got.status, got.raw, firstAnswer.raw)
			}
		}
		if got := send(createKey, expiringKey, idempotencyKey); got.header.Get("Idempotency-Replayed") != "" || got.code() != "insufficient_scope" {
			t.Errorf("a key that expires got %d %s, want insufficient_scope and no replay", got.status, got.raw)
		}
	}
}
