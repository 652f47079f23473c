// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
)

const (
	host    = "a-test.r4nd.mx.microsoft"
	oldHost = "a-test.mail.protection.outlook.com"
	include = "spf.protection.outlook.com"
	ms      = "MS=ms12345678"
	auto    = "autodiscover.outlook.com"
)

// offer is all that the platform says of a.test once it is verified.
func offer() dns.Offer {
	return dns.Offer{Verification: offered, Signing: signing, Service: []dns.Record{
		{Type: dns.MX, Name: "a.test", Content: host, TTL: 3600},
		{Type: dns.TXT, Name: "a.test", Content: "v=spf1 include:" + include + " -all", TTL: 3600},
		{Type: dns.CNAME, Name: "autodiscover.a.test", Content: auto, TTL: 3600},
	}}
}

// reliable is a sight whose read nothing speaks against.
func reliable(sets ...dns.RRSet) dns.Sight {
	s := sight(sets...)
	s.Zone, s.Complete = "a.test", true
	s.Beyond.SPF = map[string][]string{include: {"v=spf1 ip4:192.0.2.0/24 -all"}}
	return s
}

func item(t *testing.T, p dns.Plan, of dns.Purpose) dns.Item {
	t.Helper()
	for _, i := range p.Items {
		if i.Purpose == of {
			return i
		}
	}
	t.Fatalf("the plan says nothing of %s: %+v", of, p.Items)
	return dns.Item{}
}

// after is a record set as the plan leaves it.
func after(p dns.Plan, s dns.Sight, name string, of dns.Type) []string {
	for _, c := range p.Changes {
		if c.After.Name == name && c.After.Type == of {
			return c.After.Values
		}
	}
	return dns.Find(s.Sets, name, of).Values
}

// planCase is one row of the rules: what stands in the zone, what is decided of
// one purpose, and what stands at its name and type afterwards.
type planCase struct {
	name     string
	sets     []dns.RRSet
	beyond   func(*dns.Beyond)
	managed  []dns.Written
	action   dns.Action
	reason   dns.Reason
	blocking bool
	notes    []dns.Note
	after    []string
}

func (c planCase) run(t *testing.T, o dns.Offer, domain string, of dns.Purpose) {
	t.Helper()
	s := reliable(c.sets...)
	s.Domain = domain
	if c.beyond != nil {
		c.beyond(&s.Beyond)
	}
	p := dns.NewPlan(o, s, c.managed)
	got := item(t, p, of)
	want := dns.Item{Purpose: of, Action: c.action, Reason: c.reason, Blocking: c.blocking, Notes: c.notes,
		Type: got.Type, Name: got.Name, Desired: got.Desired, Observed: got.Observed}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if p.SafeToApply() == c.blocking && !others(p, of) {
		t.Errorf("safe to apply is %v", p.SafeToApply())
	}
	exists := after(p, s, got.Name, got.Type)
	if diff := cmp.Diff(c.after, exists); diff != "" {
		t.Error("afterwards: " + diff)
	}
	if c.action == dns.Create || c.action == dns.Update {
		if !slices.Contains(exists, got.Desired) {
			t.Errorf("%q is desired and not among %q", got.Desired, exists)
		}
	}
	if len(got.Reason.Explain()) < 20 {
		t.Errorf("%s is explained by %q", got.Reason, got.Reason.Explain())
	}
}

// others reports whether anything but one purpose blocks.
func others(p dns.Plan, but dns.Purpose) bool {
	return slices.ContainsFunc(p.Blocking(), func(i dns.Item) bool { return i.Purpose != but })
}
