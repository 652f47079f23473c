// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// StartSignIn implements sdk.SendingPlatform. SalesBlink is not told which
// mailbox is meant, and names neither a session nor its end: the account is
// looked up.
func (p *provider) StartSignIn(ctx context.Context, _ string) (sdk.SignInSession, error) {
	data, err := p.ask(ctx, http.MethodPost, "/oauth/outlook", nil)
	if err != nil {
		return sdk.SignInSession{}, err
	}
	var said struct {
		URL string `json:"auth_url"`
	}
	if json.Unmarshal(data, &said) != nil || said.URL == "" {
		return sdk.SignInSession{}, sdk.BrokenBy("no_auth_url")
	}
	if !integration.AuthURL(said.URL, p.hosts) {
		return sdk.SignInSession{}, sdk.BrokenBy("auth_url_elsewhere")
	}
	return sdk.SignInSession{URL: said.URL}, nil
}

// SignIn implements sdk.SendingPlatform: SalesBlink has no sessions to ask for.
func (p *provider) SignIn(context.Context, string) (sdk.Progress, error) {
	return sdk.Progress{}, sdk.NotSupported("sign_in")
}

// Remove implements sdk.SendingPlatform: no deletion is published.
func (p *provider) Remove(context.Context, string) error { return sdk.NotSupported(sdk.CanDisconnect) }
