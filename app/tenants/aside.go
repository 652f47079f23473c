// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const (
	// runTurn is how long a run of enforcement may go on, runEnds how long its
	// last call of the platform may take once the tenant was taken from it. What
	// is left of a deletion's time is enough to remove rules.
	runTurn = 5 * time.Second
	runEnds = 20 * time.Second
	// settleLimit bounds the settling of what a run left open.
	settleLimit = 5 * time.Second
	// runsAhead is more than any run of a tenant lies ahead.
	runsAhead = 365 * 24 * time.Hour
)

// aside keeps runs of enforcement away, which would put the rules back. From one
// that takes too long the tenant is taken: it changes nothing after the call
// that it is at, whose end is waited for.
func (s *Service) aside(ctx context.Context, owner access.AccountID, t tenant.Tenant, lease time.Duration) (r ports.SendRun, held bool, err error) {
	if t.Bootstrap != tenant.BootstrapReady {
		return r, false, nil // none takes place
	}
	if r, held, err = s.claim(ctx, owner, t, lease); err != nil || held {
		return r, held, err
	}
	if r, held, err = s.Runs.SeizeTenant(ctx, owner, t.GUID, lease); err != nil || !held {
		return r, false, err
	}
	settling.Wait(ctx, cmp.Or(s.RunEnds, runEnds))
	return r, true, nil
}

// claim takes a tenant that no run has, or has no more within its turn.
func (s *Service) claim(ctx context.Context, owner access.AccountID, t tenant.Tenant, lease time.Duration) (r ports.SendRun, won bool, err error) {
	turn, cancel := context.WithTimeout(ctx, cmp.Or(s.RunTurn, runTurn))
	defer cancel()
	for {
		r, won, err = s.Runs.ClaimTenant(ctx, owner, t.GUID, lease, s.Now().Add(runsAhead))
		if err != nil {
			return r, false, fmt.Errorf("keep enforcement away: %w", err)
		}
		if won {
			return r, true, nil
		}
		if !settling.Wait(turn, s.Pause) {
			return r, false, ctx.Err()
		}
	}
}

// settle puts on record what a run of enforcement blocked or let go and did not
// live to say: nobody can tell once rules and tenant are gone. It is no reason to
// keep the tenant.
func (s *Service) settle(ctx context.Context, r ports.SendRun) {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	_, _, _ = settling.Intents(ctx, s.Runs, r, s.Now, func(ctx context.Context) (rules []sendlimit.Rule, err error) {
		err = settling.Call(ctx, func(ctx context.Context) (err error) {
			rules, err = s.Platform.For(r.Tenant).Rules(ctx)
			return err
		})
		return rules, err
	})
}
