// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// canary sends generated secrets through a service and looks for them
// afterwards wherever the service writes or answers.
type canary struct {
	*rig
	client
	*receiver
	process    *process
	cloudflare *simulated
	data       string
	database   *sql.DB // nil on SQLite, which is in data
	secrets    map[string]string
	places     []place // all that is searched in the end, when all secrets are known
	zone       string
	tenant     string
}

// place is something that was written or answered.
type place struct {
	name string
	data []byte
}

// TestNoSecretLeaks: on SQLite with a client secret, on PostgreSQL with a
// certificate.
func TestNoSecretLeaks(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		k := newCanary(t)
		k.secrets["client secret"] = k.secretFile()
		k.begin(k.rig.env(k.data, ""))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		k := newCanary(t)
		k.certificate()
		address := testserver.Database(t)
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		k.secrets["database password"], _ = u.User.Password()
		env := k.rig.env(k.data, address)
		k.command(env, "migrate")
		k.command(env, "keyset", "create")
		if k.database, err = sql.Open("pgx", address); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = k.database.Close() })
		u.Host = "127.0.0.1:1"
		lost := start(t, k.binary, k.rig.env(k.data, u.String()), nil, "serve")
		<-lost.done
		k.keep("the log of a server without its database", []byte(lost.logs.String()))
		k.begin(env)
	})
}

// TestNoSecretStaysInTheSandbox: the sandbox keeps its API key and what its
// simulators keep, nothing else.
func TestNoSecretStaysInTheSandbox(t *testing.T) {
	t.Parallel()
	e := setOut(newMortal(t, binary(t, release), nil))
	key := e.ready.APIKey
	e.run(everyWrite(e), undisturbed(e))
	var app object
	raw, err := os.ReadFile(filepath.Join(e.data, "simulators", "microsoft365", "app.json"))
	if err == nil {
		err = json.Unmarshal(raw, &app)
	}
	if err != nil {
		t.Fatal(err)
	}
	k := &canary{rig: &rig{t: t}, data: e.data, secrets: map[string]string{
		"first key": key, "rotated key": e.ready.APIKey, "password": boxes("x.test").text("account_password"), "client secret": app.text("secret"),
	}}
	k.look("of a sandbox")
	k.keep("logs", []byte(e.process.logs.String()))
	k.places = slices.DeleteFunc(k.places, func(p place) bool {
		return p.name == "env of a sandbox" || p.name == "api-key.json of a sandbox" || strings.HasPrefix(p.name, "simulators/")
	})
	if len(k.places) < 5 {
		t.Errorf("only %d places", len(k.places))
	}
	k.search()
}

func newCanary(t *testing.T) *canary {
	t.Helper()
	return &canary{
		rig: newRig(t, binary(t, release)), receiver: newReceiver(t), cloudflare: newSimulated(t, "canary.test"), data: t.TempDir(),
		secrets: map[string]string{}, zone: "canary.test",
	}
}

// secretFile is what the client secret's file holds.
func (k *canary) secretFile() string {
	k.rig.t.Helper()
	raw, err := os.ReadFile(k.settings["client_secret_file"])
	if err != nil {
		k.rig.t.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}

// certificate has the service sign in with a certificate instead.
func (k *canary) certificate() {
	k.rig.t.Helper()
	public, private := testserver.SelfSigned(k.rig.t)
	k.secretLines("certificate's key", private)
	file := filepath.Join(k.rig.t.TempDir(), "certificate.pem")
	if err := os.WriteFile(file, append(public, private...), 0o600); err != nil {
		k.rig.t.Fatal(err)
	}
	delete(k.settings, "client_secret_file")
	k.settings["client_certificate_file"] = file
	c := client{t: k.rig.t}
	c.ready.ControlURL = k.rig.url + "/_control"
	c.control("POST", "/app", object{"certificate": string(public)})
}

func (k *canary) secretLines(name string, text []byte) {
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if !strings.HasPrefix(line, "---") && len(line) > 30 {
			k.secrets[fmt.Sprint(name, " line ", i)] = line
		}
	}
}

// begin starts a server, takes the secrets through everything and looks.
func (k *canary) begin(env []string) {
	k.rig.t.Helper()
	env = append(append(env, k.cloudflare.env()), k.platforms()...)
	id, key := k.account(env, "owner@example.com", "complete", 0)
	k.secrets["API key"] = key
	k.registrar(id, env)
	k.process, k.client = k.serve(append(append(env, k.receiver.env()...), "TENANTRY_LOG_LEVEL=debug"))
	k.ready.APIKey = key
	k.strangers()
	k.connecting()
	k.working()
	k.look("after all flows")
	k.keep("metrics", k.do("GET", k.ready.AdminURL+"/metrics", "", nil).raw)
	if err := k.process.stop(); err != nil {
		k.client.t.Fatal(err)
	}
	k.look("after the stop")
	spans, raw := k.receiver.all(k.client.t)
	k.keep("spans", bytes.Join(raw, nil))
	k.keep("logs", []byte(k.process.logs.String()))
	k.search()
	if len(spans) < 300 || !strings.Contains(k.process.logs.String(), `"msg":"request"`) || len(k.secrets) < 25 {
		k.client.t.Errorf("a search that proves little: %d spans, %d secrets", len(spans), len(k.secrets))
	}
}

func (k *canary) keep(name string, data []byte) { k.places = append(k.places, place{name, data}) }

// search looks for each secret in each place.
func (k *canary) search() {
	k.rig.t.Helper()
	for _, p := range k.places {
		if found := leaks(p.data, k.secrets); len(found) > 0 {
			k.rig.t.Errorf("in %s: %v", p.name, found)
		}
	}
}

// look searches everything that is kept: the folder with its files, but for
// the keyset, and all tables.
func (k *canary) look(when string) {
	k.rig.t.Helper()
	err := filepath.WalkDir(k.data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		name, _ := filepath.Rel(k.data, path)
		k.keep(strings.TrimPrefix(name, "sandbox/")+" "+when, raw)
		return err
	})
	if err != nil {
		k.rig.t.Fatal(err)
	}
	if k.database != nil {
		k.tables(when)
	}
}

// tables searches each table's rows as text.
func (k *canary) tables(when string) {
	k.rig.t.Helper()
	for _, table := range column(k.rig.t, k.database, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'") {
		rows := column(k.rig.t, k.database, `SELECT t::text FROM "`+table+`" t`)
		k.keep("table "+table+" "+when, []byte(strings.Join(rows, "\n")))
	}
}

// column is the first column of a query's rows.
func column(t *testing.T, db *sql.DB, query string) (values []string) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return values
}
