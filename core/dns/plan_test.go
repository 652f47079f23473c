// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
)

func TestPlanForEmptyZoneCreatesEachRecord(t *testing.T) {
	webCNAME := rrset("www.a.test", dns.CNAME, "web.test")
	plan := dns.NewPlan(offer(), reliableRead(rrset("a.test", dns.NS, "ns1.test"), rrset("a.test", dns.SOA, "x"), webCNAME), nil)
	if !plan.SafeToApply() || len(plan.Blocking()) != 0 || plan.Zone != "a.test" || len(plan.Observed) != 0 {
		t.Fatalf("got %+v, want a plan of a.test that is safe to apply", plan)
	}
	var changedSets []string
	for _, c := range plan.Changes {
		if len(c.Before.Values) != 0 || c.After.TTL != 3600 {
			t.Errorf("got %+v, want a new set with the TTL 3600", c)
		}
		changedSets = append(changedSets, c.After.Name+" "+string(c.After.Type))
	}
	// The ownership record is written first, in the same record set as SPF.
	want := []string{"a.test TXT", "a.test MX", "autodiscover.a.test CNAME", "_dmarc.a.test TXT",
		"selector1._domainkey.a.test CNAME", "selector2._domainkey.a.test CNAME"}
	if diff := cmp.Diff(want, changedSets); diff != "" {
		t.Error(diff)
	}
	if err := dns.CheckChanges("a.test", plan.Changes); err != nil {
		t.Error(err)
	}
	if got := plan.Changes[0].After.Values; !slices.Equal(got, []string{ownershipText, "v=spf1 " + platformInclude + " -all"}) {
		t.Errorf("the texts are %q, want the ownership record and the SPF record", got)
	}
}

// TestPlanKeepsTheTTL checks that a changed record set keeps its TTL. A different TTL alone causes
// no change.
func TestPlanKeepsTheTTL(t *testing.T) {
	read := reliableRead(withTTL(60, rrset("a.test", dns.TXT, "x")), withTTL(77, rrset("a.test", dns.MX, "0 "+platformMX)))
	plan := dns.NewPlan(offer(), read, nil)
	if c := plan.Changes[0]; c.Before.TTL != 60 || c.After.TTL != 60 {
		t.Errorf("got %+v, want the TTL 60", c)
	}
	if got := itemFor(t, plan, dns.Inbound); got.Action != dns.Preserve {
		t.Errorf("an MX with a different TTL is not preserved: %+v", got)
	}
}

func TestUnreliableReadIsNotSafeToApply(t *testing.T) {
	read := reliableRead()
	read.Complete, read.Reason = false, "servers_disagree"
	if plan := dns.NewPlan(offer(), read, nil); plan.SafeToApply() || plan.Reliable || plan.Reason != "servers_disagree" || len(plan.Items) != 7 {
		t.Fatalf("got %+v, want 7 items and a plan that is not safe to apply", plan)
	}
}

func TestPlanHashCoversOnlyInspectedRecordsAndDecisions(t *testing.T) {
	zoneSets := []dns.RRSet{rrset("a.test", dns.TXT, "x", "v=spf1 a -all"), rrset("a.test", dns.MX, "0 "+previousMX)}
	hash := func(sets ...dns.RRSet) string { return dns.NewPlan(offer(), reliableRead(sets...), nil).Hash() }
	equalHashes := map[string]string{
		"records in another order":             hash(zoneSets[1], rrset("A.test.", dns.TXT, "v=spf1 a -all", "x")),
		"another TTL of a set":                 hash(withTTL(60, zoneSets[0]), zoneSets[1]),
		"records that a plan does not inspect": hash(zoneSets[0], zoneSets[1], rrset("www.a.test", dns.CNAME, "x.test"), rrset("a.test", "A", "192.0.2.1")),
	}
	for name, got := range equalHashes {
		if got != hash(zoneSets...) {
			t.Errorf("the hash changes with %s", name)
		}
	}
	differentHashes := map[string]string{
		"another text next to the SPF record": hash(rrset("a.test", dns.TXT, "y", "v=spf1 a -all"), zoneSets[1]),
		"bytes that JSON alters":              hash(rrset("a.test", dns.TXT, "\xff", "v=spf1 a -all"), zoneSets[1]),
		"other bytes that JSON alters":        hash(rrset("a.test", dns.TXT, "\xfe", "v=spf1 a -all"), zoneSets[1]),
		"another qualifier":                   hash(rrset("a.test", dns.TXT, "x", "v=spf1 a ~all"), zoneSets[1]),
		"no MX record set":                    hash(zoneSets[0]),
		"a conflict":                          hash(zoneSets[0], zoneSets[1], rrset("selector1._domainkey.a.test", dns.CNAME, "x.test")),
		"one record already exists":           hash(zoneSets[0], zoneSets[1], rrset("autodiscover.a.test", dns.CNAME, autodiscoverTarget)),
		"unchanged":                           hash(zoneSets...),
	}
	readWithForeignMX := reliableRead(rrset("a.test", dns.MX, "5 mx.else.test"))
	offerWithOtherMX := offer()
	offerWithOtherMX.Service[0].Content = "a-test.el5e.mx.microsoft"
	differentHashes["a conflict with one desired MX host"] = dns.NewPlan(offer(), readWithForeignMX, nil).Hash()
	differentHashes["a conflict with another desired MX host"] = dns.NewPlan(offerWithOtherMX, readWithForeignMX, nil).Hash()
	nameOfHash := map[string]string{}
	for name, got := range differentHashes {
		if nameOfHash[got] != "" {
			t.Errorf("%s has the same hash as %s", name, nameOfHash[got])
		}
		nameOfHash[got] = name
	}
}

