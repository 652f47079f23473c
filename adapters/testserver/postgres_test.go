// SPDX-License-Identifier: Apache-2.0

package testserver_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// childEnv is an environment variable. If it is set, this test binary starts a server and waits
// until a test kills it.
const childEnv = "TENANTRY_TESTSERVER_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	postgres, err := testserver.StartPostgres(context.Background())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(postgres.URL)
	select {}
}

func TestPostgresNeedsAPasswordAndLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", sharedTempDir(t))
	postgres, err := testserver.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	serverURL, err := url.Parse(postgres.URL)
	if err != nil || serverURL.Hostname() != "127.0.0.1" {
		t.Errorf("the URL is %q (%v), want one on loopback", postgres.URL, err)
	}
	wrongPassword := *serverURL
	wrongPassword.User = url.UserPassword(serverURL.User.Username(), "guess")
	if conn, err := pgx.Connect(t.Context(), wrongPassword.String()); err == nil {
		_ = conn.Close(t.Context())
		t.Error("the server accepts a wrong password")
	}
	postgres.Stop()
	waitUntilGone(t, serverURL.Host)
}

func TestPostgresEndsWhenItsParentIsKilled(t *testing.T) {
	t.Setenv("TMPDIR", sharedTempDir(t))
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"=1")
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	firstLine := bufio.NewScanner(stdout)
	firstLine.Scan()
	serverURL, err := url.Parse(firstLine.Text())
	if err != nil || serverURL.Host == "" {
		t.Fatalf("the child printed %q, want the URL of its server", firstLine.Text())
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	waitUntilGone(t, serverURL.Host)
}

// waitUntilGone waits until the port of a PostgreSQL server is closed and the server's files are
// removed.
func waitUntilGone(t *testing.T, host string) {
	t.Helper()
	deadline := time.After(5 * time.Minute)
	for {
		files, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "tenantry-postgres-*"))
		conn, err := net.DialTimeout("tcp", host, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		if err != nil && len(files) == 0 {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("after 5 minutes the files are %v, want none; port open: %v, want false", files, err == nil)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// sharedTempDir returns a directory that the server's user can access, unlike t.TempDir.
func sharedTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "shared-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}
