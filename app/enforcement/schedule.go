// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// PassKind is the Kind of the wake-up that starts a pass over one tenant. The ID of the wake-up is
// the GUID of the tenant.
const PassKind = "enforcement"

// sweepKind is the Kind of the sweep, which wakes the due tenants.
const sweepKind = "enforcement_sweep"

const (
	// farFuture is longer than the time until any tenant is due.
	farFuture = 365 * 24 * time.Hour
	// maxTenantsPerSweep is the maximum number of tenants that one sweep wakes.
	maxTenantsPerSweep = 500
	// ParallelPasses is the maximum number of passes that a process makes in parallel. It is less
	// than the default of 20 connections to PostgreSQL, so that requests find a free connection.
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
	// leaseCheckInterval is the time between two rounds of RunAll.
	leaseCheckInterval = 250 * time.Millisecond
	// leaseWait is how long RunAll waits for leased tenants. The leases of a killed process end
	// only when they expire. leaseWait exceeds the leases of passes (30 s) and of requests that
	// pause enforcement (1 minute). `account close` leases tenants for up to an hour. RunAll does
	// not wait that long, because a user of the sandbox waits for its answer.
	leaseWait = 75 * time.Second
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

// RunAll makes a pass over every tenant, due or not. It skips the tenants with a revoked consent or
// an unprepared mail server. It first waits for the passes in progress in this process. If a tenant
// is leased, for example to a different process, RunAll waits until the lease is released or
// expires, at most for leaseWait.
//
// platformErr joins the errors of the passes in which only calls to the mail platform failed. Their
// tenants are due again soon. err joins all other errors: those of the store, of ctx if it ends
// while RunAll waits, and of the tenants that are still leased after leaseWait. The sandbox uses
// RunAll.
func (r *Runner) RunAll(ctx context.Context) (platformErr, err error) {
	dueBy := r.Now().Add(farFuture)
	finished := map[tenantKey]bool{}
	leased := 0
	for range leaseWait / leaseCheckInterval {
		var roundPlatformErr, roundErr error
		leased, roundPlatformErr, roundErr = r.runRound(ctx, dueBy, finished)
		platformErr, err = errors.Join(platformErr, roundPlatformErr), errors.Join(err, roundErr)
		if leased == 0 {
			return platformErr, err
		}
		select {
		case <-time.After(leaseCheckInterval):
		case <-ctx.Done():
			return platformErr, errors.Join(err, ctx.Err())
		}
	}
	return platformErr, errors.Join(err, fmt.Errorf("tenants that are still leased after %s: %d", leaseWait, leased))
}

type tenantKey struct {
	account access.AccountID
	tenant  tenant.GUID
}

// runRound makes a pass over each tenant that is not in finished. It adds a tenant to finished
// after its pass, and after an error. leased is the number of tenants that are left, because they
// could not be claimed. platformErr and err are as in RunAll. A leased tenant may be deleted
// between two rounds, so each round lists the tenants again.
func (r *Runner) runRound(ctx context.Context, dueBy time.Time, finished map[tenantKey]bool) (leased int, platformErr, err error) {
	r.runAllLock.Lock()
	defer r.runAllLock.Unlock()
	tenants, err := r.Claims.TenantsDueBy(ctx, dueBy)
	if err != nil {
		return 0, nil, err
	}
	tenants = slices.DeleteFunc(tenants, func(d ports.DueTenant) bool { return finished[tenantKey{d.Account, d.Tenant}] })
	claimed, errs := r.runPasses(ctx, tenants, dueBy)
	for n, d := range tenants {
		switch {
		case fromPlatform(errs[n]):
			platformErr = errors.Join(platformErr, errs[n])
		case errs[n] != nil:
			err = errors.Join(err, errs[n])
		case !claimed[n]:
			leased++
			continue
		}
		finished[tenantKey{d.Account, d.Tenant}] = true
	}
	return leased, platformErr, err
}

// fromPlatform reports whether err consists only of failures of the mail platform. The error of a
// pass can join them with an error of the store. A failure of the platform can itself be joined
// with the end of the call's context, for example if the plugin did not start in time.
func fromPlatform(err error) bool {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return outcome.KindOf(err) != 0
	}
	ends := []error{context.DeadlineExceeded, context.Canceled}
	return outcome.KindOf(err) != 0 && !slices.ContainsFunc(joined.Unwrap(), func(part error) bool {
		return !fromPlatform(part) && !slices.Contains(ends, part)
	})
}

// runPasses makes a pass over each of the tenants. claimed and errs have one element for each
// tenant. An element of claimed is false if the tenant could not be claimed: the tenant is leased
// or deleted, or the claim failed with an error.
func (r *Runner) runPasses(ctx context.Context, tenants []ports.DueTenant, dueBy time.Time) (claimed []bool, errs []error) {
	claimed, errs = make([]bool, len(tenants)), make([]error, len(tenants))
	slots := make(chan struct{}, ParallelPasses)
	var wg panics.Group
	for n, d := range tenants {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			claimed[n], errs[n] = r.runPass(ctx, d.Account, d.Tenant, dueBy)
		})
	}
	wg.Wait()
	return claimed, errs
}
