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
	// The name servers of nestedProvider also match a shorter pattern of cloudflare.
	nestedProvider = dns.Provider{ID: "inside", Title: "Inside", NameServers: []string{"*.deep.ns.cloudflare.com"}}
	powerDNS       = dns.Provider{ID: "powerdns", Title: "PowerDNS"}
)

func TestDetectNamesTheProviderOfTheNameServers(t *testing.T) {
	for _, tc := range []struct {
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
		{"first a provider with a plugin, then one without", []string{"ada.ns.cloudflare.com", "ns1.other.test"}, dns.Detection{Reason: "multi_provider"}},
		{"first a provider without a plugin, then one with", []string{"ns1.other.test", "ada.ns.cloudflare.com"}, dns.Detection{Reason: "multi_provider"}},
		{"no plugin", []string{"ns02.domaincontrol.com", "ns01.domaincontrol.com"}, dns.Detection{Title: "domaincontrol.com", Reason: "unsupported"}},
		{"no plugin, several top levels", []string{"ns-9.awsdns-01.org", "ns-8.awsdns-02.co.uk"}, dns.Detection{Title: "awsdns-02.co.uk", Reason: "unsupported"}},
		{"a top-level name", []string{"com"}, dns.Detection{Title: "com", Reason: "unsupported"}},
		{"the domain of a pattern, without a label before it", []string{"ns.cloudflare.com"}, dns.Detection{Title: "cloudflare.com", Reason: "unsupported"}},
		{"a name with only a similar suffix", []string{"ada.xns.cloudflare.com"}, dns.Detection{Title: "cloudflare.com", Reason: "unsupported"}},
		{"no delegation", nil, dns.Detection{Reason: "unknown"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := dns.Detect(dns.ZoneRead{Delegation: tc.delegation}, []dns.Provider{cloudflare, smallProvider, nestedProvider, powerDNS})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

// TestDetectDoesNotCallAProviderUnsupportedWhileAPluginIsDown checks the detection while a plugin
// has not described itself. Name servers that match no described provider may belong to this
// plugin's provider, so they are not reported as unsupported. A described provider is still
// detected.
func TestDetectDoesNotCallAProviderUnsupportedWhileAPluginIsDown(t *testing.T) {
	providers := []dns.Provider{cloudflare, {ID: "small", Undescribed: true}}
	for server, want := range map[string]dns.Detection{
		"ns1.small.test":        {Reason: "undescribed"},
		"ada.ns.cloudflare.com": {Provider: cloudflare, Title: "Cloudflare"},
	} {
		if diff := cmp.Diff(want, dns.Detect(dns.ZoneRead{Delegation: []string{server}}, providers)); diff != "" {
			t.Errorf("%s: %s", server, diff)
		}
	}
	read := reliableRead()
	read.Delegation = []string{"ns1.small.test"}
	idleZone := inIdleZone(access("cloudflare", dns.ZoneAccessible, cloudServers...), "moved")
	for _, accesses := range [][]dns.Access{nil, {idleZone}} {
		got := dns.FindHolder(read, providers, accesses).Automate(read, dns.NewPlan(offer(), read, nil))
		if got.Required != "dns_read_unreliable" || got.Provider.ID != "" || !strings.Contains(got.Message, "does not run") {
			t.Errorf("with the accesses %v: got %+v, want dns_read_unreliable without a provider", accesses, got)
		}
	}
}

func TestDetectIgnoresInvalidPatterns(t *testing.T) {
	for _, pattern := range []string{"", "*", ".", "*.", "*com", "ns*.small.com", "*.com", "*.COM.", "*.co.uk", "com", "ns1.small.com "} {
		p := dns.Provider{ID: "greedy", NameServers: []string{pattern}}
		for _, host := range []string{"ns1.small.com", "ns1.small.co.uk", "com"} {
			if got := dns.Detect(dns.ZoneRead{Delegation: []string{host}}, []dns.Provider{p}); got.Provider.ID != "" {
				t.Errorf("the pattern %q matches the name server %s: got %+v", pattern, host, got)
			}
		}
	}
}

func TestDetectDoesNotDependOnOrder(t *testing.T) {
	hosts := []string{"ada.ns.cloudflare.com", "ns1.small.test", "a.deep.ns.cloudflare.com", "ns1.other.test", "ns2.other.net"}
	rapid.Check(t, func(t *rapid.T) {
		providers := []dns.Provider{cloudflare, smallProvider, nestedProvider, powerDNS}
		delegation := rapid.SliceOfDistinct(rapid.SampledFrom(hosts), rapid.ID).Draw(t, "delegation")
		shuffled := rapid.Permutation(delegation).Draw(t, "shuffled delegation")
		shuffledProviders := rapid.Permutation(providers).Draw(t, "shuffled providers")
		original, afterShuffle := dns.Detect(dns.ZoneRead{Delegation: delegation}, providers), dns.Detect(dns.ZoneRead{Delegation: shuffled}, shuffledProviders)
		if diff := cmp.Diff(original, afterShuffle); diff != "" {
			t.Fatal(diff)
		}
	})
}

var cloudServers = []string{"ada.ns.cloudflare.com", "bob.ns.cloudflare.com"}

// access returns an account's access to the zone a.test at a provider.
func access(provider string, standing dns.Standing, servers ...string) dns.Access {
	return dns.Access{Provider: provider, Standing: standing, Zone: dns.Zone{Name: "a.test", NameServers: servers}}
}

// withRefusedSettings returns the access of a connection whose settings are rejected.
func withRefusedSettings(provider, detail string) dns.Access {
	refused := access(provider, dns.SettingsRefused)
	refused.Detail = detail
	return refused
}

// inIdleZone returns the access to a zone that its provider does not publish.
func inIdleZone(a dns.Access, reason string) dns.Access {
	a.Zone.Idle = reason
	return a
}

func TestFindHolderPrefersTheConnectionOfTheZone(t *testing.T) {
	const accessible, silent, rejected, inaccessible = dns.ZoneAccessible, dns.ProviderSilent, dns.ProviderRefuses, dns.ZoneInaccessible
	vanityServers, foreignServers := []string{"ns1.a.test", "ns2.a.test"}, []string{"ns1.other.test"}
	for _, tc := range []struct {
		name         string
		delegation   []string
		accesses     []dns.Access
		wantProvider string
		wantStanding dns.Standing
	}{
		{"the provider of the servers' names, without a connection", cloudServers, nil, "cloudflare", dns.NoConnection},
		{"a connection with access to the zone", cloudServers, []dns.Access{access("cloudflare", accessible, "BOB.ns.cloudflare.com.", "ada.ns.cloudflare.com")}, "cloudflare", accessible},
		{"several connections, and one has access to the zone", cloudServers,
			[]dns.Access{access("cloudflare", inaccessible), access("cloudflare", silent), access("cloudflare", accessible, cloudServers...)}, "cloudflare", accessible},
		{"a connection to another zone of the same name", cloudServers, []dns.Access{access("cloudflare", accessible, "x.ns.cloudflare.com", "y.ns.cloudflare.com")}, "cloudflare", dns.ZoneDelegatedElsewhere},
		{"a zone with more servers than the delegation", cloudServers, []dns.Access{access("cloudflare", accessible, append(cloudServers, "z.ns.cloudflare.com")...)}, "cloudflare", dns.ZoneDelegatedElsewhere},
		{"an idle zone with the servers of the delegation", cloudServers, []dns.Access{inIdleZone(access("cloudflare", accessible, cloudServers...), "paused")}, "cloudflare", dns.ZoneIdle},
		{"a connection to a zone with vanity name servers", vanityServers, []dns.Access{access("powerdns", accessible, vanityServers...)}, "powerdns", accessible},
		{"a connection takes precedence over the names of the servers", cloudServers, []dns.Access{access("powerdns", accessible, cloudServers...)}, "powerdns", accessible},
		{"a detectable provider with vanity name servers", vanityServers, []dns.Access{access("cloudflare", accessible, vanityServers...)}, "cloudflare", accessible},
		{"a delegation to the servers of a connection's zone, which belong to several providers", append(cloudServers, vanityServers...), []dns.Access{access("powerdns", accessible, append(cloudServers, vanityServers...)...)}, "powerdns", accessible},
		{"a zone whose provider lists no name servers", vanityServers, []dns.Access{access("powerdns", accessible)}, "", dns.ZoneDelegatedElsewhere},
		{"a zone that moved away from the connection's provider", foreignServers, []dns.Access{inIdleZone(access("cloudflare", accessible, cloudServers...), "moved")}, "", dns.ZoneIdle},
		{"a silent provider comes before a rejected credential", cloudServers, []dns.Access{access("cloudflare", inaccessible), access("cloudflare", rejected), access("cloudflare", silent)}, "cloudflare", silent},
		{"a rejected credential comes before an idle zone", cloudServers, []dns.Access{inIdleZone(access("cloudflare", accessible), "moved"), access("cloudflare", rejected)}, "cloudflare", rejected},
		{"a connection to a different provider does not matter", cloudServers, []dns.Access{access("powerdns", silent), access("cloudflare", inaccessible)}, "cloudflare", inaccessible},
		{"a connection to a provider with different name servers does not matter", foreignServers, []dns.Access{access("cloudflare", silent), access("cloudflare", rejected)}, "", dns.NoConnection},
		{"a silent provider without patterns may hold the zone", foreignServers, []dns.Access{access("powerdns", silent)}, "", silent},
		{"a provider without patterns, where the credential has no access to the zone", foreignServers, []dns.Access{access("powerdns", inaccessible)}, "", dns.NoConnection},
		{"no delegation", nil, []dns.Access{access("powerdns", inaccessible)}, "", dns.NoConnection},
	} {
		t.Run(tc.name, func(t *testing.T) {
			holder := dns.FindHolder(dns.ZoneRead{Zone: "a.test", Delegation: tc.delegation}, []dns.Provider{cloudflare, powerDNS}, tc.accesses)
			if holder.Provider.ID != tc.wantProvider || holder.Access.Standing != tc.wantStanding {
				t.Fatalf("got %q, %q, want %q, %q", holder.Provider.ID, holder.Access.Standing, tc.wantProvider, tc.wantStanding)
			}
			if tc.wantStanding == dns.ZoneAccessible && holder.Access.Zone.Name == "" {
				t.Fatalf("got %+v, want a holder with the zone", holder)
			}
		})
	}
}

func TestAutomationNamesTheRequiredAction(t *testing.T) {
	foreignMX := rrset("a.test", dns.MX, "1 aspmx.l.google.com")
	zoneAccess := access("cloudflare", dns.ZoneAccessible, cloudServers...)
	for _, tc := range []struct {
		name          string
		delegation    []string
		accesses      []dns.Access
		sets          []dns.RRSet
		readReason    string
		wantRequired  dns.ActionRequired
		wantConnected bool
		wantMessage   string
	}{
		{"a plan that can be written", cloudServers, []dns.Access{zoneAccess}, nil, "", "", true, "written at Cloudflare"},
		{"no connection", cloudServers, nil, nil, "", "dns_connection_required", false, "Cloudflare"},
		{"a connection that does not reach the zone", cloudServers, []dns.Access{access("cloudflare", dns.ZoneInaccessible)}, nil, "", "dns_connection_required", true, "a.test"},
		{"a connection to another zone of the same name", cloudServers, []dns.Access{access("cloudflare", dns.ZoneAccessible, "x.ns.cloudflare.com")}, nil, "", "dns_connection_required", true, "x.ns.cloudflare.com"},
		{"an idle zone", cloudServers, []dns.Access{inIdleZone(zoneAccess, "paused")}, nil, "", "dns_connection_required", true, "paused"},
		{"a rejected credential", cloudServers, []dns.Access{access("cloudflare", dns.ProviderRefuses)}, nil, "", "dns_credential_rejected", true, "Cloudflare"},
		{"rejected settings", cloudServers, []dns.Access{withRefusedSettings("cloudflare", "no public address")}, nil, "", "dns_connection_required", true,
			"connection to Cloudflare are rejected (no public address). Replace"},
		{"a zone that is too large", cloudServers, []dns.Access{access("cloudflare", dns.AnswerTooLarge)}, nil, "provider_unavailable", "dns_read_unreliable", true, "data at Cloudflare is too large"},
		{"a conflict", cloudServers, []dns.Access{zoneAccess}, []dns.RRSet{foreignMX}, "", "dns_conflict", true, "MX at a.test: Mail for the domain goes to another provider"},
		{"a conflict in an unreliable read", cloudServers, []dns.Access{zoneAccess}, []dns.RRSet{foreignMX}, "servers_disagree", "dns_read_unreliable", true, "servers_disagree"},
		{"only recursive resolvers", cloudServers, []dns.Access{zoneAccess}, nil, "recursive_only", "dns_read_unreliable", true, "only through recursive resolvers"},
		{"a silent provider", cloudServers, []dns.Access{access("cloudflare", dns.ProviderSilent)}, nil, "provider_unavailable", "dns_read_unreliable", true, "gave no usable answer"},
		{"a provider whose name servers are behind", cloudServers, []dns.Access{zoneAccess}, nil, "provider_ahead", "dns_read_unreliable", true, "differ from those that its name servers return. Try again in a few minutes."},
		{"a missing connection comes before an unreliable read", cloudServers, nil, nil, "servers_disagree", "dns_connection_required", false, "Cloudflare"},
		{"no plugin", []string{"ns01.domaincontrol.com"}, nil, nil, "", "dns_provider_unsupported", false, "domaincontrol.com"},
		{"no plugin, and an unreliable read", []string{"ns01.domaincontrol.com"}, nil, nil, "servers_disagree", "dns_provider_unsupported", false, "domaincontrol.com"},
		{"several providers", append([]string{"ns01.domaincontrol.com"}, cloudServers...), nil, nil, "", "dns_provider_unsupported", false, "several providers"},
		{"a zone that waits for its delegation", []string{"ns01.domaincontrol.com"}, []dns.Access{inIdleZone(zoneAccess, "pending")}, nil, "", "dns_provider_unsupported", false, "pending"},
		{"not delegated", nil, nil, nil, "not_delegated", "dns_read_unreliable", false, "not_delegated"},
		{"a silent provider without patterns", []string{"ns1.a.test"}, []dns.Access{access("powerdns", dns.ProviderSilent)}, nil, "provider_unavailable", "dns_read_unreliable", false, "PowerDNS, to which the account has a connection, gave no usable answer"},
		{"a rejected credential of a provider without patterns", []string{"ns1.a.test"}, []dns.Access{access("powerdns", dns.ProviderRefuses)}, nil, "", "dns_credential_rejected", false, "PowerDNS no longer accepts the credential"},
		{"rejected settings of a provider without patterns", []string{"ns1.a.test"}, []dns.Access{withRefusedSettings("powerdns", "")}, nil, "", "dns_connection_required", false,
			"connection to PowerDNS are rejected, so it is not known"},
		{"a zone that is too large, of a provider without patterns", []string{"ns1.a.test"}, []dns.Access{access("powerdns", dns.AnswerTooLarge)}, nil, "provider_unavailable", "dns_read_unreliable", false, "data at PowerDNS is too large"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			read := reliableRead(tc.sets...)
			read.Delegation, read.Complete, read.Reason = tc.delegation, tc.readReason == "", tc.readReason
			holder := dns.FindHolder(read, []dns.Provider{cloudflare, powerDNS}, tc.accesses)
			plan := dns.NewPlan(offer(), read, nil)
			got := holder.Automate(read, plan)
			if got.Required != tc.wantRequired || got.Connected != tc.wantConnected || got.Safe != plan.SafeToApply() || got.Provider.ID != holder.Provider.ID {
				t.Fatalf("got %+v, want the action %q, connected %t and safe %t", got, tc.wantRequired, tc.wantConnected, plan.SafeToApply())
			}
			if !strings.Contains(got.Message, tc.wantMessage) {
				t.Fatalf("the message is %q, want it to contain %q", got.Message, tc.wantMessage)
			}
		})
	}
}

func TestAutomationWithoutChangesNeedsNoAction(t *testing.T) {
	emptyZone := reliableRead()
	sets := []dns.RRSet{}
	for _, c := range dns.NewPlan(offer(), emptyZone, nil).Changes {
		sets = append(sets, c.After)
	}
	completeZone := reliableRead(sets...)
	completeZone.Delegation = cloudServers
	holder := dns.FindHolder(completeZone, []dns.Provider{cloudflare}, []dns.Access{access("cloudflare", dns.ZoneAccessible, cloudServers...)})
	if got := holder.Automate(completeZone, dns.NewPlan(offer(), completeZone, nil)); got.Required != "" || !got.Safe || !strings.Contains(got.Message, "No records") {
		t.Fatalf("got %+v, want no required action", got)
	}
}
