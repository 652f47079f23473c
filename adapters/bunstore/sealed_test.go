// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/integration"
)

func TestWhatIsSealedIsFound(t *testing.T) {
	for what, add := range map[string]func(ctx context.Context, s *Store, owner access.AccountID) error{
		"a DNS connection": func(ctx context.Context, s *Store, owner access.AccountID) error {
			c := dnsconnection.Connection{ID: newID(), AccountID: owner, Provider: "cloudflare", Status: dnsconnection.Connected, TestedAt: began, CreatedAt: began}
			return s.AddDNSConnection(ctx, c, []byte("sealed"))
		},
		"an integration": func(ctx context.Context, s *Store, owner access.AccountID) error {
			i := integration.Integration{ID: newID(), AccountID: owner, Provider: "instantly", Status: integration.Connected, CreatedAt: began, UpdatedAt: began}
			return s.AddIntegration(ctx, i, []byte("sealed"))
		},
	} {
		eachDatabase(t, func(t *testing.T, url func(testing.TB) string) {
			s := migrated(t, url(t))
			ann, err := s.CreateAccount(t.Context(), "ann@example.test", "complete", 0, time.Now())
			must(t, err)
			if holds, err := s.HoldsSealed(t.Context()); err != nil || holds {
				t.Errorf("an account alone: %v, %v", holds, err)
			}
			must(t, add(t.Context(), s, ann.ID))
			if holds, err := s.HoldsSealed(t.Context()); err != nil || !holds {
				t.Errorf("with %s: %v, %v", what, holds, err)
			}
		})
	}
}
