// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"testing"

	"github.com/tenantry/tenantry/core/dns"
)

func TestPlanConflictsWithForeignMXRecords(t *testing.T) {
	mxRecords := func(values ...string) []dns.RRSet { return []dns.RRSet{rrset("a.test", dns.MX, values...)} }
	managed := []dns.Written{{Purpose: dns.Inbound, Name: "a.test", Type: dns.MX, Value: "0 mx.old-platform.test"}}
	exchangeProblem := func(kind dns.MXProblem) func(*dns.Referenced) {
		return func(r *dns.Referenced) {
			r.Exchanges = map[string]dns.MXProblem{"mx.else.test": kind, "ms999.msv1.invalid": kind}
		}
	}
	for _, tc := range []planCase{
		{name: "no MX record", action: dns.Create, reason: "missing", after: []string{"0 " + platformMX}},
		{name: "the desired host alone", sets: mxRecords("0 " + platformMX), action: dns.Preserve, reason: "present", after: []string{"0 " + platformMX}},
		{name: "the desired host in capitals with a dot", sets: mxRecords("0 A-TEST.r4nd.MX.microsoft."), action: dns.Preserve, reason: "present",
			after: []string{"0 A-TEST.r4nd.MX.microsoft."}, notes: []dns.Note{"mx_preference"}},
		{name: "the desired host with another preference", sets: mxRecords("10 " + platformMX), action: dns.Preserve, reason: "present",
			after: []string{"10 " + platformMX}, notes: []dns.Note{"mx_preference"}},
		{name: "mx_mixed: the desired host and a foreign one", sets: mxRecords("0 "+platformMX, "10 mx.else.test"), action: dns.Conflict, reason: "mx_mixed",
			after: []string{"0 " + platformMX, "10 mx.else.test"}},
		{name: "mx_platform_migration: the platform's earlier host", sets: mxRecords("0 " + previousMX), action: dns.Update, reason: "mx_platform_migration",
			after: []string{"0 " + platformMX}},
		{name: "mx_platform_migration: the platform's earlier host and the desired host", sets: mxRecords("0 "+previousMX, "0 "+platformMX), action: dns.Update, reason: "mx_platform_migration",
			after: []string{"0 " + platformMX}},
		{name: "a host with the suffix of a hyphenated domain", sets: mxRecords("0 a-test01i.mail.protection.outlook.com"), action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"0 a-test01i.mail.protection.outlook.com"}},
		{name: "the platform's host of another domain", sets: mxRecords("0 b-test.mail.protection.outlook.com"), action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"0 b-test.mail.protection.outlook.com"}},
		{name: "the platform's host of a longer name", sets: mxRecords("0 a-testing-com.mail.protection.outlook.com"), action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"0 a-testing-com.mail.protection.outlook.com"}},
		{name: "mx_other_provider: Google", sets: mxRecords("1 aspmx.l.google.com", "5 alt1.aspmx.l.google.com"), action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"1 aspmx.l.google.com", "5 alt1.aspmx.l.google.com"}},
		{name: "mx_other_provider: forwarding by the DNS provider", sets: mxRecords("13 route1.mx.cloudflare.net"), action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"13 route1.mx.cloudflare.net"}},
		{name: "mx_other_provider: the platform's earlier host next to a foreign one", sets: mxRecords("0 "+previousMX, "5 mx.else.test"), action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"0 " + previousMX, "5 mx.else.test"}},
		{name: "a name that only ends like the platform's", sets: mxRecords("0 a-test.evilmail.protection.outlook.com.else.test"), action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"0 a-test.evilmail.protection.outlook.com.else.test"}},
		{name: "mx_null", sets: mxRecords("0 ."), action: dns.Conflict, reason: "mx_null", blocking: true, after: []string{"0 ."}},
		{name: "mx_null without the final dot", sets: mxRecords("0 "), action: dns.Conflict, reason: "mx_null", blocking: true, after: []string{"0 "}},
		{name: "mx_broken: a host that is a CNAME", sets: mxRecords("5 mx.else.test"), referenced: exchangeProblem(dns.MXProblemAlias), action: dns.Conflict,
			reason: "mx_broken", blocking: true, after: []string{"5 mx.else.test"}},
		{name: "mx_broken: a host without an address", sets: mxRecords("5 mx.else.test"), referenced: exchangeProblem(dns.MXProblemNoAddress), action: dns.Conflict,
			reason: "mx_broken", blocking: true, after: []string{"5 mx.else.test"}},
		{name: "mx_broken: an IP address as the host", sets: mxRecords("5 192.0.2.1"), action: dns.Conflict, reason: "mx_broken", blocking: true, after: []string{"5 192.0.2.1"}},
		{name: "mx_platform_migration: only a leftover of the verification", sets: mxRecords("32767 ms1.msv1.invalid"), action: dns.Update, reason: "mx_platform_migration",
			after: []string{"0 " + platformMX}},
		{name: "mx_platform_migration: the leftover of an earlier tenant, in capitals", sets: mxRecords("32767 MS999.MSV1.invalid."), referenced: exchangeProblem(dns.MXProblemNoAddress),
			action: dns.Update, reason: "mx_platform_migration", after: []string{"0 " + platformMX}},
		{name: "mx_platform_migration: several leftovers next to the desired host", sets: mxRecords("32767 ms1.msv1.invalid", "0 "+platformMX, "10 ms999.msv1.invalid"),
			action: dns.Update, optional: true, reason: "mx_platform_migration", after: []string{"0 " + platformMX}},
		{name: "mx_platform_migration: an earlier host next to a leftover", sets: mxRecords("32767 ms999.msv1.invalid", "0 "+previousMX), action: dns.Update, reason: "mx_platform_migration",
			after: []string{"0 " + platformMX}},
		{name: "mx_other_provider: a foreign host next to a leftover, which stays", sets: mxRecords("32767 ms999.msv1.invalid", "5 mx.else.test"), action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"32767 ms999.msv1.invalid", "5 mx.else.test"}},
		{name: "mx_null: a null MX next to a leftover", sets: mxRecords("32767 ms999.msv1.invalid", "0 ."), action: dns.Conflict, reason: "mx_null", blocking: true,
			after: []string{"32767 ms999.msv1.invalid", "0 ."}},
		{name: "a name that only ends like a verification host", sets: mxRecords("0 notmsv1.invalid"), action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"0 notmsv1.invalid"}},
		{name: "own_superseded: a managed value", sets: mxRecords("0 mx.old-platform.test"), managed: managed, action: dns.Update, reason: "own_superseded",
			after: []string{"0 " + platformMX}},
		{name: "a managed value next to a foreign one", sets: mxRecords("0 mx.old-platform.test", "5 mx.else.test"), managed: managed, action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"0 mx.old-platform.test", "5 mx.else.test"}},
		{name: "a managed value that was changed", sets: mxRecords("10 mx.old-platform.test"), managed: managed, action: dns.Conflict,
			reason: "mx_other_provider", blocking: true, after: []string{"10 mx.old-platform.test"}},
		{name: "a foreign MX from a wildcard", sets: []dns.RRSet{fromWildcard(rrset("a.test", dns.MX, "5 mx.else.test"))},
			action: dns.Conflict, reason: "mx_other_provider", blocking: true, after: []string{"5 mx.else.test"}},
		{name: "cname_at_domain", sets: []dns.RRSet{rrset("a.test", dns.CNAME, "web.else.test")}, action: dns.Conflict, reason: "cname_at_domain", blocking: true},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.run(t, offer(), "a.test", dns.Inbound) })
	}
}

