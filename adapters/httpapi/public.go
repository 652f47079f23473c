// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/adapters/httpapi/openapi"
	"github.com/tenantry/tenantry/adapters/httpapi/pages"
	"github.com/tenantry/tenantry/adapters/httpapi/refusal"
	"github.com/tenantry/tenantry/core/fault"
)

// addPublicRoutes adds the OpenAPI document and the pages about the API, which need no API key.
func addPublicRoutes(mux *http.ServeMux, doc *huma.OpenAPI) {
	mux.HandleFunc("/{$}", serveHome)
	mux.HandleFunc("GET /openapi.json", serveDocument("application/json", func(d openapi.Documents) []byte { return d.JSON }))
	mux.HandleFunc("GET /openapi.yaml", serveDocument("application/yaml", func(d openapi.Documents) []byte { return d.YAML }))
	mux.HandleFunc("GET /docs/guide", pages.Guides)
	mux.HandleFunc("GET /docs/guide/{name}", func(w http.ResponseWriter, r *http.Request) {
		if !pages.Guide(w, r.PathValue("name")) {
			guard.Refuse(w, r, fault.RouteNotFound.With("there is no guide with this name"))
		}
	})
	mux.HandleFunc("GET /docs", pages.API)
	mux.HandleFunc("GET /docs/assets/{file}", func(w http.ResponseWriter, r *http.Request) {
		if !pages.Asset(w, r, r.PathValue("file")) {
			guard.Refuse(w, r, fault.RouteNotFound.With("no operation or page has this path"))
		}
	})
	mux.HandleFunc("GET /docs/errors", pages.Errors(refusal.StatusOf))
	mux.HandleFunc("GET /docs/errors/{code}", func(w http.ResponseWriter, r *http.Request) {
		code, ok := fault.ByName(r.PathValue("code"))
		if !ok {
			guard.Refuse(w, r, fault.RouteNotFound.With("no error has this code"))
			return
		}
		pages.Error(w, code, refusal.StatusOf[code.Kind], originOf(doc, code))
	})
}

// originOf returns the operations that can answer with the error code, and whether these are all
// operations.
func originOf(doc *huma.OpenAPI, c fault.Code) pages.Origin {
	origin := pages.Origin{All: true}
	for path, item := range doc.Paths {
		for _, op := range guard.OperationsOf(item) {
			if slices.Contains(guard.RulesOf(op).Codes(op.Method), c) {
				origin.Operations = append(origin.Operations, op.Method+" "+path)
			} else {
				origin.All = false
			}
		}
	}
	slices.Sort(origin.Operations)
	return origin
}

// serveHome answers a browser with a page. Other clients get the answer for an unknown path, which
// shows that their base address is wrong.
func serveHome(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if (r.Method == http.MethodGet || r.Method == http.MethodHead) && pages.AcceptsExplicitly(r.Header.Values("Accept"), "text/html") {
		pages.Home(w, r)
		return
	}
	guard.Refuse(w, r, fault.RouteNotFound.With("no operation or page has this path; /docs describes the operations"))
}
