// SPDX-License-Identifier: Apache-2.0

// Package simulator simulates the HTTP API of a PowerDNS Authoritative Server, as far as it
// concerns zones: their list, their record sets, and PATCH with its serials and errors. All zones
// are Native with soa_edit_api INCREASE. The simulator refuses disabled records and ignores
// comments, because the zones of a sandbox cannot contain them. It joins the strings of a TXT
// record.
//
//   - simulator.go: New, the routes and reading zones. Start here.
//   - patch.go: changing zones.
package simulator

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const (
	provider = "powerdns"
	prefix   = "/api/v1"
	serverID = "localhost"
	// Key is the key of the simulated API.
	Key = "simulated-powerdns-key"
)

// simulator implements simulate.Provider.
type simulator struct {
	zones *simulate.Zones
	mux   *http.ServeMux
}

// New returns the handler of the simulator, and the line that the simulator prints when it is
// ready. It fails if the data folder cannot be used, or if options.URL is invalid.
func New(options simulate.Options) (http.Handler, simulate.Ready, error) {
	kit, err := simulate.Open(provider, options)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	zones, err := simulate.OpenZones(kit)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	s := &simulator{zones: zones, mux: http.NewServeMux()}
	const server = prefix + "/servers/" + serverID
	s.mux.HandleFunc("GET "+server, func(w http.ResponseWriter, _ *http.Request) {
		simulate.WriteJSON(w, http.StatusOK, map[string]string{"type": "Server", "id": serverID, "daemon_type": "authoritative", "url": server})
	})
	s.mux.HandleFunc("GET "+server+"/zones", s.listZones)
	s.mux.HandleFunc("GET "+server+"/zones/{zone}", s.readZone)
	s.mux.HandleFunc("PATCH "+server+"/zones/{zone}", s.patch)
	return kit.Handler(s, zones.Control()), simulate.Ready{
		Provider: provider, URL: options.URL, Control: []string{},
		Settings: map[string]string{"api_url": options.URL, "allow_private": "true"},
		Secrets:  map[string]string{"api_key": Key},
	}, nil
}

// Call implements simulate.Provider.
func (s *simulator) Call(r *http.Request, _ []byte) simulate.Call {
	operation := "read_zone"
	switch {
	case r.Method == http.MethodPatch:
		operation = "patch_zone"
	case strings.HasSuffix(r.URL.Path, "/zones"):
		operation = "list_zones"
	}
	return simulate.Call{
		Operation: operation, Write: r.Method != http.MethodGet, Scope: r.Header.Get("X-API-Key"),
		WorkAt: []int{http.StatusGatewayTimeout}, // a proxy can answer 504 although the server executes the request
	}
}

