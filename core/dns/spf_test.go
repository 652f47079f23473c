// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
)

// spfTree returns a function that adds the SPF records of other names to a read. An empty text adds
// a name without records.
func spfTree(records map[string]string) func(*dns.Referenced) {
	return func(r *dns.Referenced) {
		for name, text := range records {
			r.SPF[name] = []string{}
			if text != "" {
				r.SPF[name] = []string{"other", text}
			}
		}
	}
}

func TestPlanMergesForeignSPFRecords(t *testing.T) {
	kept := func(name, text string, reason dns.Reason, notes ...dns.Note) planCase {
		return planCase{name: name, sets: spfRecords(text), action: dns.Preserve, reason: reason, notes: notes, after: []string{text}}
	}
	merged := func(name, text, want string, notes ...dns.Note) planCase {
		return planCase{name: name, sets: spfRecords(text), action: dns.Update, reason: "spf_merged", notes: notes, after: []string{want}}
	}
	refused := func(name, text string, reason dns.Reason, blocking bool) planCase {
		return planCase{name: name, sets: spfRecords(text), action: dns.Conflict, reason: reason, blocking: blocking, after: []string{text}}
	}
	longTerms := strings.Repeat(" ip4:198.51.100.77", 26)
	for _, tc := range []planCase{
		{name: "no record", action: dns.Create, reason: "missing", after: []string{"v=spf1 " + platformInclude + " -all"}},
		{name: "keeps other texts", sets: []dns.RRSet{rrset("a.test", dns.TXT, "google-site-verification=x", ownershipText)}, action: dns.Create, reason: "missing",
			after: []string{"google-site-verification=x", ownershipText, "v=spf1 " + platformInclude + " -all"}},
		{name: "v=spf10 is not an SPF record", sets: spfRecords("v=spf10 -all"), action: dns.Create, reason: "missing",
			after: []string{"v=spf10 -all", "v=spf1 " + platformInclude + " -all"}},
		kept("present", "v=spf1 "+platformInclude+" -all", "present"),
		kept("present in a different case, with a plus", "V=SPF1 +Include:SPF.Protection.Outlook.com ~ALL", "present"),
		kept("present, with +all", "v=spf1 "+platformInclude+" +all", "present", "spf_permissive"),
		merged("keeps ~all", "v=spf1 a ~all", "v=spf1 a "+platformInclude+" ~all"),
		merged("keeps -all", "v=spf1 mx -all", "v=spf1 mx "+platformInclude+" -all"),
		merged("keeps ?all", "v=spf1 mx ?all", "v=spf1 mx "+platformInclude+" ?all", "spf_neutral"),
		merged("a record without \"all\"", "v=spf1 a", "v=spf1 a "+platformInclude+" ~all"),
		merged("a record without terms", "v=spf1", "v=spf1 "+platformInclude+" ~all"),
		merged("a space at the end", "v=spf1 a ", "v=spf1 a "+platformInclude+" ~all"),
		merged("terms after \"all\" are ignored", "v=spf1 a -all "+platformInclude, "v=spf1 a "+platformInclude+" -all "+platformInclude),
		merged("keeps order, spelling, spaces, macros and unknown modifiers", "v=spf1  A:Web.Else.test/28  exists:%{i}._s.else.test x-y=%{d} exp=e.else.test -ALL",
			"v=spf1  A:Web.Else.test/28  exists:%{i}._s.else.test x-y=%{d} exp=e.else.test "+platformInclude+" -ALL"),
		merged("a note for ptr", "v=spf1 ptr ~all", "v=spf1 ptr "+platformInclude+" ~all", "spf_ptr"),
		merged("a note for a long record", "v=spf1"+longTerms+" ~all", "v=spf1"+longTerms+" "+platformInclude+" ~all", "spf_long"),
		refused("spf_include_negated", "v=spf1 -"+platformInclude+" ~all", "spf_include_negated", true),
		refused("spf_include_negated by a softfail", "v=spf1 ~"+platformInclude+" ~all", "spf_include_negated", true),
		merged("a negation after \"all\" is ignored", "v=spf1 a ~all -"+platformInclude, "v=spf1 a "+platformInclude+" ~all -"+platformInclude),
		refused("spf_permissive", "v=spf1 a +all", "spf_permissive", false),
		refused("spf_permissive without a sign", "v=spf1 a all", "spf_permissive", false),
		refused("spf_was_no_mail", "v=spf1 -all", "spf_was_no_mail", true),
		refused("spf_was_no_mail with an explanation", "v=spf1 exp=why.else.test -all", "spf_was_no_mail", true),
		refused("spf_syntax", "v=spf1 include -all", "spf_syntax", true),
		{name: "spf_multiple", sets: spfRecords("v=spf1 a -all", "v=spf1 mx -all"), action: dns.Conflict, reason: "spf_multiple", blocking: true,
			after: []string{"v=spf1 a -all", "v=spf1 mx -all"}},
		{name: "spf_duplicates with the platform", sets: spfRecords("v=spf1 "+platformInclude+" -all", "v=spf1 "+platformInclude+" -all"), action: dns.Update, reason: "spf_duplicates",
			after: []string{"v=spf1 " + platformInclude + " -all"}},
		{name: "duplicates without the platform", sets: spfRecords("v=spf1 a -all", "v=spf1 a -all"), action: dns.Update, reason: "spf_merged",
			after: []string{"v=spf1 a " + platformInclude + " -all"}},
		{name: "cname_at_domain", sets: []dns.RRSet{rrset("a.test", dns.CNAME, "web.else.test")}, action: dns.Conflict, reason: "cname_at_domain", blocking: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.run(t, offerWithoutOwnership(), "a.test", dns.Sending)
		})
	}
}

