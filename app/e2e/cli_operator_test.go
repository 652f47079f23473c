// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/app/cli"
)

type commandResult struct {
	args           []string
	code           int
	stdout, stderr string
}

// runTenantry runs a command of the built binary, as an operator does.
func runTenantry(t *testing.T, env []string, args ...string) commandResult {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), requirePrograms(t, releaseBuild).binary, args...)
	cmd.Dir, cmd.Env = t.TempDir(), append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratchDir}, env...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return commandResult{args, cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// mustJSON returns the JSON object that a successful command printed.
func (r commandResult) mustJSON(t *testing.T) object {
	t.Helper()
	var printed object
	if err := json.Unmarshal([]byte(r.stdout), &printed); err != nil || r.code != 0 || r.stderr != "" {
		t.Fatalf("%v: exit code %d, want 0 and only JSON on standard output (%v)\n%s%s", r.args, r.code, err, r.stdout, r.stderr)
	}
	return printed
}

// checkFailure checks the exit code, and that the error is on standard error and nothing on
// standard output.
func (r commandResult) checkFailure(t *testing.T, code int) {
	t.Helper()
	if r.code != code || r.stdout != "" || !strings.HasPrefix(r.stderr, "tenantry: ") {
		t.Errorf("%v: exit code %d, want %d and only an error on standard error\n%s%s", r.args, r.code, code, r.stdout, r.stderr)
	}
}

func TestOperatorCreatesAccountsAndKeys(t *testing.T) {
	t.Parallel()
	env := []string{"TENANTRY_DATA_DIR=" + t.TempDir()}
	checkValues(t, runTenantry(t, env, "migrate", "-o", "json").mustJSON(t), object{"status": "migrated"})
	created := runTenantry(t, env, "account", "create", "--email", "Ann@Example.com", "--plan", "api_starter", "-o", "json").mustJSON(t)
	checkMembers(t, "account", created, "account_id email plan active tenant_slots created_at")
	checkValues(t, created, object{"plan": "api_starter", "active": true, "tenant_slots": 25})
	if _, err := time.Parse(time.RFC3339, created.text("created_at")); err != nil {
		t.Errorf("created_at is not a time: %v", err)
	}
	runTenantry(t, env, "account", "create", "--email", "bob@example.com", "--plan", "legacy_trial", "--tenant-slots", "7", "-o", "json")
	list := runTenantry(t, env, "account", "list", "-o", "json").mustJSON(t)
	checkMembers(t, "list", list, "accounts count")
	accounts := list.objects("accounts")
	if list.valueAt("count") != 2.0 || len(accounts) != 2 {
		t.Fatalf("account list shows %v, want 2 accounts", list)
	}
	checkMembers(t, "entry", accounts[0], accountMembers)
	checkValues(t, accounts[0], created)
	checkValues(t, accounts[0], object{"status": "active", "tenant_slots_from": "plan", "tenants_held": 0, "closed_at": nil})
	checkValues(t, accounts[1], object{"email": "bob@example.com", "tenant_slots": 7, "tenant_slots_from": "account"})

	for _, account := range []string{created.text("account_id"), "ann@example.com"} {
		key := runTenantry(t, env, "key", "create", "--account", account, "--name", "for tests", "--form", "trial", "-o", "json").mustJSON(t)
		checkMembers(t, "key", key, "key_id account_id api_key key_hint form name created_at")
		checkValues(t, key, object{"account_id": created["account_id"], "form": "trial", "name": "for tests"})
		if !regexp.MustCompile(`^tny_trial_[0-9a-f]{48}$`).MatchString(key.text("api_key")) || !strings.HasSuffix(key.text("api_key"), key.text("key_hint")) {
			t.Error("an API key differs from tny_trial_ with 48 hexadecimal digits, or does not end in its hint")
		}
	}
	const allowedTenant = "aaaaaaaa-0000-4000-8000-000000000001"
	restricted := runTenantry(t, env, "key", "create", "--account", "ann@example.com", "--scope", "tenants:read,domains:*", "--tenant", strings.ToUpper(allowedTenant),
		"--cidr", "192.0.2.7/24", "--expires", "2126-01-31T00:00:00Z", "-o", "json").mustJSON(t)
	keys := runTenantry(t, env, "key", "list", "-o", "json").mustJSON(t).objects("keys")
	listedKey := keys[len(keys)-1]
	checkValues(t, listedKey, object{"key_id": restricted["key_id"], "scopes": []any{"tenants:read", "domains:*"}, "tenant_ids": []any{allowedTenant},
		"allowed_cidrs": []any{"192.0.2.0/24"}, "expires_at": "2126-01-31T00:00:00Z"})
	for _, wrongFlag := range [][]string{{"--scope", "all"}, {"--tenant", "x"}, {"--cidr", "192.0.2.7"}, {"--expires", "2020-01-01T00:00:00Z"}, {"--expires", "tomorrow"}} {
		failed := runTenantry(t, env, append([]string{"key", "create", "--account", "ann@example.com"}, wrongFlag...)...)
		if failed.checkFailure(t, cli.ExitUsage); !strings.Contains(failed.stderr, wrongFlag[0]) {
			t.Errorf("%v: the error does not name the flag: %s", wrongFlag, failed.stderr)
		}
	}
	table := runTenantry(t, env, "account", "list")
	if lines := strings.Split(strings.TrimSpace(table.stdout), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "ACCOUNT") {
		t.Errorf("the table is not a header and two accounts:\n%s", table.stdout)
	}
}

func TestOperatorMistakesHaveExitCodes(t *testing.T) {
	t.Parallel()
	env := []string{"TENANTRY_DATA_DIR=" + t.TempDir()}
	runTenantry(t, env, "migrate", "-o", "json").mustJSON(t)
	for _, tc := range []struct {
		exitCode int
		args     []string
	}{
		{cli.ExitUsage, []string{"nonsense"}},
		{cli.ExitUsage, []string{"account"}},
		{cli.ExitUsage, []string{"account", "nonsense"}},
		{cli.ExitUsage, []string{"account", "list", "extra"}},
		{cli.ExitUsage, []string{"account", "list", "--nonsense"}},
		{cli.ExitUsage, []string{"account", "list", "-o", "yaml"}},
		{cli.ExitUsage, []string{"account", "create", "--plan", "complete"}},
		{cli.ExitUsage, []string{"account", "create", "--email", "a@b.example", "--tenant-slots", "many"}},
		{cli.ExitUsage, []string{"account", "list", "--log-level", "loud"}},
		{cli.ExitUsage, []string{"account", "list", "--config", "missing.yaml"}},
		{cli.ExitUsage, []string{"serve", "--listen", "nonsense"}},
		{cli.ExitUsage, []string{"serve", "--public-url", "http://tenantry.example"}},
		{cli.ExitUsage, []string{"account", "show"}},
		{cli.ExitUsage, []string{"account", "plan", "--account", noSuchID, "--plan"}},
		{cli.ExitUsage, []string{"account", "suspend"}},
		{cli.ExitUsage, []string{"account", "resume"}},
		{cli.ExitUsage, []string{"account", "close", "--yes"}},
		{cli.ExitUsage, []string{"key", "create"}},
		{cli.ExitUsage, []string{"key", "revoke"}},
		{cli.ExitUsage, []string{"key", "rotate"}},
		{cli.ExitUsage, []string{"audit", "list", "--limit", "0"}},
		{cli.ExitUsage, []string{"audit", "list", "--since", "yesterday"}},
		{cli.ExitUsage, []string{"tenant", "assign", "--account", "a"}},
		{cli.ExitUsage, []string{"tenant", "withdraw"}},
		{cli.ExitUsage, []string{"account", "create", "--email", "ann@example.com", "--plan", "nonsense"}},
		{cli.ExitUsage, []string{"account", "create", "--email", "nonsense", "--plan", "complete"}},
		{cli.ExitUsage, []string{"account", "list", "--database-url", "nonsense"}},
		{cli.ExitUsage, []string{"migrate", "--database-url", "nonsense"}},
		{cli.ExitUsage, []string{"account", "list", "--drain-time", "5 minutes"}},
		{cli.ExitUsage, []string{"account", "create", "--email", "ann@example.com", "--tenant-slots", "-1"}},
		{cli.ExitNotFound, []string{"account", "show", "--account", noSuchID}},
		{cli.ExitNotFound, []string{"account", "plan", "--account", noSuchID, "--plan", "complete"}},
		{cli.ExitNotFound, []string{"account", "suspend", "--account", "nobody@example.com"}},
		{cli.ExitNotFound, []string{"account", "resume", "--account", noSuchID}},
		{cli.ExitNotFound, []string{"account", "close", "--account", noSuchID, "--yes"}},
		{cli.ExitNotFound, []string{"key", "list", "--account", noSuchID}},
		{cli.ExitNotFound, []string{"key", "rotate", "--key", noSuchID}},
		{cli.ExitNotFound, []string{"key", "revoke", "--key", "tny_live_0123"}},
		{cli.ExitNotFound, []string{"tenant", "list", "--account", noSuchID}},
		{cli.ExitNotFound, []string{"audit", "list", "--account", noSuchID}},
		{cli.ExitNotFound, []string{"key", "create", "--account", noSuchID}},
		{cli.ExitNotFound, []string{"key", "create", "--account", "nobody@example.com"}},
		{cli.ExitNotFound, []string{"tenant", "assign", "--tenant", noSuchID, "--account", noSuchID}},
		{cli.ExitNotFound, []string{"tenant", "withdraw", "--tenant", noSuchID}},
		{cli.ExitNotFound, []string{"tenant", "withdraw", "--tenant", "nonsense"}},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) { runTenantry(t, env, tc.args...).checkFailure(t, tc.exitCode) })
	}
	asJSON := runTenantry(t, env, "key", "create", "--account", noSuchID, "-o", "json")
	var printed object
	if err := json.Unmarshal([]byte(asJSON.stderr), &printed); err != nil || asJSON.code != cli.ExitNotFound {
		t.Fatalf("exit code %d, want %d and an error as JSON: %v: %s", asJSON.code, cli.ExitNotFound, err, asJSON.stderr)
	}
	unknownPlan := runTenantry(t, env, "account", "create", "--email", "ann@example.com", "--plan", "nonsense")
	if !strings.Contains(unknownPlan.stderr, "api_starter") || strings.Contains(unknownPlan.stderr, "Idempotency-Key") {
		t.Errorf("the error lacks the plan api_starter, or mentions the Idempotency-Key: %s", unknownPlan.stderr)
	}
	checkMembers(t, "error", printed, "error")
	checkMembers(t, "error", printed.valueAt("error"), "code message fix")
	checkValues(t, printed, object{"error.code": "account_not_found"})
}

