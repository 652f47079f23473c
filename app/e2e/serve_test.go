// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/cli"
)

// TestServeStartsWithoutSettings checks that a server starts without settings of the mail platform.
// An operation that needs the platform answers service_unavailable. Stored data can be read. The
// paths of the control interface do not exist.
func TestServeStartsWithoutSettings(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	fixture.settings, fixture.extraEnv = nil, nil
	env := fixture.env(t.TempDir(), "")
	id, key := fixture.newAccount(env, "ann@example.com", "complete", 0)
	p, server := fixture.serve(env)
	c := caller{client: server, id: id, email: "ann@example.com", key: key}
	c.checkTenants()
	got := c.expect("GET", "/v1/tenants/connect-url", nil, 503, "service_unavailable")
	if got.header.Get("Retry-After") == "" {
		t.Error("the answer 503 has no Retry-After")
	}
	c.expect("GET", "/v1/tenants/"+id, nil, 404, "tenant_not_found")
	for path, status := range map[string]int{"/livez": 200, "/readyz": 200, "/metrics": 200, "/nothing": 404} {
		if got := c.do("GET", c.ready.AdminURL+path, "", nil); got.status != status {
			t.Errorf("the admin listener answers %s with %d, want %d", path, got.status, status)
		}
	}
	for _, call := range []string{"POST /accounts", "POST /tenants", "POST /clock", "POST /faults", "GET /calls?provider=microsoft365", "GET /_control/calls"} {
		method, path, _ := strings.Cut(call, " ")
		for _, base := range []string{c.ready.APIURL, c.ready.AdminURL} {
			if got := c.do(method, base+path, key, nil); got.status != http.StatusNotFound {
				t.Errorf("%s%s answers %d, want 404", base, path, got.status)
			}
		}
	}
	if err := p.stop(); err != nil || p.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("the stop failed: %v, exit code %d, want 0", err, p.cmd.ProcessState.ExitCode())
	}
}

// TestPublicURLIsUsedInLinksAndCookies checks that with an https TENANTRY_PUBLIC_URL the cookie has
// the __Host- prefix, and that links use this URL.
func TestPublicURLIsUsedInLinksAndCookies(t *testing.T) {
	t.Parallel()
	const publicURL = "https://tenantry.example"
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	env := append(fixture.env(t.TempDir(), ""), "TENANTRY_PUBLIC_URL="+publicURL+"/")
	_, key := fixture.newAccount(env, "ann@example.com", "complete", 0)
	_, server := fixture.serve(env)
	_, admin := fixture.newTenant(server)
	server.control("POST", "/app", object{"redirect_uris": []string{publicURL + "/connect/microsoft365/callback", publicURL + "/connect/microsoft365/signin"}})
	c, b := caller{client: server, key: key}, newBrowser(t)
	link := c.sendRaw("GET", "/v1/tenants/connect-url", "", map[string]string{"Host": "attacker.example"}).text("connect_url")
	if !strings.Contains(link, "tenantry.example") || strings.Contains(link, "attacker") {
		t.Errorf("the link %s does not use the public URL", link)
	}
	callback := b.answerConsent(link, admin, "accept")
	if !strings.HasPrefix(callback, publicURL+"/connect/microsoft365/callback?") {
		t.Fatalf("the platform redirects to %s, want the callback at the public URL", callback)
	}
	page := b.open(strings.Replace(callback, publicURL, server.ready.APIURL, 1))
	checkPageHeaders(t, page)
	cookies := (&http.Response{Header: page.header}).Cookies()
	if len(cookies) != 1 {
		t.Fatalf("the callback answers %d with the cookies %v, want one", page.status, cookies)
	}
	if cookie := cookies[0]; cookie.Name != "__Host-tenantry-connect" || !cookie.Secure || !cookie.HttpOnly || cookie.Path != "/" || cookie.Domain != "" || cookie.SameSite != http.SameSiteLaxMode {
		t.Errorf("the cookie has a wrong name or attribute: %v", cookie)
	}
}

