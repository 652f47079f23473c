// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/app/mailboxes"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
)

type mailboxPath struct {
	TenantID  string `path:"tenant_id"`
	MailboxID string `path:"mailbox_id"`
}

type provisionInput struct {
	TenantID string `path:"tenant_id"`
	Body     provisionMailboxes
}

type updateInput struct {
	TenantID  string `path:"tenant_id"`
	MailboxID string `path:"mailbox_id"`
	Body      updateMailbox
}

func mailboxOperations(api huma.API, service *mailboxes.Service) {
	listMailboxes(api, service)
	provision(api, service)
	changeMailbox(api, service)
	usage(api, service)
}

func listMailboxes(api huma.API, service *mailboxes.Service) {
	register(api, huma.Operation{
		OperationID: "list-mailboxes", Method: http.MethodGet, Path: "/v1/tenants/{tenant_id}/mailboxes", Tags: []string{tagMailboxes},
		Summary:     "List mailboxes",
		Description: "Lists the shared mailboxes of a tenant across all its domains by address, those found by discovery included.",
		Metadata:    terms{bucket: reads, answer: exampleMailboxList, refuses: only(fault.TenantNotFound)}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *tenantPath) (mailboxList, error) {
		id := tenant.LookupGUID(in.TenantID)
		all, err := service.List(ctx, who.Account.ID, id)
		if err != nil {
			return mailboxList{}, err
		}
		list := each(all, mailboxOf)
		return mailboxList{TenantID: string(id), Mailboxes: list, Count: len(list)}, nil
	})
}

func provision(api huma.API, service *mailboxes.Service) {
	register(api, huma.Operation{
		OperationID: "provision-mailboxes", Method: http.MethodPost, Path: "/v1/tenants/{tenant_id}/mailboxes", Tags: []string{tagMailboxes},
		Summary: "Provision mailboxes",
		Description: "Creates shared mailboxes on a verified domain, with a password that is used and forgotten. Addresses that exist " +
			"already are answered `exists` and left alone; they take no new place under the cap of 3 a domain. A new mailbox is usable " +
			"for sending after 2 to 5 minutes. When the mail platform has not finished in time the answer is 504: send the same request " +
			"again with the same Idempotency-Key and it goes on.",
		Metadata: terms{bucket: providerHeavy, write: true, request: exampleProvision, answer: exampleProvisioned,
			refuses: codes(platformCodes, only(fault.InvalidMailboxEmail, fault.DuplicateMailboxEmail, fault.WeakPassword, fault.DomainNotVerified,
				fault.MailboxLimitReached, fault.TenantLimitReached, fault.TenantNotFound, fault.DomainNotFound, fault.ExchangeNotReady,
				fault.SMTPAuthNotEnabled))}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *provisionInput) (provisioned, error) {
		request, err := in.Body.request()
		if err != nil {
			return provisioned{}, err
		}
		results, err := service.Provision(completing(ctx, provisionedOf), who.Account, tenant.LookupGUID(in.TenantID), request)
		if err != nil {
			return provisioned{}, err
		}
		return provisionedOf(results), nil
	})
}

func changeMailbox(api huma.API, service *mailboxes.Service) {
	register(api, huma.Operation{
		OperationID: "update-mailbox", Method: http.MethodPatch, Path: "/v1/tenants/{tenant_id}/mailboxes/{mailbox_id}", Tags: []string{tagMailboxes},
		Summary: "Change a mailbox",
		Description: "Renames a mailbox at the mail platform, stores its daily send limit, or both. A stored limit alone does not restrict " +
			"sending. It can be changed but not cleared.",
		Metadata: terms{bucket: reads, callsProviderIf: hasMember("display_name"), write: true, request: exampleUpdate, answer: exampleUpdated,
			refuses: codes(platformCodes, only(fault.InvalidSendLimit, fault.NoUpdates, fault.TenantNotFound, fault.MailboxNotFound,
				fault.ExchangeNotReady))}.metadata(),
		SkipValidateBody: true, // updateMailbox validates the body
	}, func(ctx context.Context, who access.Caller, in *updateInput) (updatedMailbox, error) {
		change, err := in.Body.change()
		if err != nil {
			return updatedMailbox{}, err
		}
		m, err := service.Update(ctx, who.Account.ID, tenant.LookupGUID(in.TenantID), ident.Lookup(in.MailboxID), change)
		if err != nil {
			return updatedMailbox{}, err
		}
		return updatedOf(m), nil
	})
}

func usage(api huma.API, service *mailboxes.Service) {
	register(api, huma.Operation{
		OperationID: "get-mailbox-usage", Method: http.MethodGet, Path: "/v1/tenants/{tenant_id}/mailboxes/{mailbox_id}/usage", Tags: []string{tagMailboxes},
		Summary:     "Get a mailbox's usage",
		Description: "Returns what a mailbox has sent today of what its effective limit allows. Without any limit the computed members are null.",
		Metadata: terms{bucket: reads, answer: exampleUsage,
			refuses: only(fault.TenantNotFound, fault.MailboxNotFound)}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *mailboxPath) (mailboxUsage, error) {
		u, err := service.Usage(ctx, who.Account.ID, tenant.LookupGUID(in.TenantID), ident.Lookup(in.MailboxID))
		if err != nil {
			return mailboxUsage{}, err
		}
		return usageOf(u), nil
	})
}
