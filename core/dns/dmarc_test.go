// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
)

func TestPlanKeepsForeignDMARCRecords(t *testing.T) {
	const name = "_dmarc.a.test"
	texts := func(values ...string) []dns.RRSet { return []dns.RRSet{rrset(name, dns.TXT, values...)} }
	kept := func(name, text string, notes ...dns.Note) planCase {
		return planCase{name: name, sets: texts(text), action: dns.Preserve, reason: "dmarc_present", notes: notes, after: []string{text}}
	}
	refused := func(name, text string) planCase {
		return planCase{name: "dmarc_syntax: " + name, sets: texts(text), action: dns.Conflict, reason: "dmarc_syntax", after: []string{text}}
	}
	for _, tc := range []planCase{
		{name: "no record", action: dns.Create, reason: "missing", after: []string{dns.DefaultPolicy}},
		{name: "the default policy", sets: texts(dns.DefaultPolicy), action: dns.Preserve, reason: "present", after: []string{dns.DefaultPolicy}},
		kept("p=none with reports", "v=DMARC1; p=none; rua=mailto:x@else.test"),
		kept("p=reject", "v=DMARC1; p=reject", "dmarc_strict"),
		kept("a strict alignment", "v=DMARC1;p=none;adkim=s;", "dmarc_strict"),
		kept("tags that RFC 9989 added and removed", "v=DMARC1; p=quarantine; np=reject; psd=n; t=y; pct=50; rf=afrf; ri=3600", "dmarc_strict"),
		kept("spaces around the equals sign of the version", "v = DMARC1; p=reject", "dmarc_strict"),
		kept("no tag p", "v=DMARC1; rua=mailto:x@else.test", "dmarc_no_policy"),
		kept("an invalid value of p", "v=DMARC1; p=perhaps", "dmarc_no_policy"),
		{name: "a text that is not a DMARC record stays", sets: texts("hello"), action: dns.Create, reason: "missing", after: []string{"hello", dns.DefaultPolicy}},
		{name: "dmarc_multiple", sets: texts("v=DMARC1; p=none", "v=DMARC1; p=reject"), action: dns.Conflict, reason: "dmarc_multiple",
			after: []string{"v=DMARC1; p=none", "v=DMARC1; p=reject"}},
		refused("no equals sign", "v=DMARC1; p"),
		refused("a tag twice", "v=DMARC1; p=none; p=reject"),
		refused("a tag twice in different case", "v=DMARC1; p=none; P=reject"),
		refused("a tag without a name", "v=DMARC1; =none"),
		refused("the version in small letters", "v=dmarc1; p=none"),
		refused("text after the version without a semicolon", "v=DMARC1 p=none"),
		{name: "dmarc_proxied", sets: veiled([]dns.RRSet{rrset("_dmarc.a.test", dns.CNAME, "a.vendor.test")}), action: dns.Conflict, reason: "dmarc_proxied"},
		{name: "a flattened CNAME, with the DMARC record that the servers return",
			sets:   append(veiled([]dns.RRSet{rrset("_dmarc.a.test", dns.CNAME, "a.vendor.test")}), rrset("_dmarc.a.test", dns.TXT, "v=DMARC1; p=none; fo=1")),
			action: dns.Preserve, reason: "dmarc_present", after: []string{"v=DMARC1; p=none; fo=1"}},
		{name: "dmarc_alias: a CNAME to a vendor, with the records of its target",
			sets:   []dns.RRSet{rrset(name, dns.CNAME, "a.test.dmarc.vendor.test"), rrset(name, dns.TXT, "v=DMARC1; p=reject")},
			action: dns.Preserve, reason: "dmarc_alias", after: []string{"v=DMARC1; p=reject"}},
		{name: "dmarc_delegated", sets: []dns.RRSet{rrset(name, dns.NS, "ns.vendor.test")}, action: dns.Conflict, reason: "dmarc_delegated"},
		{name: "a record in the delegated zone", sets: append(texts("v=DMARC1; p=reject"), rrset(name, dns.NS, "ns.vendor.test")), action: dns.Preserve,
			reason: "dmarc_present", notes: []dns.Note{"dmarc_strict"}, after: []string{"v=DMARC1; p=reject"}},
		{name: "only a wildcard answers", sets: []dns.RRSet{fromWildcard(rrset(name, dns.TXT, "v=spf1 -all"))}, action: dns.Create, reason: "missing",
			notes: []dns.Note{"wildcard_overridden"}, after: []string{dns.DefaultPolicy}},
		{name: "a DMARC record from a wildcard", sets: []dns.RRSet{fromWildcard(rrset(name, dns.TXT, "v=DMARC1; p=reject"))}, action: dns.Preserve,
			reason: "dmarc_present", notes: []dns.Note{"dmarc_strict"}, after: []string{"v=DMARC1; p=reject"}},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.run(t, offer(), "a.test", dns.Policy) })
	}
}

