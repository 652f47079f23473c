// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"cmp"
	"slices"
	"strings"
)

// Purpose is the function of a desired record.
type Purpose string

// The purposes, in the order of DesiredRecords. Ownership comes first, because the platform
// specifies its other records only after verification.
const (
	Ownership    Purpose = "verification"
	Inbound      Purpose = "mx"
	Sending      Purpose = "spf"
	Autodiscover Purpose = "autodiscover"
	Policy       Purpose = "dmarc"
	Selector1    Purpose = "dkim_selector1"
	Selector2    Purpose = "dkim_selector2"
)

// Desired is a record that the domain must have, with its purpose.
type Desired struct {
	Purpose Purpose
	Record
}

// DefaultPolicy is the DMARC record for a domain that has no DMARC record. It does not affect mail
// delivery. The platform does not specify a DMARC record.
const DefaultPolicy = "v=DMARC1; p=none"

// defaultTTL is the TTL of a desired record for which the mail platform specifies none, and of the
// DMARC record.
const defaultTTL = 3600 // in seconds

// DesiredRecords returns the records that a domain must have, ordered by purpose. It omits records
// that the platform has not specified yet, and records outside the domain, which a plan must never
// change. It also omits an ownership record that is not a TXT record, and a DKIM record that is not
// a CNAME.
func DesiredRecords(domain string, o Offer) []Desired {
	var desired []Desired
	addDesired := func(p Purpose, r Record, found bool) {
		if !found || r.Content == "" || !isInDomain(r.Name, domain) {
			return
		}
		if r.TTL <= 0 {
			r.TTL = defaultTTL
		}
		r.Name = normalName(r.Name)
		desired = append(desired, Desired{p, r})
	}
	proof, found := VerificationRecord(o.Verification)
	addDesired(Ownership, proof, found && proof.Type == TXT)
	mx, found := o.mxRecord(domain)
	addDesired(Inbound, mx, found)
	spf, found := o.serviceRecord(TXT, domain, isSPF)
	addDesired(Sending, spf, found)
	autodiscover, found := o.serviceRecord(CNAME, "autodiscover."+domain, anyContent)
	addDesired(Autodiscover, autodiscover, found)
	addDesired(Policy, Record{Type: TXT, Name: "_dmarc." + domain, Content: cmp.Or(o.Policy, DefaultPolicy)}, true)
	addDesired(Selector1, o.Signing.Selector1, o.Signing.Selector1.Type == CNAME)
	addDesired(Selector2, o.Signing.Selector2, o.Signing.Selector2.Type == CNAME)
	return desired
}

func lacksSPF(desired []Desired) bool {
	return !slices.ContainsFunc(desired, func(d Desired) bool { return d.Purpose == Sending })
}

// isInDomain reports whether a name is the domain or below the domain.
func isInDomain(name, domain string) bool {
	return sameName(name, domain) || strings.HasSuffix(normalName(name), "."+normalName(domain))
}
