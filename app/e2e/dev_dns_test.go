// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestDevDNSConnection: the seeded account reaches the zones of the simulated
// Cloudflare, once, over a kill too; another account after the control call. The
// plan of a zone with a past tells what is wrong with it.
func TestDevDNSConnection(t *testing.T) {
	t.Parallel()
	b, data := binary(t, release), t.TempDir()
	p, first := startDev(t, b, data, nil)
	c := ownerAt(t, first)
	h := holding{c, first.Tenants[0].TenantID, first.Tenants[0].Admin}
	h.behave(quick())
	h.connect()
	h.synced()
	const zone = "messy-spf-merge.test"
	h.post(h.path("/domains"), object{"domain": zone})
	proof := h.get(h.domain(zone, "/dns")).objects("verification_dns_records")[0]["text"]
	var records []object
	if err := json.Unmarshal(h.control("GET", "/zones/"+zone+"/records", nil).raw, &records); err != nil {
		t.Fatal(err)
	}
	h.control("PUT", "/zones/"+zone+"/records", append(records, object{"type": "TXT", "name": zone, "content": proof, "ttl": 600}))
	h.post(h.domain(zone, "/verify"), nil)
	id := h.get(h.path("/domains")).objects("domains")[0].text("id")

	p.kill()
	_, h.ready = startDev(t, b, data, nil)
	plan := h.get("/v1/domains/" + id + "/dns/plan")
	sees(t, plan.object, object{"read.reliable": true, "dns_provider.id": "cloudflare", "safe_to_apply": true})
	if !strings.Contains(string(plan.raw), "v=spf1 a ip4:192.0.2.7 include:spf.protection.outlook.com ~all") {
		t.Errorf("got %s", plan.raw)
	}
	ready := h.get("/v1/domains/" + id + "/dns/automation")
	sees(t, ready.object, object{"automation.connection_present": true, "automation.safe_to_apply": true, "automation.manual_action_required": false})

	other := h.control("POST", "/accounts", object{"email": "ann@example.com", "plan": "complete"}).text("account_id")
	for range 2 { // the second time changes nothing
		h.control("POST", "/accounts/"+other+"/dns-connections", object{"provider": "cloudflare"})
	}
	refused, err := http.Post(h.ready.ControlURL+"/accounts/"+other+"/dns-connections", "application/json", strings.NewReader(`{"provider":"microsoft365"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = refused.Body.Close()
	if refused.StatusCode != http.StatusBadRequest {
		t.Errorf("microsoft365: %s", refused.Status)
	}
	connected(t, []string{"TENANTRY_DATA_DIR=" + data},
		object{"account_id": first.AccountID, "provider": "cloudflare", "status": "connected"},
		object{"account_id": other, "provider": "cloudflare", "status": "connected"})
}
