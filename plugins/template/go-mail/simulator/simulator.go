// SPDX-License-Identifier: Apache-2.0

// Package simulator simulates the API of the mail platform Example. Replace its paths and documents
// by those of the real API: the tests of the plugin show what else must change.
package simulator

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const (
	name   = "example"
	prefix = "/v1"
	// Token is the only token that the simulated API accepts.
	Token = "simulated-token-of-example"
)

// The JSON documents of the API.
type (
	// Tenant is one tenant, with its domains by name.
	Tenant struct {
		Name          string            `json:"name"`
		BuiltinDomain string            `json:"builtin_domain"`
		DefaultDomain string            `json:"default_domain"`
		Domains       map[string]Domain `json:"domains"`
	}
	// Domain is one domain of a tenant.
	Domain struct {
		Name        string `json:"name"`
		Verified    bool   `json:"verified"`
		Default     bool   `json:"default"`
		MailEnabled bool   `json:"mail_enabled"`
	}
)

// simulator implements simulate.Provider.
type simulator struct {
	tenants *simulate.File[map[string]Tenant] // by id
	mux     *http.ServeMux
}

// New returns the handler of the simulator and the line that it prints when it is ready. It fails
// when the data folder is unusable.
func New(o simulate.Options) (http.Handler, simulate.Ready, error) {
	kit, err := simulate.Open(name, o)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	tenants, err := simulate.OpenFile(o.DataDir+"/tenants.json", map[string]Tenant{})
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	s := &simulator{tenants: tenants, mux: http.NewServeMux()}
	s.mux.HandleFunc("GET "+prefix+"/application", func(w http.ResponseWriter, _ *http.Request) {
		simulate.WriteJSON(w, http.StatusOK, map[string]string{"name": "tenantry"})
	})
	s.mux.HandleFunc("GET "+prefix+"/tenants/{tenant}", s.ofTenant(profile))
	s.mux.HandleFunc("GET "+prefix+"/tenants/{tenant}/domains", s.ofTenant(listDomains))
	s.mux.HandleFunc("GET "+prefix+"/tenants/{tenant}/domains/{domain}", s.ofTenant(getDomain))
	s.mux.HandleFunc("PUT "+prefix+"/tenants/{tenant}/domains/{domain}", s.ofTenant(addDomain))
	return kit.Handler(s, s.control()), simulate.Ready{
		Provider: name, URL: o.URL, Control: []string{},
		Settings: map[string]string{"api_url": o.URL + prefix},
		Secrets:  map[string]string{"api_token": Token},
	}, nil
}

// control returns the handler of the control call PUT /_control/tenants/{id}, which creates or
// replaces a tenant.
func (s *simulator) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /_control/tenants/{id}", func(w http.ResponseWriter, r *http.Request) {
		var in Tenant
		simulate.Change(w, r, s.tenants, &in, func(all *map[string]Tenant) {
			if in.Domains == nil {
				in.Domains = map[string]Domain{}
			}
			(*all)[r.PathValue("id")] = in
		})
	})
	return simulate.ControlCalls(mux, nil)
}

// Call implements simulate.Provider. Planned faults select calls by their operation.
func (s *simulator) Call(r *http.Request, _ []byte) simulate.Call {
	operation := "tenant"
	switch {
	case strings.HasSuffix(r.URL.Path, "/application"):
		operation = "application"
	case r.Method == http.MethodPut:
		operation = "add_domain"
	case strings.Contains(r.URL.Path, "/domains"):
		operation = "domains"
	}
	return simulate.Call{Operation: operation, Write: r.Method != http.MethodGet, Scope: r.Header.Get("Authorization")}
}

// Fail implements simulate.Provider.
func (s *simulator) Fail(w http.ResponseWriter, _ *http.Request, status, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	refuse(w, status)
}

// ServeHTTP implements simulate.Provider.
func (s *simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+Token {
		refuse(w, http.StatusUnauthorized)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// operation serves a request for one tenant, which it may change. It returns nil for 404.
type operation func(t *Tenant, r *http.Request) any

// ofTenant returns the handler of an operation. The state is locked meanwhile.
func (s *simulator) ofTenant(serve operation) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var answer any
		err := s.tenants.Do(func(all *map[string]Tenant) {
			if t, ok := (*all)[r.PathValue("tenant")]; ok {
				answer = serve(&t, r)
				(*all)[r.PathValue("tenant")] = t
			}
		})
		switch {
		case err != nil:
			refuse(w, http.StatusInternalServerError)
		case answer == nil:
			refuse(w, http.StatusNotFound)
		default:
			simulate.WriteJSON(w, http.StatusOK, answer)
		}
	}
}

func profile(t *Tenant, _ *http.Request) any {
	return map[string]string{"name": t.Name, "builtin_domain": t.BuiltinDomain, "default_domain": t.DefaultDomain}
}

func listDomains(t *Tenant, _ *http.Request) any {
	list := []Domain{}
	for _, name := range slices.Sorted(maps.Keys(t.Domains)) {
		list = append(list, t.Domains[name])
	}
	return map[string]any{"domains": list}
}

func getDomain(t *Tenant, r *http.Request) any {
	if d, ok := t.Domains[r.PathValue("domain")]; ok {
		return d
	}
	return nil
}

// addDomain answers with the existing domain if there is one.
func addDomain(t *Tenant, r *http.Request) any {
	name := r.PathValue("domain")
	if _, exists := t.Domains[name]; !exists {
		t.Domains[name] = Domain{Name: name}
	}
	return t.Domains[name]
}

func refuse(w http.ResponseWriter, status int) {
	simulate.WriteJSON(w, status, map[string]string{"error": http.StatusText(status)})
}
