// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const (
	// callLimit bounds one provider call, readLimit one read of the DNS, and storeLimit one write
	// to the store.
	callLimit  = 20 * time.Second
	readLimit  = 10 * time.Second
	storeLimit = 10 * time.Second
	// maxBrokenTries is how often a step is tried while the provider answers with internal errors.
	maxBrokenTries = 3
	// defaultPause is the time between two tries unless the caller sets one.
	defaultPause = time.Second
)

// Call makes one provider call with a timeout and returns its error. If the context ends before the
// answer, the outcome is unknown.
func Call(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	err := step(ctx)
	if outcome.Of(err) == 0 && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return &outcome.Error{Kind: outcome.Unknown, Cause: "context", Detail: "the call ended before its answer"}
	}
	return err
}

// RetryPolicy says how often Run tries a step. The zero value repeats it until the context ends.
type RetryPolicy struct {
	// Tries is the maximum number of tries, 0 for no maximum.
	Tries int
	// Pause is the time between two tries. It defaults to one second.
	Pause time.Duration
	// ThrottleReserve, if positive, makes Run wait while the provider throttles. The wait must leave
	// this much time before the deadline. A throttled call does not count as a try.
	ThrottleReserve time.Duration
}

// Once is the policy of a step that is tried once.
var Once = RetryPolicy{Tries: 1}

// EffectCheck reads whether a call with an unknown outcome had its effect. It limits the time of
// its own calls. It fails if the read has no answer, or if the answer proves that a repetition does
// not help.
type EffectCheck func(ctx context.Context) (done bool, err error)

// Run makes a provider call and decides by its outcome whether to repeat it. A use case only
// classifies the outcome of a call. The outcomes lead to:
//
//   - done, Refused, Down and errors of tenantry itself: Run returns.
//   - Throttled: Run returns, or waits if the policy has a ThrottleReserve.
//   - NotReady: Run pauses and calls again, until the context ends.
//   - Unknown: Run calls check first. It repeats the call only if check found no effect. A check that
//     has no answer is repeated like a call. A call without a check must be idempotent.
//   - Broken: as Unknown, at most maxBrokenTries times.
//
// Run returns the last error. If the tries or the time are used up before check has an answer, Run
// returns the unknown outcome of the call.
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
		if p.waitOut(ctx, err) {
			continue
		}
		if tries++; tries == p.Tries {
			return cmp.Or(unresolved, err)
		}
		switch outcome.Of(err) {
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

// waitOut waits for as long as a throttling provider demands. It returns false if the policy does
// not allow the wait, if its length is unknown, or if too little time is left.
func (p RetryPolicy) waitOut(ctx context.Context, err error) bool {
	end, bounded := ctx.Deadline()
	pause := outcome.RetryAfter(err)
	if p.ThrottleReserve <= 0 || outcome.Of(err) != outcome.Throttled || pause <= 0 ||
		!bounded || time.Until(end) < pause+p.ThrottleReserve {
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

// Detach returns a context for work that has begun to change the platform. The context survives the
// caller's cancellation, so that the work is finished and stored. It ends at the limit, or at the
// caller's deadline if that is earlier.
func Detach(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	until := time.Now().Add(limit)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	return context.WithDeadline(context.WithoutCancel(ctx), until)
}

// Store calls save with its own timeout, even when ctx has ended, and returns its error.
func Store(ctx context.Context, save func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
	defer cancel()
	return save(ctx)
}

// Consent detects that a tenant's consent was revoked.
type Consent struct {
	Tenants  ports.Tenants
	Platform ports.MailPlatform
	Now      func() time.Time
}

// Notice returns err unchanged, joined with the store's error if storing fails. For access_denied
// it reads the tenant's profile at the platform. If the platform also refuses the read, the consent
// was revoked, and Notice stores this for readiness to show. Otherwise a grant of the mail server
// is missing, which the next sync restores.
func (c Consent) Notice(ctx context.Context, owner access.AccountID, id tenant.GUID, err error) error {
	if !errors.Is(err, fault.AccessDenied) {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	began := c.Now()
	denied := Call(ctx, func(ctx context.Context) error {
		_, err := c.Platform.For(id).Profile(ctx)
		return err
	})
	if !errors.Is(denied, fault.AccessDenied) {
		return err
	}
	saved := Store(ctx, func(ctx context.Context) error {
		t, err := c.Tenants.Tenant(ctx, owner, id)
		if err != nil || t.Consent == tenant.ConsentRevoked {
			return err
		}
		t.Consent, t.Observed.Consent = tenant.ConsentRevoked, began
		return c.Tenants.SaveTenant(ctx, owner, t)
	})
	if saved != nil && !errors.Is(saved, fault.TenantNotFound) {
		return errors.Join(err, saved)
	}
	return err
}
