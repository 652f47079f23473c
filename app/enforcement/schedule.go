// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// kindRun is the kind of a wake-up to look at one tenant, named by its GUID.
const kindRun = "enforcement"

const (
	// dueMost is how many tenants one sweep wakes.
	dueMost = 1000
	// atOnce is how many tenants RunAll looks at side by side.
	atOnce = 8
	// ahead is further than any tenant's next look.
	ahead = 365 * 24 * time.Hour
)

// Handlers work on what the queue wakes.
func (r *Runner) Handlers() map[string]ports.Handler {
	return map[string]ports.Handler{kindRun: func(ctx context.Context, w ports.Wakeup) error {
		err := r.Run(ctx, w.Account, tenant.GUID(w.ID))
		if outcome.Of(err) != 0 {
			return nil // the tenant is due again soon
		}
		return err
	}}
}

// Periodic is what happens by itself: each sweep wakes the tenants that are due.
func (r *Runner) Periodic(sweep time.Duration, q ports.Queue) []ports.Periodic {
	return []ports.Periodic{ports.Sweep("enforcement_sweep", sweep, q, r.due)}
}

func (r *Runner) due(ctx context.Context) ([]ports.Wakeup, error) {
	due, err := r.Runs.DueTenants(ctx, r.Now(), dueMost)
	all := make([]ports.Wakeup, 0, len(due))
	for _, d := range due {
		if r.OnlyLimited {
			ruled, err := r.Policies.RuledScopes(ctx, d.Account, d.Tenant)
			if err != nil && !errors.Is(err, fault.TenantNotFound) {
				return nil, err
			}
			if len(ruled) == 0 {
				continue
			}
		}
		all = append(all, ports.Wakeup{Kind: kindRun, ID: string(d.Tenant), Account: d.Account})
	}
	return all, err
}

// RunAll looks at all tenants now, due or not, once the looks of this process
// that are under way have ended. It is for the sandbox.
func (r *Runner) RunAll(ctx context.Context) error {
	r.everyone.Lock()
	defer r.everyone.Unlock()
	until := r.Now().Add(ahead)
	all, err := r.Runs.DueTenants(ctx, until, 1<<30)
	if err != nil {
		return err
	}
	errs := make([]error, len(all))
	places := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for n, d := range all {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			errs[n] = r.run(ctx, d.Account, d.Tenant, until)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
