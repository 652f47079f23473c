// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"

	"github.com/tenantry/tenantry/core/access"
)

// Unguarded returns the operations without the middleware, for a known caller.
func Unguarded(o Options, caller access.Caller) http.Handler {
	mux := http.NewServeMux()
	operations(newAPI(mux), o)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, &exchange{caller: caller})))
	})
}
