// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"testing"

	"github.com/tenantry/tenantry/core/dns"
)

func TestPlanMX(t *testing.T) {
	mx := func(values ...string) []dns.RRSet { return []dns.RRSet{set("a.test", dns.MX, values...)} }
	managed := []dns.Written{{Purpose: dns.Inbound, Name: "a.test", Type: dns.MX, Value: "0 mx.old-platform.test"}}
	broken := func(kind dns.MXProblem) func(*dns.Referenced) {
		return func(b *dns.Referenced) {
			b.Exchanges = map[string]dns.MXProblem{"mx.else.test": kind, "ms999.msv1.invalid": kind}
		}
	}
	for _, tt := range []planCase{
		{name: "none", action: dns.Create, reason: "missing", after: []string{"0 " + host}},
		{name: "the desired host alone", sets: mx("0 " + host), action: dns.Preserve, reason: "present", after: []string{"0 " + host}},
		{name: "the desired host in capitals with a dot", sets: mx("0 A-TEST.r4nd.MX.microsoft."), action: dns.Preserve, reason: "present",
			after: []string{"0 A-TEST.r4nd.MX.microsoft."}, notes: []dns.Note{"mx_preference"}},
		{name: "the desired host with another preference", sets: mx("10 " + host), action: dns.Preserve, reason: "present",
			after: []string{"10 " + host}, notes: []dns.Note{"mx_preference"}},
		{name: "mx_mixed: the desired host and a foreign one", sets: mx("0 "+host, "10 mx.else.test"), action: dns.Conflict, reason: "mx_mixed",
			after: []string{"0 " + host, "10 mx.else.test"}},
		{name: "mx_platform_migration: the platform's earlier host", sets: mx("0 " + oldHost), action: dns.Update, reason: "mx_platform_migration",
			after: []string{"0 " + host}},
		{name: "mx_platform_migration: both of the platform's hosts", sets: mx("0 "+oldHost, "0 "+host), action: dns.Update, reason: "mx_platform_migration",
			after: []string{"0 " + host}},
		{name: "a suffix, which only a hyphenated domain has", sets: mx("0 a-test01i.mail.protection.outlook.com"), action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"0 a-test01i.mail.protection.outlook.com"}},
		{name: "the platform's host of another domain", sets: mx("0 b-test.mail.protection.outlook.com"), action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"0 b-test.mail.protection.outlook.com"}},
		{name: "the platform's host of a longer name", sets: mx("0 a-testing-com.mail.protection.outlook.com"), action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"0 a-testing-com.mail.protection.outlook.com"}},
		{name: "mx_other_provider: Google", sets: mx("1 aspmx.l.google.com", "5 alt1.aspmx.l.google.com"), action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"1 aspmx.l.google.com", "5 alt1.aspmx.l.google.com"}},
		{name: "mx_other_provider: forwarding by the DNS provider", sets: mx("13 route1.mx.cloudflare.net"), action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"13 route1.mx.cloudflare.net"}},
		{name: "mx_other_provider: the platform's earlier host next to a foreign one", sets: mx("0 "+oldHost, "5 mx.else.test"), action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"0 " + oldHost, "5 mx.else.test"}},
		{name: "a name that only ends like the platform's", sets: mx("0 a-test.evilmail.protection.outlook.com.else.test"), action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"0 a-test.evilmail.protection.outlook.com.else.test"}},
		{name: "mx_null", sets: mx("0 ."), action: dns.Conflict, reason: "mx_null", blocking: true, after: []string{"0 ."}},
		{name: "mx_null without the final dot", sets: mx("0 "), action: dns.Conflict, reason: "mx_null", blocking: true, after: []string{"0 "}},
		{name: "mx_broken: a host that is a CNAME", sets: mx("5 mx.else.test"), referenced: broken(dns.MXProblemAlias), action: dns.Conflict,
			reason: "mx_broken", blocking: true, after: []string{"5 mx.else.test"}},
		{name: "mx_broken: a host without an address", sets: mx("5 mx.else.test"), referenced: broken(dns.MXProblemNoAddress), action: dns.Conflict,
			reason: "mx_broken", blocking: true, after: []string{"5 mx.else.test"}},
		{name: "mx_broken: an IP address as the host", sets: mx("5 192.0.2.1"), action: dns.Conflict, reason: "mx_broken", blocking: true, after: []string{"5 192.0.2.1"}},
		{name: "mx_platform_migration: a left-over verification record, alone", sets: mx("32767 ms1.msv1.invalid"), action: dns.Update, reason: "mx_platform_migration",
			after: []string{"0 " + host}},
		{name: "mx_platform_migration: a left-over verification record, of an earlier tenant, in capitals", sets: mx("32767 MS999.MSV1.invalid."), referenced: broken(dns.MXProblemNoAddress),
			action: dns.Update, reason: "mx_platform_migration", after: []string{"0 " + host}},
		{name: "mx_platform_migration: a left-over verification record, several, next to the desired host", sets: mx("32767 ms1.msv1.invalid", "0 "+host, "10 ms999.msv1.invalid"),
			action: dns.Update, optional: true, reason: "mx_platform_migration", after: []string{"0 " + host}},
		{name: "mx_platform_migration: next to a leftover", sets: mx("32767 ms999.msv1.invalid", "0 "+oldHost), action: dns.Update, reason: "mx_platform_migration",
			after: []string{"0 " + host}},
		{name: "mx_other_provider: next to a leftover, which stays", sets: mx("32767 ms999.msv1.invalid", "5 mx.else.test"), action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"32767 ms999.msv1.invalid", "5 mx.else.test"}},
		{name: "mx_null: next to a leftover", sets: mx("32767 ms999.msv1.invalid", "0 ."), action: dns.Conflict, reason: "mx_null", blocking: true,
			after: []string{"32767 ms999.msv1.invalid", "0 ."}},
		{name: "a name that only ends like a verification host", sets: mx("0 notmsv1.invalid"), action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"0 notmsv1.invalid"}},
		{name: "own_superseded: a managed value", sets: mx("0 mx.old-platform.test"), managed: managed, action: dns.Update, reason: "own_superseded",
			after: []string{"0 " + host}},
		{name: "a managed value next to a foreign one", sets: mx("0 mx.old-platform.test", "5 mx.else.test"), managed: managed, action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"0 mx.old-platform.test", "5 mx.else.test"}},
		{name: "a managed value that was changed", sets: mx("10 mx.old-platform.test"), managed: managed, action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"10 mx.old-platform.test"}},
		{name: "a foreign MX from a wildcard", sets: []dns.RRSet{synthesised(set("a.test", dns.MX, "5 mx.else.test"))},
			action: dns.Conflict, reason: "mx_other_provider", blocking: true, after: []string{"5 mx.else.test"}},
		{name: "cname_at_domain", sets: []dns.RRSet{set("a.test", dns.CNAME, "web.else.test")}, action: dns.Conflict, reason: "cname_at_domain", blocking: true},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, offer(), "a.test", dns.Inbound) })
	}
}