// TestPlanSurvivesJSON checks that a plan is equal after it was encoded as JSON and decoded, if all
// its texts are valid UTF-8.
func TestPlanSurvivesJSON(t *testing.T) {
	plan := dns.NewPlan(offer(), reliableRead(rrset("a.test", dns.TXT, "v=spf1 a -all"), rrset("a.test", dns.MX, "0 .")), nil)
	encoded, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	var decoded dns.Plan
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plan, decoded); diff != "" {
		t.Error(diff)
	}
	if decoded.Hash() != plan.Hash() || decoded.SafeToApply() {
		t.Errorf("the decoded plan has a different hash, or is safe to apply despite a conflict: %+v", decoded)
	}
}

// TestPlanNotesThatItOverridesAWildcard checks a domain without records of its own. A wildcard of
// the zone answers for the domain. The first record that is written at the domain overrides that
// wildcard.
func TestPlanNotesThatItOverridesAWildcard(t *testing.T) {
	read := reliableRead(fromWildcard(withTTL(60, rrset("a.test", dns.TXT, "x", "v=spf1 mx ~all"))), fromWildcard(rrset("a.test", dns.MX, "5 mx.else.test")))
	read.Zone = "test" // at the apex of its zone, a.test would have its own records
	plan := dns.NewPlan(offerWithoutOwnership(), read, nil)
	if got := itemFor(t, plan, dns.Inbound); got.Reason != "mx_other_provider" || !got.Blocking {
		t.Errorf("an MX from a wildcard: got %+v, want a blocking conflict", got)
	}
	if got := itemFor(t, plan, dns.Sending); !slices.Equal(got.Notes, []dns.Note{"wildcard_overridden"}) {
		t.Errorf("got %+v, want the note wildcard_overridden", got)
	}
	want := dns.Change{Before: rrset("a.test", dns.TXT), After: withTTL(60, rrset("a.test", dns.TXT, "x", "v=spf1 mx "+platformInclude+" ~all"))}
	if diff := cmp.Diff(want, plan.Changes[0]); diff != "" {
		t.Error(diff)
	}
	providerRecords := []dns.RRSet{rrset("*.test", dns.TXT, "x", "v=spf1 mx ~all"), rrset("*.test", dns.MX, "5 mx.else.test")}
	if planOfRecords := dns.NewPlan(offerWithoutOwnership(), read.WithProviderRecords(providerRecords), nil); planOfRecords.Hash() != plan.Hash() {
		t.Errorf("the provider's list results in a different plan: %+v", planOfRecords.Items)
	}
	readWithOwnRecord := read.WithProviderRecords([]dns.RRSet{rrset("a.test", dns.TXT, "mine")})
	if got := dns.NewPlan(offerWithoutOwnership(), readWithOwnRecord, nil); !got.SafeToApply() {
		t.Errorf("the wildcard still blocks a domain with its own records: %+v", got.Items)
	}
}

