// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// Unruled is what became of our rules in a tenant.
type Unruled struct {
	// Removed is true when rules of ours may have been there and are not any
	// more; Left names those that may still be there, and Why says what was in
	// the way.
	Removed bool
	Left    []string
	Why     error
}

// errNoPlatform is that there is no mail platform to ask.
var errNoPlatform = errors.New("there is no mail platform")

// unrule takes our rules out of a tenant that may have some. For as long as the
// lease no run of enforcement puts them back.
func (s *Service) unrule(ctx context.Context, owner access.AccountID, t tenant.Tenant, lease time.Duration) (Unruled, error) {
	scopes, err := s.Policies.RuledScopes(ctx, owner, t.GUID)
	if err != nil || len(scopes) == 0 {
		return Unruled{}, err
	}
	why := t.Reachable()
	if why == nil && s.Platform == nil {
		why = errNoPlatform
	}
	if why == nil {
		run, won, err := s.aside(ctx, owner, t, lease)
		if err != nil {
			return Unruled{}, err
		}
		if won {
			s.settle(ctx, run)
		}
		failpoint.Hit("tenants.before-unrule")
		why = settling.Call(ctx, s.Platform.For(t.GUID).RemoveRules)
		failpoint.Hit("tenants.after-unrule")
	}
	if why == nil {
		return Unruled{Removed: true}, nil
	}
	gone := Unruled{Why: why}
	for _, scope := range scopes {
		gone.Left = append(gone.Left, sendlimit.RuleName(scope))
	}
	return gone, nil
}

// runLimit is how long is waited for a run of enforcement to end.
const runLimit = 10 * time.Second

// settle puts on record what a run of enforcement blocked or let go and did not
// live to say: nobody can tell once rules and tenant are gone. It is no reason to
// keep the tenant.
func (s *Service) settle(ctx context.Context, r ports.SendRun) {
	_, _, _ = settling.Intents(ctx, s.Runs, r, s.Now, func(ctx context.Context) (rules []sendlimit.Rule, err error) {
		err = settling.Call(ctx, func(ctx context.Context) (err error) {
			rules, err = s.Platform.For(r.Tenant).Rules(ctx)
			return err
		})
		return rules, err
	})
}

// aside keeps runs of enforcement away, which would put the rules back. One
// that is under way for too long does not keep the tenant from being deleted.
func (s *Service) aside(ctx context.Context, owner access.AccountID, t tenant.Tenant, lease time.Duration) (r ports.SendRun, won bool, err error) {
	if t.Bootstrap != tenant.BootstrapReady {
		return r, false, nil // none takes place
	}
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	for {
		r, won, err = s.Runs.ClaimTenant(ctx, owner, t.GUID, lease, s.Now().Add(runsAhead))
		switch {
		case won:
			return r, true, nil
		case ctx.Err() != nil:
			return r, false, nil
		case err != nil:
			return r, false, fmt.Errorf("keep enforcement away: %w", err)
		}
		if !settling.Wait(ctx, s.Pause) {
			return r, false, nil
		}
	}
}

// runsAhead is more than any run of a tenant lies ahead.
const runsAhead = 365 * 24 * time.Hour
