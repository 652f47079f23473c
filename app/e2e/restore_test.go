// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/cli"
)

// TestRestoreWorksOnADifferentDatabase backs up a running installation, deletes its data folder,
// and restores the backup on a database of the other kind: SQLite or PostgreSQL.
func TestRestoreWorksOnADifferentDatabase(t *testing.T) {
	t.Parallel()
	sqliteURL := func(testing.TB) string { return "" } // SQLite, in the data folder
	for name, databases := range map[string]struct{ saved, restored func(testing.TB) string }{
		"sqlite to postgres": {sqliteURL, testserver.Database},
		"postgres to sqlite": {testserver.Database, sqliteURL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newRestoreFixture(t)
			f.setUp(databases.saved(t))
			backup := f.backUp()
			f.deleteInstallation()
			f.restore(backup, databases.restored(t))
			f.checkRestored()
		})
	}
}

// restoreFixture is an installation that is restored from a backup. A reverse proxy keeps the
// public address of the installation the same.
type restoreFixture struct {
	*serviceFixture
	proxy     string
	serverURL atomic.Pointer[url.URL] // the server to which the proxy forwards
	dataDir   string
	env       []string
	process   *process
	tenant    accountTenant
	zone      string

	// A second administrator has consented before the backup and signs in after the restore.
	secondBrowser   *browser
	secondSignInURL string
	secondTenant    accountTenant
}

// newRestoreFixture starts the reverse proxy. It does not start a server.
func newRestoreFixture(t *testing.T) *restoreFixture {
	f := &restoreFixture{serviceFixture: newServiceFixture(t, requirePrograms(t, releaseBuild))}
	// The proxy has its own transport, because other tests close the connections of the default
	// transport. It reads each request body before it forwards the request. Otherwise net/http
	// closes an unread body when the proxy begins to answer. The transport then closes the
	// connection to the server in the middle of the response.
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Transport: &http.Transport{DisableKeepAlives: true},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(f.serverURL.Load())
			body, err := io.ReadAll(r.In.Body)
			if err != nil {
				t.Errorf("read the request body: %v", err)
			}
			r.Out.Body = io.NopCloser(bytes.NewReader(body))
		},
	})
	t.Cleanup(proxy.Close)
	f.proxy = proxy.URL
	return f
}

// startServer starts a server to which the proxy at the public address forwards requests.
func (f *restoreFixture) startServer(dataDir, database string) client {
	f.t.Helper()
	f.dataDir, f.env = dataDir, append(f.serviceFixture.env(dataDir, database), "TENANTRY_PUBLIC_URL="+f.proxy)
	p, server := f.serviceFixture.serve(f.env)
	serverURL, err := url.Parse(server.ready.APIURL)
	must(f.t, err)
	f.process = p
	f.serverURL.Store(serverURL)
	server.ready.APIURL = f.proxy
	return server
}

// setUp creates an account with a key, and a connected tenant with a domain and a mailbox. It also
// begins a connect flow, which has an encrypted secret.
func (f *restoreFixture) setUp(database string) {
	f.t.Helper()
	dataDir := f.t.TempDir()
	f.runCommand(f.serviceFixture.env(dataDir, database), "migrate")
	id, key := f.newAccount(f.serviceFixture.env(dataDir, database), "ann@example.com", "complete", 0)
	c := caller{client: f.startServer(dataDir, database), id: id, email: "ann@example.com", key: key}
	f.tenant, f.secondTenant = f.newTenant(c), f.newTenant(c)
	b := newBrowser(f.t)
	b.submit(b.openConfirmation(f.tenant), url.Values{"decision": {"connect"}})
	f.tenant.mustSync()
	f.zone = "lost.test"
	must(f.t, f.zones.Add(f.zone, "manual"))
	f.tenant.post(f.tenant.path("/domains"), object{"domain": f.zone})
	f.tenant.publishRecords(f.zone)
	f.tenant.post(f.tenant.domainPath(f.zone, "/verify"), nil)
	f.tenant.post(f.tenant.path("/mailboxes"), mailboxesBody(f.zone, "ada"))
	f.secondBrowser = newBrowser(f.t)
	link := c.get("/v1/tenants/connect-url").text("connect_url")
	f.secondSignInURL = f.secondBrowser.open(f.secondBrowser.answerConsent(link, f.secondTenant.admin, "accept")).location
}

func (f *restoreFixture) newTenant(c caller) accountTenant {
	tenant := accountTenant{caller: c}
	tenant.guid, tenant.admin = f.serviceFixture.newTenant(c.client)
	return tenant
}

