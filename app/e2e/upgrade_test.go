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
// database while the new one runs, as in a rolling upgrade.
func TestPreviousReleaseWorksOnTheNewSchema(t *testing.T) {
	t.Parallel()
	old, now := requirePrograms(t, previousBuild), requirePrograms(t, releaseBuild)
	t.Run("postgres, side by side", func(t *testing.T) {
		t.Parallel()
		r := newServiceFixture(t, now)
		r.keepSettingsOf(old)
		env := r.env(t.TempDir(), testserver.Database(t))
		migrateOldDatabase(t, r, old, env)
		_, key := r.newAccount(env, "new@example.com", "complete", 0)
		_, c := r.serve(env)
		c.ready.APIKey = key
		r.binary = old
		_, o := r.serve(env)
		o.ready.APIKey = key
		h := useService(t, r, o, key)
		// Each binary sees the writes of the other.
		seen := h
		seen.client = c
		seen.expect("GET", seen.path("/mailboxes"), nil, 200, "")
		h.expect("GET", h.path("/mailboxes"), nil, 200, "")
		zone := r.newVerifiedDomain(seen)
		h.post(h.path("/mailboxes"), mailboxesBody(zone, "max"))
		if n := seen.get(seen.path("/mailboxes")).text("count"); n != "2" {
			t.Errorf("%s mailboxes", n)
		}
	})
	t.Run("sqlite, back to the old", func(t *testing.T) {
		t.Parallel()
		r := newServiceFixture(t, now)
		r.keepSettingsOf(old)
		env := r.env(t.TempDir(), "")
		migrateOldDatabase(t, r, old, env)
		p, _ := r.serve(env)
		must(t, p.stop())
		r.binary = old
		_, key := r.newAccount(env, "old@example.com", "complete", 0)
		_, o := r.serve(env)
		o.ready.APIKey = key
		useService(t, r, o, key)
	})
}

// keepSettingsOf removes the settings that the plugin of a release does not have. The release
// refuses to start with them.
func (r *serviceFixture) keepSettingsOf(release programs) {
	r.t.Helper()
	out, err := exec.CommandContext(r.t.Context(), filepath.Join(release.folder, "plugins", "mail-microsoft365"), "describe").Output()
	must(r.t, err)
	var described struct{ Fields []struct{ Name string } }
	must(r.t, json.Unmarshal(out, &described))
	known := map[string]bool{"client_secret_file": true}
	for _, field := range described.Fields {
		known[field.Name] = true
	}
	maps.DeleteFunc(r.settings, func(name, _ string) bool { return !known[name] })
}

// migrateOldDatabase creates a database and an account with the old binary, and migrates it with
// the new one.
func migrateOldDatabase(t *testing.T, r *serviceFixture, old programs, env []string) {
	t.Helper()
	now := r.binary
	r.binary = old
	r.runCommand(env, "migrate")
	id, _ := r.newAccount(env, "before@example.com", "complete", 0)
	r.binary = now
	r.runCommand(env, "migrate")
	r.binary = old
	if got := r.runCommand(env, "key", "create", "--account", "before@example.com"); got.text("account_id") != id {
		t.Errorf("the old binary made %v", got)
	}
	r.binary = now
}

// useService runs the operations of an account at the old binary.
func useService(t *testing.T, r *serviceFixture, o client, key string) accountTenant {
	t.Helper()
	guid, admin := r.newTenant(o)
	newAdministrator(t, admin).connect(o, key)
	h := accountTenant{caller: caller{o, "", "", key}, guid: guid}
	h.mustSync()
	zone := r.newVerifiedDomain(h)
	made := h.post(h.path("/mailboxes"), mailboxesBody(zone, "ada"))
	checkValues(t, made.object, object{"created_count": 1, "failed_count": 0})
	box := h.get(h.path("/mailboxes")).objects("mailboxes")[0].text("id")
	h.expect("PATCH", h.path("/mailboxes/"+box), object{"daily_send_limit": 7}, 200, "")
	h.get(h.path("/domains"))
	h.get("/v1/tenants")
	return h
}

// newVerifiedDomain adds a new zone to the tenant as a domain and verifies it.
func (r *serviceFixture) newVerifiedDomain(h accountTenant) string {
	h.t.Helper()
	zone := fmt.Sprintf("upgrade-%d.test", uniqueNumber.Add(1))
	must(h.t, r.zones.Add(zone, "manual"))
	h.post(h.path("/domains"), object{"domain": zone})
	h.publishRecords(zone)
	h.post(h.domainPath(zone, "/verify"), nil)
	return zone
}

// TestNewerSchemaIsRefused checks that every command refuses a database that requires a newer
// release, and says so.
func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	r := newServiceFixture(t, requirePrograms(t, releaseBuild))
	database := testserver.Database(t)
	env := r.env(t.TempDir(), database)
	r.runCommand(env, "migrate")
	db, err := sql.Open("pgx", database)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), "UPDATE schema_release SET min_release = 999"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve"}, {"migrate"}, {"account", "list"}} {
		checkCommandFails(t, r, env, cli.ExitRefused, []string{"newer tenantry", "install a newer tenantry"}, args...)
	}
}

// checkCommandFails runs a command that must fail with an error that contains these words, and that
// suggests a fix.
func checkCommandFails(t *testing.T, r *serviceFixture, env []string, code int, words []string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), r.binary.binary, append(args, "--output", "json")...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratchDir}, env...)
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); err == nil || got != code {
		t.Errorf("%v: exit code %d, want %d: %s", args, got, code, out)
	}
	printed := lastError(t, out)
	for _, word := range words {
		if !strings.Contains(printed.text("message")+" "+printed.text("fix"), word) {
			t.Errorf("%v does not say %q: %v", args, word, printed)
		}
	}
	if printed.text("fix") == "" {
		t.Errorf("%v suggests no fix: %v", args, printed)
	}
}

// lastError returns the last error that a command printed.
func lastError(t *testing.T, out []byte) object {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var printed struct{ Error object }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &printed); err != nil || printed.Error == nil {
		t.Fatalf("no error in %s", out)
	}
	return printed.Error
}
