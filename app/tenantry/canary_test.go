// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
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
	process  *process
	data     string
	database *sql.DB // nil on SQLite, which is in data
	secrets  map[string]string
	places   []place // all that is searched in the end, when all secrets are known
	zone     string
	tenant   string
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
	return &canary{rig: newRig(t, binary(t, release)), receiver: newReceiver(t), data: t.TempDir(), secrets: map[string]string{}, zone: "canary.test"}
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
	public, private := selfSigned(k.rig.t)
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
	_, key := k.account(env, "owner@example.com", "complete", 0)
	k.secrets["API key"] = key
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

// secret makes a secret of some kind; one that may stand in a header or a
// query has no unusual characters.
func (k *canary) secret(name, prefix string) string {
	k.secrets[name] = prefix + rand.Text()
	return k.secrets[name]
}

// answered sends a request and looks into the answer.
func (k *canary) answered(status int, method, path, key string, body any) reply {
	k.client.t.Helper()
	got := k.do(method, k.ready.APIURL+path, key, body)
	if got.status != status {
		k.client.t.Errorf("%s %s: %d, want %d: %s", method, path, got.status, status, got.raw)
	}
	k.keep("the answer to "+method+" "+path, append([]byte(fmt.Sprint(got.header)), got.raw...))
	return got
}

// strangers are calls with secrets that nobody knows, or in wrong places.
func (k *canary) strangers() {
	k.client.t.Helper()
	foreign := make([]byte, 24)
	_, _ = rand.Read(foreign)
	k.secrets["unknown key"] = "tny_live_" + hex.EncodeToString(foreign)
	k.answered(401, "GET", "/v1/tenants", k.secrets["unknown key"], nil)
	k.answered(401, "GET", "/v1/tenants", k.secret("malformed key", "tny_live_"), nil)
	k.answered(404, "GET", "/v1/"+k.secret("secret in a path", "p"), k.ready.APIKey, nil)
	k.answered(200, "GET", "/v1/tenants?token="+k.secret("secret in a query", "q"), k.ready.APIKey, nil)
	k.answered(400, "GET", "/connect/microsoft365/callback?state="+k.secret("forged state", "s")+"&tenant=x&admin_consent=True", "", nil)
	k.answered(400, "GET", "/connect/microsoft365/signin?state=x&code="+k.secret("forged code", "c"), "", nil)
	k.answered(403, "POST", "/api-key/rotate?user_email="+k.secret("strange address", "e")+"@example.com", k.ready.APIKey, nil)
}

// connecting walks to the confirmation: declined, failed in the middle, used
// twice, and well.
func (k *canary) connecting() {
	k.client.t.Helper()
	guid, name := k.rig.tenant(k.client)
	k.tenant = guid
	declines := newAdministrator(k.client.t, name)
	declines.open(k.do("GET", k.ready.APIURL+"/v1/tenants/connect-url", k.ready.APIKey, nil).text("connect_url"))
	declines.press("deny", "")
	k.carried(declines, "declining ")

	fails := newAdministrator(k.client.t, name)
	fails.open(k.do("GET", k.ready.APIURL+"/v1/tenants/connect-url", k.ready.APIKey, nil).text("connect_url"))
	fails.press("accept", "")
	k.look("while a sign-in waits")
	k.control("POST", "/faults", object{"operation": "token", "kind": "status", "status": 500, "times": 3})
	fails.press("", "")
	k.control("DELETE", "/faults", nil)
	k.carried(fails, "failing ")

	connects := newAdministrator(k.client.t, name)
	connects.proves(k.client, k.ready.APIKey)
	k.carried(connects, "")
	k.keep("the confirmation page", []byte(connects.page))
	again := newAdministrator(k.client.t, name)
	again.open(k.ready.APIURL + "/connect/microsoft365/signin?code=" + k.secrets["code"] + "&state=" + url.QueryEscape(connects.parameter("state")))
	k.keep("the page of a code used twice", []byte(again.page))
	k.look("before the confirmation")
	connects.press("connect", "")
	if connects.status != http.StatusOK {
		k.client.t.Fatalf("connect: %d %s", connects.status, connects.page)
	}
	k.keep("the last page", []byte(connects.page))
}

// carried makes secrets of what a browser carried between service and
// platform, and of what the plugin sent for it.
func (k *canary) carried(a *administrator, who string) {
	k.client.t.Helper()
	for i, cookie := range a.cookies {
		k.secrets[fmt.Sprint(who, "cookie ", i)] = cookie
	}
	for _, visited := range a.visited {
		u, err := url.Parse(visited)
		if err != nil {
			continue
		}
		for _, name := range []string{"code", "state"} {
			if value := u.Query().Get(name); len(value) > 20 {
				k.secrets[who+name] = value
			}
		}
	}
	k.tokens()
}

