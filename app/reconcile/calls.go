// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const (
	// callTimeout is the timeout of one provider call. readTimeout is the timeout of one read of
	// the DNS. storeTimeout is the timeout of one call of Store.
	callTimeout  = 20 * time.Second
	readTimeout  = 10 * time.Second
	storeTimeout = 10 * time.Second
	// storeRetry is the delay after which a caller may try again when the store did not answer.
	storeRetry = 5 * time.Second
	// maxBrokenTries is the maximum number of tries that end in outcome.Broken.
	maxBrokenTries = 3
	// defaultPause is the default of RetryPolicy.Pause.
	defaultPause = time.Second
)

// Call makes one provider call as CallWithin does, with the timeout callTimeout.
func Call(ctx context.Context, call func(context.Context) error) error {
	return CallWithin(ctx, callTimeout, call)
}

// CallWithin makes one provider call with a timeout and returns its error. If the context ends
// before the answer, CallWithin returns an error of kind outcome.Unknown.
func CallWithin(ctx context.Context, timeout time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := call(ctx)
	if outcome.KindOf(err) == 0 && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return &outcome.Error{Kind: outcome.Unknown, Cause: "context", Detail: "the call ended before its answer"}
	}
	return err
}

// RetryPolicy says how often Run tries a call.
type RetryPolicy struct {
	// Tries is the maximum number of tries, 0 for no maximum.
	Tries int
	// Pause is the time between two tries. It defaults to one second.
	Pause time.Duration
	// ThrottleReserve, if positive, makes Run wait while the provider throttles. Run waits only if
	// at least ThrottleReserve remains between the end of the wait and the deadline. A throttled
	// call does not count as a try.
	ThrottleReserve time.Duration
}

// Once is the policy of a call that is tried once.
var Once = RetryPolicy{Tries: 1}

// EffectCheck reads whether a call with an unknown outcome had its effect. Run sets no timeout for
// an EffectCheck. An EffectCheck fails if its read gets no answer, or if the answer proves that
// another try of the call cannot succeed.
type EffectCheck func(ctx context.Context) (done bool, err error)

// Run makes a provider call and decides by its outcome whether to repeat it:
//
//   - success, Refused or Down: Run returns.
//   - Throttled: Run returns, or waits and calls again if ThrottleReserve allows the wait.
//   - NotReady: Run pauses and calls again, until the tries or the time are used up.
//   - Unknown: Run calls check, and repeats the call only if check found no effect. If check is
//     nil, Run repeats the call, which must be idempotent.
//   - Broken: Run does the same as for Unknown, and returns after maxBrokenTries tries.
//   - an error that does not come from the provider: Run calls check as for Unknown, but never
//     repeats the call.
//
// If check fails with NotReady, Unknown or Broken, Run pauses and repeats check. If check is
// throttled, Run waits as for a throttled call. Run returns any other error of check. If no try is
// left after check has failed, or if ctx ends during the pause, Run instead returns the unknown
// outcome of the call.
//
// In all other cases, Run returns the last error.
func Run(ctx context.Context, p RetryPolicy, call func(context.Context) error, check EffectCheck) error {
	var unresolved error // the unknown outcome of a call that no check has resolved
	for tries, broken := 0, 0; ; {
		err := unresolved
		if err == nil {
			err = Call(ctx, call)
		}
		if check != nil && err != nil && !outcome.ChangedNothing(err) {
			switch done, checkErr := check(ctx); {
			case checkErr != nil:
				unresolved, err = err, checkErr
			case done:
				return nil
			default:
				unresolved = nil
			}
		}
		if p.waitForThrottle(ctx, err) {
			continue
		}
		if tries++; tries == p.Tries {
			return cmp.Or(unresolved, err)
		}
		switch outcome.KindOf(err) {
		case outcome.NotReady, outcome.Unknown:
		case outcome.Broken:
			if broken++; broken == maxBrokenTries {
				return cmp.Or(unresolved, err)
			}
		default:
			return err
		}
		if !Wait(ctx, p.Pause) {
			return cmp.Or(unresolved, err)
		}
	}
}

// waitForThrottle waits for as long as a throttling provider demands. It returns true after the
// wait, and false if the context ends during the wait. It returns false without a wait if err is
// not Throttled or names no time. It also returns false if the policy has no ThrottleReserve, or if
// ctx has no deadline or one that is too near.
func (p RetryPolicy) waitForThrottle(ctx context.Context, err error) bool {
	deadline, hasDeadline := ctx.Deadline()
	pause := outcome.RetryAfter(err)
	if p.ThrottleReserve <= 0 || outcome.KindOf(err) != outcome.Throttled || pause <= 0 ||
		!hasDeadline || time.Until(deadline) < pause+p.ThrottleReserve {
		return false
	}
	return Wait(ctx, pause)
}

// Wait sleeps for pause, by default one second. It returns false if the context ended during the
// wait.
func Wait(ctx context.Context, pause time.Duration) bool {
	if pause <= 0 {
		pause = defaultPause
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// Detach returns a context for work that changes the platform. The context ignores the caller's
// cancellation, so that the work is finished and stored. It ends after timeout, or at the caller's
// deadline if that is earlier.
func Detach(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	end := time.Now().Add(timeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	return context.WithDeadline(context.WithoutCancel(ctx), end)
}

// Store calls save and returns its error. The context of save has its own timeout and ignores the
// end of ctx. If save reaches this timeout, Store returns service_unavailable.
func Store(ctx context.Context, save func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	err := save(ctx)
	if errors.Is(err, context.DeadlineExceeded) && fault.ErrorOf(err).Code == fault.InternalError {
		return fmt.Errorf("%w (%w)", fault.ServiceUnavailable.RetryIn(storeRetry, "the database does not answer right now"), err)
	}
	return err
}

// Consent detects and stores that a tenant's consent was revoked.
type Consent struct {
	Tenants  ports.Tenants
	Platform ports.MailPlatform
	Now      func() time.Time
}

// RecordIfRevoked returns err, joined with the store's error if storing fails. If err is
// access_denied, RecordIfRevoked first reads the tenant's profile at the platform:
//
//   - The platform denies the read: the consent was revoked. RecordIfRevoked stores this, and the
//     tenant's readiness shows it.
//   - The read succeeds: only a grant at the mail server is missing. The next sync checks this
//     grant.
//   - The read fails with a different error: RecordIfRevoked stores nothing.
//
// A cancellation of ctx does not end the read, but the deadline of ctx does.
func (c Consent) RecordIfRevoked(ctx context.Context, owner access.AccountID, id tenant.GUID, err error) error {
	if !errors.Is(err, fault.AccessDenied) {
		return err
	}
	readCtx, cancel := Detach(ctx, callTimeout)
	defer cancel()
	began := c.Now()
	profileErr := Call(readCtx, func(ctx context.Context) error {
		_, err := c.Platform.For(id).Profile(ctx)
		return err
	})
	if !errors.Is(profileErr, fault.AccessDenied) {
		return err
	}
	saveErr := Store(ctx, func(ctx context.Context) error {
		t, err := c.Tenants.Tenant(ctx, owner, id)
		if err != nil || t.Consent == tenant.ConsentRevoked {
			return err
		}
		t.Consent, t.Observed.Consent = tenant.ConsentRevoked, began
		return c.Tenants.SaveTenant(ctx, owner, t)
	})
	if saveErr != nil && !errors.Is(saveErr, fault.TenantNotFound) {
		return errors.Join(err, saveErr)
	}
	return err
}
