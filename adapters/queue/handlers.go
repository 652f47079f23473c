// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/ports"
)

// handlers are the handlers of a worker, by kind.
type handlers map[string]ports.Handler

// newHandlers returns the handlers of w, and a handler for each periodic. A periodic enqueues its
// next wake-up before it runs, so that a failure does not end the series. wakeupID returns the id
// of the wake-up at a time. newHandlers fails if a kind has two handlers or an interval is not
// positive.
func newHandlers(q ports.Queue, w ports.Work, wakeupID func(at time.Time) string) (handlers, error) {
	all := handlers{}
	for kind, handle := range w.Handlers {
		all[kind] = handle
	}
	for _, p := range w.Periodic {
		if all[p.Kind] != nil {
			return nil, fmt.Errorf("queue: kind %q has two handlers", p.Kind)
		}
		if p.Every <= 0 {
			return nil, fmt.Errorf("queue: kind %q comes every %s", p.Kind, p.Every)
		}
		all[p.Kind] = func(ctx context.Context, w ports.Wakeup) error {
			at := nextRun(p, w.At)
			if now := time.Now(); now.After(w.At) { // otherwise this process's clock lags behind the queue's
				at = nextRun(p, now)
			}
			if err := q.Wake(ctx, ports.Wakeup{Kind: p.Kind, ID: wakeupID(at), At: at}); err != nil {
				return err
			}
			return p.Do(ctx)
		}
	}
	return all, nil
}

// startupWakeups returns one wake-up for each periodic, so that every periodic runs when the worker
// starts.
func startupWakeups(w ports.Work) []ports.Wakeup {
	var all []ports.Wakeup
	for _, p := range w.Periodic {
		all = append(all, ports.Wakeup{Kind: p.Kind})
	}
	return all
}

// logPanic logs a panic of the queue's own goroutines.
func (o Options) logPanic(e *panics.Error) { o.Log.Error("panic", "type", e.Type, "stack", e.Stack) }

// handle runs the handler of a wake-up. failures is the number of earlier failures. handle reports
// whether to retry the wake-up, and the delay before the retry. The delay is 0 when the worker is
// stopping.
func (o Options) handle(ctx context.Context, all handlers, w ports.Wakeup, failures int) (delay time.Duration, retry bool) {
	handler := all[w.Kind]
	if handler == nil {
		o.Log.WarnContext(ctx, "a job is of a kind that this version does not know", "kind", w.Kind, "again_in", unknownKindDelay.String())
		return unknownKindDelay, true
	}
	limited, cancel := context.WithTimeout(ctx, o.HandlerTimeout)
	defer cancel()
	err := o.runTraced(limited, handler, w)
	switch {
	case err == nil:
		return 0, false
	case ctx.Err() != nil: // the worker is stopping
		return 0, true
	}
	delay = o.retryDelay(failures)
	o.Log.WarnContext(ctx, "a job's step failed and will be repeated", "kind", w.Kind, "failures", failures+1, "again_in", delay.String(), "error", err)
	return delay, true
}

// traceparentKey is the context key of the traceparent that a handler's own wake-ups inherit.
type traceparentKey struct{}

// runTraced runs a handler in a new trace, with a link to the request that caused the job. The new
// span is not a child span, because the request may have ended long ago. A panic is returned as a
// *panics.Error.
func (o Options) runTraced(ctx context.Context, handler ports.Handler, w ports.Wakeup) (err error) {
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(attribute.String("tenantry.job.kind", w.Kind))}
	remote := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": w.Trace})
	if request := trace.SpanContextFromContext(remote); request.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: request}))
	}
	ctx, span := otel.Tracer("github.com/tenantry/tenantry/adapters/queue").Start(ctx, "job "+w.Kind, options...)
	defer span.End()
	defer func() {
		if p := recover(); p != nil {
			e := panics.Of(p)
			o.Log.ErrorContext(ctx, "panic", "kind", w.Kind, "type", e.Type, "stack", e.Stack)
			err = e
		}
		if err != nil {
			span.SetStatus(codes.Error, "")
		}
	}()
	return handler(context.WithValue(ctx, traceparentKey{}, w.Trace), w)
}

// withTrace returns w with the traceparent of the request that caused it. A wake-up from a handler
// gets the traceparent of the request that caused the handler's own job.
func withTrace(ctx context.Context, w ports.Wakeup) ports.Wakeup {
	if w.Trace != "" {
		return w
	}
	if inherited, inside := ctx.Value(traceparentKey{}).(string); inside {
		w.Trace = inherited
		return w
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	w.Trace = carrier["traceparent"]
	return w
}

// graceContext returns a context that ends 2 s before ctx, or a third of the remaining time before
// ctx if that is shorter. Handlers that still run are then cancelled, so that they can return
// before ctx ends. If ctx has no deadline, both contexts end together.
func graceContext(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	left := time.Until(deadline)
	return context.WithDeadline(ctx, deadline.Add(-min(2*time.Second, left/3)))
}
