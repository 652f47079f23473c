// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/cli"
)

// TestRestoredOnAnotherDatabase: everything is backed up while it is in use,
// deleted, and restored on a database of the other kind.
func TestRestoredOnAnotherDatabase(t *testing.T) {
	t.Parallel()
	none := func(testing.TB) string { return "" } // SQLite, in the data folder
	for name, database := range map[string][2]func(testing.TB) string{
		"sqlite to postgres": {none, testserver.Database},
		"postgres to sqlite": {testserver.Database, none},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLoss(t)
			l.begins(database[0](t))
			saved := l.saved()
			l.everythingIsLost()
			l.restored(saved, database[1](t))
			l.goesOn()
		})
	}
}

// loss is an installation that is lost and restored. Its public address stays
// the same, as it would behind a reverse proxy.
type loss struct {
	*rig
	t        *testing.T
	proxy    string
	current  atomic.Pointer[url.URL]
	data     string
	env      []string
	process  *process
	tenant   holding
	zone     string
	waiting  *visitor
	callback string // where the waiting administrator signs in
	late     holding
}

func newLoss(t *testing.T) *loss {
	l := &loss{rig: newRig(t, binary(t, release)), t: t}
	// The proxy has connections of its own, because other tests close those of the default transport.
	// It reads each request body before it forwards the request: net/http closes an unread body when
	// the proxy begins to answer, and the transport, which looks for the end of that body, would then
	// close the connection to the server in the middle of the answer.
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Transport: &http.Transport{DisableKeepAlives: true},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(l.current.Load())
			body, err := io.ReadAll(r.In.Body)
			if err != nil {
				t.Errorf("read the request body: %v", err)
			}
			r.Out.Body = io.NopCloser(bytes.NewReader(body))
		},
	})
	t.Cleanup(proxy.Close)
	l.proxy = proxy.URL
	return l
}

// serves starts a server behind the public address.
func (l *loss) serves(data, database string) client {
	l.t.Helper()
	l.data, l.env = data, append(l.rig.env(data, database), "TENANTRY_PUBLIC_URL="+l.proxy)
	p, server := l.rig.serve(l.env)
	at, err := url.Parse(server.ready.APIURL)
	if err != nil {
		l.t.Fatal(err)
	}
	l.process = p
	l.current.Store(at)
	server.ready.APIURL = l.proxy
	return server
}

// begins brings about all that a backup has to keep: an account with a key, a
// connected tenant with a domain and a mailbox, and a second administrator in
// the middle of the pages, for whom a secret is sealed.
func (l *loss) begins(database string) {
	l.t.Helper()
	data := l.t.TempDir()
	l.command(l.rig.env(data, database), "migrate")
	id, key := l.account(l.rig.env(data, database), "ann@example.com", "complete", 0)
	c := caller{client: l.serves(data, database), id: id, email: "ann@example.com", key: key}
	l.tenant, l.late = l.newTenant(c), l.newTenant(c)
	v := newVisitor(l.t)
	v.submit(v.offered(l.tenant), url.Values{"decision": {"connect"}})
	l.tenant.synced()
	l.zone = "lost.test"
	if err := l.zones.Add(l.zone, "manual"); err != nil {
		l.t.Fatal(err)
	}
	l.tenant.post(l.tenant.path("/domains"), object{"domain": l.zone})
	l.tenant.publish(l.zone)
	l.tenant.post(l.tenant.domain(l.zone, "/verify"), nil)
	l.tenant.post(l.tenant.path("/mailboxes"), boxes(l.zone, "ada"))
	l.waiting = newVisitor(l.t)
	link := c.get("/v1/tenants/connect-url").text("connect_url")
	l.callback = l.waiting.open(l.waiting.consents(link, l.late.admin, "accept")).location
}

func (l *loss) newTenant(c caller) holding {
	h := holding{caller: c}
	h.guid, h.admin = l.rig.tenant(c.client)
	return h
}

