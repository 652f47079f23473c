// SPDX-License-Identifier: Apache-2.0

package testserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Database creates a database for a test, drops it after the test and returns its URL.
func Database(t testing.TB) string {
	t.Helper()
	created, err := CreateDatabase()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := DropDatabase(created); err != nil {
			t.Error(err)
		}
	})
	return created
}

// CreateDatabase creates an empty database and returns its URL. It fails without a server, so that
// tests on PostgreSQL are never skipped.
func CreateDatabase() (string, error) {
	server, err := url.Parse(os.Getenv(PostgresEnv))
	if err != nil || server.Host == "" {
		return "", errors.New("no PostgreSQL for this test: run `make test`, which starts one")
	}
	name := "t_" + strings.ToLower(rand.Text())
	created := *server
	created.Path = "/" + name
	return created.String(), runStatement(server.String(), "CREATE DATABASE "+name+" TEMPLATE template0")
}

// WithParameter returns databaseURL with a further query parameter, for example "role=reader".
func WithParameter(databaseURL, parameter string) string {
	if strings.Contains(databaseURL, "?") {
		return databaseURL + "&" + parameter
	}
	return databaseURL + "?" + parameter
}

// DropDatabase drops a database that CreateDatabase created. It first closes the connections to the
// database.
func DropDatabase(databaseURL string) error {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return err
	}
	return runStatement(os.Getenv(PostgresEnv), "DROP DATABASE "+strings.TrimPrefix(u.Path, "/")+" WITH (FORCE)")
}

// runStatement runs one statement through psql, so that this package needs no driver.
func runStatement(server, statement string) error {
	bin, err := postgresBinaries()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	psql := exec.CommandContext(ctx, filepath.Join(bin, "psql"), "--no-psqlrc", "--quiet", "--command", statement, server)
	if out, err := psql.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", statement, err, out)
	}
	return nil
}
