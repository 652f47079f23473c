// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/bunstore/maintenance"
	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/webhook"
)

// TestMissingKeysetFailsIfValuesAreEncrypted checks that a missing keyset is a failure exactly if
// `tenantry serve` refuses to create one. A new installation already has accounts, whose rows
// contain no encrypted values.
func TestMissingKeysetFailsIfValuesAreEncrypted(t *testing.T) {
	url := "sqlite://" + filepath.Join(t.TempDir(), "tenantry.db")
	expectFinding := func(state, want string, store *bunstore.Store) {
		t.Helper()
		c := settings.Config{DatabaseURL: url, KeysetFile: filepath.Join(t.TempDir(), "keyset.json")}
		db, err := maintenance.Inspect(t.Context(), url)
		apptest.Must(t, err)
		defer func() { _ = db.Close() }()
		e := &examination{config: c, openDatabase: func() (*maintenance.Inspection, error) { return db, nil }}
		if f := e.checkKeyset(t.Context()); f.status != want {
			t.Errorf("%s: got %+v, want the status %s", state, f, want)
		}
		if _, err := wiring.OpenKeyset(t.Context(), c, store, secrets.CreateMissing); (err != nil) != (want == Failed) {
			t.Errorf("%s: serve opens the keyset with the error %v, but the check must be %s", state, err, want)
		}
	}
	store := apptest.OpenStore(t, url)
	account, err := store.CreateAccount(t.Context(), "ann@example.test", "complete", 0, time.Now())
	apptest.Must(t, err)
	expectFinding("an account", Warning, store)

	apptest.Must(t, store.AddWebhook(t.Context(), webhook.Webhook{ID: "019a52d0-04e1-7f11-9c3b-7d4e52a1b00d", Account: account.ID, URL: "https://a.test/",
		Status: webhook.Enabled, Types: []event.Type{event.KeyCreated}, Secrets: webhook.Secrets{Current: []byte("encrypted")}, CreatedAt: time.Now()}, nil))
	expectFinding("a webhook with its secret", Failed, store)
}
