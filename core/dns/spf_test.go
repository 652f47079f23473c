// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
)

const inc = "include:" + include

// tree adds what other names' SPF records say.
func tree(records map[string]string) func(*dns.Beyond) {
	return func(b *dns.Beyond) {
		for name, text := range records {
			b.SPF[name] = []string{}
			if text != "" {
				b.SPF[name] = []string{"other", text}
			}
		}
	}
}

func TestPlanSPF(t *testing.T) {
	kept := func(name, text string, reason dns.Reason, notes ...dns.Note) planCase {
		return planCase{name: name, sets: spf(text), action: dns.Preserve, reason: reason, notes: notes, after: []string{text}}
	}
	merged := func(name, text, want string, notes ...dns.Note) planCase {
		return planCase{name: name, sets: spf(text), action: dns.Update, reason: "spf_merged", notes: notes, after: []string{want}}
	}
	refused := func(name, text string, reason dns.Reason, blocking bool) planCase {
		return planCase{name: name, sets: spf(text), action: dns.Conflict, reason: reason, blocking: blocking, after: []string{text}}
	}
	long := strings.Repeat(" ip4:198.51.100.77", 26)
	for _, tt := range []planCase{
		{name: "none", action: dns.Create, reason: "missing", after: []string{"v=spf1 " + inc + " -all"}},
		{name: "other texts stay", sets: []dns.RRSet{set("a.test", dns.TXT, "google-site-verification=x", ms)}, action: dns.Create, reason: "missing",
			after: []string{"google-site-verification=x", ms, "v=spf1 " + inc + " -all"}},
		{name: "a word that only begins alike is none", sets: spf("v=spf10 -all"), action: dns.Create, reason: "missing",
			after: []string{"v=spf10 -all", "v=spf1 " + inc + " -all"}},
		kept("there already", "v=spf1 "+inc+" -all", "present"),
		kept("there in other letters, with a plus", "V=SPF1 +Include:SPF.Protection.Outlook.com ~ALL", "present"),
		kept("there, and everyone may send", "v=spf1 "+inc+" +all", "present", "spf_permissive"),
		merged("~all stays", "v=spf1 a ~all", "v=spf1 a "+inc+" ~all"),
		merged("-all stays", "v=spf1 mx -all", "v=spf1 mx "+inc+" -all"),
		merged("?all stays", "v=spf1 mx ?all", "v=spf1 mx "+inc+" ?all", "spf_neutral"),
		merged("no all", "v=spf1 a", "v=spf1 a "+inc+" ~all"),
		merged("nothing at all", "v=spf1", "v=spf1 "+inc+" ~all"),
		merged("a space at the end", "v=spf1 a ", "v=spf1 a "+inc+" ~all"),
		merged("what stands after all is dead", "v=spf1 a -all "+inc, "v=spf1 a "+inc+" -all "+inc),
		merged("order, spelling, spaces, macros and unknown modifiers stay", "v=spf1  A:Web.Else.test/28  exists:%{i}._s.else.test x-y=%{d} exp=e.else.test -ALL",
			"v=spf1  A:Web.Else.test/28  exists:%{i}._s.else.test x-y=%{d} exp=e.else.test "+inc+" -ALL"),
		merged("ptr is remarked", "v=spf1 ptr ~all", "v=spf1 ptr "+inc+" ~all", "spf_ptr"),
		merged("a long one is remarked", "v=spf1"+long+" ~all", "v=spf1"+long+" "+inc+" ~all", "spf_long"),
		refused("spf_include_negated", "v=spf1 -"+inc+" ~all", "spf_include_negated", true),
		refused("spf_include_negated by a softfail", "v=spf1 ~"+inc+" ~all", "spf_include_negated", true),
		merged("a negation after all is dead", "v=spf1 a ~all -"+inc, "v=spf1 a "+inc+" ~all -"+inc),
		refused("spf_permissive", "v=spf1 a +all", "spf_permissive", false),
		refused("spf_permissive without a sign", "v=spf1 a all", "spf_permissive", false),
		refused("spf_was_no_mail", "v=spf1 -all", "spf_was_no_mail", true),
		refused("spf_was_no_mail, explained", "v=spf1 exp=why.else.test -all", "spf_was_no_mail", true),
		refused("spf_syntax", "v=spf1 include -all", "spf_syntax", true),
		{name: "spf_multiple", sets: spf("v=spf1 a -all", "v=spf1 mx -all"), action: dns.Conflict, reason: "spf_multiple", blocking: true,
			after: []string{"v=spf1 a -all", "v=spf1 mx -all"}},
		{name: "spf_duplicates that have the platform", sets: spf("v=spf1 "+inc+" -all", "v=spf1 "+inc+" -all"), action: dns.Update, reason: "spf_duplicates",
			after: []string{"v=spf1 " + inc + " -all"}},
		{name: "duplicates without it", sets: spf("v=spf1 a -all", "v=spf1 a -all"), action: dns.Update, reason: "spf_merged",
			after: []string{"v=spf1 a " + inc + " -all"}},
		{name: "cname_at_domain", sets: []dns.RRSet{set("a.test", dns.CNAME, "web.else.test")}, action: dns.Conflict, reason: "cname_at_domain", blocking: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.run(t, unproven(), "a.test", dns.Sending)
		})
	}
}

