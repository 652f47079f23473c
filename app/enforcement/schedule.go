// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// PassKind is the Kind of the wake-up that starts a pass: one check of the send limits of one
// tenant. The ID of the wake-up is the GUID of the tenant.
const PassKind = "enforcement"

// sweepKind is the Kind of the sweep, which wakes the due tenants.
const sweepKind = "enforcement_sweep"

const (
	// maxTenantsPerSweep is the maximum number of tenants that one sweep wakes.
	maxTenantsPerSweep = 500
	// ParallelPasses is the maximum number of passes that a process makes in parallel. It is less
	// than the default number of connections to a database server, so that requests find a free
	// connection.
	ParallelPasses = 18
	// ParallelCalls is the maximum number of platform calls that passes make in parallel. It is
	// less than ParallelPasses, so that other passes can use the database meanwhile.
	ParallelCalls = 12
	// slotWait is how long a wake-up waits for one of the ParallelPasses slots. It is short, so
	// that most of the handler's time remains for the pass itself.
	slotWait = 10 * time.Second
	// nextSweepDelay is the pause after a sweep that found maxTenantsPerSweep due tenants, because
	// more tenants may be due.
	nextSweepDelay = time.Second
	// leaseCheckInterval is how often RunAll tries to claim a leased tenant.
	leaseCheckInterval = 250 * time.Millisecond
)

// Handlers returns the wake-up handler for passes. If no slot becomes free, the tenant stays due.
// The handler does not return errors of the platform, because the pass has already set the next due
// time.
func (r *Runner) Handlers() map[string]ports.Handler {
	slots := make(chan struct{}, ParallelPasses)
	return map[string]ports.Handler{PassKind: func(ctx context.Context, w ports.Wakeup) error {
		select {
		case slots <- struct{}{}:
		case <-time.After(slotWait):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-slots }()
		err := r.Run(ctx, w.Account, tenant.GUID(w.ID))
		if outcome.KindOf(err) != 0 {
			return nil // the tenant is due again soon
		}
		return err
	}}
}

// Periodic returns the sweep, which wakes the tenants that are due. If a sweep finds
// maxTenantsPerSweep due tenants, it runs again after one second. If two sweeps list a tenant
// before its pass starts, only one wake-up counts.
func (r *Runner) Periodic(interval time.Duration, q ports.Queue) []ports.Periodic {
	return []ports.Periodic{{Kind: sweepKind, Every: interval, Do: func(ctx context.Context) error {
		due, more, err := r.dueWakeups(ctx)
		if err != nil {
			return fmt.Errorf("list due tenants: %w", err)
		}
		if more {
			due = append(due, ports.Wakeup{Kind: sweepKind, At: time.Now().Add(nextSweepDelay)})
		}
		return q.Wake(ctx, due...)
	}}}
}

// dueWakeups returns the wake-ups of due tenants, and whether more tenants may be due.
func (r *Runner) dueWakeups(ctx context.Context) (wakeups []ports.Wakeup, more bool, err error) {
	due, err := r.Claims.DueTenants(ctx, r.Now(), maxTenantsPerSweep)
	passWakeups := make([]ports.Wakeup, 0, len(due))
	for _, d := range due {
		if r.OnlyTenantsWithLimits {
			scopes, err := r.Policies.ScopesWithRules(ctx, d.Account, d.Tenant)
			if err != nil && !errors.Is(err, fault.TenantNotFound) {
				return nil, false, err
			}
			if len(scopes) == 0 {
				continue
			}
		}
		passWakeups = append(passWakeups, ports.Wakeup{Kind: PassKind, ID: string(d.Tenant), Account: d.Account, SeparateGroup: true})
	}
	return passWakeups, len(due) == maxTenantsPerSweep, err
}

// RunAll makes a pass over every tenant, due or not. It skips the tenants that TenantsDueBy
// excludes, such as tenants with a revoked consent. It first waits for the passes in progress in
// this process. If another process holds a tenant, or was killed while it held the tenant, RunAll
// waits for the end of that lease. It returns the joined errors of the passes that it made, and the
// error of ctx if ctx ends while RunAll waits. The sandbox uses RunAll.
func (r *Runner) RunAll(ctx context.Context) error {
	r.runAllLock.Lock()
	defer r.runAllLock.Unlock()
	dueBy := r.Now().Add(reconcile.FarFuture)
	finished := map[tenant.GUID]bool{}
	var errs []error
	for {
		// Each round lists the tenants again, because a leased tenant may be deleted meanwhile.
		tenants, err := r.Claims.TenantsDueBy(ctx, dueBy)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		tenants = slices.DeleteFunc(tenants, func(d ports.DueTenant) bool { return finished[d.Tenant] })
		done, err := r.runPasses(ctx, tenants, dueBy)
		errs = append(errs, err)
		for n, d := range tenants {
			finished[d.Tenant] = done[n]
		}
		if !slices.Contains(done, false) {
			return errors.Join(errs...)
		}
		select {
		case <-time.After(leaseCheckInterval):
		case <-ctx.Done():
			return errors.Join(append(errs, ctx.Err())...)
		}
	}
}

// runPasses makes a pass over each of the tenants and returns the joined errors. done has one
// element for each tenant. An element is false if the tenant could not be claimed, because it is
// leased or deleted.
func (r *Runner) runPasses(ctx context.Context, tenants []ports.DueTenant, dueBy time.Time) (done []bool, err error) {
	done, errs := make([]bool, len(tenants)), make([]error, len(tenants))
	slots := make(chan struct{}, ParallelPasses)
	var wg panics.Group
	for n, d := range tenants {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			claimed, err := r.runPass(ctx, d.Account, d.Tenant, dueBy)
			done[n], errs[n] = claimed || err != nil, err
		})
	}
	wg.Wait()
	return done, errors.Join(errs...)
}
