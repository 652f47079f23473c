// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/app/cli"
)

// sandboxOperatorEnv returns the settings with which a command reaches the DNS and the simulated
// Cloudflare of the shared sandbox.
func (c caller) sandboxOperatorEnv() []string {
	c.t.Helper()
	addresses := map[string]string{}
	must(c.t, json.Unmarshal([]byte(fileText(c.t, filepath.Join(scratchDir, "shared", "sandbox", "addresses.json"))), &addresses))
	_, port, _ := strings.Cut(c.ready.DNSAddr, ":")
	return append(sharedOperatorEnv("carol@desk"), allPlugins, "TENANTRY_DNS_RESOLVERS="+c.ready.DNSAddr, "TENANTRY_DNS_PORT="+port, "TENANTRY_DNS_ALLOW_PRIVATE=true",
		"TENANTRY_PROVIDERS_CLOUDFLARE_API_URL=http://"+addresses["cloudflare"]+"/client/v4")
}

// zoneTexts returns the records of a zone as sorted texts.
func (c caller) zoneTexts(zone string) (texts []string) {
	c.t.Helper()
	for _, r := range c.zoneRecords(zone) {
		texts = append(texts, fmt.Sprint(r["type"], " ", r["name"], " ", r["content"], " ", r["priority"], " ", r["ttl"]))
	}
	return slices.Sorted(slices.Values(texts))
}

// TestOperatorUndoesARun checks that `dns undo` restores the zone of a provisioned domain, changes
// nothing without --yes, and has nothing to undo the second time.
func TestOperatorUndoesARun(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).withDNSConnection().newConnectedTenant(nil)
	zone, id := tenant.newHostedDomain()
	tenant.control("PUT", "/zones/"+zone+"/records", []object{
		{"type": "TXT", "name": zone, "content": "v=spf1 ip4:192.0.2.7 ~all", "ttl": 600}, {"type": "TXT", "name": zone, "content": "site=7", "ttl": 600},
		{"type": "MX", "name": zone, "content": "ms99999999.msv1.invalid", "priority": 32767, "ttl": 600},
	})
	beforeRun := tenant.zoneTexts(zone)
	run := fmt.Sprint(tenant.expect("POST", "/v1/domains/"+id+"/dns/provision", nil, http.StatusAccepted, "").valueAt("run.id"))
	if ended := tenant.waitForRun(run); ended.valueAt("run.status") != "completed" {
		t.Fatalf("the run ended as %s, want it completed", ended.raw)
	}
	afterRun := tenant.zoneTexts(zone)
	if slices.ContainsFunc(afterRun, func(r string) bool { return strings.Contains(r, "msv1.invalid") }) {
		t.Errorf("the left-over verification record is still there: %q", afterRun)
	}

	env := tenant.sandboxOperatorEnv()
	undo := func(args ...string) object {
		got := runTenantry(t, env, append([]string{"dns", "undo", run, "-o", "json"}, args...)...)
		got.stderr = "" // the warning that nothing was changed, or that there was nothing to undo
		return got.mustJSON(t)
	}
	planned := undo()
	if diff := cmp.Diff(afterRun, tenant.zoneTexts(zone)); diff != "" {
		t.Fatalf("without --yes the zone was changed (-before +now): %s", diff)
	}
	for _, r := range planned.objects("records") {
		checkMembers(t, "a record", r, "domain_name zone action record_type name written previous status")
		checkValues(t, r, object{"domain_name": zone, "zone": zone, "status": "planned"})
	}
	if n := len(planned.objects("records")); n < 7 {
		t.Errorf("only %d records are planned, want at least 7: %v", n, planned)
	}

	executed := undo("--yes")
	for _, r := range executed.objects("records") {
		checkValues(t, r, object{"status": "done"})
	}
	if diff := cmp.Diff(beforeRun, tenant.zoneTexts(zone)); diff != "" {
		t.Errorf("the undo did not restore the zone (-before +now): %s", diff)
	}
	if repeated := undo("--yes"); len(repeated.objects("records")) != 0 {
		t.Errorf("the second undo changed %v, want no records", repeated)
	}
	events := runTenantry(t, env, "audit", "list", "--account", tenant.id, "-o", "json").mustJSON(t).objects("events")
	if len(events) == 0 || events[0].text("action") != "dns.undo" || events[0].text("operator") != "carol@desk" {
		t.Errorf("the newest audit event is not dns.undo by carol@desk: %v", events)
	}
	runTenantry(t, env, "dns", "undo", tenant.id, "-o", "json").checkError(t, cli.ExitNotFound, "provisioning_run_not_found")
	runTenantry(t, env, "dns", "undo").checkFailure(t, cli.ExitUsage)
}
