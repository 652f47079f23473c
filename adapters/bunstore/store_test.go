// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/webhook"
)

func TestDataSurvivesReopen(t *testing.T) {
	url := "sqlite://" + filepath.Join(t.TempDir(), "t.db")
	first, err := Open(t.Context(), url, Options{})
	must(t, "open", err)
	must(t, "migrate", first.Migrate(t.Context()))
	account, err := first.CreateAccount(t.Context(), "ann@example.test", "complete", 0, time.Now())
	must(t, "create account", err)
	must(t, "close", first.Close())
	if got, err := migratedStore(t, url).FindAccount(t.Context(), "ann@example.test"); err != nil || got != account {
		t.Fatalf("after the reopening: got %+v, %v, want %+v", got, err, account)
	}
}

func TestHasSealedValuesFindsCredentials(t *testing.T) {
	for label, add := range map[string]func(t testing.TB, s *Store, owner access.AccountID){
		"a DNS connection": func(t testing.TB, s *Store, owner access.AccountID) { addDNSConnection(t, s, owner, 1) },
		"an integration":   func(t testing.TB, s *Store, owner access.AccountID) { addIntegration(t, s, owner, 1) },
		"a webhook": func(t testing.TB, s *Store, owner access.AccountID) {
			addWebhook(t, s, owner, func(*webhook.Webhook) {})
		},
	} {
		t.Run(label, func(t *testing.T) {
			databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
				s := migratedStore(t, url(t))
				ann := newAccount(t, s, "ann")
				if holds, err := s.HasSealedValues(t.Context()); err != nil || holds {
					t.Errorf("without a credential: got %v, %v, want false", holds, err)
				}
				add(t, s, ann)
				if holds, err := s.HasSealedValues(t.Context()); err != nil || !holds {
					t.Errorf("with %s: got %v, %v, want true", label, holds, err)
				}
			})
		})
	}
}
