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

// childEnv makes this test binary start a server and wait to be killed.
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
	p, err := testserver.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(p.URL)
	if err != nil || u.Hostname() != "127.0.0.1" {
		t.Errorf("URL %q is not on loopback (%v)", p.URL, err)
	}
	wrongPassword := *u
	wrongPassword.User = url.UserPassword(u.User.Username(), "guess")
	if conn, err := pgx.Connect(t.Context(), wrongPassword.String()); err == nil {
		_ = conn.Close(t.Context())
		t.Error("the server accepts a wrong password")
	}
	p.Stop()
	waitUntilGone(t, u.Host)
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
	line := bufio.NewScanner(stdout)
	line.Scan()
	u, err := url.Parse(line.Text())
	if err != nil || u.Host == "" {
		t.Fatalf("the child printed %q, want the URL of its server", line.Text())
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	waitUntilGone(t, u.Host)
}

// waitUntilGone waits until the port is closed and the files are removed.
func waitUntilGone(t *testing.T, host string) {
	t.Helper()
	deadline := time.After(5 * time.Minute)
	for {
		remaining, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "tenantry-postgres-*"))
		conn, err := net.DialTimeout("tcp", host, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		if err != nil && len(remaining) == 0 {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("the server is still there: files %v, port open: %v", remaining, err == nil)
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
