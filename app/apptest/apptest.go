// SPDX-License-Identifier: Apache-2.0

// Package apptest has helpers that tests of several packages share. Only tests import it.
package apptest

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// HangTimeout is a time limit that only a hanging test reaches, even on a slow machine.
const HangTimeout = 5 * time.Minute

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// RequireRefusal ends the test unless err has the error code.
func RequireRefusal(t testing.TB, err, code error) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("got the error %v, want %v", err, code)
	}
}

// NewStore returns an empty SQLite database in memory. The end of the test closes it.
func NewStore(t testing.TB) *bunstore.Store {
	t.Helper()
	return OpenStore(t, bunstore.MemoryURL)
}

// StoreOptions returns options with which only a hanging database reaches a timeout of the store.
func StoreOptions() (o bunstore.Options) {
	o.Timeouts.Open, o.Timeouts.Query, o.Timeouts.Slot = HangTimeout, HangTimeout, HangTimeout
	return o
}

// OpenStore opens a database with StoreOptions and migrates it. The end of the test closes it.
func OpenStore(t testing.TB, url string) *bunstore.Store {
	t.Helper()
	store, err := bunstore.Open(t.Context(), url, StoreOptions())
	Must(t, err)
	t.Cleanup(func() { Must(t, store.Close()) })
	Must(t, store.Migrate(t.Context()))
	return store
}

// ChangeTenant changes a stored tenant.
func ChangeTenant(t testing.TB, store *bunstore.Store, owner access.AccountID, id tenant.GUID, change func(*tenant.Tenant)) {
	t.Helper()
	stored, err := store.Tenant(t.Context(), owner, id)
	Must(t, err)
	change(&stored)
	Must(t, store.SaveTenant(t.Context(), owner, stored))
}

// NewSealer returns a sealer with a new keyset.
func NewSealer(t testing.TB) ports.Sealer {
	t.Helper()
	sealer, err := secrets.OpenKeyset(filepath.Join(t.TempDir(), "keyset.json"), secrets.CreateMissing)
	Must(t, err)
	return sealer
}

// InFakeTime runs a subtest in fake time. Fake time advances only while all goroutines wait, so
// time limits do not depend on the speed of the machine.
func InFakeTime(t *testing.T, name string, run func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, run) })
}
