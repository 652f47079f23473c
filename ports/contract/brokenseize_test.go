// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

type (
	waitsForRuns struct{ sendRunsPort } // instead of taking their tenant
	lateByClaims struct{ sendRunsPort }
)

func (b waitsForRuns) SeizeTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration) (ports.SendRun, bool, error) {
	return b.sendRunsPort.ClaimTenant(ctx, owner, id, lease, later.Add(time.Hour))
}

// lateByClaims has a tenant due when the first claim was made for.
func (b lateByClaims) ClaimTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration, at time.Time) (ports.SendRun, bool, error) {
	r, won, err := b.sendRunsPort.ClaimTenant(ctx, owner, id, lease, at)
	if err != nil || !won {
		return r, won, err
	}
	if _, err := b.ReleaseTenant(ctx, r, at); err != nil {
		return r, won, err
	}
	return b.sendRunsPort.ClaimTenant(ctx, owner, id, lease, at)
}