// backUp writes a backup with a passphrase and a backup without a passphrase, while the server
// runs. It searches both backups for secrets.
func (f *restoreFixture) backUp() (file string) {
	f.t.Helper()
	dir := f.t.TempDir()
	file = filepath.Join(dir, "tenantry.backup")
	credential := f.passphraseFile()
	created := runTenantry(f.t, f.env, "backup", file, "--credential-file", credential, "-o", "json").mustJSON(f.t)
	checkMembers(f.t, "backup", created, "file status encrypted version database tables rows sha256 created_at")
	checkValues(f.t, created, object{"status": "written", "encrypted": true, "file": file, "sha256": fileSHA256(f.t, file)})
	plainBackup := runTenantry(f.t, f.env, "backup", file+".plain")
	if plainBackup.code != 0 || !strings.Contains(plainBackup.stderr, "warning") || !strings.Contains(plainBackup.stderr, "keyset") {
		f.t.Errorf("a backup without a passphrase ends with %d %s, want 0 and a warning about the keyset", plainBackup.code, plainBackup.stderr)
	}
	for _, name := range []string{file, file + ".plain"} {
		info, err := os.Stat(name)
		must(f.t, err)
		if info.Mode().Perm() != 0o600 {
			f.t.Errorf("%s has the mode %v, want 0600", name, info.Mode())
		}
	}
	secrets := map[string]string{"API key": f.tenant.key, "password": "Correct-Horse-7", "client secret": f.clientSecret()}
	if found := findLeaks(gunzipFile(f.t, file+".plain"), secrets); len(found) > 0 {
		f.t.Errorf("the plain backup contains %v", found)
	}
	for name, value := range map[string]string{"keyset": f.keyMaterial(), "customer": f.tenant.email, "table": "connect_flows", "zone": f.zone} {
		secrets[name] = value
	}
	raw, err := os.ReadFile(file)
	if found := findLeaks(raw, secrets); err != nil || len(found) > 0 {
		f.t.Errorf("the encrypted backup contains %v (%v)", found, err)
	}
	if found := findLeaks(gunzipFile(f.t, file+".plain"), map[string]string{"keyset": f.keyMaterial()}); len(found) == 0 {
		f.t.Error("the search does not find the keyset in the plain backup")
	}
	return file
}

// fileSHA256 returns the SHA-256 of a file, in hexadecimal as sha256sum prints it.
func fileSHA256(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	must(t, err)
	return fmt.Sprintf("%x", sha256.Sum256(content))
}

func (f *restoreFixture) passphraseFile() string {
	f.t.Helper()
	name := filepath.Join(f.t.TempDir(), "passphrase")
	must(f.t, os.WriteFile(name, []byte("correct horse battery staple\n"), 0o600))
	return name
}

func (f *restoreFixture) keyMaterial() string {
	f.t.Helper()
	var keyset struct {
		Key []struct{ KeyData struct{ Value string } }
	}
	err := json.Unmarshal([]byte(fileText(f.t, filepath.Join(f.dataDir, "keyset.json"))), &keyset)
	if err != nil || len(keyset.Key) != 1 || len(keyset.Key[0].KeyData.Value) < 40 {
		f.t.Fatalf("the keyset does not have the form that this test reads: %v", err)
	}
	return keyset.Key[0].KeyData.Value
}

// deleteInstallation stops the service and deletes its data folder.
func (f *restoreFixture) deleteInstallation() {
	f.t.Helper()
	must(f.t, f.process.stop())
	must(f.t, os.RemoveAll(f.dataDir))
}

// restore restores a backup into a new installation and starts it.
func (f *restoreFixture) restore(file, database string) {
	f.t.Helper()
	dataDir := filepath.Join(f.t.TempDir(), "new")
	env := f.serviceFixture.env(dataDir, database)
	runTenantry(f.t, env, "restore", file).checkFailure(f.t, cli.ExitRefused) // no passphrase
	created := runTenantry(f.t, env, "restore", file, "--credential-file", f.passphraseFile(), "-o", "json").mustJSON(f.t)
	checkValues(f.t, created, object{"status": "restored", "encrypted": true, "sha256": fileSHA256(f.t, file)})
	runTenantry(f.t, env, "restore", file, "--credential-file", f.passphraseFile()).checkFailure(f.t, cli.ExitRefused) // the database is not empty
	actions := runTenantry(f.t, env, "audit", "list", "-o", "json").mustJSON(f.t).objects("events")
	if len(actions) < 3 || actions[0].text("action") != "restore" || actions[len(actions)-1].text("action") == "restore" {
		f.t.Errorf("the newest audit event is not restore, or the older events are missing: %v", actions)
	}
	server := f.startServer(dataDir, database)
	f.tenant.client, f.secondTenant.client = server, server
}

// checkRestored uses the restored installation as its customers do.
func (f *restoreFixture) checkRestored() {
	f.t.Helper()
	tenant := f.tenant
	restored := tenant.get(tenant.path("/mailboxes")).objects("mailboxes")
	if len(restored) != 1 || restored[0].text("primary_smtp") != "ada@"+f.zone {
		f.t.Errorf("the restored mailboxes are %v, want only ada", restored)
	}
	tenant.mustSync()
	tenant.post(tenant.path("/mailboxes"), mailboxesBody(f.zone, "max"))
	checkValues(f.t, tenant.get(tenant.path("")).object, object{"domain_count": 1, "mailbox_count": 2, "exchange_bootstrap_status": "ready", "connected_by": tenant.admin})
	// The second administrator completes the connect flow, which needs its encrypted secret.
	confirmation := f.secondBrowser.open(f.secondBrowser.signIn(f.secondSignInURL, f.secondTenant.admin).location)
	if result := f.secondBrowser.submit(confirmation, url.Values{"decision": {"connect"}}); result.status != http.StatusOK {
		f.t.Errorf("the second confirmation is answered %d %s, want 200", result.status, result.text)
	}
	tenant.checkTenants(f.secondTenant.guid, tenant.guid)
	if logs := f.process.logs.String(); strings.Contains(logs, `"level":"ERROR"`) {
		f.t.Errorf("the log has errors:\n%s", tail(logs, 3000))
	}
}