// Fail implements simulate.Provider.
func (s *simulator) Fail(w http.ResponseWriter, _ *http.Request, status, retryAfter int) {
	if retryAfter > 0 { // at a real server, only a proxy in front of it sends Retry-After
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	refuse(w, status, http.StatusText(status))
}

// ServeHTTP implements simulate.Provider.
func (s *simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-API-Key") != Key {
		answerPlainText(w, http.StatusUnauthorized)
		return
	}
	if _, route := s.mux.Handler(r); route == "" {
		answerPlainText(w, http.StatusNotFound)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// The JSON documents of the API.
type (
	zoneDoc struct {
		ID             string     `json:"id"`
		Name           string     `json:"name"`
		Kind           string     `json:"kind"`
		URL            string     `json:"url"`
		Account        string     `json:"account"`
		DNSSEC         bool       `json:"dnssec"`
		Masters        []string   `json:"masters"`
		Serial         uint32     `json:"serial"`
		EditedSerial   uint32     `json:"edited_serial"`
		NotifiedSerial uint32     `json:"notified_serial"`
		SOAEdit        *string    `json:"soa_edit,omitempty"`     // not in lists
		SOAEditAPI     *string    `json:"soa_edit_api,omitempty"` // not in lists
		RRSets         []rrsetDoc `json:"rrsets,omitempty"`
	}
	rrsetDoc struct {
		Name       string      `json:"name"`
		Type       string      `json:"type"`
		TTL        *int        `json:"ttl"`
		ChangeType string      `json:"changetype,omitempty"`
		Records    []recordDoc `json:"records"`
		Comments   []struct{}  `json:"comments"`
	}
	recordDoc struct {
		Content  string `json:"content"`
		Disabled bool   `json:"disabled"`
	}
)

// newZoneDoc returns the document of a zone as in a list, without record sets.
func newZoneDoc(z simulate.Zone) zoneDoc {
	name := z.Name + "."
	return zoneDoc{
		ID: name, Name: name, Kind: "Native", URL: prefix + "/servers/" + serverID + "/zones/" + name,
		Masters: []string{}, Serial: z.Version, EditedSerial: z.Version,
	}
}

// listZones answers with all zones, or only with the zone in the parameter `zone`.
func (s *simulator) listZones(w http.ResponseWriter, r *http.Request) {
	zones, err := s.zones.List(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	docs := []zoneDoc{}
	for _, z := range zones {
		if wanted := r.URL.Query().Get("zone"); wanted == "" || strings.EqualFold(wanted, z.Name+".") {
			docs = append(docs, newZoneDoc(z))
		}
	}
	simulate.WriteJSON(w, http.StatusOK, docs)
}

// readZone answers with a zone and the record sets that the parameters `rrset_name` and
// `rrset_type` select, by default all. With `rrsets=false` the answer has no record sets.
func (s *simulator) readZone(w http.ResponseWriter, r *http.Request) {
	zone, err := s.zones.Get(r.Context(), strings.TrimSuffix(r.PathValue("zone"), "."))
	if err != nil {
		fail(w, err)
		return
	}
	doc, none, increase := newZoneDoc(zone), "", "INCREASE"
	doc.SOAEdit, doc.SOAEditAPI = &none, &increase
	query := r.URL.Query()
	for _, set := range recordSets(zone) {
		name, kind := query.Get("rrset_name"), query.Get("rrset_type")
		if query.Get("rrsets") == "false" || name != "" && !strings.EqualFold(name, set.Name+".") || kind != "" && !strings.EqualFold(kind, string(set.Type)) {
			continue
		}
		doc.RRSets = append(doc.RRSets, newSetDoc(set))
	}
	simulate.WriteJSON(w, http.StatusOK, doc)
}

// recordSets returns the record sets of a zone, including the SOA and NS sets of the apex.
func recordSets(z simulate.Zone) []sdk.RRSet {
	soa := sdk.RRSet{Name: z.Name, Type: sdk.SOA, TTL: 3600, Values: []string{
		"ns1." + z.Name + ". hostmaster." + z.Name + ". " + strconv.FormatUint(uint64(z.Version), 10) + " 3600 600 604800 60",
	}}
	ns := sdk.RRSet{Name: z.Name, Type: sdk.NS, TTL: 3600, Values: slices.Clone(z.NameServers)}
	return append([]sdk.RRSet{soa, ns}, simulate.SetsOf(z.Records)...)
}

func newSetDoc(set sdk.RRSet) rrsetDoc {
	doc := rrsetDoc{Name: set.Name + ".", Type: string(set.Type), TTL: &set.TTL, Comments: []struct{}{}}
	for _, value := range set.Values {
		doc.Records = append(doc.Records, recordDoc{Content: sdk.WriteContent(set.Type, value)})
	}
	return doc
}

func fail(w http.ResponseWriter, err error) {
	var refused refusal
	switch {
	case errors.Is(err, simulate.ErrNoZone):
		answerPlainText(w, http.StatusNotFound)
	case errors.As(err, &refused), errors.As(err, new(simulate.InvalidRecords)):
		refuse(w, http.StatusUnprocessableEntity, err.Error())
	default:
		refuse(w, http.StatusInternalServerError, err.Error())
	}
}

// answerPlainText answers with a status and its name as text. PowerDNS answers like this if its
// HTTP server refuses a request.
func answerPlainText(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(http.StatusText(status)))
}

func refuse(w http.ResponseWriter, status int, text string) {
	simulate.WriteJSON(w, status, map[string]string{"error": text})
}
