// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
)

// addMailbox stores an account with a mailbox and two integrations.
func addMailbox(t *testing.T, s *Store) (access.AccountID, string, [2]integration.Integration) {
	t.Helper()
	a, err := s.CreateAccount(t.Context(), "ann@example.test", "complete", 0, began)
	must(t, err)
	made, err := s.Attach(t.Context(), a.ID, tenant.Tenant{GUID: tenant.GUID(newID()), ConsentedAt: began}, 100)
	must(t, err)
	box := mailboxRow{AccountID: string(a.ID), ID: newID(), TenantID: made.ID, Address: "a@b.test", DomainName: "b.test",
		Stage: mailbox.Ready, Provisioned: true, CreatedAt: began, StoredAt: began}
	_, err = s.db.NewInsert().Model(&box).Exec(t.Context())
	must(t, err)
	var both [2]integration.Integration
	for n := range both {
		both[n] = integration.Integration{ID: newID(), AccountID: a.ID, Provider: "instantly", CreatedAt: began, UpdatedAt: began}
		must(t, s.AddIntegration(t.Context(), both[n], []byte("sealed"), nil))
	}
	return a.ID, box.ID, both
}

// TestConcurrentProcessesBeginOneSession checks that one of 50 concurrent sessions of a mailbox
// begins, at two integrations and in two processes.
func TestConcurrentProcessesBeginOneSession(t *testing.T) {
	eachShared(t, func(t *testing.T, url func(testing.TB) string) {
		address := url(t)
		one, two := migrated(t, address), opened(t, address)
		owner, box, both := addMailbox(t, one)
		errs := make([]error, 50)
		var wg sync.WaitGroup
		for n := range errs {
			wg.Go(func() {
				x := integration.Session{ID: newID(), IntegrationID: both[n/2%2].ID, MailboxID: box, Status: integration.SessionPending,
					CreatedAt: began, ExpiresAt: began.Add(10 * time.Minute)}
				errs[n] = []*Store{one, two}[n%2].BeginSession(t.Context(), owner, x, newID(), began)
			})
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !errors.Is(err, fault.ConnectedElsewhere) && !errors.Is(err, fault.SessionActive) {
				t.Error(err)
			}
		}
		pending, err := two.PendingSessions(t.Context(), began.Add(time.Hour), 50)
		must(t, err)
		if won != 1 || len(pending) != 1 {
			t.Errorf("%d began, %d are pending", won, len(pending))
		}
		e, err := one.EligibleMailbox(t.Context(), owner, pending[0].Session.IntegrationID, box)
		must(t, err)
		if e.Connection.Status != integration.ConnectionPending || e.Elsewhere {
			t.Errorf("the mailbox stands as %+v", e)
		}
	})
}
