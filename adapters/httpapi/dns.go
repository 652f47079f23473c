// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/adapters/httpapi/refusal"
	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/app/domainsteps"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
)

type domainIDPath struct {
	DomainID string `path:"domain_id"`
}

func registerDNSOperations(api huma.API, service *domains.Service) {
	registerDNSByName(api, service)
	registerDNSByID(api, service)
	registerDNSPlan(api, service)
	registerDNSAutomation(api, service)
}

func registerDNSByName(api huma.API, service *domains.Service) {
	registerConverting(api, huma.Operation{
		OperationID: "get-tenant-domain-dns", Method: http.MethodGet, Path: "/v1/tenants/{tenant_id}/domains/{domain_name}/dns", Tags: []string{tagDNS},
		Summary:     "Get the stored DNS of a tenant's domain",
		Description: "Returns the records to publish and their state at the last DNS read. The DNS is not read again.",
		Metadata: guard.OperationRules{Bucket: guard.Reads, Scope: access.DNSRead, AnswerExample: exampleTenantDNS,
			Refuses: specificCodes(fault.TenantNotFound, fault.DomainNotFound)}.Metadata(),
	}, tenantDNSOf, func(ctx context.Context, caller access.Caller, in *domainPath) (domain.Domain, error) {
		return service.StoredDomain(ctx, caller.Account.ID, tenant.ParseGUIDOrNone(in.TenantID), in.DomainName)
	})
}

func registerDNSByID(api huma.API, service *domains.Service) {
	registerConverting(api, huma.Operation{
		OperationID: "get-domain-dns", Method: http.MethodGet, Path: "/v1/domains/{domain_id}/dns", Tags: []string{tagDNS},
		Summary:     "Get the stored DNS of a domain by its id",
		Description: "Returns the records to publish, with the DKIM records also listed separately, and their state at the last DNS read. The DNS is not read again.",
		Metadata:    guard.OperationRules{Bucket: guard.Reads, Scope: access.DNSRead, AnswerExample: exampleStoredDNS, Refuses: specificCodes(fault.DomainNotFound)}.Metadata(),
	}, storedDNSOf, func(ctx context.Context, caller access.Caller, in *domainIDPath) (domain.Domain, error) {
		return service.ByID(ctx, caller.Account.ID, ident.ParseOrZero(in.DomainID))
	})
}

func registerDNSPlan(api huma.API, service *domains.Service) {
	registerConverting(api, huma.Operation{
		OperationID: "get-domain-dns-plan", Method: http.MethodGet, Path: "/v1/domains/{domain_id}/dns/plan", Tags: []string{tagDNS},
		Summary: "Plan a domain's DNS",
		Description: "Reads the domain's DNS from its authoritative name servers at the time of the request, and compares it with the records that the mail platform " +
			"requires. Each action describes what would be done with one of these records, and why. Nothing is written. If the account has a connection " +
			"to the DNS provider with access to the zone, the provider's own list of records is compared instead.",
		Metadata: guard.OperationRules{Bucket: guard.Expensive, Scope: access.DNSRead, AnswerExample: examplePlan, Refuses: codes(platformCodes, specificCodes(fault.DomainNotFound))}.Metadata(),
	}, planOf, func(ctx context.Context, caller access.Caller, in *domainIDPath) (domainsteps.Survey, error) {
		return service.Survey(ctx, caller.Account.ID, ident.ParseOrZero(in.DomainID))
	})
}

func registerDNSAutomation(api huma.API, service *domains.Service) {
	registerConverting(api, huma.Operation{
		OperationID: "get-domain-dns-automation", Method: http.MethodGet, Path: "/v1/domains/{domain_id}/dns/automation", Tags: []string{tagDNS},
		Summary: "Check whether a domain's DNS can be automated",
		Description: "Plans the domain's DNS from a new read, like the DNS plan. Returns whether its changes can be written for the account, and what a person must do first " +
			"if they cannot.",
		Metadata: guard.OperationRules{Bucket: guard.Expensive, Scope: access.DNSRead, AnswerExample: exampleAutomation, Refuses: codes(platformCodes, specificCodes(fault.DomainNotFound))}.Metadata(),
	}, automationOf, func(ctx context.Context, caller access.Caller, in *domainIDPath) (domainsteps.Survey, error) {
		return service.Survey(ctx, caller.Account.ID, ident.ParseOrZero(in.DomainID))
	})
}

