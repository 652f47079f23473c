// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/sandbox"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/app/cli"
)

// TestSandboxReadyLineIsComplete checks the values of the ready line, and that the files with the
// API key are readable only by their owner.
func TestSandboxReadyLineIsComplete(t *testing.T) {
	t.Parallel()
	dataDir := t.TempDir()
	_, ready := startDev(t, requirePrograms(t, releaseBuild), dataDir, []string{allPlugins})
	if ready.UserEmail != "owner@example.com" {
		t.Errorf("the user's address is %q, want owner@example.com", ready.UserEmail)
	}
	for _, name := range []string{"instantly", "plusvibe", "smartlead", "salesblink", "emailbison"} {
		customer, _ := ready.Sending[name].(map[string]any)
		if key, _ := customer["api_key"].(string); key == "" {
			t.Errorf("the sandbox has no customer of %s: %v", name, ready.Sending)
		}
	}
	if len(ready.Zones) != 12 || ready.Zones[0] != "example-one.test" || ready.Zones[11] != "example-twelve.test" || len(ready.Tenants) == 0 {
		t.Errorf("the zones are %v and the tenants %v, want 12 zones from example-one to example-twelve and a tenant", ready.Zones, ready.Tenants)
	}
	for _, address := range []string{ready.APIURL, ready.AdminURL, ready.ControlURL} {
		if u, err := url.Parse(address); err != nil || u.Hostname() != "127.0.0.1" || u.Port() == "8080" {
			t.Errorf("the address %s is not at 127.0.0.1, or has the fixed port 8080", address)
		}
	}
	for _, name := range []string{"env", "api-key.json"} {
		found := false
		err := filepath.WalkDir(dataDir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.Name() != name {
				return err
			}
			info, err := d.Info()
			if found = true; err == nil && info.Mode().Perm() != 0o600 {
				t.Errorf("the file %s has the mode %v, want 0600", name, info.Mode())
			}
			return err
		})
		if err != nil || !found {
			t.Errorf("the data folder has the file %s: %v, want true (%v)", name, found, err)
		}
	}
}

// TestSandboxKeepsItsStateAfterRestart checks that service and platform keep their state after
// SIGKILL, and that the control interface keeps its address. After a rotation of the key and a
// stop, the ready line has a new key of the same account, and the rotated key stays valid.
func TestSandboxKeepsItsStateAfterRestart(t *testing.T) {
	t.Parallel()
	build, dataDir := requirePrograms(t, releaseBuild), t.TempDir()
	control := []string{"--control", "127.0.0.5:0"} // no other test of this package uses this address
	p, ready := startDev(t, build, dataDir, nil, control...)
	c := seededAccount(t, ready)
	tenant := accountTenant{c, ready.Tenants[0].TenantID, ready.Tenants[0].Admin}
	tenant.setBehaviour(noDelays())
	tenant.connect()
	tenant.mustSync()
	tenant.post(tenant.path("/domains"), object{"domain": ready.Zones[0]})
	tenant.publishRecords(ready.Zones[0])
	tenant.post(tenant.domainPath(ready.Zones[0], "/verify"), nil)
	stateBefore := persistentState(tenant)

	p.kill()
	p, readyAfterKill := startDev(t, build, dataDir, nil, control...)
	if readyAfterKill.APIKey != ready.APIKey || readyAfterKill.AccountID != ready.AccountID || !slices.Equal(readyAfterKill.Zones, ready.Zones) || readyAfterKill.ControlURL != ready.ControlURL {
		t.Errorf("after the kill the ready line is %+v, want the key, account, zones and control address of %+v", readyAfterKill, ready)
	}
	if slices.ContainsFunc(readyAfterKill.Tenants, func(s sandbox.Tenant) bool { return s.TenantID == tenant.guid }) || len(readyAfterKill.Tenants) != len(ready.Tenants) {
		t.Errorf("the ready line has the tenants %v, want as many as before and not the connected tenant", readyAfterKill.Tenants)
	}
	tenant.ready, tenant.key = readyAfterKill, readyAfterKill.APIKey
	stateAfter := persistentState(tenant)
	for name := range stateBefore {
		if !strings.HasPrefix(stateAfter[name], stateBefore[name]) {
			t.Errorf("after the restart the %s changed from\n%s\nto\n%s", name, stateBefore[name], stateAfter[name])
		}
	}
	tenant.mustSync()
	checkValues(t, tenant.post(tenant.path("/mailboxes"), mailboxesBody(ready.Zones[0], "ada")).object, object{"created_count": 1})

	rotated := tenant.post("/api-key/rotate?user_email="+tenant.email, nil).text("api_key")
	must(t, p.stop())
	_, readyAfterRotation := startDev(t, build, dataDir, nil, control...)
	if readyAfterRotation.APIKey == ready.APIKey || readyAfterRotation.APIKey == rotated || readyAfterRotation.AccountID != ready.AccountID || readyAfterRotation.ControlURL != ready.ControlURL {
		t.Error("after a rotation the key is not a new one of the same account, or the address of the control interface changed")
	}
	tenant.ready, tenant.key = readyAfterRotation, readyAfterRotation.APIKey
	tenant.checkTenants(tenant.guid)
	tenant.key = rotated
	tenant.checkTenants(tenant.guid)
	tenant.key = ready.APIKey
	tenant.expect("GET", "/v1/tenants", nil, http.StatusUnauthorized, "invalid_api_key")
}

