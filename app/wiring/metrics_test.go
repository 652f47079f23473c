// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestConcurrentHealthChecksShareOnePing checks that concurrent checks share one ping. The ping has
// a deadline of at most DatabaseTimeout, and is not cancelled with the check that started the ping.
// A check after pingCacheTTL pings again.
func TestConcurrentHealthChecksShareOnePing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errUnreachable, pings, pingResult := errors.New("the database is unreachable"), 0, make(chan error)
		health := &databaseHealth{ping: func(ctx context.Context) error {
			pings++
			if deadline, ok := ctx.Deadline(); ctx.Err() != nil || !ok || time.Until(deadline) > DatabaseTimeout {
				t.Errorf("the context of the ping has the deadline %s and the error %v, want a deadline within %s and no error", deadline, ctx.Err(), DatabaseTimeout)
			}
			return <-pingResult
		}}
		cancelledCtx, cancel := context.WithCancel(t.Context())
		cancel()
		results := make(chan error)
		for range 5 {
			go func() { results <- health.Check(cancelledCtx) }()
		}
		pingResult <- errUnreachable
		for range 5 {
			if err := <-results; !errors.Is(err, errUnreachable) {
				t.Errorf("got %v, want the error of the ping", err)
			}
		}
		if pings != 1 {
			t.Errorf("%d pings, want 1", pings)
		}
		health.pingedAt = health.pingedAt.Add(-pingCacheTTL)
		go func() { pingResult <- nil }()
		if err := health.Check(t.Context()); err != nil || pings != 2 {
			t.Errorf("the check after pingCacheTTL returned %v after %d pings, want nil after 2", err, pings)
		}
	})
}
