// SPDX-License-Identifier: Apache-2.0

package simulate

import "net/http"

// Calls serves the control calls of mux. One that its path takes only by
// another method is not understood; a path that mux does not have goes to next,
// or is not found when next is nil.
func Calls(mux *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
			other := *r
			other.Method = method
			if _, pattern := mux.Handler(&other); pattern != "" {
				Refuse(w, http.StatusBadRequest, "there is no such control call: the method is "+method)
				return
			}
		}
		if next == nil {
			Refuse(w, http.StatusNotFound, "there is no such control call")
			return
		}
		next.ServeHTTP(w, r)
	})
}
