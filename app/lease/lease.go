// SPDX-License-Identifier: Apache-2.0

// Package lease keeps a lease that the database granted to this process. A lease is on a
// provisioning job, on a tenant during an enforcement pass or the removal of a send limit, or on an
// Idempotency-Key.
//
// RenewInBackground renews a lease in the background. GuardWrite renews it before a write that
// would do harm after the lease was lost. RunHeld renews it before other calls, if it is stale. A
// process that has lost a lease may not write to a provider any more. The store also protects the
// row that is leased: every claim has a new number or id, and only the last claim may change the
// row.
package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/panics"
)

// ErrLost means that this process does not hold the lease any more, or that the lease has expired
// and a different process may acquire it.
var ErrLost = errors.New("the lease is lost")

// errExpired is ErrLost for a lease that has expired.
var errExpired = fmt.Errorf("%w: %w", ErrLost, context.DeadlineExceeded)

// freshFraction defines a fresh lease: at most 1/freshFraction of its duration has passed since the
// last renewal. Any other lease is stale.
const freshFraction = 6

// RenewFunc renews a lease in the database for a duration. held is false when this process does not
// hold the lease any more, for example because a different process holds it.
type RenewFunc func(ctx context.Context, duration time.Duration) (held bool, err error)

// Lease is a lease that this process acquired and can lose. Its methods are safe for concurrent
// use.
type Lease struct {
	duration     time.Duration
	renewInStore RenewFunc

	mu sync.Mutex // guards the fields below
	// end is the earliest time at which the lease can expire. It is counted from a time before the
	// request to the database. This process therefore stops before the lease expires in the
	// database.
	end   time.Time
	taken bool // the result of IsTaken
}

// New returns a lease of a duration. requestBegan is a time before the request that acquired it.
func New(requestBegan time.Time, duration time.Duration, renewInStore RenewFunc) *Lease {
	return &Lease{duration: duration, renewInStore: renewInStore, end: requestBegan.Add(duration)}
}

// Renew renews the lease. It returns ErrLost when this process does not hold the lease any more. If
// the database fails, it returns the error of the database.
func (l *Lease) Renew(ctx context.Context) error {
	end := time.Now().Add(l.duration)
	held, err := l.renewInStore(ctx, l.duration)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !held {
		l.taken = true
		return ErrLost
	}
	l.end = end
	return nil
}

// RenewIfStale renews the lease if it is stale.
func (l *Lease) RenewIfStale(ctx context.Context) error {
	if time.Until(l.expiry()) >= l.duration-l.duration/freshFraction {
		return nil
	}
	return l.Renew(ctx)
}

// GuardWrite renews the lease and runs write, with a deadline at the end of the lease. It does not
// run write when the renewal fails. The deadline also stops a process that was suspended after the
// renewal.
func (l *Lease) GuardWrite(ctx context.Context, write func(context.Context) error) error {
	if err := l.Renew(ctx); err != nil {
		return err
	}
	return l.UntilExpiry(ctx, write)
}

// RunHeld renews the lease if it is stale, and runs call with a deadline at the end of the lease.
// It costs less than GuardWrite. However, while the lease is fresh, RunHeld does not notice that
// the store revoked the lease. Use it for calls that do no harm after that.
func (l *Lease) RunHeld(ctx context.Context, call func(context.Context) error) error {
	if err := l.RenewIfStale(ctx); err != nil {
		return err
	}
	return l.UntilExpiry(ctx, call)
}

// UntilExpiry runs call with a deadline at the end of the lease, without renewing it. It returns
// ErrLost when the lease has expired.
func (l *Lease) UntilExpiry(ctx context.Context, call func(context.Context) error) error {
	end := l.expiry()
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	// The context ends by a timer, which may not have fired yet after the process was suspended.
	if !time.Now().Before(end) {
		return errExpired
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return call(ctx)
}

// RenewInBackground renews the lease in the background until stop is called. RenewInBackground
// gives up when the lease is lost, or when it could not be renewed for two thirds of its duration.
// It then calls onLost with the last error, and cancels the returned context with ErrLost as its
// cause. If the renewal panics, RenewInBackground cancels the context, and stop panics.
func (l *Lease) RenewInBackground(ctx context.Context, onLost func(error)) (kept context.Context, stop func()) {
	kept, cancel := context.WithCancelCause(ctx)
	var renewal panics.Group
	renewal.Go(func() {
		defer cancel(ErrLost)
		if err := l.renewUntilLost(kept); err != nil {
			onLost(err)
		}
	})
	return kept, func() {
		cancel(nil)
		renewal.Wait()
	}
}

// renewUntilLost renews the lease until ctx ends, the lease is lost, or the lease could not be
// renewed for two thirds of its duration. A renewal that gets no answer ends after a third of the
// duration, or when the lease expires if that is earlier. renewUntilLost returns nil when ctx ends,
// and otherwise the error of the last renewal.
func (l *Lease) renewUntilLost(ctx context.Context) error {
	ticker := time.NewTicker(l.duration / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		timeout := l.duration / 3
		if remaining := time.Until(l.expiry()); remaining > 0 { // an expired lease can still be renewed
			timeout = min(timeout, remaining)
		}
		attemptCtx, cancel := context.WithTimeout(ctx, timeout)
		err := l.Renew(attemptCtx)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrLost), err != nil && time.Until(l.expiry()) <= l.duration/3:
			return err
		}
	}
}

// IsTaken reports whether a renewal found that this process does not hold the lease any more, or
// MarkTaken was called.
func (l *Lease) IsTaken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken
}

// MarkTaken records that this process does not hold the lease any more. Call it after the store
// refused a change.
func (l *Lease) MarkTaken() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken = true
}

func (l *Lease) expiry() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}