// persistentState returns the state that a restart must keep. The journal may only grow.
func persistentState(tenant accountTenant) map[string]string {
	tenant.t.Helper()
	zone := "/zones/example-one.test/records"
	return map[string]string{
		"tenant":   string(tenant.get(tenant.path("")).raw),
		"domains":  string(tenant.get(tenant.path("/domains")).raw),
		"platform": string(tenant.control("GET", "/tenants/"+tenant.guid, nil).raw),
		"zone":     string(tenant.control("GET", zone, nil).raw),
		"journal":  strings.TrimRight(string(tenant.control("GET", "/calls?provider=microsoft365", nil).raw), "]\n"),
	}
}

// TestMovedClockSurvivesRestart checks that a sandbox without a seed has no zones and no tenants,
// and that its clock keeps the moved time after a restart. Otherwise stored times would be in the
// future.
func TestMovedClockSurvivesRestart(t *testing.T) {
	t.Parallel()
	build, dataDir := requirePrograms(t, releaseBuild), t.TempDir()
	p, ready := startDev(t, build, dataDir, nil, "--no-seed")
	if ready.Zones == nil || ready.Tenants == nil || len(ready.Zones)+len(ready.Tenants) != 0 || ready.APIKey == "" || ready.AccountID == "" {
		t.Errorf("the zones are %v and the tenants %v, want no zone, no tenant, and an account with a key", ready.Zones, ready.Tenants)
	}
	c := seededAccount(t, ready)
	c.checkTenants()
	c.control("POST", "/clock", object{"advance": "240h"})
	expiryBefore := c.get("/v1/tenants/connect-url").text("expires_at")
	p.kill()
	_, c.ready = startDev(t, build, dataDir, nil, "--no-seed")
	if expiryAfter := c.get("/v1/tenants/connect-url").text("expires_at"); expiryAfter < expiryBefore {
		t.Errorf("before the restart a link expired at %s, and afterwards at %s, want no earlier time", expiryBefore, expiryAfter)
	}
}

