// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

type domainPath struct {
	TenantID   string `path:"tenant_id"`
	DomainName string `path:"domain_name"`
}

type removeDomainInput struct {
	TenantID     string `path:"tenant_id"`
	DomainName   string `path:"domain_name"`
	FromPlatform string `query:"from_platform"`
}

type addDomainInput struct {
	TenantID string `path:"tenant_id"`
	Body     addDomain
}

func registerDomainOperations(api huma.API, service *domains.Service) {
	registerListDomains(api, service)
	registerAddDomain(api, service)
	registerVerifyDomain(api, service)
	registerRemoveDomain(api, service)
	registerEnableDKIM(api, service)
	registerDKIMStatus(api, service)
}

func registerListDomains(api huma.API, service *domains.Service) {
	register(api, huma.Operation{
		OperationID: "list-domains", Method: http.MethodGet, Path: "/v1/tenants/{tenant_id}/domains", Tags: []string{tagDomains},
		Summary:     "List domains",
		Description: "Lists the custom domains of a tenant by name, including those that discovery found, with their state at the last DNS read.",
		Metadata:    guard.OperationRules{Bucket: guard.Reads, Scope: access.DomainsRead, AnswerExample: exampleDomainList, Refuses: specificCodes(fault.TenantNotFound)}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, in *tenantPath) (domainList, error) {
		id := tenant.ParseGUIDOrNone(in.TenantID)
		domains, err := service.List(ctx, caller.Account.ID, id)
		if err != nil {
			return domainList{}, err
		}
		list := convertAll(domains, domainEntryOf)
		return domainList{TenantID: string(id), Domains: list, Count: len(list)}, nil
	})
}

func registerAddDomain(api huma.API, service *domains.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "add-domain", Method: http.MethodPost, Path: "/v1/tenants/{tenant_id}/domains", Tags: []string{tagDomains},
		Summary: "Add a domain",
		Description: "Adds a custom domain to a tenant and returns the DNS records to publish. Publish the verification record and all " +
			"service records, wait for propagation (typically 5 to 30 minutes, up to 48 hours), then verify. If the tenant already " +
			"has the domain, `status` is `exists` and nothing is changed at the mail platform.",
		Metadata: guard.OperationRules{Bucket: guard.ProviderHeavy, Scope: access.DomainsWrite, Write: true, Creates: event.Domain, RequestExample: exampleAddDomain, AnswerExample: exampleAddedDomain,
			Refuses: codes(platformCodes, specificCodes(fault.InvalidDomain, fault.BuiltinDomain, fault.DomainLimitReached,
				fault.TenantLimitReached, fault.TenantNotFound, fault.DomainUnavailable))}.Metadata(),
	}, addedDomainOf, func(ctx context.Context, caller access.Caller, in *addDomainInput, encoder ports.AnswerEncoder[domains.AddResult]) (domains.AddResult, error) {
		return service.Add(ctx, caller.Account, tenant.ParseGUIDOrNone(in.TenantID), in.Body.Domain, encoder)
	})
}

func registerVerifyDomain(api huma.API, service *domains.Service) {
	registerConverting(api, huma.Operation{
		OperationID: "verify-domain", Method: http.MethodPost, Path: "/v1/tenants/{tenant_id}/domains/{domain_name}/verify", Tags: []string{tagDomains},
		Summary: "Verify a domain",
		Description: "Asks the mail platform to check the verification record, and begins to enable its e-mail service for the domain. " +
			"The request can be repeated.",
		Metadata: guard.OperationRules{Bucket: guard.ProviderHeavy, Scope: access.DomainsWrite, Write: true, AnswerExample: exampleVerifiedDomain,
			Refuses: codes(platformCodes, specificCodes(fault.VerificationFailed, fault.TenantNotFound, fault.DomainNotFound, fault.DomainUnavailable))}.Metadata(),
	}, verifiedDomainOf, func(ctx context.Context, caller access.Caller, in *domainPath) (domain.Domain, error) {
		return service.Verify(ctx, caller.Account.ID, tenant.ParseGUIDOrNone(in.TenantID), in.DomainName)
	})
}

