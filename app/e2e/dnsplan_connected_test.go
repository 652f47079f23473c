// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// held is what Cloudflare's simulator holds of a zone.
func (c *simulated) held(t *testing.T, zone string) string {
	t.Helper()
	answer, err := http.Get(strings.TrimSuffix(c.url, "/client/v4") + "/_control/zones/" + zone + "/records")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status, err)
	}
	return string(raw)
}

// TestDNSPlanThroughAConnection: where the account reaches the zone, what the
// provider holds is what is planned from, and each trouble with the connection
// is told by its own code.
func TestDNSPlanThroughAConnection(t *testing.T) {
	t.Parallel()
	zone := fmt.Sprintf("held-%d.test", serial.Add(1))
	c, r := newSimulated(t, zone), newRig(t, binary(t, release))
	env := append(r.env(t.TempDir(), ""), "TENANTRY_LIMITS=off", c.env())
	account, key := r.account(env, "ann@example.com", "complete", 0)
	_, api := r.serve(env)
	h := holding{caller: caller{api, account, "ann@example.com", key}}
	h.guid, h.admin = r.tenant(api)
	newAdministrator(t, h.admin).connects(api, key)
	h.synced()
	if err := r.zones.Add(zone, "cloudflare"); err != nil {
		t.Fatal(err)
	}
	h.post(h.path("/domains"), object{"domain": zone})
	h.publish(zone)
	h.post(h.domain(zone, "/verify"), nil)
	id := h.get(h.path("/domains")).objects("domains")[0].text("id")
	ready := func(what string, want object) {
		t.Helper()
		got := h.get("/v1/domains/" + id + "/dns/automation")
		for name, value := range want {
			sees(t, got.object, object{"automation." + name: value})
		}
		if t.Failed() {
			t.Fatalf("%s: %s", what, got.raw)
		}
	}
	ready("no connection", object{"provider": "cloudflare", "connection_present": false, "action_required_code": "dns_connection_required", "manual_action_required": true})

	r.command(env, "dns-connection", "add", "--account", account, "--provider", "cloudflare", "--credential-file", secretIn(t, c.token))
	ready("connected", object{"connection_present": true, "safe_to_apply": true, "action_required_code": nil, "manual_action_required": false})
	// Its servers show what was published, the provider has nothing yet.
	if before := c.held(t, zone); before != "[]" && strings.TrimSpace(before) != "[]" {
		t.Fatal(before)
	}
	for _, a := range h.get("/v1/domains/" + id + "/dns/plan").objects("actions") {
		sees(t, a, object{"action": "create", "reason": "missing", "observed": "[]"})
	}

	records, err := json.Marshal([]object{{"type": "MX", "name": zone, "content": "mail." + zone, "priority": 5, "ttl": 1}})
	if err != nil {
		t.Fatal(err)
	}
	simulatorDo(t, "PUT", strings.TrimSuffix(c.url, "/client/v4")+"/_control/zones/"+zone+"/records", string(records))
	before := c.held(t, zone)
	ready("a conflict", object{"connection_present": true, "safe_to_apply": false, "action_required_code": "dns_conflict"})
	simulatorDo(t, "PUT", strings.TrimSuffix(c.url, "/client/v4")+"/_control/zones/"+zone, `{"status":"moved"}`)
	ready("moved away", object{"connection_present": true, "action_required_code": "dns_connection_required"})
	simulatorDo(t, "PUT", strings.TrimSuffix(c.url, "/client/v4")+"/_control/zones/"+zone, `{"status":"active"}`)
	c.revoked.Store(true)
	ready("a credential that is not taken", object{"connection_present": true, "action_required_code": "dns_credential_rejected"})
	c.revoked.Store(false)
	if after := c.held(t, zone); after != before {
		t.Errorf("the zone was changed from\n%s\nto\n%s", before, after)
	}
}
