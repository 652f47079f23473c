// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
)

func createKey(client *apiClient, key, body string) reply {
	client.t.Helper()
	return client.expect(call{method: "POST", path: "/v1/keys", body: body, key: key}, 200, "")
}

// memberText returns a member of an answer, "" if the member is missing or is not a string.
func memberText(r reply, member string) string {
	text, _ := r.body[member].(string)
	return text
}

func TestKeysAreManaged(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	created := createKey(client, env.accountA.key, fmt.Sprintf(
		`{"name":" reports ","scopes":["tenants:read","domains:*"],"tenant_ids":[%q],"allowed_cidrs":["127.0.0.0/8"],"expires_at":"2126-01-02T03:04:05Z"}`, env.accountA.tenant))
	id, oldSecret := memberText(created, "id"), memberText(created, "api_key")
	wantMembers := `"name":"reports","key_hint":"` + oldSecret[len(oldSecret)-4:] + `","scopes":["tenants:read","domains:*"],"tenant_ids":["` + string(env.accountA.tenant) +
		`"],"allowed_cidrs":["127.0.0.0/8"],"created_at":`
	if !strings.Contains(created.raw, wantMembers) || memberText(created, "created_by") != env.keyID(t, env.accountA) || memberText(created, "expires_at") != "2126-01-02T03:04:05Z" {
		t.Fatalf("got %s, want the requested bounds and the creator", created.raw)
	}
	client.expect(call{method: "GET", path: "/v1/tenants", key: oldSecret}, 200, "")

	listed := client.expect(call{method: "GET", path: "/v1/keys", key: env.accountA.key}, 200, "")
	newest := listed.body["keys"].([]any)[0].(map[string]any)
	if newest["id"] != id || newest["revoked_at"] != nil || strings.Contains(listed.raw, "api_key") || listed.body["next_cursor"] != nil {
		t.Errorf("got %s, want the created key first, no secrets and no further page", listed.raw)
	}
	if listOfB := client.expect(call{method: "GET", path: "/v1/keys", key: env.accountB.key}, 200, ""); len(listOfB.body["keys"].([]any)) != 1 {
		t.Errorf("account B gets %s, want its one key", listOfB.raw)
	}

	rotated := client.expect(call{method: "POST", path: "/v1/keys/" + id + "/rotate", key: env.accountA.key}, 200, "")
	newSecret := memberText(rotated, "api_key")
	if memberText(rotated, "id") != id || newSecret == oldSecret || memberText(rotated, "key_hint") != newSecret[len(newSecret)-4:] || !strings.Contains(rotated.raw, `"scopes":["tenants:read","domains:*"]`) {
		t.Errorf("got %s, want a new secret with the same id and scopes", rotated.raw)
	}
	for _, secret := range []string{oldSecret, newSecret} {
		client.expect(call{method: "GET", path: "/v1/tenants", key: secret}, 200, "")
	}

	revoked := client.expect(call{method: "DELETE", path: "/v1/keys/" + id, key: env.accountA.key}, 200, "")
	if memberText(revoked, "status") != "revoked" || memberText(revoked, "id") != id {
		t.Errorf("got %s, want the status revoked and the id %s", revoked.raw, id)
	}
	for _, secret := range []string{oldSecret, newSecret} {
		client.expect(call{method: "GET", path: "/v1/tenants", key: secret}, 401, "invalid_api_key")
	}
	repeatedRevocation := client.expect(call{method: "DELETE", path: "/v1/keys/" + id, key: env.accountA.key}, 200, "")
	if memberText(repeatedRevocation, "revoked_at") != memberText(revoked, "revoked_at") {
		t.Errorf("the revocation got %s, the repeated revocation %s, want the same revoked_at", revoked.raw, repeatedRevocation.raw)
	}
	client.expect(call{method: "POST", path: "/v1/keys/" + id + "/rotate", key: env.accountA.key}, 409, "key_revoked")
}

func TestOldSecretsExpireWithTheOverlap(t *testing.T) {
	for body, overlap := range map[string]time.Duration{
		"": 24 * time.Hour, "{}": 24 * time.Hour, `{"overlap_hours":1}`: time.Hour, `{"overlap_hours":0}`: 0, `{"overlap_hours":72}`: 72 * time.Hour,
	} {
		t.Run(body, func(t *testing.T) {
			env := newTestEnv(t)
			clock := time.Now()
			env.options.Guard.Keys.Now = func() time.Time { return clock }
			client := serve(t, env.handler(t))
			created := createKey(client, env.accountA.key, `{"name":"k","scopes":["*"]}`)
			rotated := client.expect(call{method: "POST", path: "/v1/keys/" + memberText(created, "id") + "/rotate", key: env.accountA.key, body: body}, 200, "")
			statuses := func() (oldStatus, newStatus int) {
				return client.do(call{method: "GET", path: "/v1/me", key: memberText(created, "api_key")}).status,
					client.do(call{method: "GET", path: "/v1/me", key: memberText(rotated, "api_key")}).status
			}
			clock = clock.Add(overlap - time.Second) // without an overlap, the old secret has already expired
			if oldStatus, newStatus := statuses(); overlap > 0 && oldStatus != 200 || newStatus != 200 {
				t.Errorf("one second before the end of the overlap, the old secret gets %d and the new secret %d, want 200", oldStatus, newStatus)
			}
			clock = clock.Add(time.Second)
			if oldStatus, newStatus := statuses(); oldStatus != 401 || newStatus != 200 {
				t.Errorf("at the end of the overlap, the old secret gets %d and the new secret %d, want 401 and 200", oldStatus, newStatus)
			}
		})
	}
}

