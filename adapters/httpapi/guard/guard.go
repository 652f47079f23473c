// SPDX-License-Identifier: Apache-2.0

// Package guard is the middleware of the HTTP API. It handles logging, authentication, limits and
// idempotency for all operations.
//
// New wraps a mux in steps. A request passes the steps in this order, and the first step that fails
// determines the answer:
//
//  1. assignRequestID sets X-Request-ID and finds the route (request_log.go, routing.go).
//  2. trace creates the server span and the HTTP metrics (trace.go).
//  3. logRequest writes one log line (request_log.go).
//  4. recoverPanics buffers the answer, except a stream, and turns a panic into a 500 (answer.go).
//     Before the answer is sent, it writes the audit entry, unless the entry is stored already
//     (audit.go). If the client has not sent the whole body, it closes the connection after the
//     answer, with a delay in which the client can read the answer (linger.go). While a request
//     waits for its client, the service may close its connection (clientwait.go).
//  5. limitInFlight answers 503 if the process, the request's group or the client's network has
//     too many requests in flight (inflight.go). A request whose API key was accepted earlier
//     counts for the key's account instead of its network (acceptedkeys.go).
//  6. authenticate identifies the caller by the API key, or answers 401 (guard.go).
//  7. checkPlan answers 402 without an active API plan (guard.go).
//  8. limitAccount answers 503 if the account has too many requests in flight (inflight.go).
//  9. route answers 404 and 405 (routing.go).
//  10. beginAct puts the act, the data for the audit entry, into the context of a request for a
//     page or for an operation whose method is not GET (audit.go).
//  11. checkAccept answers 406 (routing.go).
//  12. checkScope answers 403 if the API key lacks the scope of the operation, or if the key is
//     limited to some tenants and the operation needs a key for all (scope.go).
//  13. checkIdempotencyKey answers 400 for a missing or invalid Idempotency-Key (idempotency.go).
//  14. readBody reads the body, or answers 400, 401, 402, 413, 415 or 503 (body.go).
//  15. replayStored sends the answer that is stored for the Idempotency-Key, or answers 409 or 429
//     (idempotency.go).
//  16. limitRate counts the request in its bucket, or answers 429. It also limits how many
//     requests of an account call providers or wait for events at once (ratelimits.go).
//  17. claimKey lets only one request per Idempotency-Key execute at a time (idempotency.go,
//     idempotency_run.go).
//  18. checkQuery answers 400 for invalid query parameters (validation.go).
//  19. hideTenants replaces the ids of tenants that the key must not see (hiddentenants.go).
//  20. validateJSON answers 400 for a body that is not strict JSON, is missing or is not accepted,
//     and for an optional member that is null (validation.go).
//  21. setDeadline sets the time limit of the operation (validation.go).
//
// The main types are guard (the dependencies of the steps), exchange (the state of one request) and
// OperationRules (the declarations of an operation, in operationrules.go). Start reading with the
// method guard.steps.
//
// Refuse and RefusalOf convert an error to the answer of a request. Package refusal defines the
// body of that answer.
package guard

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenantry/tenantry/app/keys"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/ports"
)

// Options configures the middleware.
type Options struct {
	Keys *keys.Service
	// Pages serves all paths under /connect/, if it is set. Requests for pages pass the same steps.
	// Steps that concern only operations do nothing for a page.
	Pages http.Handler
	// Log receives one line per request, and other messages. Its handler must add the request id
	// and the trace id from the context. The default is slog.Default.
	Log *slog.Logger
	// TrustedProxies are the addresses of proxies whose X-Forwarded-For header is trusted. A
	// request through a trusted proxy counts for the client's address in that header.
	TrustedProxies []netip.Prefix
	// Idempotency configures how the answers of writes are stored and replayed.
	Idempotency Idempotency
	// Audit stores the audit entries of requests.
	Audit ports.AuditChains
	// Limits are the rate limits and the concurrency limits.
	Limits Limits
	// Tracer and Meter default to the global providers of the process.
	Tracer trace.TracerProvider
	Meter  metric.MeterProvider
}

// New returns the handler that passes each request through the steps to its handler in mux. doc
// describes the operations in mux.
func New(mux *http.ServeMux, doc *huma.OpenAPI, o Options) http.Handler {
	return newGuard(mux, doc, o).handler()
}

// step is one middleware of the chain that every request passes.
type step func(next http.Handler) http.Handler

// guard has the dependencies and the settings of the steps.
type guard struct {
	keys        *keys.Service
	log         *slog.Logger
	idempotency Idempotency
	audit       ports.AuditChains

	limits       Limits
	inFlight     inFlightLimit
	acceptedKeys acceptedKeys
	countRefusal func(ctx context.Context, bucket string) // counts a 429 answer

	trace          step
	pages          http.Handler
	trustedProxies []netip.Prefix // see Options.TrustedProxies
	mux            *http.ServeMux
	routes         map[string]route  // keyed by mux pattern
	fixedPaths     map[string]string // the methods of each path without a parameter
}

func newGuard(mux *http.ServeMux, doc *huma.OpenAPI, o Options) *guard {
	o.Idempotency.Lease = cmp.Or(o.Idempotency.Lease, idempotency.Lease)
	g := &guard{
		keys: o.Keys, log: cmp.Or(o.Log, slog.Default()), idempotency: o.Idempotency, audit: o.Audit, trace: traceStep(o), pages: o.Pages, trustedProxies: o.TrustedProxies,
		limits: o.Limits.orDefaults(), countRefusal: refusalCounter(o),
		mux: mux, routes: routesOf(doc), fixedPaths: fixedPaths(doc),
	}
	g.inFlight.init(g.limits.MaxInFlight)
	return g
}

