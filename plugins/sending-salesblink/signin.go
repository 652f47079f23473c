// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// StartSignIn implements sdk.SendingPlatform. The API call has no parameter for the address of the
// mailbox. The answer contains neither a session nor an expiry, so the host later reads the account
// to find out the result.
func (p *platform) StartSignIn(ctx context.Context, _ string) (sdk.SignInSession, error) {
	data, err := p.call(ctx, http.MethodPost, "/oauth/outlook", nil)
	if err != nil {
		return sdk.SignInSession{}, err
	}
	var answer struct {
		URL string `json:"auth_url"`
	}
	if json.Unmarshal(data, &answer) != nil || answer.URL == "" {
		return sdk.SignInSession{}, sdk.BrokenAnswer("no_auth_url")
	}
	if !sdk.SignInLink(answer.URL, p.authHosts) {
		return sdk.SignInSession{}, sdk.BrokenAnswer("auth_url_of_different_host")
	}
	return sdk.SignInSession{URL: answer.URL}, nil
}

// SignIn implements sdk.SendingPlatform. It always fails, because SalesBlink has no sessions.
func (p *platform) SignIn(context.Context, string) (sdk.Progress, error) {
	return sdk.Progress{}, sdk.NotSupported("sign_in")
}

// Remove implements sdk.SendingPlatform. It always fails, because SalesBlink documents no call that
// removes a sender.
func (p *platform) Remove(context.Context, string) error { return sdk.NotSupported(sdk.CanDisconnect) }
