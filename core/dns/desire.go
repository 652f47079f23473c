// SPDX-License-Identifier: Apache-2.0

package dns

import "strings"

// Purpose is the function of a desired record.
type Purpose string

// The purposes, in the order in which their records are written. Ownership comes first, because the
// platform creates the other values after it.
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

// DefaultPolicy is the DMARC record for a domain without one. It does not affect mail delivery. The
// platform does not specify a DMARC record.
const DefaultPolicy = "v=DMARC1; p=none"

const defaultTTL = 3600

// Offer holds the records that the mail platform specifies for a domain, and the operator's DMARC
// record.
type Offer struct {
	Verification, Service []Record
	Signing               Signing
	// Policy is the DMARC record. The empty string means DefaultPolicy.
	Policy string
}

// Desire returns the records that a domain must have, ordered by purpose. It leaves out records
// that the platform has not specified yet and never derives their values.
func Desire(domain string, o Offer) []Desired {
	var out []Desired
	want := func(p Purpose, r Record, found bool) {
		if !found || r.Content == "" || !inDomain(r.Name, domain) {
			return
		}
		if r.TTL <= 0 {
			r.TTL = defaultTTL
		}
		r.Name = normalName(r.Name)
		out = append(out, Desired{p, r})
	}
	proof, found := Verification(o.Verification)
	want(Ownership, proof, found && proof.Type == TXT)
	mx, found := o.exchange(domain)
	want(Inbound, mx, found)
	spf, found := o.service(TXT, domain, isSPF)
	want(Sending, spf, found)
	auto, found := o.service(CNAME, "autodiscover."+domain, anyContent)
	want(Autodiscover, auto, found)
	want(Policy, Record{Type: TXT, Name: "_dmarc." + domain, Content: o.policy()}, true)
	want(Selector1, o.Signing.Selector1, o.Signing.Selector1.Type == CNAME)
	want(Selector2, o.Signing.Selector2, o.Signing.Selector2.Type == CNAME)
	return out
}

func (o Offer) policy() string {
	if o.Policy != "" {
		return o.Policy
	}
	return DefaultPolicy
}

// exchange returns the platform's preferred MX record for a domain.
func (o Offer) exchange(domain string) (best Record, found bool) {
	for _, r := range o.Service {
		if r.Type == MX && sameName(r.Name, domain) && (!found || r.Preference < best.Preference) {
			best, found = r, true
		}
	}
	return best, found
}

func (o Offer) service(of Type, name string, is func(string) bool) (Record, bool) {
	for _, r := range o.Service {
		if r.Type == of && sameName(r.Name, name) && is(r.Content) {
			return r, true
		}
	}
	return Record{}, false
}

func anyContent(string) bool { return true }

// inDomain reports whether a name is the domain or below it. It keeps a plan inside the domain,
// whatever the platform specifies.
func inDomain(name, domain string) bool {
	return sameName(name, domain) || strings.HasSuffix(normalName(name), "."+normalName(domain))
}

// Value returns the record's content in the form that RRSet.Values uses.
func (r Record) Value() string {
	switch r.Type {
	case MX:
		return mxValue(r.Preference, r.Content)
	case TXT:
		return r.Content
	default:
		return normalName(r.Content)
	}
}
