// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/webhook"
)

func TestDataSurvivesReopen(t *testing.T) {
	url := "sqlite://" + filepath.Join(t.TempDir(), "t.db")
	beforeReopening, err := Open(t.Context(), url, Options{})
	must(t, "open", err)
	must(t, "migrate", beforeReopening.Migrate(t.Context()))
	account, err := beforeReopening.CreateAccount(t.Context(), "ann@example.test", "complete", 0, time.Now())
	must(t, "create account", err)
	must(t, "close", beforeReopening.Close())
	if got, err := migratedStore(t, url).FindAccount(t.Context(), "ann@example.test"); err != nil || got != account {
		t.Fatalf("after the reopening: got %+v, %v, want %+v", got, err, account)
	}
}

func TestSealedValuesAreFound(t *testing.T) {
	for table, add := range map[string]func(t testing.TB, s *Store, owner access.AccountID){
		"dns_connections": func(t testing.TB, s *Store, owner access.AccountID) { addDNSConnection(t, s, owner, 1) },
		"integrations":    func(t testing.TB, s *Store, owner access.AccountID) { addIntegration(t, s, owner, 1) },
		"webhooks": func(t testing.TB, s *Store, owner access.AccountID) {
			addWebhook(t, s, owner, func(hook *webhook.Webhook) { hook.Secrets.Previous = []byte("older secret") })
		},
	} {
		t.Run(table, func(t *testing.T) {
			databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
				s := migratedStore(t, url(t))
				ann := newAccount(t, s, "ann")
				if holds, err := s.HasSealedValues(t.Context()); err != nil || holds {
					t.Errorf("without a row: got %v, %v, want false", holds, err)
				}
				add(t, s, ann)
				add(t, s, newAccount(t, s, "bob"))
				if holds, err := s.HasSealedValues(t.Context()); err != nil || !holds {
					t.Errorf("with a row: got %v, %v, want true", holds, err)
				}
				got, err := s.SealedPrefixes(t.Context())
				want := map[string]string{"dns_connections": `["\x00\x01\xff"]`, "integrations": `["\x00\x01\xff"]`, "webhooks": `["seale" "older"]`}[table]
				if text := fmt.Sprintf("%q", got[table]); err != nil || text != want {
					t.Errorf("with two rows the encrypted values begin with %s (%v), want %s", text, err, want)
				}
			})
		})
	}
}
