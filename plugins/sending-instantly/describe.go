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
	version   = "0.1.0"
	baseURL   = "https://api.instantly.ai"
	authHosts = "login.microsoftonline.com"
	callTime  = 20 * time.Second
)

func description() sdk.Description {
	return sdk.Description{
		Name: "instantly", Kind: "sending", Version: version, Title: "Instantly",
		Capabilities: []string{sdk.CanOAuth, sdk.CanRefresh, sdk.CanDisconnect},
		Fields: []sdk.Field{
			{Name: "api_key", Account: true, Required: true, Secret: true,
				Help: "API key of version 2 with the scopes accounts:create, accounts:read, accounts:delete and workspaces:read"},
			{Name: "workspace_id", Account: true, Help: "workspace of the key; a key has one"},
			{Name: "base_url", Default: baseURL, Help: "Instantly's API"},
			{Name: "auth_hosts", Default: authHosts, Help: "hosts, separated by commas, that authorization URLs may lead to"},
		},
		Budgets: []sdk.Budget{
			{Key: "credential", Limit: 100, Window: time.Second, Costs: costs()},
			{Key: "credential", Limit: 6000, Window: time.Minute, Costs: costs()},
			{Key: "credential", Limit: 75, Window: time.Minute, Only: []string{"start_sign_in"}},
			// Instantly allows 150, and blocks the address for hours when
			// that happens often.
			{Key: "egress", Limit: 120, Window: time.Minute, Only: []string{"start_sign_in"}},
		},
	}
}

// costs are the calls that make more than one request, at most.
func costs() map[string]int { return map[string]int{"check": 2, "account": 2} }

// house is what lives as long as the process.
type house struct {
	http *http.Client
	now  func() time.Time
}

func newHouse() *house { return &house{http: sdk.NewHTTPClient(callTime), now: time.Now} }

// platform is one key's view of Instantly.
type platform struct {
	*house
	base      string
	key       sdk.Secret
	workspace string
	hosts     []string
}

func (h *house) platform(c sdk.Connection) (sdk.SendingPlatform, error) {
	base := strings.TrimRight(cmp.Or(c.Settings["base_url"], baseURL), "/")
	if u, err := url.Parse(base); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, sdk.Misconfigured("base_url", "it is a URL")
	}
	key := strings.TrimSpace(c.Secrets["api_key"].Reveal())
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsGraphic(r) || unicode.IsSpace(r) }) {
		return nil, sdk.Misconfigured("api_key", "it is missing, or holds a space or another character that no key has")
	}
	return &platform{
		house: h, base: base, key: c.Secrets["api_key"], workspace: c.Settings["workspace_id"],
		hosts: split(cmp.Or(c.Settings["auth_hosts"], authHosts)),
	}, nil
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}
