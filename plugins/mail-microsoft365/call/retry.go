// SPDX-License-Identifier: Apache-2.0

package call

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
)

// minAttemptTime is how much time must remain until the deadline for an attempt that follows a
// wait.
const minAttemptTime = time.Second

// RetryPolicy determines how often a call is attempted and how long the first pause is.
type RetryPolicy struct {
	MaxAttempts int
	BaseDelay   time.Duration
}

// DefaultRetryPolicy pauses for up to one second and then for up to two seconds, unless the error
// contains a delay.
var DefaultRetryPolicy = RetryPolicy{MaxAttempts: 3, BaseDelay: time.Second}

// Retry calls attempt until it succeeds, or until its error does not allow another attempt for this
// effect. It also stops after the policy's number of attempts, or if Pause returns false.
func Retry[T any](ctx context.Context, policy RetryPolicy, effect Effect, attempt func() (T, error)) (T, error) {
	for n := 0; ; n++ {
		value, err := attempt()
		if err == nil || n+1 >= policy.MaxAttempts || !mayRepeat(effect, err) || !policy.Pause(ctx, n, err) {
			return value, err
		}
	}
}

// mayRepeat reports whether a request may be repeated after err. A throttled request was not
// executed, so it may be repeated, whatever its effect. If the provider was out of service, the
// request was probably not executed. A read and a repeatable write may then be repeated, and a
// Create only if it was not sent. After an error that is marked as retryableRead, only a read may
// be repeated.
func mayRepeat(effect Effect, err error) bool {
	var result *outcome.Error
	if !errors.As(err, &result) || isPermanent(err) {
		return false
	}
	switch result.Kind {
	case outcome.Throttled:
		return true
	case outcome.Down:
		return effect != Create || result.Cause == CauseUnreachable
	case outcome.Broken, outcome.Unknown:
		var marked retryableRead
		return effect == Read && errors.As(err, &marked)
	default:
		return false
	}
}

// Pause waits after the failed attempt n and returns true. n counts from 0. If err contains a
// delay, Pause waits for that time. Otherwise it waits for BaseDelay, doubled n times, with jitter.
// It returns false at once if the deadline leaves no time for the wait and another attempt. It also
// returns false if ctx ends.
func (p RetryPolicy) Pause(ctx context.Context, n int, err error) bool {
	var result *outcome.Error
	wait := time.Duration(0)
	if errors.As(err, &result) {
		wait = result.RetryAfter
	}
	if wait <= 0 {
		wait = p.BaseDelay << n
		wait = wait/2 + rand.N(wait/2+1)
	}
	return sleep(ctx, wait)
}

// sleep waits and returns true. It returns false in the cases in which Pause returns false.
func sleep(ctx context.Context, wait time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < wait+minAttemptTime {
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

// retryableRead marks an error after which a read may be repeated. Without the mark, mayRepeat
// would not allow it for this kind of outcome.
type retryableRead struct{ error }

func (e retryableRead) Unwrap() error { return e.error }

// permanent marks an error after which no request is repeated.
type permanent struct{ error }

func (e permanent) Unwrap() error { return e.error }

// Permanent marks err, so that Retry makes no further attempt.
func Permanent(err error) error { return permanent{err} }

func isPermanent(err error) bool {
	var marked permanent
	return errors.As(err, &marked)
}