// TestSandboxPrintsJSONWithTheOutputFlag checks that dev accepts -o json, the members of the ready
// line, and that the control interface listens on the address that --control sets.
func TestSandboxPrintsJSONWithTheOutputFlag(t *testing.T) {
	t.Parallel()
	read, write := io.Pipe()
	p, err := launchProcess(requirePrograms(t, releaseBuild), []string{onePluginPerKindEnv(t)}, write,
		"dev", "-o", "json", "--listen", "127.0.0.1:0", "--control", "127.0.0.2:0", "--data", t.TempDir())
	must(t, err)
	p.stopAtEnd(t)
	go func() { <-p.done; _ = write.Close() }()
	var ready object
	if err := json.NewDecoder(read).Decode(&ready); err != nil || !strings.HasPrefix(ready.text("control_url"), "http://127.0.0.2:") || len(ready.objects("tenants")) == 0 {
		t.Fatalf("the ready line is %v (%v), want a tenant and a control interface at 127.0.0.2", ready, err)
	}
	checkMembers(t, "ready line", ready, "api_url api_key account_id user_email admin_url control_url dns_addr zones tenants sending")
	checkMembers(t, "tenant", ready.objects("tenants")[0], "tenant_id admin name")
	go func() { _, _ = io.Copy(io.Discard, read) }()
}

// TestSandboxListensOnLoopbackOnly checks that dev refuses addresses that are not on loopback, and
// other invalid arguments.
func TestSandboxListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--listen", "0.0.0.0:0"}, {"--listen", ":0"}, {"--listen", "192.0.2.1:80"}, {"--listen", "nonsense"}, {"--limits", "on"}, {"extra"}, {"--control", "0.0.0.0:0"},
	} {
		runTenantry(t, nil, append([]string{"dev", "--data", t.TempDir()}, args...)...).checkFailure(t, cli.ExitUsage)
	}
}

// TestSandboxConnectsSimulatedDNS checks that the seeded account has one connection to the
// simulated Cloudflare, even after the sandbox was killed. A different account gets its connection
// through the control interface. The DNS plan of a prepared zone adds the mail platform to the SPF
// record of the zone.
func TestSandboxConnectsSimulatedDNS(t *testing.T) {
	t.Parallel()
	build, dataDir := requirePrograms(t, releaseBuild), t.TempDir()
	p, ready := startDev(t, build, dataDir, nil)
	c := seededAccount(t, ready)
	tenant := accountTenant{c, ready.Tenants[0].TenantID, ready.Tenants[0].Admin}
	tenant.setBehaviour(noDelays())
	tenant.connect()
	tenant.mustSync()
	const zone = "messy-spf-merge.test"
	tenant.post(tenant.path("/domains"), object{"domain": zone})
	proof := tenant.get(tenant.domainPath(zone, "/dns")).objects("verification_dns_records")[0]["text"]
	var records []object
	must(t, json.Unmarshal(tenant.control("GET", "/zones/"+zone+"/records", nil).raw, &records))
	tenant.control("PUT", "/zones/"+zone+"/records", append(records, object{"type": "TXT", "name": zone, "content": proof, "ttl": 600}))
	tenant.post(tenant.domainPath(zone, "/verify"), nil)
	id := tenant.get(tenant.path("/domains")).objects("domains")[0].text("id")

	p.kill()
	_, tenant.ready = startDev(t, build, dataDir, nil)
	plan := tenant.get("/v1/domains/" + id + "/dns/plan")
	checkValues(t, plan.object, object{"read.reliable": true, "dns_provider.id": "cloudflare", "safe_to_apply": true})
	if !strings.Contains(string(plan.raw), "v=spf1 a ip4:192.0.2.7 include:spf.protection.outlook.com ~all") {
		t.Errorf("the plan does not add the mail platform to the SPF record: %s", plan.raw)
	}
	automation := tenant.get("/v1/domains/" + id + "/dns/automation")
	checkValues(t, automation.object, object{"automation.connection_present": true, "automation.safe_to_apply": true, "automation.manual_action_required": false})

	newAccountID := tenant.control("POST", "/accounts", object{"email": "ann@example.com", "plan": "complete"}).text("account_id")
	for range 2 { // the second request changes nothing
		tenant.control("POST", "/accounts/"+newAccountID+"/dns-connections", object{"provider": "cloudflare"})
	}
	answer, err := http.Post(tenant.ready.ControlURL+"/accounts/"+newAccountID+"/dns-connections", "application/json", strings.NewReader(`{"provider":"microsoft365"}`))
	must(t, err)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusBadRequest {
		t.Errorf("a DNS connection to microsoft365 is answered %s, want 400", answer.Status)
	}
	checkConnections(t, []string{"TENANTRY_DATA_DIR=" + dataDir},
		object{"account_id": ready.AccountID, "provider": "cloudflare", "status": "connected"},
		object{"account_id": newAccountID, "provider": "cloudflare", "status": "connected"})
}