// saved backs up twice, with a passphrase and without, while the server runs,
// and looks for secrets in both.
func (l *loss) saved() (file string) {
	l.t.Helper()
	dir := l.t.TempDir()
	file = filepath.Join(dir, "tenantry.backup")
	credential := l.passphrase()
	made := operate(l.t, l.env, "backup", file, "--credential-file", credential, "-o", "json").json(l.t)
	has(l.t, "backup", made, "file status encrypted version database tables rows sha256 created_at")
	sees(l.t, made, object{"status": "written", "encrypted": true, "file": file})
	plain := operate(l.t, l.env, "backup", file+".plain")
	if plain.code != 0 || !strings.Contains(plain.errors, "warning") || !strings.Contains(plain.errors, "keyset") {
		l.t.Errorf("a backup without a passphrase: %d %s", plain.code, plain.errors)
	}
	for _, name := range []string{file, file + ".plain"} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			l.t.Errorf("%s has mode %v (%v)", name, info.Mode(), err)
		}
	}
	secrets := map[string]string{"API key": l.tenant.key, "password": "Correct-Horse-7", "client secret": l.clientSecret()}
	if found := leaks(unzipped(l.t, file+".plain"), secrets); len(found) > 0 {
		l.t.Errorf("in the plain backup: %v", found)
	}
	for name, value := range map[string]string{"keyset": l.keyMaterial(), "customer": l.tenant.email, "table": "connect_flows", "zone": l.zone} {
		secrets[name] = value
	}
	raw, err := os.ReadFile(file)
	if found := leaks(raw, secrets); err != nil || len(found) > 0 {
		l.t.Errorf("in the encrypted backup: %v (%v)", found, err)
	}
	if found := leaks(unzipped(l.t, file+".plain"), map[string]string{"keyset": l.keyMaterial()}); len(found) == 0 {
		l.t.Error("a search that proves little: the plain backup has no keyset")
	}
	return file
}

func (l *loss) passphrase() string {
	l.t.Helper()
	name := filepath.Join(l.t.TempDir(), "passphrase")
	if err := os.WriteFile(name, []byte("correct horse battery staple\n"), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return name
}

func (l *loss) clientSecret() string {
	l.t.Helper()
	raw, err := os.ReadFile(l.settings["client_secret_file"])
	if err != nil {
		l.t.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}

func (l *loss) keyMaterial() string {
	l.t.Helper()
	var keyset struct {
		Key []struct{ KeyData struct{ Value string } }
	}
	raw, err := os.ReadFile(filepath.Join(l.data, "keyset.json"))
	if err == nil {
		err = json.Unmarshal(raw, &keyset)
	}
	if err != nil || len(keyset.Key) != 1 || len(keyset.Key[0].KeyData.Value) < 40 {
		l.t.Fatalf("the keyset is not as this test knows it: %v", err)
	}
	return keyset.Key[0].KeyData.Value
}

func (l *loss) everythingIsLost() {
	l.t.Helper()
	if err := l.process.stop(); err != nil {
		l.t.Fatal(err)
	}
	if err := os.RemoveAll(l.data); err != nil {
		l.t.Fatal(err)
	}
}

func (l *loss) restored(file, database string) {
	l.t.Helper()
	data := filepath.Join(l.t.TempDir(), "new")
	env := l.rig.env(data, database)
	operate(l.t, env, "restore", file).fails(l.t, cli.ExitRefused) // no passphrase
	made := operate(l.t, env, "restore", file, "--credential-file", l.passphrase(), "-o", "json").json(l.t)
	sees(l.t, made, object{"status": "restored", "encrypted": true})
	operate(l.t, env, "restore", file, "--credential-file", l.passphrase()).fails(l.t, cli.ExitRefused) // not empty any more
	acts := operate(l.t, env, "audit", "list", "-o", "json").json(l.t).objects("events")
	if len(acts) < 3 || acts[0].text("action") != "restore" || acts[len(acts)-1].text("action") == "restore" {
		l.t.Errorf("the audit: %v", acts)
	}
	server := l.serves(data, database)
	l.tenant.client, l.late.client = server, server
}

// goesOn does with the restored installation what its customers do.
func (l *loss) goesOn() {
	l.t.Helper()
	h := l.tenant
	before := h.get(h.path("/mailboxes")).objects("mailboxes")
	if len(before) != 1 || before[0].text("primary_smtp") != "ada@"+l.zone {
		l.t.Errorf("mailboxes: %v", before)
	}
	h.synced()
	h.post(h.path("/mailboxes"), boxes(l.zone, "max"))
	sees(l.t, h.get(h.path("")).object, object{"domain_count": 1, "mailbox_count": 2, "exchange_bootstrap_status": "ready", "connected_by": h.admin})
	// What was sealed for the second administrator opens.
	offer := l.waiting.open(l.waiting.signsIn(l.callback, l.late.admin).location)
	if done := l.waiting.submit(offer, url.Values{"decision": {"connect"}}); done.status != http.StatusOK {
		l.t.Errorf("%d %s", done.status, done.text)
	}
	h.listsTenants(l.late.guid, h.guid)
	if logs := l.process.logs.String(); strings.Contains(logs, `"level":"ERROR"`) {
		l.t.Errorf("logs:\n%s", tail(logs, 3000))
	}
}
