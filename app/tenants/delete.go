// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

const (
	// deleteLimit bounds a deletion, and runLease is how long no run of
	// enforcement begins meanwhile.
	deleteLimit = 50 * time.Second
	runLease    = time.Minute
)

// Deleted is a tenant as it was, and what became of our rules in it.
type Deleted struct {
	tenant.Tenant
	Unruled
}

// Delete removes the tenant and all below it from the service. Rules of ours
// are taken out of it first if the mail platform lets us: mail must not stay
// blocked by a service that has forgotten why. Nothing else is changed there.
func (s *Service) Delete(ctx context.Context, owner access.AccountID, id tenant.GUID) (Deleted, error) {
	t, err := s.Tenants.Tenant(ctx, owner, id)
	if err != nil {
		return Deleted{}, err
	}
	ctx, cancel := settling.Detach(ctx, deleteLimit)
	defer cancel()
	gone := Deleted{Tenant: t}
	if gone.Unruled, err = s.unrule(ctx, owner, t, runLease); err != nil {
		return Deleted{}, err
	}
	if ctx, err = ports.Complete(ctx, gone); err != nil {
		s.giveBack(ctx, gone.Unruled)
		return Deleted{}, err
	}
	failpoint.Hit("tenants.before-delete")
	err = settling.Store(ctx, func(ctx context.Context) error { return s.Tenants.DeleteTenant(ctx, owner, id) })
	if err != nil {
		s.giveBack(ctx, gone.Unruled)
		return Deleted{}, err
	}
	failpoint.Hit("tenants.after-delete")
	return gone, nil
}
