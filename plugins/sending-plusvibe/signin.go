// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// StartSignIn implements sdk.SendingPlatform. Only PlusVibe's infrastructure
// partners may, by their login. PlusVibe is not told which mailbox is meant, and
// names neither a session nor its end: the account is looked up.
func (p *provider) StartSignIn(ctx context.Context, _ string) (sdk.SignInSession, error) {
	if !p.partner {
		return sdk.SignInSession{}, sdk.NotSupported(sdk.CanOAuth)
	}
	if p.workspace == "" {
		return sdk.SignInSession{}, sdk.Misconfigured(fieldWorkspace, "it is missing")
	}
	a, err := p.ask(ctx, p.asPartner("/webhook/partner-microsoft-oauth-url"))
	if err != nil {
		return sdk.SignInSession{}, err
	}
	var said partnerAnswer
	if err := a.read(&said); err != nil {
		return sdk.SignInSession{}, err
	}
	link, found := p.link(a.body)
	switch {
	case link != "":
		return sdk.SignInSession{URL: link}, nil
	case found:
		return sdk.SignInSession{}, sdk.BrokenBy("auth_url_elsewhere")
	case said.Code != "" && said.Code != "1":
		return sdk.SignInSession{}, sdk.CredentialRefused("plusvibe partner_login")
	default:
		return sdk.SignInSession{}, sdk.BrokenBy("no_auth_url")
	}
}

// link finds the first link that leads where links may lead; found says that
// there was one at all.
func (p *provider) link(body []byte) (link string, found bool) {
	for _, place := range linkPlaces {
		text := at(body, place)
		found = found || text != ""
		if integration.AuthURL(text, p.hosts) {
			return text, true
		}
	}
	return "", found
}

// at reads a text out of nested objects, "" when there is none.
func at(raw []byte, place []string) string {
	for _, name := range place {
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return ""
		}
		raw = object[name]
	}
	var text string
	_ = json.Unmarshal(raw, &text) // something else is no link
	return text
}

// SignIn implements sdk.SendingPlatform: PlusVibe has no sessions to ask for.
func (p *provider) SignIn(context.Context, string) (sdk.Progress, error) {
	return sdk.Progress{}, sdk.NotSupported("sign_in")
}
