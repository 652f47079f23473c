// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/dns"
)

// Valid and invalid contents of a zone at the names that a plan inspects.
var (
	someTexts = []string{
		proofText, "MS=ms99", "MS=ms1", "google-site-verification=x", "\x00\xff\"\\;", "", strings.Repeat("long ", 120),
		"v=spf1 -all", "v=spf1 a ~all", "v=spf1  MX   ?all", "v=spf1 +all", "v=spf1", "v=spf1 nonsense", "v=spf1 redirect=one.test",
		"v=spf1 include:one.test -all", "v=spf1 include:two.test ~all", "v=spf1 include:unknown.test ~all", "v=spf1 " + includeTerm + " -all",
		"v=spf1 ~" + includeTerm + " -all", "v=spf1 a -all " + includeTerm, "v=spf1 a mx a:1.test a:2.test a:3.test mx:4.test exists:5.test a:6.test a:7.test a:8.test -all",
	}
	someExchanges = []string{"0 " + host, "10 " + host, "0 " + oldHost, "1 aspmx.l.google.com", "0 .", "5 192.0.2.1", "nonsense", "32767 ms1.msv1.invalid", "0 mx.old.test"}
	somePolicies  = []string{"v=DMARC1; p=none", "v=DMARC1; p=reject; adkim=s", "v=DMARC1; p", "hello", "v=dmarc1"}
	someTargets   = []string{target1, target2, "selector1-a-test._domainkey.t.onmicrosoft.com", "x._domainkey.other.onmicrosoft.com", "s1.esp.test", autodiscoverTarget, "old.test"}
	someManaged   = []dns.Written{
		{Purpose: dns.Ownership, Name: "a.test", Type: dns.TXT, Value: "MS=ms1"},
		{Purpose: dns.Inbound, Name: "a.test", Type: dns.MX, Value: "0 mx.old.test"},
		{Purpose: dns.Sending, Name: "a.test", Type: dns.TXT, Value: "v=spf1 include:two.test ~all", Replaced: "v=spf1 a ~all"},
		{Purpose: dns.Autodiscover, Name: "autodiscover.a.test", Type: dns.CNAME, Value: "old.test"},
		{Purpose: dns.Selector1, Name: "selector1._domainkey.a.test", Type: dns.CNAME, Value: "old.test"},
	}
)

// drawZone draws a zone with records of several origins.
func drawZone(t *rapid.T) dns.ZoneRead {
	var sets []dns.RRSet
	put := func(name string, of dns.Type, values []string, most int) {
		alias := slices.ContainsFunc(sets, func(s dns.RRSet) bool { return s.Name == name && (s.Type == dns.CNAME || of == dns.CNAME) })
		if alias { // a CNAME must be the only record of its name
			return
		}
		if drawn := rapid.SliceOfN(rapid.SampledFrom(values), 0, most).Draw(t, name+" "+string(of)); len(drawn) > 0 {
			s := set(name, of, drawn...)
			s.TTL = rapid.SampledFrom([]int{1, 60, 3600, 86400}).Draw(t, "ttl")
			s.Synthesised = name != "a.test" && rapid.IntRange(0, 9).Draw(t, "synthesised") == 0
			sets = append(sets, s)
		}
	}
	put("a.test", dns.TXT, someTexts, 3)
	put("a.test", dns.MX, someExchanges, 2)
	put("_dmarc.a.test", dns.TXT, somePolicies, 2)
	for _, name := range []string{"selector1._domainkey.a.test", "selector2._domainkey.a.test", "autodiscover.a.test", "_dmarc.a.test"} {
		put(name, dns.CNAME, someTargets, 1)
	}
	put("selector1._domainkey.a.test", dns.TXT, []string{"v=DKIM1; p=x"}, 1)
	put("autodiscover.a.test", "A", []string{"192.0.2.1"}, 1)
	put("www.a.test", dns.CNAME, []string{"web.test"}, 1)
	put("a.test", "A", []string{"192.0.2.1", "192.0.2.2"}, 2)
	if rapid.IntRange(0, 19).Draw(t, "odd") == 0 {
		put("_domainkey.a.test", dns.NS, []string{"ns.esp.test"}, 1)
		put("a.test", dns.CNAME, []string{"web.test"}, 1)
	}
	s := reliable(sets...)
	s.Referenced.SPF["one.test"] = []string{"v=spf1 a " + includeTerm + " -all"}
	s.Referenced.SPF["two.test"] = []string{"v=spf1 ip4:192.0.2.1 -all"}
	return s
}

// applied returns the zone after a provider has written the changes of a plan.
func applied(t *rapid.T, s dns.ZoneRead, p dns.Plan) dns.ZoneRead {
	made, err := dns.Outstanding(recordsAtProvider(s), p.Changes)
	if err != nil {
		t.Fatalf("a provider with the planned state refuses: %v\n%+v", err, p.Changes)
	}
	if err := dns.CheckChanges("a.test", p.Changes); err != nil {
		t.Fatal(err)
	}
	next := s
	next.Sets = slices.Clone(s.Sets)
	for _, c := range made {
		next.Sets = slices.DeleteFunc(next.Sets, func(set dns.RRSet) bool {
			return set.Name == c.After.Name && (set.Type == c.After.Type || set.Synthesised)
		})
		next.Sets = append(next.Sets, c.After)
	}
	return next
}

