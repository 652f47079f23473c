// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tenantry/tenantry/app/lease"
	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// leaseDuration is how long a pass holds a tenant without renewing its lease. A pass renews a stale
// lease before it waits for a call slot, and again before the call. leaseDuration must therefore
// exceed the longest wait and the longest call. After a crash, another pass can claim the tenant
// when the lease expires.
const leaseDuration = 30 * time.Second

// Runner makes enforcement passes. A pass counts what a tenant's mailboxes sent, and has the mail
// platform block the mailboxes that exceed their limits.
type Runner struct {
	Claims   ports.TenantClaims
	Policies ports.SendPolicies
	Tenants  ports.Tenants
	Platform ports.MailPlatform
	Now      func() time.Time
	// OnBlockDelay, if set, is called for each block that a pass applied, if the trace of this pass
	// shows when the mailbox exceeded its limit. delay is the time from the message that exceeded
	// the limit to the block.
	OnBlockDelay func(ctx context.Context, delay time.Duration)
	// OnChange, if set, is called for each block and unblock that a pass stores as done.
	OnChange func(ctx context.Context, a sendlimit.Action)
	// OnPassEnd, if set, is called with the result of each pass, unless the pass lost its lease or
	// the tenant was deleted.
	OnPassEnd func(ctx context.Context, err error)
	// OnlyTenantsWithLimits excludes tenants that have neither a limit nor a managed rule from
	// sweeps. The sandbox sets it, so that its journal of platform calls shows only the calls of
	// sweeps that a limit or a rule needs.
	OnlyTenantsWithLimits bool

	// missing are the mailboxes that passes exclude, because the platform did not list them.
	missing missingMailboxes
	// runAllLock lets a round of RunAll wait for the passes in progress, and stops Run from
	// starting new passes meanwhile.
	runAllLock sync.RWMutex
	// callSlots holds one element for each platform call in progress. callsOnce creates callSlots
	// on the first call.
	callsOnce sync.Once
	callSlots chan struct{}
}

// pass is one evaluation of one tenant.
type pass struct {
	*Runner
	ports.TenantClaim

	platform   ports.MailTenant
	lease      *lease.Lease
	location   *time.Location // the tenant's time zone
	now        time.Time      // when the pass began
	day        sendlimit.Day  // the current day in the tenant's time zone
	readBudget time.Duration  // remaining time for trace calls
	// todayReading is the reading of this pass that ends at now. It is zero if that reading failed.
	todayReading sendlimit.Reading
	// foundRules are the managed rules before this pass changed them, valid once rulesListed is
	// true.
	foundRules  []sendlimit.Rule
	rulesListed bool
	// intents are the changes of an earlier pass that may or may not have taken effect.
	intents []sendlimit.Change
}

// Run makes one pass over a tenant, if the tenant is due and no other pass holds it. It returns the
// errors of the platform and of the store. After an error of the platform, the parts of the pass
// that succeeded are stored, and the tenant is due again soon.
func (r *Runner) Run(ctx context.Context, owner access.AccountID, id tenant.GUID) error {
	r.runAllLock.RLock()
	defer r.runAllLock.RUnlock()
	_, err := r.runPass(ctx, owner, id, r.Now())
	return err
}

