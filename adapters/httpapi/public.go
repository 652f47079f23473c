// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"slices"

	"github.com/tenantry/tenantry/adapters/httpapi/pages"
	"github.com/tenantry/tenantry/adapters/httpapi/refusal"
	"github.com/tenantry/tenantry/core/fault"
)

// addPublicRoutes adds the routes that need no key: the document and the pages about the API.
func addPublicRoutes(mux *http.ServeMux, operations map[string]route) {
	mux.HandleFunc("GET /openapi.json", serveDocument("application/json", func(d Documents) []byte { return d.JSON }))
	mux.HandleFunc("GET /openapi.yaml", serveDocument("application/yaml", func(d Documents) []byte { return d.YAML }))
	mux.HandleFunc("GET /docs", pages.API)
	mux.HandleFunc("GET /docs/assets/{file}", func(w http.ResponseWriter, r *http.Request) {
		if !pages.Asset(w, r, r.PathValue("file")) {
			refuse(w, r, fault.RouteNotFound.With("no operation or page has this path"))
		}
	})
	mux.HandleFunc("GET /docs/errors", pages.Errors(refusal.StatusOf))
	mux.HandleFunc("GET /docs/errors/{code}", func(w http.ResponseWriter, r *http.Request) {
		code, ok := fault.ByName(r.PathValue("code"))
		if !ok {
			refuse(w, r, fault.RouteNotFound.With("no error has this code"))
			return
		}
		pages.Error(w, code, refusal.StatusOf[code.Kind], originOf(operations, code))
	})
}

// originOf returns the operations that can answer with the code c.
func originOf(operations map[string]route, c fault.Code) pages.Origin {
	var from pages.Origin
	for pattern, r := range operations {
		if slices.Contains(refusalCodes(r.op.Method, r.terms), c) {
			from.Operations = append(from.Operations, pattern)
		}
	}
	slices.Sort(from.Operations)
	from.All = len(from.Operations) == len(operations)
	return from
}

// serveDocument serves the OpenAPI document. The first request builds the document, which takes
// longer than the rest of the start of the service.
func serveDocument(contentType string, notation func(Documents) []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d, err := Document()
		if err != nil {
			refuse(w, r, err)
			return
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(notation(d)) // writes to memory, cannot fail
	}
}
