// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// kindRun is the kind of a wake-up to look at one tenant, named by its GUID.
const kindRun = "enforcement"

// kindSweep is the kind of the periodic work.
const kindSweep = "enforcement_sweep"

const (
	// dueMost is how many tenants one sweep wakes.
	dueMost = 500
	// AtOnce is how many tenants a process looks at side by side: fewer than it
	// has connections to a database server, so that requests find one.
	AtOnce = 18
	// CallsAtOnce is how many of the looks ask the mail platform, while the
	// others read and store. So it is the platform that decides how long a
	// sweep takes.
	CallsAtOnce = 12
	// turn is how long a look waits for the end of others. It leaves it most
	// of the time that a handler has.
	turn = 10 * time.Second
	// onward is how long after a sweep that could not wake all the next one
	// comes.
	onward = time.Second
	// ahead is further than any tenant's next look.
	ahead = 365 * 24 * time.Hour
)

// Handlers work on what the queue wakes. A tenant whose turn does not come stays
// due.
func (r *Runner) Handlers() map[string]ports.Handler {
	places := make(chan struct{}, AtOnce)
	return map[string]ports.Handler{kindRun: func(ctx context.Context, w ports.Wakeup) error {
		select {
		case places <- struct{}{}:
		case <-time.After(turn):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-places }()
		err := r.Run(ctx, w.Account, tenant.GUID(w.ID))
		if outcome.Of(err) != 0 {
			return nil // the tenant is due again soon
		}
		return err
	}}
}

// Periodic is what happens by itself: each sweep wakes the tenants that are due.
// While there are more than it may wake, it goes on instead of waiting for its
// time: those that it lists again are woken already and their wake-ups wait.
func (r *Runner) Periodic(sweep time.Duration, q ports.Queue) []ports.Periodic {
	return []ports.Periodic{{Kind: kindSweep, Every: sweep, Do: func(ctx context.Context) error {
		due, more, err := r.due(ctx)
		if err != nil {
			return fmt.Errorf("look for due tenants: %w", err)
		}
		if more {
			due = append(due, ports.Wakeup{Kind: kindSweep, At: time.Now().Add(onward)})
		}
		return q.Wake(ctx, due...)
	}}}
}

// due are the wake-ups of tenants that are, and whether there may be more.
func (r *Runner) due(ctx context.Context) (wakeups []ports.Wakeup, more bool, err error) {
	due, err := r.Runs.DueTenants(ctx, r.Now(), dueMost)
	all := make([]ports.Wakeup, 0, len(due))
	for _, d := range due {
		if r.OnlyLimited {
			ruled, err := r.Policies.RuledScopes(ctx, d.Account, d.Tenant)
			if err != nil && !errors.Is(err, fault.TenantNotFound) {
				return nil, false, err
			}
			if len(ruled) == 0 {
				continue
			}
		}
		all = append(all, ports.Wakeup{Kind: kindRun, ID: string(d.Tenant), Account: d.Account, Apart: true})
	}
	return all, len(due) == dueMost, err
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
	places := make(chan struct{}, AtOnce)
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
