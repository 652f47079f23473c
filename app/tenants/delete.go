// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

const (
	// deleteLimit bounds a deletion, runLimit of it how long it waits for a run
	// of enforcement to end, and runLease is how long none begins then.
	deleteLimit = 50 * time.Second
	runLimit    = 10 * time.Second
	runLease    = time.Minute
)

// Deleted is a tenant as it was, and what became of our rules in it.
type Deleted struct {
	tenant.Tenant

	// Removed is true when rules of ours may have been there and are not any
	// more; Left names those that may still be there.
	Removed bool
	Left    []string
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
	gone, err := s.unruled(ctx, owner, t)
	if err != nil {
		return Deleted{}, err
	}
	if ctx, err = ports.Complete(ctx, gone); err != nil {
		return Deleted{}, err
	}
	failpoint.Hit("tenants.before-delete")
	err = settling.Store(ctx, func(ctx context.Context) error { return s.Tenants.DeleteTenant(ctx, owner, id) })
	if err != nil {
		return Deleted{}, err
	}
	failpoint.Hit("tenants.after-delete")
	return gone, nil
}

// unruled takes our rules out of a tenant that may have some.
func (s *Service) unruled(ctx context.Context, owner access.AccountID, t tenant.Tenant) (Deleted, error) {
	gone := Deleted{Tenant: t}
	scopes, err := s.Policies.RuledScopes(ctx, owner, t.GUID)
	if err != nil || len(scopes) == 0 {
		return gone, err
	}
	if t.Reachable() == nil {
		if err := s.aside(ctx, owner, t); err != nil {
			return gone, err
		}
		failpoint.Hit("tenants.before-unrule")
		gone.Removed = settling.Call(ctx, s.Platform.For(t.GUID).RemoveRules) == nil
		failpoint.Hit("tenants.after-unrule")
	}
	if !gone.Removed {
		for _, scope := range scopes {
			gone.Left = append(gone.Left, sendlimit.RuleName(scope))
		}
	}
	return gone, nil
}

// aside keeps runs of enforcement away, which would put the rules back. One
// that is under way for too long does not keep the tenant from being deleted.
func (s *Service) aside(ctx context.Context, owner access.AccountID, t tenant.Tenant) error {
	if t.Bootstrap != tenant.BootstrapReady {
		return nil // none takes place
	}
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	for {
		_, won, err := s.Runs.ClaimTenant(ctx, owner, t.GUID, runLease, s.Now().Add(runsAhead))
		switch {
		case won || ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("keep enforcement away: %w", err)
		}
		if !settling.Wait(ctx, s.Pause) {
			return nil
		}
	}
}

// runsAhead is more than any run of a tenant lies ahead.
const runsAhead = 365 * 24 * time.Hour
