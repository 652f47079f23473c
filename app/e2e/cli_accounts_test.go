// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/app/cli"
)

// sharedOperatorEnv returns the environment in which an operator manages the database of the shared
// sandbox.
func sharedOperatorEnv(operator string) []string {
	return []string{"TENANTRY_DATA_DIR=" + filepath.Join(scratchDir, "shared"), "TENANTRY_OPERATOR=" + operator}
}

// runAccountCommand runs an operator's command on the caller's account in the shared sandbox.
func (c caller) runAccountCommand(args ...string) object {
	c.t.Helper()
	return runTenantry(c.t, sharedOperatorEnv("carol@desk"), append(args, "--account", c.id, "-o", "json")...).mustJSON(c.t)
}

const accountMembers = "account_id email plan active tenant_slots created_at status tenant_slots_from tenants_held closed_at"

// TestSuspendedAccountIsRefused checks that requests of a suspended account are answered 402, and
// that the account keeps its tenant.
func TestSuspendedAccountIsRefused(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).newTenant(nil).connect()
	for range 2 { // the second command changes nothing
		suspended := tenant.runAccountCommand("account", "suspend")
		checkMembers(t, "suspend", suspended, accountMembers)
		checkValues(t, suspended, object{"account_id": tenant.id, "status": "suspended", "active": false, "plan": "complete", "tenants_held": 1})
	}
	tenant.expect("GET", "/v1/tenants", nil, 402, "no_api_plan")
	tenant.expect("POST", "/api-key/rotate?user_email="+url.QueryEscape(tenant.email), nil, 402, "no_api_plan")
	checkValues(t, tenant.runAccountCommand("account", "plan", "--plan", "api_growth"), object{"plan": "api_growth", "status": "suspended"})
	tenant.expect("GET", "/v1/tenants", nil, 402, "no_api_plan")
	for range 2 {
		checkValues(t, tenant.runAccountCommand("account", "resume"), object{"status": "active", "active": true, "plan": "api_growth"})
	}
	tenant.checkTenants(tenant.guid)
	tenant.checkAudit("account.create", "key.create", "account.suspend", "account.plan", "account.resume")
}

// TestPlanChangeTakesEffectAtOnce checks that the plan or --tenant-slots sets the number of tenant
// slots, and that the next request is checked against this number.
func TestPlanChangeTakesEffectAtOnce(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t).newAccount(object{"plan": "legacy_trial", "tenant_slots": 1})
	c.newTenant(nil).connect()
	c.expect("GET", "/v1/tenants/connect-url", nil, 402, "tenant_limit_reached")
	for _, tc := range []struct {
		args   []string
		want   object
		isFull bool
	}{
		{[]string{"--plan", "api_scale"}, object{"plan": "api_scale", "tenant_slots": 100, "tenant_slots_from": "plan"}, false},
		{[]string{"--tenant-slots", "1"}, object{"plan": "api_scale", "tenant_slots": 1, "tenant_slots_from": "account"}, true},
		{[]string{"--tenant-slots", "0"}, object{"plan": "api_scale", "tenant_slots": 100, "tenant_slots_from": "plan"}, false},
		{[]string{"--plan", "complete", "--tenant-slots", "2"}, object{"plan": "complete", "tenant_slots": 2, "tenant_slots_from": "account"}, false},
		{[]string{"--plan", "legacy_trial"}, object{"plan": "legacy_trial", "tenant_slots": 5, "tenant_slots_from": "plan", "tenants_held": 1}, false},
	} {
		changed := c.runAccountCommand(append([]string{"account", "plan"}, tc.args...)...)
		checkMembers(t, "plan", changed, accountMembers)
		checkValues(t, changed, tc.want)
		if tc.isFull {
			c.expect("GET", "/v1/tenants/connect-url", nil, 402, "tenant_limit_reached")
		} else {
			c.get("/v1/tenants/connect-url")
		}
	}
	account := c.runAccountCommand("account", "show")
	checkMembers(t, "show", account, accountMembers+" active_keys display_name return_hosts support_url")
	checkValues(t, account, object{"email": c.email, "status": "active", "active_keys": 1, "closed_at": nil})
}

