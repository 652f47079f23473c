// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/cli"
)

// TestPreviousBinaryOnTheNewSchema: while replicas are replaced one after the
// other, the old binary serves and works on a database that the new one has
// migrated, beside it.
func TestPreviousBinaryOnTheNewSchema(t *testing.T) {
	t.Parallel()
	old, now := binary(t, previous), binary(t, release)
	t.Run("postgres, side by side", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, now)
		env := r.env(t.TempDir(), testserver.Database(t))
		upgraded(t, r, old, env)
		_, key := r.account(env, "new@example.com", "complete", 0)
		_, c := r.serve(env)
		c.ready.APIKey = key
		r.binary = old
		_, o := r.serve(env)
		o.ready.APIKey = key
		h := worksOn(t, r, o, key)
		// Each sees what the other does.
		seen := h
		seen.client = c
		seen.expect("GET", seen.path("/mailboxes"), nil, 200, "")
		h.expect("GET", h.path("/mailboxes"), nil, 200, "")
		zone := r.verified(seen)
		h.post(h.path("/mailboxes"), boxes(zone, "max"))
		if n := seen.get(seen.path("/mailboxes")).text("count"); n != "2" {
			t.Errorf("%s mailboxes", n)
		}
	})
	t.Run("sqlite, back to the old", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, now)
		env := r.env(t.TempDir(), "")
		upgraded(t, r, old, env)
		p, _ := r.serve(env)
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
		r.binary = old
		_, key := r.account(env, "old@example.com", "complete", 0)
		_, o := r.serve(env)
		o.ready.APIKey = key
		worksOn(t, r, o, key)
	})
}

// upgraded makes a database with the old binary, with an account in it, and
// migrates it with the new one.
func upgraded(t *testing.T, r *rig, old built, env []string) {
	t.Helper()
	now := r.binary
	r.binary = old
	r.command(env, "migrate")
	id, _ := r.account(env, "before@example.com", "complete", 0)
	r.binary = now
	r.command(env, "migrate")
	r.binary = old
	if got := r.command(env, "key", "create", "--account", "before@example.com"); got.text("account_id") != id {
		t.Errorf("the old binary made %v", got)
	}
	r.binary = now
}

// worksOn is a walk through what an account does, at the old binary.
func worksOn(t *testing.T, r *rig, o client, key string) holding {
	t.Helper()
	guid, admin := r.tenant(o)
	newAdministrator(t, admin).connects(o, key)
	h := holding{caller: caller{o, "", "", key}, guid: guid}
	h.synced()
	zone := r.verified(h)
	made := h.post(h.path("/mailboxes"), boxes(zone, "ada"))
	sees(t, made.object, object{"created_count": 1, "failed_count": 0})
	box := h.get(h.path("/mailboxes")).objects("mailboxes")[0].text("id")
	h.expect("PATCH", h.path("/mailboxes/"+box), object{"daily_send_limit": 7}, 200, "")
	h.get(h.path("/domains"))
	h.get("/v1/tenants")
	return h
}

// verified is a new zone of the rig as a domain of the tenant.
func (r *rig) verified(h holding) string {
	h.t.Helper()
	zone := fmt.Sprintf("rig-%d.test", serial.Add(1))
	if err := r.zones.Add(zone, "manual"); err != nil {
		h.t.Fatal(err)
	}
	h.post(h.path("/domains"), object{"domain": zone})
	h.publish(zone)
	h.post(h.domain(zone, "/verify"), nil)
	return zone
}

// TestSchemaThatIsTooNew: a database that is closed to a binary is left alone
// by every command, which says why and what to do.
func TestSchemaThatIsTooNew(t *testing.T) {
	t.Parallel()
	r := newRig(t, binary(t, release))
	database := testserver.Database(t)
	env := r.env(t.TempDir(), database)
	r.command(env, "migrate")
	db, err := sql.Open("pgx", database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), "UPDATE schema_release SET min_release = 999"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve"}, {"migrate"}, {"account", "list"}} {
		refusedToStart(t, r, env, cli.ExitRefused, []string{"newer tenantry", "install a newer tenantry"}, args...)
	}
}

// refusedToStart runs a command that must end with an error that says certain
// words.
func refusedToStart(t *testing.T, r *rig, env []string, code int, words []string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), r.binary.binary, append(args, "--output", "json")...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratch}, env...)
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); err == nil || got != code {
		t.Errorf("%v: exit code %d, want %d: %s", args, got, code, out)
	}
	said := failureOf(t, out)
	for _, word := range words {
		if !strings.Contains(said.text("message")+" "+said.text("fix"), word) {
			t.Errorf("%v does not say %q: %v", args, word, said)
		}
	}
	if said.text("fix") == "" {
		t.Errorf("%v says no fix: %v", args, said)
	}
}

// failureOf is the last error that a command printed.
func failureOf(t *testing.T, out []byte) object {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var said struct{ Error object }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &said); err != nil || said.Error == nil {
		t.Fatalf("no error in %s", out)
	}
	return said.Error
}
