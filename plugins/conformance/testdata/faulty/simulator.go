// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/wire"
)

const token = "simulated-token-of-faulty"

var pageSize = func() int {
	if bug == "reads-one-large-page" {
		return 500
	}
	return 100
}()

// zoneDoc is a zone of the API. The test environment serves its zones, at simulator.zonesURL, in
// the same JSON.
type zoneDoc struct {
	Name        string          `json:"name"`
	Provider    string          `json:"provider"`
	NameServers []string        `json:"name_servers"`
	Version     uint32          `json:"version"`
	Records     []recordDoc     `json:"records"`
	Veiled      json.RawMessage `json:"veiled"` // passed on unchanged
	More        bool            `json:"more,omitempty"`
}

type recordDoc struct {
	Type     string `json:"type"`
	Name     string `json:"name"`
	Content  string `json:"content"`
	TTL      int    `json:"ttl"`
	Priority *int   `json:"priority,omitempty"`
}

// simulator serves GET /zones and PUT /zones/{name}. The zones are stored by the server at zonesURL
// (simulate.Options.World).
type simulator struct {
	zonesURL string
	forceMu  *sync.Mutex // held during a write without a condition, from reading the version until the write is done
	kit      *simulate.Kit
}

func newSimulator(o simulate.Options) (http.Handler, simulate.Ready, error) {
	kit, err := simulate.Open("faulty", o)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	control := http.NewServeMux()
	if kind == wire.KindSending { // the checks that the tests run need no more of a sending platform
		control.HandleFunc("GET /_control/suite", func(w http.ResponseWriter, _ *http.Request) { simulate.WriteJSON(w, http.StatusOK, simulate.Suite{}) })
	}
	handler := kit.Handler(simulator{o.World, new(sync.Mutex), kit}, control)
	if bug == "simulator-without-control-calls" { // not a bug: it shows the minimum that a simulator needs
		handler = simulator{o.World, new(sync.Mutex), kit}
	}
	return handler, simulate.Ready{
		Provider: "faulty", URL: o.URL, Control: []string{},
		Settings: map[string]string{"api_url": o.URL}, Secrets: map[string]string{tokenField: token},
	}, nil
}

func (simulator) Call(r *http.Request, _ []byte) simulate.Call {
	return simulate.Call{Operation: r.Method, Write: r.Method != http.MethodGet}
}

func (simulator) Fail(w http.ResponseWriter, _ *http.Request, status, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	simulate.WriteError(w, status, http.StatusText(status))
}

func (s simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+token && bug != "simulator-takes-any-token" {
		simulate.WriteError(w, http.StatusUnauthorized, "unknown token")
		return
	}
	body, _ := io.ReadAll(r.Body)
	if bug == strictProvider {
		if usage := s.kit.Count("token", time.Now(), simulate.Rate{Calls: strictRate, Window: time.Second}); usage.Wait > 0 {
			s.Fail(w, r, http.StatusTooManyRequests, 1)
			return
		}
		if r.Method == http.MethodPut && s.setsShortTTL(w, body) {
			simulate.WriteError(w, http.StatusBadRequest, "the TTL is too short")
			return
		}
	}
	if r.Method == http.MethodPut && r.URL.Query().Has("force") { // some planted bugs write without a condition
		s.forceMu.Lock()
		defer s.forceMu.Unlock()
		var sent zoneDoc
		_ = json.Unmarshal(body, &sent)
		sent.Version = s.zones(w, sent.Name)[0].Version
		body, _ = json.Marshal(sent)
	}
	if r.Method == http.MethodPut {
		s.forward(w, r.Method, r.URL.Path, body)
		return
	}
	found := s.zones(w, r.URL.Query().Get("name"))
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	for i := range found {
		records := found[i].Records
		end := min((page+1)*pageSize, len(records))
		found[i].Records, found[i].More = records[min(page*pageSize, end):end], end < len(records)
	}
	simulate.WriteJSON(w, http.StatusOK, map[string]any{"zones": append([]zoneDoc{}, found...)})
}

// setsShortTTL reports whether a write gives a record a TTL below one hour that no record with this
// name and type has yet.
func (s simulator) setsShortTTL(w http.ResponseWriter, body []byte) bool {
	var written zoneDoc
	_ = json.Unmarshal(body, &written)
	return slices.ContainsFunc(written.Records, func(r recordDoc) bool {
		return r.TTL < 3600 && !slices.ContainsFunc(s.zones(w, written.Name), func(z zoneDoc) bool {
			return slices.ContainsFunc(z.Records, func(old recordDoc) bool { return old.Name == r.Name && old.Type == r.Type && old.TTL == r.TTL })
		})
	})
}

func (s simulator) zones(w http.ResponseWriter, name string) (found []zoneDoc) {
	response, err := http.Get(s.zonesURL + "/zones?provider=faulty&name=" + name)
	if err != nil {
		simulate.WriteError(w, http.StatusInternalServerError, err.Error())
		return nil
	}
	defer func() { _ = response.Body.Close() }()
	_ = json.NewDecoder(response.Body).Decode(&found)
	return found
}

// forward sends a call to zonesURL, and returns the answer to the caller.
func (s simulator) forward(w http.ResponseWriter, method, path string, body []byte) {
	request, _ := http.NewRequest(method, s.zonesURL+path, bytes.NewReader(body))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		simulate.WriteError(w, http.StatusInternalServerError, err.Error())
		return
	}
	defer func() { _ = response.Body.Close() }()
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body)
}
