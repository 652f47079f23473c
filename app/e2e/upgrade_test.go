// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/cli"
)

// TestPreviousReleaseWorksOnTheNewSchema checks that the previous binary works on a migrated
// database: beside the new binary, as in a rolling upgrade, and after it, as in a downgrade.
func TestPreviousReleaseWorksOnTheNewSchema(t *testing.T) {
	t.Parallel()
	previous, current := requirePrograms(t, previousBuild), requirePrograms(t, releaseBuild)
	t.Run("postgres, side by side", func(t *testing.T) {
		t.Parallel()
		fixture := newServiceFixture(t, current)
		fixture.keepSettingsOf(previous)
		env := fixture.env(t.TempDir(), testserver.Database(t))
		migrateOldDatabase(t, fixture, previous, env)
		_, key := fixture.newAccount(env, "new@example.com", "complete", 0)
		_, c := fixture.serve(env)
		c.ready.APIKey = key
		fixture.build = previous
		_, previousClient := fixture.serve(env)
		previousClient.ready.APIKey = key
		tenant := useService(t, fixture, previousClient, key)
		// Each of the two binaries sees what the other binary has written.
		tenantAtNew := tenant
		tenantAtNew.client = c
		tenantAtNew.expect("GET", tenantAtNew.path("/mailboxes"), nil, 200, "")
		tenant.expect("GET", tenant.path("/mailboxes"), nil, 200, "")
		zone := fixture.newVerifiedDomain(tenantAtNew)
		tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "max"))
		if n := tenantAtNew.get(tenantAtNew.path("/mailboxes")).text("count"); n != "2" {
			t.Errorf("the new binary lists %s mailboxes, want 2", n)
		}
	})
	t.Run("sqlite, downgrade", func(t *testing.T) {
		t.Parallel()
		fixture := newServiceFixture(t, current)
		fixture.keepSettingsOf(previous)
		env := fixture.env(t.TempDir(), "")
		migrateOldDatabase(t, fixture, previous, env)
		p, _ := fixture.serve(env)
		must(t, p.stop())
		fixture.build = previous
		_, key := fixture.newAccount(env, "old@example.com", "complete", 0)
		_, previousClient := fixture.serve(env)
		previousClient.ready.APIKey = key
		useService(t, fixture, previousClient, key)
	})
}

// keepSettingsOf keeps only the settings that the mail platform's plugin of a release has. The
// release does not start with other settings.
func (f *serviceFixture) keepSettingsOf(release programs) {
	f.t.Helper()
	out, err := exec.CommandContext(f.t.Context(), filepath.Join(release.folder, "plugins", "mail-microsoft365"), "describe").Output()
	must(f.t, err)
	var described struct{ Fields []struct{ Name string } }
	must(f.t, json.Unmarshal(out, &described))
	known := map[string]bool{"client_secret_file": true}
	for _, field := range described.Fields {
		known[field.Name] = true
	}
	maps.DeleteFunc(f.settings, func(name, _ string) bool { return !known[name] })
}

// migrateOldDatabase creates a database and an account with the old binary, and migrates the
// database with the new binary. It checks that the old binary can then create an API key.
func migrateOldDatabase(t *testing.T, fixture *serviceFixture, old programs, env []string) {
	t.Helper()
	current := fixture.build
	fixture.build = old
	fixture.runCommand(env, "migrate")
	id, _ := fixture.newAccount(env, "before@example.com", "complete", 0)
	fixture.build = current
	fixture.runCommand(env, "migrate")
	fixture.build = old
	if got := fixture.runCommand(env, "key", "create", "--account", "before@example.com"); got.text("account_id") != id {
		t.Errorf("the old binary created the key %v, want a key of account %s", got, id)
	}
	fixture.build = current
}

// useService connects a tenant, adds a domain and a mailbox, and changes the mailbox. It returns
// the tenant.
func useService(t *testing.T, fixture *serviceFixture, c client, key string) accountTenant {
	t.Helper()
	guid, admin := fixture.newTenant(c)
	newAdministrator(t, admin).connect(c, key)
	tenant := accountTenant{caller: caller{c, "", "", key}, guid: guid}
	tenant.mustSync()
	zone := fixture.newVerifiedDomain(tenant)
	created := tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "ada"))
	checkValues(t, created.object, object{"created_count": 1, "failed_count": 0})
	mailboxID := tenant.get(tenant.path("/mailboxes")).objects("mailboxes")[0].text("id")
	tenant.expect("PATCH", tenant.path("/mailboxes/"+mailboxID), object{"daily_send_limit": 7}, 200, "")
	tenant.get(tenant.path("/domains"))
	tenant.get("/v1/tenants")
	return tenant
}

// newVerifiedDomain adds a new zone to the tenant as a domain and verifies it.
func (f *serviceFixture) newVerifiedDomain(tenant accountTenant) string {
	tenant.t.Helper()
	zone := fmt.Sprintf("verified-%d.test", uniqueNumber.Add(1))
	must(tenant.t, f.zones.Add(zone, "manual"))
	tenant.post(tenant.path("/domains"), object{"domain": zone})
	tenant.publishRecords(zone)
	tenant.post(tenant.domainPath(zone, "/verify"), nil)
	return zone
}

// TestNewerSchemaIsRefused checks that commands refuse a database that requires a newer release,
// and that their errors say so.
func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	database := testserver.Database(t)
	env := fixture.env(t.TempDir(), database)
	fixture.runCommand(env, "migrate")
	db, err := sql.Open("pgx", database)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), "UPDATE schema_release SET min_release = 999"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve"}, {"migrate"}, {"account", "list"}} {
		checkCommandFails(t, fixture, env, cli.ExitRefused, []string{"newer tenantry", "install a newer tenantry"}, args...)
	}
}

// checkCommandFails runs a command that must fail with this exit code. The message or the fix of
// its error must contain each of wantTexts, and the fix must not be empty.
func checkCommandFails(t *testing.T, fixture *serviceFixture, env []string, code int, wantTexts []string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), fixture.build.binary, append(args, "--output", "json")...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratchDir}, env...)
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); err == nil || got != code {
		t.Errorf("the command %v: exit code %d, want %d: %s", args, got, code, out)
	}
	printedError := lastError(t, out)
	for _, wantText := range wantTexts {
		if !strings.Contains(printedError.text("message")+" "+printedError.text("fix"), wantText) {
			t.Errorf("the error of %v does not say %q: %v", args, wantText, printedError)
		}
	}
	if printedError.text("fix") == "" {
		t.Errorf("the error of %v suggests no fix: %v", args, printedError)
	}
}

// lastError returns the error that a command printed as its last line.
func lastError(t *testing.T, out []byte) object {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var lastLine struct{ Error object }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &lastLine); err != nil || lastLine.Error == nil {
		t.Fatalf("the last line of the command's output is no error as JSON: %s", out)
	}
	return lastLine.Error
}
