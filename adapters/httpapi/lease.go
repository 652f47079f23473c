// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"log/slog"
	"time"
)

// hold renews the lease of a run until it ends, and ends the run when the
// lease cannot be held: whoever has the key next must not meet it at the
// provider. What is detached from the context is kept from further calls.
func (x *run) hold(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		x.renew(ctx, cancel)
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

func (x *run) renew(ctx context.Context, stop context.CancelCauseFunc) {
	lease := x.guard.once.Lease
	tick := time.NewTicker(lease / 3)
	defer tick.Stop()
	// Reckoned from before each renewal, so that we give up before the
	// database does.
	held := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked := time.Now()
		within, cancel := context.WithTimeout(ctx, lease/3)
		mine, err := x.guard.once.Keys.Hold(within, x.write.at, x.attempt, lease)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && mine:
			held = asked
		case err == nil || time.Since(held) >= lease*2/3:
			x.effects.Stop()
			stop(errLeaseLost)
			x.guard.log.LogAttrs(ctx, slog.LevelError, "an Idempotency-Key could not be held", because(err))
			return
		}
	}
}