func registerRemoveDomain(api huma.API, service *domains.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "remove-domain", Method: http.MethodDelete, Path: "/v1/tenants/{tenant_id}/domains/{domain_name}", Tags: []string{tagDomains},
		Summary: "Remove a domain",
		Description: "Removes a domain from the service, so that the tenant can have a different one. The domain's provisioning jobs and its send limit end. A sync does not " +
			"add the domain again. With `from_platform=true` the domain is also removed from the tenant at the mail " +
			"platform, unless it may be a new domain with this name. A domain with mailboxes is not removed. The DNS records in the domain's zone stay as they are.",
		Metadata: guard.OperationRules{Bucket: guard.ProviderHeavy, Scope: access.DomainsWrite, Write: true, AnswerExample: exampleRemovedDomain,
			Refuses: codes(platformCodes, specificCodes(fault.TenantNotFound, fault.DomainNotFound, fault.DomainInUse))}.Metadata(),
	}, removedDomainOf, func(ctx context.Context, caller access.Caller, in *removeDomainInput, encoder ports.AnswerEncoder[domains.RemoveResult]) (domains.RemoveResult, error) {
		var fromPlatform bool
		var parser queryParser
		parser.boolean("from_platform", in.FromPlatform, &fromPlatform)
		if err := parser.err(); err != nil {
			return domains.RemoveResult{}, err
		}
		return service.Remove(ctx, caller.Account.ID, tenant.ParseGUIDOrNone(in.TenantID), in.DomainName, fromPlatform, encoder)
	})
}

func registerEnableDKIM(api huma.API, service *domains.Service) {
	register(api, huma.Operation{
		OperationID: "enable-dkim", Method: http.MethodPost, Path: "/v1/tenants/{tenant_id}/domains/{domain_name}/enable-dkim", Tags: []string{tagDomains},
		Summary: "Enable DKIM",
		Description: "Starts DKIM signing for a verified domain whose two selector records are published. The request can be repeated; " +
			"`dkim-status` shows beforehand whether it can succeed.",
		Metadata: guard.OperationRules{Bucket: guard.ProviderHeavy, Scope: access.DomainsWrite, Write: true, AnswerExample: exampleSignedDomain,
			Refuses: codes(platformCodes, specificCodes(fault.DKIMNotReady, fault.TenantNotFound, fault.DomainNotFound, fault.ExchangeNotReady))}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, in *domainPath) (signedDomain, error) {
		d, err := service.EnableDKIM(ctx, caller.Account.ID, tenant.ParseGUIDOrNone(in.TenantID), in.DomainName)
		if err != nil {
			return signedDomain{}, err
		}
		return signedDomain{Status: "enabled", DomainName: d.Name, DKIMStatus: "enabled",
			Message: "DKIM signing is enabled for the domain."}, nil
	})
}

func registerDKIMStatus(api huma.API, service *domains.Service) {
	registerConverting(api, huma.Operation{
		OperationID: "get-dkim-status", Method: http.MethodGet, Path: "/v1/tenants/{tenant_id}/domains/{domain_name}/dkim-status", Tags: []string{tagDomains},
		Summary:     "Get the DKIM status",
		Description: "Reads the two selector records of a domain from its authoritative name servers at the time of the request.",
		Metadata: guard.OperationRules{Bucket: guard.Expensive, Scope: access.DomainsRead, AnswerExample: exampleDKIMReport,
			Refuses: codes(platformCodes, specificCodes(fault.TenantNotFound, fault.DomainNotFound))}.Metadata(),
	}, dkimReportOf, func(ctx context.Context, caller access.Caller, in *domainPath) (domains.DKIMReport, error) {
		return service.DKIMStatus(ctx, caller.Account.ID, tenant.ParseGUIDOrNone(in.TenantID), in.DomainName)
	})
}