// recordsAtProvider returns the provider's records, which do not include answers from wildcards.
func recordsAtProvider(s dns.ZoneRead) []dns.RRSet {
	return slices.DeleteFunc(slices.Clone(s.Sets), func(set dns.RRSet) bool { return set.Synthesised })
}

func drawManaged(t *rapid.T) []dns.Written {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(someManaged), 0, len(someManaged), func(w dns.Written) string { return string(w.Purpose) }).Draw(t, "ours")
}

// After a plan was written, the next plan only preserves and has the same conflicts.
func TestPlanIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, managed := drawZone(t), drawManaged(t)
		p := dns.NewPlan(offer(), s, managed)
		if !p.SafeToApply() {
			return
		}
		again := dns.NewPlan(offer(), applied(t, s, p), managed)
		if len(again.Changes) != 0 || !again.SafeToApply() {
			t.Fatalf("the plan is not done: %+v", again)
		}
		for i, now := range again.Items {
			before := p.Items[i]
			if now.Action != dns.Preserve && (before.Action != dns.Conflict || now.Reason != before.Reason) {
				t.Fatalf("%+v becomes %+v", before, now)
			}
		}
	})
}

// A plan replaces only managed values and values of the platform. All others stay byte for byte.
func TestPlanKeepsForeignValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, managed := drawZone(t), drawManaged(t)
		p := dns.NewPlan(offer(), s, managed)
		next := applied(t, s, p)
		for _, before := range recordsAtProvider(s) {
			now := dns.Find(next.Sets, before.Name, before.Type)
			if now.TTL != before.TTL {
				t.Fatalf("the TTL of %+v becomes %d", before, now.TTL)
			}
			kept := slices.DeleteFunc(slices.Clone(before.Values), func(v string) bool { return mayBeReplaced(p, before, managed, v) })
			remain := slices.DeleteFunc(slices.Clone(now.Values), func(v string) bool { return !slices.Contains(kept, v) })
			if diff := cmp.Diff(kept, remain); diff != "" {
				t.Fatalf("of %+v: %s", before, diff)
			}
		}
		if len(next.Sets) > len(s.Sets)+6 || len(p.Changes) > 6 {
			t.Fatalf("%d record sets are written", len(p.Changes))
		}
	})
}

// mayBeReplaced reports whether a plan may replace a value. It does not use the planner's code.
func mayBeReplaced(p dns.Plan, set dns.RRSet, managed []dns.Written, value string) bool {
	written := slices.ContainsFunc(managed, func(w dns.Written) bool { return w.Name == set.Name && w.Type == set.Type && w.Value == value })
	switch {
	case written:
		return true
	case set.Type == dns.MX:
		return value == "0 "+oldHost || value == "32767 ms1.msv1.invalid"
	case set.Type == dns.CNAME:
		return value == target1 || value == target2 || value == "selector1-a-test._domainkey.t.onmicrosoft.com"
	case set.Name == "a.test" && strings.HasPrefix(value, "v=spf1"):
		return slices.ContainsFunc(p.Items, func(i dns.Item) bool {
			return i.Purpose == dns.Sending && i.Action == dns.Update && addsOnly(value, i.Desired)
		})
	default:
		return false
	}
}

// addsOnly reports whether the SPF record after is the record before with the platform added.
func addsOnly(before, after string) bool {
	return strings.Replace(after, includeTerm+" ", "", 1) == before || after == before+" "+includeTerm+" ~all" || after == before
}

// The order of the values in the servers' answers does not affect the plan.
func TestPlanIgnoresAnswerOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawZone(t)
		shuffled := s
		shuffled.Sets = rapid.Permutation(s.Sets).Draw(t, "sets")
		for i := range shuffled.Sets {
			shuffled.Sets[i].Values = rapid.Permutation(shuffled.Sets[i].Values).Draw(t, "values")
		}
		if dns.NewPlan(offer(), s, nil).Hash() != dns.NewPlan(offer(), shuffled, nil).Hash() {
			t.Fatal("the plan changed")
		}
	})
}

// Each written value is the desired value of an item that creates or updates, never of a conflict.
func TestPlanExplainsEveryWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := dns.NewPlan(offer(), drawZone(t), drawManaged(t))
		for _, c := range p.Changes {
			for _, value := range c.After.Values {
				explained := slices.ContainsFunc(p.Items, func(i dns.Item) bool {
					return i.Name == c.After.Name && i.Type == c.After.Type && i.Desired == value && (i.Action == dns.Create || i.Action == dns.Update)
				})
				if !explained && !slices.Contains(c.Before.Values, value) {
					t.Fatalf("no item explains %q: %+v", value, p.Items)
				}
			}
		}
		for _, i := range p.Items {
			if i.Blocking && (i.Action != dns.Conflict || p.SafeToApply()) || i.Reason.Explain() == "" {
				t.Fatalf("got %+v", i)
			}
		}
	})
}
