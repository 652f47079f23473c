// SPDX-License-Identifier: Apache-2.0

package breaker

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// What gobreaker is told of a call. It never sees the call's own error.
var (
	errFailed     = errors.New("the call failed")
	errNoEvidence = errors.New("the call says nothing about the provider")
	errReadFirst  = errors.New("the circuit is half open and this is a write")
)

// probeWait is when to come back while another call finds out whether the
// provider is back.
const probeWait = time.Second

// circuit is the circuit of one fault domain.
type circuit struct {
	domain  string
	open    time.Duration
	budget  func(ctx context.Context, domain, operation string) (retryIn time.Duration, ok bool)
	opened  atomic.Int64 // when it opened last, in Unix nanoseconds
	breaker *gobreaker.CircuitBreaker[struct{}]
}

func newCircuit(domain string, o Options) *circuit {
	c := &circuit{domain: domain, open: o.Open, budget: o.Budget}
	kind, _, _ := strings.Cut(domain, "/") // the rest is customer data
	c.breaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Interval:     o.Window,
		BucketPeriod: o.Window / 6,
		Timeout:      o.Open,
		MaxRequests:  1,
		ReadyToTrip: func(n gobreaker.Counts) bool {
			limit := uint32(o.Failures)
			return n.ConsecutiveFailures >= limit || (n.TotalFailures >= 2*limit && 2*n.TotalFailures >= n.Requests)
		},
		IsSuccessful: func(err error) bool { return err == nil },
		IsExcluded:   func(err error) bool { return errors.Is(err, errNoEvidence) || errors.Is(err, errReadFirst) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				c.opened.Store(time.Now().UnixNano())
			}
			o.Log.Warn("circuit changed", "provider", o.Provider, "domain", kind, "from", stateOf(from), "to", stateOf(to))
		},
	})
	return c
}

// traits say what a call is to the circuit.
type traits struct {
	// operation is its name where calls cost the provider more than one
	// request, or count in a budget of their own.
	operation string
	// write: it may not be the one that finds out whether the provider is back.
	write bool
	// payer is the domain whose budgets the call counts in, where that is not
	// the circuit's own.
	payer string
	// local: it is answered without asking the provider, so success proves
	// nothing.
	local bool
}

// run makes the call if the circuit lets it.
func run[T any](ctx context.Context, c *circuit, is traits, call func() (T, error)) (T, error) {
	var answer T
	if ports.Stopped(ctx) {
		return answer, fault.ServiceUnavailable.With("the request is at work elsewhere by now")
	}
	var err error
	_, verdict := c.breaker.Execute(func() (struct{}, error) {
		if is.write && c.breaker.State() == gobreaker.StateHalfOpen {
			return struct{}{}, errReadFirst
		}
		if err = c.spend(ctx, is); err != nil {
			return struct{}{}, errNoEvidence
		}
		answer, err = call()
		note(ctx, is, err)
		return struct{}{}, judge(ctx, is, err)
	})
	switch {
	case errors.Is(verdict, gobreaker.ErrOpenState):
		return answer, c.refusal(c.remaining())
	case errors.Is(verdict, gobreaker.ErrTooManyRequests):
		return answer, c.refusal(probeWait)
	case errors.Is(verdict, errReadFirst):
		return answer, errReadFirst
	default:
		return answer, err
	}
}

// spend takes the call's share of what the provider allows. What does not fit
// in has not left.
func (c *circuit) spend(ctx context.Context, is traits) error {
	if is.local {
		return nil
	}
	if wait, ok := c.budget(ctx, cmp.Or(is.payer, c.domain), is.operation); !ok {
		return &outcome.Error{
			Kind: outcome.Throttled, Cause: "budget", RetryAfter: wait,
			Detail: "as much as the provider allows was asked of it already",
		}
	}
	return nil
}

// note notes the call and its answer. This is the place for it: what the
// circuit refuses has not left, and neither has what ended in an error of ours.
func note(ctx context.Context, is traits, err error) {
	switch kind := outcome.Of(err); {
	case is.local:
	case err == nil, kind == outcome.Refused, kind == outcome.NotReady:
		ports.NoteAnswered(ctx)
	case kind != 0, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		ports.NoteAsked(ctx)
	}
}

// judge says what a call's end tells about the provider.
func judge(ctx context.Context, is traits, err error) error {
	switch kind := outcome.Of(err); {
	case errors.Is(context.Cause(ctx), context.Canceled):
		return errNoEvidence // the caller went away
	case kind == outcome.Down, kind == outcome.Broken, kind == outcome.Unknown:
		return errFailed
	case kind != 0: // refused, not ready, throttled: it is there and answers
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return errFailed
	case err != nil, is.local: // an error of ours, a missing setting say
		return errNoEvidence
	default:
		return nil
	}
}

// refusal is the answer of an open circuit: nothing has left.
func (c *circuit) refusal(wait time.Duration) error {
	return &outcome.Error{
		Kind: outcome.Down, Cause: "circuit_open", RetryAfter: wait,
		Detail: "the provider failed several times in a row and gets a pause",
	}
}

// remaining is the time until an open circuit lets a read through.
func (c *circuit) remaining() time.Duration {
	left := c.open - time.Since(time.Unix(0, c.opened.Load()))
	// gobreaker half-opens just after its time, and no time means no hint.
	return max(left, 0) + time.Millisecond
}

// waitAfterProbe is when to come back after a probe that failed, which opened
// the circuit again, or after one that another call was ahead of.
func (c *circuit) waitAfterProbe() time.Duration {
	if c.breaker.State() == gobreaker.StateOpen {
		return c.remaining()
	}
	return probeWait
}

func (c *circuit) show() Circuit {
	shown := Circuit{Domain: c.domain, State: stateOf(c.breaker.State())}
	if shown.State == Open {
		shown.RetryIn = c.remaining()
	}
	return shown
}

// stateOf is a state by the one name that log, metrics and readiness use.
func stateOf(s gobreaker.State) State {
	switch s {
	case gobreaker.StateOpen:
		return Open
	case gobreaker.StateHalfOpen:
		return HalfOpen
	default:
		return Closed
	}
}
