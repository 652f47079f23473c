// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/tenantry/tenantry/adapters/sandbox"
	"github.com/tenantry/tenantry/adapters/testserver"
)

// One sandbox serves every test that keeps to accounts and tenants of its own.
// Tests that plan faults, read the journal or move the clock start one of
// their own.
var shared struct {
	start   sync.Once
	process *process
	ready   sandbox.Ready
	err     error
}

// common is the owner of the shared sandbox.
func common(t *testing.T) caller {
	t.Helper()
	b := binary(t, release)
	shared.start.Do(func() {
		shared.process, shared.ready, shared.err = launchDev(b, filepath.Join(scratch, "shared"), nil)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs of the shared sandbox:\n%s", tail(shared.process.logs.String(), 3000))
		}
	})
	return ownerAt(t, shared.ready)
}

// stopShared ends the shared sandbox, if it was started.
func stopShared() error {
	if shared.process == nil {
		return nil
	}
	return shared.process.stop()
}

// alone is the owner of a sandbox that only this test uses.
func alone(t *testing.T, args ...string) caller {
	t.Helper()
	_, ready := startDev(t, binary(t, release), t.TempDir(), nil, append([]string{"--no-seed"}, args...)...)
	return ownerAt(t, ready)
}

// onBothDatabases runs a test in the given sandbox on SQLite, and in one of its
// own on PostgreSQL.
func onBothDatabases(t *testing.T, sqlite func(*testing.T) caller, test func(*testing.T, caller)) {
	t.Helper()
	for name, start := range map[string]func(*testing.T) caller{
		"sqlite": sqlite, "postgres": func(t *testing.T) caller { return alone(t, "--database", testserver.Database(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}