// unproven is an offer that leaves the domain's texts to the SPF record.
func unproven() dns.Offer {
	o := offer()
	o.Verification = nil
	return o
}

func spf(texts ...string) []dns.RRSet { return []dns.RRSet{set("a.test", dns.TXT, texts...)} }

func TestPlanSPFTree(t *testing.T) {
	const text = "v=spf1 include:one.test -all"
	eight := "v=spf1 a mx a:1.test a:2.test a:3.test mx:4.test exists:5.test -all"
	wide := map[string]string{"one.test": eight} // 1 + 7
	withTerms := "v=spf1 include:one.test " + inc + " -all"
	for _, tt := range []planCase{
		{name: "spf_lookup_limit: 11 with ours", sets: spf("v=spf1 a include:one.test mx -all"), beyond: tree(wide), action: dns.Conflict,
			reason: "spf_lookup_limit", blocking: true, after: []string{"v=spf1 a include:one.test mx -all"}},
		{name: "10 with ours", sets: spf("v=spf1 a include:one.test -all"), beyond: tree(wide), action: dns.Update, reason: "spf_merged",
			notes: []dns.Note{"spf_lookups_near_limit"}, after: []string{"v=spf1 a include:one.test " + inc + " -all"}},
		{name: "9 with ours", sets: spf(text), beyond: tree(wide), action: dns.Update, reason: "spf_merged",
			notes: []dns.Note{"spf_lookups_near_limit"}, after: []string{withTerms}},
		{name: "ours costs what its own tree costs", sets: spf(text), beyond: tree(map[string]string{"one.test": eight, include: "v=spf1 a a:6.test -all"}),
			action: dns.Conflict, reason: "spf_lookup_limit", blocking: true, after: []string{text}},
		{name: "spf_lookup_limit: too many already, with the platform", sets: spf("v=spf1 include:one.test a mx ptr " + inc + " -all"), beyond: tree(wide),
			action: dns.Conflict, reason: "spf_lookup_limit", blocking: true, after: []string{"v=spf1 include:one.test a mx ptr " + inc + " -all"}},
		{name: "a circle", sets: spf(text), beyond: tree(map[string]string{"one.test": "v=spf1 include:two.test", "two.test": "v=spf1 redirect=one.test"}),
			action: dns.Conflict, reason: "spf_lookup_limit", blocking: true, after: []string{text}},
		{name: "a circle behind the platform", sets: spf("v=spf1 " + inc + " include:one.test -all"), beyond: tree(map[string]string{"one.test": "v=spf1 include:one.test"}),
			action: dns.Conflict, reason: "spf_lookup_limit", blocking: true, after: []string{"v=spf1 " + inc + " include:one.test -all"}},
		{name: "terms after all and a redirect beside all cost nothing", sets: spf("v=spf1 a -all include:x.test include:y.test redirect=z.test"), action: dns.Update,
			reason: "spf_merged", after: []string{"v=spf1 a " + inc + " -all include:x.test include:y.test redirect=z.test"}},
		{name: "a redirect: ours goes before it", sets: spf("v=spf1 a redirect=one.test"), beyond: tree(wide), action: dns.Update, reason: "spf_merged",
			notes: []dns.Note{"spf_lookups_near_limit"}, after: []string{"v=spf1 a " + inc + " redirect=one.test"}},
		{name: "spf_indirect by an include", sets: spf(text), beyond: tree(map[string]string{"one.test": "v=spf1 " + inc + " ~all"}),
			action: dns.Preserve, reason: "spf_indirect", after: []string{text}},
		{name: "spf_indirect by a redirect and an include", sets: spf("v=spf1 redirect=one.test"),
			beyond: tree(map[string]string{"one.test": "v=spf1 include:two.test -all", "two.test": "v=spf1 " + inc}),
			action: dns.Preserve, reason: "spf_indirect", after: []string{"v=spf1 redirect=one.test"}},
		{name: "spf_indirect by a redirect to the platform", sets: spf("v=spf1 redirect=" + include), action: dns.Preserve, reason: "spf_indirect",
			after: []string{"v=spf1 redirect=" + include}},
		{name: "an include that does not let pass leads nowhere", sets: spf("v=spf1 ~include:one.test ~all"),
			beyond: tree(map[string]string{"one.test": "v=spf1 " + inc}), action: dns.Update, reason: "spf_merged",
			after: []string{"v=spf1 ~include:one.test " + inc + " ~all"}},
		{name: "spf_lookups_unknown: a name did not answer", sets: spf(text), action: dns.Conflict, reason: "spf_lookups_unknown", blocking: true, after: []string{text}},
		{name: "what stands already is not held back by it", sets: spf(withTerms), action: dns.Preserve, reason: "present",
			notes: []dns.Note{"spf_lookups_unknown"}, after: []string{withTerms}},
		{name: "a name with a macro costs one and cannot be asked", sets: spf("v=spf1 include:%{d}.one.test ~all"), action: dns.Update, reason: "spf_merged",
			after: []string{"v=spf1 include:%{d}.one.test " + inc + " ~all"}},
		{name: "a name without a record is remarked", sets: spf(text), beyond: tree(map[string]string{"one.test": ""}), action: dns.Update, reason: "spf_merged",
			notes: []dns.Note{"spf_reference_broken"}, after: []string{withTerms}},
		{name: "three names with nothing are remarked", sets: spf("v=spf1 include:one.test include:two.test include:x.test ~all"),
			beyond: tree(map[string]string{"one.test": "", "two.test": "", "x.test": ""}), action: dns.Update, reason: "spf_merged",
			notes: []dns.Note{"spf_void_limit", "spf_reference_broken"},
			after: []string{"v=spf1 include:one.test include:two.test include:x.test " + inc + " ~all"}},
		{name: "trouble with the platform's own name holds nothing back", sets: spf("v=spf1 a ~all"),
			beyond: func(b *dns.Beyond) { b.SPF = nil }, action: dns.Update, reason: "spf_merged", after: []string{"v=spf1 a " + inc + " ~all"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.run(t, unproven(), "a.test", dns.Sending)
		})
	}
}