func TestInvalidKeyRequestsAreRefused(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	for _, body := range []string{
		``, `{}`, `{"name":"k"}`, `{"scopes":["*"]}`, `{"name":"","scopes":["*"]}`, `{"name":"k","scopes":[]}`, `{"name":"k","scopes":["all"]}`,
		`{"name":"k","scopes":"*"}`, `{"name":"k","scopes":["*"],"tenant_ids":[]}`, `{"name":"k","scopes":["*"],"tenant_ids":["x"]}`,
		`{"name":"k","scopes":["*"],"allowed_cidrs":[]}`, `{"name":"k","scopes":["*"],"allowed_cidrs":["127.0.0.1"]}`,
		`{"name":"k","scopes":["*"],"expires_at":"2020-01-01T00:00:00Z"}`, `{"name":"k","scopes":["*"],"expires_at":"tomorrow"}`,
		`{"name":"k","scopes":["*"],"expires_at":"0001-01-01T00:00:00Z"}`, `{"name":"k","scopes":["*"],"expires_at":"9999-12-31T23:59:59-01:00"}`,
		`{"name":"k","scopes":["*"],"form":"live"}`, `{"name":"k","scopes":["*"],"tenant_ids":null}`,
		`{"name":"k","scopes":["*"],"allowed_cidrs":null}`, `{"name":"k","scopes":["*"],"expires_at":null}`,
	} {
		client.expect(call{method: "POST", path: "/v1/keys", body: body, key: env.accountA.key, headers: map[string]string{"Content-Type": "application/json"}}, 400, "invalid_request")
	}
	id := env.keyID(t, env.accountA)
	for _, body := range []string{`{"overlap_hours":73}`, `{"overlap_hours":-1}`, `{"overlap_hours":"1"}`, `{"overlap_hours":1.5}`, `{"hours":1}`, `[]`, `{"overlap_hours":null}`} {
		client.expect(call{method: "POST", path: "/v1/keys/" + id + "/rotate", body: body, key: env.accountA.key}, 400, "invalid_request")
	}
	for _, query := range []string{"limit=0", "limit=101", "limit=x", "after=x", "after=" + strings.Repeat("A", 40)} {
		client.expect(call{method: "GET", path: "/v1/keys?" + query, key: env.accountA.key}, 400, "invalid_request")
	}
}

// TestExpiryTimeMayHaveEscapes creates a key whose expiry time contains an escaped Z. A JSON string
// may have an escape for any character.
func TestExpiryTimeMayHaveEscapes(t *testing.T) {
	env := newTestEnv(t)
	created := createKey(serve(t, env.handler(t)), env.accountA.key, `{"name":"k","scopes":["*"],"expires_at":"2126-01-02T03:04:05\u005a"}`)
	if got := memberText(created, "expires_at"); got != "2126-01-02T03:04:05Z" {
		t.Errorf("the key expires at %q, want 2126-01-02T03:04:05Z", got)
	}
}