// TestForeignMXBlocksAPlanBeforeVerification checks plans that are made before the verification of
// the domain, when the platform has specified no MX yet. An MX record of another provider blocks
// such a plan, also beside a host of the platform, which may belong to an earlier tenant.
func TestForeignMXBlocksAPlanBeforeVerification(t *testing.T) {
	for _, tc := range []struct {
		name         string
		values       []string
		wantReason   dns.Reason // "" for no item
		wantBlocking bool
	}{
		{"an MX of another provider", []string{"1 aspmx.l.google.com"}, "mx_other_provider", true},
		{"an MX of the platform and one of another provider", []string{"0 " + previousMX, "10 mx.else.test"}, "mx_other_provider", true},
		{"the ownership record and an MX of another provider", []string{"32767 ms1.msv1.invalid", "10 mx.else.test"}, "mx_other_provider", true},
		{"a null MX", []string{"0 ."}, "mx_null", true},
		{"a null MX and an MX of the platform", []string{"0 .", "0 " + previousMX}, "mx_null", true},
		{"an IP address as the host", []string{"0 192.0.2.1"}, "mx_broken", true},
		{"an MX of the platform", []string{"0 " + previousMX}, "", false},
		{"the ownership record", []string{"32767 ms1.msv1.invalid"}, "", false},
		{"the ownership record of an earlier tenant", []string{"32767 ms999.msv1.invalid"}, "", false},
		{"no MX record", nil, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			read := reliableRead()
			if len(tc.values) > 0 {
				read = reliableRead(rrset("a.test", dns.MX, tc.values...))
			}
			plan := dns.NewPlan(dns.Offer{Verification: ownershipRecords, Hosts: platformHosts}, read, nil)
			if tc.wantReason == "" {
				if !plan.SafeToApply() || len(plan.Items) != 2 {
					t.Fatalf("got %+v, want no item for the MX", plan.Items)
				}
				return
			}
			if got := itemFor(t, plan, dns.Inbound); got.Reason != tc.wantReason || got.Blocking != tc.wantBlocking || got.Desired != "" || plan.SafeToApply() == tc.wantBlocking {
				t.Fatalf("got %+v, want an item with the reason %s, blocking: %t", got, tc.wantReason, tc.wantBlocking)
			}
		})
	}
}

