// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const (
	defaultLinkMinutes = int(tenant.DefaultLinkLifetime / time.Minute)
	maxLinkMinutes     = int(tenant.MaxLinkLifetime / time.Minute)
	maxStateLength     = 256
)

type connectLinkInput struct {
	ReturnURL  string `query:"return_url"`
	State      string `query:"state" maxLength:"256"`
	TTLMinutes string `query:"ttl_minutes"`

	returnURL *string // nil if the parameter is missing
}

// Resolve distinguishes an empty return_url from a missing return_url.
func (in *connectLinkInput) Resolve(ctx huma.Context) []error {
	if address := ctx.URL(); address.Query().Has("return_url") {
		in.returnURL = &in.ReturnURL
	}
	return nil
}

type connectSessionPath struct {
	ID string `path:"connect_session_id"`
}

func registerConnectOperations(api huma.API, service *tenants.Service) {
	registerConnectURL(api, service)
	registerGetConnectSession(api, service)
	registerRenewConnectSession(api, service)
}

func registerConnectURL(api huma.API, service *tenants.Service) {
	registerConverting(api, huma.Operation{
		OperationID: "get-connect-url", Method: http.MethodGet, Path: "/v1/tenants/connect-url", Tags: []string{tagTenants},
		Summary: "Get a connect link",
		Description: "Starts a connect session and returns its link for an administrator of a tenant: opened in a browser, the link asks for consent " +
			"and connects the tenant to the account of the API key. The link is valid for 15 minutes, or for `ttl_minutes`, and works once. " +
			"Poll the connect session until its status is `connected`, then sync the tenant. With `return_url`, the last page leads to this URL, " +
			"with `session_id`, `result` (the status of the session) and `state` added to the query. These parameters prove nothing, because anyone can write them: read the session.",
		Metadata: guard.OperationRules{Bucket: guard.Reads, Scope: access.TenantsWrite, AllTenants: true, AnswerExample: exampleConnectURL, Refuses: specificCodes(fault.InvalidRequest, fault.InvalidReturnURL, fault.TenantLimitReached,
			fault.ProviderError, fault.ProviderUnavailable, fault.ProviderTimeout)}.Metadata(),
	}, connectURLOf, func(ctx context.Context, caller access.Caller, in *connectLinkInput) (tenants.Link, error) {
		minutes, parser := defaultLinkMinutes, queryParser{}
		parser.integer("ttl_minutes", in.TTLMinutes, 1, maxLinkMinutes, &minutes)
		if err := parser.err(); err != nil {
			return tenants.Link{}, err
		}
		return service.ConnectURL(ctx, caller.Account, tenants.LinkRequest{
			ReturnURL: in.returnURL, State: in.State, Lifetime: time.Duration(minutes) * time.Minute,
		})
	})
}

func registerGetConnectSession(api huma.API, service *tenants.Service) {
	registerConverting(api, huma.Operation{
		OperationID: "get-connect-session", Method: http.MethodGet, Path: "/v1/connect-sessions/{connect_session_id}", Tags: []string{tagTenants},
		Summary:     "Get a connect session",
		Description: "Returns the status of a connect session: how far the administrator has come with the link. A session is kept for 30 days after its link has expired.",
		Metadata:    guard.OperationRules{Bucket: guard.Reads, Scope: access.TenantsWrite, AnswerExample: exampleConnectSession, Refuses: specificCodes(fault.ConnectSessionUnknown)}.Metadata(),
	}, connectSessionOf, func(ctx context.Context, caller access.Caller, in *connectSessionPath) (tenant.ConnectSession, error) {
		return service.ConnectSession(ctx, caller.Account.ID, ident.ParseOrZero(in.ID))
	})
}

func registerRenewConnectSession(api huma.API, service *tenants.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "renew-connect-session", Method: http.MethodPost, Path: "/v1/connect-sessions/{connect_session_id}/renew", Tags: []string{tagTenants},
		Summary: "Renew a connect session",
		Description: "Returns a new link for the same session, with the lifetime, `return_url` and `state` of the first one. The earlier link stops " +
			"working at once. A session that expired or was declined is `pending` again. A connected session cannot be renewed.",
		Metadata: guard.OperationRules{Bucket: guard.Writes, Scope: access.TenantsWrite, Write: true, AnswerExample: exampleConnectURL, Refuses: specificCodes(fault.ConnectSessionUnknown, fault.SessionConnected,
			fault.InvalidReturnURL, fault.TenantLimitReached, fault.ProviderError, fault.ProviderUnavailable, fault.ProviderTimeout)}.Metadata(),
	}, connectURLOf, func(ctx context.Context, caller access.Caller, in *connectSessionPath, encoder ports.AnswerEncoder[tenants.Link]) (tenants.Link, error) {
		id := ident.ParseOrZero(in.ID)
		if caller.Bounds.Tenants != nil { // the link could connect a tenant outside of the key's bounds
			if _, err := service.ConnectSession(ctx, caller.Account.ID, id); err != nil {
				return tenants.Link{}, err
			}
			return tenants.Link{}, caller.Bounds.CheckAllTenants(access.TenantsWrite)
		}
		return service.RenewLink(ctx, caller.Account, id, encoder)
	})
}

type connectURL struct {
	ID         string    `json:"id" format:"uuid" doc:"The id of the connect session."`
	ConnectURL string    `json:"connect_url" format:"uri" doc:"Open it in an administrator's browser. Do not parse or build it."`
	ExpiresAt  time.Time `json:"expires_at" doc:"When the link expires."`
}

type connectSession struct {
	Status    string    `json:"status" enum:"pending,consented,connected,declined,expired" doc:"pending: nothing is proven yet. consented: an administrator signed in, and the consent is proven. connected: the tenant is connected to the account. declined: the link was used and nothing was connected. expired: the link expired before the tenant was connected."`
	TenantID  *string   `json:"tenant_id" format:"uuid" doc:"The tenant of the consent, null until the consent is proven."`
	ExpiresAt time.Time `json:"expires_at" doc:"When the current link expires."`
}

func connectURLOf(link tenants.Link) connectURL {
	return connectURL{ID: link.SessionID, ConnectURL: link.URL, ExpiresAt: link.ExpiresAt.UTC()}
}

func connectSessionOf(s tenant.ConnectSession) connectSession {
	return connectSession{Status: string(s.Status), TenantID: textOrNil(string(s.Tenant)), ExpiresAt: s.ExpiresAt.UTC()}
}
