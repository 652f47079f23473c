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
	version  = "0.1.0"
	baseURL  = "https://run.salesblink.io/api/public/v1.0.0"
	authHost = "login.microsoftonline.com"
	callTime = 15 * time.Second
)

func description() sdk.Description {
	return sdk.Description{
		Name: "salesblink", Kind: "sending", Version: version, Title: "SalesBlink",
		Capabilities: []string{sdk.CanOAuth, sdk.CanRefresh}, // no deletion is published
		Fields: []sdk.Field{
			{Name: "api_key", Account: true, Required: true, Secret: true, Help: "API key, as in key-…"},
			{Name: "workspace_id", Account: true, Help: "id of the workspace, where the key reaches several"},
			{Name: "base_url", Default: baseURL, Help: "SalesBlink's API"},
			{Name: "auth_hosts", Default: authHost, Help: "hosts to which sign-in links may lead, separated by commas"},
		},
		Budgets: []sdk.Budget{
			{Key: "credential", Limit: 30, Window: time.Minute, Only: []string{"check", "account", "accounts"}},
			{Key: "credential", Limit: 15, Window: time.Minute, Only: []string{"start_sign_in"}},
		},
	}
}

// house is what lives as long as the process.
type house struct {
	http   *http.Client
	pauses *pauses
}

func newHouse() *house { return &house{http: sdk.NewHTTPClient(callTime), pauses: newPauses(time.Now)} }

// provider is one key's view of one workspace.
type provider struct {
	house     *house
	base      string
	hosts     []string
	key       sdk.Secret
	who       string // tells keys apart without giving them away
	workspace string // "" for the key's own choice
}

func (h *house) provider(c sdk.Connection) (sdk.SendingPlatform, error) {
	p := &provider{
		house: h, base: strings.TrimRight(cmp.Or(c.Settings["base_url"], baseURL), "/"),
		key: c.Secrets["api_key"], workspace: c.Settings["workspace_id"],
	}
	if u, err := url.Parse(p.base); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, sdk.Misconfigured("base_url", "it is a URL")
	}
	if key := p.key.Reveal(); key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, sdk.Misconfigured("api_key", "it is missing or holds what no key has; it comes without the word Bearer")
	}
	p.who = sdk.Connection{
		Settings: map[string]string{"base_url": p.base}, Secrets: map[string]sdk.Secret{"api_key": p.key},
	}.Fingerprint()
	for host := range strings.SplitSeq(cmp.Or(c.Settings["auth_hosts"], authHost), ",") {
		p.hosts = append(p.hosts, strings.TrimSpace(host))
	}
	return p, nil
}
