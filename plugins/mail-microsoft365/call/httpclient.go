// SPDX-License-Identifier: Apache-2.0

package call

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// NewHTTPClient returns the HTTP client of the plugin. It ignores the proxies of the environment.
// It does not follow redirects, because no endpoint uses them.
func NewHTTPClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy, transport.MaxIdleConnsPerHost = nil, 16
	return &http.Client{
		Transport:     sdk.LimitHosts(spanTransport{transport}),
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// spanTransport records a span for each request and propagates the trace. otelhttp would also do
// this, but it records the whole URL, which contains domains, addresses and GUIDs.
type spanTransport struct{ next http.RoundTripper }

func (s spanTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	route, _ := r.Context().Value(routeKey{}).(string)
	ctx, span := otel.Tracer("github.com/tenantry/tenantry/plugins/mail-microsoft365").Start(
		r.Context(), r.Method+" "+route, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.String("http.request.method", r.Method),
			attribute.String("server.address", r.URL.Hostname()),
			attribute.String("url.template", route)))
	defer span.End()
	r = r.Clone(ctx)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header))
	resp, err := s.next.RoundTrip(r)
	if err != nil {
		span.SetStatus(codes.Error, "no answer")
		return resp, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
	if resp.StatusCode >= http.StatusBadRequest {
		span.SetStatus(codes.Error, "")
	}
	return resp, nil
}

type routeKey struct{}

func withRoute(ctx context.Context, route string) context.Context {
	return context.WithValue(ctx, routeKey{}, route)
}