// TestPlatformHostsOfAHyphenatedDomainAreRecognized checks which hosts count as an earlier MX of
// my-shop.com. For a domain with hyphens, the platform removes the hyphens from the host and adds a
// suffix. Some people write the host with the hyphens.
func TestPlatformHostsOfAHyphenatedDomainAreRecognized(t *testing.T) {
	for label, isPlatformHost := range map[string]bool{
		"myshop-com01b": true, "myshop-com03i": true, "MyShop-com01be2e": true,
		"my-shop-com": true, "myshop-com": false, "my-shop-com01b": false, "myshopcom01b": false, "myshop-com2026": false, "myshop-comedy": false, "myshop-com01bad12": false,
	} {
		read := readOf(rrset("my-shop.com", dns.MX, "0 "+label+".mail.protection.outlook.com"))
		read.Domain, read.Zone, read.Complete = "my-shop.com", "my-shop.com", true
		specified := dns.Record{Type: dns.MX, Name: "my-shop.com", Content: "new.k-v1.mx.microsoft"}
		plan := dns.NewPlan(dns.Offer{Service: []dns.Record{specified}, Hosts: platformHosts}, read, nil)
		if got := itemFor(t, plan, dns.Inbound); (got.Reason == dns.ReasonMXMigration) != isPlatformHost {
			t.Errorf("%s: the reason is %s, want a host of the platform: %t", label, got.Reason, isPlatformHost)
		}
	}
}

// TestALeftoverOfVerificationDoesNotDelayADomain checks a plan that only removes an MX record left
// over from the verification. Such a plan is complete. The next write removes the record.
func TestALeftoverOfVerificationDoesNotDelayADomain(t *testing.T) {
	read := reliableRead(rrset("a.test", dns.MX, "32767 ms999.msv1.invalid", "0 "+platformMX))
	plan := dns.NewPlan(offer(), read, nil)
	if plan.Complete() {
		t.Fatalf("a plan that creates records is complete: %+v", plan)
	}
	for _, c := range plan.Changes {
		if c.After.Type != dns.MX {
			read.Sets = append(read.Sets, c.After)
		}
	}
	if plan = dns.NewPlan(offer(), read, nil); !plan.Complete() || !plan.SafeToApply() || len(plan.Changes) != 1 {
		t.Errorf("a plan that only removes the leftover is not complete and safe to apply: %+v", plan)
	}
	read.Sets[0].Values = []string{"32767 ms999.msv1.invalid"}
	if plan = dns.NewPlan(offer(), read, nil); plan.Complete() {
		t.Errorf("a plan without the desired MX is complete: %+v", plan)
	}
	read.Sets[0].Values = []string{"0 " + previousMX, "0 " + platformMX}
	if plan = dns.NewPlan(offer(), read, nil); plan.Complete() {
		t.Errorf("a plan with an earlier host of the platform is complete: %+v", plan)
	}
}