// TestAccountSettingsTakeEffectAndAreAudited checks that a command changes only the settings of its
// flags, that a return host is accepted at once, and that only successful commands are audited.
func TestAccountSettingsTakeEffectAndAreAudited(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t).newAccount(nil)
	const connectPath = "/v1/tenants/connect-url?return_url=https://app.acme.example/connected"
	c.expect("GET", connectPath, nil, 400, "invalid_return_url")
	want := object{"account_id": c.id, "display_name": "", "support_url": "", "return_hosts": []any{}}
	for _, step := range []struct {
		flag, value, member string
		shown               any
	}{
		{"--display-name", " Acme Mail ", "display_name", "Acme Mail"},
		{"--support-url", "mailto:help@acme.example", "support_url", "mailto:help@acme.example"},
		{"--return-hosts", "www.acme.example,APP.acme.example", "return_hosts", []any{"app.acme.example", "www.acme.example"}},
		{"--display-name", "", "display_name", ""},
		{"--support-url", "", "support_url", ""},
		{"--return-hosts", "", "return_hosts", []any{}},
		{"--return-hosts", "app.acme.example", "return_hosts", []any{"app.acme.example"}},
	} {
		want[step.member] = step.shown
		settings := c.runAccountCommand("account", "set", step.flag, step.value)
		checkMembers(t, "account set", settings, "account_id display_name support_url return_hosts")
		checkValues(t, settings, want)
		checkValues(t, c.runAccountCommand("account", "show"), want)
	}
	c.get(connectPath)
	for _, wrong := range [][]string{{}, {"--support-url", "http://acme.example"}, {"--return-hosts", "https://acme.example"}, {"--display-name", "a\nb"}} {
		args := append([]string{"account", "set", "--account", c.id}, wrong...)
		runTenantry(t, sharedOperatorEnv("carol@desk"), args...).checkFailure(t, cli.ExitUsage)
	}
	runTenantry(t, sharedOperatorEnv("carol@desk"), "account", "set", "--account", noSuchID, "--display-name", "x").checkFailure(t, cli.ExitNotFound)
	for _, e := range c.checkAudit(append([]string{"account.create", "key.create"}, slices.Repeat([]string{"account.set"}, 7)...)...)[2:] {
		checkValues(t, e, object{"operator": "carol@desk", "account_id": c.id})
	}
	// The API shows the audit chain of the account, which has the same entries.
	entries := c.get("/v1/audit?action=account.set").objects("entries")
	if len(entries) != 7 {
		t.Errorf("the audit chain has %d entries of account.set, want 7", len(entries))
	}
	for _, e := range entries {
		checkValues(t, e, object{"actor.type": "operator", "actor.id": "carol@desk", "subject.type": "account", "subject.id": c.id})
	}
}

// TestRotatedAndRevokedKeysAreRefused checks that requests with rotated or revoked keys are
// answered 401 at once, and that key list never prints the text of a key.
func TestRotatedAndRevokedKeysAreRefused(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t).newAccount(object{"key_form": "trial"})
	trialKey := c.runAccountCommand("key", "list").objects("keys")[0]
	checkMembers(t, "key", trialKey, "key_id account_id key_hint form name status created_at revoked_at last_used_at scopes tenant_ids allowed_cidrs expires_at created_by")
	checkValues(t, trialKey, object{"account_id": c.id, "form": "trial", "status": "active", "revoked_at": nil, "key_hint": c.key[len(c.key)-4:], "scopes": []any{"*"}, "tenant_ids": nil, "allowed_cidrs": nil, "expires_at": nil})

	liveKey := runTenantry(t, sharedOperatorEnv(""), "key", "rotate", "--key", trialKey.text("key_id"), "-o", "json").mustJSON(t)
	checkMembers(t, "rotate", liveKey, "key_id account_id api_key key_hint form name created_at status replaced_key_id rotated_at")
	checkValues(t, liveKey, object{"account_id": c.id, "form": "live", "name": trialKey["name"], "status": "rotated", "replaced_key_id": trialKey["key_id"]})
	c.expect("GET", "/v1/tenants", nil, 401, "invalid_api_key")
	runTenantry(t, sharedOperatorEnv(""), "key", "rotate", "--key", trialKey.text("key_id")).checkFailure(t, cli.ExitRefused)
	c.key = liveKey.text("api_key")
	c.get("/v1/tenants")

	revokeArgs := []string{"key", "revoke", "--key", liveKey.text("key_id"), "-o", "json"}
	revoked := runTenantry(t, sharedOperatorEnv(""), revokeArgs...).mustJSON(t)
	checkMembers(t, "revoke", revoked, "key_id status revoked_at")
	checkValues(t, revoked, object{"key_id": liveKey["key_id"], "status": "revoked"})
	c.expect("GET", "/v1/tenants", nil, 401, "invalid_api_key")
	checkValues(t, runTenantry(t, sharedOperatorEnv(""), revokeArgs...).mustJSON(t), revoked) // a repetition keeps the time of the first revocation

	asJSON := runTenantry(t, sharedOperatorEnv(""), "key", "list", "--account", c.email, "-o", "json")
	for i, key := range asJSON.mustJSON(t).objects("keys") {
		checkValues(t, key, object{"status": "revoked", "key_id": []any{trialKey["key_id"], liveKey["key_id"]}[i]})
	}
	table := runTenantry(t, sharedOperatorEnv(""), "key", "list").stdout
	if regexp.MustCompile(`[0-9a-f]{40}`).MatchString(asJSON.stdout+table) || !strings.Contains(table, liveKey.text("key_id")) {
		t.Errorf("key list prints the text of a key, or lacks the key id %s:\n%s%s", liveKey.text("key_id"), asJSON.stdout, table)
	}
	c.checkAudit("account.create", "key.create", "key.rotate", "key.revoke")
}

