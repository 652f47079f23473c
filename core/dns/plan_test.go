// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
)

func TestPlanOfAFreshZone(t *testing.T) {
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
	// The proof of ownership is written first; it shares its record set.
	want := []string{"a.test TXT", "a.test MX", "autodiscover.a.test CNAME", "_dmarc.a.test TXT",
		"selector1._domainkey.a.test CNAME", "selector2._domainkey.a.test CNAME"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Error(diff)
	}
	if err := dns.CheckChanges("a.test", p.Changes); err != nil {
		t.Error(err)
	}
	if got := p.Changes[0].After.Values; !slices.Equal(got, []string{ms, "v=spf1 " + inc + " -all"}) {
		t.Errorf("the texts are %q", got)
	}
}

// Of a set that is there the TTL stays, and another TTL is no reason to write.
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

func TestAReadThatIsNotReliableIsNotSafe(t *testing.T) {
	s := reliable()
	s.Complete, s.Reason = false, "servers_disagree"
	if p := dns.NewPlan(offer(), s, nil); p.SafeToApply() || p.Reliable || p.Reason != "servers_disagree" || len(p.Items) != 7 {
		t.Fatalf("got %+v", p)
	}
}

func TestPlanHash(t *testing.T) {
	base := []dns.RRSet{set("a.test", dns.TXT, "x", "v=spf1 a -all"), set("a.test", dns.MX, "0 "+oldHost)}
	hash := func(sets ...dns.RRSet) string { return dns.NewPlan(offer(), reliable(sets...), nil).Hash() }
	same := map[string]string{
		"another order":         hash(base[1], set("A.test.", dns.TXT, "v=spf1 a -all", "x")),
		"another TTL":           hash(ttl(60, base[0]), base[1]),
		"what no plan looks at": hash(base[0], base[1], set("www.a.test", dns.CNAME, "x.test"), set("a.test", "A", "192.0.2.1")),
	}
	for name, got := range same {
		if got != hash(base...) {
			t.Errorf("%s gives another hash", name)
		}
	}
	others := map[string]string{
		"another text beside":   hash(set("a.test", dns.TXT, "y", "v=spf1 a -all"), base[1]),
		"bytes that JSON bends": hash(set("a.test", dns.TXT, "\xff", "v=spf1 a -all"), base[1]),
		"other such bytes":      hash(set("a.test", dns.TXT, "\xfe", "v=spf1 a -all"), base[1]),
		"another qualifier":     hash(set("a.test", dns.TXT, "x", "v=spf1 a ~all"), base[1]),
		"a record less":         hash(base[0]),
		"a conflict":            hash(base[0], base[1], set("selector1._domainkey.a.test", dns.CNAME, "x.test")),
		"one already there":     hash(base[0], base[1], set("autodiscover.a.test", dns.CNAME, auto)),
		"as it was":             hash(base...),
	}
	taken := reliable(set("a.test", dns.MX, "5 mx.else.test"))
	moved := offer()
	moved.Service[0].Content = "a-test.el5e.mx.microsoft"
	others["a conflict over one host"] = dns.NewPlan(offer(), taken, nil).Hash()
	others["a conflict over another"] = dns.NewPlan(moved, taken, nil).Hash()
	seen := map[string]string{}
	for name, got := range others {
		if seen[got] != "" {
			t.Errorf("%s gives the hash of %s", name, seen[got])
		}
		seen[got] = name
	}
}

// A plan of texts survives being written down.
func TestAPlanIsData(t *testing.T) {
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
		t.Error("another plan")
	}
}

// A domain without records of its own may live by a wildcard of the zone above,
// which the first record written there ends.
func TestPlanOfADomainThatLivesByAWildcard(t *testing.T) {
	s := reliable(synthesised(ttl(60, set("a.test", dns.TXT, "x", "v=spf1 mx ~all"))), synthesised(set("a.test", dns.MX, "5 mx.else.test")))
	s.Zone = "test"
	p := dns.NewPlan(unproven(), s, nil)
	if got := item(t, p, dns.Inbound); got.Reason != "mx_other_provider" || !got.Blocking {
		t.Errorf("mail that a wildcard routes elsewhere: %+v", got)
	}
	if got := item(t, p, dns.Sending); !slices.Equal(got.Notes, []dns.Note{"wildcard_overridden"}) {
		t.Errorf("got %+v", got)
	}
	want := dns.Change{Before: set("a.test", dns.TXT), After: ttl(60, set("a.test", dns.TXT, "x", "v=spf1 mx "+inc+" ~all"))}
	if diff := cmp.Diff(want, p.Changes[0]); diff != "" {
		t.Error(diff)
	}
	held := []dns.RRSet{set("*.test", dns.TXT, "x", "v=spf1 mx ~all"), set("*.test", dns.MX, "5 mx.else.test")}
	if again := dns.NewPlan(unproven(), s.Holding(held), nil); again.Hash() != p.Hash() {
		t.Errorf("the provider's list gives %+v", again.Items)
	}
	explicit := s.Holding([]dns.RRSet{set("a.test", dns.TXT, "mine")})
	if got := dns.NewPlan(unproven(), explicit, nil); !got.SafeToApply() {
		t.Errorf("records of its own end the wildcard: %+v", got.Items)
	}
}

// Receivers go by a policy that a wildcard makes up, and the provider lists
// only the wildcard: that is one plan, not two.
func TestPlanOfAPolicyThatAWildcardMakesUp(t *testing.T) {
	s := reliable(synthesised(set("_dmarc.a.test", dns.TXT, "v=DMARC1; p=reject")))
	wild := set("*.a.test", dns.TXT, "v=DMARC1; p=reject")
	p := dns.NewPlan(offer(), s.Holding([]dns.RRSet{wild}), nil)
	if got := item(t, p, dns.Policy); got.Action != dns.Preserve || p.Hash() != dns.NewPlan(offer(), s, nil).Hash() {
		t.Errorf("the provider's list gives %+v", got)
	}
	own := set("_dmarc.a.test", dns.TXT, "v=DMARC1; p=none")
	if got := item(t, dns.NewPlan(offer(), s.Holding([]dns.RRSet{wild, own}), nil), dns.Policy); !slices.Equal(got.Observed, own.Values) {
		t.Errorf("beside a record of its own the wildcard counts: %+v", got)
	}
}

// An apex has records of its own, so texts there stand, though a wildcard below
// has the same.
func TestPlanOfAnApexThatIsLikeItsWildcard(t *testing.T) {
	s := reliable(synthesised(ttl(60, set("a.test", dns.TXT, "v=spf1 a -all"))))
	c := dns.NewPlan(unproven(), s, nil).Changes[1] // after the MX
	if diff := cmp.Diff(ttl(60, set("a.test", dns.TXT, "v=spf1 a -all")), c.Before); diff != "" {
		t.Error(diff)
	}
}
