// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
)

const (
	// maxBrokenTries is how often a step is tried while the provider answers with internal errors.
	maxBrokenTries = 3
	// defaultPause is the time between two tries unless the caller sets one.
	defaultPause = time.Second
)

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

// Look reads whether a call with an unknown outcome had its effect. It limits the time of its own
// calls. It fails when it has no answer, or when it proves that a repetition does not help.
type Look func(ctx context.Context) (done bool, err error)

// Run makes a provider call and decides by its outcome whether to make it again. It is the only
// place of the program that decides this within a request. The outcomes lead to:
//
//   - done, Refused, Throttled, Down and errors of tenantry itself: Run returns.
//   - NotReady: Run pauses and calls again, until the context ends.
//   - Unknown: Run looks first. It calls again only after a look that found no effect. A look that
//     has no answer is repeated like a call. A call without a look must be idempotent.
//   - Broken: as Unknown, at most maxBrokenTries times.
//
// Run returns the last error. When tries or time are used up before a look has an answer, that is
// the unknown outcome of the call.
func Run(ctx context.Context, p RetryPolicy, call func(context.Context) error, look Look) error {
	var unresolved error // the unknown outcome of a call that no look has resolved
	for tries, broken := 0, 0; ; {
		err := unresolved
		if err == nil {
			err = Call(ctx, call)
		}
		if look != nil && err != nil && !outcome.ChangedNothing(err) {
			switch done, lookErr := look(ctx); {
			case lookErr != nil:
				unresolved, err = err, lookErr
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
// not allow this, or the wait is unknown, or too little time is left.
func (p RetryPolicy) waitOut(ctx context.Context, err error) bool {
	end, bounded := ctx.Deadline()
	pause := outcome.RetryAfter(err)
	if p.ThrottleReserve <= 0 || outcome.Of(err) != outcome.Throttled || pause <= 0 ||
		!bounded || time.Until(end) < pause+p.ThrottleReserve {
		return false
	}
	return Wait(ctx, pause)
}

// Wait sleeps for pause, by default one second. It returns false if the context ended meanwhile.
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