// TestAnswersAndListWithWildcardDMARCGiveOnePlan checks a DMARC record from a wildcard, which
// receivers apply. The name servers return it as a record of the name. The provider's list contains
// only the wildcard. The answers and the list must lead to the same plan.
func TestAnswersAndListWithWildcardDMARCGiveOnePlan(t *testing.T) {
	answers := reliableRead(fromWildcard(rrset("_dmarc.a.test", dns.TXT, "v=DMARC1; p=reject")))
	wildcard := rrset("*.a.test", dns.TXT, "v=DMARC1; p=reject")
	plan := dns.NewPlan(offer(), answers.WithProviderRecords([]dns.RRSet{wildcard}), nil)
	if got := itemFor(t, plan, dns.Policy); got.Action != dns.Preserve || plan.Hash() != dns.NewPlan(offer(), answers, nil).Hash() {
		t.Errorf("the provider's list results in a different plan: %+v", got)
	}
	ownRecord := rrset("_dmarc.a.test", dns.TXT, "v=DMARC1; p=none")
	if got := itemFor(t, dns.NewPlan(offer(), answers.WithProviderRecords([]dns.RRSet{wildcard, ownRecord}), nil), dns.Policy); !slices.Equal(got.Observed, ownRecord.Values) {
		t.Errorf("the wildcard counts although the name has its own record: %+v", got)
	}
}

// TestApexRecordsAreNotAWildcardsAnswer checks the apex of a zone, which always has its own
// records. These records are not treated as a wildcard's answer, even if a wildcard has equal
// texts.
func TestApexRecordsAreNotAWildcardsAnswer(t *testing.T) {
	read := reliableRead(fromWildcard(withTTL(60, rrset("a.test", dns.TXT, "v=spf1 a -all"))))
	spfChange := dns.NewPlan(offerWithoutOwnership(), read, nil).Changes[1] // the first change is the MX
	if diff := cmp.Diff(withTTL(60, rrset("a.test", dns.TXT, "v=spf1 a -all")), spfChange.Before); diff != "" {
		t.Error(diff)
	}
}

// TestPlanListsWrittenValues checks that Plan.Writes contains each written value with its purpose
// and the value that it replaces.
func TestPlanListsWrittenValues(t *testing.T) {
	platformOffer := dns.Offer{
		Verification: []dns.Record{{Type: dns.TXT, Name: "a.test", Content: "MS=ms1"}},
		Service:      []dns.Record{{Type: dns.TXT, Name: "a.test", Content: "v=spf1 include:spf.protection.outlook.com -all"}},
	}
	read := dns.ZoneRead{Domain: "a.test", Zone: "a.test", Complete: true, Sets: []dns.RRSet{
		{Name: "a.test", Type: dns.TXT, TTL: 300, Values: []string{"v=spf1 a ~all"}},
	}}
	writes := map[dns.Purpose]dns.Written{}
	for _, written := range dns.NewPlan(platformOffer, read, nil).Writes {
		writes[written.Purpose] = written
	}
	if written := writes[dns.Ownership]; written.Value != "MS=ms1" || written.Replaced != "" || written.Name != "a.test" || written.Type != dns.TXT {
		t.Errorf("ownership: got %+v, want the added record", written)
	}
	if written := writes[dns.Sending]; written.Value != "v=spf1 a include:spf.protection.outlook.com ~all" || written.Replaced != "v=spf1 a ~all" {
		t.Errorf("sending: got %+v, want the merged record and the replaced one", written)
	}
}

func TestPlanKeepsOtherOwnershipRecords(t *testing.T) {
	offerWithoutService := offer()
	offerWithoutService.Service = nil
	managed := []dns.Written{{Purpose: dns.Ownership, Name: "a.test", Type: dns.TXT, Value: "MS=ms1"}}
	for _, tc := range []planCase{
		{name: "no record", action: dns.Create, reason: "missing", after: []string{ownershipText}},
		{name: "present among other texts", sets: spfRecords("x", ownershipText, "y"), action: dns.Preserve, reason: "present", after: []string{"x", ownershipText, "y"}},
		{name: "keeps other texts and other tenants' records", sets: spfRecords("MS=ms99", "x"), action: dns.Create, reason: "missing", after: []string{"MS=ms99", "x", ownershipText}},
		{name: "letter case matters", sets: spfRecords("ms=MS12345678"), action: dns.Create, reason: "missing", after: []string{"ms=MS12345678", ownershipText}},
		{name: "own_superseded", sets: spfRecords("x", "MS=ms1", "y"), managed: managed, action: dns.Update, reason: "own_superseded", after: []string{"x", ownershipText, "y"}},
		{name: "a superseded managed record may remain next to the current one", sets: spfRecords("MS=ms1", ownershipText), managed: managed, action: dns.Preserve, reason: "present",
			after: []string{"MS=ms1", ownershipText}},
		{name: "keeps invalid UTF-8", sets: spfRecords("\x00\xff;\"\\"), action: dns.Create, reason: "missing", after: []string{"\x00\xff;\"\\", ownershipText}},
		{name: "txt_set_large", sets: spfRecords(strings.Repeat("x", 8192)), action: dns.Create, reason: "missing", notes: []dns.Note{"txt_set_large"},
			after: []string{strings.Repeat("x", 8192), ownershipText}},
		{name: "cname_at_domain", sets: []dns.RRSet{rrset("a.test", dns.CNAME, "web.else.test")}, action: dns.Conflict, reason: "cname_at_domain", blocking: true},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.run(t, offerWithoutService, "a.test", dns.Ownership) })
	}
}

