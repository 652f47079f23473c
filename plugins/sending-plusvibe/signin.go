// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// StartSignIn implements sdk.SendingPlatform. It needs the login of an infrastructure partner of
// PlusVibe. The API call has no parameter for the address of the mailbox. The answer contains
// neither a session nor an expiry, so the host later reads the account to find out the result.
func (p *platform) StartSignIn(ctx context.Context, _ string) (sdk.SignInSession, error) {
	if !p.usesPartnerLogin {
		return sdk.SignInSession{}, sdk.NotSupported(sdk.CanOAuth)
	}
	if p.workspace == "" {
		return sdk.SignInSession{}, sdk.Misconfigured(fieldWorkspace, "it is missing")
	}
	a, err := p.call(ctx, p.asPartner("/webhook/partner-microsoft-oauth-url"))
	if err != nil {
		return sdk.SignInSession{}, err
	}
	var parsed partnerAnswer
	if err := a.decode(&parsed); err != nil {
		return sdk.SignInSession{}, err
	}
	link, found := p.findAllowedLink(a.body)
	switch {
	case parsed.Code != "" && parsed.Code != "1":
		return sdk.SignInSession{}, sdk.CredentialRefused("plusvibe partner_login")
	case link != "":
		return sdk.SignInSession{URL: link}, nil
	case found:
		return sdk.SignInSession{}, sdk.BrokenAnswer("auth_url_of_different_host")
	default:
		return sdk.SignInSession{}, sdk.BrokenAnswer("no_auth_url")
	}
}

// findAllowedLink returns the first link at linkPaths whose host is allowed, or "". found is true
// if the answer contains a link at linkPaths, allowed or not.
func (p *platform) findAllowedLink(body []byte) (link string, found bool) {
	for _, path := range linkPaths {
		candidate := stringAt(body, path)
		found = found || candidate != ""
		if sdk.SignInLink(candidate, p.authHosts) {
			return candidate, true
		}
	}
	return "", found
}

// stringAt returns the string at a path of member names, or "".
func stringAt(raw []byte, path []string) string {
	for _, name := range path {
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return ""
		}
		raw = object[name]
	}
	var value string
	_ = json.Unmarshal(raw, &value) // value stays "" for other JSON types
	return value
}

// SignIn implements sdk.SendingPlatform. It always fails, because PlusVibe has no sessions.
func (p *platform) SignIn(context.Context, string) (sdk.Progress, error) {
	return sdk.Progress{}, sdk.NotSupported("sign_in")
}
