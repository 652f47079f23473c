// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	version     = "0.1.0"
	baseURL     = "https://api.plusvibe.ai/api/v1"
	userAgent   = "tenantry/" + version
	authHost    = "login.microsoftonline.com"
	callTimeout = 15 * time.Second
)

// The names of the fields for the workspace and the login of a partner, and of the setting that
// allows such a login.
const (
	fieldWorkspace = "workspace_id"
	fieldUsername  = "partner_username"
	fieldPassword  = "partner_password"
	fieldAllow     = "allow_password_credentials"
)

func description() sdk.Description {
	return sdk.Description{
		Name: "plusvibe", Kind: "sending", Version: version, Title: "PlusVibe",
		Capabilities: []string{sdk.CanOAuth, sdk.CanRefresh, sdk.CanDisconnect},
		Needs:        map[string][]string{sdk.CanOAuth: {fieldUsername, fieldPassword, fieldAllow}},
		Hosts:        []string{"{base_url}"},
		Fields: []sdk.Field{
			{Name: "api_key", Account: true, Required: true, Secret: true, Help: "API key"},
			{Name: fieldWorkspace, Account: true, Help: "id of the workspace; needed if the key has access to several"},
			{Name: fieldUsername, Account: true, Secret: true, Help: "user name of an infrastructure partner; Microsoft sign-in needs the partner's login in addition to the key"},
			{Name: fieldPassword, Account: true, Secret: true, Help: "password of the infrastructure partner"},
			{Name: "base_url", Default: baseURL, Help: "PlusVibe's API"},
			{Name: "auth_hosts", Default: authHost, Help: "hosts to which sign-in links may lead, separated by commas"},
			{Name: "user_agent", Default: userAgent, Help: "User-Agent header of the calls; PlusVibe may refuse calls with unusual values"},
			{Name: fieldAllow, Default: "false", Help: "whether a credential may contain the login of a partner, with its password, which PlusVibe needs for sign-in links; with false, such a credential is refused, and a stored password is not sent"},
		},
		// PlusVibe publishes no limit. This budget allows 5 calls per second on average. Because
		// its window is 10 seconds, short bursts are possible, such as the pages of a listing.
		Budgets: []sdk.Budget{{
			Key: "credential", Limit: 50, Window: 10 * time.Second,
			Costs: map[string]int{"check": 2},
		}},
	}
}

// processState has the state that all connections of the process share.
type processState struct {
	http           *http.Client
	waits          *sdk.Waits // pauses after a Retry-After, keyed by sdk.KeyScope
	loggedStatuses sync.Map   // the unknown account statuses that were logged
}

func newProcessState() *processState {
	return &processState{http: sdk.NewHTTPClient(callTimeout), waits: sdk.NewWaits(nil)}
}

// platform implements sdk.SendingPlatform for one API key and one workspace.
type platform struct {
	process          *processState
	http             *http.Client
	base             string
	userAgent        string
	authHosts        []string // hosts to which a sign-in link may lead
	key              sdk.Secret
	username         sdk.Secret // the user name of the partner's login, or empty
	password         sdk.Secret
	usesPartnerLogin bool // the connection has a partner's login and the operator allows it
	workspace        string
}

// newPlatform returns the platform of a connection. It fails if a setting, the key or the partner's
// login is invalid. It sends no request.
func (s *processState) newPlatform(connection sdk.Connection) (sdk.SendingPlatform, error) {
	p := &platform{
		process: s, base: strings.TrimRight(cmp.Or(connection.Settings["base_url"], baseURL), "/"), userAgent: cmp.Or(connection.Settings["user_agent"], userAgent),
		key: connection.Secrets["api_key"], username: connection.Secrets[fieldUsername], password: connection.Secrets[fieldPassword], workspace: connection.Settings[fieldWorkspace],
	}
	if u, err := url.Parse(p.base); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, sdk.Misconfigured("base_url", "it must be an http or https URL")
	}
	if !isHeaderValue(p.userAgent) {
		return nil, sdk.Misconfigured("user_agent", "it must be one line of printable ASCII")
	}
	if key := p.key.Reveal(); key == "" || !isHeaderValue(key) || strings.Contains(key, " ") {
		return nil, sdk.Misconfigured("api_key", "it is missing or contains an invalid character")
	}
	if p.username.Empty() != p.password.Empty() {
		return nil, sdk.Misconfigured(fieldPassword, "set partner_username and partner_password together")
	}
	p.http = s.waits.Client(s.http, sdk.KeyScope(p.base, p.key))
	p.usesPartnerLogin = !p.password.Empty() && connection.Settings[fieldAllow] == "true"
	p.authHosts = sdk.SplitAuthHosts(cmp.Or(connection.Settings["auth_hosts"], authHost))
	return p, nil
}

// isHeaderValue reports whether text has only printable ASCII characters.
func isHeaderValue(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}
