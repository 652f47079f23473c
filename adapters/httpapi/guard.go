// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/app/keys"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
)

// step is one middleware of the chain that every request passes.
type step func(next http.Handler) http.Handler

// guard holds what the middleware steps need. It wraps every operation and every page.
type guard struct {
	keys *keys.Service
	log  *slog.Logger
	once Idempotency

	limits       Limits
	inFlight     inFlightLimit
	countRefusal func(ctx context.Context, bucket string) // counts a 429 answer

	trace step
	pages http.Handler
	// trusted are the proxies whose X-Forwarded-For header is believed.
	trusted    []netip.Prefix
	mux        *http.ServeMux
	routes     map[string]route  // keyed by mux pattern
	fixedPaths map[string]string // by path, see fixedPaths
}

func newGuard(o Options, mux *http.ServeMux, doc *huma.OpenAPI) *guard {
	g := &guard{
		keys: o.Keys, log: o.Log, once: o.Idempotency, trace: traceStep(o), pages: o.Pages, trusted: o.TrustedProxies,
		limits: o.Limits, countRefusal: refusalCounter(o),
		mux: mux, routes: routesOf(doc), fixedPaths: fixedPaths(doc),
	}
	g.inFlight.max = int64(o.Limits.InFlight)
	return g
}

// steps returns the middleware, outermost first. The API documents this order: the first check that
// fails determines the answer.
func (g *guard) steps() []step {
	return []step{
		g.assignRequestID, // X-Request-ID, and the route
		g.trace,           // span and metrics, named after the route
		g.logRequest,      // one log line
		g.recoverPanics,   // a panic becomes 500
		g.limitInFlight,   // 503 if too many requests are in flight
		g.authenticate,    // 401
		g.checkPlan,       // 402
		g.route,           // 404, 405
		g.checkAccept,     // 406
		g.checkKey,        // 400 for the Idempotency-Key
		g.readBody,        // 415, 413
		g.replayStored,    // a stored answer for the Idempotency-Key: replay, 409
		g.limitRate,       // 429
		g.claimKey,        // one request per Idempotency-Key continues
		g.checkQuery,      // 400 for query parameters
		g.validateJSON,    // 400 for a body that is not strict JSON
		g.setDeadline,     // the time limit of the operation
	}
}

// handler returns the whole chain around the mux.
func (g *guard) handler() http.Handler {
	var h http.Handler = http.HandlerFunc(g.serve)
	steps := g.steps()
	for i := len(steps) - 1; i >= 0; i-- {
		h = steps[i](h)
	}
	return h
}

func (g *guard) serve(w http.ResponseWriter, r *http.Request) {
	if exchangeOf(r.Context()).page {
		g.pages.ServeHTTP(w, r)
		return
	}
	g.mux.ServeHTTP(w, r)
}

// exchange is the state of one request. assignRequestID creates it and stores it in the context;
// later steps fill it in.
type exchange struct {
	id        string
	route     route
	known     bool   // the mux has a handler for it
	allow     string // the methods of the path, if it does not have the requested one
	page      bool   // Options.Pages serves it
	caller    access.Caller
	status    int
	holdsSlot bool // it holds a slot of guard.inFlight
	// write is set for a request that carries an Idempotency-Key. keyLost says that a different
	// request claimed the key first. replayed says that the answer is a stored one.
	write             *keyedWrite
	keyLost, replayed bool
	run               *run // set while the operation of a write runs
	// refusal is the error that was sent to the caller. cause is the underlying error; it is only
	// logged.
	refusal *fault.Error
	cause   error
}

type exchangeKey struct{}

// exchangeOf returns the state of the request in ctx. It returns nil outside of a request.
func exchangeOf(ctx context.Context) *exchange {
	e, _ := ctx.Value(exchangeKey{}).(*exchange)
	return e
}

// needsKey reports whether the request needs an API key. Every operation does, and so does every
// path under /v1, known or not, so that a caller without a key cannot probe for routes.
func (e *exchange) needsKey(path string) bool {
	return path == "/v1" || strings.HasPrefix(path, "/v1/") || e.route.op != nil
}

// authenticate identifies the caller by the API key, or answers 401.
func (g *guard) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		if !e.needsKey(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		caller, err := g.keys.Authenticate(r.Context(), r.Header.Values("Authorization"))
		if err != nil {
			refuse(w, r, err)
			return
		}
		e.caller = caller
		next.ServeHTTP(w, r)
	})
}

// checkPlan answers 402 for an account without an active API plan.
func (g *guard) checkPlan(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		if e.needsKey(r.URL.Path) && !e.caller.Account.Active {
			refuse(w, r, fault.NoAPIPlan.With("the account has no active API plan"))
			return
		}
		next.ServeHTTP(w, r)
	})
}
