// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
)

// needsKey reports whether the request needs an API key. Every operation does, and so does every
// path under /v1, known or not: without a key nobody can probe for routes.
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