func TestPlanFollowsSPFReferences(t *testing.T) {
	const text = "v=spf1 include:one.test -all"
	sevenLookups := "v=spf1 a mx a:1.test a:2.test a:3.test mx:4.test exists:5.test -all"
	treeWith8Lookups := map[string]string{"one.test": sevenLookups} // 8 lookups: one for the include, 7 for its terms
	mergedText := "v=spf1 include:one.test " + platformInclude + " -all"
	for _, tc := range []planCase{
		{name: "spf_lookup_limit: 11 lookups with the platform", sets: spfRecords("v=spf1 a include:one.test mx -all"), referenced: spfTree(treeWith8Lookups), action: dns.Conflict,
			reason: "spf_lookup_limit", blocking: true, after: []string{"v=spf1 a include:one.test mx -all"}},
		{name: "10 lookups with the platform", sets: spfRecords("v=spf1 a include:one.test -all"), referenced: spfTree(treeWith8Lookups), action: dns.Update, reason: "spf_merged",
			notes: []dns.Note{"spf_lookups_near_limit"}, after: []string{"v=spf1 a include:one.test " + platformInclude + " -all"}},
		{name: "9 lookups with the platform", sets: spfRecords(text), referenced: spfTree(treeWith8Lookups), action: dns.Update, reason: "spf_merged",
			notes: []dns.Note{"spf_lookups_near_limit"}, after: []string{mergedText}},
		{name: "the platform's include costs all lookups of its tree", sets: spfRecords(text), referenced: spfTree(map[string]string{"one.test": sevenLookups, platformSPF: "v=spf1 a a:6.test -all"}),
			action: dns.Conflict, reason: "spf_lookup_limit", blocking: true, after: []string{text}},
		{name: "spf_lookup_limit: the existing record has the platform and too many lookups", sets: spfRecords("v=spf1 include:one.test a mx ptr " + platformInclude + " -all"), referenced: spfTree(treeWith8Lookups),
			action: dns.Conflict, reason: "spf_lookup_limit", blocking: true, after: []string{"v=spf1 include:one.test a mx ptr " + platformInclude + " -all"}},
		{name: "a loop of references", sets: spfRecords(text), referenced: spfTree(map[string]string{"one.test": "v=spf1 include:two.test", "two.test": "v=spf1 redirect=one.test"}),
			action: dns.Conflict, reason: "spf_lookup_limit", blocking: true, after: []string{text}},
		{name: "a loop of references after the platform's include", sets: spfRecords("v=spf1 " + platformInclude + " include:one.test -all"), referenced: spfTree(map[string]string{"one.test": "v=spf1 include:one.test"}),
			action: dns.Conflict, reason: "spf_lookup_limit", blocking: true, after: []string{"v=spf1 " + platformInclude + " include:one.test -all"}},
		{name: "terms after \"all\" and a redirect next to \"all\" cost nothing", sets: spfRecords("v=spf1 a -all include:x.test include:y.test redirect=z.test"), action: dns.Update,
			reason: "spf_merged", after: []string{"v=spf1 a " + platformInclude + " -all include:x.test include:y.test redirect=z.test"}},
		{name: "the platform is inserted before a redirect", sets: spfRecords("v=spf1 a redirect=one.test"), referenced: spfTree(treeWith8Lookups), action: dns.Update, reason: "spf_merged",
			notes: []dns.Note{"spf_lookups_near_limit"}, after: []string{"v=spf1 a " + platformInclude + " redirect=one.test"}},
		{name: "spf_indirect by an include", sets: spfRecords(text), referenced: spfTree(map[string]string{"one.test": "v=spf1 " + platformInclude + " ~all"}),
			action: dns.Preserve, reason: "spf_indirect", after: []string{text}},
		{name: "spf_indirect by a redirect and an include", sets: spfRecords("v=spf1 redirect=one.test"),
			referenced: spfTree(map[string]string{"one.test": "v=spf1 include:two.test -all", "two.test": "v=spf1 " + platformInclude}),
			action:     dns.Preserve, reason: "spf_indirect", after: []string{"v=spf1 redirect=one.test"}},
		{name: "spf_indirect by a redirect to the platform", sets: spfRecords("v=spf1 redirect=" + platformSPF), action: dns.Preserve, reason: "spf_indirect",
			after: []string{"v=spf1 redirect=" + platformSPF}},
		{name: "an include with a softfail does not cover the platform", sets: spfRecords("v=spf1 ~include:one.test ~all"),
			referenced: spfTree(map[string]string{"one.test": "v=spf1 " + platformInclude}), action: dns.Update, reason: "spf_merged",
			after: []string{"v=spf1 ~include:one.test " + platformInclude + " ~all"}},
		{name: "spf_lookups_unknown: a name did not answer", sets: spfRecords(text), action: dns.Conflict, reason: "spf_lookups_unknown", blocking: true, after: []string{text}},
		{name: "an unknown name does not affect an existing record", sets: spfRecords(mergedText), action: dns.Preserve, reason: "present",
			notes: []dns.Note{"spf_lookups_unknown"}, after: []string{mergedText}},
		{name: "a name with a macro costs one lookup and cannot be read", sets: spfRecords("v=spf1 include:%{d}.one.test ~all"), action: dns.Update, reason: "spf_merged",
			after: []string{"v=spf1 include:%{d}.one.test " + platformInclude + " ~all"}},
		{name: "a note for a name without a record", sets: spfRecords(text), referenced: spfTree(map[string]string{"one.test": ""}), action: dns.Update, reason: "spf_merged",
			notes: []dns.Note{"spf_reference_broken"}, after: []string{mergedText}},
		{name: "a note for three names without records", sets: spfRecords("v=spf1 include:one.test include:two.test include:x.test ~all"),
			referenced: spfTree(map[string]string{"one.test": "", "two.test": "", "x.test": ""}), action: dns.Update, reason: "spf_merged",
			notes: []dns.Note{"spf_void_limit", "spf_reference_broken"},
			after: []string{"v=spf1 include:one.test include:two.test include:x.test " + platformInclude + " ~all"}},
		{name: "an unknown name of the platform does not block", sets: spfRecords("v=spf1 a ~all"),
			referenced: func(r *dns.Referenced) { r.SPF = nil }, action: dns.Update, reason: "spf_merged", after: []string{"v=spf1 a " + platformInclude + " ~all"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.run(t, offerWithoutOwnership(), "a.test", dns.Sending)
		})
	}
}

