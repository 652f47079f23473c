// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"database/sql"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/app/cli"
)

func TestOperatorsKeyset(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	file := filepath.Join(data, "keyset.json")
	env := []string{"TENANTRY_DATA_DIR=" + data}
	operate(t, env, "keyset", "list").fails(t, cli.ExitRefused)
	operate(t, env, "keyset", "rotate").fails(t, cli.ExitRefused)
	operate(t, env, "migrate", "-o", "json").json(t)
	made := operate(t, env, "keyset", "create", "-o", "json").json(t)
	has(t, "keyset", made, "keyset_file primary_key_id keys")
	has(t, "key", made.objects("keys")[0], "key_id status")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	operate(t, env, "keyset", "create").fails(t, cli.ExitRefused)
	if after, _ := os.ReadFile(file); !bytes.Equal(before, after) {
		t.Fatal("the keyset was overwritten")
	}
	staged := operate(t, env, "keyset", "rotate", "--stage", "-o", "json").json(t)
	sees(t, staged, object{"primary_key_id": made["primary_key_id"]})
	operate(t, env, "keyset", "rotate", "--stage").fails(t, cli.ExitRefused)
	rotated := operate(t, env, "keyset", "rotate", "-o", "json").json(t)
	keys := rotated.objects("keys")
	if len(keys) != 2 || keys[0].text("status") != "old" || keys[1].text("status") != "primary" ||
		rotated.text("primary_key_id") != staged.objects("keys")[1].text("key_id") {
		t.Errorf("after the rotation: %v", rotated)
	}
	table := operate(t, env, "keyset", "list")
	if table.code != 0 || !strings.Contains(table.output, "primary") || strings.Contains(table.output, "typeUrl") {
		t.Errorf("%s%s", table.output, table.errors)
	}
	var acts []string
	for _, e := range operate(t, env, "audit", "list", "-o", "json").json(t).objects("events") {
		acts = append(acts, e.text("action"))
	}
	if got := strings.Join(acts, " "); got != "keyset.rotate keyset.rotate keyset.create migrate" {
		t.Errorf("recorded: %s", got)
	}
}

// TestKeysetRotatesUnderARunningService: what the old key sealed opens, and
// what is sealed soon after is sealed with the new one.
func TestKeysetRotatesUnderARunningService(t *testing.T) {
	t.Parallel()
	r, data := newRig(t, binary(t, release)), t.TempDir()
	env := r.env(data, "")
	id, key := r.account(env, "ann@example.com", "complete", 0)
	_, server := r.serve(env)
	c := caller{client: server, id: id, email: "ann@example.com", key: key}
	early, late := holding{caller: c}, holding{caller: c}
	early.guid, early.admin = r.tenant(server)
	late.guid, late.admin = r.tenant(server)
	wait := func(h holding) (*visitor, string) {
		v := newVisitor(t)
		return v, v.open(v.consents(c.get("/v1/tenants/connect-url").text("connect_url"), h.admin, "accept")).location
	}
	finish := func(h holding, v *visitor, address string) {
		offer := v.open(v.signsIn(address, h.admin).location)
		if done := v.submit(offer, url.Values{"decision": {"connect"}}); done.status != http.StatusOK {
			t.Errorf("%d %s", done.status, done.text)
		}
	}
	before, waiting := wait(early)
	fresh := r.command(env, "keyset", "rotate").text("primary_key_id")
	var after *visitor
	var address string
	server.eventually("a secret is sealed with the new key", func() bool {
		after, address = wait(late)
		return sealedWith(t, data, fresh)
	})
	finish(early, before, waiting)
	finish(late, after, address)
}

// sealedWith reports whether a stored secret names this key in its head.
func sealedWith(t *testing.T, data, key string) bool {
	t.Helper()
	id, err := strconv.ParseUint(key, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	head := []byte{1, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(data, "tenantry.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var found bool
	err = db.QueryRowContext(t.Context(), "SELECT EXISTS (SELECT 1 FROM connect_flows WHERE substr(verifier, 1, 5) = ?)", head).Scan(&found)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