type domainList struct {
	TenantID string        `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	Domains  []domainEntry `json:"domains"`
	Count    int           `json:"count" doc:"The number of domains."`
}

type domainEntry struct {
	ID          string     `json:"id" format:"uuid" doc:"The domain's id; used in paths under /v1/domains."`
	DomainName  string     `json:"domain_name" doc:"The domain, in A-labels."`
	IsDefault   bool       `json:"is_default" doc:"Whether it is the tenant's primary domain."`
	IsVerified  bool       `json:"is_verified" doc:"Whether the mail platform has verified it."`
	SPFStatus   string     `json:"spf_status" doc:"The SPF record as published, or missing."`
	DKIMStatus  string     `json:"dkim_status" doc:"healthy when both selectors point to the targets that the mail platform requires, partial when one does, otherwise missing."`
	DMARCStatus string     `json:"dmarc_status" doc:"The DMARC record as published, or missing."`
	MXStatus    string     `json:"mx_status" doc:"The mail host of the preferred MX record as published, or missing."`
	LastChecked *time.Time `json:"last_checked" doc:"The last DNS read, null before the first."`
}

// addDomain has no schema rules for the domain, because the use case checks the domain and returns
// specific error codes.
type addDomain struct {
	Domain string `json:"domain" doc:"The domain to add: a host name of at least two labels that is not a public suffix such as co.uk and not a name that the mail platform assigns. U-labels are converted to A-labels, and one final dot is removed."`
}

type addedDomain struct {
	Status                      string       `json:"status" enum:"added,exists" doc:"exists when the tenant already had the domain."`
	TenantID                    string       `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	Domain                      domainState  `json:"domain" doc:"The domain."`
	VerificationDNSRecords      []dnsRecord  `json:"verification_dns_records" doc:"Publish these to prove ownership."`
	ServiceConfigurationRecords []dnsRecord  `json:"service_configuration_records" doc:"Publish these for e-mail. The list may be short or empty before verification."`
	LiveDNSStatus               liveStatus   `json:"live_dns_status" doc:"The records that are published now. Each is missing if the DNS could not be read."`
	DKIMVerificationState       dkimSentence `json:"dkim_verification_state" doc:"The state of DKIM."`
}

type domainState struct {
	DomainName string `json:"domain_name" doc:"The domain, in A-labels."`
	IsDefault  bool   `json:"is_default" doc:"Whether it is the tenant's primary domain."`
	IsVerified bool   `json:"is_verified" doc:"Whether the mail platform has verified it."`
}

type liveStatus struct {
	SPFStatus   string `json:"spf_status" doc:"The SPF record as published, or missing."`
	DKIMStatus  string `json:"dkim_status" doc:"healthy, partial or missing."`
	DMARCStatus string `json:"dmarc_status" doc:"The DMARC record as published, or missing."`
	MXStatus    string `json:"mx_status" doc:"The mail host of the preferred MX record as published, or missing."`
}

type dkimSentence struct {
	Status  string `json:"status" enum:"pending,ready,enabled" doc:"The state of DKIM."`
	Message string `json:"message" doc:"The state as a sentence."`
}

type verifiedDomain struct {
	Status     string `json:"status" enum:"verified" doc:"Always verified."`
	DomainName string `json:"domain_name" doc:"The domain, in A-labels."`
	IsVerified bool   `json:"is_verified" doc:"Always true."`
	Message    string `json:"message" doc:"The next step."`
}

type signedDomain struct {
	Status     string `json:"status" enum:"enabled" doc:"Always enabled."`
	DomainName string `json:"domain_name" doc:"The domain, in A-labels."`
	DKIMStatus string `json:"dkim_status" enum:"enabled" doc:"Always enabled."`
	Message    string `json:"message" doc:"The state as a sentence."`
}

