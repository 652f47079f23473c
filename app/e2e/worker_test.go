// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
)

// TestAProcessThatDoesNotWork answers requests alone. What it was asked for is
// done by the next one that works.
func TestAProcessThatDoesNotWork(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p, ready := startDev(t, binary(t, release), data, []string{"TENANTRY_WORKER=false"}, "--no-seed")
	h := ownerAt(t, ready).newCaller(nil).automatic().connected(nil)
	zone, id := h.hosted()
	run := h.expect("POST", "/v1/domains/"+id+"/dns/provision", object{}, 202, "").at("run.id").(string)
	if calls := h.control("GET", "/calls?provider=cloudflare", nil); h.get("/v1/dns/provisioning-runs/"+run).at("run.status") != "queued" {
		t.Errorf("the job has begun: %s", calls.raw)
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	_, again := startDev(t, binary(t, release), data, nil, "--no-seed")
	h.ready = again
	if h.ends(run).at("run.status") != "completed" {
		t.Error("the job was not done")
	}
	h.provisioned(zone)
}