type tenantDNS struct {
	TenantID                    string      `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	DomainName                  string      `json:"domain_name" doc:"The domain, in A-labels."`
	IsDefault                   bool        `json:"is_default" doc:"Whether it is the tenant's primary domain."`
	IsVerified                  bool        `json:"is_verified" doc:"Whether the mail platform has verified it."`
	DNSStatus                   dnsStatus   `json:"dns_status" doc:"The state of the records at the last DNS read."`
	VerificationDNSRecords      []dnsRecord `json:"verification_dns_records" doc:"The records that prove ownership of the domain."`
	ServiceConfigurationRecords []dnsRecord `json:"service_configuration_records" doc:"The records that the domain's e-mail service needs."`
	LastChecked                 *time.Time  `json:"last_checked" doc:"The last DNS read, null before the first."`
}

type storedDNS struct {
	DomainID                    string      `json:"domain_id" format:"uuid" doc:"The domain's id."`
	TenantResourceID            string      `json:"tenant_resource_id" format:"uuid" doc:"The service's own id of the tenant."`
	TenantID                    string      `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	DomainName                  string      `json:"domain_name" doc:"The domain, in A-labels."`
	IsDefault                   bool        `json:"is_default" doc:"Whether it is the tenant's primary domain."`
	IsVerified                  bool        `json:"is_verified" doc:"Whether the mail platform has verified it."`
	DKIMEnabled                 bool        `json:"dkim_enabled" doc:"Whether the mail platform signs the domain's mail."`
	DNSStatus                   dnsStatus   `json:"dns_status" doc:"The state of the records at the last DNS read."`
	VerificationDNSRecords      []dnsRecord `json:"verification_dns_records" doc:"The records that prove ownership of the domain."`
	ServiceConfigurationRecords []dnsRecord `json:"service_configuration_records" doc:"The records that the domain's e-mail service needs."`
	DKIMDNSRecords              []dnsRecord `json:"dkim_dns_records" doc:"The two DKIM records, once the mail platform has created them."`
	LastChecked                 *time.Time  `json:"last_checked" doc:"The last DNS read, null before the first."`
}

type dnsStatus struct {
	SPF   string `json:"spf" doc:"The SPF record as published, or missing."`
	DKIM  string `json:"dkim" doc:"healthy, partial or missing."`
	DMARC string `json:"dmarc" doc:"The DMARC record as published, or missing."`
	MX    string `json:"mx" doc:"The mail host of the preferred MX record as published, or missing."`
}

func tenantDNSOf(d domain.Domain) tenantDNS {
	return tenantDNS{TenantID: string(d.TenantGUID), DomainName: d.Name, IsDefault: d.Default, IsVerified: d.Verified,
		DNSStatus: dnsStatusOf(d.Status), VerificationDNSRecords: convertAll(d.Verification, recordOf),
		ServiceConfigurationRecords: serviceRecords(d), LastChecked: timeOrNil(d.CheckedAt)}
}

func storedDNSOf(d domain.Domain) storedDNS {
	return storedDNS{DomainID: d.ID, TenantResourceID: d.TenantID, TenantID: string(d.TenantGUID), DomainName: d.Name,
		IsDefault: d.Default, IsVerified: d.Verified, DKIMEnabled: d.DKIMEnabled, DNSStatus: dnsStatusOf(d.Status),
		VerificationDNSRecords: convertAll(d.Verification, recordOf), ServiceConfigurationRecords: serviceRecords(d),
		DKIMDNSRecords: signingRecords(d), LastChecked: timeOrNil(d.CheckedAt)}
}

func dnsStatusOf(s dns.Status) dnsStatus {
	return dnsStatus{SPF: orMissing(s.SPF), DKIM: orMissing(s.DKIM), DMARC: orMissing(s.DMARC), MX: orMissing(s.MX)}
}

// dnsRecord is a record to publish. Its JSON members depend on its type.
type dnsRecord struct{ dns.Record }

func recordOf(r dns.Record) dnsRecord { return dnsRecord{r} }

// serviceRecords returns the records for e-mail and DKIM that the mail platform requires.
func serviceRecords(d domain.Domain) []dnsRecord {
	return append(convertAll(d.Service, recordOf), signingRecords(d)...)
}

// signingRecords returns the DKIM records. Their names are relative to the domain:
// `selector1._domainkey`.
func signingRecords(d domain.Domain) []dnsRecord {
	list := []dnsRecord{}
	for _, r := range []dns.Record{d.Signing.Selector1, d.Signing.Selector2} {
		if r.Name != "" {
			r.Name = strings.TrimSuffix(r.Name, "."+d.Name)
			list = append(list, recordOf(r))
		}
	}
	return list
}

// MarshalJSON writes the members that a record of this type has.
func (r dnsRecord) MarshalJSON() ([]byte, error) {
	switch r.Type {
	case dns.MX:
		return json.Marshal(mxRecord{"domainDnsMxRecord", r.Name, r.Content, r.Preference, r.TTL})
	case dns.CNAME:
		return json.Marshal(cnameRecord{"domainDnsCnameRecord", r.Name, r.Content, r.TTL})
	default:
		return json.Marshal(txtRecord{"domainDnsTxtRecord", r.Name, r.Content, r.TTL})
	}
}