// TestKilledRestoreLeavesNothing kills restore in the middle of its work and checks that no keyset
// and no account is left. Then it restores again.
func TestKilledRestoreLeavesNothing(t *testing.T) {
	t.Parallel()
	file := newLargeBackup(t)
	for name, database := range map[string]func(testing.TB) string{
		"sqlite": func(testing.TB) string { return "" }, "postgres": testserver.Database,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dataDir := filepath.Join(t.TempDir(), "data")
			env := []string{"TENANTRY_DATA_DIR=" + dataDir}
			if url := database(t); url != "" {
				env = append(env, "TENANTRY_DATABASE_URL="+url)
			}
			killRestoreHalfway(t, env, file)
			if _, err := os.Stat(filepath.Join(dataDir, "keyset.json")); err == nil {
				t.Error("the killed restore left a keyset")
			}
			if list := runTenantry(t, env, "account", "list", "-o", "json").mustJSON(t); list.valueAt("count") != 0.0 {
				t.Errorf("the killed restore left the accounts %v", list)
			}
			if restored := runTenantry(t, env, "restore", file, "-o", "json").mustJSON(t); restored.valueAt("rows").(float64) < manyAccounts {
				t.Errorf("the second restore reports %v, want at least %d rows", restored, manyAccounts)
			}
			for _, i := range []int{1, manyAccounts} {
				runTenantry(t, env, "account", "show", "--account", accountOfBackup(i), "-o", "json").mustJSON(t)
			}
		})
	}
}

// manyAccounts is the number of accounts in the backup of newLargeBackup.
const manyAccounts = 16_000

// accountOfBackup returns the id of an account in the backup of newLargeBackup, from 1 to
// manyAccounts.
func accountOfBackup(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", i) }

// newLargeBackup writes a backup that does not fit into the buffers of a pipe.
func newLargeBackup(t *testing.T) string {
	t.Helper()
	dataDir, file := t.TempDir(), filepath.Join(t.TempDir(), "large.backup")
	env := []string{"TENANTRY_DATA_DIR=" + dataDir}
	runTenantry(t, env, "keyset", "create", "-o", "json").mustJSON(t)
	runTenantry(t, env, "migrate", "-o", "json").mustJSON(t)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dataDir, "tenantry.db"))
	must(t, err)
	_, err = db.ExecContext(t.Context(), `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < ?)
		INSERT INTO accounts SELECT printf('%08x-0000-4000-8000-000000000000', i), hex(randomblob(60)), 'complete', 1, NULL, '2026-01-01 00:00:00+00:00' FROM n`, manyAccounts)
	must(t, errors.Join(err, db.Close()))
	if got := runTenantry(t, env, "backup", file); got.code != 0 {
		t.Fatalf("the backup ended with %d, want 0: %s", got.code, got.stderr)
	}
	return file
}

// killRestoreHalfway kills restore while it fills the database. restore reads the backup twice,
// first to check it and then to write its rows. Through named pipes it gets the whole backup, then
// half of it.
func killRestoreHalfway(t *testing.T, env []string, file string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil || len(raw) < 1<<20 {
		t.Fatalf("the backup has %d bytes, want at least 1 MiB (%v)", len(raw), err)
	}
	name := filepath.Join(t.TempDir(), "pipe")
	makePipe(t, name)
	p := startProcess(t, requirePrograms(t, releaseBuild), env, io.Discard, "restore", name)
	go func() { // if restore ends early, openPipe must not wait for ever
		<-p.done
		if r, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
			_ = r.Close()
		}
	}()
	pipeOfCheck := openPipe(t, name)
	makePipe(t, name+".next") // a new pipe under the same name, because restore still reads the first one
	must(t, os.Rename(name+".next", name))
	if _, err := pipeOfCheck.Write(raw); err != nil {
		t.Fatal(err)
	}
	_ = pipeOfCheck.Close()
	pipeOfRows := openPipe(t, name)
	if _, err := pipeOfRows.Write(raw[:len(raw)/2]); err != nil {
		t.Fatal(err)
	}
	p.kill()
	_ = pipeOfRows.Close()
}

func makePipe(t *testing.T, name string) {
	t.Helper()
	must(t, syscall.Mkfifo(name, 0o600))
}

// openPipe opens a named pipe for writing. It waits until the pipe has a reader.
func openPipe(t *testing.T, name string) *os.File {
	t.Helper()
	pipe, err := os.OpenFile(name, os.O_WRONLY, 0)
	must(t, err)
	return pipe
}