// TestUnresponsiveDatabaseFailsTheCommand checks that a command fails if the database accepts the
// connection and never answers.
func TestUnresponsiveDatabaseFailsTheCommand(t *testing.T) {
	t.Parallel()
	result := runTenantry(t, []string{"TENANTRY_DATABASE_URL=postgres://u:secret@" + strings.TrimPrefix(silentServer(t), "http://") + "/x"}, "account", "list")
	result.checkFailure(t, cli.ExitExternal)
	if !strings.Contains(result.stderr, "did not answer") || !strings.Contains(result.stderr, "database_url") || strings.Contains(result.stderr, "secret") {
		t.Errorf("the error must say \"did not answer\" and name database_url without the password: %s", result.stderr)
	}
}

// TestOperatorAssignsManagedTenants assigns a managed tenant in the database of a running server
// and withdraws the assignment.
func TestOperatorAssignsManagedTenants(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	env := fixture.env(t.TempDir(), "")
	id, key := fixture.newAccount(env, "ann@example.com", "complete", 1)
	_, server := fixture.serve(env)
	c := caller{client: server, id: id, email: "ann@example.com", key: key}
	tenant := accountTenant{caller: c}
	tenant.guid, tenant.admin = fixture.newTenant(server)

	runTenantry(t, env, "tenant", "assign", "--tenant", "nonsense", "--account", id).checkFailure(t, cli.ExitUsage)
	runTenantry(t, env, "tenant", "assign", "--tenant", tenant.guid, "--account", id).checkFailure(t, cli.ExitRefused) // without consent
	newBrowser(t).answerConsent(c.get("/v1/tenants/connect-url").text("connect_url"), tenant.admin, "accept")
	created := runTenantry(t, env, "tenant", "assign", "--tenant", strings.ToUpper(tenant.guid), "--account", "ann@example.com", "-o", "json").mustJSON(t)
	checkMembers(t, "assign", created, "id tenant_id account_id tenant_name tenant_domain managed assigned_at")
	checkValues(t, created, object{"tenant_id": tenant.guid, "account_id": id, "managed": true})
	tenant.mustSync()
	bobTenant, bobAdmin := fixture.newTenant(server)
	c.expect("GET", "/v1/tenants/connect-url", nil, 402, "tenant_limit_reached") // a managed tenant uses a slot
	_, bobKey := fixture.newAccount(env, "bob@example.com", "complete", 0)
	bob := caller{client: server, key: bobKey}
	newBrowser(t).answerConsent(bob.get("/v1/tenants/connect-url").text("connect_url"), bobAdmin, "accept")
	runTenantry(t, env, "tenant", "assign", "--tenant", bobTenant, "--account", id).checkFailure(t, cli.ExitRefused)
	runTenantry(t, env, "tenant", "assign", "--tenant", tenant.guid, "--account", "bob@example.com").checkFailure(t, cli.ExitRefused) // already assigned

	const zone = "withdrawn.test"
	must(t, fixture.zones.Add(zone, "manual"))
	tenant.post(tenant.path("/domains"), object{"domain": zone})
	tenant.publishRecords(zone)
	tenant.post(tenant.domainPath(zone, "/verify"), nil)
	tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "ada"))
	tenant.post(tenant.path("/mailbox-limits"), object{"daily_send_limit": 5})
	withdrawn := runTenantry(t, env, "tenant", "withdraw", "--tenant", tenant.guid, "-o", "json").mustJSON(t)
	checkMembers(t, "withdraw", withdrawn, "tenant_id account_id status withdrawn_at rules_removed rules_left")
	checkValues(t, withdrawn, object{"tenant_id": tenant.guid, "account_id": id, "status": "withdrawn", "rules_removed": true, "rules_left": []any{}})
	if !slices.ContainsFunc(fixture.recordedRequests(), func(q platformRequest) bool { return strings.Contains(string(q.body), "Remove-TransportRule") }) {
		t.Error("no rule was removed at the platform")
	}
	tenant.expect("POST", tenant.path("/sync"), nil, 403, "access_denied")
	runTenantry(t, env, "tenant", "withdraw", "--tenant", tenant.guid).checkFailure(t, cli.ExitNotFound)
	created = runTenantry(t, env, "tenant", "assign", "--tenant", tenant.guid, "--account", id, "-o", "json").mustJSON(t)
	checkValues(t, created, object{"tenant_id": tenant.guid})
	tenant.mustSync()
	limit := tenant.post(tenant.path("/mailbox-limits"), object{"daily_send_limit": 5, "domain_scope": zone})
	checkValues(t, limit.object, object{"provisioning.status": "created"})
	fixture.checkRulesLeft(env, id, tenant.guid, "tenantry-block-"+zone)
}

