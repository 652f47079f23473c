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
)

func livePlan(api huma.API, service *domains.Service) {
	register(api, huma.Operation{
		OperationID: "get-domain-dns-plan", Method: http.MethodGet, Path: "/v1/domains/{domain_id}/dns/plan", Tags: []string{tagDNS},
		Summary: "Plan a domain's DNS",
		Description: "Reads the domain's DNS from its authoritative name servers, now, and compares it with the records that the mail platform " +
			"asks for. Each action says what would be done about one of them and why; nothing is written. Where the account has a connection " +
			"to the DNS provider that reaches the zone, the provider's own list of records is what is compared.",
		Metadata: terms{bucket: expensive, answer: examplePlan, refuses: codes(atPlatform, only(fault.DomainNotFound))}.metadata(),
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
		Metadata: terms{bucket: expensive, answer: exampleAutomation, refuses: codes(atPlatform, only(fault.DomainNotFound))}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *domainIDPath) (domainAutomation, error) {
		v, err := service.Survey(ctx, who.Account.ID, ident.Lookup(in.DomainID))
		if err != nil {
			return domainAutomation{}, err
		}
		return automationOf(v), nil
	})
}
