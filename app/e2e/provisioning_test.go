// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
)

// automatic connects an account to the simulated Cloudflare.
func (c caller) automatic() caller {
	c.t.Helper()
	c.control("POST", "/accounts/"+c.id+"/dns-connections", object{"provider": "cloudflare"})
	return c
}

// hosted adds a domain whose new zone is at the simulated Cloudflare, without
// any record.
func (h holding) hosted() (zone, id string) {
	h.t.Helper()
	zone = fmt.Sprintf("automatic-%d.test", serial.Add(1))
	h.control("POST", "/zones", object{"name": zone, "provider": "cloudflare"})
	h.post(h.path("/domains"), object{"domain": zone})
	for _, d := range h.get(h.path("/domains")).objects("domains") {
		if d.text("domain_name") == zone {
			id = d.text("id")
		}
	}
	return zone, id
}

// ends waits for a run to have no job any more that goes on by itself.
func (c caller) ends(run string) reply {
	c.t.Helper()
	var got reply
	c.eventually("end of run "+run, func() bool {
		got = c.get("/v1/dns/provisioning-runs/" + run)
		switch got.at("run.status") {
		case "completed", "failed", "action_required":
			return true
		default:
			return false
		}
	})
	return got
}

// provisioned holds a domain against what a job leaves behind: stored, at the
// platform, and in its zone, where nothing stands twice.
func (h holding) provisioned(zone string) {
	h.t.Helper()
	found := false
	for _, d := range h.get(h.path("/domains")).objects("domains") {
		if d.text("domain_name") == zone {
			found = d["is_verified"] == true && d.text("dkim_status") == "healthy"
		}
	}
	if !found {
		h.t.Errorf("%s is not verified and signed: %s", zone, h.get(h.path("/domains")).raw)
	}
	for _, d := range h.control("GET", "/tenants/"+h.guid, nil).objects("domains") {
		if d.text("name") == zone && (d["verified"] != true || d["dkim_enabled"] != true) {
			h.t.Errorf("the platform has %v", d)
		}
	}
	h.onceInZone(zone)
}

// onceInZone counts the records of a zone: what Microsoft 365 needs is there,
// each once.
func (h holding) onceInZone(zone string) {
	h.t.Helper()
	var records []object
	if err := json.Unmarshal(h.control("GET", "/zones/"+zone+"/records", nil).raw, &records); err != nil {
		h.t.Fatal(err)
	}
	seen := map[string]int{}
	for _, r := range records {
		seen[r.text("type")+" "+r.text("name")]++
	}
	want := map[string]int{
		"TXT " + zone: 2, "MX " + zone: 1, "CNAME autodiscover." + zone: 1, "TXT _dmarc." + zone: 1,
		"CNAME selector1._domainkey." + zone: 1, "CNAME selector2._domainkey." + zone: 1,
	}
	for name, n := range want {
		if seen[name] != n {
			h.t.Errorf("%s: %d records, want %d", name, seen[name], n)
		}
	}
	if len(seen) != len(want) {
		h.t.Errorf("the zone holds %v", seen)
	}
}

// TestProvisionedByOneCall: a customer with a domain at a supported provider
// makes one call, and later finds it verified, signed and healthy.
func TestProvisionedByOneCall(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, common, func(t *testing.T, c caller) {
		h := c.newCaller(nil).automatic().connected(nil)
		zone, id := h.hosted()
		begun := h.expect("POST", "/v1/domains/"+id+"/dns/provision", nil, http.StatusAccepted, "")
		h.expect("POST", "/v1/domains/"+id+"/dns/provision", nil, http.StatusConflict, "domain_provisioning_already_active")
		ended := h.ends(fmt.Sprint(begun.at("run.id")))
		if job := ended.objects("jobs")[0]; job.text("status") != "completed" || job.text("stage") != "done" {
			t.Fatalf("the run ended %s", ended.raw)
		}
		h.provisioned(zone)
	})
}
