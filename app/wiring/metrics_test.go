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
// a deadline of at most DatabaseTimeout. It does not end when the check that started it is
// cancelled. A check after pingCacheTTL pings again.
func TestConcurrentHealthChecksShareOnePing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errUnreachable, pings, pingResult := errors.New("the database is unreachable"), 0, make(chan error)
		health := &databaseHealth{ping: func(ctx context.Context) error {
			pings++
			if deadline, ok := ctx.Deadline(); ctx.Err() != nil || !ok || time.Until(deadline) > DatabaseTimeout {
				t.Errorf("the deadline of the ping is %s (%v), want at most %s from now", deadline, ctx.Err(), DatabaseTimeout)
			}
			return <-pingResult
		}}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		results := make(chan error)
		for range 5 {
			go func() { results <- health.Check(canceled) }()
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
			t.Errorf("second check: %v after %d pings", err, pings)
		}
	})
}
