// SPDX-License-Identifier: Apache-2.0

package settling

import (
	"context"
	"errors"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
)

const (
	// callLimit bounds one provider call, readLimit one read of the DNS,
	// storeLimit the saving of what an effect led to.
	callLimit  = 20 * time.Second
	readLimit  = 10 * time.Second
	storeLimit = 10 * time.Second
	// brokenTries is how often a step meets a platform that answers with
	// faults of its own before it gives up.
	brokenTries = 3
	// usualPause lies between two tries unless something else is asked for.
	usualPause = time.Second
)

// Call makes one provider call with its deadline. A context that ended takes
// the answer with it: that is an unknown outcome.
func Call(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	err := step(ctx)
	if outcome.Of(err) == 0 && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return &outcome.Error{Kind: outcome.Unknown, Cause: "context", Detail: "the call ended before its answer"}
	}
	return err
}

// Persist repeats a step that may be repeated harmlessly, until it is done,
// refused, or the context ends; then it returns the last error. It has
// patience with what is not ready and with lost answers, little with faults
// of the platform, and none where the platform wants us to stay away.
func Persist(ctx context.Context, pause time.Duration, step func(context.Context) error) error {
	for broken := 0; ; {
		err := Call(ctx, step)
		switch outcome.Of(err) {
		case outcome.NotReady, outcome.Unknown:
		case outcome.Broken:
			if broken++; broken == brokenTries {
				return err
			}
		default:
			return err
		}
		if !Wait(ctx, pause) {
			return err
		}
	}
}

// Wait sleeps, a second unless pause says otherwise, and reports false when the
// context ended meanwhile.
func Wait(ctx context.Context, pause time.Duration) bool {
	if pause <= 0 {
		pause = usualPause
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

// Detach is for work that has begun to change the platform: it goes on and is
// stored also when the caller has gone. It ends at the limit, or earlier at
// the caller's own deadline.
func Detach(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	until := time.Now().Add(limit)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	return context.WithDeadline(context.WithoutCancel(ctx), until)
}

// Store saves what an effect led to, also when the time for effects is up.
func Store(ctx context.Context, save func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
	defer cancel()
	return save(ctx)
}
