// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/ports"
)

// ProviderWorld is a DNS provider, reached by a connection, and what its owner
// does by hand meanwhile.
type ProviderWorld interface {
	// Provider is what the suite examines; Refused is the same with a
	// credential that the provider does not take.
	Provider() ports.DNSProvider
	Refused() ports.DNSProvider
	// NewZone makes a zone that no other check uses, with SOA and NS.
	NewZone(t testing.TB) string
	// Put makes a set of the zone hold exactly its values, or none, past
	// the adapter.
	Put(t testing.TB, zone string, s dns.RRSet)
	// Held is what the zone holds beside SOA and NS, seen past the adapter.
	Held(t testing.TB, zone string) []dns.RRSet
	// Lose makes the changing call of the next Apply end without an answer:
	// with LosesRequest it never gets there, with LosesAnswer it is done.
	Lose(t testing.TB, how Failure)
}

type providerCheck struct {
	name string
	run  func(t testing.TB, w ProviderWorld)
}

// DNSProvider runs the contract of ports.DNSProvider. open returns a world; it
// may be the same one each time, as checks do not share zones.
func DNSProvider(t *testing.T, open func(testing.TB) ProviderWorld) {
	for _, c := range providerChecks() {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

func providerChecks() []providerCheck {
	var all []providerCheck
	all = append(all, zoneReadChecks...)
	all = append(all, zoneWriteChecks...)
	return append(all, zoneMovedChecks...)
}

func of(name string, kind dns.Type, ttl int, values ...string) dns.RRSet {
	return dns.RRSet{Name: name, Type: kind, TTL: ttl, Values: values}
}

// mail is a zone with a past, none of which we wrote.
func mail(zone string) []dns.RRSet {
	return []dns.RRSet{
		of(zone, dns.MX, 600, "10 mx1.old.example", "20 mx2.old.example"),
		of(zone, dns.TXT, 900, "v=spf1 include:old.example ~all", `site="verify" \ ; done`),
		of("long."+zone, dns.TXT, 300, strings.Repeat("k=rsa; p=", 40)),
		of("vendor."+zone, dns.CNAME, 300, "target.vendor.example"),
		of("www."+zone, "A", 300, "192.0.2.7"),
	}
}

func find(t testing.TB, p ports.DNSProvider, name string) dns.Zone {
	t.Helper()
	z, err := p.Zone(call(t), name)
	must(t, "find the zone "+name, err)
	return z
}

func sorted(sets []dns.RRSet) []dns.RRSet {
	out := append([]dns.RRSet{}, sets...)
	for i := range out {
		out[i].Values = slices.Sorted(slices.Values(out[i].Values))
	}
	slices.SortFunc(out, func(a, b dns.RRSet) int {
		return strings.Compare(a.Name+" "+string(a.Type), b.Name+" "+string(b.Type))
	})
	return out
}

// inZone checks all that the zone holds, TTLs too.
func inZone(t testing.TB, w ProviderWorld, zone string, want ...dns.RRSet) {
	t.Helper()
	if diff := cmp.Diff(sorted(want), sorted(w.Held(t, zone))); diff != "" {
		t.Fatalf("the zone (-want +held):\n%s", diff)
	}
}

// moved checks for the one refusal of a zone that changed.
func moved(t testing.TB, what string, err error) {
	t.Helper()
	if !dns.IsChanged(err) {
		t.Fatalf("%s: got %v, want a changed zone", what, err)
	}
}
