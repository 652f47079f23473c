// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
)

// The contents of the platform's records for a.test.
const (
	platformMX         = "a-test.r4nd.mx.microsoft"
	previousMX         = "a-test.mail.protection.outlook.com" // the host that the platform specified earlier
	platformSPF        = "spf.protection.outlook.com"
	ownershipText      = "MS=ms12345678"
	autodiscoverTarget = "autodiscover.outlook.com"
)

// platformHosts are the names by which a plan recognizes records of the platform.
var platformHosts = dns.PlatformHosts{
	Exchanges:    []string{".mail.protection.outlook.com", ".mx.microsoft"},
	Signers:      []string{".onmicrosoft.com", ".dkim.mail.microsoft"},
	Verification: []string{".msv1.invalid"},
}

// offer returns all records that the platform specifies for a.test after verification.
func offer() dns.Offer {
	return dns.Offer{Verification: ownershipRecords, Signing: signing, Hosts: platformHosts, Service: []dns.Record{
		{Type: dns.MX, Name: "a.test", Content: platformMX, TTL: 3600},
		{Type: dns.TXT, Name: "a.test", Content: "v=spf1 include:" + platformSPF + " -all", TTL: 3600},
		{Type: dns.CNAME, Name: "autodiscover.a.test", Content: autodiscoverTarget, TTL: 3600},
	}}
}

// reliableRead returns a complete read of the zone a.test with these record sets. The read has the
// SPF record that the platform publishes at platformSPF.
func reliableRead(sets ...dns.RRSet) dns.ZoneRead {
	read := readOf(sets...)
	read.Zone, read.Complete = "a.test", true
	read.Referenced.SPF = map[string][]string{platformSPF: {"v=spf1 ip4:192.0.2.0/24 -all"}}
	return read
}

// itemFor returns the item of a plan for a purpose. It fails the test if the plan has no such item.
func itemFor(t *testing.T, plan dns.Plan, purpose dns.Purpose) dns.Item {
	t.Helper()
	for _, item := range plan.Items {
		if item.Purpose == purpose {
			return item
		}
	}
	t.Fatalf("the plan has no item for %s: %+v", purpose, plan.Items)
	return dns.Item{}
}

// valuesAfter returns the values that a record set has after the plan is written.
func valuesAfter(plan dns.Plan, read dns.ZoneRead, name string, recordType dns.Type) []string {
	for _, c := range plan.Changes {
		if c.After.Name == name && c.After.Type == recordType {
			return c.After.Values
		}
	}
	return dns.Find(read.Sets, name, recordType).Values
}

// planCase is one test case of a plan: the records of a zone, and the expected item of the plan for
// one purpose.
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
	after      []string // the values of the purpose's record set after the plan was written
}

// run makes a plan for the zone of the test case, and checks the item of the plan for the purpose.
func (c planCase) run(t *testing.T, platformOffer dns.Offer, domain string, purpose dns.Purpose) {
	t.Helper()
	read := reliableRead(c.sets...)
	read.Domain = domain
	if c.referenced != nil {
		c.referenced(&read.Referenced)
	}
	plan := dns.NewPlan(platformOffer, read, c.managed)
	got := itemFor(t, plan, purpose)
	want := dns.Item{Purpose: purpose, Action: c.action, Reason: c.reason, Blocking: c.blocking, Optional: c.optional, Notes: c.notes,
		Type: got.Type, Name: got.Name, Desired: got.Desired, Observed: got.Observed}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the item (-want +got):\n%s", diff)
	}
	if plan.SafeToApply() == c.blocking && !otherItemsBlock(plan, purpose) {
		t.Errorf("SafeToApply returns %t, want %t", plan.SafeToApply(), !c.blocking)
	}
	values := valuesAfter(plan, read, got.Name, got.Type)
	if diff := cmp.Diff(c.after, values); diff != "" {
		t.Errorf("the values after the plan (-want +got):\n%s", diff)
	}
	if c.action == dns.Create || c.action == dns.Update {
		if !slices.Contains(values, got.Desired) {
			t.Errorf("after the plan, %q is missing from %q", got.Desired, values)
		}
	}
	if len(got.Reason.Explain()) < 20 {
		t.Errorf("the reason %s is explained by %q, want at least 20 characters", got.Reason, got.Reason.Explain())
	}
}

func otherItemsBlock(plan dns.Plan, except dns.Purpose) bool {
	return slices.ContainsFunc(plan.Blocking(), func(item dns.Item) bool { return item.Purpose != except })
}

// The targets that the platform specifies for the DKIM selectors of a.test.
const (
	target1 = "selector1-a-test01i._domainkey.t.n-v1.dkim.mail.microsoft"
	target2 = "selector2-a-test01i._domainkey.t.n-v1.dkim.mail.microsoft"
)

var (
	signing = dns.Signing{
		Selector1: dns.Record{Type: dns.CNAME, Name: "selector1._domainkey.a.test", Content: target1},
		Selector2: dns.Record{Type: dns.CNAME, Name: "selector2._domainkey.a.test", Content: target2},
	}
	ownershipRecords = []dns.Record{
		{Type: dns.MX, Name: "a.test", Content: "ms1.msv1.invalid", Preference: 32767},
		{Type: dns.TXT, Name: "a.test", Content: ownershipText},
	}
)

// readOf returns an incomplete read of a.test with these record sets.
func readOf(sets ...dns.RRSet) dns.ZoneRead { return dns.ZoneRead{Domain: "a.test", Sets: sets} }

func rrset(name string, recordType dns.Type, values ...string) dns.RRSet {
	return dns.RRSet{Name: name, Type: recordType, Values: values}
}

func fromWildcard(s dns.RRSet) dns.RRSet {
	s.Synthesised = true
	return s
}

// veiled marks the record sets as sets that the provider proxies or flattens.
func veiled(sets []dns.RRSet) []dns.RRSet {
	for i := range sets {
		sets[i].Veiled = true
	}
	return sets
}

// platformInclude is the term of an SPF record that lets the platform send.
const platformInclude = "include:" + platformSPF

// offerWithoutOwnership returns offer without ownership records, so that the SPF record is the only
// TXT record that the platform specifies at a.test.
func offerWithoutOwnership() dns.Offer {
	withoutOwnership := offer()
	withoutOwnership.Verification = nil
	return withoutOwnership
}

// spfRecords returns the TXT records at a.test.
func spfRecords(texts ...string) []dns.RRSet { return []dns.RRSet{rrset("a.test", dns.TXT, texts...)} }

func withTTL(seconds int, s dns.RRSet) dns.RRSet {
	s.TTL = seconds
	return s
}
