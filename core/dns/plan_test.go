// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
)

func TestPlanForEmptyZone(t *testing.T) {
	web := set("www.a.test", dns.CNAME, "web.test")
	p := dns.NewPlan(offer(), reliable(set("a.test", dns.NS, "ns1.test"), set("a.test", dns.SOA, "x"), web), nil)
	if !p.SafeToApply() || len(p.Blocking()) != 0 || p.Zone != "a.test" || len(p.Observed) != 0 {
		t.Fatalf("got %+v", p)
	}
	var order []string
	for _, c := range p.Changes {
		if len(c.Before.Values) != 0 || c.After.TTL != 3600 {
			t.Errorf("got %+v", c)
		}
		order = append(order, c.After.Name+" "+string(c.After.Type))
	}
	// The ownership record is written first. It shares its record set with SPF.
	want := []string{"a.test TXT", "a.test MX", "autodiscover.a.test CNAME", "_dmarc.a.test TXT",
		"selector1._domainkey.a.test CNAME", "selector2._domainkey.a.test CNAME"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Error(diff)
	}
	if err := dns.CheckChanges("a.test", p.Changes); err != nil {
		t.Error(err)
	}
	if got := p.Changes[0].After.Values; !slices.Equal(got, []string{proofText, "v=spf1 " + includeTerm + " -all"}) {
		t.Errorf("the texts are %q", got)
	}
}

// An existing record set keeps its TTL. A different TTL alone causes no change.
func TestPlanTTL(t *testing.T) {
	s := reliable(ttl(60, set("a.test", dns.TXT, "x")), ttl(77, set("a.test", dns.MX, "0 "+host)))
	p := dns.NewPlan(offer(), s, nil)
	if c := p.Changes[0]; c.Before.TTL != 60 || c.After.TTL != 60 {
		t.Errorf("got %+v", c)
	}
	if got := item(t, p, dns.Inbound); got.Action != dns.Preserve {
		t.Errorf("got %+v", got)
	}
}

func TestUnreliableReadIsNotSafeToApply(t *testing.T) {
	s := reliable()
	s.Complete, s.Reason = false, "servers_disagree"
	if p := dns.NewPlan(offer(), s, nil); p.SafeToApply() || p.Reliable || p.Reason != "servers_disagree" || len(p.Items) != 7 {
		t.Fatalf("got %+v", p)
	}
}

func TestPlanHashDependsOnlyOnTheInspectedRecords(t *testing.T) {
	base := []dns.RRSet{set("a.test", dns.TXT, "x", "v=spf1 a -all"), set("a.test", dns.MX, "0 "+oldHost)}
	hash := func(sets ...dns.RRSet) string { return dns.NewPlan(offer(), reliable(sets...), nil).Hash() }
	equal := map[string]string{
		"another order":                      hash(base[1], set("A.test.", dns.TXT, "v=spf1 a -all", "x")),
		"another TTL":                        hash(ttl(60, base[0]), base[1]),
		"names that a plan does not inspect": hash(base[0], base[1], set("www.a.test", dns.CNAME, "x.test"), set("a.test", "A", "192.0.2.1")),
	}
	for name, got := range equal {
		if got != hash(base...) {
			t.Errorf("%s changes the hash", name)
		}
	}
	different := map[string]string{
		"another text beside":          hash(set("a.test", dns.TXT, "y", "v=spf1 a -all"), base[1]),
		"bytes that JSON alters":       hash(set("a.test", dns.TXT, "\xff", "v=spf1 a -all"), base[1]),
		"other bytes that JSON alters": hash(set("a.test", dns.TXT, "\xfe", "v=spf1 a -all"), base[1]),
		"another qualifier":            hash(set("a.test", dns.TXT, "x", "v=spf1 a ~all"), base[1]),
		"a record less":                hash(base[0]),
		"a conflict":                   hash(base[0], base[1], set("selector1._domainkey.a.test", dns.CNAME, "x.test")),
		"one record already exists":    hash(base[0], base[1], set("autodiscover.a.test", dns.CNAME, autodiscoverTarget)),
		"unchanged":                    hash(base...),
	}
	taken := reliable(set("a.test", dns.MX, "5 mx.else.test"))
	moved := offer()
	moved.Service[0].Content = "a-test.el5e.mx.microsoft"
	different["a conflict over one host"] = dns.NewPlan(offer(), taken, nil).Hash()
	different["a conflict over another"] = dns.NewPlan(moved, taken, nil).Hash()
	seen := map[string]string{}
	for name, got := range different {
		if seen[got] != "" {
			t.Errorf("%s has the same hash as %s", name, seen[got])
		}
		seen[got] = name
	}
}

