// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"net/http"

	"github.com/tenantry/tenantry/adapters/sandbox/zones"
)

// simulatorAPI returns the handler of the calls that simulators use to read and edit zones.
func (env *Environment) simulatorAPI() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /dns", handle(env.log, func(*http.Request) (any, error) {
		return map[string]string{"addr": env.DNSAddr()}, nil
	}))
	mux.Handle("GET /zones", handle(env.log, env.listHostedZones))
	mux.Handle("PUT /zones/{name}", handle(env.log, env.editZone))
	mux.Handle("GET /zones/{name}/records", handle(env.log, env.listRecords))
	mux.Handle("PUT /zones/{name}/records", handle(env.log, env.replaceRecords))
	return env.route(mux, noSuchCall)
}

// listHostedZones returns the zones of a provider, or only the zone `name` of the query, including
// their veiled records (see package zones).
func (env *Environment) listHostedZones(r *http.Request) (any, error) {
	q := r.URL.Query()
	if !q.Has("provider") {
		return nil, badRequest("provider is missing in the query")
	}
	return env.zones.Hosted(q.Get("provider"), q.Get("name")), nil
}

// editZone replaces the records of a zone. Simulators call it with the version of the zone that they
// have read. If the zone was changed after that version, the answer is 409.
func (env *Environment) editZone(r *http.Request) (any, error) {
	h := zones.Hosted{}
	if err := decodeBody(r, &h); err != nil {
		return nil, err
	}
	h.Name = r.PathValue("name")
	return emptyResponse{}, env.zones.Edit(h)
}

func (env *Environment) listRecords(r *http.Request) (any, error) {
	return env.zones.Records(r.PathValue("name"))
}

func (env *Environment) replaceRecords(r *http.Request) (any, error) {
	name := r.PathValue("name")
	if _, err := env.zones.Records(name); err != nil {
		return nil, err
	}
	var list *[]zones.Record
	if err := decodeBody(r, &list); err != nil {
		return nil, err
	}
	if list == nil {
		return nil, badRequest("body must be an array of records")
	}
	return emptyResponse{}, env.zones.Replace(name, *list)
}

// NameServers returns the name servers of the sandbox's zones at a provider.
func NameServers(provider string) []string { return zones.NameServers(provider) }

func (env *Environment) addZone(r *http.Request) (any, error) {
	in := struct {
		Name     string `json:"name"`
		Provider string `json:"provider"`
	}{Provider: zones.SeededProvider}
	if err := decodeBody(r, &in); err != nil {
		return nil, err
	}
	if !zones.IsHostedBySandbox(in.Provider) && env.dnsSimulator(in.Provider) == nil {
		return nil, badRequest("provider must be manual, " + zones.SeededProvider + " or a DNS provider that is simulated here")
	}
	return emptyResponse{}, env.zones.Add(in.Name, in.Provider)
}
