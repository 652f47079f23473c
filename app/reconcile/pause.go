// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// EnforcementPause stops enforcement passes over a tenant while a use case changes the tenant's
// rules. The use case ends the pause with Claims.ReleaseTenant, or the lease expires.
type EnforcementPause struct {
	Claims ports.TenantClaims
	// Pause is the time between two tries to claim the tenant. PassWait is how long to wait for the
	// holder of the lease. CallWait is how long to wait for the last call of a holder whose lease
	// was revoked.
	Pause, PassWait, CallWait time.Duration
}

// Begin claims the tenant for the duration of the lease. If a pass, or a different use case, holds
// the tenant for longer than PassWait, Begin revokes that lease. Each holder renews its lease
// before each call that can make a rule block a mailbox. A holder whose lease was revoked can
// therefore block nothing after its current call. Begin waits CallWait for the end of this call.
// held is false for an unknown tenant and for a tenant with a revoked consent.
func (p EnforcementPause) Begin(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration) (claim ports.TenantClaim, held bool, err error) {
	if claim, held, err = p.claim(ctx, owner, id, lease); err != nil || held {
		return claim, held, err
	}
	if claim, held, err = p.Claims.SeizeTenant(ctx, owner, id, lease); err != nil || !held {
		return claim, false, err
	}
	Wait(ctx, p.CallWait)
	return claim, true, nil
}

// PauseLost returns the error for a tenant whose enforcement could not be paused for long enough.
func PauseLost() error {
	return fault.ServiceUnavailable.RetryIn(5*time.Second, "the enforcement of the tenant could not be paused; try again")
}

// PauseError returns err, or the error of PauseLost if err is nil and the lease of the pause is not
// held.
func PauseError(leaseHeld bool, err error) error {
	if err == nil && !leaseHeld {
		return PauseLost()
	}
	return err
}

// claim claims the tenant. It returns false when the tenant cannot be claimed within PassWait,
// because its lease is held, the tenant is unknown or its consent is revoked.
func (p EnforcementPause) claim(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration) (claim ports.TenantClaim, won bool, err error) {
	waitCtx, cancel := context.WithTimeout(ctx, p.PassWait)
	defer cancel()
	for {
		claim, won, err = p.Claims.ClaimUnleasedTenant(ctx, owner, id, lease)
		if err != nil {
			return claim, false, fmt.Errorf("pause enforcement: %w", err)
		}
		if won {
			return claim, true, nil
		}
		if !Wait(waitCtx, p.Pause) {
			return claim, false, ctx.Err()
		}
	}
}
