// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"slices"
	"testing"

	"github.com/tenantry/tenantry/core/dns"
)

// The owner did what a plan asks where _domainkey and _dmarc are delegated: the
// provider's list of the zone above does not show it, the world does.
func TestWhatIsDelegatedIsSeenByTheWorldAlone(t *testing.T) {
	held := []dns.RRSet{
		set("_domainkey.a.test", dns.NS, "ns.esp.test"), set("_dmarc.a.test", dns.NS, "ns.dmarc.test"),
		set("selector1._domainkey.a.test", dns.CNAME, "forgotten.test"), // nobody sees it
	}
	public := reliable(held[0], held[1], set("_dmarc.a.test", dns.TXT, "v=DMARC1; p=reject"),
		set("selector1._domainkey.a.test", dns.CNAME, target1), set("selector2._domainkey.a.test", dns.CNAME, target2))
	p := dns.NewPlan(offer(), public.Holding(held), nil)
	for of, want := range map[dns.Purpose]dns.Reason{
		dns.Selector1: dns.ReasonPresent, dns.Selector2: dns.ReasonPresent, dns.Policy: dns.ReasonDMARCPresent,
	} {
		if got := item(t, p, of); got.Action != dns.Preserve || got.Reason != want {
			t.Errorf("%s: %+v", of, got)
		}
	}
	if p = dns.NewPlan(offer(), reliable(held[0]).Holding(held), nil); item(t, p, dns.Selector1).Reason != dns.ReasonDKIMDelegated {
		t.Errorf("nothing is published yet: %+v", p.Items)
	}
}

// Below a DNAME nothing that is written is ever seen.
func TestNothingIsWrittenBelowADNAME(t *testing.T) {
	held := []dns.RRSet{set("_domainkey.a.test", dns.DNAME, "keys.esp.test")}
	public := reliable(set("selector1._domainkey.a.test", dns.CNAME, "selector1.keys.esp.test"),
		set("selector2._domainkey.a.test", dns.CNAME, "selector2.keys.esp.test"))
	p := dns.NewPlan(offer(), public.Holding(held), nil)
	if got := item(t, p, dns.Selector1); got.Reason != dns.ReasonDKIMTaken || !got.Blocking {
		t.Errorf("got %+v", got)
	}
	if slices.ContainsFunc(p.Changes, func(c dns.Change) bool { return c.After.Type == dns.CNAME && c.After.Name != "autodiscover.a.test" }) {
		t.Errorf("writes %+v", p.Changes)
	}
}

// That a wildcard ends at a name is said whether or not the account is connected.
func TestTheProvidersListStillTellsOfAWildcard(t *testing.T) {
	s := reliable(synthesised(set("selector1._domainkey.a.test", dns.TXT, "x")))
	held := []dns.RRSet{set("*.a.test", dns.TXT, "x")}
	for _, seen := range []dns.Sight{s, s.Holding(held)} {
		got := item(t, dns.NewPlan(offer(), seen, nil), dns.Selector1)
		if got.Action != dns.Create || !slices.Equal(got.Notes, []dns.Note{dns.NoteWildcard}) {
			t.Errorf("got %+v", got)
		}
	}
}
