// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"cmp"
	"context"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const (
	// passWait is the default of Service.PassWait. callWait is the default of Service.CallWait.
	// Together they leave enough of deleteTimeout to remove the rules.
	passWait = 5 * time.Second
	callWait = 20 * time.Second
	// intentsTimeout is the timeout of reconcileIntents.
	intentsTimeout = 5 * time.Second
)

// pauseEnforcement stops enforcement for a tenant whose managed rules are about to be removed, so
// that no pass creates the rules again. paused reports whether enforcement is paused.
// pauseEnforcement also claims a tenant whose mail server is not prepared: a pass that began
// earlier can still be in progress, and recordUnblocks needs the claim.
func (s *Service) pauseEnforcement(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration) (claim ports.TenantClaim, paused bool, err error) {
	return reconcile.EnforcementPause{
		Claims: s.Claims, Pause: s.Pause, PassWait: cmp.Or(s.PassWait, passWait), CallWait: cmp.Or(s.CallWait, callWait),
	}.Begin(ctx, owner, id, lease)
}

// reconcileIntents records the blocks and unblocks that an interrupted pass applied but did not
// record. It runs before the rules are removed, because only the rules show which blocks were
// applied. If the recording fails, the deletion continues.
func (s *Service) reconcileIntents(ctx context.Context, claim ports.TenantClaim) {
	ctx, cancel := context.WithTimeout(ctx, intentsTimeout)
	defer cancel()
	_, _, _, _ = reconcile.ReconcileIntents(ctx, s.Claims, claim, s.Now, func(ctx context.Context) (rules []sendlimit.Rule, err error) {
		err = reconcile.Call(ctx, func(ctx context.Context) (err error) {
			rules, err = s.Platform.For(claim.Tenant).Rules(ctx)
			return err
		})
		return rules, err
	})
}
