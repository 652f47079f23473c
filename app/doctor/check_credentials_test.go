// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/bunstore/maintenance"
	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/webhook"
)

// TestKeysetOfAnotherDatabaseFails checks that doctor accepts the keyset that encrypted the
// webhook's secret in the database, and reports a different keyset as a failure. For the different
// keyset, the start of the service logs a warning.
func TestKeysetOfAnotherDatabaseFails(t *testing.T) {
	url, folder := "sqlite://"+filepath.Join(t.TempDir(), "tenantry.db"), t.TempDir()
	rightKeyset, wrongKeyset := filepath.Join(folder, "right.json"), filepath.Join(folder, "wrong.json")
	store := apptest.OpenStore(t, url)
	sealer, err := secrets.OpenKeyset(rightKeyset, secrets.CreateMissing)
	apptest.Must(t, err)
	_, err = secrets.CreateKeyset(wrongKeyset)
	apptest.Must(t, err)
	sealed, err := sealer.Seal(secret.New("whsec"), "p")
	apptest.Must(t, err)
	account, err := store.CreateAccount(t.Context(), "ann@example.test", "complete", 0, time.Now())
	apptest.Must(t, err)
	addWebhook(t, store, account.ID, sealed)
	db, err := maintenance.Inspect(t.Context(), url)
	apptest.Must(t, err)
	defer func() { _ = db.Close() }()
	for file, want := range map[string]string{rightKeyset: OK, wrongKeyset: Failed} {
		e := &examination{config: settings.Config{KeysetFile: file}, openDatabase: func() (*maintenance.Inspection, error) { return db, nil }}
		got := e.checkKeyset(t.Context())
		if got.status != want || want == Failed && (!strings.Contains(got.summary, "tables webhooks") || !strings.Contains(got.fix, "keyset_file")) {
			t.Errorf("%s: got %+v, want the status %s, and a failure that names the table and the setting", file, got, want)
		}
		var logs bytes.Buffer
		service := &wiring.Service{Store: store, Log: slog.New(slog.NewTextHandler(&logs, nil))}
		service.WarnOfMissingKeys(t.Context(), file)
		if warned := strings.Contains(logs.String(), "tables webhooks"); warned != (want == Failed) {
			t.Errorf("%s: the start logs %q, but the check should be %s", file, logs.String(), want)
		}
	}
}

// addWebhook adds a webhook with an encrypted secret.
func addWebhook(t *testing.T, store *bunstore.Store, owner access.AccountID, sealed []byte) {
	t.Helper()
	apptest.Must(t, store.AddWebhook(t.Context(), webhook.Webhook{ID: "019a52d0-04e1-7f11-9c3b-7d4e52a1b00d", Account: owner, URL: "https://a.test/",
		Status: webhook.Enabled, Types: []event.Type{event.KeyCreated}, Secrets: webhook.Secrets{Current: sealed}, CreatedAt: time.Now()}, nil))
}

// TestMissingKeysetFailsIfValuesAreEncrypted checks that a missing keyset is a failure exactly if
// `tenantry serve` refuses to create one. An account alone does not make it a failure, because the
// account's row contains no encrypted value.
func TestMissingKeysetFailsIfValuesAreEncrypted(t *testing.T) {
	url := "sqlite://" + filepath.Join(t.TempDir(), "tenantry.db")
	requireStatus := func(stored, want string, store *bunstore.Store) {
		t.Helper()
		c := settings.Config{DatabaseURL: url, KeysetFile: filepath.Join(t.TempDir(), "keyset.json")}
		db, err := maintenance.Inspect(t.Context(), url)
		apptest.Must(t, err)
		defer func() { _ = db.Close() }()
		e := &examination{config: c, openDatabase: func() (*maintenance.Inspection, error) { return db, nil }}
		if got := e.checkKeyset(t.Context()); got.status != want {
			t.Errorf("with %s: got %+v, want the status %s", stored, got, want)
		}
		if _, err := wiring.OpenKeyset(t.Context(), c, store, secrets.CreateMissing); (err != nil) != (want == Failed) {
			t.Errorf("with %s: serve opens the keyset with the error %v, but the status of the check should be %s", stored, err, want)
		}
	}
	store := apptest.OpenStore(t, url)
	account, err := store.CreateAccount(t.Context(), "ann@example.test", "complete", 0, time.Now())
	apptest.Must(t, err)
	requireStatus("an account", Warning, store)

	addWebhook(t, store, account.ID, []byte("encrypted"))
	requireStatus("a webhook with its secret", Failed, store)
}