// TestPlanSPFAddsPlatformsInclude checks that a plan adds the include that the platform specifies.
// The include differs between the clouds of the platform.
func TestPlanSPFAddsPlatformsInclude(t *testing.T) {
	governmentOffer := dns.Offer{Service: []dns.Record{{Type: dns.TXT, Name: "a.test", Content: "v=spf1 include:spf.protection.office365.us -all"}}}
	got := itemFor(t, dns.NewPlan(governmentOffer, reliableRead(spfRecords("v=spf1 "+platformInclude+" ~all")...), nil), dns.Sending)
	if got.Action != dns.Update || got.Desired != "v=spf1 "+platformInclude+" include:spf.protection.office365.us ~all" {
		t.Fatalf("got %+v, want the record with both includes", got)
	}
}

func TestPlanSPFReplacesManagedRecord(t *testing.T) {
	const managedRecord = "v=spf1 a include:spf.old-platform.test ~all"
	writtenOver := func(replaced string) []dns.Written {
		return []dns.Written{{Purpose: dns.Sending, Name: "a.test", Type: dns.TXT, Value: managedRecord, Replaced: replaced}}
	}
	for _, tc := range []planCase{
		{name: "the replaced record is merged again", sets: spfRecords("x", managedRecord), managed: writtenOver("v=spf1 a ~all"), action: dns.Update, reason: "own_superseded",
			after: []string{"x", "v=spf1 a " + platformInclude + " ~all"}},
		{name: "no record was replaced", sets: spfRecords(managedRecord), managed: writtenOver(""), action: dns.Update, reason: "own_superseded",
			after: []string{"v=spf1 " + platformInclude + " -all"}},
		{name: "the record was changed after the write", sets: spfRecords(managedRecord + " "), managed: writtenOver(""), referenced: spfTree(map[string]string{"spf.old-platform.test": "v=spf1 -all"}),
			action: dns.Update, reason: "spf_merged", after: []string{"v=spf1 a include:spf.old-platform.test " + platformInclude + " ~all "}},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.run(t, offerWithoutOwnership(), "a.test", dns.Sending) })
	}
}

