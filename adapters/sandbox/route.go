// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"net/http"
	"path"
)

// route serves the calls of mux. One that its path takes only by another method
// is not understood, and a path that mux does not have goes to otherwise.
func (w *World) route(mux *http.ServeMux, otherwise call) http.Handler {
	other := handle(w.log, func(r *http.Request) (any, error) {
		if method, ok := takenBy(mux, r); ok {
			return nil, badCall("there is no such call: the method is " + method)
		}
		return otherwise(r)
	})
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		switch {
		case path.Clean(r.URL.Path) != r.URL.Path: // the mux would answer with a redirect
			handle(w.log, noSuchCall).ServeHTTP(rw, r)
		case pattern == "":
			other.ServeHTTP(rw, r)
		default:
			mux.ServeHTTP(rw, r)
		}
	})
}

// takenBy finds the method by which a path is called.
func takenBy(mux *http.ServeMux, r *http.Request) (string, bool) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		by := *r
		by.Method = method
		if _, pattern := mux.Handler(&by); pattern != "" && method != r.Method {
			return method, true
		}
	}
	return "", false
}

func noSuchCall(*http.Request) (any, error) { return nil, missing("there is no such call") }