// checkRulesLeft closes an account while the mail platform is down, and checks that the command
// lists the rules that remain.
func (f *serviceFixture) checkRulesLeft(env []string, account, guid, rule string) {
	f.t.Helper()
	f.stopPlatform()
	closed := runTenantry(f.t, env, "account", "close", "--account", account, "--yes", "-o", "json")
	var printed, warning object
	if json.Unmarshal([]byte(closed.stdout), &printed) != nil || json.Unmarshal([]byte(closed.stderr), &warning) != nil || closed.code != 0 {
		f.t.Fatalf("account close: exit code %d, want 0 with the account and a warning as JSON\n%s%s", closed.code, closed.stdout, closed.stderr)
	}
	checkValues(f.t, printed, object{"status": "closed", "tenants_released": 1, "tenants_unruled": 0, "rules_left": []any{map[string]any{"tenant_id": guid, "rules": []any{rule}}}})
	checkValues(f.t, warning, object{"warning.code": "rules_left"})
	if message := fmt.Sprint(warning.valueAt("warning.message")); !strings.Contains(message, guid) || !strings.Contains(message, rule) {
		f.t.Errorf("the warning does not name the tenant and its rule: %s", message)
	}
	actions := runTenantry(f.t, env, "audit", "list", "--account", account, "-o", "json").mustJSON(f.t).objects("events")
	checkValues(f.t, actions[0], object{"action": "account.close", "details.rules_left": rule + " in " + guid})
}

func TestVersionAndOpenAPIArePrinted(t *testing.T) {
	t.Parallel()
	checkMembers(t, "version", runTenantry(t, nil, "version", "-o", "json").mustJSON(t), "version commit go")
	document := runTenantry(t, nil, "openapi", "--json").mustJSON(t)
	if !strings.HasPrefix(document.text("openapi"), "3.1") {
		t.Errorf("the document has the OpenAPI version %v, want 3.1", document["openapi"])
	}
	if yaml := runTenantry(t, nil, "openapi"); yaml.stdout != fileText(t, "../../docs/openapi.yaml") {
		t.Error("`tenantry openapi` differs from docs/openapi.yaml: run make openapi")
	}
}
