// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
)

type noInput struct{}

type tenantPath struct {
	TenantID string `path:"tenant_id"`
}

func tenantOperations(api huma.API, service *tenants.Service) {
	connectLink(api, service)
	listTenants(api, service)
	getTenant(api, service)
	syncTenant(api, service)
	deleteTenant(api, service)
}

func connectLink(api huma.API, service *tenants.Service) {
	register(api, huma.Operation{
		OperationID: "get-connect-url", Method: http.MethodGet, Path: "/v1/tenants/connect-url", Tags: []string{tagTenants},
		Summary: "Get a connect link",
		Description: "Returns a signed link for an administrator of a tenant: opened in a browser, it asks for consent and connects the " +
			"tenant to the account of the key. The link lives 15 minutes and works once. Nothing reports completion: poll the tenant " +
			"list until the tenant appears, then sync it.",
		Metadata: terms{bucket: reads, answer: exampleConnectURL, refuses: only(fault.TenantLimitReached,
			fault.ProviderError, fault.ProviderUnavailable, fault.ProviderTimeout)}.metadata(),
	}, func(ctx context.Context, who access.Caller, _ *noInput) (connectURL, error) {
		link, err := service.ConnectURL(ctx, who.Account)
		if err != nil {
			return connectURL{}, err
		}
		return connectURL{ConnectURL: link.URL, ExpiresAt: link.ExpiresAt.UTC()}, nil
	})
}

func listTenants(api huma.API, service *tenants.Service) {
	register(api, huma.Operation{
		OperationID: "list-tenants", Method: http.MethodGet, Path: "/v1/tenants", Tags: []string{tagTenants},
		Summary:     "List tenants",
		Description: "Lists the account's tenants, most recently connected first.",
		Metadata:    terms{bucket: reads, answer: exampleTenantList}.metadata(),
	}, func(ctx context.Context, who access.Caller, _ *noInput) (tenantList, error) {
		all, err := service.List(ctx, who.Account.ID)
		if err != nil {
			return tenantList{}, err
		}
		list := each(all, summaryOf)
		return tenantList{Tenants: list, Count: len(list)}, nil
	})
}

func getTenant(api huma.API, service *tenants.Service) {
	register(api, huma.Operation{
		OperationID: "get-tenant", Method: http.MethodGet, Path: "/v1/tenants/{tenant_id}", Tags: []string{tagTenants},
		Summary:     "Get a tenant",
		Description: "Returns one tenant with the state of its setup. `readiness.next_step` says what to do next.",
		Metadata:    terms{bucket: reads, answer: exampleTenantDetail, refuses: only(fault.TenantNotFound)}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *tenantPath) (tenantDetail, error) {
		t, ready, err := service.Get(ctx, who.Account, tenant.LookupGUID(in.TenantID))
		if err != nil {
			return tenantDetail{}, err
		}
		return detailOf(t, ready), nil
	})
}

func syncTenant(api huma.API, service *tenants.Service) {
	register(api, huma.Operation{
		OperationID: "sync-tenant", Method: http.MethodPost, Path: "/v1/tenants/{tenant_id}/sync", Tags: []string{tagTenants},
		Summary: "Synchronize a tenant",
		Description: "Prepares the tenant's mail server, switches organization-wide SMTP AUTH on when the server is ready, and discovers " +
			"domains and mailboxes anew. It answers when all of that is done, which may take up to 110 seconds; `status` is `partial` " +
			"when a part could not be done yet.",
		Metadata: terms{bucket: providerHeavy, write: true, timeLimit: syncTime, answer: exampleSynced,
			refuses: codes(platformCodes, only(fault.TenantNotFound))}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *tenantPath) (synced, error) {
		s, err := service.Sync(ctx, who.Account.ID, tenant.LookupGUID(in.TenantID))
		if err != nil {
			return synced{}, err
		}
		return syncedOf(s), nil
	})
}

func deleteTenant(api huma.API, service *tenants.Service) {
	register(api, huma.Operation{
		OperationID: "delete-tenant", Method: http.MethodDelete, Path: "/v1/tenants/{tenant_id}", Tags: []string{tagTenants},
		Summary: "Delete a tenant",
		Description: "Removes the tenant and all its domains, mailboxes and sync history from the service. Of the tenant at the mail " +
			"platform nothing is touched but the rules by which mailboxes are blocked: they are taken out first, if the platform allows it, " +
			"and `message` says what was left. This cannot be undone. For a managed tenant it ends the assignment.",
		Metadata: terms{bucket: reads, write: true, answer: exampleDeleted, refuses: only(fault.TenantNotFound)}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *tenantPath) (deletedTenant, error) {
		t, err := service.Delete(completing(ctx, deletedOf), who.Account.ID, tenant.LookupGUID(in.TenantID))
		if err != nil {
			return deletedTenant{}, err
		}
		return deletedOf(t), nil
	})
}