// A plan whose texts are UTF-8 is equal after a round trip through JSON.
func TestPlanSurvivesJSON(t *testing.T) {
	p := dns.NewPlan(offer(), reliable(set("a.test", dns.TXT, "v=spf1 a -all"), set("a.test", dns.MX, "0 .")), nil)
	stored, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back dns.Plan
	if err := json.Unmarshal(stored, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, back); diff != "" {
		t.Error(diff)
	}
	if back.Hash() != p.Hash() || back.SafeToApply() {
		t.Error("the plan changed")
	}
}

// A domain without its own records may be served by a wildcard of the parent zone. The first record
// written at the domain overrides that wildcard.
func TestPlanForDomainServedByWildcard(t *testing.T) {
	s := reliable(synthesised(ttl(60, set("a.test", dns.TXT, "x", "v=spf1 mx ~all"))), synthesised(set("a.test", dns.MX, "5 mx.else.test")))
	s.Zone = "test"
	p := dns.NewPlan(offerWithoutProof(), s, nil)
	if got := item(t, p, dns.Inbound); got.Reason != "mx_other_provider" || !got.Blocking {
		t.Errorf("MX from a wildcard: %+v", got)
	}
	if got := item(t, p, dns.Sending); !slices.Equal(got.Notes, []dns.Note{"wildcard_overridden"}) {
		t.Errorf("got %+v", got)
	}
	want := dns.Change{Before: set("a.test", dns.TXT), After: ttl(60, set("a.test", dns.TXT, "x", "v=spf1 mx "+includeTerm+" ~all"))}
	if diff := cmp.Diff(want, p.Changes[0]); diff != "" {
		t.Error(diff)
	}
	held := []dns.RRSet{set("*.test", dns.TXT, "x", "v=spf1 mx ~all"), set("*.test", dns.MX, "5 mx.else.test")}
	if again := dns.NewPlan(offerWithoutProof(), s.WithProviderRecords(held), nil); again.Hash() != p.Hash() {
		t.Errorf("the provider's list results in %+v", again.Items)
	}
	explicit := s.WithProviderRecords([]dns.RRSet{set("a.test", dns.TXT, "mine")})
	if got := dns.NewPlan(offerWithoutProof(), explicit, nil); !got.SafeToApply() {
		t.Errorf("own records override the wildcard: %+v", got.Items)
	}
}

// Receivers apply a DMARC record from a wildcard, while the provider lists only the wildcard. Both
// reads must result in the same plan.
func TestPlanForWildcardDMARC(t *testing.T) {
	s := reliable(synthesised(set("_dmarc.a.test", dns.TXT, "v=DMARC1; p=reject")))
	wild := set("*.a.test", dns.TXT, "v=DMARC1; p=reject")
	p := dns.NewPlan(offer(), s.WithProviderRecords([]dns.RRSet{wild}), nil)
	if got := item(t, p, dns.Policy); got.Action != dns.Preserve || p.Hash() != dns.NewPlan(offer(), s, nil).Hash() {
		t.Errorf("the provider's list results in %+v", got)
	}
	ownRecord := set("_dmarc.a.test", dns.TXT, "v=DMARC1; p=none")
	if got := item(t, dns.NewPlan(offer(), s.WithProviderRecords([]dns.RRSet{wild, ownRecord}), nil), dns.Policy); !slices.Equal(got.Observed, ownRecord.Values) {
		t.Errorf("the wildcard counts although the name has its own record: %+v", got)
	}
}

// The apex of a zone always has its own records, so a wildcard with equal texts does not affect it.
func TestPlanForApexEqualToWildcard(t *testing.T) {
	s := reliable(synthesised(ttl(60, set("a.test", dns.TXT, "v=spf1 a -all"))))
	c := dns.NewPlan(offerWithoutProof(), s, nil).Changes[1] // after the MX
	if diff := cmp.Diff(ttl(60, set("a.test", dns.TXT, "v=spf1 a -all")), c.Before); diff != "" {
		t.Error(diff)
	}
}