// TestServeExplainsWhyItCannotStart checks that serve ends with an error that names reason and
// remedy.
func TestServeExplainsWhyItCannotStart(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	dataDir := t.TempDir()
	_, c := fixture.serve(fixture.env(dataDir, ""))
	takenAddress := strings.TrimPrefix(c.ready.APIURL, "http://")
	t.Run("the port is taken", func(t *testing.T) {
		checkCommandFails(t, fixture, append(fixture.env(t.TempDir(), ""), "TENANTRY_LISTEN="+takenAddress), cli.ExitRefused, []string{takenAddress, "address already in use", "another address"}, "serve")
	})
	t.Run("the data folder is in use", func(t *testing.T) {
		checkCommandFails(t, fixture, fixture.env(dataDir, ""), cli.ExitRefused, []string{"a different process of tenantry", dataDir, "a different database"}, "serve")
	})
	t.Run("the database is unreachable", func(t *testing.T) {
		unreachableURL, dataDir := "postgres://u:p@"+testserver.FreeAddress(t)+"/tenantry", t.TempDir()
		for _, args := range [][]string{{"serve"}, {"migrate"}, {"account", "list"}} {
			checkCommandFails(t, fixture, fixture.env(dataDir, unreachableURL), cli.ExitExternal, []string{"the server does not answer at 127.0.0.1:", "disk and memory", "database_url"}, args...)
		}
		checkNoKeyset(t, dataDir)
	})
	t.Run("there is no plugin catalog", func(t *testing.T) {
		dataDir, pluginDir := t.TempDir(), t.TempDir()
		checkCommandFails(t, fixture, append(fixture.env(dataDir, ""), "TENANTRY_PLUGIN_DIR="+pluginDir), cli.ExitRefused, []string{"plugins: ", pluginDir, "tenantry plugin add --plugin-dir " + pluginDir}, "serve")
		checkNoKeyset(t, dataDir)
	})
	t.Run("the mail platform has no plugin", func(t *testing.T) {
		dataDir := t.TempDir()
		checkCommandFails(t, fixture, append(fixture.env(dataDir, ""), "TENANTRY_MAIL_PLATFORM=exchange"), cli.ExitUsage,
			[]string{"mail_platform", "no mail plugin exchange", "microsoft365", "tenantry plugin add --plugin-dir"}, "serve")
		checkNoKeyset(t, dataDir)
	})
	t.Run("the database URL is malformed", func(t *testing.T) {
		checkCommandFails(t, fixture, fixture.env(t.TempDir(), "postgres://ann:a%zz@h/x"), cli.ExitUsage, []string{"database_url", "percent-encode"}, "migrate")
	})
	t.Run("the keyset file is not a keyset", func(t *testing.T) {
		checkCommandFails(t, fixture, append(fixture.env(t.TempDir(), ""), "TENANTRY_KEYSET_FILE="+writeTempFile(t, "{}", 0o600)), cli.ExitRefused, []string{"is not a keyset", "keyset_file"}, "serve")
	})
	t.Run("the database user lacks privileges", func(t *testing.T) {
		checkCommandFails(t, fixture, fixture.env(t.TempDir(), unprivilegedDatabaseURL(t)), cli.ExitRefused, []string{"permission denied", "the missing privilege"}, "serve")
	})
	t.Run("migrations are missing", func(t *testing.T) {
		checkCommandFails(t, fixture, fixture.env(t.TempDir(), testserver.Database(t)), cli.ExitRefused, []string{"migrations are missing", "tenantry migrate"}, "serve")
	})
	if got := c.do("GET", c.ready.AdminURL+"/readyz", "", nil); got.status != http.StatusOK {
		t.Errorf("the first server answers /readyz with %d, want 200", got.status)
	}
}

// checkNoKeyset checks that a failed start left no keyset.
func checkNoKeyset(t *testing.T, dataDir string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dataDir, "keyset.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the failed start created a keyset: %v", err)
	}
}