// Schema describes the three types of records. The member recordType distinguishes them.
func (dnsRecord) Schema(r huma.Registry) *huma.Schema {
	txt, mx, cname := r.Schema(reflect.TypeFor[txtRecord](), true, ""), r.Schema(reflect.TypeFor[mxRecord](), true, ""), r.Schema(reflect.TypeFor[cnameRecord](), true, "")
	return &huma.Schema{
		Description: "A DNS record to publish. recordType is its kind.",
		OneOf:       []*huma.Schema{txt, mx, cname},
		Discriminator: &huma.Discriminator{PropertyName: "recordType", Mapping: map[string]string{
			"domainDnsTxtRecord": txt.Ref, "domainDnsMxRecord": mx.Ref, "domainDnsCnameRecord": cname.Ref,
		}},
	}
}

type txtRecord struct {
	RecordType string `json:"recordType" enum:"domainDnsTxtRecord" doc:"The kind."`
	Label      string `json:"label" doc:"The name, fully qualified."`
	Text       string `json:"text" doc:"The text, unquoted."`
	TTL        int    `json:"ttl" doc:"Seconds."`
}

type mxRecord struct {
	RecordType   string `json:"recordType" enum:"domainDnsMxRecord" doc:"The kind."`
	Label        string `json:"label" doc:"The name, fully qualified."`
	MailExchange string `json:"mailExchange" doc:"The host that receives the mail."`
	Preference   int    `json:"preference" doc:"The preference. A lower value is tried first."`
	TTL          int    `json:"ttl" doc:"Seconds."`
}

type cnameRecord struct {
	RecordType    string `json:"recordType" enum:"domainDnsCnameRecord" doc:"The kind."`
	Label         string `json:"label" doc:"The name, fully qualified. For DKIM it is selector1._domainkey or selector2._domainkey, relative to the domain."`
	CanonicalName string `json:"canonicalName" doc:"The name to point to."`
	TTL           int    `json:"ttl" doc:"Seconds."`
}

type dnsPlan struct {
	DomainID        string               `json:"domain_id" format:"uuid" doc:"The domain's id."`
	DomainName      string               `json:"domain_name" doc:"The domain, in A-labels."`
	DNSProvider     planProvider         `json:"dns_provider" doc:"The DNS provider that serves the domain's zone."`
	Read            planRead             `json:"read" doc:"The result of the DNS read on which the plan is based."`
	DesiredRecords  []desiredRecord      `json:"desired_records" doc:"The records that the domain must have according to the mail platform, and a DMARC record. Records that the mail platform has not provided yet are missing here; it provides most of them after verification."`
	ObservedRecords []observedRecord     `json:"observed_records" doc:"The existing records at the names that the plan checks."`
	Actions         []refusal.PlanAction `json:"actions" doc:"What would be done to get each of the desired records. A person must resolve conflicts; they are never overwritten."`
	BlockingChanges []refusal.PlanAction `json:"blocking_changes" doc:"The actions that block the plan. Nothing is written until they are resolved."`
	SafeToApply     bool                 `json:"safe_to_apply" doc:"Whether the changes may be written. They may if the read is reliable and no action blocks."`
	CheckedAt       time.Time            `json:"checked_at" doc:"The time of this read."`
}

type planProvider struct {
	ID          *string  `json:"id" doc:"The provider's id if this service can write to the provider, otherwise null."`
	Name        *string  `json:"name" doc:"The provider's display name, or the domain of its name servers. Null when several providers serve the zone, or when the provider is unknown."`
	Nameservers []string `json:"nameservers" doc:"The name servers to which the zone is delegated."`
	Detected    bool     `json:"detected" doc:"Whether the provider that serves the zone is known."`
	Supported   bool     `json:"supported" doc:"Whether this service can write DNS records at this provider."`
}

type planRead struct {
	Reliable            bool    `json:"reliable" doc:"Whether enough name servers answered all queries, and with the same records. If the account has access to the zone at its DNS provider, the records of the provider must also be known and must not differ from the answers as provider_ahead describes."`
	Reason              *string `json:"reason" doc:"Why the read is not reliable: zone_cut_unknown, not_delegated, no_authoritative_answer, single_server_answered, servers_disagree, type_unknown, dnssec_bogus, read_deadline, recursive_only, provider_unavailable when the account's DNS provider did not answer, or provider_ahead when the provider stores records that differ from those that its name servers return, and that depend on names that were not read. For a reliable read, a problem of the zone: lame_delegation, server_unreachable, delegation_mismatch, tcp_blocked, ns_address_forbidden, wildcard_ambiguous or multi_provider. Null when there is no problem."`
	NameserversAsked    int     `json:"nameservers_asked" doc:"The number of name servers that were queried."`
	NameserversAgreeing int     `json:"nameservers_agreeing" doc:"The number of queried name servers that returned the same records of the zone."`
}

