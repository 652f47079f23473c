// SPDX-License-Identifier: Apache-2.0

package guard

import "net/http"

// checkScope answers 403 if the key lacks the scope of the operation. It also answers 403 if the
// key is limited to some tenants and the operation has OperationRules.AllTenants.
func (g *guard) checkScope(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		if e.route.op == nil {
			next.ServeHTTP(w, r)
			return
		}
		rules, bounds := e.route.rules, e.caller.Bounds
		err := bounds.CheckScope(rules.Scope)
		if err == nil && rules.AllTenants {
			err = bounds.CheckAllTenants(rules.Scope)
		}
		if err != nil {
			Refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}
