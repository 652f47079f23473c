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
		Name: "example", Kind: "sending", Version: version, Title: "Example",
		Capabilities: []string{sdk.CanOAuth, sdk.CanRefresh, sdk.CanDisconnect},
		Fields: []sdk.Field{
			{Name: "api_key", Account: true, Required: true, Secret: true, Help: "key of the API"},
			{Name: "workspace_id", Account: true, Help: "id of the workspace; needed if the key has access to several"},
			{Name: "base_url", Default: "https://api.example.com/v1", Help: "base URL of the API"},
			{Name: "auth_hosts", Default: "login.microsoftonline.com", Help: "hosts that a sign-in link may lead to, separated by commas"},
		},
		Hosts: []string{"{base_url}"},
		// This is the rate limit that the platform publishes. It applies to the sign-ins of all
		// keys together.
		Budgets: []sdk.Budget{{Key: "egress", Limit: 120, Window: time.Minute, Only: []string{"start_sign_in"}}},
	}
}

// processState is shared by all calls. It keeps no settings and no secrets.
type processState struct {
	http  *http.Client
	waits *sdk.Waits // waits after a Retry-After, keyed by sdk.KeyScope
}

func newProcessState() *processState {
	return &processState{http: sdk.NewHTTPClient(callTimeout), waits: sdk.NewWaits(nil)}
}

// platform implements sdk.SendingPlatform for one key.
type platform struct {
	base      string // URL of the API
	key       sdk.Secret
	workspace string   // the id of the workspace, empty for the default workspace
	authHosts []string // hosts that a sign-in link may lead to
	http      *http.Client
}

// platform returns the platform for a connection. It fails if a setting or the key is invalid. It
// makes no request.
func (s *processState) platform(connection sdk.Connection) (sdk.SendingPlatform, error) {
	base, err := url.Parse(connection.Settings["base_url"])
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, sdk.Misconfigured("base_url", "it must be a URL such as https://api.example.com/v1")
	}
	key := connection.Secrets["api_key"]
	if key.Empty() || !isHeaderValue(key.Reveal()) {
		return nil, sdk.Misconfigured("api_key", "it is missing or has invalid characters")
	}
	workspace := connection.Settings["workspace_id"]
	if !isHeaderValue(workspace) {
		return nil, sdk.Misconfigured("workspace_id", "it has invalid characters")
	}
	baseURL := strings.TrimRight(base.String(), "/")
	return &platform{
		base: baseURL, key: key, workspace: workspace,
		authHosts: sdk.SplitAuthHosts(connection.Settings["auth_hosts"]),
		http:      s.waits.Client(s.http, sdk.KeyScope(baseURL, key)), // sends no request of this key during a Retry-After
	}, nil
}

// isHeaderValue reports whether text has only printable ASCII characters.
func isHeaderValue(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}