func TestKeysManageOnlyKeysWithinTheirBounds(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	limitedKey := env.addBoundedKey(t, env.accountA.account.ID, access.Bounds{Scopes: []access.Scope{"keys:*", "tenants:read"}, Tenants: []tenant.GUID{env.accountA.tenant},
		Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, ExpiresAt: time.Date(2126, 1, 1, 0, 0, 0, 0, time.UTC)})
	validBody := fmt.Sprintf(`{"name":"k","scopes":["tenants:read"],"tenant_ids":[%q],"allowed_cidrs":["127.0.0.1/32"],"expires_at":"2125-01-01T00:00:00Z"}`, env.accountA.tenant)
	created := createKey(client, limitedKey, validBody)
	for _, change := range []struct{ part, replacement, requiredScope string }{
		{`"tenants:read"`, `"tenants:write"`, "tenants:write"},
		{`"tenants:read"`, `"*"`, "*"},
		{string(env.accountA.tenant), string(env.accountB.tenant), "keys:write"},
		{`"tenant_ids":["` + string(env.accountA.tenant) + `"],`, ``, "keys:write"},
		{`127.0.0.1/32`, `0.0.0.0/0`, "keys:write"},
		{`"allowed_cidrs":["127.0.0.1/32"],`, ``, "keys:write"},
		{`2125-01`, `2127-01`, "keys:write"},
		{`,"expires_at":"2125-01-01T00:00:00Z"`, ``, "keys:write"},
	} {
		got := client.expect(call{method: "POST", path: "/v1/keys", body: strings.Replace(validBody, change.part, change.replacement, 1), key: limitedKey}, 403, "insufficient_scope")
		if memberText(got, "required_scope") != change.requiredScope {
			t.Errorf("with %q instead of %s, got %s, want the required scope %s", change.replacement, change.part, got.raw, change.requiredScope)
		}
	}
	unboundedKeyPath := "/v1/keys/" + env.keyID(t, env.accountA)
	client.expect(call{method: "POST", path: unboundedKeyPath + "/rotate", key: limitedKey}, 403, "insufficient_scope")
	client.expect(call{method: "DELETE", path: unboundedKeyPath, key: limitedKey}, 403, "insufficient_scope")
	listed := client.expect(call{method: "GET", path: "/v1/keys", key: limitedKey}, 200, "")
	if list := listed.body["keys"].([]any); len(list) != 2 { // the key itself and the key that it created
		t.Errorf("got %s, want 2 keys", listed.raw)
	}
	client.expect(call{method: "POST", path: "/v1/keys/" + memberText(created, "id") + "/rotate", key: limitedKey}, 200, "")
	client.expect(call{method: "DELETE", path: "/v1/keys/" + memberText(created, "id"), key: limitedKey}, 200, "")
}

func TestKeysAreListedByPages(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	var want []string
	for range 4 {
		want = append(want, memberText(createKey(client, env.accountA.key, `{"name":"k","scopes":["*"]}`), "id"))
	}
	want = append(want, env.keyID(t, env.accountA))
	slices.Sort(want) // ids of the same millisecond are not ordered by time
	slices.Reverse(want)
	var got []string
	for path := "/v1/keys?limit=2"; path != ""; {
		page := client.expect(call{method: "GET", path: path, key: env.accountA.key}, 200, "")
		for _, k := range page.body["keys"].([]any) {
			got = append(got, k.(map[string]any)["id"].(string))
		}
		if path = ""; page.body["next_cursor"] != nil {
			path = "/v1/keys?limit=2&after=" + memberText(page, "next_cursor")
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestKeyThatRotatesItselfKeepsItsBounds(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	limitedKey := env.addBoundedKey(t, env.accountA.account.ID, access.Bounds{Scopes: []access.Scope{"keys:write"}, Tenants: []tenant.GUID{env.accountA.tenant}})
	rotated := client.expect(call{method: "POST", path: "/api-key/rotate?user_email=ann@a.example", key: limitedKey}, 200, "")
	client.expect(call{method: "GET", path: "/v1/tenants", key: memberText(rotated, "api_key")}, 403, "insufficient_scope")
	me := client.expect(call{method: "GET", path: "/v1/me", key: memberText(rotated, "api_key")}, 200, "")
	if !strings.Contains(me.raw, `"scopes":["keys:write"],"tenant_ids":["`+string(env.accountA.tenant)+`"]`) {
		t.Errorf("got %s, want the bounds of the old key", me.raw)
	}
}

// TestMeDescribesTheCaller checks the answer of /v1/me for a key without bounds. The request counts
// only in the bucket read.
func TestMeDescribesTheCaller(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	for earlierRequests := range 3 {
		me := client.expect(call{method: "GET", path: "/v1/me", key: env.accountA.key}, 200, "")
		if memberText(me, "account_id") != string(env.accountA.account.ID) || memberText(me, "plan") != "api_starter" || me.body["tenant_slots"] != 25.0 || me.body["tenants_held"] != 1.0 {
			t.Fatalf("got %s, want account A with 1 of 25 tenants on the plan api_starter", me.raw)
		}
		key := me.body["key"].(map[string]any)
		if key["id"] != env.keyID(t, env.accountA) || key["name"] != "test" || key["tenant_ids"] != nil || key["expires_at"] != nil {
			t.Errorf("got %s, want the key named test, without bounds", me.raw)
		}
		for bucket, remaining := range map[string]float64{"read": float64(599 - earlierRequests), "expensive": 30, "provider_heavy": 240, "provider_heavy_writes": 12, "write": 240} {
			if !slices.ContainsFunc(me.body["limits"].([]any), func(l any) bool {
				return l.(map[string]any)["bucket"] == bucket && l.(map[string]any)["remaining"] == remaining
			}) {
				t.Errorf("the bucket %s does not have %v requests left: %s", bucket, remaining, me.raw)
			}
		}
		if len(me.body["sending_providers"].([]any)) != 2 {
			t.Errorf("got %s, want 2 sending providers", me.raw)
		}
	}
}
