// SPDX-License-Identifier: Apache-2.0

// Package httpapi serves the HTTP API of tenantry: the operations under /v1, the OpenAPI document
// that describes them, and the pages about the API.
//
// New builds the handler from Options, and Server builds the HTTP server for it. A request passes
// the middleware steps of guard and then reaches an operation or a page. An operation converts
// its input, calls a use case of the app packages and converts the result. It returns refusals as
// errors of core/fault, which refusal.go converts to HTTP answers.
//
// Start reading with the method steps in guard.go, then with one resource, such as tenants.go.
//
// The main types are guard (the middleware), exchange (the state of one request), terms (what an
// operation declares: rate limit, error codes, examples) and problem (the body of an error).
//
// Middleware, in the order of the steps:
//
//   - guard.go: the list of the steps, the exchange, the API key and the plan
//   - request_log.go: request id, log line, client address
//   - trace.go: server span and HTTP metrics
//   - refusal.go: panics, the buffered answer, the bodies of errors
//   - ratelimits.go: rate limits, provider concurrency, requests in flight
//   - routing.go: unknown paths and methods, the Accept header
//   - idempotency.go: the Idempotency-Key, its stored answer, its claim
//   - idempotency_run.go: one run under a claimed key, its lease and its outcome
//   - body.go: reading the body
//   - validation.go: query parameters, strict JSON, the time limit
//
// Operations: one file per resource (tenants.go, domains.go, dns.go, dnsruns.go, mailboxes.go,
// sendlimits.go, enforcement.go, integrations.go, keys.go), with the shapes of its requests and
// answers. register.go configures the huma library and adds operations to the API.
//
// Document: document.go builds it, with parameters.go, responses.go and examples.go. public.go
// serves the document and the pages.
package httpapi

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenantry/tenantry/app/dnsruns"
	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/app/enforcement"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/app/keys"
	"github.com/tenantry/tenantry/app/limits"
	"github.com/tenantry/tenantry/app/mailboxes"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/idempotency"
)

// Options are the use cases that the API calls and the components that it reports to.
type Options struct {
	Keys       *keys.Service
	Tenants    *tenants.Service
	Domains    *domains.Service
	DNSRuns    *dnsruns.Service
	Mailboxes  *mailboxes.Service
	SendLimits *limits.Service
	// Enforcement lists what was done about send limits.
	Enforcement *enforcement.Service
	// Integrations manages the integrations with sending platforms.
	Integrations *integrations.Service
	// Pages serves all paths under /connect/, if it is set. Its requests pass the same middleware;
	// the steps for operations skip them.
	Pages http.Handler
	// Log receives one line per request. Its handler must add the request id and the trace id from
	// the context.
	Log *slog.Logger
	// TrustedProxies are the proxies whose X-Forwarded-For header is believed.
	TrustedProxies []netip.Prefix
	// Idempotency stores the answers of writes.
	Idempotency Idempotency
	// Limits are the rate limits and the concurrency limits.
	Limits Limits
	// Tracer and Meter default to the global providers of the process.
	Tracer trace.TracerProvider
	Meter  metric.MeterProvider
}

// New returns the handler of the API with all middleware.
func New(o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Idempotency.Lease = cmp.Or(o.Idempotency.Lease, idempotency.Lease)
	o.Limits = o.Limits.orDefaults()
	mux := http.NewServeMux()
	api := newAPI(mux)
	operations(api, o)
	addPublicRoutes(mux, routesOf(api.OpenAPI()))
	return newGuard(o, mux, api.OpenAPI()).handler()
}

// The timeouts and size limits of a connection. writeTimeout is longer than the longest operation,
// sync-tenant.
const (
	headTimeout   = 5 * time.Second
	readTimeout   = 15 * time.Second // head and body together
	writeTimeout  = 130 * time.Second
	idleTimeout   = 60 * time.Second
	maxHeadBytes  = 16 << 10
	headAllowance = 4 << 10 // net/http adds it to MaxHeaderBytes
)

// Server returns an HTTP server for handler, with timeouts and size limits against slow and hostile
// clients.
func Server(addr string, handler http.Handler) *http.Server {
	return &http.Server{
		Addr:                         addr,
		Handler:                      handler,
		ReadHeaderTimeout:            headTimeout,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeadBytes - headAllowance,
		DisableGeneralOptionsHandler: true, // OPTIONS * gets a 404 like any unknown path
	}
}
