// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// Check implements sdk.SendingPlatform. How PlusVibe turns a bad key away is not
// published, so 401, 403 and a status that is not success all do. A partner's
// login is tried too where it may be used.
func (p *provider) Check(ctx context.Context) (sdk.Reach, error) {
	if !p.partner && !p.password.Empty() { // or it would be kept, for nothing
		return sdk.Reach{}, sdk.Misconfigured(fieldPassword, "this service does not take the login of a partner; give the key alone")
	}
	a, err := p.ask(ctx, request{method: http.MethodGet, path: "/authenticate"})
	if err != nil {
		return sdk.Reach{}, err
	}
	var said struct {
		Status     loose `json:"status"`
		Workspaces *[]struct {
			ID   loose  `json:"_id"`
			Name string `json:"name"`
		} `json:"workspaces"`
	}
	if err := a.read(&said); err != nil {
		return sdk.Reach{}, err
	}
	switch {
	case said.Status == "":
		return sdk.Reach{}, sdk.BrokenBy("no_status")
	case said.Status != "success":
		return sdk.Reach{}, sdk.CredentialRefused("plusvibe not_success")
	case said.Workspaces == nil:
		return sdk.Reach{}, sdk.BrokenBy("no_workspaces")
	}
	if p.partner {
		if err := p.checkLogin(ctx); err != nil {
			return sdk.Reach{}, err
		}
	}
	var reach sdk.Reach
	for _, w := range *said.Workspaces {
		if w.ID == "" {
			return sdk.Reach{}, sdk.BrokenBy("workspace_without_id")
		}
		reach.Workspaces = append(reach.Workspaces, sdk.Workspace{ID: string(w.ID), Name: w.Name})
	}
	return reach, nil
}

// checkLogin asks for the partner's workspaces. Whatever it is that PlusVibe
// refuses there, with this login no mailbox can be signed in.
func (p *provider) checkLogin(ctx context.Context) error {
	a, err := p.ask(ctx, p.asPartner("/webhook/partner-list-workspace"))
	if err != nil {
		return err
	}
	var said partnerAnswer
	err = a.read(&said)
	switch {
	case isRefusal(err), err == nil && said.Code != "" && said.Code != "1":
		return sdk.CredentialRefused("plusvibe partner_login")
	case err == nil && said.Code == "":
		return sdk.BrokenBy("no_code")
	default:
		return err
	}
}

// partnerAnswer is what answers to partners have in common.
type partnerAnswer struct {
	Code loose `json:"code"`
}

// asPartner is a call with the login, which goes in the body only: an address is
// written down in too many places.
func (p *provider) asPartner(path string) request {
	login := map[string]string{"flow": "app_user", "pipl_username": p.username.Reveal(), "pipl_password": p.password.Reveal()}
	if p.workspace != "" {
		login["workspace_id"] = p.workspace
	}
	return request{method: http.MethodPost, path: path, partner: true, body: login}
}

// isRefusal reports whether PlusVibe said no to the call, and not to the key.
func isRefusal(err error) bool {
	return outcome.Of(err) == outcome.Refused && errors.Is(err, fault.ProviderError)
}
