// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	version     = "0.1.0"
	serverID    = "localhost" // the only id of a server in the API of an Authoritative Server
	callTimeout = 15 * time.Second
)

func description() sdk.Description {
	return sdk.Description{
		Name: "powerdns", Kind: "dns", Version: version, Title: "PowerDNS",
		// There are no patterns in NameServers, because each operator chooses the names of the
		// servers.
		Capabilities: []string{"atomic"},
		Hosts:        []string{"{api_url}"},
		Fields: []sdk.Field{
			{Name: "api_url", Account: true, Required: true, Help: "URL of the server's HTTP API, such as https://dns.example.com:8081; /api/v1 is added"},
			{Name: "api_key", Account: true, Required: true, Secret: true, Help: "key of the HTTP API"},
			{Name: "server_id", Account: true, Default: serverID, Help: "the server's id in its API"},
			{Name: "allow_private", Default: "false", Help: "call servers on private addresses too, and by http; for test systems"},
		},
	}
}

// processState has the HTTP clients, locks and waits that all calls of the process share. The
// client guarded connects only to public addresses.
type processState struct {
	guarded, unguarded *http.Client
	locks              *sdk.ZoneLocks
	waits              *sdk.Waits // pauses after a Retry-After, keyed by the fingerprint of the connection
}

func newProcessState() *processState {
	return &processState{
		guarded:   sdk.NewGuardedHTTPClient(callTimeout, false),
		unguarded: sdk.NewGuardedHTTPClient(callTimeout, true),
		locks:     sdk.NewZoneLocks(),
		waits:     sdk.NewWaits(nil),
	}
}

// provider implements sdk.DNSProvider for one connection.
type provider struct {
	base  string // URL of the API, including the server's id
	key   sdk.Secret
	http  *http.Client
	locks *sdk.ZoneLocks
}

// provider returns the provider for a connection. It fails if a setting or the key is invalid.
func (s *processState) provider(conn sdk.Connection) (sdk.DNSProvider, error) {
	apiURL, err := url.Parse(strings.TrimSpace(conn.Settings["api_url"]))
	if err != nil || apiURL.Host == "" || apiURL.User != nil || apiURL.RawQuery != "" || (apiURL.Scheme != "https" && apiURL.Scheme != "http") {
		return nil, sdk.Misconfigured("api_url", "it must be a URL such as https://dns.example.com:8081")
	}
	key := conn.Secrets["api_key"]
	if key.Empty() || strings.ContainsFunc(key.Reveal(), unicode.IsControl) {
		return nil, sdk.Misconfigured("api_key", "it is missing or contains a control character")
	}
	allowPrivate, err := strconv.ParseBool(cmp.Or(conn.Settings["allow_private"], "false"))
	if err != nil {
		return nil, sdk.Misconfigured("allow_private", "it must be true or false")
	}
	if apiURL.Scheme == "http" && !allowPrivate {
		return nil, sdk.Misconfigured("api_url", "http would send the key in clear; give an https URL, or have the operator set allow_private for a server in their own network")
	}
	p := &provider{key: key, http: s.guarded, locks: s.locks}
	if allowPrivate {
		p.http = s.unguarded
	}
	p.http = s.waits.Client(p.http, conn.Fingerprint())
	path := strings.TrimSuffix(strings.TrimRight(apiURL.Path, "/"), "/api/v1")
	p.base = apiURL.Scheme + "://" + apiURL.Host + path + "/api/v1/servers/" + url.PathEscape(cmp.Or(conn.Settings["server_id"], serverID))
	return p, nil
}