// Plan.Writes lists each written value with its purpose and the value that it replaces.
func TestPlanListsWrittenValues(t *testing.T) {
	offer := dns.Offer{
		Verification: []dns.Record{{Type: dns.TXT, Name: "a.test", Content: "MS=ms1"}},
		Service:      []dns.Record{{Type: dns.TXT, Name: "a.test", Content: "v=spf1 include:spf.protection.outlook.com -all"}},
	}
	s := dns.ZoneRead{Domain: "a.test", Zone: "a.test", Complete: true, Sets: []dns.RRSet{
		{Name: "a.test", Type: dns.TXT, TTL: 300, Values: []string{"v=spf1 a ~all"}},
	}}
	writes := map[dns.Purpose]dns.Written{}
	for _, w := range dns.NewPlan(offer, s, nil).Writes {
		writes[w.Purpose] = w
	}
	if w := writes[dns.Ownership]; w.Value != "MS=ms1" || w.Replaced != "" || w.Name != "a.test" || w.Type != dns.TXT {
		t.Errorf("ownership: %+v", w)
	}
	if w := writes[dns.Sending]; w.Value != "v=spf1 a include:spf.protection.outlook.com ~all" || w.Replaced != "v=spf1 a ~all" {
		t.Errorf("sending: %+v", w)
	}
}

func TestPlanKeepsOtherOwnershipRecords(t *testing.T) {
	o := offer()
	o.Service = nil
	managed := []dns.Written{{Purpose: dns.Ownership, Name: "a.test", Type: dns.TXT, Value: "MS=ms1"}}
	for _, tt := range []planCase{
		{name: "none", action: dns.Create, reason: "missing", after: []string{proofText}},
		{name: "present", sets: spf("x", proofText, "y"), action: dns.Preserve, reason: "present", after: []string{"x", proofText, "y"}},
		{name: "keeps other texts and other tenants' records", sets: spf("MS=ms99", "x"), action: dns.Create, reason: "missing", after: []string{"MS=ms99", "x", proofText}},
		{name: "letter case matters", sets: spf("ms=MS12345678"), action: dns.Create, reason: "missing", after: []string{"ms=MS12345678", proofText}},
		{name: "own_superseded", sets: spf("x", "MS=ms1", "y"), managed: managed, action: dns.Update, reason: "own_superseded", after: []string{"x", proofText, "y"}},
		{name: "a superseded managed record may remain next to the current one", sets: spf("MS=ms1", proofText), managed: managed, action: dns.Preserve, reason: "present",
			after: []string{"MS=ms1", proofText}},
		{name: "keeps invalid UTF-8", sets: spf("\x00\xff;\"\\"), action: dns.Create, reason: "missing", after: []string{"\x00\xff;\"\\", proofText}},
		{name: "txt_set_large", sets: spf(strings.Repeat("x", 8192)), action: dns.Create, reason: "missing", notes: []dns.Note{"txt_set_large"},
			after: []string{strings.Repeat("x", 8192), proofText}},
		{name: "cname_at_domain", sets: []dns.RRSet{set("a.test", dns.CNAME, "web.else.test")}, action: dns.Conflict, reason: "cname_at_domain", blocking: true},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, o, "a.test", dns.Ownership) })
	}
}

func TestPlanConflictsWithForeignAutodiscoverRecords(t *testing.T) {
	const name = "autodiscover.a.test"
	for _, tt := range []planCase{
		{name: "none", action: dns.Create, reason: "missing", after: []string{autodiscoverTarget}},
		{name: "equal", sets: []dns.RRSet{set(name, dns.CNAME, "Autodiscover.Outlook.com.")}, action: dns.Preserve, reason: "present",
			after: []string{"Autodiscover.Outlook.com."}},
		{name: "autodiscover_taken by a CNAME", sets: []dns.RRSet{set(name, dns.CNAME, "else.test")}, action: dns.Conflict, reason: "autodiscover_taken",
			after: []string{"else.test"}},
		{name: "autodiscover_taken by an address", sets: []dns.RRSet{set(name, "A", "192.0.2.1")}, action: dns.Conflict, reason: "autodiscover_taken"},
		{name: "own_superseded", sets: []dns.RRSet{set(name, dns.CNAME, "old.test")},
			managed: []dns.Written{{Purpose: dns.Autodiscover, Name: name, Type: dns.CNAME, Value: "old.test"}},
			action:  dns.Update, reason: "own_superseded", after: []string{autodiscoverTarget}},
		{name: "only a wildcard answers", sets: []dns.RRSet{synthesised(set(name, dns.CNAME, "web.test"))}, action: dns.Create, reason: "missing",
			notes: []dns.Note{"wildcard_overridden"}, after: []string{autodiscoverTarget}},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, offer(), "a.test", dns.Autodiscover) })
	}
}