type dkimReport struct {
	DomainName    string    `json:"domain_name" doc:"The domain, in A-labels."`
	DKIMStatus    string    `json:"dkim_status" enum:"pending,ready,enabled" doc:"The state of DKIM."`
	Selectors     selectors `json:"selectors" doc:"The two selector records."`
	ReadyToEnable bool      `json:"ready_to_enable" doc:"Whether DKIM signing can be enabled now. False if it is enabled already."`
	LastChecked   time.Time `json:"last_checked" doc:"The time of this read."`
}

type selectors struct {
	Selector1 string `json:"selector1" enum:"propagated,missing,mismatch" doc:"The record at selector1._domainkey."`
	Selector2 string `json:"selector2" enum:"propagated,missing,mismatch" doc:"The record at selector2._domainkey."`
}

func domainEntryOf(d domain.Domain) domainEntry {
	s := recordStatusesOf(d.Status)
	return domainEntry{ID: d.ID, DomainName: d.Name, IsDefault: d.Default, IsVerified: d.Verified, SPFStatus: s.SPFStatus,
		DKIMStatus: s.DKIMStatus, DMARCStatus: s.DMARCStatus, MXStatus: s.MXStatus, LastChecked: timeOrNil(d.CheckedAt)}
}

func addedDomainOf(result domains.AddResult) addedDomain {
	status := "added"
	if result.Exists {
		status = "exists"
	}
	return addedDomain{
		Status: status, TenantID: string(result.Domain.TenantGUID),
		Domain:                      domainState{DomainName: result.Domain.Name, IsDefault: result.Domain.Default, IsVerified: result.Domain.Verified},
		VerificationDNSRecords:      convertAll(result.Domain.Verification, recordOf),
		ServiceConfigurationRecords: serviceRecords(result.Domain),
		LiveDNSStatus:               recordStatusesOf(result.Live),
		DKIMVerificationState:       dkimSentence{Status: result.DKIM.Status, Message: result.DKIM.Message},
	}
}

func verifiedDomainOf(d domain.Domain) verifiedDomain {
	message := "The domain is verified and ready for mailboxes."
	if !d.MailReady {
		message = "The domain is verified. The mail platform is still preparing its e-mail service; sync the tenant in a few minutes."
	}
	return verifiedDomain{Status: "verified", DomainName: d.Name, IsVerified: d.Verified, Message: message}
}

func dkimReportOf(r domains.DKIMReport) dkimReport {
	return dkimReport{DomainName: r.Domain.Name, DKIMStatus: r.Status, ReadyToEnable: r.ReadyToEnable, LastChecked: r.CheckedAt.UTC().Truncate(time.Microsecond),
		Selectors: selectors{Selector1: string(r.Selector1), Selector2: string(r.Selector2)}}
}

// recordStatusesOf returns the status of each record. It is "missing" if the record was never read.
func recordStatusesOf(s dns.Status) liveStatus {
	return liveStatus{SPFStatus: orMissing(s.SPF), DKIMStatus: orMissing(s.DKIM), DMARCStatus: orMissing(s.DMARC), MXStatus: orMissing(s.MX)}
}

func orMissing(text string) string {
	if text == "" {
		return dns.Missing
	}
	return text
}

type removedDomain struct {
	Status       string `json:"status" enum:"removed" doc:"Always removed."`
	TenantID     string `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	DomainName   string `json:"domain_name" doc:"The name of the removed domain."`
	FromPlatform bool   `json:"from_platform" doc:"Whether the domain was also removed at the mail platform."`
	Message      string `json:"message" doc:"What was removed and what was not."`
}

func removedDomainOf(r domains.RemoveResult) removedDomain {
	message := "The domain was removed from the service. The mail platform still has it."
	switch {
	case r.MayBeNew:
		message = "The domain was removed from the service. The domain at the mail platform may be a new one with this name, so the mail platform keeps it."
	case r.FromPlatform:
		message = "The domain was removed from the service and from the tenant at the mail platform."
	}
	return removedDomain{Status: "removed", TenantID: string(r.Domain.TenantGUID), DomainName: r.Domain.Name,
		FromPlatform: r.FromPlatform && !r.MayBeNew, Message: message + " Its DNS records were not changed."}
}
