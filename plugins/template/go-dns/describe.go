// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	version     = "0.1.0"
	callTimeout = 15 * time.Second
)

// description tells the host what this plugin is and which settings it needs.
func description() sdk.Description {
	return sdk.Description{
		Name: "example", Kind: "dns", Version: version, Title: "Example",
		// A write is atomic: the provider makes all changes of a request or none.
		Capabilities: []string{"atomic"},
		Fields: []sdk.Field{
			{Name: "api_token", Account: true, Required: true, Secret: true, Help: "token of the API that may read and edit zones"},
			{Name: "api_url", Default: "https://api.example.com/v1", Help: "base URL of the API"},
		},
		// The plugin can call only these hosts.
		Hosts: []string{"{api_url}"},
		// tenantry recognizes the zones of this provider by the names of their name servers. The
		// sandbox adds its own name servers.
		NameServers: []string{"*.ns.example.com"},
		// This is the rate limit that the provider publishes. "apply" makes three requests: it
		// reads the zone, writes it and reads it again.
		Budgets: []sdk.Budget{{Key: "credential", Limit: 600, Window: time.Minute, Costs: map[string]int{"apply": 3}}},
	}
}

// processState is shared by all calls. It keeps no settings and no secrets.
type processState struct {
	http  *http.Client
	waits *sdk.Waits // waits after a Retry-After, keyed by the fingerprint of the connection
}

func newProcessState() *processState {
	return &processState{http: sdk.NewHTTPClient(callTimeout), waits: sdk.NewWaits(nil)}
}

// provider implements sdk.DNSProvider for one connection.
type provider struct {
	base  string // URL of the API
	token sdk.Secret
	http  *http.Client
}

// provider returns the provider for a connection. It fails if a setting or the token is invalid. It
// makes no request.
func (s *processState) provider(connection sdk.Connection) (sdk.DNSProvider, error) {
	base, err := url.Parse(connection.Settings["api_url"])
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, sdk.Misconfigured("api_url", "it must be a URL such as https://api.example.com/v1")
	}
	token := connection.Secrets["api_token"]
	if token.Empty() || strings.ContainsFunc(token.Reveal(), func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, sdk.Misconfigured("api_token", "it is missing or has invalid characters")
	}
	return &provider{
		base: strings.TrimRight(base.String(), "/"), token: token,
		http: s.waits.Client(s.http, connection.Fingerprint()), // sends no request of this credential during a Retry-After
	}, nil
}
