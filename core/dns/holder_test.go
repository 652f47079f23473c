// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/dns"
)

var (
	cloudflare    = dns.Provider{ID: "cloudflare", Title: "Cloudflare", NameServers: []string{"*.ns.cloudflare.com", "*.foundationdns.net"}}
	smallProvider = dns.Provider{ID: "small", NameServers: []string{"ns1.small.test", "NS2.Small.test."}}
	// nestedProvider has its servers below a name that another provider's pattern covers.
	nestedProvider = dns.Provider{ID: "inside", Title: "Inside", NameServers: []string{"*.deep.ns.cloudflare.com"}}
	powerDNS       = dns.Provider{ID: "powerdns", Title: "PowerDNS"}
)

func TestDetectNamesTheProviderOfTheNameServers(t *testing.T) {
	for _, tt := range []struct {
		name       string
		delegation []string
		want       dns.Detection
	}{
		{"by the suffix", []string{"ada.ns.cloudflare.com", "bob.ns.cloudflare.com"}, dns.Detection{Provider: cloudflare, Title: "Cloudflare"}},
		{"in capitals, with the final dot", []string{"ADA.NS.Cloudflare.com."}, dns.Detection{Provider: cloudflare, Title: "Cloudflare"}},
		{"by several patterns of one provider", []string{"ada.ns.cloudflare.com", "x.foundationdns.net"}, dns.Detection{Provider: cloudflare, Title: "Cloudflare"}},
		{"by whole names, with the id as title", []string{"ns1.small.test", "ns2.small.test"}, dns.Detection{Provider: smallProvider, Title: "small"}},
		{"the longest pattern decides", []string{"a.deep.ns.cloudflare.com"}, dns.Detection{Provider: nestedProvider, Title: "Inside"}},
		{"two providers", []string{"ada.ns.cloudflare.com", "ns1.small.test"}, dns.Detection{Reason: "multi_provider"}},
		{"one with and one without a plugin", []string{"ada.ns.cloudflare.com", "ns1.other.test"}, dns.Detection{Reason: "multi_provider"}},
		{"one without and one with a plugin", []string{"ns1.other.test", "ada.ns.cloudflare.com"}, dns.Detection{Reason: "multi_provider"}},
		{"no plugin", []string{"ns02.domaincontrol.com", "ns01.domaincontrol.com"}, dns.Detection{Title: "domaincontrol.com", Reason: "unsupported"}},
		{"no plugin, several top levels", []string{"ns-9.awsdns-01.org", "ns-8.awsdns-02.co.uk"}, dns.Detection{Title: "awsdns-02.co.uk", Reason: "unsupported"}},
		{"a top-level name", []string{"com"}, dns.Detection{Title: "com", Reason: "unsupported"}},
		{"the pattern's own name", []string{"ns.cloudflare.com"}, dns.Detection{Title: "cloudflare.com", Reason: "unsupported"}},
		{"a name with only a similar suffix", []string{"ada.xns.cloudflare.com"}, dns.Detection{Title: "cloudflare.com", Reason: "unsupported"}},
		{"no delegation", nil, dns.Detection{Reason: "unknown"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := dns.Detect(dns.ZoneRead{Delegation: tt.delegation}, []dns.Provider{cloudflare, smallProvider, nestedProvider, powerDNS})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

// An invalid pattern must never match all name servers.
func TestDetectIgnoresInvalidPatterns(t *testing.T) {
	for _, pattern := range []string{"", "*", ".", "*.", "*com", "ns*.small.test"} {
		p := dns.Provider{ID: "greedy", NameServers: []string{pattern}}
		if got := dns.Detect(dns.ZoneRead{Delegation: []string{"ns1.small.com"}}, []dns.Provider{p}); got.Provider.ID != "" {
			t.Errorf("%q: got %+v", pattern, got)
		}
	}
}

func TestDetectDoesNotDependOnOrder(t *testing.T) {
	hosts := []string{"ada.ns.cloudflare.com", "ns1.small.test", "a.deep.ns.cloudflare.com", "ns1.other.test", "ns2.other.net"}
	rapid.Check(t, func(t *rapid.T) {
		providers := []dns.Provider{cloudflare, smallProvider, nestedProvider, powerDNS}
		delegation := rapid.SliceOfDistinct(rapid.SampledFrom(hosts), rapid.ID).Draw(t, "delegation")
		shuffled := rapid.Permutation(delegation).Draw(t, "turned delegation")
		shuffledProviders := rapid.Permutation(providers).Draw(t, "turned providers")
		a, b := dns.Detect(dns.ZoneRead{Delegation: delegation}, providers), dns.Detect(dns.ZoneRead{Delegation: shuffled}, shuffledProviders)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatal(diff)
		}
	})
}

var cloudServers = []string{"ada.ns.cloudflare.com", "bob.ns.cloudflare.com"}

func access(provider string, standing dns.Standing, servers ...string) dns.Access {
	return dns.Access{Provider: provider, Standing: standing, Zone: dns.Zone{Name: "a.test", NameServers: servers}}
}

func refusedFor(provider, why string) dns.Access {
	a := access(provider, dns.SettingsRefused)
	a.Detail = why
	return a
}

func idle(a dns.Access, why string) dns.Access {
	a.Zone.Idle = why
	return a
}

func TestFindHolderPrefersTheConnectionOfTheZone(t *testing.T) {
	const reaches, silent, rejected, unreached = dns.ReachesZone, dns.ProviderSilent, dns.ProviderRefuses, dns.ZoneUnreached
	vanity, foreign := []string{"ns1.a.test", "ns2.a.test"}, []string{"ns1.other.test"}
	for _, tt := range []struct {
		name       string
		delegation []string
		all        []dns.Access
		provider   string
		standing   dns.Standing
	}{
		{"by the servers' names, without a connection", cloudServers, nil, "cloudflare", dns.NoConnection},
		{"with a connection that reaches it", cloudServers, []dns.Access{access("cloudflare", reaches, "BOB.ns.cloudflare.com.", "ada.ns.cloudflare.com")}, "cloudflare", reaches},
		{"the connection that reaches it, of several to one provider", cloudServers,
			[]dns.Access{access("cloudflare", unreached), access("cloudflare", silent), access("cloudflare", reaches, cloudServers...)}, "cloudflare", reaches},
		{"another zone of the name at the same provider", cloudServers, []dns.Access{access("cloudflare", reaches, "x.ns.cloudflare.com", "y.ns.cloudflare.com")}, "cloudflare", dns.ReachesElsewhere},
		{"a server more than the delegation", cloudServers, []dns.Access{access("cloudflare", reaches, append(cloudServers, "z.ns.cloudflare.com")...)}, "cloudflare", dns.ReachesElsewhere},
		{"the right servers, and idle", cloudServers, []dns.Access{idle(access("cloudflare", reaches, cloudServers...), "paused")}, "cloudflare", dns.ReachesIdle},
		{"by a connection, with vanity name servers", vanity, []dns.Access{access("powerdns", reaches, vanity...)}, "powerdns", reaches},
		{"a connection takes precedence over the names", cloudServers, []dns.Access{access("powerdns", reaches, cloudServers...)}, "powerdns", reaches},
		{"a detectable provider with vanity name servers", vanity, []dns.Access{access("cloudflare", reaches, vanity...)}, "cloudflare", reaches},
		{"several providers, and a connection that reaches all", append(cloudServers, vanity...), []dns.Access{access("powerdns", reaches, append(cloudServers, vanity...)...)}, "powerdns", reaches},
		{"a zone without servers", vanity, []dns.Access{access("powerdns", reaches)}, "", dns.ReachesElsewhere},
		{"moved away from a connection's provider", foreign, []dns.Access{idle(access("cloudflare", reaches, cloudServers...), "moved")}, "", dns.ReachesIdle},
		{"a silent provider comes before a rejected credential", cloudServers, []dns.Access{access("cloudflare", unreached), access("cloudflare", rejected), access("cloudflare", silent)}, "cloudflare", silent},
		{"a rejected credential comes before an idle zone", cloudServers, []dns.Access{idle(access("cloudflare", reaches), "moved"), access("cloudflare", rejected)}, "cloudflare", rejected},
		{"problems of a different provider do not matter", cloudServers, []dns.Access{access("powerdns", silent), access("cloudflare", unreached)}, "cloudflare", unreached},
		{"nor problems of a provider with known name servers", foreign, []dns.Access{access("cloudflare", silent), access("cloudflare", rejected)}, "", dns.NoConnection},
		{"a silent provider without patterns may hold the zone", foreign, []dns.Access{access("powerdns", silent)}, "", silent},
		{"a provider without patterns that does not have the zone", foreign, []dns.Access{access("powerdns", unreached)}, "", dns.NoConnection},
		{"no delegation", nil, []dns.Access{access("powerdns", unreached)}, "", dns.NoConnection},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := dns.FindHolder(dns.ZoneRead{Zone: "a.test", Delegation: tt.delegation}, []dns.Provider{cloudflare, powerDNS}, tt.all)
			if h.Provider.ID != tt.provider || h.Access.Standing != tt.standing {
				t.Fatalf("got %q, %q, want %q, %q", h.Provider.ID, h.Access.Standing, tt.provider, tt.standing)
			}
			if (tt.standing == dns.ReachesZone) != (h.Access.Zone.Name != "" && h.Access.Standing == dns.ReachesZone) {
				t.Fatalf("got %+v", h)
			}
		})
	}
}

func TestAutomationNamesTheRequiredAction(t *testing.T) {
	foreign := set("a.test", dns.MX, "1 aspmx.l.google.com")
	good := access("cloudflare", dns.ReachesZone, cloudServers...)
	for _, tt := range []struct {
		name       string
		delegation []string
		all        []dns.Access
		sets       []dns.RRSet
		reason     string
		required   dns.ActionRequired
		connected  bool
		says       string
	}{
		{"ready", cloudServers, []dns.Access{good}, nil, "", "", true, "written at Cloudflare"},
		{"no connection", cloudServers, nil, nil, "", "dns_connection_required", false, "Cloudflare"},
		{"a connection that does not reach it", cloudServers, []dns.Access{access("cloudflare", dns.ZoneUnreached)}, nil, "", "dns_connection_required", true, "a.test"},
		{"another zone of the name", cloudServers, []dns.Access{access("cloudflare", dns.ReachesZone, "x.ns.cloudflare.com")}, nil, "", "dns_connection_required", true, "x.ns.cloudflare.com"},
		{"an idle zone", cloudServers, []dns.Access{idle(good, "paused")}, nil, "", "dns_connection_required", true, "paused"},
		{"a rejected credential", cloudServers, []dns.Access{access("cloudflare", dns.ProviderRefuses)}, nil, "", "dns_credential_rejected", true, "Cloudflare"},
		{"rejected settings", cloudServers, []dns.Access{refusedFor("cloudflare", "no public address")}, nil, "", "dns_connection_required", true,
			"connection to Cloudflare are rejected (no public address). Replace"},
		{"a zone that is too large", cloudServers, []dns.Access{access("cloudflare", dns.AnswerTooLarge)}, nil, "provider_unavailable", "dns_read_unreliable", true, "data at Cloudflare is too large"},
		{"a conflict", cloudServers, []dns.Access{good}, []dns.RRSet{foreign}, "", "dns_conflict", true, "MX at a.test: Mail for the domain goes to another provider"},
		{"a conflict in an unreliable read", cloudServers, []dns.Access{good}, []dns.RRSet{foreign}, "servers_disagree", "dns_read_unreliable", true, "servers_disagree"},
		{"only recursive resolvers", cloudServers, []dns.Access{good}, nil, "recursive_only", "dns_read_unreliable", true, "only through recursive resolvers"},
		{"a silent provider", cloudServers, []dns.Access{access("cloudflare", dns.ProviderSilent)}, nil, "provider_unavailable", "dns_read_unreliable", true, "does not respond"},
		{"a missing connection comes before an unreliable read", cloudServers, nil, nil, "servers_disagree", "dns_connection_required", false, "Cloudflare"},
		{"no plugin", []string{"ns01.domaincontrol.com"}, nil, nil, "", "dns_provider_unsupported", false, "domaincontrol.com"},
		{"no plugin, and an unreliable read", []string{"ns01.domaincontrol.com"}, nil, nil, "servers_disagree", "dns_provider_unsupported", false, "domaincontrol.com"},
		{"several providers", append([]string{"ns01.domaincontrol.com"}, cloudServers...), nil, nil, "", "dns_provider_unsupported", false, "several providers"},
		{"a zone that waits for its delegation", []string{"ns01.domaincontrol.com"}, []dns.Access{idle(good, "pending")}, nil, "", "dns_provider_unsupported", false, "pending"},
		{"not delegated", nil, nil, nil, "not_delegated", "dns_read_unreliable", false, "not_delegated"},
		{"a silent provider without patterns", []string{"ns1.a.test"}, []dns.Access{access("powerdns", dns.ProviderSilent)}, nil, "provider_unavailable", "dns_read_unreliable", false, "PowerDNS, to which the account has a connection, does not respond"},
		{"a rejected credential of a provider without patterns", []string{"ns1.a.test"}, []dns.Access{access("powerdns", dns.ProviderRefuses)}, nil, "", "dns_credential_rejected", false, "PowerDNS no longer accepts the credential"},
		{"rejected settings of a provider without patterns", []string{"ns1.a.test"}, []dns.Access{refusedFor("powerdns", "")}, nil, "", "dns_connection_required", false,
			"connection to PowerDNS are rejected, so it is not known"},
		{"a zone that is too large, of a provider without patterns", []string{"ns1.a.test"}, []dns.Access{access("powerdns", dns.AnswerTooLarge)}, nil, "provider_unavailable", "dns_read_unreliable", false, "data at PowerDNS is too large"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := reliable(tt.sets...)
			s.Delegation, s.Complete, s.Reason = tt.delegation, tt.reason == "", tt.reason
			h := dns.FindHolder(s, []dns.Provider{cloudflare, powerDNS}, tt.all)
			p := dns.NewPlan(offer(), s, nil)
			got := h.Automate(s, p)
			if got.Required != tt.required || got.Connected != tt.connected || got.Safe != p.SafeToApply() || got.Provider.ID != h.Provider.ID {
				t.Fatalf("got %+v", got)
			}
			if !strings.Contains(got.Message, tt.says) {
				t.Fatalf("the message is %q", got.Message)
			}
		})
	}
}

func TestAutomationWithoutChanges(t *testing.T) {
	first := reliable()
	sets := []dns.RRSet{}
	for _, c := range dns.NewPlan(offer(), first, nil).Changes {
		sets = append(sets, c.After)
	}
	s := reliable(sets...)
	s.Delegation = cloudServers
	h := dns.FindHolder(s, []dns.Provider{cloudflare}, []dns.Access{access("cloudflare", dns.ReachesZone, cloudServers...)})
	if got := h.Automate(s, dns.NewPlan(offer(), s, nil)); got.Required != "" || !got.Safe || !strings.Contains(got.Message, "No records") {
		t.Fatalf("got %+v", got)
	}
}
