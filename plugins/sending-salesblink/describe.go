// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	version     = "0.1.0"
	baseURL     = "https://run.salesblink.io/api/public/v1.0.0"
	authHost    = "login.microsoftonline.com"
	callTimeout = 15 * time.Second
)

func description() sdk.Description {
	return sdk.Description{
		Name: "salesblink", Kind: "sending", Version: version, Title: "SalesBlink",
		Capabilities: []string{sdk.CanOAuth, sdk.CanRefresh}, // SalesBlink documents no deletion
		Hosts:        []string{"{base_url}"},
		Fields: []sdk.Field{
			{Name: "api_key", Account: true, Required: true, Secret: true, Help: "API key, such as key-…"},
			{Name: "workspace_id", Account: true, Help: "id of the workspace; needed if the key has access to several"},
			{Name: "base_url", Default: baseURL, Help: "SalesBlink's API"},
			{Name: "auth_hosts", Default: authHost, Help: "hosts to which sign-in links may lead, separated by commas"},
		},
		Budgets: []sdk.Budget{
			{Key: "credential", Limit: 30, Window: time.Minute, Only: []string{"check", "account", "accounts"}},
			{Key: "credential", Limit: 15, Window: time.Minute, Only: []string{"start_sign_in"}},
		},
	}
}

// processState has the state that all connections of the process share.
type processState struct {
	http  *http.Client
	waits *sdk.Waits // pauses after a 429 or a Retry-After, keyed by platform.scope
}

func newProcessState() *processState {
	return &processState{http: sdk.NewHTTPClient(callTimeout), waits: sdk.NewWaits(nil)}
}

// platform implements sdk.SendingPlatform for one API key and one workspace.
type platform struct {
	process   *processState
	http      *http.Client // sends nothing while the key must wait
	base      string
	authHosts []string // hosts to which a sign-in link may lead
	key       sdk.Secret
	scope     string // the scope of this key in the waits of process
	workspace string // empty for the default workspace of the key
}

// newPlatform returns the platform of a connection. It fails if base_url or the key is invalid. It
// sends no request.
func (s *processState) newPlatform(connection sdk.Connection) (sdk.SendingPlatform, error) {
	p := &platform{
		process: s, base: strings.TrimRight(cmp.Or(connection.Settings["base_url"], baseURL), "/"),
		key: connection.Secrets["api_key"], workspace: connection.Settings["workspace_id"],
	}
	if u, err := url.Parse(p.base); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, sdk.Misconfigured("base_url", "it must be an http or https URL")
	}
	if key := p.key.Reveal(); key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, sdk.Misconfigured("api_key", "it is missing or contains a space or another invalid character; write the key without the word Bearer")
	}
	p.scope = sdk.KeyScope(p.base, p.key)
	p.http = s.waits.Client(s.http, p.scope)
	p.authHosts = sdk.SplitAuthHosts(cmp.Or(connection.Settings["auth_hosts"], authHost))
	return p, nil
}
