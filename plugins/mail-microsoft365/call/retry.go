// SPDX-License-Identifier: Apache-2.0

package call

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
)

// reserve is how much time must be left before the deadline after a wait, for the next attempt.
const reserve = time.Second

// RetryPolicy says how often a call is attempted and how long the first pause is.
type RetryPolicy struct {
	MaxAttempts int
	BaseDelay   time.Duration
}

// DefaultRetryPolicy waits about one second and then about two. The port's deadline of 20 s has no
// room for the five attempts that Microsoft's documentation allows.
var DefaultRetryPolicy = RetryPolicy{MaxAttempts: 3, BaseDelay: time.Second}

// Retry calls attempt until it succeeds, or until its error forbids another attempt for this
// effect. It also ends when the policy's attempts are used up or the deadline leaves no time.
func Retry[T any](ctx context.Context, p RetryPolicy, effect Effect, attempt func() (T, error)) (T, error) {
	for n := 0; ; n++ {
		v, err := attempt()
		if err == nil || n+1 >= p.MaxAttempts || !mayRepeat(effect, err) || !p.Pause(ctx, n, err) {
			return v, err
		}
	}
}

// mayRepeat reports whether a request may be repeated after err. A throttled request was not
// executed. A request to a provider that is out of service was probably not executed; that is
// enough for reads and repeatable writes, but not for a Create.
func mayRepeat(effect Effect, err error) bool {
	var o *outcome.Error
	if !errors.As(err, &o) || isPermanent(err) {
		return false
	}
	switch o.Kind {
	case outcome.Throttled:
		return true
	case outcome.Down:
		return effect != Create || o.Cause == CauseUnreachable
	case outcome.Broken, outcome.Unknown:
		var t retryableRead
		return effect == Read && errors.As(err, &t)
	default:
		return false
	}
}

// Pause waits before the attempt after the n-th, counted from 0. It waits as long as err asks.
// Otherwise it waits BaseDelay, doubled n times, with jitter. It returns false without waiting if
// the deadline leaves no time, and false when ctx ends.
func (p RetryPolicy) Pause(ctx context.Context, n int, err error) bool {
	var o *outcome.Error
	wait := time.Duration(0)
	if errors.As(err, &o) {
		wait = o.RetryAfter
	}
	if wait <= 0 {
		wait = p.BaseDelay << n
		wait = wait/2 + rand.N(wait/2+1)
	}
	return sleep(ctx, wait)
}

// sleep waits and returns true. It returns false without waiting if the deadline leaves no time,
// and false when ctx ends.
func sleep(ctx context.Context, wait time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < wait+reserve {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// retryableRead marks an error after which a read may be repeated, although mayRepeat does not
// repeat other errors of this kind of outcome.
type retryableRead struct{ error }

func (e retryableRead) Unwrap() error { return e.error }

// permanent marks an error after which nothing is repeated.
type permanent struct{ error }

func (e permanent) Unwrap() error { return e.error }

// Permanent marks err as one after which Retry makes no further attempt.
func Permanent(err error) error { return permanent{err} }

func isPermanent(err error) bool {
	var f permanent
	return errors.As(err, &f)
}
