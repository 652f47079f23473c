// SPDX-License-Identifier: Apache-2.0

// Package simulator is a stand-in for Microsoft 365 on loopback. It serves the login host,
// Microsoft Graph and the Exchange admin endpoint, each under its own path prefix.
//
// The README in this folder lists the control calls, the settings, and which test covers which
// documented behaviour. `mail-microsoft365 simulate` and tests call New. The sandbox, `tenantry
// dev`, starts the simulator. Every tenant is one value of type tenant, stored in one file.
//
//   - simulator.go: New, the routing of requests to the three hosts, and the name of each request
//     for the journal and for planned faults. Start here.
//   - store.go, tenant.go: the tenants on disk, and derived ids. behaviour.go: the settings of one
//     tenant.
//   - registration.go: the application as it is registered with Microsoft, for all tenants, and the
//     control call that changes it.
//   - login*.go, pages/: the login host. Endpoints, consent, sign-in, tokens, claims and AADSTS
//     errors.
//   - graph*.go: Microsoft Graph v1.0. graph.go has the routes, the authentication and the errors.
//     graph_query.go has $select, $filter and paging. The other files have the resources.
//   - exchange*.go: the Exchange admin endpoint. exchange.go runs InvokeCommand.
//     exchange_cmdlets.go lists the cmdlets and checks their parameters. exchange_errors.go has the
//     exceptions. The other files run the cmdlets.
//   - replicas.go: the replicas of Graph and Exchange, which can lag.
//   - violations.go: the rules that requests must not break. The journal records broken rules.
//   - control.go: the other control calls. faults.go: the answer to a planned fault.
//   - dns.go: the DNS client that finds verification and DKIM records.
//   - openapi/: a package for tests, which checks requests and answers of Graph.
package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// The path prefixes of the three hosts.
const (
	loginHost    = "/login"
	graphHost    = "/graph"
	exchangeHost = "/exchange"
)

// simulator implements simulate.Provider.
type simulator struct {
	kit             *simulate.Kit
	app             *simulate.File[registration]
	store           *store
	hosts           map[string]http.Handler // keyed by path prefix
	tokenRequests   tokenCounter
	applicationWait applicationWait
	firstKeyMu      sync.Mutex // ensures that only one call generates the first signing key
}

// New returns the handler of the simulator, and the line that the simulator prints when it is
// ready. It fails if the state in options.DataDir cannot be read or created, or if options.URL is
// invalid.
func New(options simulate.Options) (http.Handler, simulate.Ready, error) {
	kit, err := simulate.Open("microsoft365", options)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	app, err := openRegistration(options.DataDir)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	store, err := openStore(options.DataDir)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	s := &simulator{kit: kit, app: app, store: store}
	s.hosts = map[string]http.Handler{
		loginHost:    http.StripPrefix(loginHost, s.loginHandler()),
		graphHost:    http.StripPrefix(graphHost, s.graphHandler()),
		exchangeHost: http.StripPrefix(exchangeHost, s.exchangeHandler()),
	}
	return kit.Handler(s, s.controlHandler()), s.ready(), nil
}

func (s *simulator) ready() simulate.Ready {
	app := s.registration()
	return simulate.Ready{
		Provider: "microsoft365",
		URL:      s.kit.URL,
		Settings: map[string]string{
			"login_url":        s.kit.URL + loginHost,
			"graph_url":        s.kit.URL + graphHost,
			"exchange_url":     s.kit.URL + exchangeHost,
			"client_id":        app.ClientID,
			"application_name": applicationName,
		},
		Secrets: map[string]string{"client_secret": app.Secret},
		Control: []string{"tenants", "messages"},
		Zones:   ownZones(),
	}
}

// logf writes one line to the log of the simulator, if there is a log.
func (s *simulator) logf(format string, args ...any) {
	if s.kit.Log != nil {
		_, _ = fmt.Fprintf(s.kit.Log, "simulator microsoft365: "+format+"\n", args...)
	}
}

// ServeHTTP implements simulate.Provider.
func (s *simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h, ok := s.hosts[hostPrefix(r)]; ok {
		h.ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}

// hostPrefix returns the first element of the path, such as "/graph".
func hostPrefix(r *http.Request) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	return "/" + first
}

// Call implements simulate.Provider. The scope of a Retry-After is the host and the tenant. For the
// throttle scope "Application", see applicationWait.
func (s *simulator) Call(r *http.Request, body []byte) simulate.Call {
	host := hostPrefix(r)
	call := simulate.Call{Host: host, Write: r.Method != http.MethodGet && r.Method != http.MethodHead}
	path := strings.TrimPrefix(r.URL.Path, host)
	switch host {
	case exchangeHost:
		call.Operation, call.Write = exchangeOperation(path, body)
		call.Scope = exchangeHost + "/" + tenantInExchangePath(r.URL.Path)
		// A 504 comes from the proxy in front of Exchange. Exchange still executes the cmdlet.
		call.WorkAt = []int{http.StatusGatewayTimeout}
	case graphHost:
		call.Operation = graphOperation(r.Method, path)
		call.Scope = graphHost + "/" + s.tenantInToken(r)
	case loginHost:
		call.Operation = path[strings.LastIndex(path, "/")+1:]
		name, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		call.Scope = loginHost + "/" + name
		// Of the calls to the login host, only the form of a consent counts as a write.
		call.Write = call.Write && call.Operation == "adminconsent"
	}
	call.Violation = s.violation(r, call, body)
	return call
}

// exchangeOperation returns the name of the cmdlet, or else the last element of the path, and
// whether the call can change something. Cmdlets that begin with "Get-" and calls other than
// InvokeCommand change nothing.
func exchangeOperation(path string, body []byte) (string, bool) {
	if !strings.HasSuffix(path, "/InvokeCommand") {
		return path[strings.LastIndex(path, "/")+1:], false
	}
	var request command
	if json.Unmarshal(body, &request) != nil || request.CmdletInput.CmdletName == "" {
		return "InvokeCommand", true
	}
	return request.CmdletInput.CmdletName, !strings.HasPrefix(strings.ToLower(request.CmdletInput.CmdletName), "get-")
}

// graphOperation returns a name of the operation, such as domain.create or
// domain.list-verificationDnsRecords.
func graphOperation(method, path string) string {
	parts := strings.Split(strings.Trim(strings.TrimPrefix(path, "/v1.0"), "/"), "/")
	collection, _, _ := strings.Cut(parts[0], "(")
	last := parts[len(parts)-1]
	singular := strings.TrimSuffix(collection, "s")
	switch {
	case collection == "policies" || collection == "roleManagement":
		return map[string]string{"GET": "get-", "POST": "create-"}[method] + last
	case collection == "directory":
		return collection + ".list-" + last
	case last == "verify" || last == "forceDelete" || last == "$count":
		return singular + "." + last
	case len(parts) > 2 || len(parts) == 2 && last == "appRoleAssignments":
		return singular + ".list-" + last
	case len(parts) == 2 || strings.Contains(parts[0], "("):
		return singular + map[string]string{"GET": ".get", "PATCH": ".update", "DELETE": ".delete"}[method]
	}
	return singular + map[string]string{"GET": ".list", "POST": ".create"}[method]
}
