// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/core/access"
)

// Unguarded returns a handler of the operations without the middleware. The caller of each request
// is the argument caller.
func Unguarded(options Options, caller access.Caller) http.Handler {
	mux := http.NewServeMux()
	registerOperations(newAPI(mux), options)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r.WithContext(guard.WithCaller(r.Context(), caller)))
	})
}
