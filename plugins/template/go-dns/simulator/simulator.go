// SPDX-License-Identifier: Apache-2.0

// Package simulator simulates the API of the DNS provider Example. Replace its paths and documents
// by the paths and documents of the real API. The tests of the plugin show what else must change.
package simulator

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const (
	name   = "example"
	prefix = "/v1"
	// Token is the only token that the simulated API accepts.
	Token = "simulated-token-of-example"
)

// simulator implements simulate.Provider.
type simulator struct {
	zones *simulate.Zones
	mux   *http.ServeMux
}

// New returns the handler of the simulator, and the line that the simulator prints when it is
// ready. It fails if the data folder cannot be used, or if options.URL is invalid.
func New(options simulate.Options) (http.Handler, simulate.Ready, error) {
	kit, err := simulate.Open(name, options)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	zones, err := simulate.OpenZones(kit)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	s := &simulator{zones: zones, mux: http.NewServeMux()}
	s.mux.HandleFunc("GET "+prefix+"/zones", s.listZones)
	s.mux.HandleFunc("GET "+prefix+"/zones/{zone}/records", s.records)
	s.mux.HandleFunc("PATCH "+prefix+"/zones/{zone}/records", s.patch)
	return kit.Handler(s, zones.Control()), simulate.Ready{
		Provider: name, URL: options.URL, Control: []string{},
		Settings: map[string]string{"api_url": options.URL + prefix},
		Secrets:  map[string]string{"api_token": Token},
	}, nil
}

// Call implements simulate.Provider.
func (s *simulator) Call(r *http.Request, _ []byte) simulate.Call {
	operation := "list_zones"
	switch {
	case r.Method == http.MethodPatch:
		operation = "patch_records"
	case strings.HasSuffix(r.URL.Path, "/records"):
		operation = "list_records"
	}
	return simulate.Call{
		Operation: operation, Write: r.Method != http.MethodGet, Scope: r.Header.Get("Authorization"),
		WorkAt: []int{http.StatusGatewayTimeout}, // a gateway can answer 504 although the server executes the request
	}
}

// Fail implements simulate.Provider.
func (s *simulator) Fail(w http.ResponseWriter, _ *http.Request, status, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	refuse(w, status, http.StatusText(status))
}

// ServeHTTP implements simulate.Provider.
func (s *simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+Token {
		refuse(w, http.StatusUnauthorized, "the token is not valid")
		return
	}
	s.mux.ServeHTTP(w, r)
}

// The JSON documents of the API.
type (
	zoneDoc struct {
		ID          string   `json:"id"`
		Name        string   `json:"name"`
		NameServers []string `json:"name_servers"`
	}
	recordSets struct {
		Version uint32   `json:"version"`
		Sets    []setDoc `json:"sets"`
	}
	setDoc struct {
		Name   string   `json:"name"`
		Type   string   `json:"type"`
		TTL    int      `json:"ttl"`
		Values []string `json:"values"`
	}
)

// listZones answers with the zones that the parameters `name` and `limit` select, or with all
// zones.
func (s *simulator) listZones(w http.ResponseWriter, r *http.Request) {
	zones, err := s.zones.List(r.Context())
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	found := []zoneDoc{}
	for _, z := range zones {
		if wanted := r.URL.Query().Get("name"); wanted == "" || wanted == z.Name {
			found = append(found, zoneDoc{ID: z.Name, Name: z.Name, NameServers: z.NameServers})
		}
	}
	total := len(found)
	if limit, err := strconv.Atoi(r.URL.Query().Get("limit")); err == nil {
		found = simulate.Slice(found, 0, limit)
	}
	simulate.WriteJSON(w, http.StatusOK, map[string]any{"zones": found, "total": total})
}

func (s *simulator) records(w http.ResponseWriter, r *http.Request) {
	zone, err := s.zones.Get(r.Context(), r.PathValue("zone"))
	if err != nil {
		refuseError(w, err)
		return
	}
	doc := recordSets{Version: zone.Version, Sets: []setDoc{}}
	for _, set := range simulate.SetsOf(zone.Records) {
		doc.Sets = append(doc.Sets, setDoc{set.Name, string(set.Type), set.TTL, set.Values})
	}
	simulate.WriteJSON(w, http.StatusOK, doc)
}

// patch replaces the record sets in the request, all or none of them. It refuses the request if the
// zone no longer has the version in the request.
func (s *simulator) patch(w http.ResponseWriter, r *http.Request) {
	var body recordSets
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		refuse(w, http.StatusBadRequest, "the body is not valid")
		return
	}
	zone, err := s.zones.Get(r.Context(), r.PathValue("zone"))
	if err != nil {
		refuseError(w, err)
		return
	}
	sets := simulate.SetsOf(zone.Records)
	for _, changed := range body.Sets {
		sets = slices.DeleteFunc(sets, func(old sdk.RRSet) bool { return old.Name == changed.Name && string(old.Type) == changed.Type })
		sets = append(sets, sdk.RRSet{Name: changed.Name, Type: sdk.RecordType(changed.Type), TTL: changed.TTL, Values: changed.Values})
	}
	if err := s.zones.Edit(r.Context(), zone.Name, body.Version, simulate.RecordsOf(sets)); err != nil {
		refuseError(w, err)
		return
	}
	simulate.WriteJSON(w, http.StatusOK, struct{}{})
}

// refuseError answers for an error of simulate.Zones.
func refuseError(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, simulate.ErrNoZone):
		status = http.StatusNotFound
	case errors.Is(err, simulate.ErrZoneChanged):
		status = http.StatusConflict
	case errors.As(err, new(simulate.InvalidRecords)):
		status = http.StatusUnprocessableEntity
	}
	refuse(w, status, err.Error())
}

func refuse(w http.ResponseWriter, status int, text string) {
	simulate.WriteJSON(w, status, map[string]string{"error": text})
}
