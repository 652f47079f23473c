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
	version   = "0.1.0"
	baseURL   = "https://api.plusvibe.ai/api/v1"
	userAgent = "tenantry/" + version
	authHost  = "login.microsoftonline.com"
	callTime  = 15 * time.Second
)

// The fields that more than one place names.
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
		Fields: []sdk.Field{
			{Name: "api_key", Account: true, Required: true, Secret: true, Help: "API key"},
			{Name: fieldWorkspace, Account: true, Help: "id of the workspace, where the key reaches several"},
			{Name: fieldUsername, Account: true, Secret: true, Help: "login of an infrastructure partner, which Microsoft sign-in needs beside the key"},
			{Name: fieldPassword, Account: true, Secret: true, Help: "password of that login"},
			{Name: "base_url", Default: baseURL, Help: "PlusVibe's API"},
			{Name: "auth_hosts", Default: authHost, Help: "hosts to which sign-in links may lead, separated by commas"},
			{Name: "user_agent", Default: userAgent, Help: "how calls name themselves; PlusVibe's edge may turn unusual ones away"},
			{Name: fieldAllow, Default: "false", Help: "true: an account may give a partner's login, whose password starts sign-ins at PlusVibe; false: a credential with one is not taken, and one that is stored is not sent"},
		},
		// PlusVibe publishes no limit. These are 5 calls a second, in a window
		// that has room for a person who tries things, and for a listing.
		Budgets: []sdk.Budget{{
			Key: "credential", Limit: 50, Window: 10 * time.Second,
			Costs: map[string]int{"check": 2},
		}},
	}
}

// house is what lives as long as the process.
type house struct {
	http *http.Client
	told sync.Map // account statuses that nobody knows and the log has already
}

func newHouse() *house { return &house{http: sdk.NewHTTPClient(callTime)} }

// provider is one key's view of one workspace.
type provider struct {
	house     *house
	base      string
	agent     string
	hosts     []string
	key       sdk.Secret
	username  sdk.Secret
	password  sdk.Secret
	partner   bool // the login is there and may be used
	workspace string
}

func (h *house) provider(c sdk.Connection) (sdk.SendingPlatform, error) {
	p := &provider{
		house: h, base: strings.TrimRight(cmp.Or(c.Settings["base_url"], baseURL), "/"), agent: cmp.Or(c.Settings["user_agent"], userAgent),
		key: c.Secrets["api_key"], username: c.Secrets[fieldUsername], password: c.Secrets[fieldPassword], workspace: c.Settings[fieldWorkspace],
	}
	if u, err := url.Parse(p.base); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, sdk.Misconfigured("base_url", "it is a URL")
	}
	if !header(p.agent) {
		return nil, sdk.Misconfigured("user_agent", "it is one line of printable ASCII")
	}
	if key := p.key.Reveal(); key == "" || !header(key) || strings.Contains(key, " ") {
		return nil, sdk.Misconfigured("api_key", "it is missing or holds what no key has")
	}
	if p.username.Empty() != p.password.Empty() {
		return nil, sdk.Misconfigured(fieldPassword, "partner_username and partner_password come together")
	}
	p.partner = !p.password.Empty() && c.Settings[fieldAllow] == "true"
	for host := range strings.SplitSeq(cmp.Or(c.Settings["auth_hosts"], authHost), ",") {
		p.hosts = append(p.hosts, strings.TrimSpace(host))
	}
	return p, nil
}

// header reports whether a text makes the value of a header.
func header(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}