// TestKeyListShowsTheLastUse checks that key list shows when a key was last used, and nothing for a
// key without a request. The test stops the service before it lists the keys, because the service
// stores the last uses only once a minute and when it stops.
func TestKeyListShowsTheLastUse(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	env := fixture.env(t.TempDir(), "")
	id, key := fixture.newAccount(env, "ann@example.com", "complete", 0)
	service, c := fixture.serve(env)
	startMinute := time.Now().Truncate(time.Minute) // the service stores the minute of a use
	if got := c.do("GET", c.ready.APIURL+"/v1/tenants", key, nil); got.status != http.StatusOK {
		t.Fatalf("a request with the key is answered %d %s, want 200", got.status, got.raw)
	}
	must(t, service.stop())
	fixture.runCommand(env, "key", "create", "--account", id)
	keys := fixture.runCommand(env, "key", "list", "--account", id).objects("keys")
	if len(keys) != 2 {
		t.Fatalf("key list shows %d keys, want 2", len(keys))
	}
	if usedAt, err := time.Parse(time.RFC3339, keys[0].text("last_used_at")); err != nil || usedAt.Before(startMinute) || usedAt.After(time.Now()) {
		t.Errorf("the key of the request is %v (%v), want a last_used_at from %s to now", keys[0], err, startMinute)
	}
	checkValues(t, keys[1], object{"last_used_at": nil})
}

// TestClosedAccountReleasesItsTenants checks that closing an account revokes its keys, that its
// tenants can then be connected to a different account, and that the audit log stays.
func TestClosedAccountReleasesItsTenants(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t).newAccount(nil)
	tenant := c.newTenant(nil).connect()
	managedTenant := c.newTenant(nil)
	c.control("POST", "/managed", object{"tenant_id": managedTenant.guid, "account_id": c.id})
	unconfirmed := runTenantry(t, sharedOperatorEnv(""), "account", "close", "--account", c.email)
	unconfirmed.checkFailure(t, cli.ExitRefused)
	if !strings.Contains(unconfirmed.stderr, "--yes") {
		t.Errorf("the refusal does not name the flag --yes: %s", unconfirmed.stderr)
	}
	tenant.checkTenants(managedTenant.guid, tenant.guid)

	closed := c.runAccountCommand("account", "close", "--yes")
	checkMembers(t, "close", closed, "account_id email status closed_at keys_revoked tenants_released dns_connections_removed integrations_removed tenants_unruled rules_left")
	checkValues(t, closed, object{"account_id": c.id, "email": c.email, "status": "closed", "keys_revoked": 1, "tenants_released": 2})
	c.expect("GET", "/v1/tenants", nil, 401, "invalid_api_key")
	checkValues(t, c.runAccountCommand("account", "close"), object{"closed_at": closed["closed_at"], "keys_revoked": 0}) // a repetition needs no confirmation
	for _, args := range [][]string{
		{"account", "plan", "--plan", "complete"}, {"account", "suspend"}, {"account", "resume"}, {"key", "create"},
		{"tenant", "assign", "--tenant", tenant.guid},
	} {
		runTenantry(t, sharedOperatorEnv(""), append(args, "--account", c.id)...).checkFailure(t, cli.ExitRefused)
	}
	checkValues(t, c.runAccountCommand("account", "show"), object{"status": "closed", "email": c.email, "tenants_held": 0, "active_keys": 0, "closed_at": closed["closed_at"]})

	newOwner := sharedSandbox(t).newAccount(object{"email": c.email})
	tenant.caller = newOwner
	tenant.connect()
	newOwner.checkTenants(tenant.guid)
	newOwner.control("POST", "/managed", object{"tenant_id": managedTenant.guid, "account_id": newOwner.id})
	checkValues(t, runTenantry(t, sharedOperatorEnv(""), "account", "show", "--account", c.email, "-o", "json").mustJSON(t), object{"account_id": newOwner.id})

	entries := c.checkAudit("account.create", "key.create", "tenant.assign", "tenant.release", "tenant.release", "key.revoke", "account.close")
	releasedIDs := entries[3].valueAt("details.tenant_id").(string) + entries[4].valueAt("details.tenant_id").(string)
	if !strings.Contains(releasedIDs, tenant.guid) || !strings.Contains(releasedIDs, managedTenant.guid) {
		t.Errorf("the audit entries are %v, want tenant.release with the tenants %s and %s", entries, tenant.guid, managedTenant.guid)
	}
}

