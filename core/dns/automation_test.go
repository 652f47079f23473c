// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/dns"
)

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

func TestWhoHoldsAZone(t *testing.T) {
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
		{"of several to one provider the one that reaches it", cloudServers,
			[]dns.Access{access("cloudflare", unreached), access("cloudflare", silent), access("cloudflare", reaches, cloudServers...)}, "cloudflare", reaches},
		{"another zone of the name at the same provider", cloudServers, []dns.Access{access("cloudflare", reaches, "x.ns.cloudflare.com", "y.ns.cloudflare.com")}, "cloudflare", dns.ReachesElsewhere},
		{"a server more than the delegation", cloudServers, []dns.Access{access("cloudflare", reaches, append(cloudServers, "z.ns.cloudflare.com")...)}, "cloudflare", dns.ReachesElsewhere},
		{"the right servers, and idle", cloudServers, []dns.Access{idle(access("cloudflare", reaches, cloudServers...), "paused")}, "cloudflare", dns.ReachesIdle},
		{"servers called like their owner, by a connection", vanity, []dns.Access{access("powerdns", reaches, vanity...)}, "powerdns", reaches},
		{"a connection wins over the names", cloudServers, []dns.Access{access("powerdns", reaches, cloudServers...)}, "powerdns", reaches},
		{"behind vanity names, too", vanity, []dns.Access{access("cloudflare", reaches, vanity...)}, "cloudflare", reaches},
		{"several providers, and a connection that reaches all", append(cloudServers, vanity...), []dns.Access{access("powerdns", reaches, append(cloudServers, vanity...)...)}, "powerdns", reaches},
		{"a zone without servers", vanity, []dns.Access{access("powerdns", reaches)}, "", dns.ReachesElsewhere},
		{"moved away from a connection's provider", foreign, []dns.Access{idle(access("cloudflare", reaches, cloudServers...), "moved")}, "", dns.ReachesIdle},
		{"what may be the right one speaks first", cloudServers, []dns.Access{access("cloudflare", unreached), access("cloudflare", rejected), access("cloudflare", silent)}, "cloudflare", silent},
		{"a credential that may be replaced speaks before a zone that is not seen", cloudServers, []dns.Access{idle(access("cloudflare", reaches), "moved"), access("cloudflare", rejected)}, "cloudflare", rejected},
		{"another provider's trouble does not matter", cloudServers, []dns.Access{access("powerdns", silent), access("cloudflare", unreached)}, "cloudflare", unreached},
		{"nor that of one whose servers would be known", foreign, []dns.Access{access("cloudflare", silent), access("cloudflare", rejected)}, "", dns.NoConnection},
		{"it does while the holder may be one of those that are not", foreign, []dns.Access{access("powerdns", silent)}, "", silent},
		{"one that says that it is not him is not", foreign, []dns.Access{access("powerdns", unreached)}, "", dns.NoConnection},
		{"nothing is known", nil, []dns.Access{access("powerdns", unreached)}, "", dns.NoConnection},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := dns.FindHolder(dns.Sight{Zone: "a.test", Delegation: tt.delegation}, []dns.Provider{cloud, own}, tt.all)
			if h.Provider.ID != tt.provider || h.Access.Standing != tt.standing {
				t.Fatalf("got %q, %q, want %q, %q", h.Provider.ID, h.Access.Standing, tt.provider, tt.standing)
			}
			if (tt.standing == dns.ReachesZone) != (h.Access.Zone.Name != "" && h.Access.Standing == dns.ReachesZone) {
				t.Fatalf("got %+v", h)
			}
		})
	}
}

