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

// TestServeThatCannotStart: it says why and what to do, and ends.
func TestServeThatCannotStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, binary(t, release))
	data := t.TempDir()
	_, c := r.serve(r.env(data, ""))
	taken := strings.TrimPrefix(c.ready.APIURL, "http://")
	t.Run("the port is taken", func(t *testing.T) {
		refusedToStart(t, r, append(r.env(t.TempDir(), ""), "TENANTRY_LISTEN="+taken), cli.ExitRefused, []string{taken, "address already in use", "another address"}, "serve")
	})
	t.Run("the data folder is in use", func(t *testing.T) {
		refusedToStart(t, r, r.env(data, ""), cli.ExitRefused, []string{"another tenantry serves", data, "another data_dir"}, "serve")
	})
	t.Run("nobody is at the database's address", func(t *testing.T) {
		nobody, data := "postgres://u:p@"+testserver.FreeAddress(t)+"/tenantry", t.TempDir()
		for _, args := range [][]string{{"serve"}, {"migrate"}, {"account", "list"}} {
			refusedToStart(t, r, r.env(data, nobody), cli.ExitOutside, []string{"the database does not answer", "database_url"}, args...)
		}
		noKeyset(t, data)
	})
	t.Run("there is no plugin catalog", func(t *testing.T) {
		data, dir := t.TempDir(), t.TempDir()
		refusedToStart(t, r, append(r.env(data, ""), "TENANTRY_PLUGIN_DIR="+dir), cli.ExitRefused, []string{"plugins: ", dir, "tenantry plugin add --plugin-dir " + dir}, "serve")
		noKeyset(t, data)
	})
	t.Run("the keyset is none", func(t *testing.T) {
		refusedToStart(t, r, append(r.env(t.TempDir(), ""), "TENANTRY_KEYSET_FILE="+fileWith(t, "{}", 0o600)), cli.ExitRefused, []string{"is not a keyset", "keyset_file"}, "serve")
	})
	t.Run("the database's user lacks rights", func(t *testing.T) {
		refusedToStart(t, r, r.env(t.TempDir(), asReader(t)), cli.ExitRefused, []string{"permission denied", "the right that it lacks"}, "serve")
	})
	t.Run("migrations are missing", func(t *testing.T) {
		refusedToStart(t, r, r.env(t.TempDir(), testserver.Database(t)), cli.ExitRefused, []string{"migrations are missing", "tenantry migrate"}, "serve")
	})
	if got := c.do("GET", c.ready.AdminURL+"/readyz", "", nil); got.status != http.StatusOK {
		t.Errorf("the first server: %d", got.status)
	}
}

// noKeyset: what could not start left none behind.
func noKeyset(t *testing.T, data string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(data, "keyset.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a keyset was made: %v", err)
	}
}

// asReader is a migrated database as a role reaches it that may do nothing. It
// goes with the tests' server.
func asReader(t *testing.T) string {
	t.Helper()
	url, role := testserver.Database(t), "reader_"+strings.ToLower(rand.Text())
	operate(t, []string{"TENANTRY_DATABASE_URL=" + url, "TENANTRY_DATA_DIR=" + t.TempDir()}, "migrate", "-o", "json").json(t)
	behindTheBack(t, url, "CREATE ROLE "+role)
	return url + separator(url) + "role=" + role
}

// TestLostKeyset: no new keyset is made beside a database that holds what
// another one sealed, unless the operator gives that up.
func TestLostKeyset(t *testing.T) {
	t.Parallel()
	r := newRig(t, binary(t, release))
	data := t.TempDir()
	env := r.env(data, "")
	_, key := r.account(env, "owner@example.com", "complete", 0)
	p, c := r.serve(env) // a database in use, and nothing sealed: this makes the keyset
	c.ready.APIKey = key
	guid, admin := r.tenant(c)
	newAdministrator(t, admin).connects(c, key)
	holding{caller: caller{c, "", "owner@example.com", key}, guid: guid}.synced()
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	keyset := filepath.Join(data, "keyset.json")
	if err := os.Rename(keyset, keyset+".lost"); err != nil {
		t.Fatal(err)
	}
	refusedToStart(t, r, env, cli.ExitRefused, []string{"there is no keyset at " + keyset, "from its backup", "tenantry keyset create"}, "serve")
	noKeyset(t, data)
	r.command(env, "keyset", "create")
	r.serve(env)
}

// cable is a way to a server that can be cut.
type cable struct {
	t  *testing.T
	to string
	at string

	mu       sync.Mutex
	listener net.Listener
	ends     []net.Conn
}

func newCable(t *testing.T, to string) *cable {
	t.Helper()
	c := &cable{t: t, to: to, at: "127.0.0.1:0"}
	c.plug()
	t.Cleanup(c.cut)
	return c
}

func (c *cable) plug() {
	c.t.Helper()
	l, err := net.Listen("tcp", c.at)
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.listener, c.at = l, l.Addr().String()
	c.mu.Unlock()
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", c.to)
			if err != nil {
				_ = near.Close()
				continue
			}
			c.mu.Lock()
			c.ends = append(c.ends, near, far)
			c.mu.Unlock()
			go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
			go func() { _, _ = io.Copy(near, far); _ = near.Close() }()
		}
	}()
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.listener.Close()
	for _, end := range c.ends {
		_ = end.Close()
	}
	c.ends = nil
}

// TestDatabaseRestart: while the database is away requests are answered 503
// with when to come back, the service is not ready, and once it is back all
// goes on by itself.
func TestDatabaseRestart(t *testing.T) {
	t.Parallel()
	direct := testserver.Database(t)
	address, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	line := newCable(t, address.Host)
	address.Host = line.at
	r := newRig(t, binary(t, release))
	env := r.env(t.TempDir(), address.String())
	r.command(env, "migrate")
	_, key := r.account(env, "ann@example.com", "complete", 0)
	_, c := r.serve(env)
	var answers sync.Map
	var stop atomic.Bool
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for ; !stop.Load(); <-time.After(10 * time.Millisecond) {
				got, err := c.try("GET", c.ready.APIURL+"/v1/tenants", key, nil)
				if err != nil {
					t.Errorf("no answer: %v", err)
					return
				}
				if got.status == http.StatusServiceUnavailable && got.header.Get("Retry-After") == "" {
					t.Errorf("503 without Retry-After: %s", got.raw)
				}
				if _, known := answers.LoadOrStore(got.status, true); !known && got.status != 200 && got.status != 503 {
					t.Errorf("%d %s", got.status, got.raw)
				}
			}
		})
	}
	came := func(status int) func() bool {
		return func() bool { _, ok := answers.Load(status); return ok }
	}
	c.eventually("reads work", came(200))
	db, err := sql.Open("pgx", direct)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	// As at a fast shutdown: the server ends its sessions, then is gone.
	if _, err := db.ExecContext(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"); err != nil {
		t.Fatal(err)
	}
	line.cut()
	c.eventually("503", came(503))
	c.eventually("not ready", func() bool { return c.do("GET", c.ready.AdminURL+"/readyz", "", nil).status == 503 })
	line.plug()
	answers.Delete(200)
	c.eventually("reads work again", came(200))
	c.eventually("ready again", func() bool { return c.do("GET", c.ready.AdminURL+"/readyz", "", nil).status == 200 })
	stop.Store(true)
	all.Wait()
	if got := c.do("GET", c.ready.APIURL+"/v1/tenants", key, nil); got.status != http.StatusOK {
		t.Errorf("at last %s: %d", strconv.Quote(string(got.raw)), got.status)
	}
}
