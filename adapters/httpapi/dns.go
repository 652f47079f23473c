// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
)

type domainIDPath struct {
	DomainID string `path:"domain_id"`
}

func dnsOperations(api huma.API, service *domains.Service) {
	dnsByName(api, service)
	dnsByID(api, service)
	livePlan(api, service)
	automationReadiness(api, service)
}

func dnsByName(api huma.API, service *domains.Service) {
	register(api, huma.Operation{
		OperationID: "get-tenant-domain-dns", Method: http.MethodGet, Path: "/v1/tenants/{tenant_id}/domains/{domain_name}/dns", Tags: []string{tagDNS},
		Summary:     "Get the stored DNS of a tenant's domain",
		Description: "Returns the records to publish and how they stood at the last read. Nothing is read anew.",
		Metadata: terms{bucket: reads, answer: exampleTenantDNS,
			refuses: only(fault.TenantNotFound, fault.DomainNotFound)}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *domainPath) (tenantDNS, error) {
		d, err := service.Stored(ctx, who.Account.ID, tenant.LookupGUID(in.TenantID), in.DomainName)
		if err != nil {
			return tenantDNS{}, err
		}
		return tenantDNSOf(d), nil
	})
}

func dnsByID(api huma.API, service *domains.Service) {
	register(api, huma.Operation{
		OperationID: "get-domain-dns", Method: http.MethodGet, Path: "/v1/domains/{domain_id}/dns", Tags: []string{tagDNS},
		Summary:     "Get the stored DNS of a domain by its id",
		Description: "Returns the records to publish, the DKIM records apart, and how they stood at the last read. Nothing is read anew.",
		Metadata:    terms{bucket: reads, answer: exampleStoredDNS, refuses: only(fault.DomainNotFound)}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *domainIDPath) (storedDNS, error) {
		d, err := service.ByID(ctx, who.Account.ID, ident.Lookup(in.DomainID))
		if err != nil {
			return storedDNS{}, err
		}
		return storedDNSOf(d), nil
	})
}

func livePlan(api huma.API, service *domains.Service) {
	register(api, huma.Operation{
		OperationID: "get-domain-dns-plan", Method: http.MethodGet, Path: "/v1/domains/{domain_id}/dns/plan", Tags: []string{tagDNS},
		Summary: "Plan a domain's DNS",
		Description: "Reads the domain's DNS from its authoritative name servers, now, and compares it with the records that the mail platform " +
			"asks for. Each action says what would be done about one of them and why; nothing is written. Where the account has a connection " +
			"to the DNS provider that reaches the zone, the provider's own list of records is what is compared.",
		Metadata: terms{bucket: expensive, answer: examplePlan, refuses: codes(platformCodes, only(fault.DomainNotFound))}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *domainIDPath) (dnsPlan, error) {
		v, err := service.Survey(ctx, who.Account.ID, ident.Lookup(in.DomainID))
		if err != nil {
			return dnsPlan{}, err
		}
		return planOf(v), nil
	})
}

func automationReadiness(api huma.API, service *domains.Service) {
	register(api, huma.Operation{
		OperationID: "get-domain-dns-automation", Method: http.MethodGet, Path: "/v1/domains/{domain_id}/dns/automation", Tags: []string{tagDNS},
		Summary: "Tell whether a domain's DNS can be automated",
		Description: "Makes the same live plan and tells whether its changes can be written for the account, and what a person has to do first " +
			"when they cannot.",
		Metadata: terms{bucket: expensive, answer: exampleAutomation, refuses: codes(platformCodes, only(fault.DomainNotFound))}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *domainIDPath) (domainAutomation, error) {
		v, err := service.Survey(ctx, who.Account.ID, ident.Lookup(in.DomainID))
		if err != nil {
			return domainAutomation{}, err
		}
		return automationOf(v), nil
	})
}
