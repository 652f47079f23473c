// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"net/http"
	"net/url"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
)

type originalKey struct{}

// traceStep returns the step that creates the server span and the HTTP metrics. It accepts an
// incoming traceparent and ignores baggage.
//
// Package otelhttp records the path, query, host and addresses of a request, which can be customer
// data. Therefore otelhttp gets a substitute request without them (see routeOnlyRequest).
func traceStep(o Options) step {
	options := []otelhttp.Option{otelhttp.WithPropagators(propagation.TraceContext{})}
	if o.Tracer != nil {
		options = append(options, otelhttp.WithTracerProvider(o.Tracer))
	}
	if o.Meter != nil {
		options = append(options, otelhttp.WithMeterProvider(o.Meter))
	}
	return func(next http.Handler) http.Handler {
		withOriginal := http.HandlerFunc(func(w http.ResponseWriter, routeOnly *http.Request) {
			original := routeOnly.Context().Value(originalKey{}).(*http.Request)
			r := original.WithContext(routeOnly.Context())
			r.Body = routeOnly.Body
			next.ServeHTTP(w, r)
		})
		traced := otelhttp.NewHandler(withOriginal, "request", options...)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			traced.ServeHTTP(w, routeOnlyRequest(r))
		})
	}
}

// routeOnlyRequest returns a substitute for r with the route template, the trace headers and the
// body.
func routeOnlyRequest(r *http.Request) *http.Request {
	e := exchangeOf(r.Context())
	routeOnly := &http.Request{
		Method: r.Method, URL: &url.URL{Path: e.route.path}, Pattern: e.route.pattern,
		Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor,
		Header: http.Header{}, Body: r.Body, ContentLength: r.ContentLength,
	}
	for _, name := range []string{"Traceparent", "Tracestate"} {
		if values := r.Header.Values(name); len(values) > 0 {
			routeOnly.Header[name] = values
		}
	}
	return routeOnly.WithContext(context.WithValue(r.Context(), originalKey{}, r))
}
