// SPDX-License-Identifier: Apache-2.0

package testserver

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Env names the variable with the URL of the test server's superuser.
const Env = "TENANTRY_TEST_POSTGRES_URL"

// Database makes a database of its own for a test, drops it afterwards and
// returns its URL. Without a server the test fails: PostgreSQL is one of the
// two databases that tenantry promises to run on.
func Database(t testing.TB) string {
	t.Helper()
	server, err := url.Parse(os.Getenv(Env))
	if err != nil || server.Host == "" {
		t.Fatal("no PostgreSQL for this test: run `make test`, which starts one")
	}
	name := "t_" + strings.ToLower(rand.Text())
	query(t, server.String(), "CREATE DATABASE "+name+" TEMPLATE template0")
	t.Cleanup(func() { query(t, server.String(), "DROP DATABASE "+name+" WITH (FORCE)") })
	own := *server
	own.Path = "/" + name
	return own.String()
}

// query runs one statement through psql, so that this package needs no driver.
func query(t testing.TB, server, statement string) {
	t.Helper()
	bin, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	// Not the test's own context: that one has ended when cleanups run.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	psql := exec.CommandContext(ctx, filepath.Join(bin, "psql"), "--no-psqlrc", "--quiet", "--command", statement, server)
	if out, err := psql.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", statement, err, out)
	}
}
