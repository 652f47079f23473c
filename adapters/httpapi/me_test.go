// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/tenant"
)

// TestMeHasEveryMember compares the whole answer for keys with different bounds. The account has
// two tenants, and a connection to one of two DNS providers.
func TestMeHasEveryMember(t *testing.T) {
	env := newTestEnv(t)
	env.sendingPlatforms.AddProvider(integration.Provider{ID: "woodpecker", Title: "Woodpecker", RequiredFields: []string{"api_key", "company"},
		Capabilities: integration.Capabilities{OAuth: true, MailboxDisconnect: true}}, nil)
	env.dnsProviders.AddProvider(cloudflare)
	env.dnsProviders.AddProvider(dns.Provider{ID: "powerdns", Title: "PowerDNS"})
	env.dnsProviders.AddProvider(dns.Provider{ID: "rfc2136", Undescribed: true}) // is left out
	env.connectDNS(t, env.accountA)
	env.changePlan(t, env.accountA, "complete", 7)
	env.attachTenant(t, env.accountA, secondTenant)
	client := serve(t, env.handler(t))
	expiry := time.Date(2126, 1, 2, 3, 4, 5, 0, time.UTC)
	account := env.accountA.account.ID
	for i, tc := range []struct {
		name, key  string
		wantBounds string // the last three members of "key"
	}{
		{"without bounds", env.accountA.key, `"scopes":["*"],"tenant_ids":null,"expires_at":null`},
		{"with two scopes and an expiry", env.addBoundedKey(t, account, access.Bounds{Scopes: []access.Scope{"domains:read", "webhooks:*"}, ExpiresAt: expiry}),
			`"scopes":["domains:read","webhooks:*"],"tenant_ids":null,"expires_at":"2126-01-02T03:04:05Z"`},
		{"for one tenant", env.addBoundedKey(t, account, access.Bounds{Scopes: []access.Scope{"tenants:read"}, Tenants: []tenant.GUID{secondTenant}}),
			`"scopes":["tenants:read"],"tenant_ids":["` + string(secondTenant) + `"],"expires_at":null`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := client.forTest(t).expect(call{method: "GET", path: "/v1/me", key: tc.key}, 200, "")
			id, _ := member(got.body, "key.id").(string)
			if issued, err := env.store.AccountKey(t.Context(), account, id); err != nil || issued.Hint != tc.key[len(tc.key)-4:] {
				t.Errorf("the id %s belongs to the key %+v (%v), want the key of the request", id, issued, err)
			}
			readsLeft, _ := got.body["limits"].([]any)[0].(map[string]any)["remaining"].(float64)
			if readsLeft < float64(599-i) || readsLeft > 599 {
				t.Errorf("%v reads are left after %d requests, want %d to 599", readsLeft, i+1, 599-i)
			}
			wantJSON := fmt.Sprintf(`{"account_id":%q,"plan":"complete","automatic_dns":true,"tenant_slots":7,"tenants_held":2,
				"key":{"id":%q,"name":"test",%s},
				"limits":[
					{"bucket":"read","limit":600,"window_seconds":60,"remaining":%v},
					{"bucket":"expensive","limit":30,"window_seconds":60,"remaining":30},
					{"bucket":"provider_heavy","limit":240,"window_seconds":600,"remaining":240},
					{"bucket":"provider_heavy_writes","limit":12,"window_seconds":600,"remaining":12},
					{"bucket":"write","limit":240,"window_seconds":600,"remaining":240}],
				"sending_providers":[
					{"id":"instantly","name":"instantly","needs":[],"capabilities":{"microsoft_oauth":false,"mailbox_refresh":false,"mailbox_disconnect":false}},
					{"id":"salesblink","name":"salesblink","needs":[],"capabilities":{"microsoft_oauth":false,"mailbox_refresh":false,"mailbox_disconnect":false}},
					{"id":"woodpecker","name":"Woodpecker","needs":["api_key","company"],"capabilities":{"microsoft_oauth":true,"mailbox_refresh":false,"mailbox_disconnect":true}}],
				"dns_providers":[{"id":"cloudflare","name":"Cloudflare","connected":true},{"id":"powerdns","name":"PowerDNS","connected":false}]}`,
				account, id, tc.wantBounds, readsLeft)
			var want map[string]any
			must(t, json.Unmarshal([]byte(wantJSON), &want))
			if !reflect.DeepEqual(got.body, want) {
				t.Errorf("got\n%s\nwant\n%s", got.raw, wantJSON)
			}
		})
	}
}
