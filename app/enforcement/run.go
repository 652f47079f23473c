// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// usualLease is longer than a provider call and the wait for its turn, before which
// it is renewed, and no longer than a killed run's tenant may wait for another.
const usualLease = 30 * time.Second

// fresh is the part of a lease within which it need not be renewed.
const fresh = 6

// errLost is that another run has the tenant, or that it is gone.
var errLost = errors.New("the tenant is another run's")

// Runner counts what a tenant's mailboxes sent, and has the mail platform block
// those that are beyond their limits.
type Runner struct {
	Runs     ports.SendRuns
	Policies ports.SendPolicies
	Tenants  ports.Tenants
	Platform ports.MailPlatform
	Now      func() time.Time
	Lease    time.Duration // 30 s unless set
	// Late is told, of each mailbox that was blocked, how long after the
	// message that was one too many; nobody unless set.
	Late func(ctx context.Context, lag time.Duration)
	// Changed is told of each mailbox that was blocked or let go, Ended how each
	// look at a tenant ended; nobody unless set.
	Changed func(ctx context.Context, a sendlimit.Action)
	Ended   func(ctx context.Context, err error)
	// OnlyLimited has sweeps leave out tenants without a limit, whose messages
	// then are not counted. It is for the sandbox, whose journal is to show
	// what was asked for.
	OnlyLimited bool

	// vanished are mailboxes that the platform did not know when last asked.
	vanished vanished
	// everyone is RunAll's, which waits for looks that are under way.
	everyone sync.RWMutex
	// calls are those that are under way, once there was one.
	once  sync.Once
	calls chan struct{}
}

// look is one look at a tenant.
type look struct {
	*Runner
	ports.SendRun

	platform ports.MailTenant
	until    time.Time // the lease is not over before
	place    *time.Location
	now      time.Time
	day      sendlimit.Day
	left     time.Duration // for reading the trace
	// reading is what this look read of the trace of today.
	reading sendlimit.Reading
	// there are our rules as this look found them, once it listed them.
	there  []sendlimit.Rule
	listed bool
}

// Run looks at one tenant, if it is due and nobody else is at it. What the
// platform does not let it do it returns, and the tenant is due again soon; what
// it could do is done and stored all the same.
func (r *Runner) Run(ctx context.Context, owner access.AccountID, id tenant.GUID) error {
	r.everyone.RLock()
	defer r.everyone.RUnlock()
	return r.run(ctx, owner, id, r.Now())
}

// run looks at a tenant that is due by then.
func (r *Runner) run(ctx context.Context, owner access.AccountID, id tenant.GUID, by time.Time) error {
	until := time.Now().Add(r.lease())
	claimed, won, err := r.Runs.ClaimTenant(ctx, owner, id, r.lease(), by)
	if err != nil || !won {
		return err
	}
	w := &look{Runner: r, SendRun: claimed, platform: r.Platform.For(id), until: until, now: r.Now()}
	due, err := w.work(ctx)
	if errors.Is(err, errLost) || errors.Is(err, fault.TenantNotFound) {
		return nil
	}
	if r.Ended != nil {
		r.Ended(ctx, err)
	}
	if err != nil {
		due = w.again(ctx)
		err = settling.Consent{Tenants: r.Tenants, Platform: r.Platform}.Notice(ctx, owner, id, err)
	}
	failpoint.Hit("enforcement.before-release")
	released := settling.Store(ctx, func(ctx context.Context) error {
		_, err := r.Runs.ReleaseTenant(ctx, claimed, due)
		return err
	})
	return errors.Join(err, released)
}

// again is when a tenant is due that a look failed at: at once where the look
// itself was stopped.
func (w *look) again(ctx context.Context) time.Time {
	if errors.Is(ctx.Err(), context.Canceled) {
		return w.now
	}
	return w.now.Add(sendlimit.Soonest)
}

func (r *Runner) lease() time.Duration {
	if r.Lease > 0 {
		return r.Lease
	}
	return usualLease
}

// work counts, decides and enforces. Without a new count the old one decides:
// who was let go by the day that turned does not wait for a trace.
func (w *look) work(ctx context.Context) (due time.Time, err error) {
	if w.place, err = sendlimit.Place(w.Place); err != nil {
		return due, err
	}
	w.day = sendlimit.DayOf(w.now, w.place)
	if w.Mark.IsZero() { // once, and before anything says that it was
		if _, err := w.rules(ctx); err != nil {
			return due, fmt.Errorf("read rules: %w", err)
		}
	}
	uncounted := w.count(ctx)
	if errors.Is(uncounted, errLost) {
		return due, uncounted
	}
	due, err = w.enforce(ctx)
	return due, errors.Join(uncounted, err)
}

// guard makes a call only while the tenant is the run's, and only until the
// lease that is renewed for it ends: a process that was stopped between the
// two calls nobody when it continues.
func (w *look) guard(ctx context.Context, call func(context.Context) error) error {
	return w.inTurn(ctx, func() error {
		if err := w.hold(ctx); err != nil {
			return err
		}
		return w.call(ctx, call)
	})
}

// ask is guard for calls that change nothing: one who has lost the tenant does
// no harm by them, so a lease that is fresh is good enough.
func (w *look) ask(ctx context.Context, call func(context.Context) error) error {
	return w.inTurn(ctx, func() error {
		if err := w.renew(ctx); err != nil {
			return err
		}
		return w.call(ctx, call)
	})
}

// renew holds the tenant unless it did so just now.
func (w *look) renew(ctx context.Context) error {
	if time.Until(w.until) >= w.lease()-w.lease()/fresh {
		return nil
	}
	return w.hold(ctx)
}

func (w *look) hold(ctx context.Context) error {
	until := time.Now().Add(w.lease())
	err := saved(w.Runs.HoldTenant(ctx, w.SendRun, w.lease()))
	if err == nil {
		w.until = until
	}
	return err
}

func (w *look) call(ctx context.Context, call func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !time.Now().Before(w.until) {
		return errLost
	}
	ctx, cancel := context.WithDeadline(ctx, w.until)
	defer cancel()
	return settling.Call(ctx, call)
}

// inTurn waits until fewer than CallsAtOnce calls are under way, which may take
// as long as a call, so the lease is to be fresh.
func (w *look) inTurn(ctx context.Context, call func() error) error {
	w.once.Do(func() { w.calls = make(chan struct{}, CallsAtOnce) })
	select {
	case w.calls <- struct{}{}:
	default:
		if err := w.renew(ctx); err != nil {
			return err
		}
		select {
		case w.calls <- struct{}{}:
		case <-ctx.Done():
			return &outcome.Error{Kind: outcome.Unknown, Cause: "context", Detail: "calls before this one took its time"}
		}
	}
	defer func() { <-w.calls }()
	return call()
}

// saved tells a run that has lost its tenant from one whose word was stored.
func saved(held bool, err error) error {
	if err == nil && !held {
		return errLost
	}
	return err
}
