// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
)

type domainPath struct {
	TenantID   string `path:"tenant_id"`
	DomainName string `path:"domain_name"`
}

type addDomainInput struct {
	TenantID string `path:"tenant_id"`
	Body     addDomain
}

func domainOperations(api huma.API, service *domains.Service) {
	listDomains(api, service)
	addADomain(api, service)
	verifyDomain(api, service)
	enableDKIM(api, service)
	dkimStatus(api, service)
}

func listDomains(api huma.API, service *domains.Service) {
	register(api, huma.Operation{
		OperationID: "list-domains", Method: http.MethodGet, Path: "/v1/tenants/{tenant_id}/domains", Tags: []string{tagDomains},
		Summary:     "List domains",
		Description: "Lists the custom domains of a tenant by name, those found by discovery included, as they were last read.",
		Metadata:    terms{bucket: reads, answer: exampleDomainList, refuses: only(fault.TenantNotFound)}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *tenantPath) (domainList, error) {
		id := tenant.LookupGUID(in.TenantID)
		all, err := service.List(ctx, who.Account.ID, id)
		if err != nil {
			return domainList{}, err
		}
		list := each(all, entryOf)
		return domainList{TenantID: string(id), Domains: list, Count: len(list)}, nil
	})
}

func addADomain(api huma.API, service *domains.Service) {
	register(api, huma.Operation{
		OperationID: "add-domain", Method: http.MethodPost, Path: "/v1/tenants/{tenant_id}/domains", Tags: []string{tagDomains},
		Summary: "Add a domain",
		Description: "Adds a custom domain to a tenant and returns the DNS records to publish. Publish the verification record and all " +
			"service records, wait for propagation (typically 5 to 30 minutes, up to 48 hours), then verify. A domain that is on the " +
			"tenant already is answered with `status` `exists`, and nothing is changed.",
		Metadata: terms{bucket: providerHeavy, write: true, request: exampleAddDomain, answer: exampleAddedDomain,
			refuses: codes(platformCodes, only(fault.InvalidDomain, fault.BuiltinDomain, fault.DomainLimitReached,
				fault.TenantLimitReached, fault.TenantNotFound, fault.DomainUnavailable))}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *addDomainInput) (addedDomain, error) {
		id := tenant.LookupGUID(in.TenantID)
		shape := func(a domains.Added) addedDomain { return addedOf(id, a) }
		added, err := service.Add(completing(ctx, shape), who.Account, id, in.Body.Domain)
		if err != nil {
			return addedDomain{}, err
		}
		return shape(added), nil
	})
}

func verifyDomain(api huma.API, service *domains.Service) {
	register(api, huma.Operation{
		OperationID: "verify-domain", Method: http.MethodPost, Path: "/v1/tenants/{tenant_id}/domains/{domain_name}/verify", Tags: []string{tagDomains},
		Summary: "Verify a domain",
		Description: "Asks the mail platform to look for the verification record, and switches its e-mail service on for the domain. " +
			"It is safe to repeat.",
		Metadata: terms{bucket: providerHeavy, write: true, answer: exampleVerified,
			refuses: codes(platformCodes, only(fault.VerificationFailed, fault.TenantNotFound, fault.DomainNotFound, fault.DomainUnavailable))}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *domainPath) (verifiedDomain, error) {
		d, err := service.Verify(ctx, who.Account.ID, tenant.LookupGUID(in.TenantID), in.DomainName)
		if err != nil {
			return verifiedDomain{}, err
		}
		return verifiedOf(d), nil
	})
}

func enableDKIM(api huma.API, service *domains.Service) {
	register(api, huma.Operation{
		OperationID: "enable-dkim", Method: http.MethodPost, Path: "/v1/tenants/{tenant_id}/domains/{domain_name}/enable-dkim", Tags: []string{tagDomains},
		Summary: "Enable DKIM",
		Description: "Starts DKIM signing for a verified domain whose two selector records are published. It is safe to repeat; " +
			"`dkim-status` tells beforehand whether it can work.",
		Metadata: terms{bucket: providerHeavy, write: true, answer: exampleSigned,
			refuses: codes(platformCodes, only(fault.DKIMNotReady, fault.TenantNotFound, fault.DomainNotFound, fault.ExchangeNotReady))}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *domainPath) (signedDomain, error) {
		d, err := service.EnableDKIM(ctx, who.Account.ID, tenant.LookupGUID(in.TenantID), in.DomainName)
		if err != nil {
			return signedDomain{}, err
		}
		return signedDomain{Status: "enabled", DomainName: d.Name, DKIMStatus: "enabled",
			Message: "DKIM signing is enabled for the domain."}, nil
	})
}

func dkimStatus(api huma.API, service *domains.Service) {
	register(api, huma.Operation{
		OperationID: "get-dkim-status", Method: http.MethodGet, Path: "/v1/tenants/{tenant_id}/domains/{domain_name}/dkim-status", Tags: []string{tagDomains},
		Summary:     "Get the DKIM status",
		Description: "Reads the two selector records of a domain from its authoritative name servers, now.",
		Metadata: terms{bucket: expensive, answer: exampleDKIMReport,
			refuses: codes(platformCodes, only(fault.TenantNotFound, fault.DomainNotFound))}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *domainPath) (dkimReport, error) {
		r, err := service.DKIMStatus(ctx, who.Account.ID, tenant.LookupGUID(in.TenantID), in.DomainName)
		if err != nil {
			return dkimReport{}, err
		}
		return reportOf(r), nil
	})
}