func TestPlanKeepsInheritedDMARC(t *testing.T) {
	parentRecords := func(name string, texts ...string) func(*dns.Referenced) {
		return func(r *dns.Referenced) { r.ParentDMARC = map[string][]string{name: texts} }
	}
	for _, tc := range []planCase{
		{name: "dmarc_inherited from the organizational domain", referenced: parentRecords("_dmarc.a.test", "v=DMARC1; p=reject"), action: dns.Preserve, reason: "dmarc_inherited", notes: []dns.Note{"dmarc_strict"}},
		{name: "dmarc_inherited from the top-level domain", referenced: parentRecords("_dmarc.test", "x", "v=DMARC1; p=quarantine; psd=y"), action: dns.Preserve, reason: "dmarc_inherited", notes: []dns.Note{"dmarc_strict"}},
		{name: "dmarc_inherited from p=none", referenced: parentRecords("_dmarc.a.test", "v=DMARC1; p=none"), action: dns.Preserve, reason: "dmarc_inherited"},
		{name: "dmarc_inherited from sp=none", referenced: parentRecords("_dmarc.a.test", "v=DMARC1; p=reject; sp=none"), action: dns.Preserve, reason: "dmarc_inherited"},
		{name: "dmarc_inherited from sp=reject", referenced: parentRecords("_dmarc.a.test", "v=DMARC1; p=none; sp=reject"), action: dns.Preserve,
			reason: "dmarc_inherited", notes: []dns.Note{"dmarc_strict"}},
		{name: "no record at a parent name", referenced: parentRecords("_dmarc.a.test"), action: dns.Create, reason: "missing", after: []string{dns.DefaultPolicy}},
		{name: "two records at a parent name do not apply", referenced: parentRecords("_dmarc.a.test", "v=DMARC1; p=none", "v=DMARC1; p=reject"), action: dns.Create, reason: "missing",
			after: []string{dns.DefaultPolicy}},
		{name: "dmarc_inherited from a record with an invalid tag", referenced: parentRecords("_dmarc.a.test", "v=DMARC1; p=reject; rua"), action: dns.Preserve,
			reason: "dmarc_inherited", notes: []dns.Note{"dmarc_strict"}},
		{name: "an invalid record without a policy at a parent name does not apply", referenced: parentRecords("_dmarc.a.test", "v=DMARC1; p"), action: dns.Create, reason: "missing", after: []string{dns.DefaultPolicy}},
		{name: "the record of a sibling does not apply", referenced: parentRecords("_dmarc.b.test", "v=DMARC1; p=reject"), action: dns.Create, reason: "missing", after: []string{dns.DefaultPolicy}},
		{name: "the domain's own record takes precedence", sets: []dns.RRSet{rrset("_dmarc.mail.a.test", dns.TXT, "v=DMARC1; p=none; sp=none")},
			referenced: parentRecords("_dmarc.a.test", "v=DMARC1; p=reject"), action: dns.Preserve, reason: "dmarc_present", after: []string{"v=DMARC1; p=none; sp=none"}},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.run(t, dns.Offer{}, "mail.a.test", dns.Policy) })
	}
}

func TestParentDMARCNamesListsAtMostSevenNames(t *testing.T) {
	for domain, want := range map[string][]string{
		"a.test":                   {"_dmarc.test"},
		"Mail.A.test.":             {"_dmarc.a.test", "_dmarc.test"},
		"b.c.d.e.f.g.h.test":       {"_dmarc.c.d.e.f.g.h.test", "_dmarc.d.e.f.g.h.test", "_dmarc.e.f.g.h.test", "_dmarc.f.g.h.test", "_dmarc.g.h.test", "_dmarc.h.test", "_dmarc.test"},
		"x.y.z.b.c.d.e.f.g.h.test": {"_dmarc.c.d.e.f.g.h.test", "_dmarc.d.e.f.g.h.test", "_dmarc.e.f.g.h.test", "_dmarc.f.g.h.test", "_dmarc.g.h.test", "_dmarc.h.test", "_dmarc.test"},
	} {
		if diff := cmp.Diff(want, dns.ParentDMARCNames(domain)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", domain, diff)
		}
	}
}

func TestValidDMARCRefusesInvalidRecords(t *testing.T) {
	for text, want := range map[string]bool{
		dns.DefaultPolicy: true, "v=DMARC1; p=none; rua=mailto:dmarc@example.com": true, "v=DMARC1;p=Reject;": true,
		"": false, "v=DMARC1": false, "v=DMARC1; p=maybe": false, "v=dmarc1; p=none": false, "vx=DMARC1; p=none": false, "v=DMARC1; p=none; rua": false, "p=none; v=DMARC1": false, "v=DMARC1; p=none; p=reject": false,
		"v=DMARC1; p=none; rua=\x00": false, "v=DMARC1; p=none; rua=" + strings.Repeat("x", 255): false,
	} {
		if got := dns.ValidDMARC(text); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}
