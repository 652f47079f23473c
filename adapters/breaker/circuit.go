// SPDX-License-Identifier: Apache-2.0

package breaker

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// The function that run passes to gobreaker returns one of these errors, or nil, instead of the
// error of the call.
var (
	errFailed     = errors.New("the call failed")
	errNoEvidence = errors.New("the call says nothing about the provider")
	errReadFirst  = errors.New("the circuit is half open and this is a write")
)

// probeWait is the Retry-After of a call that is refused because a different call tests the
// provider.
const probeWait = time.Second

type circuit struct {
	domain   string
	openTime time.Duration
	budget   BudgetFunc
	breaker  *gobreaker.CircuitBreaker[struct{}]

	// createdAt has a monotonic clock reading. openedAfter is the time from createdAt to the
	// last opening, in nanoseconds. A change of the wall clock therefore does not affect it.
	createdAt   time.Time
	openedAfter atomic.Int64
}

func newCircuit(domain string, options Options) *circuit {
	c := &circuit{domain: domain, openTime: options.OpenTime, budget: options.Budget, createdAt: time.Now()}
	kind, _, _ := strings.Cut(domain, "/") // the part after the slash is customer data
	c.breaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Interval:     options.Window,
		BucketPeriod: options.Window / 6,
		Timeout:      options.OpenTime,
		MaxRequests:  1,
		ReadyToTrip: func(n gobreaker.Counts) bool {
			limit := uint32(options.Failures)
			return n.ConsecutiveFailures >= limit || (n.TotalFailures >= 2*limit && 2*n.TotalFailures >= n.Requests)
		},
		IsSuccessful: func(err error) bool { return err == nil },
		IsExcluded:   func(err error) bool { return errors.Is(err, errNoEvidence) || errors.Is(err, errReadFirst) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				c.openedAfter.Store(int64(time.Since(c.createdAt)))
			}
			options.Log.Warn("circuit changed", "provider", options.Provider, "domain", kind, "from", stateOf(from), "to", stateOf(to))
		},
	})
	return c
}

// run sends the call if the circuit and the budgets of budgetDomain allow it. If the circuit is
// half open, run does not send a write and returns errReadFirst. If the API request has lost the
// lease of its Idempotency-Key (see ports.Stopped), run returns service_unavailable.
func (c *circuit) run(ctx context.Context, call wire.Call, budgetDomain string, send func(context.Context) error) error {
	if ports.Stopped(ctx) {
		return fault.ServiceUnavailable.With("this request lost the lease of its Idempotency-Key")
	}
	var err error
	_, verdict := c.breaker.Execute(func() (struct{}, error) {
		if !call.ReadOnly && c.isHalfOpen() {
			return struct{}{}, errReadFirst
		}
		giveBack, refusal := c.countAgainstBudgets(ctx, call, budgetDomain)
		if err = refusal; err != nil {
			return struct{}{}, errNoEvidence
		}
		err = send(ctx)
		if outcome.IsUnsent(err) {
			giveBack()
		}
		recordEffects(ctx, call, err)
		return struct{}{}, classify(ctx, call, err)
	})
	switch {
	case errors.Is(verdict, gobreaker.ErrOpenState):
		return c.refusal(c.remainingOpenTime())
	case errors.Is(verdict, gobreaker.ErrTooManyRequests):
		return c.refusal(probeWait)
	case errors.Is(verdict, errReadFirst):
		return errReadFirst
	default:
		return err
	}
}

func (c *circuit) isHalfOpen() bool { return c.breaker.State() == gobreaker.StateHalfOpen }

// countAgainstBudgets counts the call against the budgets of budgetDomain. giveBack reverses the
// count. countAgainstBudgets returns outcome.Throttled when a budget is exceeded.
func (c *circuit) countAgainstBudgets(ctx context.Context, call wire.Call, budgetDomain string) (giveBack func(), err error) {
	if call.WithoutProvider {
		return func() {}, nil
	}
	giveBack, wait, ok := c.budget(ctx, budgetDomain, call.Operation)
	if !ok {
		return nil, &outcome.Error{
			Kind: outcome.Throttled, Cause: "budget", RetryAfter: wait,
			Detail: "the number of calls that the provider allows is used up",
		}
	}
	return giveBack, nil
}