// TestDemoShowsEveryStep checks that the demo ends by itself, prints each step with request, status
// and time, and leaves no files.
func TestDemoShowsEveryStep(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), requirePrograms(t, releaseBuild).binary, "demo")
	cmd.Dir, cmd.Env = folder, []string{"PATH=/usr/bin:/bin", "HOME=" + folder, "TMPDIR=" + folder, onePluginPerKindEnv(t)}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("the demo failed: %v\n%s%s", err, stdout.String(), stderr.String())
	}
	if spent := time.Since(start); soak.Enabled() && spent > 2*time.Minute {
		t.Errorf("the demo took %v, want at most 2 minutes", spent)
	}
	shown := stdout.String()
	for _, want := range []string{
		"1. Add a webhook", "Arrived at the webhook, with a valid signature: webhook.test",
		"2. Connect", "valid signature: tenant.connected", "3. Prepare", "4. Add the domain example-one.test", "valid signature: domain.added",
		"5. Publish the domain's DNS records", "valid signature: domain.verified, domain.dkim_enabled, dns_run.completed",
		"6. Provision", "valid signature: mailbox.created", "7. List the mailboxes",
		"8. Store the API key", "9. Connect each mailbox", "10. Compare with", "has stored 3 of 3", "valid signature: integration.connected, connection.connected",
		"11. Limit", "12. A mailbox exceeds its limit", "ada@example-one.test: Mailbox blocked: sent 21, limit 20", "enabled true, blocks [ada@example-one.test]",
		"13. The next day", "ada@example-one.test: Mailbox unblocked: sent 0, limit 20", "enabled false, blocks []", "valid signature: policy.set, mailbox.blocked, mailbox.unblocked",
		"the run is completed", "verified true, DKIM healthy, 3 mailboxes",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("the demo does not show %q:\n%s", want, shown)
		}
	}
	if createdLines := regexp.MustCompile(`(?m)^ +created +\S+@example-one\.test`).FindAllString(shown, -1); len(createdLines) != 3 {
		t.Errorf("the demo shows the created mailboxes %q, want 3", createdLines)
	}
	for _, request := range []string{"connect-url", "/sync", "/domains", "/dns/provision", `/provisioning-runs/\S+`, "/mailboxes",
		"/v1/integrations", "/oauth/microsoft/init", `/oauth/microsoft/status\?session_id=\S+`, "/mailboxes/refresh",
		"/mailbox-limits", `/v1/enforcement/events\?action=unblocked`} {
		if !regexp.MustCompile(`(?m)^ +(GET|POST) +\S*` + request + ` +20[02] +\S+s$`).MatchString(shown) {
			t.Errorf("the demo shows no request to %s with its status and time:\n%s", request, shown)
		}
	}
	if stderr.Len() > 0 {
		t.Errorf("the demo printed on standard error: %s", stderr.String())
	}
	remainingFiles, err := exec.CommandContext(t.Context(), "find", folder, "-mindepth", "1").Output()
	if err != nil || len(remainingFiles) > 0 {
		t.Errorf("the demo left the files %s (%v)", remainingFiles, err)
	}
}