// The answers of the name servers can differ from the provider's own list of records.
func TestPlanUsesProviderRecords(t *testing.T) {
	public := reliable(set("selector1._domainkey.a.test", dns.TXT, "v=DKIM1; p=MIIB"), synthesised(set("autodiscover.a.test", dns.CNAME, "web.test")))
	public.Referenced.Keys = map[string][]string{target1: {"v=DKIM1; p=MIIB"}}
	held := []dns.RRSet{
		set("a.test", dns.CNAME, "web.else.test"), set("*.a.test", dns.CNAME, "web.test"),
		set("selector1._domainkey.a.test", dns.CNAME, target1),
	}
	before, now := dns.NewPlan(offer(), public, nil), dns.NewPlan(offer(), public.WithProviderRecords(held), nil)
	if item(t, before, dns.Selector1).Reason != "dkim_flattened" || item(t, now, dns.Selector1).Reason != "present" {
		t.Errorf("got %+v", now.Items)
	}
	if before.Hash() != now.Hash() {
		t.Error("flattening and wildcards look like a change of the zone")
	}
	if diff := cmp.Diff(before.Changes, now.Changes); diff != "" {
		t.Error(diff)
	}
	aliased := reliable(set("a.test", dns.CNAME, "web.else.test")).WithProviderRecords(held)
	if got := item(t, dns.NewPlan(offer(), aliased, nil), dns.Inbound); got.Reason != "cname_at_domain" {
		t.Errorf("a published CNAME: %+v", got)
	}
	if len(held) != 3 || held[0].Type != dns.CNAME {
		t.Error("the list was changed")
	}
}

// The owner published records in delegated zones at _domainkey and _dmarc. The name servers return
// these records, but the provider's list of the parent zone does not contain them.
func TestWithProviderRecordsKeepsDelegatedRecords(t *testing.T) {
	held := []dns.RRSet{
		set("_domainkey.a.test", dns.NS, "ns.esp.test"), set("_dmarc.a.test", dns.NS, "ns.dmarc.test"),
		set("selector1._domainkey.a.test", dns.CNAME, "forgotten.test"), // hidden by the delegation
	}
	public := reliable(held[0], held[1], set("_dmarc.a.test", dns.TXT, "v=DMARC1; p=reject"),
		set("selector1._domainkey.a.test", dns.CNAME, target1), set("selector2._domainkey.a.test", dns.CNAME, target2))
	p := dns.NewPlan(offer(), public.WithProviderRecords(held), nil)
	for of, want := range map[dns.Purpose]dns.Reason{
		dns.Selector1: dns.ReasonPresent, dns.Selector2: dns.ReasonPresent, dns.Policy: dns.ReasonDMARCPresent,
	} {
		if got := item(t, p, of); got.Action != dns.Preserve || got.Reason != want {
			t.Errorf("%s: %+v", of, got)
		}
	}
	if p = dns.NewPlan(offer(), reliable(held[0]).WithProviderRecords(held), nil); item(t, p, dns.Selector1).Reason != dns.ReasonDKIMDelegated {
		t.Errorf("nothing is published yet: %+v", p.Items)
	}
}

// Records below a DNAME are never visible, so a plan writes none there.
func TestPlanWritesNothingBelowDNAME(t *testing.T) {
	held := []dns.RRSet{set("_domainkey.a.test", dns.DNAME, "keys.esp.test")}
	public := reliable(set("selector1._domainkey.a.test", dns.CNAME, "selector1.keys.esp.test"),
		set("selector2._domainkey.a.test", dns.CNAME, "selector2.keys.esp.test"))
	p := dns.NewPlan(offer(), public.WithProviderRecords(held), nil)
	if got := item(t, p, dns.Selector1); got.Reason != dns.ReasonDKIMTaken || !got.Blocking {
		t.Errorf("got %+v", got)
	}
	if slices.ContainsFunc(p.Changes, func(c dns.Change) bool { return c.After.Type == dns.CNAME && c.After.Name != "autodiscover.a.test" }) {
		t.Errorf("writes %+v", p.Changes)
	}
}

// The note that a wildcard is overridden does not depend on whether the account is connected.
func TestWithProviderRecordsKeepsWildcardNote(t *testing.T) {
	s := reliable(synthesised(set("selector1._domainkey.a.test", dns.TXT, "x")))
	held := []dns.RRSet{set("*.a.test", dns.TXT, "x")}
	for _, seen := range []dns.ZoneRead{s, s.WithProviderRecords(held)} {
		got := item(t, dns.NewPlan(offer(), seen, nil), dns.Selector1)
		if got.Action != dns.Create || !slices.Equal(got.Notes, []dns.Note{dns.NoteWildcard}) {
			t.Errorf("got %+v", got)
		}
	}
}

