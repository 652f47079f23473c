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

// TestKeysetOfAnotherDatabaseFails checks that the check of the keyset fails exactly if the keyset
// did not encrypt the webhook's secret in the database. The start of the service logs a warning in
// the same case.
func TestKeysetOfAnotherDatabaseFails(t *testing.T) {
	url, folder := "sqlite://"+filepath.Join(t.TempDir(), "tenantry.db"), t.TempDir()
	right, wrong := filepath.Join(folder, "right.json"), filepath.Join(folder, "wrong.json")
	store := apptest.OpenStore(t, url)
	sealer, err := secrets.OpenKeyset(right, secrets.CreateMissing)
	apptest.Must(t, err)
	_, err = secrets.CreateKeyset(wrong)
	apptest.Must(t, err)
	sealed, err := sealer.Seal(secret.New("whsec"), "p")
	apptest.Must(t, err)
	account, err := store.CreateAccount(t.Context(), "ann@example.test", "complete", 0, time.Now())
	apptest.Must(t, err)
	addWebhook(t, store, account.ID, sealed)
	db, err := maintenance.Inspect(t.Context(), url)
	apptest.Must(t, err)
	defer func() { _ = db.Close() }()
	for file, want := range map[string]string{right: OK, wrong: Failed} {
		e := &examination{config: settings.Config{KeysetFile: file}, openDatabase: func() (*maintenance.Inspection, error) { return db, nil }}
		f := e.checkKeyset(t.Context())
		if f.status != want || want == Failed && (!strings.Contains(f.summary, "tables webhooks") || !strings.Contains(f.fix, "keyset_file")) {
			t.Errorf("%s: got %+v, want the status %s, and a failure that names the table and the setting", file, f, want)
		}
		var logs bytes.Buffer
		s := &wiring.Service{Store: store, Log: slog.New(slog.NewTextHandler(&logs, nil))}
		s.WarnOfMissingKeys(t.Context(), file)
		if warned := strings.Contains(logs.String(), "tables webhooks"); warned != (want == Failed) {
			t.Errorf("%s: the start logs %q, want a warning exactly if the check fails", file, logs.String())
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

	addWebhook(t, store, account.ID, []byte("encrypted"))
	expectFinding("a webhook with its secret", Failed, store)
}