func TestPlanConflictsWithForeignAutodiscoverRecords(t *testing.T) {
	const name = "autodiscover.a.test"
	for _, tc := range []planCase{
		{name: "no record", action: dns.Create, reason: "missing", after: []string{autodiscoverTarget}},
		{name: "an equal target in capitals", sets: []dns.RRSet{rrset(name, dns.CNAME, "Autodiscover.Outlook.com.")}, action: dns.Preserve, reason: "present",
			after: []string{"Autodiscover.Outlook.com."}},
		{name: "proxied", sets: veiled([]dns.RRSet{rrset(name, dns.CNAME, autodiscoverTarget)}), action: dns.Preserve, reason: "present",
			notes: []dns.Note{"proxied"}, after: []string{autodiscoverTarget}},
		{name: "autodiscover_taken by a CNAME", sets: []dns.RRSet{rrset(name, dns.CNAME, "else.test")}, action: dns.Conflict, reason: "autodiscover_taken",
			after: []string{"else.test"}},
		{name: "autodiscover_taken by an address", sets: []dns.RRSet{rrset(name, "A", "192.0.2.1")}, action: dns.Conflict, reason: "autodiscover_taken"},
		{name: "own_superseded", sets: []dns.RRSet{rrset(name, dns.CNAME, "old.test")},
			managed: []dns.Written{{Purpose: dns.Autodiscover, Name: name, Type: dns.CNAME, Value: "old.test"}},
			action:  dns.Update, reason: "own_superseded", after: []string{autodiscoverTarget}},
		{name: "only a wildcard answers", sets: []dns.RRSet{fromWildcard(rrset(name, dns.CNAME, "web.test"))}, action: dns.Create, reason: "missing",
			notes: []dns.Note{"wildcard_overridden"}, after: []string{autodiscoverTarget}},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.run(t, offer(), "a.test", dns.Autodiscover) })
	}
}

// TestPlanEndsProxyingOfSelectors checks a DKIM CNAME that has the right target and that the
// provider proxies. A plan writes this CNAME again, which ends the proxying. Writes does not list
// the target, because the plan adds no value.
func TestPlanEndsProxyingOfSelectors(t *testing.T) {
	const name = "selector1._domainkey.a.test"
	proxied := veiled([]dns.RRSet{rrset(name, dns.CNAME, target1), rrset("_dmarc.a.test", dns.CNAME, "a.vendor.test")})
	public := reliableRead(rrset(name, "A", "192.0.2.1"), rrset("_dmarc.a.test", "A", "192.0.2.1"))
	plan, publicPlan := dns.NewPlan(offer(), public.WithProviderRecords(proxied), nil), dns.NewPlan(offer(), public, nil)
	selectorChange := slices.IndexFunc(plan.Changes, func(c dns.Change) bool { return c.After.Name == name })
	if selectorChange < 0 || !plan.Changes[selectorChange].Before.Veiled || plan.Changes[selectorChange].After.Veiled || slices.ContainsFunc(plan.Writes, func(w dns.Written) bool { return w.Purpose == dns.Selector1 }) {
		t.Fatalf("the plan has the changes %+v and the writes %+v, want a change that ends the proxying", plan.Changes, plan.Writes)
	}
	outstanding, err := dns.Outstanding(proxied, plan.Changes)
	if !slices.ContainsFunc(outstanding, func(c dns.Change) bool { return c.After.Name == name }) || err != nil {
		t.Errorf("the outstanding changes are %+v, %v, want the one that ends the proxying", outstanding, err)
	}
	if outstanding, err = dns.Outstanding([]dns.RRSet{plan.Changes[selectorChange].After}, plan.Changes[selectorChange:selectorChange+1]); len(outstanding) > 0 || err != nil {
		t.Errorf("after the write, the outstanding changes are %+v, %v, want none", outstanding, err)
	}
	if plan.VisibleIn(publicPlan) {
		t.Error("VisibleIn returns true while the servers return addresses in place of the selector's CNAME")
	}
	var published []dns.RRSet
	for _, c := range plan.Changes {
		published = append(published, c.After)
	}
	public = reliableRead(slices.Concat(published, []dns.RRSet{rrset("_dmarc.a.test", "A", "192.0.2.1")})...)
	storedAfterWrite := slices.Concat(published, proxied[1:])
	if plan, publicPlan = dns.NewPlan(offer(), public.WithProviderRecords(storedAfterWrite), nil), dns.NewPlan(offer(), public, nil); !plan.Complete() || !plan.VisibleIn(publicPlan) {
		t.Errorf("after the write, the plans are %+v and %+v, want nothing to wait for", plan.Items, publicPlan.Items)
	}
}

