// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
)

// guarded reports whether a request needs a key: every path under /v1, known
// or not, so that nobody learns the routes without one, and every operation.
func (e *exchange) guarded(path string) bool {
	return path == "/v1" || strings.HasPrefix(path, "/v1/") || e.route.op != nil
}

// authenticate finds the caller behind the key.
func (g *guard) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		if !e.guarded(r.URL.Path) {
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

// entitle lets nobody by whose plan lapsed, whatever the request is.
func (g *guard) entitle(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		if e.guarded(r.URL.Path) && !e.caller.Account.Active {
			refuse(w, r, fault.NoAPIPlan.With("the account has no active API plan"))
			return
		}
		next.ServeHTTP(w, r)
	})
}