// Before verification the platform specifies no MX. An MX of a different provider blocks even then.
func TestPlanMXBeforeVerification(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		want        dns.Reason
	}{
		{"another provider's", "1 aspmx.l.google.com", "mx_other_provider"},
		{"a null MX", "0 .", "mx_null"},
		{"an address", "0 192.0.2.1", "mx_broken"},
		{"the platform's", "0 " + oldHost, ""},
		{"the proof of ownership", "32767 ms1.msv1.invalid", ""},
		{"the proof of an earlier tenant", "32767 ms999.msv1.invalid", ""},
		{"none", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := reliable()
			if tt.value != "" {
				s = reliable(set("a.test", dns.MX, tt.value))
			}
			p := dns.NewPlan(dns.Offer{Verification: offered, Hosts: platformHosts}, s, nil)
			if tt.want == "" {
				if !p.SafeToApply() || len(p.Items) != 2 {
					t.Fatalf("got %+v", p.Items)
				}
				return
			}
			if got := item(t, p, dns.Inbound); got.Reason != tt.want || !got.Blocking || got.Desired != "" || p.SafeToApply() {
				t.Fatalf("got %+v", got)
			}
		})
	}
}

// The platform host of a hyphenated domain resembles that of a domain without hyphens.
func TestPlatformHostOfHyphenatedDomain(t *testing.T) {
	for label, its := range map[string]bool{
		"myshop-com01b": true, "myshop-com03i": true, "MyShop-com01be2e": true,
		"myshop-com": false, "my-shop-com": false, "my-shop-com01b": false, "myshopcom01b": false, "myshop-com2026": false, "myshop-comedy": false, "myshop-com01bad12": false,
	} {
		s := readWith(set("my-shop.com", dns.MX, "0 "+label+".mail.protection.outlook.com"))
		s.Domain, s.Zone, s.Complete = "my-shop.com", "my-shop.com", true
		offered := dns.Record{Type: dns.MX, Name: "my-shop.com", Content: "new.k-v1.mx.microsoft"}
		p := dns.NewPlan(dns.Offer{Service: []dns.Record{offered}, Hosts: platformHosts}, s, nil)
		if got := item(t, p, dns.Inbound); (got.Reason == dns.ReasonMXMigration) != its {
			t.Errorf("%s: %s", label, got.Reason)
		}
	}
}

// An MX record left over from verification is removed with the next write. A domain that needs no
// other change is complete.
func TestLeftoverOfVerificationDoesNotHoldADomainUp(t *testing.T) {
	s := reliable(set("a.test", dns.MX, "32767 ms999.msv1.invalid", "0 "+host))
	p := dns.NewPlan(offer(), s, nil)
	if p.Complete() {
		t.Fatal("a plan that lacks records is complete")
	}
	for _, c := range p.Changes {
		if c.After.Type != dns.MX {
			s.Sets = append(s.Sets, c.After)
		}
	}
	if p = dns.NewPlan(offer(), s, nil); !p.Complete() || !p.SafeToApply() || len(p.Changes) != 1 {
		t.Errorf("got %+v", p)
	}
	s.Sets[0].Values = []string{"32767 ms999.msv1.invalid"}
	if p = dns.NewPlan(offer(), s, nil); p.Complete() {
		t.Errorf("a plan without the desired MX is complete: %+v", p)
	}
	s.Sets[0].Values = []string{"0 " + oldHost, "0 " + host}
	if p = dns.NewPlan(offer(), s, nil); p.Complete() {
		t.Errorf("a plan with an earlier host of the platform is complete: %+v", p)
	}
}
