// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"net/http"

	"github.com/tenantry/tenantry/adapters/sandbox/zones"
)

// surroundings is what simulators see of the world.
func (w *World) surroundings() http.Handler {
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

// hosted lists the zones that a provider hosts, as it has them.
func (w *World) hosted(r *http.Request) (any, error) {
	q := r.URL.Query()
	if !q.Has("provider") {
		return nil, badCall("provider is missing in the query")
	}
	return w.zones.Hosted(q.Get("provider"), q.Get("name")), nil
}

// editZone is a provider's write: the zone as it is to be, with the version that
// it was made from. 409 when that is not the zone's any more.
func (w *World) editZone(r *http.Request) (any, error) {
	h := zones.Hosted{}
	if err := read(r, &h); err != nil {
		return nil, err
	}
	h.Name = r.PathValue("name")
	return done{}, w.zones.Edit(h)
}

func (w *World) records(r *http.Request) (any, error) { return w.zones.Records(r.PathValue("name")) }

func (w *World) replaceRecords(r *http.Request) (any, error) {
	name := r.PathValue("name")
	if _, err := w.zones.Records(name); err != nil {
		return nil, err
	}
	var list *[]zones.Record
	if err := read(r, &list); err != nil {
		return nil, err
	}
	if list == nil {
		return nil, badCall("body: records are an array")
	}
	return done{}, w.zones.Replace(name, *list)
}

func (w *World) addZone(r *http.Request) (any, error) {
	in := struct {
		Name     string `json:"name"`
		Provider string `json:"provider"`
	}{Provider: "cloudflare"}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	return done{}, w.zones.Add(in.Name, in.Provider)
}