// TestPlanRefusesInvalidSPFTerms checks that a plan reports a syntax error for invalid terms of an
// SPF record, and not for valid terms.
func TestPlanRefusesInvalidSPFTerms(t *testing.T) {
	valid := []string{
		"a/24", "a//64", "a/24//64", "a:x.test/24//64", "mx:x.test", "ptr", "ptr:x.test", "ip4:192.0.2.1", "ip4:192.0.2.0/24", "ip6:2001:db8::/32",
		"exists:%{ir}.%{v}._spf.%{d2}", "exists:%{l1r+-/}.x.test", "include:x.test.", "x=y", "x-y.z_1=%%%_%-", "-ip4:192.0.2.1", "?A:X.test", "moo=", "mx=x",
	}
	invalid := []string{
		"a/33", "a/", "a//129", "a:x.test/+4", "a:", "a:test", "include", "include:", "include:test", "ip4", "ip4:x.test", "ip4:192.0.2.1/33",
		"ip4:2001:db8::1", "ip6:192.0.2.1", "ip6:fe80::1%eth0", "all:x.test", "exists:%{q}.x.test", "exists:%{dx}.x.test", "exists:%{d0}.x.test", "exists:%{d2rr}.x.test", "exists:%{}.x.test", "exists:%x.x.test", "exists:%{.x.test", "include:x.test\ty",
		"moo", "moo:x.test", "+", "redirect=", "redirect=x.test redirect=y.test", "+x=y", "=x", "_x=y", "a,mx", "\xff", "include:b\u00fccher.test",
	}
	checkSyntax := func(terms string, wantValid bool) {
		text := "v=spf1 " + terms + " ~all"
		read := reliableRead(spfRecords(text)...)
		got := itemFor(t, dns.NewPlan(offerWithoutOwnership(), read, nil), dns.Sending)
		if (got.Reason != "spf_syntax") != wantValid {
			t.Errorf("%q: the reason is %s, want a valid record: %t", text, got.Reason, wantValid)
		}
	}
	for _, terms := range valid {
		checkSyntax(terms, true)
	}
	for _, terms := range invalid {
		checkSyntax(terms, false)
	}
}