// tokens makes secrets of what went between plugin and platform.
func (k *canary) tokens() {
	for i, call := range k.requests() {
		if !strings.HasSuffix(call.path, "/token") {
			continue
		}
		form, _ := url.ParseQuery(string(call.body))
		for _, name := range []string{"code", "code_verifier", "client_assertion", "client_secret"} {
			if form.Get(name) != "" {
				k.secrets[fmt.Sprint(name, " ", i)] = form.Get(name)
			}
		}
		var tokens map[string]any
		_ = json.Unmarshal(call.answer, &tokens)
		for _, name := range []string{"access_token", "id_token", "refresh_token"} {
			if text, ok := tokens[name].(string); ok {
				k.secrets[fmt.Sprint(name, " ", i)] = text
			}
		}
	}
}

// working takes passwords and keys through the operations, well and badly.
func (k *canary) working() {
	k.client.t.Helper()
	key, path := k.ready.APIKey, "/v1/tenants/"+k.tenant
	k.control("POST", "/faults", object{"operation": "token", "kind": "status", "status": 401, "times": 1})
	k.do("POST", k.ready.APIURL+path+"/sync", key, nil)
	k.control("DELETE", "/faults", nil)
	k.eventually("sync", func() bool { return k.answered(200, "POST", path+"/sync", key, nil).text("status") == "completed" })
	if err := k.zones.Add(k.zone, "manual"); err != nil {
		k.client.t.Fatal(err)
	}
	h := holding{caller: caller{k.client, "", "", key}, guid: k.tenant}
	h.post(h.path("/domains"), object{"domain": k.zone})
	k.answered(400, "POST", path+"/domains/"+k.zone+"/verify", key, nil)
	h.publish(k.zone)
	k.answered(200, "POST", path+"/domains/"+k.zone+"/verify", key, nil)
	k.passwords(path+"/mailboxes", key)
	rotated := k.do("POST", k.ready.APIURL+"/api-key/rotate?user_email=owner@example.com", key, nil)
	k.secrets["rotated key"] = rotated.text("api_key")
	k.answered(401, "GET", "/v1/tenants", key, nil)
	k.answered(200, "GET", "/v1/tenants", rotated.text("api_key"), nil)
	k.control("POST", "/app", object{"expire_secret": true})
	k.tokens()
}

// passwords sends one password after the other, each to another end.
func (k *canary) passwords(path, key string) {
	k.client.t.Helper()
	try := func(status int, name, password string, more object) {
		k.client.t.Helper()
		k.secrets[name] = password
		body := boxes(k.zone, "ada")
		body["account_password"] = password
		for member, value := range more {
			body[member] = value
		}
		k.answered(status, "POST", path, key, body)
	}
	strong := func() string { return `Aa7&"<%/+\ ` + rand.Text() }
	try(400, "weak password", strings.ToLower(rand.Text()), nil)
	try(400, "password beside an unknown field", strong(), object{"unknown": 1})
	try(400, "password of a wrong address", strong(), object{"mailboxes": []object{{"name": "A", "email": "a@elsewhere.test"}}})
	try(404, "password for a foreign domain", strong(), object{"domain": "foreign.test"})
	try(400, "long password", strong()+strings.Repeat("x", 300), nil)
	k.secrets["password of a wrong type"] = rand.Text()
	k.answered(400, "POST", path, key, object{"domain": k.zone, "account_password": []string{k.secrets["password of a wrong type"]}, "mailboxes": []object{}})
	faults := func(list ...object) {
		k.client.t.Helper()
		for _, f := range list {
			f["times"] = 3
			k.control("POST", "/faults", f)
		}
	}
	body := boxes(k.zone, "ada")
	for name, f := range map[string][]object{
		"password that the platform refuses": {{"operation": "user.update", "kind": "status", "status": 400}},
		"password in trouble":                {{"operation": "user.update", "kind": "status", "status": 500}},
		"password whose answer is lost":      {{"operation": "user.update", "kind": "drop_after"}, {"operation": "Set-CASMailbox", "kind": "drop_before"}},
	} {
		faults(f...)
		body["account_password"] = k.secret(name, `Aa7&"<`)
		got := k.do("POST", k.ready.APIURL+path, key, body)
		k.keep(name, got.raw)
		k.control("DELETE", "/faults", nil)
	}
	k.eventually("provision", func() bool {
		body["account_password"] = k.secret("password", `Aa7%+/\`)
		got := k.do("POST", k.ready.APIURL+path, key, body)
		k.keep("the answer", got.raw)
		return got.status == http.StatusOK && got.text("failed_count") == "0"
	})
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
