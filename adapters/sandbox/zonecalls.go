// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"net/http"

	"github.com/tenantry/tenantry/adapters/sandbox/zones"
)

// simulatorAPI returns the handler of the calls that simulators use to read and edit zones.
func (w *Environment) simulatorAPI() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /dns", handle(w.log, func(*http.Request) (any, error) {
		return map[string]string{"addr": w.DNSAddr()}, nil
	}))
	mux.Handle("GET /zones", handle(w.log, w.hosted))
	mux.Handle("PUT /zones/{name}", handle(w.log, w.editZone))
	mux.Handle("GET /zones/{name}/records", handle(w.log, w.records))
	mux.Handle("PUT /zones/{name}/records", handle(w.log, w.replaceRecords))
	return w.route(mux, noSuchCall)
}

// hosted lists the zones of a provider, as the provider sees them.
func (w *Environment) hosted(r *http.Request) (any, error) {
	q := r.URL.Query()
	if !q.Has("provider") {
		return nil, badRequest("provider is missing in the query")
	}
	return w.zones.Hosted(q.Get("provider"), q.Get("name")), nil
}

// editZone replaces a zone for its provider. The body has the version that the edit was made from;
// a different current version is status 409.
func (w *Environment) editZone(r *http.Request) (any, error) {
	h := zones.Hosted{}
	if err := decodeBody(r, &h); err != nil {
		return nil, err
	}
	h.Name = r.PathValue("name")
	return emptyResponse{}, w.zones.Edit(h)
}

func (w *Environment) records(r *http.Request) (any, error) {
	return w.zones.Records(r.PathValue("name"))
}

func (w *Environment) replaceRecords(r *http.Request) (any, error) {
	name := r.PathValue("name")
	if _, err := w.zones.Records(name); err != nil {
		return nil, err
	}
	var list *[]zones.Record
	if err := decodeBody(r, &list); err != nil {
		return nil, err
	}
	if list == nil {
		return nil, badRequest("body must be an array of records")
	}
	return emptyResponse{}, w.zones.Replace(name, *list)
}

func (w *Environment) addZone(r *http.Request) (any, error) {
	in := struct {
		Name     string `json:"name"`
		Provider string `json:"provider"`
	}{Provider: "cloudflare"}
	if err := decodeBody(r, &in); err != nil {
		return nil, err
	}
	return emptyResponse{}, w.zones.Add(in.Name, in.Provider)
}
