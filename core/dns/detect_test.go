// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/dns"
)

var (
	cloud = dns.Provider{ID: "cloudflare", Title: "Cloudflare", NameServers: []string{"*.ns.cloudflare.com", "*.foundationdns.net"}}
	small = dns.Provider{ID: "small", NameServers: []string{"ns1.small.test", "NS2.Small.test."}}
	// inside has its servers below a name that another provider's pattern covers.
	inside = dns.Provider{ID: "inside", Title: "Inside", NameServers: []string{"*.deep.ns.cloudflare.com"}}
	own    = dns.Provider{ID: "powerdns", Title: "PowerDNS"}
)

func TestDetect(t *testing.T) {
	for _, tt := range []struct {
		name       string
		delegation []string
		want       dns.Detection
	}{
		{"by the end of the names", []string{"ada.ns.cloudflare.com", "bob.ns.cloudflare.com"}, dns.Detection{Provider: cloud, Title: "Cloudflare"}},
		{"in capitals, with the final dot", []string{"ADA.NS.Cloudflare.com."}, dns.Detection{Provider: cloud, Title: "Cloudflare"}},
		{"by several patterns of one", []string{"ada.ns.cloudflare.com", "x.foundationdns.net"}, dns.Detection{Provider: cloud, Title: "Cloudflare"}},
		{"by whole names, called by its id", []string{"ns1.small.test", "ns2.small.test"}, dns.Detection{Provider: small, Title: "small"}},
		{"the longest pattern decides", []string{"a.deep.ns.cloudflare.com"}, dns.Detection{Provider: inside, Title: "Inside"}},
		{"two providers", []string{"ada.ns.cloudflare.com", "ns1.small.test"}, dns.Detection{Reason: "multi_provider"}},
		{"one with and one without a plugin", []string{"ada.ns.cloudflare.com", "ns1.other.test"}, dns.Detection{Reason: "multi_provider"}},
		{"the other way round", []string{"ns1.other.test", "ada.ns.cloudflare.com"}, dns.Detection{Reason: "multi_provider"}},
		{"none with a plugin", []string{"ns02.domaincontrol.com", "ns01.domaincontrol.com"}, dns.Detection{Title: "domaincontrol.com", Reason: "unsupported"}},
		{"none with a plugin, under several top levels", []string{"ns-9.awsdns-01.org", "ns-8.awsdns-02.co.uk"}, dns.Detection{Title: "awsdns-02.co.uk", Reason: "unsupported"}},
		{"a name that nobody can register", []string{"com"}, dns.Detection{Title: "com", Reason: "unsupported"}},
		{"the pattern's own name", []string{"ns.cloudflare.com"}, dns.Detection{Title: "cloudflare.com", Reason: "unsupported"}},
		{"a name that only ends alike", []string{"ada.xns.cloudflare.com"}, dns.Detection{Title: "cloudflare.com", Reason: "unsupported"}},
		{"no delegation", nil, dns.Detection{Reason: "unknown"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := dns.Detect(dns.Sight{Delegation: tt.delegation}, []dns.Provider{cloud, small, inside, own})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

// A pattern that is none must never make a provider everyone's.
func TestDetectWithPatternsThatAreNone(t *testing.T) {
	for _, pattern := range []string{"", "*", ".", "*.", "*com", "ns*.small.test"} {
		p := dns.Provider{ID: "greedy", NameServers: []string{pattern}}
		if got := dns.Detect(dns.Sight{Delegation: []string{"ns1.small.com"}}, []dns.Provider{p}); got.Provider.ID != "" {
			t.Errorf("%q: got %+v", pattern, got)
		}
	}
}

func TestDetectDoesNotDependOnOrder(t *testing.T) {
	hosts := []string{"ada.ns.cloudflare.com", "ns1.small.test", "a.deep.ns.cloudflare.com", "ns1.other.test", "ns2.other.net"}
	rapid.Check(t, func(t *rapid.T) {
		providers := []dns.Provider{cloud, small, inside, own}
		delegation := rapid.SliceOfDistinct(rapid.SampledFrom(hosts), rapid.ID).Draw(t, "delegation")
		turned := rapid.Permutation(delegation).Draw(t, "turned delegation")
		others := rapid.Permutation(providers).Draw(t, "turned providers")
		a, b := dns.Detect(dns.Sight{Delegation: delegation}, providers), dns.Detect(dns.Sight{Delegation: turned}, others)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestNameServersOfASight(t *testing.T) {
	s := dns.Sight{Servers: []dns.Server{
		{Name: "ns1.test", State: dns.ServerOK, Agrees: true}, {Name: "ns2.test", State: dns.ServerOK},
		{Name: "ns3.test", State: dns.ServerBlocked}, {Name: "ns4.test", State: dns.ServerUnreachable},
	}}
	if got := s.Asked(); got != 3 {
		t.Errorf("asked %d", got)
	}
	if got := s.Agreeing(); got != 1 {
		t.Errorf("agreeing %d", got)
	}
}
