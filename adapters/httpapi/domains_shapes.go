// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"time"

	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/tenant"
)

type domainList struct {
	TenantID string        `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	Domains  []domainEntry `json:"domains"`
	Count    int           `json:"count" doc:"How many there are."`
}

type domainEntry struct {
	ID          string     `json:"id" format:"uuid" doc:"The domain's id, which /v1/domains/{domain_id} paths take."`
	DomainName  string     `json:"domain_name" doc:"The domain, in A-labels."`
	IsDefault   bool       `json:"is_default" doc:"Whether it is the tenant's primary domain."`
	IsVerified  bool       `json:"is_verified" doc:"Whether the mail platform has verified it."`
	SPFStatus   string     `json:"spf_status" doc:"The SPF record as published, or missing."`
	DKIMStatus  string     `json:"dkim_status" doc:"healthy when both selectors point where the mail platform says, partial when one does, else missing."`
	DMARCStatus string     `json:"dmarc_status" doc:"The DMARC record as published, or missing."`
	MXStatus    string     `json:"mx_status" doc:"The exchange of the preferred MX as published, or missing."`
	LastChecked *time.Time `json:"last_checked" doc:"The last DNS read, null before the first."`
}

// addDomain has no schema rules for the domain: core checks it and has specific error codes.
type addDomain struct {
	Domain string `json:"domain" doc:"The domain to add: a host name of two labels or more that is no public suffix. U-labels become A-labels, one final dot is dropped."`
}

type addedDomain struct {
	Status                      string       `json:"status" enum:"added,exists" doc:"exists when it was on this tenant already."`
	TenantID                    string       `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	Domain                      domainState  `json:"domain" doc:"The domain."`
	VerificationDNSRecords      []dnsRecord  `json:"verification_dns_records" doc:"Publish these to prove ownership."`
	ServiceConfigurationRecords []dnsRecord  `json:"service_configuration_records" doc:"Publish these for e-mail. The list may be short or empty before verification."`
	LiveDNSStatus               liveStatus   `json:"live_dns_status" doc:"What the world sees now."`
	DKIMVerificationState       dkimSentence `json:"dkim_verification_state" doc:"Where DKIM stands."`
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
	MXStatus    string `json:"mx_status" doc:"The exchange of the preferred MX as published, or missing."`
}

type dkimSentence struct {
	Status  string `json:"status" enum:"pending,ready,enabled" doc:"Where DKIM stands."`
	Message string `json:"message" doc:"The same in words."`
}

type verifiedDomain struct {
	Status     string `json:"status" enum:"verified" doc:"Always verified."`
	DomainName string `json:"domain_name" doc:"The domain, in A-labels."`
	IsVerified bool   `json:"is_verified" doc:"Always true."`
	Message    string `json:"message" doc:"What comes next."`
}

type signedDomain struct {
	Status     string `json:"status" enum:"enabled" doc:"Always enabled."`
	DomainName string `json:"domain_name" doc:"The domain, in A-labels."`
	DKIMStatus string `json:"dkim_status" enum:"enabled" doc:"Always enabled."`
	Message    string `json:"message" doc:"The same in words."`
}

type dkimReport struct {
	DomainName    string    `json:"domain_name" doc:"The domain, in A-labels."`
	DKIMStatus    string    `json:"dkim_status" enum:"pending,ready,enabled" doc:"Where DKIM stands."`
	Selectors     selectors `json:"selectors" doc:"The two selector records."`
	ReadyToEnable bool      `json:"ready_to_enable" doc:"Whether enable-dkim can work now."`
	LastChecked   time.Time `json:"last_checked" doc:"The time of this read."`
}

type selectors struct {
	Selector1 string `json:"selector1" enum:"propagated,missing,mismatch" doc:"The record at selector1._domainkey."`
	Selector2 string `json:"selector2" enum:"propagated,missing,mismatch" doc:"The record at selector2._domainkey."`
}

func entryOf(d domain.Domain) domainEntry {
	s := liveOf(d.Status)
	return domainEntry{ID: d.ID, DomainName: d.Name, IsDefault: d.Default, IsVerified: d.Verified, SPFStatus: s.SPFStatus,
		DKIMStatus: s.DKIMStatus, DMARCStatus: s.DMARCStatus, MXStatus: s.MXStatus, LastChecked: timeOrNil(d.CheckedAt)}
}

func addedOf(id tenant.GUID, a domains.Added) addedDomain {
	status := "added"
	if a.Exists {
		status = "exists"
	}
	return addedDomain{
		Status: status, TenantID: string(id),
		Domain:                      domainState{DomainName: a.Domain.Name, IsDefault: a.Domain.Default, IsVerified: a.Domain.Verified},
		VerificationDNSRecords:      each(a.Domain.Verification, recordOf),
		ServiceConfigurationRecords: serviceRecords(a.Domain),
		LiveDNSStatus:               liveOf(a.Live),
		DKIMVerificationState:       dkimSentence{Status: a.DKIM.Status, Message: a.DKIM.Message},
	}
}

func verifiedOf(d domain.Domain) verifiedDomain {
	message := "The domain is verified and ready for mailboxes."
	if !d.MailReady {
		message = "The domain is verified. The mail platform is still preparing its e-mail service; sync the tenant in a few minutes."
	}
	return verifiedDomain{Status: "verified", DomainName: d.Name, IsVerified: d.Verified, Message: message}
}

func reportOf(r domains.DKIMReport) dkimReport {
	return dkimReport{DomainName: r.Domain.Name, DKIMStatus: r.Status, ReadyToEnable: r.ReadyToEnable, LastChecked: r.CheckedAt.UTC(),
		Selectors: selectors{Selector1: string(r.Selector1), Selector2: string(r.Selector2)}}
}

// liveOf returns the status of each record. A record that was never read is shown as missing.
func liveOf(s dns.Status) liveStatus {
	return liveStatus{SPFStatus: orMissing(s.SPF), DKIMStatus: orMissing(s.DKIM), DMARCStatus: orMissing(s.DMARC), MXStatus: orMissing(s.MX)}
}

func orMissing(text string) string {
	if text == "" {
		return dns.Missing
	}
	return text
}
