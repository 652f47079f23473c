// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"testing"

	"github.com/tenantry/tenantry/core/dns"
)

func TestPlanKeepsForeignDKIMRecords(t *testing.T) {
	const name, publicKey = "selector1._domainkey.a.test", "v=DKIM1; k=rsa; p=MIIB"
	cname := func(values ...string) []dns.RRSet { return []dns.RRSet{rrset(name, dns.CNAME, values...)} }
	keyRecord := []dns.RRSet{rrset(name, dns.TXT, publicKey)}
	for _, tc := range []planCase{
		{name: "no record", action: dns.Create, reason: "missing", after: []string{target1}},
		{name: "a CNAME to the target", sets: cname(target1), action: dns.Preserve, reason: "present", after: []string{target1}},
		{name: "the target in capitals with a dot", sets: cname("SELECTOR1-a-test01i._domainkey.t.n-v1.DKIM.mail.microsoft."),
			action: dns.Preserve, reason: "present", after: []string{"SELECTOR1-a-test01i._domainkey.t.n-v1.DKIM.mail.microsoft."}},
		{name: "only a wildcard answers", sets: []dns.RRSet{fromWildcard(rrset(name, dns.CNAME, "parking.test"))}, action: dns.Create, reason: "missing",
			notes: []dns.Note{"wildcard_overridden"}, after: []string{target1}},
		{name: "only a wildcard answers with text", sets: []dns.RRSet{fromWildcard(rrset(name, dns.TXT, "v=spf1 -all"))}, action: dns.Create, reason: "missing",
			notes: []dns.Note{"wildcard_overridden"}, after: []string{target1}},
		{name: "an earlier target of the same tenant", sets: cname("selector1-a-test._domainkey.t.onmicrosoft.com"), action: dns.Update,
			reason: "dkim_platform_migration", after: []string{target1}},
		{name: "a target of the same tenant in another partition", sets: cname("selector1-a-test01i._domainkey.t.q-v1.dkim.mail.microsoft"), action: dns.Update,
			reason: "dkim_platform_migration", after: []string{target1}},
		{name: "the selectors swapped", sets: cname(target2), action: dns.Update, reason: "dkim_platform_migration", after: []string{target1}},
		{name: "dkim_other_tenant", sets: cname("selector1-a-test._domainkey.other.onmicrosoft.com"), action: dns.Conflict, reason: "dkim_other_tenant",
			blocking: true, after: []string{"selector1-a-test._domainkey.other.onmicrosoft.com"}},
		{name: "a managed target of a different tenant", sets: cname("selector1-a-test._domainkey.other.onmicrosoft.com"),
			managed: []dns.Written{{Purpose: dns.Selector1, Name: name, Type: dns.CNAME, Value: "selector1-a-test._domainkey.other.onmicrosoft.com"}},
			action:  dns.Update, reason: "own_superseded", after: []string{target1}},
		{name: "dkim_cname_taken", sets: cname("s1.domainkey.esp.test"), action: dns.Conflict, reason: "dkim_cname_taken", blocking: true,
			after: []string{"s1.domainkey.esp.test"}},
		{name: "a name that only ends like the platform's", sets: cname("x._domainkey.t.evilonmicrosoft.com"), action: dns.Conflict,
			reason: "dkim_cname_taken", blocking: true, after: []string{"x._domainkey.t.evilonmicrosoft.com"}},
		{name: "two CNAMEs", sets: cname(target1, "s1.esp.test"), action: dns.Conflict, reason: "dkim_cname_taken", blocking: true,
			after: []string{target1, "s1.esp.test"}},
		{name: "dkim_txt_present: a key pasted by hand", sets: keyRecord, action: dns.Conflict, reason: "dkim_txt_present", blocking: true},
		{name: "dkim_txt_present: an address", sets: []dns.RRSet{rrset(name, "A", "192.0.2.1")}, action: dns.Conflict, reason: "dkim_txt_present", blocking: true},
		{name: "dkim_flattened: the target's own key", sets: keyRecord, referenced: func(r *dns.Referenced) { r.Keys = map[string][]string{target1: {publicKey}} },
			action: dns.Preserve, reason: "dkim_flattened"},
		{name: "dkim_proxied", sets: veiled(cname(target1)), action: dns.Update, reason: "dkim_proxied", after: []string{target1}},
		{name: "proxied, with an earlier target", sets: veiled(cname("selector1-a-test._domainkey.t.onmicrosoft.com")), action: dns.Update,
			reason: "dkim_platform_migration", after: []string{target1}},
		{name: "proxied, someone else's key", sets: veiled(cname("s1.esp.test")), action: dns.Conflict, reason: "dkim_cname_taken", blocking: true,
			after: []string{"s1.esp.test"}},
		{name: "dkim_delegated", sets: []dns.RRSet{rrset("_domainkey.a.test", dns.NS, "ns1.esp.test")}, action: dns.Conflict, reason: "dkim_delegated", blocking: true},
		{name: "dkim_delegated at the selector", sets: []dns.RRSet{rrset(name, dns.NS, "ns1.esp.test")}, action: dns.Conflict, reason: "dkim_delegated", blocking: true},
		{name: "published in the delegated zone", sets: append(cname(target1), rrset("_domainkey.a.test", dns.NS, "ns1.esp.test")),
			action: dns.Preserve, reason: "present", after: []string{target1}},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.run(t, offer(), "a.test", dns.Selector1) })
	}
}

func TestSelectorsAreDecidedIndependently(t *testing.T) {
	plan := dns.NewPlan(offer(), reliableRead(rrset("selector1._domainkey.a.test", dns.CNAME, "s1.esp.test")), nil)
	item1, item2 := itemFor(t, plan, dns.Selector1), itemFor(t, plan, dns.Selector2)
	if item1.Action != dns.Conflict || item2.Action != dns.Create || item2.Desired != target2 {
		t.Fatalf("got %+v and %+v, want a conflict for selector 1 and create for selector 2", item1, item2)
	}
}

func TestSelectorStatesComparesTheTargets(t *testing.T) {
	const name = "selector1._domainkey.a.test"
	for _, tc := range []struct {
		name    string
		signing dns.Signing
		sets    []dns.RRSet
		want    dns.SelectorState
	}{
		{"no record", signing, nil, dns.SelectorMissing},
		{"the target", signing, []dns.RRSet{rrset(name, dns.CNAME, target1)}, dns.SelectorPropagated},
		{"the target of selector 2", signing, []dns.RRSet{rrset(name, dns.CNAME, target2)}, dns.SelectorMismatch},
		{"a key pasted by hand", signing, []dns.RRSet{rrset(name, dns.TXT, "v=DKIM1; p=")}, dns.SelectorMismatch},
		{"two CNAMEs", signing, []dns.RRSet{rrset(name, dns.CNAME, target1, target2)}, dns.SelectorMismatch},
		{"no target specified, no record", dns.Signing{}, nil, dns.SelectorMissing},
		{"no target specified, a record exists", dns.Signing{}, []dns.RRSet{rrset(name, dns.CNAME, target1)}, dns.SelectorMismatch},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, _ := dns.SelectorStates(readOf(tc.sets...), tc.signing); got != tc.want {
				t.Fatalf("got %s, want %s", got, tc.want)
			}
		})
	}
}
