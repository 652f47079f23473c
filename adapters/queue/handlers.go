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

// handlers maps the kind of a job to its handler.
type handlers map[string]ports.Handler

// newHandlers returns the handlers of w, and a handler for each periodic job. The handler of a
// periodic job enqueues the next wake-up before it runs the job, so that a failure does not end the
// series. newHandlers fails if a kind has two handlers or an interval is not positive.
//
// All wake-ups of a periodic job have the same id, also in different replicas. So the queue keeps
// one wake-up of the job, even if every run fails, and a run starts only after the previous run has
// ended.
func newHandlers(q ports.Queue, w ports.Work) (handlers, error) {
	byKind := handlers{}
	for kind, handle := range w.Handlers {
		byKind[kind] = handle
	}
	for _, periodic := range w.Periodic {
		if byKind[periodic.Kind] != nil {
			return nil, fmt.Errorf("queue: kind %q has two handlers", periodic.Kind)
		}
		if periodic.Every <= 0 {
			return nil, fmt.Errorf("queue: kind %q has the interval %s, which is not positive", periodic.Kind, periodic.Every)
		}
		byKind[periodic.Kind] = func(ctx context.Context, w ports.Wakeup) error {
			now, at := time.Now(), nextRun(periodic, w.At)
			// If the clock of this process lags behind the clock of the queue, now can be before
			// w.At. The next run must still be after w.At.
			if now.After(w.At) {
				at = nextRun(periodic, now)
			}
			// The sum has a monotonic clock reading. If the clock is set back, Local therefore
			// still runs the job after the same time.
			at = now.Add(at.Sub(now))
			if err := q.Wake(ctx, ports.Wakeup{Kind: periodic.Kind, At: at}); err != nil {
				return err
			}
			return periodic.Do(ctx)
		}
	}
	return byKind, nil
}

// startupWakeups returns one wake-up for each periodic job, so that every periodic job runs when
// the worker starts.
func startupWakeups(w ports.Work) []ports.Wakeup {
	var wakeups []ports.Wakeup
	for _, p := range w.Periodic {
		wakeups = append(wakeups, ports.Wakeup{Kind: p.Kind})
	}
	return wakeups
}

// logPanic logs a panic of the queue's own goroutines.
func (o Options) logPanic(e *panics.Error) { o.Log.Error("panic", "type", e.Type, "stack", e.Stack) }

// handlerResult says whether to retry a wake-up, after which delay, and how many consecutive
// failures its handler has had.
type handlerResult struct {
	shouldRetry bool
	delay       time.Duration
	failures    int
}

// handle runs the handler of a wake-up. failures is the number of consecutive failures so far. If
// the worker is stopping, or if the kind is unknown, the retry does not count as a failure.
func (o Options) handle(ctx context.Context, byKind handlers, w ports.Wakeup, failures int) handlerResult {
	handler := byKind[w.Kind]
	if handler == nil {
		o.Log.WarnContext(ctx, "a job is of a kind that this version does not know", "kind", w.Kind, "again_in", unknownKindDelay.String())
		return handlerResult{shouldRetry: true, delay: unknownKindDelay, failures: failures}
	}
	limited, cancel := context.WithTimeout(ctx, o.HandlerTimeout)
	defer cancel()
	err := o.runTraced(limited, handler, w)
	switch {
	case err == nil:
		return handlerResult{}
	case ctx.Err() != nil: // the worker is stopping
		return handlerResult{shouldRetry: true, failures: failures}
	}
	delay := o.retryDelay(failures)
	o.Log.WarnContext(ctx, "a background job failed and will run again", "kind", w.Kind, "failures", failures+1, "again_in", delay.String(), "error", err)
	return handlerResult{shouldRetry: true, delay: delay, failures: failures + 1}
}

// traceparentKey is the context key of a handler's traceparent. The wake-ups that the handler
// enqueues get this traceparent.
type traceparentKey struct{}

// runTraced runs a handler in a new trace, with a link to the request that caused the job. The new
// span is not a child span, because the request may have ended long ago. runTraced returns a panic
// as a *panics.Error.
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
			e := panics.ErrorOf(p)
			o.Log.ErrorContext(ctx, "panic", "kind", w.Kind, "type", e.Type, "stack", e.Stack)
			err = e
		}
		if err != nil {
			span.SetStatus(codes.Error, "")
		}
	}()
	return handler(context.WithValue(ctx, traceparentKey{}, w.Trace), w)
}

// withTrace returns w with the traceparent of the request that caused w, unless w already has a
// traceparent. If a handler enqueues w, w gets the traceparent of the handler's own wake-up.
func withTrace(ctx context.Context, w ports.Wakeup) ports.Wakeup {
	if w.Trace != "" {
		return w
	}
	if inherited, isInHandler := ctx.Value(traceparentKey{}).(string); isInHandler {
		w.Trace = inherited
		return w
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	w.Trace = carrier["traceparent"]
	return w
}

// graceContext returns a context that ends 2 s before ctx. If less than 6 s remain, it ends after
// two thirds of the remaining time. Handlers are cancelled when the returned context ends, so that
// they can return before ctx ends. If ctx has no deadline, both contexts end at the same time.
func graceContext(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	remaining := time.Until(deadline)
	return context.WithDeadline(ctx, deadline.Add(-min(2*time.Second, remaining/3)))
}
