// SPDX-License-Identifier: Apache-2.0

// Package simulator is a stand-in for Microsoft 365 on loopback: the login
// host, Microsoft Graph and the Exchange admin endpoint, each under a path
// prefix of its own. It behaves as Microsoft publishes, faults included; the
// README beside this file says which test shows which behaviour.
package simulator

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// The path prefixes of the three hosts.
const (
	loginHost    = "/login"
	graphHost    = "/graph"
	exchangeHost = "/exchange"
)

// simulator is one running stand-in.
type simulator struct {
	kit   *simulate.Kit
	app   *simulate.File[registration]
	store *store
	hosts map[string]http.Handler
}

// New makes the simulator and says how the plugin's production code reaches
// it.
func New(o simulate.Options) (http.Handler, simulate.Ready, error) {
	kit, err := simulate.Open("microsoft365", o)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	app, err := openRegistration(o.DataDir)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	store, err := openStore(o.DataDir)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	s := &simulator{kit: kit, app: app, store: store}
	s.hosts = map[string]http.Handler{
		loginHost:    http.StripPrefix(loginHost, s.login()),
		graphHost:    http.StripPrefix(graphHost, s.graph()),
		exchangeHost: http.StripPrefix(exchangeHost, s.exchange()),
	}
	return kit.Handler(s, s.control()), s.ready(), nil
}

// ready is the line that points the plugin's production code here.
func (s *simulator) ready() simulate.Ready {
	app := s.registration()
	return simulate.Ready{
		Provider: "microsoft365",
		URL:      s.kit.URL,
		Settings: map[string]string{
			"login_url":    s.kit.URL + loginHost,
			"graph_url":    s.kit.URL + graphHost,
			"exchange_url": s.kit.URL + exchangeHost,
			"client_id":    app.ClientID,
		},
		Secrets: map[string]string{"client_secret": app.Secret},
		Control: []string{"tenants", "messages"},
	}
}

// note tells people what went wrong outside of an answer.
func (s *simulator) note(format string, args ...any) {
	if s.kit.Log != nil {
		_, _ = fmt.Fprintf(s.kit.Log, "simulator microsoft365: "+format+"\n", args...)
	}
}

// ServeHTTP implements simulate.Provider.
func (s *simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h, ok := s.hosts[hostOf(r)]; ok {
		h.ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}

// hostOf is the prefix of the host that a request is for.
func hostOf(r *http.Request) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	return "/" + first
}