// steps returns the middleware, outermost first. The package comment says what each step does. The
// guide `requests` of package pages describes this order to callers.
func (g *guard) steps() []step {
	return []step{
		g.assignRequestID,
		g.trace,
		g.logRequest,
		g.recoverPanics,
		g.limitInFlight,
		g.authenticate,
		g.checkPlan,
		g.limitAccount,
		g.route,
		g.beginAct,
		g.checkAccept,
		g.checkScope,
		g.checkIdempotencyKey,
		g.readBody,
		g.replayStored,
		g.limitRate,
		g.claimKey,
		g.checkQuery,
		g.hideTenants,
		g.validateJSON,
		g.setDeadline,
	}
}

func (g *guard) handler() http.Handler {
	var h http.Handler = http.HandlerFunc(g.serve)
	for _, s := range slices.Backward(g.steps()) {
		h = s(h)
	}
	return h
}

func (g *guard) serve(w http.ResponseWriter, r *http.Request) {
	e := exchangeOf(r.Context())
	if e.isPage {
		g.pages.ServeHTTP(w, r)
		return
	}
	if e.route.op != nil {
		removeMediaTypes(r)
	}
	g.mux.ServeHTTP(w, r)
}

// removeMediaTypes removes Accept and Content-Type, which checkAccept and readBody have checked.
// Huma parses these headers differently. For some values that the two steps allow, huma panics
// after the operation, answers with the invalid media type "json", or refuses the body. Without the
// headers, huma reads and writes application/json.
func removeMediaTypes(r *http.Request) {
	r.Header = r.Header.Clone()
	r.Header.Del("Accept")
	r.Header.Del("Content-Type")
}

// exchange is the state of one request. assignRequestID creates the exchange and stores it in the
// context. Later steps set the other fields.
type exchange struct {
	id              string
	client          netip.Addr // the result of clientAddress
	route           route
	hasHandler      bool   // the mux or Options.Pages has a handler for the request
	allowedMethods  string // the methods of the path, if the path does not have the method of the request
	isPage          bool   // Options.Pages serves the request
	caller          access.Caller
	status          int
	body            bodyState
	slot            slot                    // the slot of guard.inFlight that the request holds
	waitWithoutSlot func(wait func()) error // see WaitWithoutSlot
	gotNoSlot       bool                    // the request was refused because no slot was free
	// write is set if the operation requires an Idempotency-Key. lostKey is true if a different
	// request claimed the key first, so that this request does not execute. wasReplayed is true if
	// the answer is a stored answer.
	write                *keyedWrite
	lostKey, wasReplayed bool
	run                  *run       // set when the operation of a write begins
	act                  *ports.Act // set by beginAct
	// refusal is the last error that was converted to an answer. cause is the error before the
	// conversion. No answer contains it.
	refusal   *fault.Error
	cause     error
	streamErr error // ended a streamed answer before it was complete
}

type exchangeKey struct{}

// Caller returns the caller of the request in ctx. The request must have passed authenticate.
func Caller(ctx context.Context) access.Caller { return exchangeOf(ctx).caller }

// WithCaller returns a context in which Caller returns caller. It is for tests that call operations
// without the middleware.
func WithCaller(ctx context.Context, caller access.Caller) context.Context {
	return context.WithValue(ctx, exchangeKey{}, &exchange{caller: caller})
}

// exchangeOf returns the state of the request in ctx. It returns nil outside of a request.
func exchangeOf(ctx context.Context) *exchange {
	e, _ := ctx.Value(exchangeKey{}).(*exchange)
	return e
}

// needsKey reports whether the request needs an API key. Every operation needs a key. Requests for
// unknown paths under /v1 also need a key, so that a caller without a key cannot find out which
// paths exist.
func (e *exchange) needsKey(path string) bool {
	return path == "/v1" || strings.HasPrefix(path, "/v1/") || e.route.op != nil
}

// authenticate identifies the caller by the API key, or answers 401. If the key is limited to some
// tenants, the stores then show only these tenants.
func (g *guard) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		if !e.needsKey(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		caller, err := g.checkAPIKey(r)
		e.caller = caller
		if err != nil {
			Refuse(w, r, err)
			return
		}
		if tenants := caller.Bounds.Tenants; tenants != nil {
			r = r.WithContext(ports.WithTenants(r.Context(), tenants))
		}
		next.ServeHTTP(w, r)
	})
}

// checkAPIKey returns the caller that the API key of the request identifies, like
// keys.Service.Authenticate. It adds an accepted key to acceptedKeys, and removes an invalid one.
func (g *guard) checkAPIKey(r *http.Request) (access.Caller, error) {
	authorization := r.Header.Values("Authorization")
	caller, err := g.keys.Authenticate(r.Context(), authorization, exchangeOf(r.Context()).client)
	switch {
	case err == nil:
		g.acceptedKeys.add(authorization, caller.Account.ID)
	case errors.Is(err, fault.InvalidAPIKey):
		g.acceptedKeys.forgetKey(authorization)
	}
	return caller, err
}

// checkPlan answers 402 for an account without an active API plan.
func (g *guard) checkPlan(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		if e.needsKey(r.URL.Path) && !e.caller.Account.Active {
			Refuse(w, r, noPlanError())
			return
		}
		next.ServeHTTP(w, r)
	})
}

func noPlanError() error { return fault.NoAPIPlan.With("the account has no active API plan") }

// checkCallerAgain checks the API key and the account of a request after a wait. During the wait,
// the key can be revoked or expire, and the account can be suspended. checkCallerAgain then fails
// with the error of authenticate or checkPlan.
func (g *guard) checkCallerAgain(r *http.Request) error {
	caller, err := g.checkAPIKey(r)
	if err == nil && !caller.Account.Active {
		return noPlanError()
	}
	return err
}
