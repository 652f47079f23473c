// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
)

const (
	host               = "a-test.r4nd.mx.microsoft"
	oldHost            = "a-test.mail.protection.outlook.com"
	include            = "spf.protection.outlook.com"
	proofText          = "MS=ms12345678"
	autodiscoverTarget = "autodiscover.outlook.com"
)

// platformHosts are the hosts of Microsoft 365.
var platformHosts = dns.PlatformHosts{
	Exchanges:    []string{".mail.protection.outlook.com", ".mx.microsoft"},
	Signers:      []string{".onmicrosoft.com", ".dkim.mail.microsoft"},
	Verification: []string{".msv1.invalid"},
}

// offer returns all records that the platform specifies for a.test after verification.
func offer() dns.Offer {
	return dns.Offer{Verification: offered, Signing: signing, Hosts: platformHosts, Service: []dns.Record{
		{Type: dns.MX, Name: "a.test", Content: host, TTL: 3600},
		{Type: dns.TXT, Name: "a.test", Content: "v=spf1 include:" + include + " -all", TTL: 3600},
		{Type: dns.CNAME, Name: "autodiscover.a.test", Content: autodiscoverTarget, TTL: 3600},
	}}
}

// reliable returns a reliable read of a.test with these record sets.
func reliable(sets ...dns.RRSet) dns.ZoneRead {
	s := readWith(sets...)
	s.Zone, s.Complete = "a.test", true
	s.Referenced.SPF = map[string][]string{include: {"v=spf1 ip4:192.0.2.0/24 -all"}}
	return s
}

func item(t *testing.T, p dns.Plan, purpose dns.Purpose) dns.Item {
	t.Helper()
	for _, i := range p.Items {
		if i.Purpose == purpose {
			return i
		}
	}
	t.Fatalf("the plan has no item for %s: %+v", purpose, p.Items)
	return dns.Item{}
}

// setAfter returns the values of a record set after the plan was written.
func setAfter(p dns.Plan, s dns.ZoneRead, name string, typ dns.Type) []string {
	for _, c := range p.Changes {
		if c.After.Name == name && c.After.Type == typ {
			return c.After.Values
		}
	}
	return dns.Find(s.Sets, name, typ).Values
}

// planCase is one test case of a plan: the records of the zone, the expected decision on one
// purpose, and the values of the purpose's record set after the plan.
type planCase struct {
	name       string
	sets       []dns.RRSet
	referenced func(*dns.Referenced)
	managed    []dns.Written
	action     dns.Action
	reason     dns.Reason
	blocking   bool
	optional   bool
	notes      []dns.Note
	after      []string
}

func (c planCase) run(t *testing.T, o dns.Offer, domain string, purpose dns.Purpose) {
	t.Helper()
	s := reliable(c.sets...)
	s.Domain = domain
	if c.referenced != nil {
		c.referenced(&s.Referenced)
	}
	p := dns.NewPlan(o, s, c.managed)
	got := item(t, p, purpose)
	want := dns.Item{Purpose: purpose, Action: c.action, Reason: c.reason, Blocking: c.blocking, Optional: c.optional, Notes: c.notes,
		Type: got.Type, Name: got.Name, Desired: got.Desired, Observed: got.Observed}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if p.SafeToApply() == c.blocking && !otherItemsBlock(p, purpose) {
		t.Errorf("safe to apply is %v", p.SafeToApply())
	}
	exists := setAfter(p, s, got.Name, got.Type)
	if diff := cmp.Diff(c.after, exists); diff != "" {
		t.Error("after the plan: " + diff)
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

// otherItemsBlock reports whether an item of a different purpose blocks.
func otherItemsBlock(p dns.Plan, but dns.Purpose) bool {
	return slices.ContainsFunc(p.Blocking(), func(i dns.Item) bool { return i.Purpose != but })
}

const (
	target1 = "selector1-a-test01i._domainkey.t.n-v1.dkim.mail.microsoft"
	target2 = "selector2-a-test01i._domainkey.t.n-v1.dkim.mail.microsoft"
)

var (
	signing = dns.Signing{
		Selector1: dns.Record{Type: dns.CNAME, Name: "selector1._domainkey.a.test", Content: target1},
		Selector2: dns.Record{Type: dns.CNAME, Name: "selector2._domainkey.a.test", Content: target2},
	}
	offered = []dns.Record{
		{Type: dns.MX, Name: "a.test", Content: "ms1.msv1.invalid", Preference: 32767},
		{Type: dns.TXT, Name: "a.test", Content: "MS=ms12345678"},
	}
)

func readWith(sets ...dns.RRSet) dns.ZoneRead { return dns.ZoneRead{Domain: "a.test", Sets: sets} }

func set(name string, typ dns.Type, values ...string) dns.RRSet {
	return dns.RRSet{Name: name, Type: typ, Values: values}
}

func synthesised(s dns.RRSet) dns.RRSet {
	s.Synthesised = true
	return s
}

const includeTerm = "include:" + include

// offerWithoutProof returns offer without ownership records, so that SPF is the only TXT record.
func offerWithoutProof() dns.Offer {
	o := offer()
	o.Verification = nil
	return o
}

func spf(texts ...string) []dns.RRSet { return []dns.RRSet{set("a.test", dns.TXT, texts...)} }

func ttl(seconds int, s dns.RRSet) dns.RRSet {
	s.TTL = seconds
	return s
}