func TestOperatorListsTenants(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).newTenant(nil).connect()
	listed := tenant.runAccountCommand("tenant", "list")
	checkMembers(t, "list", listed, "tenants count")
	listedTenant := listed.objects("tenants")[0]
	checkMembers(t, "tenant", listedTenant, "id tenant_id account_id account_email tenant_name tenant_domain default_domain managed status readiness consented_at last_sync_at time_zone counted_at mailboxes_blocked")
	checkValues(t, listedTenant, object{
		"tenant_id": tenant.guid, "account_id": tenant.id, "account_email": tenant.email, "managed": false, "status": "pending",
		"readiness.next_step": "sync", "readiness.exchange_bootstrap": "pending", "last_sync_at": nil, "time_zone": "UTC", "counted_at": nil, "mailboxes_blocked": 0,
	})
	tenant.mustSync()
	tenant.newVerifiedDomain()
	fromAPI := tenant.get(tenant.path(""))
	listedTenant = tenant.runAccountCommand("tenant", "list").objects("tenants")[0]
	checkMembers(t, "readiness", listedTenant.valueAt("readiness"), "consent exchange_bootstrap smtp_auth discovery domains_verified domains_total mailboxes_total ready_to_provision next_step headroom")
	checkValues(t, listedTenant, object{
		"status": "ready", "id": fromAPI.text("id"), "tenant_name": fromAPI.text("tenant_name"), "tenant_domain": fromAPI.text("tenant_domain"),
		"default_domain": fromAPI.text("default_domain"), "readiness": fromAPI.valueAt("readiness"),
	})
	if table := runTenantry(t, sharedOperatorEnv(""), "tenant", "list").stdout; !strings.HasPrefix(table, "ID ") || !strings.Contains(table, tenant.guid) {
		t.Errorf("the table of all tenants lacks the column ID or the tenant %s:\n%s", tenant.guid, table)
	}
}

// checkAudit checks the audited actions on the account, oldest first, and returns the entries.
func (c caller) checkAudit(want ...string) []object {
	c.t.Helper()
	listed := runTenantry(c.t, sharedOperatorEnv(""), "audit", "list", "--account", c.id, "-o", "json").mustJSON(c.t)
	checkMembers(c.t, "audit", listed, "events count")
	events := listed.objects("events")
	slices.Reverse(events)
	var actions []string
	for _, e := range events {
		actions = append(actions, e.text("action"))
	}
	if !slices.Equal(actions, want) {
		c.t.Errorf("the audited actions are %v, want %v", actions, want)
	}
	return events
}

