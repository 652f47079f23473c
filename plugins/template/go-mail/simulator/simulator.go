// SPDX-License-Identifier: Apache-2.0

// Package simulator simulates the API of the mail platform Example, and its pages for people.
// Replace its paths and documents by the paths and documents of the real API. The tests of the
// plugin show what else must change.
//
//   - simulator.go: New, the routes, and how a request is answered. Start here.
//   - state.go: the data that the platform stores. pages.go: consent and sign-in.
//   - domains.go, mailserver.go, mailboxes.go, sending.go: the operations of the API.
//   - control.go: the control calls of the conformance suite. dns.go: the records of a domain, and
//     queries to the DNS.
package simulator

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

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
	kit   *simulate.Kit
	state *simulate.File[state]
	mux   *http.ServeMux
}

// New returns the handler of the simulator, and the line that the simulator prints when it is
// ready. It fails if the data folder cannot be used, or if options.URL is invalid.
func New(options simulate.Options) (http.Handler, simulate.Ready, error) {
	kit, file, err := simulate.OpenState(name, "platform.json", options, func(time.Time) state {
		return state{Tenants: map[string]*tenant{}, Codes: map[string]login{}}
	})
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	s := &simulator{kit: kit, state: file, mux: http.NewServeMux()}
	s.mux.HandleFunc("GET "+prefix+"/application", s.serve(func(*call) (any, string) { return map[string]string{"name": "tenantry"}, "" }))
	s.mux.HandleFunc("POST "+prefix+"/logins", s.serve(redeemCode))
	for pattern, serve := range routes {
		method, path, _ := strings.Cut(pattern, " ")
		s.mux.HandleFunc(method+" "+prefix+"/tenants/{tenant}"+path, s.serve(ofTenant(serve)))
	}
	s.mux.HandleFunc("/consent", s.consent)
	s.mux.HandleFunc("/sign-in", s.signIn)
	return kit.Handler(s, s.controlHandler()), simulate.Ready{
		Provider: name, URL: options.URL, Control: []string{"tenants", "messages"},
		Settings: map[string]string{"api_url": options.URL + prefix, "login_url": options.URL},
		Secrets:  map[string]string{"api_token": Token},
		Zones:    ownZones,
	}, nil
}

// operation serves a request. It returns the document of the answer, or an error code.
type operation func(c *call) (answer any, code string)

// routes are the operations of a tenant, keyed by the method and the path below the tenant.
var routes = map[string]operation{
	"GET ": profile, "GET /people": countPeople,
	"GET /domains": listDomains, "PUT /domains/{domain}": addDomain, "GET /domains/{domain}": ofDomain(getDomain),
	"DELETE /domains/{domain}": ofDomain(removeDomain), "GET /domains/{domain}/records": ofDomain(getRecords),
	"POST /domains/{domain}/verify": ofDomain(verifyDomain), "POST /domains/{domain}/mail": ofDomain(enableMail),
	"PUT /role": takeRole, "GET /smtp": requireRole(getSMTP), "PUT /smtp": requireRole(enableSMTP), "GET /mail-domains": requireRole(listMailDomains),
	"GET /signing/{domain}": requireRole(getSigning), "PUT /signing/{domain}": requireRole(createSigning), "POST /signing/{domain}/enable": requireRole(enableSigning),
	"GET /mailboxes": requireRole(listMailboxes), "POST /mailboxes": requireRole(createMailbox), "GET /mailboxes/{address}": requireRole(getMailbox),
	"PATCH /mailboxes/{address}": requireRole(renameMailbox), "PUT /mailboxes/{address}/submission": requireRole(openSubmission),
	"PUT /accounts/{id}": requireRole(openAccount), "DELETE /accounts/{id}": requireRole(removeAccount),
	"GET /rules": requireRole(listRules), "PUT /rules/{rule}": requireRole(putRule), "DELETE /rules/{rule}": requireRole(removeRule),
	"GET /messages": requireRole(listMessages),
}

// call is one request. The state is locked during the request.
type call struct {
	*simulator
	http          *http.Request
	platformState *state
	tenant        *tenant // nil for a request that names no tenant
	domain        *domain // set by ofDomain
	now           time.Time
}

// read decodes the body of the request. A body that is not valid counts as empty.
func (c *call) read(v any) { _ = json.NewDecoder(c.http.Body).Decode(v) }

// serve returns the handler that calls the operation run.
func (s *simulator) serve(run operation) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+Token {
			refuse(w, http.StatusUnauthorized, "token_refused")
			return
		}
		var answer any
		var code string
		var raw []byte
		err := s.state.Do(func(platformState *state) {
			if answer, code = run(&call{simulator: s, http: r, platformState: platformState, now: s.kit.Now()}); code == "" {
				raw, _ = json.Marshal(answer) // the documents of this package are valid
			}
		})
		switch {
		case err != nil:
			refuse(w, http.StatusInternalServerError, "internal")
		case code != "":
			refuse(w, statusOf(code), code)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(raw)
		}
	}
}

// ofTenant returns an operation that calls run with the tenant in the path. Without the consent of
// the administrator of the tenant, it answers no_consent instead.
func ofTenant(run operation) operation {
	return func(c *call) (any, string) {
		c.tenant = c.platformState.Tenants[c.http.PathValue("tenant")]
		if c.tenant == nil || c.tenant.ConsentAt.IsZero() || c.now.Before(c.tenant.ConsentAt) {
			return nil, "no_consent"
		}
		return run(c)
	}
}

// Call implements simulate.Provider.
func (s *simulator) Call(r *http.Request, _ []byte) simulate.Call {
	_, pattern := s.mux.Handler(r)
	_, path, _ := strings.Cut(pattern, prefix+"/tenants/{tenant}")
	return simulate.Call{
		Operation: strings.ToLower(r.Method) + path,
		Write:     r.Method != http.MethodGet && strings.HasPrefix(r.URL.Path, prefix+"/tenants/"),
		Scope:     r.Header.Get("Authorization"),
	}
}

// Fail implements simulate.Provider.
func (s *simulator) Fail(w http.ResponseWriter, _ *http.Request, status, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	refuse(w, status, "planned")
}

// ServeHTTP implements simulate.Provider.
func (s *simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func refuse(w http.ResponseWriter, status int, code string) {
	simulate.WriteJSON(w, status, map[string]string{"error": code})
}

func statusOf(code string) int {
	switch {
	case code == "no_consent" || code == "no_role":
		return http.StatusForbidden
	case strings.HasPrefix(code, "no_"):
		return http.StatusNotFound
	}
	return http.StatusConflict
}
