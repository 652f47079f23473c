// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
)

type tenantDNS struct {
	TenantID                    string      `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	DomainName                  string      `json:"domain_name" doc:"The domain, in A-labels."`
	IsDefault                   bool        `json:"is_default" doc:"Whether it is the tenant's primary domain."`
	IsVerified                  bool        `json:"is_verified" doc:"Whether the mail platform has verified it."`
	DNSStatus                   dnsStatus   `json:"dns_status" doc:"How the records stood at the last read."`
	VerificationDNSRecords      []dnsRecord `json:"verification_dns_records" doc:"They prove ownership."`
	ServiceConfigurationRecords []dnsRecord `json:"service_configuration_records" doc:"They make e-mail work."`
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
	DNSStatus                   dnsStatus   `json:"dns_status" doc:"How the records stood at the last read."`
	VerificationDNSRecords      []dnsRecord `json:"verification_dns_records" doc:"They prove ownership."`
	ServiceConfigurationRecords []dnsRecord `json:"service_configuration_records" doc:"They make e-mail work."`
	DKIMDNSRecords              []dnsRecord `json:"dkim_dns_records" doc:"The two DKIM records, once the mail platform has made them."`
	LastChecked                 *time.Time  `json:"last_checked" doc:"The last DNS read, null before the first."`
}

type dnsStatus struct {
	SPF   string `json:"spf" doc:"The SPF record as published, or missing."`
	DKIM  string `json:"dkim" doc:"healthy, partial or missing."`
	DMARC string `json:"dmarc" doc:"The DMARC record as published, or missing."`
	MX    string `json:"mx" doc:"The exchange of the preferred MX as published, or missing."`
}

func tenantDNSOf(d domain.Domain) tenantDNS {
	return tenantDNS{TenantID: string(d.TenantGUID), DomainName: d.Name, IsDefault: d.Default, IsVerified: d.Verified,
		DNSStatus: statusShape(d.Status), VerificationDNSRecords: each(d.Verification, recordOf),
		ServiceConfigurationRecords: serviceRecords(d), LastChecked: timeOrNil(d.CheckedAt)}
}

func storedDNSOf(d domain.Domain) storedDNS {
	return storedDNS{DomainID: d.ID, TenantResourceID: d.TenantID, TenantID: string(d.TenantGUID), DomainName: d.Name,
		IsDefault: d.Default, IsVerified: d.Verified, DKIMEnabled: d.DKIM, DNSStatus: statusShape(d.Status),
		VerificationDNSRecords: each(d.Verification, recordOf), ServiceConfigurationRecords: serviceRecords(d),
		DKIMDNSRecords: signingRecords(d), LastChecked: timeOrNil(d.CheckedAt)}
}

func statusShape(s dns.Status) dnsStatus {
	return dnsStatus{SPF: orMissing(s.SPF), DKIM: orMissing(s.DKIM), DMARC: orMissing(s.DMARC), MX: orMissing(s.MX)}
}

// dnsRecord is a record to publish. Its JSON members depend on its type.
type dnsRecord struct{ dns.Record }

func recordOf(r dns.Record) dnsRecord { return dnsRecord{r} }

// serviceRecords returns the mail platform's records for e-mail and for DKIM.
func serviceRecords(d domain.Domain) []dnsRecord {
	return append(each(d.Service, recordOf), signingRecords(d)...)
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

// Schema documents the three types of records and the member that tells them apart.
func (dnsRecord) Schema(r huma.Registry) *huma.Schema {
	txt, mx, cname := r.Schema(typeOf[txtRecord](), true, ""), r.Schema(typeOf[mxRecord](), true, ""), r.Schema(typeOf[cnameRecord](), true, "")
	return &huma.Schema{
		Description: "A DNS record to publish; recordType tells which kind.",
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
	MailExchange string `json:"mailExchange" doc:"The host that takes the mail."`
	Preference   int    `json:"preference" doc:"Lower comes first."`
	TTL          int    `json:"ttl" doc:"Seconds."`
}

type cnameRecord struct {
	RecordType    string `json:"recordType" enum:"domainDnsCnameRecord" doc:"The kind."`
	Label         string `json:"label" doc:"The name: fully qualified, but selector1._domainkey and selector2._domainkey for DKIM, below the domain."`
	CanonicalName string `json:"canonicalName" doc:"The name to point to."`
	TTL           int    `json:"ttl" doc:"Seconds."`
}