// TestIncompletePlanReportsForeignSelectors checks the DKIM selectors in a plan from before the
// platform specified their targets. Only records that conflict with each target are reported.
func TestIncompletePlanReportsForeignSelectors(t *testing.T) {
	early := dns.Offer{Verification: offered, Hosts: platformHosts}
	const name, foreign = "selector1._domainkey.a.test", "s1.domainkey.esp.test"
	key := set(name, dns.TXT, "v=DKIM1; k=rsa; p=MIIB")
	managed := []dns.Written{{Purpose: dns.Selector1, Name: name, Type: dns.CNAME, Value: foreign}}
	for _, tt := range []struct {
		name    string
		read    dns.ZoneRead
		managed []dns.Written
		reason  dns.Reason
	}{
		{"nothing", reliable(), nil, ""},
		{"a CNAME to another service", reliable(set(name, dns.CNAME, foreign)), nil, dns.ReasonDKIMTaken},
		{"a managed CNAME", reliable(set(name, dns.CNAME, foreign)), managed, ""},
		{"a CNAME of the platform", reliable(set(name, dns.CNAME, target1)), nil, ""},
		{"two CNAMEs", reliable(set(name, dns.CNAME, target1, foreign)), nil, dns.ReasonDKIMTaken},
		{"a wildcard", reliable(synthesised(set(name, dns.CNAME, foreign))), nil, ""},
		{"a key in the provider's list", reliable().WithProviderRecords([]dns.RRSet{key}), nil, dns.ReasonDKIMText},
		{"a key that may be a flattened CNAME", reliable(key), nil, ""},
		{"a delegation", reliable(set("_domainkey.a.test", dns.NS, "ns1.esp.test")), nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := dns.NewPlan(early, tt.read, tt.managed)
			if p.SafeToApply() != (tt.reason == "") {
				t.Fatalf("got %+v", p)
			}
			if tt.reason != "" {
				if got := item(t, p, dns.Selector1); got.Reason != tt.reason || !got.Blocking || len(got.Observed) == 0 || got.Desired != "" {
					t.Errorf("got %+v", got)
				}
			}
		})
	}
}

// TestIncompletePlanReportsKnownConflicts checks a plan from before the platform provided its SPF
// record. It reports only the conflicts that no SPF record of the platform could resolve.
func TestIncompletePlanReportsKnownConflicts(t *testing.T) {
	early := dns.Offer{Verification: offered, Hosts: platformHosts}
	for name, tt := range map[string]struct {
		texts   []string
		managed []dns.Written
		reason  dns.Reason
	}{
		"no SPF record":      {[]string{"x"}, nil, ""},
		"one SPF record":     {[]string{"v=spf1 include:other.test ~all"}, nil, ""},
		"everybody may send": {[]string{"v=spf1 +all"}, nil, ""}, // a conflict that does not block
		"a copy":             {[]string{"v=spf1 mx -all", "v=spf1 mx -all"}, nil, ""},
		"two SPF records":    {[]string{"v=spf1 mx -all", "v=spf1 a -all"}, nil, dns.ReasonSPFMultiple},
		"a syntax error":     {[]string{"v=spf1 inclde:other.test -all"}, nil, dns.ReasonSPFSyntax},
		"no mail":            {[]string{"v=spf1 -all"}, nil, dns.ReasonSPFNoMail},
		"ten lookups":        {[]string{"v=spf1" + strings.Repeat(" a:h.a.test", 10) + " -all"}, nil, ""},
		"eleven lookups":     {[]string{"v=spf1" + strings.Repeat(" a:h.a.test", 11) + " -all"}, nil, dns.ReasonSPFLookups},
		"a managed record": {[]string{"v=spf1 -all"},
			[]dns.Written{{Purpose: dns.Sending, Name: "a.test", Type: dns.TXT, Value: "v=spf1 -all"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := dns.NewPlan(early, reliable(set("a.test", dns.TXT, tt.texts...)), tt.managed)
			if !p.Incomplete() || p.SafeToApply() != (tt.reason == "") {
				t.Fatalf("got %+v", p)
			}
			if tt.reason != "" {
				if got := item(t, p, dns.Sending); got.Reason != tt.reason || !got.Blocking || !slices.Equal(got.Observed, tt.texts) {
					t.Errorf("got %+v", got)
				}
			}
		})
	}
	if p := dns.NewPlan(offer(), reliable(), nil); p.Incomplete() {
		t.Error("a plan with an SPF record is not complete")
	}
	holder := dns.Detection{Provider: dns.Provider{ID: "x"}, Title: "X"}
	a := dns.Holder{Detection: holder, Access: dns.Access{Standing: dns.ReachesZone}}.Automate(reliable(), dns.NewPlan(early, reliable(), nil))
	if a.Required != "" || !strings.Contains(a.Message, "not complete yet") {
		t.Errorf("Automation is %+v", a)
	}
}
