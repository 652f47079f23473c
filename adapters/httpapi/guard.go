// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/app/keys"
)

// step is one thing that a request passes on its way in.
type step func(next http.Handler) http.Handler

// guard is what stands around every operation and page.
type guard struct {
	keys *keys.Service
	log  *slog.Logger
	once Idempotency

	limits  Limits
	ceiling ceiling
	refused func(ctx context.Context, bucket string) // counts a 429

	trace step
	pages http.Handler
	// trusted are proxies whose X-Forwarded-For is believed.
	trusted []netip.Prefix
	mux     *http.ServeMux
	routes  map[string]route  // by the mux's pattern
	fixed   map[string]string // by path, see fixedPaths
}

func newGuard(o Options, mux *http.ServeMux, doc *huma.OpenAPI) *guard {
	g := &guard{
		keys: o.Keys, log: o.Log, once: o.Idempotency, trace: tracing(o), pages: o.Pages, trusted: o.TrustedProxies,
		limits: o.Limits, refused: refusals429(o),
		mux: mux, routes: routesOf(doc), fixed: fixedPaths(doc),
	}
	g.ceiling.most = int64(o.Limits.InFlight)
	return g
}

// steps is the order in which a request is checked, outermost first. It is
// the published order: the first check that fails decides the answer, so a
// caller sees the same refusal whatever else is wrong.
func (g *guard) steps() []step {
	return []step{
		g.identify,     // X-Request-ID, and which operation this is
		g.trace,        // span and metrics, named by the route
		g.record,       // one line in the log
		g.rescue,       // a panic becomes 500
		g.crowd,        // 503 when too many requests are under way
		g.authenticate, // 401
		g.entitle,      // 402
		g.find,         // 404, 405
		g.negotiate,    // 406
		g.key,          // 400 for the Idempotency-Key
		g.intake,       // 415, 413
		g.remember,     // a known Idempotency-Key: replay, 409
		g.limit,        // 429
		g.claim,        // one of all requests with the same key goes on
		g.query,        // 400 for query parameters
		g.strict,       // 400 for what no reader should accept as JSON
		g.deadline,     // the time that the operation gets
	}
}

// handler is the whole chain, with the mux at its end.
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