func TestSPFReferencesListsNamesOfIncludesAndRedirect(t *testing.T) {
	for text, want := range map[string][]string{
		"v=spf1 include:A.test. ~include:b.test a:c.test redirect=d.test":             {"a.test", "b.test", "d.test"},
		"v=spf1 include:%{d}.test include:a.test -all include:b.test redirect=c.test": {"a.test"},
		"v=spf1 redirect=%{d}.x.test":                                                 nil,
		"v=spf1 include":                                                              nil,
		"google-site-verification=abc":                                                nil,
	} {
		if diff := cmp.Diff(want, dns.SPFReferences(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// TestPlanSPFReplacesManagedRecordAgain checks a platform whose include changes several times. The
// plan follows the stored writes back to the customer's record and adds the new include to this
// record. If the writes form a loop, the customer's record is unknown, and an earlier include
// stays.
func TestPlanSPFReplacesManagedRecordAgain(t *testing.T) {
	const customerRecord, firstWritten, secondWritten = "v=spf1 a ~all", "v=spf1 a include:one.test ~all", "v=spf1 a include:two.test ~all"
	written := func(value, replaced string) dns.Written {
		return dns.Written{Purpose: dns.Sending, Name: "a.test", Type: dns.TXT, Value: value, Replaced: replaced}
	}
	referencedRecords := spfTree(map[string]string{"one.test": "v=spf1 -all", "two.test": "v=spf1 -all", "x.test": "v=spf1 -all"})
	for _, tc := range []planCase{
		{name: "the customer's record was replaced twice", sets: spfRecords(secondWritten),
			managed: []dns.Written{written(firstWritten, customerRecord), written(secondWritten, firstWritten)}, after: []string{"v=spf1 a " + platformInclude + " ~all"}},
		{name: "the customer changed the record between the writes", sets: spfRecords("v=spf1 mx include:one.test include:two.test ~all"),
			managed: []dns.Written{written(firstWritten, customerRecord), written("v=spf1 mx include:one.test include:two.test ~all", "v=spf1 mx include:one.test ~all")},
			after:   []string{"v=spf1 mx include:one.test " + platformInclude + " ~all"}},
		{name: "the first write replaced no record", sets: spfRecords("v=spf1 include:two.test -all"),
			managed: []dns.Written{written("v=spf1 include:one.test -all", ""), written("v=spf1 include:two.test -all", "v=spf1 include:one.test -all")},
			after:   []string{"v=spf1 " + platformInclude + " -all"}},
		// The store keeps only the last write of a value, so the customer's record is not known.
		{name: "the platform returned to an earlier include", sets: spfRecords(firstWritten),
			managed: []dns.Written{written(secondWritten, firstWritten), written(firstWritten, secondWritten)}, after: []string{"v=spf1 a include:one.test " + platformInclude + " ~all"}},
		{name: "a write that removed duplicates", sets: spfRecords(firstWritten),
			managed: []dns.Written{written(firstWritten, firstWritten)}, after: []string{"v=spf1 a include:one.test " + platformInclude + " ~all"}},
	} {
		tc.referenced, tc.action, tc.reason = referencedRecords, dns.Update, dns.ReasonOwnSuperseded
		t.Run(tc.name, func(t *testing.T) { tc.run(t, offerWithoutOwnership(), "a.test", dns.Sending) })
	}
}