// TestPlanUsesProviderRecords checks that a plan uses the provider's list of records. The answers
// of the name servers differ from that list if the provider flattens a CNAME or has a wildcard.
func TestPlanUsesProviderRecords(t *testing.T) {
	public := reliableRead(rrset("selector1._domainkey.a.test", dns.TXT, "v=DKIM1; p=MIIB"), fromWildcard(rrset("autodiscover.a.test", dns.CNAME, "web.test")))
	public.Referenced.Keys = map[string][]string{target1: {"v=DKIM1; p=MIIB"}}
	providerRecords := []dns.RRSet{
		rrset("a.test", dns.CNAME, "web.else.test"), rrset("*.a.test", dns.CNAME, "web.test"),
		rrset("selector1._domainkey.a.test", dns.CNAME, target1),
	}
	planOfAnswers, planOfRecords := dns.NewPlan(offer(), public, nil), dns.NewPlan(offer(), public.WithProviderRecords(providerRecords), nil)
	if itemFor(t, planOfAnswers, dns.Selector1).Reason != "dkim_flattened" || itemFor(t, planOfRecords, dns.Selector1).Reason != "present" {
		t.Errorf("selector 1 is not flattened in the answers or not present in the provider's list: %+v, %+v", planOfAnswers.Items, planOfRecords.Items)
	}
	if planOfAnswers.Hash() != planOfRecords.Hash() {
		t.Error("the plans of the answers and of the provider's list have different hashes, although only flattening and wildcards differ")
	}
	if diff := cmp.Diff(planOfAnswers.Changes, planOfRecords.Changes); diff != "" {
		t.Error(diff)
	}
	readWithCNAME := reliableRead(rrset("a.test", dns.CNAME, "web.else.test")).WithProviderRecords(providerRecords)
	if got := itemFor(t, dns.NewPlan(offer(), readWithCNAME, nil), dns.Inbound); got.Reason != "cname_at_domain" {
		t.Errorf("a published CNAME: got %+v, want the reason cname_at_domain", got)
	}
	if len(providerRecords) != 3 || providerRecords[0].Type != dns.CNAME {
		t.Errorf("WithProviderRecords changes the list that it is passed: %+v", providerRecords)
	}
}

// TestFlattenedCNAMEBlocksBelowTheApex checks a domain below the apex whose CNAME the provider
// flattens or proxies. The provider still stores the CNAME, so it accepts no other records there.
func TestFlattenedCNAMEBlocksBelowTheApex(t *testing.T) {
	public := reliableRead(rrset("a.test", dns.A, "192.0.2.1"))
	public.Zone = "test"
	plan := dns.NewPlan(offer(), public.WithProviderRecords([]dns.RRSet{rrset("a.test", dns.CNAME, "web.else.test")}), nil)
	if got := itemFor(t, plan, dns.Inbound); got.Reason != dns.ReasonAliasAtDomain || !got.Blocking || plan.SafeToApply() {
		t.Errorf("got %+v, want a blocking item with the reason %s", got, dns.ReasonAliasAtDomain)
	}
}

