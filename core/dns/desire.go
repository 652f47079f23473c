// SPDX-License-Identifier: Apache-2.0

package dns

import "strings"

// Purpose is what a desired record is for.
type Purpose string

// The purposes, in the order in which their records are written: ownership
// first, as the platform makes the others' values after it.
const (
	Ownership    Purpose = "verification"
	Inbound      Purpose = "mx"
	Sending      Purpose = "spf"
	Autodiscover Purpose = "autodiscover"
	Policy       Purpose = "dmarc"
	Selector1    Purpose = "dkim_selector1"
	Selector2    Purpose = "dkim_selector2"
)

// Desired is a record that the domain is to have, and why.
type Desired struct {
	Purpose Purpose
	Record
}

// DefaultPolicy is the DMARC record for a domain that has none: it changes
// nothing for anyone's mail. The platform names none.
const DefaultPolicy = "v=DMARC1; p=none"

const defaultTTL = 3600

// Offer is what the mail platform says about a domain's records, with the
// operator's DMARC record.
type Offer struct {
	Verification, Service []Record
	Signing               Signing
	// Policy is the DMARC record; DefaultPolicy unless set.
	Policy string
}

// Desire lists the records that a domain is to have as far as they are known,
// by the order of purposes. None is computed: what the platform has not named
// yet is not there.
func Desire(domain string, o Offer) []Desired {
	var out []Desired
	want := func(p Purpose, r Record, found bool) {
		if !found || r.Content == "" || !within(r.Name, domain) {
			return
		}
		if r.TTL <= 0 {
			r.TTL = defaultTTL
		}
		r.Name = referred(r.Name)
		out = append(out, Desired{p, r})
	}
	proof, found := Verification(o.Verification)
	want(Ownership, proof, found && proof.Type == TXT)
	mx, found := o.exchange(domain)
	want(Inbound, mx, found)
	spf, found := o.service(TXT, domain, isSPF)
	want(Sending, spf, found)
	auto, found := o.service(CNAME, "autodiscover."+domain, anything)
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

// exchange is the platform's preferred host for a domain's mail.
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

func anything(string) bool { return true }

// within keeps a plan to the domain, whatever the platform answers.
func within(name, domain string) bool {
	return sameName(name, domain) || strings.HasSuffix(referred(name), "."+referred(domain))
}

// Value is a record's content as an RRSet holds it.
func (r Record) Value() string {
	switch r.Type {
	case MX:
		return mxValue(r.Preference, r.Content)
	case TXT:
		return r.Content
	default:
		return referred(r.Content)
	}
}