// TestAuditListShowsOperatorActions checks operators, actions, times and details of the entries,
// the order, the filters, and that no entry contains the text of a key.
func TestAuditListShowsOperatorActions(t *testing.T) {
	t.Parallel()
	env := []string{"TENANTRY_DATA_DIR=" + t.TempDir(), "SUDO_USER=ann"}
	start := time.Now().UTC().Format(time.RFC3339)
	runTenantry(t, env, "migrate", "-o", "json").mustJSON(t)
	id := runTenantry(t, env, "account", "create", "--email", "ann@example.com", "-o", "json").mustJSON(t).text("account_id")
	key := runTenantry(t, env, "key", "create", "--account", id, "--name", "two words", "--operator", "deploy bot", "-o", "json").mustJSON(t)
	runTenantry(t, env, "account", "create", "--email", "ann@example.com").checkFailure(t, cli.ExitRefused) // refused, so it is not recorded
	runTenantry(t, env, "account", "list", "-o", "json").mustJSON(t)                                        // a read, so it is not recorded

	asJSON := runTenantry(t, env, "audit", "list", "-o", "json")
	listed := asJSON.mustJSON(t)
	checkMembers(t, "audit", listed, "events count")
	events := listed.objects("events")
	if listed.valueAt("count") != 3.0 || len(events) != 3 || events[2].text("action") != "migrate" {
		t.Fatalf("audit list shows %v, want 3 events, the oldest of them migrate", listed)
	}
	for _, e := range events {
		checkMembers(t, "event", e, "event_id operator action account_id details created_at")
		if createdAt := e.text("created_at"); createdAt < start || createdAt > time.Now().UTC().Format(time.RFC3339) {
			t.Errorf("an event was created at %s, want a time from %s to now", createdAt, start)
		}
	}
	checkValues(t, events[0], object{"operator": "deploy bot", "action": "key.create", "account_id": id, "details.key_id": key["key_id"], "details.name": "two words"})
	checkValues(t, events[1], object{"action": "account.create", "account_id": id, "details.email": "ann@example.com", "details.plan": "complete"})
	host, err := os.Hostname()
	if err != nil || events[1].text("operator") != "ann@"+host {
		t.Errorf("the operator of account.create is %q, want ann@%s (%v)", events[1].text("operator"), host, err)
	}
	table := runTenantry(t, env, "audit", "list")
	if lines := strings.Split(strings.TrimSpace(table.stdout), "\n"); len(lines) != 4 || !strings.HasPrefix(lines[0], "WHEN") ||
		!strings.Contains(lines[1], "name=two words") {
		t.Errorf("the table is not a header and three events, newest first:\n%s", table.stdout)
	}
	if regexp.MustCompile(`[0-9a-f]{40}`).MatchString(asJSON.stdout + table.stdout) {
		t.Errorf("the audit contains the text of a key:\n%s", asJSON.stdout)
	}
	for _, tc := range []struct {
		wantCount int
		args      []string
	}{
		{1, []string{"--limit", "1"}},
		{2, []string{"--account", "ann@example.com"}},
		{3, []string{"--since", start}},
		{3, []string{"--since", "24h"}},
		{0, []string{"--since", "2999-01-01"}},
	} {
		checkValues(t, runTenantry(t, env, append([]string{"audit", "list", "-o", "json"}, tc.args...)...).mustJSON(t), object{"count": tc.wantCount})
	}
}

// TestOperatorSetsATenantTimeZone checks that an operator can set the time zone in which a tenant's
// day is counted, and that only a change is audited.
func TestOperatorSetsATenantTimeZone(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).newTenant(nil).connect()
	tenantDay := func(args ...string) commandResult {
		return runTenantry(t, sharedOperatorEnv("carol@desk"), append([]string{"tenant", "day", "--tenant", tenant.guid, "-o", "json"}, args...)...)
	}
	checkValues(t, tenantDay().mustJSON(t), object{"tenant_id": tenant.guid, "account_id": tenant.id, "time_zone": "UTC"})
	for range 2 {
		checkValues(t, tenantDay("--time-zone", "Europe/Berlin").mustJSON(t), object{"tenant_id": tenant.guid, "account_id": tenant.id, "time_zone": "Europe/Berlin"})
	}
	checkValues(t, tenantDay().mustJSON(t), object{"time_zone": "Europe/Berlin"})
	for _, invalid := range []string{"Mars/Olympus", "Local", "../UTC"} {
		runTenantry(t, sharedOperatorEnv("carol@desk"), "tenant", "day", "--tenant", tenant.guid, "--time-zone", invalid).checkFailure(t, cli.ExitUsage)
	}
	runTenantry(t, sharedOperatorEnv("carol@desk"), "tenant", "day", "--tenant", noSuchID, "--time-zone", "UTC").checkFailure(t, cli.ExitNotFound)
	tenant.checkAudit("account.create", "key.create", "tenant.day")
}
