// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
)

// TestOperationFailsWithoutAuditEvent checks that an operation fails if its audit event cannot be
// recorded.
func TestOperationFailsWithoutAuditEvent(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url func(testing.TB) string) {
		s := migrated(t, url(t))
		now := time.Now()
		ann, err := s.CreateAccount(t.Context(), "ann@example.test", "complete", 0, now)
		if err != nil {
			t.Fatal(err)
		}
		key := access.Key{ID: newID(), Account: ann.ID, Hash: [32]byte{1}, Form: access.Live, CreatedAt: now}
		if err := s.AddKey(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		const held, free = tenant.GUID("10000000-0000-4000-8000-000000000001"), tenant.GUID("10000000-0000-4000-8000-000000000002")
		if _, err := s.Attach(t.Context(), ann.ID, tenant.Tenant{GUID: held, Managed: true, ConsentedAt: now}, 9); err != nil {
			t.Fatal(err)
		}
		before := readState(t, s, ann.ID)
		exec(t, s, "DROP TABLE audit_events")

		fresh := access.Key{ID: newID(), Account: ann.ID, Hash: [32]byte{2}, Form: access.Live, CreatedAt: now}
		for name, act := range map[string]func() error{
			"create account": func() error {
				_, err := s.CreateAccount(t.Context(), "bob@example.test", "complete", 0, now)
				return err
			},
			"change plan": func() error { _, err := s.ChangePlan(t.Context(), ann.ID, "api_starter", 3); return err },
			"suspend":     func() error { _, err := s.SetActive(t.Context(), ann.ID, false); return err },
			"close":       func() error { _, err := s.CloseAccount(t.Context(), ann.ID, now); return err },
			"create key":  func() error { return s.AddKey(t.Context(), fresh) },
			"rotate key":  func() error { _, err := s.ReplaceKey(t.Context(), key.ID, fresh); return err },
			"revoke key":  func() error { _, err := s.RevokeKey(t.Context(), key.ID, now); return err },
			"assign": func() error {
				_, err := s.Attach(t.Context(), ann.ID, tenant.Tenant{GUID: free, Managed: true, ConsentedAt: now}, 9)
				return err
			},
			"withdraw": func() error { _, err := s.Withdraw(t.Context(), held); return err },
		} {
			if err := act(); err == nil {
				t.Errorf("%s is done without a record", name)
			}
			if after := readState(t, s, ann.ID); after != before {
				t.Errorf("%s changed something: %+v, before %+v", name, after, before)
			}
		}
	})
}

// state is the part of an account that operators can change.
type state struct {
	account  access.Account
	accounts int
	key      access.Key
	keys     int
	tenant   tenant.Tenant
	tenants  int
}

func readState(t *testing.T, s *Store, id access.AccountID) state {
	t.Helper()
	accounts, err := s.Accounts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := s.IssuedKeys(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	tenants, err := s.Tenants(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return state{accounts[0], len(accounts), keys[0], len(keys), tenants[0], len(tenants)}
}
