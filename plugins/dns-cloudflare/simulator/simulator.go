// SPDX-License-Identifier: Apache-2.0

// Package simulator simulates a part of Cloudflare's API v4: lists of zones and records, batches of
// changes of records, the verification of tokens, rate limits and error codes.
//
//   - simulator.go: New, the routes and the answer format. Start here.
//   - records.go, transaction.go: zones, records and batches.
//   - tokens.go: tokens and their rate limits.
//   - control.go: the control calls.
//   - sync.go, sandbox.go: edits of a zone, and synchronization with the zones of a sandbox.
package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const (
	provider = "cloudflare"
	prefix   = "/client/v4"
)

// state is the part of the simulator's state that is stored on disk.
type state struct {
	Serial      int              `json:"serial"`
	TokenStatus string           `json:"token"`  // of all tokens, empty for active
	Tokens      map[string]bool  `json:"tokens"` // tokens of customers
	Zones       map[string]*zone `json:"zones"`  // keyed by name
}

type simulator struct {
	kit     *simulate.Kit
	file    *simulate.File[state]
	mux     *http.ServeMux
	sandbox *sandboxClient // nil outside a sandbox, where the zones exist only in the state

	editMu sync.Mutex // held while zones are synchronized with the sandbox, and while records are edited

	rateLimits rateLimits
}

// New returns the handler of the simulator, and the line that the simulator prints when it is
// ready. It fails if the data folder cannot be used, or if options.URL is invalid.
func New(options simulate.Options) (http.Handler, simulate.Ready, error) {
	kit, file, err := simulate.OpenState(provider, "zones.json", options, func(time.Time) state { return state{Zones: map[string]*zone{}} })
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	sim := &simulator{kit: kit, file: file, mux: http.NewServeMux(), sandbox: newSandboxClient(options.World), rateLimits: rateLimits{byToken: map[string]*rateLimit{}}}
	sim.mux.HandleFunc("GET "+prefix+"/user/tokens/verify", sim.verify)
	sim.mux.HandleFunc("GET "+prefix+"/accounts/{account}/tokens/verify", sim.verify)
	sim.mux.HandleFunc("GET "+prefix+"/zones", sim.listZones)
	sim.mux.HandleFunc("GET "+prefix+"/zones/{zone}/dns_records", sim.listRecords)
	sim.mux.HandleFunc("POST "+prefix+"/zones/{zone}/dns_records/batch", sim.batch)
	sim.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, 7003, "Could not route to this path")
	})
	return kit.Handler(sim, sim.controls()), simulate.Ready{
		Provider: provider, URL: options.URL,
		Settings: map[string]string{"api_url": options.URL + prefix},
		Secrets:  map[string]string{"api_token": Token},
		Control:  []string{},
	}, nil
}

// Call implements simulate.Provider.
func (sim *simulator) Call(r *http.Request, _ []byte) simulate.Call {
	operation := ""
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/batch"):
		operation = "recordBatch"
	case strings.HasSuffix(path, "/dns_records"):
		operation = "recordList"
	case strings.HasSuffix(path, "/zones"):
		operation = "zoneList"
	case strings.HasSuffix(path, "/verify"):
		operation = "userTokenVerify"
	}
	return simulate.Call{Operation: operation, Write: r.Method != http.MethodGet, Host: prefix, WorkAt: []int{http.StatusGatewayTimeout}}
}

// Fail implements simulate.Provider.
func (sim *simulator) Fail(w http.ResponseWriter, _ *http.Request, status, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	code := 10013
	if status == http.StatusTooManyRequests {
		code = 10429
	}
	refuse(w, status, code, http.StatusText(status))
}

// ServeHTTP implements simulate.Provider. It checks the rate limit and the token, and then serves
// the request.
func (sim *simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := sim.token(r)
	// The limits use the real clock: after a jump of the simulated clock back, a token would be
	// blocked for too long.
	remaining, wait := sim.rateLimits.count(token, time.Now())
	w.Header().Set("Ratelimit-Policy", fmt.Sprintf(`"default";q=%d;w=%d`, maxCalls, int(rateWindow.Seconds())))
	w.Header().Set("Ratelimit", fmt.Sprintf(`"default";r=%d;t=%d`, remaining, int(wait.Seconds())))
	switch {
	case wait > 0:
		sim.Fail(w, r, http.StatusTooManyRequests, int(wait.Seconds())+1)
	case token == "":
		refuse(w, http.StatusUnauthorized, 1000, "Invalid API Token")
	case sim.tokenStatus() != "active" && !strings.HasSuffix(r.URL.Path, "/tokens/verify"):
		refuse(w, http.StatusForbidden, 9109, "Unauthorized to access requested resource")
	default:
		sim.mux.ServeHTTP(w, r)
	}
}

func (sim *simulator) verify(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]string{"id": "00000000000000000000000000000001", "status": sim.tokenStatus()}, nil)
}

type resultInfo struct {
	Page       int `json:"page"`
	PerPage    int `json:"per_page"`
	Count      int `json:"count"`
	TotalCount int `json:"total_count"`
	TotalPages int `json:"total_pages"`
}

func answer(w http.ResponseWriter, result any, info *resultInfo) {
	doc := map[string]any{"success": true, "errors": []any{}, "messages": []any{}, "result": result}
	if info != nil {
		doc["result_info"] = info
	}
	simulate.WriteJSON(w, http.StatusOK, doc)
}

func refuse(w http.ResponseWriter, status, code int, text string) {
	simulate.WriteJSON(w, status, map[string]any{
		"success": false, "errors": []any{map[string]any{"code": code, "message": text}}, "messages": []any{}, "result": nil,
	})
}

// page returns the page of a list that the query parameters `page` (by default 1) and `per_page`
// (by default defaultSize) select. It returns false if a parameter is invalid, or `per_page` is
// above maxSize.
func page[T any](r *http.Request, list []T, defaultSize, maxSize int) ([]T, *resultInfo, bool) {
	number, size := 1, defaultSize
	for name, into := range map[string]*int{"page": &number, "per_page": &size} {
		if text := r.URL.Query().Get(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || (name == "per_page" && n > maxSize) {
				return nil, nil, false
			}
			*into = n
		}
	}
	totalPages := (len(list) + size - 1) / size
	start := min((min(number, totalPages+1)-1)*size, len(list)) // the product of a huge number would overflow
	onPage := append([]T{}, list[start:min(start+size, len(list))]...)
	return onPage, &resultInfo{Page: number, PerPage: size, Count: len(onPage), TotalCount: len(list), TotalPages: totalPages}, true
}

// decode decodes JSON and reports whether it was valid and had no unknown members.
func decode(body []byte, into any) bool {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into) == nil
}