// The include is the one that the platform names, in whatever cloud.
func TestPlanSPFOfAnotherCloud(t *testing.T) {
	o := dns.Offer{Service: []dns.Record{{Type: dns.TXT, Name: "a.test", Content: "v=spf1 include:spf.protection.office365.us -all"}}}
	got := item(t, dns.NewPlan(o, reliable(spf("v=spf1 "+inc+" ~all")...), nil), dns.Sending)
	if got.Action != dns.Update || got.Desired != "v=spf1 "+inc+" include:spf.protection.office365.us ~all" {
		t.Fatalf("got %+v", got)
	}
}

func TestPlanSPFThatWeWrote(t *testing.T) {
	const old = "v=spf1 a include:spf.old-platform.test ~all"
	findWritten := func(replaced string) []dns.Written {
		return []dns.Written{{Purpose: dns.Sending, Name: "a.test", Type: dns.TXT, Value: old, Replaced: replaced}}
	}
	for _, tt := range []planCase{
		{name: "what was there before us is merged anew", sets: spf("x", old), managed: findWritten("v=spf1 a ~all"), action: dns.Update, reason: "own_superseded",
			after: []string{"x", "v=spf1 a " + inc + " ~all"}},
		{name: "nothing was there before us", sets: spf(old), managed: findWritten(""), action: dns.Update, reason: "own_superseded",
			after: []string{"v=spf1 " + inc + " -all"}},
		{name: "somebody changed it since", sets: spf(old + " "), managed: findWritten(""), beyond: tree(map[string]string{"spf.old-platform.test": "v=spf1 -all"}),
			action: dns.Update, reason: "spf_merged", after: []string{"v=spf1 a include:spf.old-platform.test " + inc + " ~all "}},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, unproven(), "a.test", dns.Sending) })
	}
}

