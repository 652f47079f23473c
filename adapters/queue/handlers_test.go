// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/ports"
)

// TestNextRunHasAMonotonicTime checks that the due time of the next run has a monotonic clock
// reading. With it, Local does not delay the run when the clock is set back.
func TestNextRunHasAMonotonicTime(t *testing.T) {
	const every = time.Minute
	for name, at := range map[string]time.Time{"due in the past": time.Now().Add(-time.Second), "due in the future": time.Now().Add(every)} {
		woken := &fake.Wakeups{}
		byKind, err := newHandlers(woken, ports.Work{Periodic: []ports.Periodic{{Kind: "sweep", Every: every, Do: func(context.Context) error { return nil }}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := byKind["sweep"](t.Context(), ports.Wakeup{Kind: "sweep", At: at}); err != nil {
			t.Fatal(err)
		}
		next := woken.All()[0].At
		if !next.After(at) || !next.Round(0).Equal(next.UTC().Truncate(every)) {
			t.Errorf("%s: the next run after %s is at %s, want a multiple of %s", name, at, next, every)
		}
		if !strings.Contains(next.String(), "m=") {
			t.Errorf("%s: the next run at %s has no monotonic clock reading", name, next)
		}
	}
}

// TestOnlyFailuresOfAHandlerDelayItsRetry checks that the stop of a worker and an unknown kind do
// not count as failures. A failure would lengthen the delay of the next retry.
func TestOnlyFailuresOfAHandlerDelayItsRetry(t *testing.T) {
	const earlierFailures = 3
	failingHandler := func(context.Context, ports.Wakeup) error { return errors.New("away") }
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, tc := range []struct {
		name   string
		ctx    context.Context
		byKind handlers
		want   int // the number of failures after the call
	}{
		{"the handler fails", t.Context(), handlers{"sweep": failingHandler}, earlierFailures + 1},
		{"the worker stops", stopped, handlers{"sweep": failingHandler}, earlierFailures},
		{"the kind is unknown", t.Context(), nil, earlierFailures},
		{"the handler succeeds", t.Context(), handlers{"sweep": func(context.Context, ports.Wakeup) error { return nil }}, 0},
	} {
		options := Options{Log: slog.New(slog.DiscardHandler), HandlerTimeout: time.Hour, RetryDelay: time.Second}
		if got := options.handle(tc.ctx, tc.byKind, ports.Wakeup{Kind: "sweep"}, earlierFailures); got.failures != tc.want {
			t.Errorf("%s: %d failures, want %d", tc.name, got.failures, tc.want)
		}
	}
}

// TestPanicOfARoundLosesNoEndedHandler lets a round of the admission panic while a handler waits
// until its end is stored.
func TestPanicOfARoundLosesNoEndedHandler(t *testing.T) {
	ended := &endedHandler{recorded: make(chan struct{})}
	admission := newAdmission(nil, nil, Options{Log: slog.New(slog.DiscardHandler)}) // without a pool, each round panics
	admission.ended = []*endedHandler{ended}
	if _, err := admission.guardedRound(t.Context()); err == nil {
		t.Error("a round without a pool returned no error")
	}
	select {
	case <-ended.recorded:
		t.Error("the end of the handler counts as stored, although the round failed")
	default:
	}
	if len(admission.ended) != 1 {
		t.Errorf("%d handlers wait for the next round, want 1", len(admission.ended))
	}
}
