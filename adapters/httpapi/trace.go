// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
)

type originalKey struct{}

// tracing is the step that makes the server's span and metrics. It honours an
// incoming traceparent and drops baggage, which is for no one behind us.
//
// otelhttp notes path, query, host and addresses of the request it sees. Those
// are customer data, so it is shown a stand-in that has only the route.
func tracing(o Options) step {
	options := []otelhttp.Option{otelhttp.WithPropagators(propagation.TraceContext{})}
	if o.Tracer != nil {
		options = append(options, otelhttp.WithTracerProvider(o.Tracer))
	}
	if o.Meter != nil {
		options = append(options, otelhttp.WithMeterProvider(o.Meter))
	}
	return func(next http.Handler) http.Handler {
		inner := http.HandlerFunc(func(w http.ResponseWriter, shown *http.Request) {
			original := shown.Context().Value(originalKey{}).(*http.Request)
			r := original.WithContext(shown.Context())
			r.Body = shown.Body
			next.ServeHTTP(w, r)
		})
		outer := otelhttp.NewHandler(inner, "request", options...)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			outer.ServeHTTP(w, standIn(r))
		})
	}
}

func standIn(r *http.Request) *http.Request {
	e := exchangeOf(r.Context())
	shown := &http.Request{
		Method: r.Method, URL: &url.URL{Path: e.route.path}, Pattern: e.route.pattern,
		Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor,
		Header: http.Header{}, Body: r.Body, ContentLength: r.ContentLength,
	}
	for _, name := range []string{"Traceparent", "Tracestate"} {
		if values := r.Header.Values(name); len(values) > 0 {
			shown.Header[name] = values
		}
	}
	return shown.WithContext(context.WithValue(r.Context(), originalKey{}, r))
}
