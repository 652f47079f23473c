// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenantry/tenantry/ports"
)

// kinds is everything that a worker has a handler for.
type kinds map[string]ports.Handler

// kindsOf returns the handlers of w, with one for each periodic. A periodic asks
// for its next time before it begins, so that no failure ends it. id names the
// wake-up of that time.
func kindsOf(q ports.Queue, w ports.Work, id func(at time.Time) string) (kinds, error) {
	all := kinds{}
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
			at := next(p, w.At)
			if now := time.Now(); now.After(w.At) { // else this clock is behind the queue's
				at = next(p, now)
			}
			if err := q.Wake(ctx, ports.Wakeup{Kind: p.Kind, ID: id(at), At: at}); err != nil {
				return err
			}
			return p.Do(ctx)
		}
	}
	return all, nil
}

// first are the wake-ups of a start.
func first(w ports.Work) []ports.Wakeup {
	var all []ports.Wakeup
	for _, p := range w.Periodic {
		all = append(all, ports.Wakeup{Kind: p.Kind})
	}
	return all
}

var errPanic = errors.New("panic")

// stack is the functions and lines that led to a panic, without arguments.
func stack() []string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)])
	var lines []string
	for {
		f, more := frames.Next()
		lines = append(lines, fmt.Sprintf("%s:%d", f.Function, f.Line))
		if !more {
			return lines
		}
	}
}

// call runs a handler. again is how long to wait for the next try, if there is
// to be one; failures is how many there were before.
func (o Options) call(ctx context.Context, all kinds, w ports.Wakeup, failures int) (again time.Duration, retry bool) {
	handle := all[w.Kind]
	if handle == nil {
		o.Log.WarnContext(ctx, "a job is of a kind that this version does not know", "kind", w.Kind, "again_in", strangerPause.String())
		return strangerPause, true
	}
	within, cancel := context.WithTimeout(ctx, o.Deadline)
	defer cancel()
	err := o.traced(within, handle, w)
	switch {
	case err == nil:
		return 0, false
	case ctx.Err() != nil: // handed back
		return 0, true
	}
	again = o.pause(failures)
	o.Log.WarnContext(ctx, "a job's step failed and comes again", "kind", w.Kind, "failures", failures+1, "again_in", again.String(), "error", err)
	return again, true
}

// cause is the key of the traceparent that the wake-ups of a handler inherit.
type cause struct{}

// traced gives a handler a trace of its own, which a link ties to the request
// that caused it: that one may have ended two days ago.
func (o Options) traced(ctx context.Context, handle ports.Handler, w ports.Wakeup) (err error) {
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(attribute.String("tenantry.job.kind", w.Kind))}
	from := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": w.Trace})
	if caused := trace.SpanContextFromContext(from); caused.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: caused}))
	}
	ctx, span := otel.Tracer("github.com/tenantry/tenantry/adapters/queue").Start(ctx, "job "+w.Kind, options...)
	defer span.End()
	defer func() {
		if p := recover(); p != nil {
			// The value may hold anything that a customer or a provider sent.
			o.Log.ErrorContext(ctx, "panic", "kind", w.Kind, "type", fmt.Sprintf("%T", p), "stack", stack())
			err = errPanic
		}
		if err != nil {
			span.SetStatus(codes.Error, "")
		}
	}()
	return handle(context.WithValue(ctx, cause{}, w.Trace), w)
}

// caused fills in the trace that a wake-up comes from.
func caused(ctx context.Context, w ports.Wakeup) ports.Wakeup {
	if w.Trace != "" {
		return w
	}
	if known, inside := ctx.Value(cause{}).(string); inside {
		w.Trace = known
		return w
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	w.Trace = carrier["traceparent"]
	return w
}

// cutBefore is when handlers that are still at it are told to end, for a stop
// that must be over at ctx's end.
func cutBefore(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	left := time.Until(end)
	return context.WithDeadline(ctx, end.Add(-min(2*time.Second, left/3)))
}
