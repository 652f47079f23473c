// SPDX-License-Identifier: Apache-2.0

// Package httpapi serves the API: /v1, the document that describes it and the
// pages about it. One file holds the operations of one resource, guard.go
// what every request passes before them, core/fault the words of refusals.
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

// Options are the use cases that the API offers and what it reports to.
type Options struct {
	Keys       *keys.Service
	Tenants    *tenants.Service
	Domains    *domains.Service
	DNSRuns    *dnsruns.Service
	Mailboxes  *mailboxes.Service
	SendLimits *limits.Service
	// Enforcement shows what was done about send limits.
	Enforcement *enforcement.Service
	// Integrations are those with sending platforms.
	Integrations *integrations.Service
	// Pages serves everything below /connect/, if set. It passes the same
	// guard as the API as far as that concerns pages.
	Pages http.Handler
	// Log takes one line for each request. Its handler adds the ids of
	// request and trace that it finds in the context.
	Log *slog.Logger
	// TrustedProxies may say in X-Forwarded-For whom a request is from.
	TrustedProxies []netip.Prefix
	// Idempotency remembers what writes did.
	Idempotency Idempotency
	// Limits keep callers within bounds.
	Limits Limits
	// Tracer and Meter are the process's when nil.
	Tracer trace.TracerProvider
	Meter  metric.MeterProvider
}

// New builds the API.
func New(o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Idempotency.Lease = cmp.Or(o.Idempotency.Lease, idempotency.Lease)
	o.Limits = o.Limits.orDefaults()
	mux := http.NewServeMux()
	api := newAPI(mux)
	operations(api, o)
	public(mux, routesOf(api.OpenAPI()))
	return newGuard(o, mux, api.OpenAPI()).handler()
}

// The times that a connection gets. Answers get more than the longest
// operation, a sync, may take.
const (
	headTimeout   = 5 * time.Second
	readTimeout   = 15 * time.Second // head and body together
	writeTimeout  = 130 * time.Second
	idleTimeout   = 60 * time.Second
	maxHeadBytes  = 16 << 10
	headAllowance = 4 << 10 // net/http adds this to MaxHeaderBytes
)

// Server makes the HTTP server for a handler, with limits that slow and
// hostile clients run into.
func Server(addr string, handler http.Handler) *http.Server {
	return &http.Server{
		Addr:                         addr,
		Handler:                      handler,
		ReadHeaderTimeout:            headTimeout,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeadBytes - headAllowance,
		DisableGeneralOptionsHandler: true, // OPTIONS * gets our 404 like any unknown path
	}
}
