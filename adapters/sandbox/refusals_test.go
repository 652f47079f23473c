// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestControlRefusesInvalidCalls(t *testing.T) {
	fixture := newFixture(t)
	account := "/accounts/" + fixture.ready.AccountID
	for _, tc := range []struct {
		call, body string
		wantStatus int
	}{
		{"POST /accounts", `{"email":"a@example.com","plan":"nonsense"}`, 400},
		{"POST /accounts", `{"plan":"complete"}`, 400},
		{"POST /accounts", `{"email":"a@example.com","plan":"complete","key_form":"gold"}`, 400},
		{"POST /accounts", `{"email":"a@example.com","plan":"complete","tenant_slots":-1}`, 400},
		{"POST /accounts", `{"email":"a@example.com","plan":"complete","slots":1}`, 400},
		{"POST /accounts", ``, 400},
		{"POST /accounts", `{} {}`, 400},
		{"POST " + account + "/plan", `{"plan":"complete"}`, 400},
		{"POST " + account + "/settings", `{"display":"x"}`, 400},
		{"POST " + account + "/settings", `{"return_hosts":["https://a.example"]}`, 400},
		{"POST /accounts/nobody/settings", `{"display_name":"x"}`, 404},
		{"POST " + account + "/keys", `{"scopes":["*"]}`, 400},
		{"POST " + account + "/keys", `{"name":"x"}`, 400},
		{"POST " + account + "/keys", `{"name":"x","scopes":["tenants:fly"]}`, 400},
		{"POST " + account + "/keys", `{"name":"x","scopes":["*"],"tenant_ids":[]}`, 400},
		{"POST " + account + "/keys", `{"name":"x","scopes":["*"],"expires_at":"2020-01-01T00:00:00Z"}`, 400},
		{"POST /accounts/nobody/keys", `{"name":"x","scopes":["*"]}`, 404},
		{"POST " + account + "/sign-in-link", `{"email":"a@example.com"}`, 501},
		{"POST /accounts/nobody/plan", `{"plan":"complete","active":true}`, 404},
		{"POST " + account + "/dns-connections", `{"provider":"cloudflare"}`, 400},
		{"POST " + account + "/dns-connections", `{"provider":"fake"}`, 400},
		{"POST " + account + "/dns-connections", `{"provider":"powerdns"}`, 400},
		{"POST " + account + "/dns-connections", `{}`, 400},
		{"POST /accounts/nobody/dns-connections", `{"provider":"cloudflare"}`, 404},
		{"POST /tenants", `{"bootstrap":"odd"}`, 400},
		{"POST /tenants/" + fixture.tenant + "/consent", `{}`, 400},
		{"POST /tenants/nobody/consent", `{"api_key":"x"}`, 404},
		{"GET /tenants/nobody", ``, 404},
		{"POST /managed", `{"tenant_id":"` + fixture.tenant + `"}`, 400},
		{"POST /managed", `{"tenant_id":"` + fixture.tenant + `","account_id":"nobody"}`, 404},
		{"POST /managed", `{"tenant_id":"nobody","account_id":"` + fixture.ready.AccountID + `"}`, 404},
		{"DELETE /managed/nobody", ``, 404},
		{"POST /zones", `{"name":"Not a zone"}`, 400},
		{"POST /zones", `{"name":"new.test","provider":"route53"}`, 400},
		{"PUT /zones/nobody.test/records", `[]`, 404},
		{"PUT /zones/example-one.test/records", `null`, 400},
		{"PUT /zones/example-one.test/records", `[{"type":"A","name":"www","content":"192.0.2.1","ttl":60}]`, 400},
		{"PUT /zones/example-one.test/records", `[{"type":"A"}]`, 400},
		{"GET /zones/nobody.test/records", ``, 404},
		{"POST /clock", `{}`, 400},
		{"POST /clock", `{"advance":"soon"}`, 400},
		{"POST /clock", `{"advance":"-1h"}`, 400},
		{"POST /clock", `{"now":"tomorrow"}`, 400},
		{"POST /clock", `{"now":"3000-01-01T00:00:00Z"}`, 400},
		{"POST /faults", `{"kind":"status"}`, 400},
		{"POST /faults", `[]`, 400},
		{"POST /faults", `{"provider":"nobody"}`, 404},
		{"POST /faults", `{"provider":"nosimulator","kind":"status","status":503,"times":1}`, 501},
		{"GET /calls", ``, 400},
		{"GET /calls?provider=nobody", ``, 404},
		{"GET /sending/nosimulator/accounts", ``, 501},
		{"GET /sending/fake/accounts", ``, 404}, // fake is not a sending platform
		{"POST /plugins/nobody/kill", ``, 404},
		{"GET /nothing", ``, 404},
		{"GET /", ``, 404},
		{"GET //calls?provider=fake", ``, 404},
		{"GET /zones/example-one.test/records/", ``, 404},
		{"PUT /accounts", `{}`, 400},
		{"GET /accounts/" + fixture.ready.AccountID + "/plan", ``, 400},
		{"GET /tenants", ``, 400},
		{"GET /tenants/" + fixture.tenant + "/consent", ``, 400},
		{"GET /managed", ``, 400},
		{"POST /zones/example-one.test/records", `[]`, 400},
		{"GET /enforcement/run", ``, 400},
		{"GET /clock", ``, 400},
		{"GET /faults", ``, 400},
		{"PATCH /calls", ``, 400},
		{"GET /plugins/fake/kill", ``, 400},
	} {
		t.Run(tc.call+" "+tc.body, func(t *testing.T) {
			method, path, _ := strings.Cut(tc.call, " ")
			status, body := fixture.call(method, path, tc.body)
			var refusal struct{ Error string }
			err := json.Unmarshal([]byte(body), &refusal)
			// For an unknown tenant, the fake simulator sends no error text.
			if status != tc.wantStatus || err != nil || refusal.Error == "" && tc.call != "GET /tenants/nobody" {
				t.Fatalf("got %d %s, want %d with an error", status, body, tc.wantStatus)
			}
		})
	}
}

// TestAProviderWithoutASimulatorHasAnEmptyListOfCalls checks that GET /calls answers for a provider
// of the catalog that has no simulator.
func TestAProviderWithoutASimulatorHasAnEmptyListOfCalls(t *testing.T) {
	newFixture(t).mustCall("GET", "/calls?provider=nosimulator", "", "[]")
}
