// SPDX-License-Identifier: Apache-2.0

// Package simulator simulates the part of SalesBlink's API that concerns mailboxes: API keys,
// workspaces, senders in folders, and the start of a Microsoft sign-in. Where SalesBlink documents
// no answer, the behaviour can be switched. New is the entry point.
//
//   - simulator.go: New, the routes, the start of a sign-in and the rate limits.
//   - senders.go: API keys, workspaces and the list of senders.
//   - state.go: the state, which is stored in one file.
//   - control.go: the control interface, by which tests and the sandbox change SalesBlink.
package simulator

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const (
	provider = "salesblink"
	prefix   = "/api/public/v1.0.0"
	// authorize is the path of the sign-in page, as at Microsoft.
	authorize = "/common/oauth2/v2.0/authorize"

	// Key is the API key of an owner with one workspace.
	Key = "key-simulated-salesblink"
)

type salesblink struct {
	kit     *simulate.Kit
	file    *simulate.File[state]
	mux     *http.ServeMux
	limiter *rateLimiter
	signIns simulate.SignInLinks[state]
}

// New returns the handler of the simulator and what its ready line tells. It fails when the data
// folder cannot be read.
func New(o simulate.Options) (http.Handler, simulate.Ready, error) {
	kit, file, err := simulate.OpenState(provider, "salesblink.json", o, initialState)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	s := &salesblink{kit: kit, file: file, mux: http.NewServeMux(), limiter: newRateLimiter(), signIns: simulate.SignInLinks[state]{
		Platform: "SalesBlink", Path: authorize, Kit: kit, File: file, Started: startedSignIns, Attach: (*state).attach,
	}}
	s.mux.HandleFunc("GET "+prefix+"/workspaces", s.requireKey(s.listWorkspaces))
	s.mux.HandleFunc("GET "+prefix+"/senders", s.requireKey(s.listSenders))
	s.mux.HandleFunc("POST "+prefix+"/oauth/outlook", s.requireKey(s.startOAuth))
	s.mux.Handle("GET "+authorize, s.signIns)
	s.mux.Handle("POST "+authorize, s.signIns)
	s.mux.HandleFunc("/", s.requireKey(func(w http.ResponseWriter, _ *http.Request, _ customer) {
		refuse(w, http.StatusNotFound, "Not found")
	}))
	return kit.Handler(s, s.controls()), simulate.Ready{
		Provider: provider, URL: o.URL,
		Settings: map[string]string{"base_url": o.URL + prefix, "auth_hosts": kit.Host()},
		Secrets:  map[string]string{"api_key": Key},
		Control:  []string{},
		Sending:  &simulate.Sending{APIKey: Key},
	}, nil
}

// Call implements simulate.Provider. The operations have the names of the sending port.
func (s *salesblink) Call(r *http.Request, _ []byte) simulate.Call {
	name := ""
	switch path := strings.TrimPrefix(r.URL.Path, prefix); {
	case path == "/workspaces", path == "/senders" && !r.URL.Query().Has("skip"):
		name = "check"
	case path == "/senders" && r.URL.Query().Has("search"):
		name = "account"
	case path == "/senders":
		name = "accounts"
	case path == "/oauth/outlook":
		name = "start_sign_in"
	case path == authorize:
		return simulate.Call{Operation: "authorize"} // requested by a browser, not by tenantry
	}
	return simulate.Call{Operation: name, Write: r.Method != http.MethodGet, Host: prefix, WorkAt: []int{http.StatusGatewayTimeout}}
}

// Fail implements simulate.Provider.
func (s *salesblink) Fail(w http.ResponseWriter, _ *http.Request, status, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	refuse(w, status, http.StatusText(status))
}

// ServeHTTP implements simulate.Provider.
func (s *salesblink) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// refuse answers with an error in SalesBlink's envelope.
func refuse(w http.ResponseWriter, status int, message string) {
	simulate.WriteJSON(w, status, map[string]any{"success": false, "message": message})
}

// answer answers with data in SalesBlink's envelope.
func answer(w http.ResponseWriter, data any) {
	simulate.WriteJSON(w, http.StatusOK, map[string]any{"success": true, "data": data})
}

// linkLifetime is how long a sign-in link works. SalesBlink does not document it.
const linkLifetime = 10 * time.Minute

// startOAuth answers with a sign-in link.
func (s *salesblink) startOAuth(w http.ResponseWriter, r *http.Request, owner customer) {
	workspaceID, ok := owner.workspaceOf(w, r)
	if !ok {
		return
	}
	link := ""
	err := s.file.Do(func(all *state) {
		link = cmp.Or(all.Behaviour.LinkTo, s.signIns.Start(all, all.nextID(), workspaceID, linkLifetime))
	})
	if err != nil {
		refuse(w, http.StatusInternalServerError, "Internal error")
		return
	}
	answer(w, map[string]string{"auth_url": link})
}

// rateLimiter allows 30 reads and 15 writes per minute for each key. It counts by the machine's
// clock, because the sandbox's clock moves only when it is advanced.
type rateLimiter struct {
	mu    sync.Mutex
	calls map[string][]time.Time // the times of recent calls, by method and key
}

func newRateLimiter() *rateLimiter { return &rateLimiter{calls: map[string][]time.Time{}} }

// allow counts one call and returns true, or returns false when the call exceeds the limit.
func (l *rateLimiter) allow(key, method string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := 15
	if method == http.MethodGet {
		limit = 30
	}
	now, kept := time.Now(), l.calls[method+" "+key]
	for len(kept) > 0 && now.Sub(kept[0]) >= time.Minute {
		kept = kept[1:]
	}
	allowed := len(kept) < limit
	if allowed {
		kept = append(kept, now)
	}
	l.calls[method+" "+key] = kept
	return allowed
}
