// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	version     = "0.1.0"
	baseURL     = "https://api.instantly.ai"
	authHosts   = "login.microsoftonline.com"
	callTimeout = 20 * time.Second
)

func description() sdk.Description {
	return sdk.Description{
		Name: "instantly", Kind: "sending", Version: version, Title: "Instantly",
		Capabilities: []string{sdk.CanOAuth, sdk.CanRefresh, sdk.CanDisconnect},
		Hosts:        []string{"{base_url}"},
		Fields: []sdk.Field{
			{Name: "api_key", Account: true, Required: true, Secret: true,
				Help: "API key of version 2 with the scopes accounts:create, accounts:read, accounts:delete and workspaces:read"},
			{Name: "workspace_id", Account: true, Help: "id of the key's workspace; a key belongs to one workspace"},
			{Name: "base_url", Default: baseURL, Help: "Instantly's API"},
			{Name: "auth_hosts", Default: authHosts, Help: "hosts to which sign-in links may lead, separated by commas"},
		},
		Budgets: []sdk.Budget{
			{Key: "credential", Limit: 100, Window: time.Second, Costs: requestCosts()},
			{Key: "credential", Limit: 6000, Window: time.Minute, Costs: requestCosts()},
			{Key: "credential", Limit: 75, Window: time.Minute, Only: []string{"start_sign_in"}},
			// Instantly allows 150 starts of sign-ins per minute from one IP address. It blocks an
			// address that exceeds this limit repeatedly, for 30 minutes to 24 hours.
			{Key: "egress", Limit: 120, Window: time.Minute, Only: []string{"start_sign_in"}},
		},
	}
}

// requestCosts maps each operation that can make several requests to its maximum number of
// requests.
func requestCosts() map[string]int { return map[string]int{"check": 2, "account": 2} }

// processState has the state that all connections of the process share.
type processState struct {
	http  *http.Client
	waits *sdk.Waits // pauses after a Retry-After, keyed by the scopes of starter
	now   func() time.Time
}

func newProcessState() *processState {
	return &processState{http: sdk.NewHTTPClient(callTimeout), waits: sdk.NewWaits(nil), now: time.Now}
}

// platform implements sdk.SendingPlatform for one API key.
type platform struct {
	http      *http.Client // sends nothing while the key must wait
	starter   starter
	now       func() time.Time
	base      string
	key       sdk.Secret
	workspace string   // the setting workspace_id, or ""
	authHosts []string // hosts to which an authorization URL may lead
}

// newPlatform returns the platform of a connection. It fails if a setting or the key is invalid. It
// sends no request.
func (s *processState) newPlatform(connection sdk.Connection) (sdk.SendingPlatform, error) {
	base := strings.TrimRight(cmp.Or(connection.Settings["base_url"], baseURL), "/")
	if u, err := url.Parse(base); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, sdk.Misconfigured("base_url", "it must be an http or https URL")
	}
	key := connection.Secrets["api_key"]
	if text := strings.TrimSpace(key.Reveal()); text == "" || strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsGraphic(r) || unicode.IsSpace(r) }) {
		return nil, sdk.Misconfigured("api_key", "it is missing or contains an invalid character")
	}
	return &platform{
		http: s.waits.Client(s.http, sdk.KeyScope(base, key)), starter: newStarter(s, base, key), now: s.now, base: base, key: key, workspace: connection.Settings["workspace_id"],
		authHosts: sdk.SplitAuthHosts(cmp.Or(connection.Settings["auth_hosts"], authHosts)),
	}, nil
}