// TestProxiedApexCNAMEDoesNotAddAnswers checks a zone whose provider proxies the CNAME at the apex.
// The provider allows other records there, so the plan takes them only from the provider's list.
func TestProxiedApexCNAMEDoesNotAddAnswers(t *testing.T) {
	text, oldMX := rrset("a.test", dns.TXT, "mine"), rrset("a.test", dns.MX, "10 mx.old.test")
	public := reliableRead(text, oldMX, rrset("a.test", dns.A, "192.0.2.1"))
	stored := append(veiled([]dns.RRSet{rrset("a.test", dns.CNAME, "web.else.test")}), text)
	plan := dns.NewPlan(offer(), public.WithProviderRecords(stored), nil)
	if got := itemFor(t, plan, dns.Inbound); got.Action != dns.Create {
		t.Errorf("the item for an MX set that the provider no longer has is %+v, want it created", got)
	}
	if diff := cmp.Diff([]dns.RRSet{text}, plan.Observed); diff != "" {
		t.Errorf("the observed sets (-want +got):\n%s", diff)
	}
}

// TestWithProviderRecordsIsUnreliableWithUnreadNames checks lists of the provider that are newer
// than the answers of the name servers. The read becomes unreliable if the newer records depend on
// names that were not read.
func TestWithProviderRecordsIsUnreliableWithUnreadNames(t *testing.T) {
	spf, dmarc := rrset("a.test", dns.TXT, "v=spf1 include:crm.test ~all"), rrset("_dmarc.a.test", dns.TXT, "v=DMARC1; p=reject")
	key := rrset("selector1._domainkey.a.test", dns.TXT, "v=DKIM1; p=MIIB")
	for _, tc := range []struct {
		name           string
		public, stored []dns.RRSet
		wantReliable   bool
	}{
		{"the same records", []dns.RRSet{spf, dmarc, key}, []dns.RRSet{spf, dmarc, key}, true},
		{"a new name in the SPF record", []dns.RRSet{rrset("a.test", dns.TXT, "v=spf1 ~all"), dmarc}, []dns.RRSet{spf, dmarc}, false},
		{"the SPF record was removed", []dns.RRSet{spf, dmarc}, []dns.RRSet{dmarc}, true},
		{"the DMARC record was removed", []dns.RRSet{spf, dmarc}, []dns.RRSet{spf}, false},
		{"a new DMARC record", []dns.RRSet{spf}, []dns.RRSet{spf, dmarc}, true},
		{"a key in place of a CNAME", nil, []dns.RRSet{key}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wanted := dns.DesiredRecords("a.test", offer())
			got := reliableRead(tc.public...).WithProviderRecords(tc.stored, wanted...)
			if got.Complete != tc.wantReliable || (got.Reason == dns.ReasonProviderAhead) == tc.wantReliable {
				t.Errorf("complete is %t with the reason %q, want complete %t, otherwise the reason provider_ahead", got.Complete, got.Reason, tc.wantReliable)
			}
		})
	}
	unreliable := readOf()
	unreliable.Reason = "servers_disagree"
	if got := unreliable.WithProviderRecords([]dns.RRSet{spf}, dns.DesiredRecords("a.test", offer())...); got.Reason != "servers_disagree" {
		t.Errorf("an unreliable read has the reason %q, want its own", got.Reason)
	}
}

// TestWorkOfAPlanGrowsLinearlyWithTheZone checks that the plan of a zone with twice as many record
// sets takes at most three times the work. A zone can have more than 60,000 sets. The test counts
// allocations, because they do not depend on the speed of the machine.
func TestWorkOfAPlanGrowsLinearlyWithTheZone(t *testing.T) {
	allocations := func(sets int) float64 {
		stored := []dns.RRSet{rrset("a.test", dns.NS, "ns1.a.test")}
		for n := range sets / 2 {
			host := fmt.Sprintf("host-%d.of-a-zone-that-has-very-many-hosts.a.test", n)
			stored = append(stored, rrset(host, dns.A, "192.0.2.1"), rrset("zone-"+host, dns.NS, "ns1.else.test"))
		}
		return testing.AllocsPerRun(1, func() {
			dns.NewPlan(offer(), reliableRead().WithProviderRecords(stored, dns.DesiredRecords("a.test", offer())...), nil)
		})
	}
	if few, many := allocations(200), allocations(400); many > 3*few {
		t.Errorf("a plan of 400 sets allocates %v times, want at most three times as often as a plan of 200 sets, which allocates %v times", many, few)
	}
}

