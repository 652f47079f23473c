// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"slices"
	"strings"
)

// Offer holds the records that the mail platform specifies for a domain, the domains of the
// platform's hosts, and the operator's DMARC record.
type Offer struct {
	Verification, Service []Record
	Signing               Signing
	// Policy is the DMARC record. The empty string means DefaultPolicy.
	Policy string
	Hosts  PlatformHosts
}

// PlatformHosts are the domains of the mail platform's hosts, each with a leading dot. They
// identify records that the platform specified, now or earlier. tenantry derives no record from
// these domains.
type PlatformHosts struct {
	Exchanges []string // domains of the hosts of MX records
	Signers   []string // domains of the targets of DKIM records
	// Verification are domains of MX hosts that only prove ownership. They receive no mail.
	Verification []string
}

// Signing is the mail platform's DKIM configuration of a domain. It is the zero value until the
// platform has created a configuration.
type Signing struct {
	Enabled bool
	// Selector1 and Selector2 are the CNAME records to publish, as specified by the platform.
	Selector1, Selector2 Record
}

// Wanted returns the specified records of the DKIM selectors. A caller that reads a domain's DNS
// passes these records to the reader. The reader can then check whether a DNS provider answers with
// the TXT records of a CNAME's target in place of the CNAME.
func (s Signing) Wanted() []Desired {
	var records []Desired
	for _, d := range []Desired{{Selector1, s.Selector1}, {Selector2, s.Selector2}} {
		if d.Content != "" {
			records = append(records, d)
		}
	}
	return records
}

// VerificationRecord returns the record that proves ownership, or false if the platform offers
// none. It prefers a TXT record, because a TXT record does not affect mail.
func VerificationRecord(offered []Record) (Record, bool) {
	for _, r := range offered {
		if r.Type == TXT {
			return r, true
		}
	}
	if len(offered) > 0 {
		return offered[0], true
	}
	return Record{}, false
}

// Incomplete reports whether a plan from the offer is incomplete, as described at Plan.Incomplete.
func (o Offer) Incomplete(domain string) bool { return lacksSPF(DesiredRecords(domain, o)) }

// mxRecord returns the platform's preferred MX record for a domain.
func (o Offer) mxRecord(domain string) (best Record, found bool) {
	for _, r := range o.Service {
		if r.Type == MX && sameName(r.Name, domain) && (!found || r.Preference < best.Preference) {
			best, found = r, true
		}
	}
	return best, found
}

func (o Offer) serviceRecord(recordType Type, name string, matches func(string) bool) (Record, bool) {
	for _, r := range o.Service {
		if r.Type == recordType && sameName(r.Name, name) && matches(r.Content) {
			return r, true
		}
	}
	return Record{}, false
}

func anyContent(string) bool { return true }

func endsWithAny(name string, suffixes []string) bool {
	name = normalName(name)
	return slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(name, suffix) })
}

// signingTenant returns the name of the tenant in a DKIM target of the platform, and "" for any
// other name.
func (p PlatformHosts) signingTenant(target string) string {
	if !endsWithAny(target, p.Signers) {
		return ""
	}
	_, rest, found := strings.Cut(normalName(target), "._domainkey.")
	if !found {
		return ""
	}
	tenant, _, _ := strings.Cut(rest, ".")
	return tenant
}