func TestAutomation(t *testing.T) {
	foreign := set("a.test", dns.MX, "1 aspmx.l.google.com")
	good := access("cloudflare", dns.ReachesZone, cloudServers...)
	for _, tt := range []struct {
		name       string
		delegation []string
		all        []dns.Access
		sets       []dns.RRSet
		trouble    string
		required   dns.ActionRequired
		connected  bool
		says       string
	}{
		{"ready", cloudServers, []dns.Access{good}, nil, "", "", true, "written at Cloudflare"},
		{"no connection", cloudServers, nil, nil, "", "dns_connection_required", false, "Cloudflare"},
		{"a connection that does not reach it", cloudServers, []dns.Access{access("cloudflare", dns.ZoneUnreached)}, nil, "", "dns_connection_required", true, "a.test"},
		{"another zone of the name", cloudServers, []dns.Access{access("cloudflare", dns.ReachesZone, "x.ns.cloudflare.com")}, nil, "", "dns_connection_required", true, "x.ns.cloudflare.com"},
		{"an idle zone", cloudServers, []dns.Access{idle(good, "paused")}, nil, "", "dns_connection_required", true, "paused"},
		{"a credential that is not taken", cloudServers, []dns.Access{access("cloudflare", dns.ProviderRefuses)}, nil, "", "dns_credential_rejected", true, "Cloudflare"},
		{"settings that are refused", cloudServers, []dns.Access{refusedFor("cloudflare", "no public address")}, nil, "", "dns_connection_required", true,
			"connection to Cloudflare are refused (no public address). Replace"},
		{"a zone that is too large", cloudServers, []dns.Access{access("cloudflare", dns.AnswerTooLarge)}, nil, "provider_unavailable", "dns_read_unreliable", true, "Cloudflare holds in the zone is too large"},
		{"a conflict", cloudServers, []dns.Access{good}, []dns.RRSet{foreign}, "", "dns_conflict", true, "MX at a.test: Mail for the domain goes to another provider"},
		{"a conflict that may be made up", cloudServers, []dns.Access{good}, []dns.RRSet{foreign}, "servers_disagree", "dns_read_unreliable", true, "servers_disagree"},
		{"resolvers alone", cloudServers, []dns.Access{good}, nil, "recursive_only", "dns_read_unreliable", true, "through resolvers alone"},
		{"a silent provider", cloudServers, []dns.Access{access("cloudflare", dns.ProviderSilent)}, nil, "provider_unavailable", "dns_read_unreliable", true, "does not answer"},
		{"the connection matters before the read", cloudServers, nil, nil, "servers_disagree", "dns_connection_required", false, "Cloudflare"},
		{"no plugin", []string{"ns01.domaincontrol.com"}, nil, nil, "", "dns_provider_unsupported", false, "domaincontrol.com"},
		{"no plugin, and nothing reliable", []string{"ns01.domaincontrol.com"}, nil, nil, "servers_disagree", "dns_provider_unsupported", false, "domaincontrol.com"},
		{"several providers", append([]string{"ns01.domaincontrol.com"}, cloudServers...), nil, nil, "", "dns_provider_unsupported", false, "several providers"},
		{"a zone that waits for its delegation", []string{"ns01.domaincontrol.com"}, []dns.Access{idle(good, "pending")}, nil, "", "dns_provider_unsupported", false, "pending"},
		{"not delegated", nil, nil, nil, "not_delegated", "dns_read_unreliable", false, "not_delegated"},
		{"a silent provider without patterns", []string{"ns1.a.test"}, []dns.Access{access("powerdns", dns.ProviderSilent)}, nil, "provider_unavailable", "dns_read_unreliable", false, "PowerDNS, to which the account has a connection, does not answer"},
		{"a credential of one without patterns", []string{"ns1.a.test"}, []dns.Access{access("powerdns", dns.ProviderRefuses)}, nil, "", "dns_credential_rejected", false, "PowerDNS does not take the credential"},
		{"settings of one without patterns", []string{"ns1.a.test"}, []dns.Access{refusedFor("powerdns", "")}, nil, "", "dns_connection_required", false,
			"connection to PowerDNS are refused, so it is not known"},
		{"a zone of one without patterns that is too large", []string{"ns1.a.test"}, []dns.Access{access("powerdns", dns.AnswerTooLarge)}, nil, "provider_unavailable", "dns_read_unreliable", false, "PowerDNS holds"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := reliable(tt.sets...)
			s.Delegation, s.Complete, s.Reason = tt.delegation, tt.trouble == "", tt.trouble
			h := dns.FindHolder(s, []dns.Provider{cloud, own}, tt.all)
			p := dns.NewPlan(offer(), s, nil)
			got := h.Automate(s, p)
			if got.Required != tt.required || got.Connected != tt.connected || got.Safe != p.SafeToApply() || got.Provider.ID != h.Provider.ID {
				t.Fatalf("got %+v", got)
			}
			if !strings.Contains(got.Message, tt.says) {
				t.Fatalf("it says %q", got.Message)
			}
		})
	}
}

func TestAutomationWithNothingToWrite(t *testing.T) {
	first := reliable()
	sets := []dns.RRSet{}
	for _, c := range dns.NewPlan(offer(), first, nil).Changes {
		sets = append(sets, c.After)
	}
	s := reliable(sets...)
	s.Delegation = cloudServers
	h := dns.FindHolder(s, []dns.Provider{cloud}, []dns.Access{access("cloudflare", dns.ReachesZone, cloudServers...)})
	if got := h.Automate(s, dns.NewPlan(offer(), s, nil)); got.Required != "" || !got.Safe || !strings.Contains(got.Message, "Nothing") {
		t.Fatalf("got %+v", got)
	}
}