// TestWithProviderRecordsKeepsDelegatedRecords checks records in delegated zones at _domainkey and
// _dmarc. The name servers return these records, but the provider's list of the parent zone does
// not contain them.
func TestWithProviderRecordsKeepsDelegatedRecords(t *testing.T) {
	providerRecords := []dns.RRSet{
		rrset("_domainkey.a.test", dns.NS, "ns.esp.test"), rrset("_dmarc.a.test", dns.NS, "ns.dmarc.test"),
		rrset("selector1._domainkey.a.test", dns.CNAME, "forgotten.test"), // hidden by the delegation
	}
	public := reliableRead(providerRecords[0], providerRecords[1], rrset("_dmarc.a.test", dns.TXT, "v=DMARC1; p=reject"),
		rrset("selector1._domainkey.a.test", dns.CNAME, target1), rrset("selector2._domainkey.a.test", dns.CNAME, target2))
	plan := dns.NewPlan(offer(), public.WithProviderRecords(providerRecords), nil)
	for purpose, want := range map[dns.Purpose]dns.Reason{
		dns.Selector1: dns.ReasonPresent, dns.Selector2: dns.ReasonPresent, dns.Policy: dns.ReasonDMARCPresent,
	} {
		if got := itemFor(t, plan, purpose); got.Action != dns.Preserve || got.Reason != want {
			t.Errorf("%s: got %+v, want preserve with the reason %s", purpose, got, want)
		}
	}
	if plan = dns.NewPlan(offer(), reliableRead(providerRecords[0]).WithProviderRecords(providerRecords), nil); itemFor(t, plan, dns.Selector1).Reason != dns.ReasonDKIMDelegated {
		t.Errorf("nothing is published yet: got %+v, want the reason dkim_delegated", plan.Items)
	}
}

// TestPlanWritesNothingBelowDNAME checks that a plan writes no record below a DNAME, where
// resolvers would never see it.
func TestPlanWritesNothingBelowDNAME(t *testing.T) {
	providerRecords := []dns.RRSet{rrset("_domainkey.a.test", dns.DNAME, "keys.esp.test")}
	public := reliableRead(rrset("selector1._domainkey.a.test", dns.CNAME, "selector1.keys.esp.test"),
		rrset("selector2._domainkey.a.test", dns.CNAME, "selector2.keys.esp.test"))
	plan := dns.NewPlan(offer(), public.WithProviderRecords(providerRecords), nil)
	if got := itemFor(t, plan, dns.Selector1); got.Reason != dns.ReasonDKIMTaken || !got.Blocking {
		t.Errorf("got %+v, want a blocking item with the reason %s", got, dns.ReasonDKIMTaken)
	}
	if slices.ContainsFunc(plan.Changes, func(c dns.Change) bool { return c.After.Type == dns.CNAME && c.After.Name != "autodiscover.a.test" }) {
		t.Errorf("the plan writes a selector: %+v", plan.Changes)
	}
}

// TestWithProviderRecordsKeepsWildcardNote checks that a plan has the note about an overridden
// wildcard with and without the provider's list of records.
func TestWithProviderRecordsKeepsWildcardNote(t *testing.T) {
	answers := reliableRead(fromWildcard(rrset("selector1._domainkey.a.test", dns.TXT, "x")))
	providerRecords := []dns.RRSet{rrset("*.a.test", dns.TXT, "x")}
	for _, read := range []dns.ZoneRead{answers, answers.WithProviderRecords(providerRecords)} {
		got := itemFor(t, dns.NewPlan(offer(), read, nil), dns.Selector1)
		if got.Action != dns.Create || !slices.Equal(got.Notes, []dns.Note{dns.NoteWildcard}) {
			t.Errorf("got %+v, want create with the note %s", got, dns.NoteWildcard)
		}
	}
}