// recordEffects records in ports.Effects an answer of the provider if the call succeeded, was
// refused or is not ready. For every other outcome, such as Throttled, it records only that the
// provider was called. It records nothing for a call that did not reach the provider: the plugin
// answered without the provider or had no process, a setting is invalid, or tenantry itself failed.
// A call that the plugin held back (outcome.CauseHeldBack) counts as a call, because the plugin may
// already have sent other requests of the call.
func recordEffects(ctx context.Context, call wire.Call, err error) {
	switch kind := outcome.KindOf(err); {
	case call.WithoutProvider, outcome.IsInvalidSetting(err), outcome.IsWithoutProcess(err):
	case err == nil, kind == outcome.Refused, kind == outcome.NotReady:
		ports.RecordAnswer(ctx)
	case kind != 0, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		ports.RecordCall(ctx)
	}
}

// classify translates the result of a call for gobreaker. It returns nil if the provider answered,
// errFailed if the provider failed, and errNoEvidence if the call shows neither. A provider's
// answer that is too large counts as an answer. Otherwise the long list of one customer would stop
// the calls of the other customers that use the circuit.
func classify(ctx context.Context, call wire.Call, err error) error {
	switch kind := outcome.KindOf(err); {
	case errors.Is(ctx.Err(), context.Canceled):
		return errNoEvidence // the caller has cancelled the call, or has lost its lease
	case call.WithoutProvider, outcome.IsUnsent(err), isPluginFault(err):
		return errNoEvidence
	case outcome.IsTooLarge(err):
		return nil
	case kind == outcome.Down, kind == outcome.Broken, kind == outcome.Unknown:
		return errFailed
	case kind != 0: // the call was refused, is not ready or was throttled, so the provider answers
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return errFailed
	case err != nil: // an error of tenantry itself, such as a missing setting
		return errNoEvidence
	default:
		return nil
	}
}

// isPluginFault reports whether the call failed because of the plugin or its process. An error that
// the plugin did not classify and an exceeded deadline are not such failures, because their cause
// is usually the provider.
func isPluginFault(err error) bool {
	var e *outcome.Error
	return errors.As(err, &e) && strings.HasPrefix(e.Cause, outcome.PluginCausePrefix) &&
		e.Cause != wire.CauseUnclassified && e.Cause != wire.CauseDeadline
}

// refusal returns the error of a call that was not sent because the circuit is open or half open.
func (c *circuit) refusal(wait time.Duration) error {
	return &outcome.Error{
		Kind: outcome.Down, Cause: "circuit_open", RetryAfter: wait,
		Detail: "the provider failed repeatedly, so calls to it are paused",
	}
}

// remainingOpenTime returns the time after which an open circuit sends a read.
func (c *circuit) remainingOpenTime() time.Duration {
	timeOpen := time.Since(c.createdAt) - time.Duration(c.openedAfter.Load())
	remaining := c.openTime - timeOpen
	// One millisecond is added, because gobreaker becomes half open just after its timeout, and
	// because outcome.Error replaces a RetryAfter of 0 by 10 seconds.
	return max(remaining, 0) + time.Millisecond
}

// waitAfterProbe returns the Retry-After of a write that was refused because its probe, the read
// before the write, failed or was not sent. If the probe shows that the provider still fails, the
// circuit is open again. A probe is not sent while a different call tests the provider.
func (c *circuit) waitAfterProbe() time.Duration {
	if c.breaker.State() == gobreaker.StateOpen {
		return c.remainingOpenTime()
	}
	return probeWait
}

func (c *circuit) snapshot() Circuit {
	current := Circuit{Domain: c.domain, State: stateOf(c.breaker.State())}
	if current.State == Open {
		current.RetryIn = c.remainingOpenTime()
	}
	return current
}

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
