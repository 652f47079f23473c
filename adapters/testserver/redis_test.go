// SPDX-License-Identifier: Apache-2.0

package testserver_test

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
)

func TestRedisRestartsAndLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", sharedTempDir(t))
	redis := testserver.NewRedis(t)
	serverURL, err := url.Parse(redis.URL)
	if err != nil || serverURL.Hostname() != "127.0.0.1" {
		t.Fatalf("the URL is %q (%v), want one on loopback", redis.URL, err)
	}
	redis.DeleteAllData(t)
	if owner := serverUser(t, "tenantry-redis-*"); owner == 0 {
		t.Error("the server runs as root, want a different user")
	}
	redis.Stop()
	if conn, err := net.Dial("tcp", serverURL.Host); err == nil {
		_ = conn.Close()
		t.Error("the stopped server accepts connections")
	}
	redis.Start(t)
	redis.DeleteAllData(t)
	redis.Suspend(t)
	redis.Stop()
	if remaining, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "tenantry-redis-*")); len(remaining) > 0 {
		t.Errorf("the stopped server left the files %v", remaining)
	}
}

// serverUser returns the id of the user of the only running server whose directory matches pattern.
func serverUser(t *testing.T, pattern string) uint32 {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), pattern, "server.pid"))
	if len(files) != 1 {
		t.Fatalf("the files of running servers are %v, want one", files)
	}
	pid, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join("/proc", strings.TrimSpace(string(pid))))
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}