// TestIncompletePlanReportsForeignSelectors checks the DKIM selectors in a plan that is made before
// the platform has specified their targets. The plan reports only records that conflict with every
// possible target.
func TestIncompletePlanReportsForeignSelectors(t *testing.T) {
	earlyOffer := dns.Offer{Verification: ownershipRecords, Hosts: platformHosts}
	const name, foreign = "selector1._domainkey.a.test", "s1.domainkey.esp.test"
	publicKey := rrset(name, dns.TXT, "v=DKIM1; k=rsa; p=MIIB")
	managed := []dns.Written{{Purpose: dns.Selector1, Name: name, Type: dns.CNAME, Value: foreign}}
	for _, tc := range []struct {
		name    string
		read    dns.ZoneRead
		managed []dns.Written
		reason  dns.Reason // of the blocking item, "" for none
	}{
		{"no record", reliableRead(), nil, ""},
		{"a CNAME to another service", reliableRead(rrset(name, dns.CNAME, foreign)), nil, dns.ReasonDKIMTaken},
		{"a managed CNAME", reliableRead(rrset(name, dns.CNAME, foreign)), managed, ""},
		{"a CNAME of the platform", reliableRead(rrset(name, dns.CNAME, target1)), nil, ""},
		{"two CNAMEs", reliableRead(rrset(name, dns.CNAME, target1, foreign)), nil, dns.ReasonDKIMTaken},
		{"a CNAME from a wildcard", reliableRead(fromWildcard(rrset(name, dns.CNAME, foreign))), nil, ""},
		{"a key in the provider's list", reliableRead().WithProviderRecords([]dns.RRSet{publicKey}), nil, dns.ReasonDKIMText},
		{"a key that may be a flattened CNAME", reliableRead(publicKey), nil, ""},
		{"a delegation of _domainkey", reliableRead(rrset("_domainkey.a.test", dns.NS, "ns1.esp.test")), nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan := dns.NewPlan(earlyOffer, tc.read, tc.managed)
			if plan.SafeToApply() != (tc.reason == "") {
				t.Fatalf("got %+v, want a plan that is safe to apply: %t", plan, tc.reason == "")
			}
			if tc.reason != "" {
				if got := itemFor(t, plan, dns.Selector1); got.Reason != tc.reason || !got.Blocking || len(got.Observed) == 0 || got.Desired != "" {
					t.Errorf("got %+v, want a blocking item with the reason %s", got, tc.reason)
				}
			}
		})
	}
}

// TestIncompletePlanReportsKnownConflicts checks a plan that is made before the platform has
// specified its SPF record. The plan reports only conflicts that remain with every possible SPF
// record of the platform.
func TestIncompletePlanReportsKnownConflicts(t *testing.T) {
	earlyOffer := dns.Offer{Verification: ownershipRecords, Hosts: platformHosts}
	for name, tc := range map[string]struct {
		texts   []string
		managed []dns.Written
		reason  dns.Reason // of the blocking item, "" for none
	}{
		"no SPF record":                         {[]string{"x"}, nil, ""},
		"one SPF record":                        {[]string{"v=spf1 include:other.test ~all"}, nil, ""},
		"an SPF record that allows all senders": {[]string{"v=spf1 +all"}, nil, ""}, // a conflict that does not block
		"two equal SPF records":                 {[]string{"v=spf1 mx -all", "v=spf1 mx -all"}, nil, ""},
		"two SPF records":                       {[]string{"v=spf1 mx -all", "v=spf1 a -all"}, nil, dns.ReasonSPFMultiple},
		"an SPF record with a syntax error":     {[]string{"v=spf1 inclde:other.test -all"}, nil, dns.ReasonSPFSyntax},
		"an SPF record that allows no sender":   {[]string{"v=spf1 -all"}, nil, dns.ReasonSPFNoMail},
		"an SPF record with ten lookups":        {[]string{"v=spf1" + strings.Repeat(" a:h.a.test", 10) + " -all"}, nil, ""},
		"an SPF record with eleven lookups":     {[]string{"v=spf1" + strings.Repeat(" a:h.a.test", 11) + " -all"}, nil, dns.ReasonSPFLookups},
		"a managed SPF record": {[]string{"v=spf1 -all"},
			[]dns.Written{{Purpose: dns.Sending, Name: "a.test", Type: dns.TXT, Value: "v=spf1 -all"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			plan := dns.NewPlan(earlyOffer, reliableRead(rrset("a.test", dns.TXT, tc.texts...)), tc.managed)
			if !plan.Incomplete() || plan.SafeToApply() != (tc.reason == "") {
				t.Fatalf("got %+v, want a plan that is safe to apply: %t", plan, tc.reason == "")
			}
			if tc.reason != "" {
				if got := itemFor(t, plan, dns.Sending); got.Reason != tc.reason || !got.Blocking || !slices.Equal(got.Observed, tc.texts) {
					t.Errorf("got %+v, want a blocking item with the reason %s", got, tc.reason)
				}
			}
		})
	}
	if plan := dns.NewPlan(offer(), reliableRead(), nil); plan.Incomplete() {
		t.Errorf("Incomplete returns true for a plan with an SPF record: %+v", plan)
	}
	holder := dns.Detection{Provider: dns.Provider{ID: "x"}, Title: "X"}
	automation := dns.Holder{Detection: holder, Access: dns.Access{Standing: dns.ZoneAccessible}}.Automate(reliableRead(), dns.NewPlan(earlyOffer, reliableRead(), nil))
	if automation.Required != "" || !strings.Contains(automation.Message, "not complete yet") {
		t.Errorf("got %+v, want no required action and a message about the incomplete plan", automation)
	}
}