// unprivilegedDatabaseURL returns the URL of a migrated database, for a role without privileges.
// The role is removed with the test's database server.
func unprivilegedDatabaseURL(t *testing.T) string {
	t.Helper()
	ownerURL, role := testserver.Database(t), "reader_"+strings.ToLower(rand.Text())
	runTenantry(t, []string{"TENANTRY_DATABASE_URL=" + ownerURL, "TENANTRY_DATA_DIR=" + t.TempDir()}, "migrate", "-o", "json").mustJSON(t)
	execPostgres(t, ownerURL, "CREATE ROLE "+role)
	return testserver.WithParameter(ownerURL, "role="+role)
}

// TestServeNeedsNoRightToCreateTables checks that the service starts and answers with a database
// role that may only read and write rows. A different role ran the migrations.
func TestServeNeedsNoRightToCreateTables(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	databaseURL := unprivilegedDatabaseURL(t)
	ownerURL, role, _ := strings.Cut(databaseURL, "role=")
	for _, schema := range []string{"public", "tenantry_queue"} {
		execPostgres(t, ownerURL, "GRANT USAGE ON SCHEMA "+schema+" TO "+role)
		execPostgres(t, ownerURL, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "+schema+" TO "+role)
		execPostgres(t, ownerURL, "GRANT USAGE ON ALL SEQUENCES IN SCHEMA "+schema+" TO "+role)
	}
	env := fixture.env(t.TempDir(), databaseURL)
	id, key := fixture.newAccount(env, "ann@example.com", "complete", 0)
	p, server := fixture.serve(env)
	caller{client: server, id: id, email: "ann@example.com", key: key}.checkTenants()
	must(t, p.stop())
}

// TestLostKeysetIsNotReplaced checks that serve creates no keyset if the database has values that a
// lost keyset encrypted. With `keyset create` the operator can give up the encrypted values.
func TestLostKeysetIsNotReplaced(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	dataDir := t.TempDir()
	env := fixture.env(dataDir, "")
	_, key := fixture.newAccount(env, "owner@example.com", "complete", 0)
	p, c := fixture.serve(env) // creates the keyset, because the database has no encrypted value yet
	c.ready.APIKey = key
	guid, admin := fixture.newTenant(c)
	newAdministrator(t, admin).connect(c, key)
	accountTenant{caller: caller{c, "", "owner@example.com", key}, guid: guid}.mustSync()
	must(t, p.stop())
	keyset := filepath.Join(dataDir, "keyset.json")
	must(t, os.Rename(keyset, keyset+".lost"))
	checkCommandFails(t, fixture, env, cli.ExitRefused, []string{"there is no keyset at " + keyset, "from its backup", "tenantry keyset create"}, "serve")
	checkNoKeyset(t, dataDir)
	fixture.runCommand(env, "keyset", "create")
	fixture.serve(env)
}

// databaseLink is a TCP proxy to a server. A test can cut all its connections.
type databaseLink struct {
	t             *testing.T
	target        string
	listenAddress string

	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn
}

// newDatabaseLink starts a proxy to the server at target.
func newDatabaseLink(t *testing.T, target string) *databaseLink {
	t.Helper()
	link := &databaseLink{t: t, target: target, listenAddress: "127.0.0.1:0"}
	link.connect()
	t.Cleanup(link.cut)
	return link
}

// connect listens and forwards connections to the target.
func (link *databaseLink) connect() {
	link.t.Helper()
	listener, err := net.Listen("tcp", link.listenAddress)
	must(link.t, err)
	link.mu.Lock()
	link.listener, link.listenAddress = listener, listener.Addr().String()
	link.mu.Unlock()
	go func() {
		for {
			clientConn, err := listener.Accept()
			if err != nil {
				return
			}
			serverConn, err := net.Dial("tcp", link.target)
			if err != nil {
				_ = clientConn.Close()
				continue
			}
			link.mu.Lock()
			link.conns = append(link.conns, clientConn, serverConn)
			link.mu.Unlock()
			go func() { _, _ = io.Copy(serverConn, clientConn); _ = serverConn.Close() }()
			go func() { _, _ = io.Copy(clientConn, serverConn); _ = clientConn.Close() }()
		}
	}()
}

// cut closes the listener and all connections.
func (link *databaseLink) cut() {
	link.mu.Lock()
	defer link.mu.Unlock()
	_ = link.listener.Close()
	for _, conn := range link.conns {
		_ = conn.Close()
	}
	link.conns = nil
}

// TestServiceRecoversFromADatabaseRestart checks that the service answers requests with 503 and
// Retry-After and is not ready while the database is down. Afterwards it recovers by itself.
func TestServiceRecoversFromADatabaseRestart(t *testing.T) {
	t.Parallel()
	directURL := testserver.Database(t)
	proxiedURL, err := url.Parse(directURL)
	must(t, err)
	link := newDatabaseLink(t, proxiedURL.Host)
	proxiedURL.Host = link.listenAddress
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	env := fixture.env(t.TempDir(), proxiedURL.String())
	fixture.runCommand(env, "migrate")
	_, key := fixture.newAccount(env, "ann@example.com", "complete", 0)
	_, c := fixture.serve(env)
	var seenStatuses sync.Map
	var readersStop atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ; !readersStop.Load(); <-time.After(10 * time.Millisecond) {
				got, err := c.tryDo("GET", c.ready.APIURL+"/v1/tenants", key, nil)
				if err != nil {
					t.Errorf("a read got no answer: %v", err)
					return
				}
				if got.status == http.StatusServiceUnavailable && got.header.Get("Retry-After") == "" {
					t.Errorf("an answer 503 has no Retry-After: %s", got.raw)
				}
				if _, isKnown := seenStatuses.LoadOrStore(got.status, true); !isKnown && got.status != 200 && got.status != 503 {
					t.Errorf("a read is answered %d %s, want 200 or 503", got.status, got.raw)
				}
			}
		})
	}
	statusSeen := func(status int) func() bool {
		return func() bool { _, isSeen := seenStatuses.Load(status); return isSeen }
	}
	c.eventually("reads work", statusSeen(200))
	db, err := sql.Open("pgx", directURL)
	must(t, err)
	defer func() { _ = db.Close() }()
	// PostgreSQL does the same in a fast shutdown: it ends its sessions and then stops.
	if _, err := db.ExecContext(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"); err != nil {
		t.Fatal(err)
	}
	link.cut()
	c.eventually("a read is answered 503", statusSeen(503))
	c.eventually("/readyz answers 503", func() bool { return c.do("GET", c.ready.AdminURL+"/readyz", "", nil).status == 503 })
	link.connect()
	seenStatuses.Delete(200)
	c.eventually("reads work again", statusSeen(200))
	c.eventually("/readyz answers 200 again", func() bool { return c.do("GET", c.ready.AdminURL+"/readyz", "", nil).status == 200 })
	readersStop.Store(true)
	readers.Wait()
	if got := c.do("GET", c.ready.APIURL+"/v1/tenants", key, nil); got.status != http.StatusOK {
		t.Errorf("the last read is answered %s with the status %d, want 200", strconv.Quote(string(got.raw)), got.status)
	}
}

// TestIdleServiceMakesFewTransactions counts the transactions of a service that gets no requests
// and runs all its background jobs. At least one period must have at most 4 transactions a second.
// Other periods may have more: some jobs run once a minute, and on a busy machine delayed jobs run
// at the same time.
func TestIdleServiceMakesFewTransactions(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	database := testserver.Database(t)
	env := fixture.env(t.TempDir(), database)
	fixture.runCommand(env, "migrate")
	fixture.newAccount(env, "ann@example.com", "complete", 0)
	fixture.serve(env)
	db, err := sql.Open("pgx", database)
	must(t, err)
	defer func() { _ = db.Close() }()
	countTransactions := func() (n int) {
		t.Helper()
		const query = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
		must(t, db.QueryRowContext(t.Context(), query).Scan(&n))
		return n
	}
	const period, maxTransactions, periods = 5 * time.Second, 20, 120
	var counts []int
	for before := countTransactions(); len(counts) < periods; before = countTransactions() {
		time.Sleep(period)
		counts = append(counts, countTransactions()-before)
		if counts[len(counts)-1] <= maxTransactions {
			return
		}
	}
	t.Errorf("an idle service made %v transactions in periods of %s, want at most %d in one of them", counts, period, maxTransactions)
}