// TestSPFGrammar: a record that receivers refuse is never touched, one that
// they take never refused.
func TestSPFGrammar(t *testing.T) {
	good := []string{
		"a/24", "a//64", "a/24//64", "a:x.test/24//64", "mx:x.test", "ptr", "ptr:x.test", "ip4:192.0.2.1", "ip4:192.0.2.0/24", "ip6:2001:db8::/32",
		"exists:%{ir}.%{v}._spf.%{d2}", "exists:%{l1r+-/}.x.test", "include:x.test.", "x=y", "x-y.z_1=%%%_%-", "-ip4:192.0.2.1", "?A:X.test", "moo=", "mx=x",
	}
	bad := []string{
		"a/33", "a/", "a//129", "a:x.test/+4", "a:", "a:test", "include", "include:", "include:test", "ip4", "ip4:x.test", "ip4:192.0.2.1/33",
		"ip4:2001:db8::1", "ip6:192.0.2.1", "ip6:fe80::1%eth0", "all:x.test", "exists:%{q}.x.test", "exists:%x.x.test", "exists:%{.x.test", "include:x.test\ty",
		"moo", "moo:x.test", "+", "redirect=", "redirect=x.test redirect=y.test", "+x=y", "=x", "_x=y", "a,mx", "\xff", "include:b\u00fccher.test",
	}
	check := func(terms string, ok bool) {
		text := "v=spf1 " + terms + " ~all"
		s := reliable(spf(text)...)
		got := item(t, dns.NewPlan(unproven(), s, nil), dns.Sending)
		if (got.Reason != "spf_syntax") != ok {
			t.Errorf("%q: %s", text, got.Reason)
		}
	}
	for _, terms := range good {
		check(terms, true)
	}
	for _, terms := range bad {
		check(terms, false)
	}
}

func TestSPFReferences(t *testing.T) {
	for text, want := range map[string][]string{
		"v=spf1 include:A.test. ~include:b.test a:c.test redirect=d.test":             {"a.test", "b.test", "d.test"},
		"v=spf1 include:%{d}.test include:a.test -all include:b.test redirect=c.test": {"a.test"},
		"v=spf1 redirect=%{d}.x.test":                                                 nil,
		"v=spf1 include":                                                              nil,
		"google-site-verification=abc":                                                nil,
	} {
		if diff := cmp.Diff(want, dns.SPFReferences(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}