// runPass makes one pass over a tenant whose due time is at or before dueBy. claimed is false if
// the tenant could not be claimed.
func (r *Runner) runPass(ctx context.Context, owner access.AccountID, id tenant.GUID, dueBy time.Time) (claimed bool, err error) {
	claimBegan := time.Now()
	claim, won, err := r.Claims.ClaimTenant(ctx, owner, id, leaseDuration, dueBy)
	if err != nil || !won {
		return false, err
	}
	passLease := lease.New(claimBegan, leaseDuration, func(ctx context.Context, duration time.Duration) (bool, error) {
		return r.Claims.RenewTenantLease(ctx, claim, duration)
	})
	p := &pass{Runner: r, TenantClaim: claim, platform: r.Platform.For(id), lease: passLease, now: r.Now()}
	due, err := p.countAndEnforce(ctx)
	if errors.Is(err, lease.ErrLost) || errors.Is(err, fault.TenantNotFound) {
		return true, nil
	}
	if r.OnPassEnd != nil {
		r.OnPassEnd(ctx, err)
	}
	if err != nil {
		due = p.retryAt(ctx)
		err = reconcile.Consent{Tenants: r.Tenants, Platform: r.Platform, Now: r.Now}.RecordIfRevoked(ctx, owner, id, err)
	}
	releaseErr := reconcile.Store(ctx, func(ctx context.Context) error {
		_, err := r.Claims.ReleaseTenant(ctx, claim, due)
		return err
	})
	return true, errors.Join(err, releaseErr)
}

// retryAt returns the time at which a tenant is due after a failed pass. This time is not after the
// end of the day, because mailboxes may have to be unblocked then. After a cancelled pass the
// tenant is due at once.
func (p *pass) retryAt(ctx context.Context) time.Time {
	if errors.Is(ctx.Err(), context.Canceled) {
		return p.now
	}
	retry := p.now.Add(sendlimit.MinInterval)
	if p.day.Contains(p.now) && retry.After(p.day.End) {
		return p.day.End
	}
	return retry
}

// countAndEnforce counts, decides and enforces, and returns the time at which the tenant is due
// again. If counting fails, enforce decides from the stored counts. A pass can therefore unblock
// mailboxes on a new day even if the trace cannot be read.
func (p *pass) countAndEnforce(ctx context.Context) (due time.Time, err error) {
	if p.location, err = sendlimit.TimeZone(p.TimeZone); err != nil {
		return due, err
	}
	p.day = sendlimit.DayOf(p.now, p.location)
	if p.Mark.IsZero() { // the first pass stores the orphan rules before it stores a mark
		if _, err := p.scopesWithRules(ctx); err != nil {
			return due, err
		}
	}
	countErr := p.count(ctx)
	if errors.Is(countErr, lease.ErrLost) {
		return due, countErr
	}
	due, err = p.enforce(ctx)
	return due, errors.Join(countErr, err)
}

// callWithRenewedLease renews the lease and makes a call that changes the platform. The call is
// cancelled when the lease expires.
func (p *pass) callWithRenewedLease(ctx context.Context, call func(context.Context) error) error {
	return p.withCallSlot(ctx, func() error {
		return p.lease.GuardWrite(ctx, func(ctx context.Context) error { return reconcile.Call(ctx, call) })
	})
}

// callReadOnly makes a call that changes nothing. It renews the lease only if the lease is stale,
// because a read is harmless even after the lease was lost.
func (p *pass) callReadOnly(ctx context.Context, call func(context.Context) error) error {
	return p.withCallSlot(ctx, func() error {
		return p.lease.RunHeld(ctx, func(ctx context.Context) error { return reconcile.Call(ctx, call) })
	})
}

// withCallSlot waits until fewer than ParallelCalls calls are in progress, then runs call. The wait
// can take as long as a call, so withCallSlot renews a stale lease before it waits.
func (p *pass) withCallSlot(ctx context.Context, call func() error) error {
	p.callsOnce.Do(func() { p.callSlots = make(chan struct{}, ParallelCalls) })
	select {
	case p.callSlots <- struct{}{}:
	default:
		if err := p.lease.RenewIfStale(ctx); err != nil {
			return err
		}
		select {
		case p.callSlots <- struct{}{}:
		case <-ctx.Done():
			return &outcome.Error{Kind: outcome.Unknown, Cause: "context", Detail: "no call slot became free in time"}
		}
	}
	defer func() { <-p.callSlots }()
	return call()
}

// leaseError returns err, or lease.ErrLost when the store reports that the lease is not held.
func leaseError(held bool, err error) error {
	if err == nil && !held {
		return lease.ErrLost
	}
	return err
}
