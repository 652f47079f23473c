// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// Check implements sdk.SendingPlatform. PlusVibe does not document how it refuses a key. So 401, a
// 403 that is not an HTML page, and a "status" other than "success" all count as a refusal. If the
// connection contains a partner's login, Check tests it, or refuses the connection if the operator
// does not allow such logins.
func (p *platform) Check(ctx context.Context) (sdk.Reach, error) {
	if !p.usesPartnerLogin && !p.password.Empty() { // a login that is not used must not be stored
		return sdk.Reach{}, sdk.Misconfigured(fieldPassword, "this service does not accept the login of a partner: set api_key alone")
	}
	a, err := p.call(ctx, request{method: http.MethodGet, path: "/authenticate"})
	if err != nil {
		return sdk.Reach{}, err
	}
	var answer struct {
		Status     text `json:"status"`
		Workspaces *[]struct {
			ID   text   `json:"_id"`
			Name string `json:"name"`
		} `json:"workspaces"`
	}
	if err := a.decode(&answer); err != nil {
		return sdk.Reach{}, err
	}
	switch {
	case answer.Status == "":
		return sdk.Reach{}, sdk.BrokenAnswer("no_status")
	case answer.Status != "success":
		return sdk.Reach{}, sdk.CredentialRefused("plusvibe not_success")
	case answer.Workspaces == nil:
		return sdk.Reach{}, sdk.BrokenAnswer("no_workspaces")
	}
	if p.usesPartnerLogin {
		if err := p.checkLogin(ctx); err != nil {
			return sdk.Reach{}, err
		}
	}
	var reach sdk.Reach
	for _, w := range *answer.Workspaces {
		if w.ID == "" {
			return sdk.Reach{}, sdk.BrokenAnswer("workspace_without_id")
		}
		reach.Workspaces = append(reach.Workspaces, sdk.Workspace{ID: string(w.ID), Name: w.Name})
	}
	return reach, nil
}

// checkLogin requests the partner's workspaces. If PlusVibe refuses this request, the login counts
// as refused, because such a login cannot start sign-ins.
func (p *platform) checkLogin(ctx context.Context) error {
	a, err := p.call(ctx, p.asPartner("/webhook/partner-list-workspace"))
	if err != nil {
		return err
	}
	var answer partnerAnswer
	err = a.decode(&answer)
	switch {
	case isRefusal(err), err == nil && answer.Code != "" && answer.Code != "1":
		return sdk.CredentialRefused("plusvibe partner_login")
	case err == nil && answer.Code == "":
		return sdk.BrokenAnswer("no_code")
	default:
		return err
	}
}

// partnerAnswer is the common part of the answers to partner calls. Code 1 is success.
type partnerAnswer struct {
	Code text `json:"code"`
}

// asPartner returns a request with the partner's login. The login is in the body and not in the
// URL, because many programs log URLs.
func (p *platform) asPartner(path string) request {
	login := map[string]string{"flow": "app_user", "pipl_username": p.username.Reveal(), "pipl_password": p.password.Reveal()}
	if p.workspace != "" {
		login["workspace_id"] = p.workspace
	}
	return request{method: http.MethodPost, path: path, usesPartnerLogin: true, body: login}
}

// isRefusal reports whether err is an sdk.RequestRefused error: PlusVibe refused the call and not
// the key.
func isRefusal(err error) bool {
	return sdk.OutcomeOf(err).Code.Name == "provider_error"
}
