// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// The defaults of EnforcementPause. Together they leave half of the 50 s that a use case has.
const (
	defaultPassWait = 5 * time.Second
	defaultCallWait = 20 * time.Second
)

// EnforcementPause stops enforcement passes over a tenant while a use case changes the tenant's
// rules. The use case ends the pause with Claims.ReleaseTenant, or the lease expires.
type EnforcementPause struct {
	Claims ports.TenantClaims
	// Pause is the time between two tries to claim the tenant. PassWait is how long Begin waits for
	// the holder of the lease before it revokes the lease. CallWait is how long Begin then waits
	// for the holder's last call. They default to 1 s, 5 s and 20 s.
	Pause, PassWait, CallWait time.Duration
}

// Begin claims the tenant for the duration of the lease, even if the tenant's mail server is not
// prepared: a pass that began earlier can still be in progress. If a pass, or a different use case,
// holds the tenant for longer than PassWait, Begin revokes that lease. Each holder renews its lease
// before each call that can make a rule block a mailbox. A holder whose lease was revoked can
// therefore block nothing after its current call, for which Begin waits. held is false for an
// unknown tenant and for a tenant with a revoked consent.
func (p EnforcementPause) Begin(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration) (claim ports.TenantClaim, held bool, err error) {
	if claim, held, err = p.claim(ctx, owner, id, lease); err != nil || held {
		return claim, held, err
	}
	if claim, held, err = p.Claims.SeizeTenant(ctx, owner, id, lease); err != nil || !held {
		return claim, false, err
	}
	Wait(ctx, cmp.Or(p.CallWait, defaultCallWait))
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
	waitCtx, cancel := context.WithTimeout(ctx, cmp.Or(p.PassWait, defaultPassWait))
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