type desiredRecord struct {
	Purpose    string `json:"purpose" enum:"verification,mx,spf,autodiscover,dmarc,dkim_selector1,dkim_selector2" doc:"The purpose of the record."`
	RecordType string `json:"record_type" enum:"TXT,MX,CNAME" doc:"Its type."`
	Name       string `json:"name" doc:"Its name, fully qualified, without the final dot."`
	Content    string `json:"content" doc:"Its content: the text of a TXT, unquoted; preference and host of an MX; the target of a CNAME."`
	TTL        int    `json:"ttl" doc:"Seconds."`
}

type observedRecord struct {
	RecordType string   `json:"record_type" doc:"The type."`
	Name       string   `json:"name" doc:"The name, fully qualified, without the final dot."`
	Contents   []string `json:"contents" doc:"All contents at this name, in the same format as the desired records. Bytes that are not printable text are written as \\DDD."`
	TTL        int      `json:"ttl" doc:"Seconds."`
}

func planOf(v domainsteps.Survey) dnsPlan {
	p := v.Plan
	return dnsPlan{
		DomainID: v.Domain.ID, DomainName: v.Domain.Name, DNSProvider: planProviderOf(v), Read: planReadOf(v.ZoneRead),
		DesiredRecords: convertAll(p.Desired, desiredOf), ObservedRecords: convertAll(p.Observed, observedOf),
		Actions: convertAll(p.Items, refusal.ActionOf), BlockingChanges: convertAll(p.Blocking(), refusal.ActionOf),
		SafeToApply: p.SafeToApply(), CheckedAt: p.At.UTC().Truncate(time.Microsecond),
	}
}

func planProviderOf(v domainsteps.Survey) planProvider {
	return planProvider{ID: textOrNil(v.Holder.Provider.ID), Name: textOrNil(v.Holder.Title), Detected: v.Holder.Title != "", Supported: v.Holder.Provider.ID != "",
		Nameservers: append([]string{}, v.ZoneRead.Delegation...)}
}

func planReadOf(s dns.ZoneRead) planRead {
	reason := s.Reason
	if reason == "" && len(s.Warnings) > 0 {
		reason = s.Warnings[0]
	}
	return planRead{Reliable: s.Complete, Reason: textOrNil(reason), NameserversAsked: s.ServersAsked(), NameserversAgreeing: s.ServersAgreeing()}
}

func desiredOf(d dns.Desired) desiredRecord {
	return desiredRecord{Purpose: string(d.Purpose), RecordType: string(d.Type), Name: d.Name, Content: dns.EscapeText(d.Value()), TTL: d.TTL}
}

func observedOf(s dns.RRSet) observedRecord {
	return observedRecord{RecordType: string(s.Type), Name: s.Name, Contents: convertAll(s.Values, dns.EscapeText), TTL: s.TTL}
}

type domainAutomation struct {
	DomainID   string     `json:"domain_id" format:"uuid" doc:"The domain's id."`
	Automation automation `json:"automation" doc:"Whether its records can be written for the account."`
}

type automation struct {
	Provider             *string `json:"provider" doc:"The DNS provider's id if this service can write there, otherwise null."`
	ProviderSupported    bool    `json:"provider_supported" doc:"Whether this service can write at the provider that serves the domain's zone."`
	ConnectionPresent    bool    `json:"connection_present" doc:"Whether the account has a connection to that provider. action_required_code shows whether the connection has access to the zone."`
	SafeToApply          bool    `json:"safe_to_apply" doc:"Whether the changes of the plan may be written. They may if the read is reliable and no action blocks."`
	ManualActionRequired bool    `json:"manual_action_required" doc:"Whether a person must act first."`
	ActionRequiredCode   *string `json:"action_required_code" enum:"dns_provider_unsupported,dns_connection_required,dns_credential_rejected,dns_read_unreliable,dns_conflict" doc:"The required action, null when none is required."`
	Message              string  `json:"message" doc:"The result as a sentence."`
}

func automationOf(v domainsteps.Survey) domainAutomation {
	a := v.Automation()
	return domainAutomation{DomainID: v.Domain.ID, Automation: automation{
		Provider: textOrNil(a.Provider.ID), ProviderSupported: a.Provider.ID != "", ConnectionPresent: a.Connected, SafeToApply: a.Safe,
		ManualActionRequired: a.Required != "", ActionRequiredCode: textOrNil(string(a.Required)), Message: a.Message,
	}}
}
