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
		ownershipText, "MS=ms99", "MS=ms1", "google-site-verification=x", "\x00\xff\"\\;", "", strings.Repeat("long ", 120),
		"v=spf1 -all", "v=spf1 a ~all", "v=spf1  MX   ?all", "v=spf1 +all", "v=spf1", "v=spf1 nonsense", "v=spf1 redirect=one.test",
		"v=spf1 include:one.test -all", "v=spf1 include:two.test ~all", "v=spf1 include:unknown.test ~all", "v=spf1 " + platformInclude + " -all",
		"v=spf1 ~" + platformInclude + " -all", "v=spf1 a -all " + platformInclude, "v=spf1 a mx a:1.test a:2.test a:3.test mx:4.test exists:5.test a:6.test a:7.test a:8.test -all",
	}
	someExchanges = []string{"0 " + platformMX, "10 " + platformMX, "0 " + previousMX, "1 aspmx.l.google.com", "0 .", "5 192.0.2.1", "nonsense", "32767 ms1.msv1.invalid", "0 mx.old.test"}
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

// drawZone draws a reliable read of a.test, with managed and foreign records.
func drawZone(t *rapid.T) dns.ZoneRead {
	var sets []dns.RRSet
	drawSet := func(name string, recordType dns.Type, values []string, atMost int) {
		excluded := slices.ContainsFunc(sets, func(s dns.RRSet) bool { return s.Name == name && (s.Type == dns.CNAME || recordType == dns.CNAME) })
		if excluded { // a CNAME must be the only record of its name
			return
		}
		if drawn := rapid.SliceOfN(rapid.SampledFrom(values), 0, atMost).Draw(t, name+" "+string(recordType)); len(drawn) > 0 {
			s := rrset(name, recordType, drawn...)
			s.TTL = rapid.SampledFrom([]int{1, 60, 3600, 86400}).Draw(t, "ttl")
			s.Synthesised = name != "a.test" && rapid.IntRange(0, 9).Draw(t, "synthesised") == 0
			sets = append(sets, s)
		}
	}
	drawSet("a.test", dns.TXT, someTexts, 3)
	drawSet("a.test", dns.MX, someExchanges, 2)
	drawSet("_dmarc.a.test", dns.TXT, somePolicies, 2)
	for _, name := range []string{"selector1._domainkey.a.test", "selector2._domainkey.a.test", "autodiscover.a.test", "_dmarc.a.test"} {
		drawSet(name, dns.CNAME, someTargets, 1)
	}
	drawSet("selector1._domainkey.a.test", dns.TXT, []string{"v=DKIM1; p=x"}, 1)
	drawSet("autodiscover.a.test", "A", []string{"192.0.2.1"}, 1)
	drawSet("www.a.test", dns.CNAME, []string{"web.test"}, 1)
	drawSet("a.test", "A", []string{"192.0.2.1", "192.0.2.2"}, 2)
	if rapid.IntRange(0, 19).Draw(t, "with a delegation or a CNAME at the domain") == 0 {
		drawSet("_domainkey.a.test", dns.NS, []string{"ns.esp.test"}, 1)
		drawSet("a.test", dns.CNAME, []string{"web.test"}, 1)
	}
	read := reliableRead(sets...)
	read.Referenced.SPF["one.test"] = []string{"v=spf1 a " + platformInclude + " -all"}
	read.Referenced.SPF["two.test"] = []string{"v=spf1 ip4:192.0.2.1 -all"}
	return read
}

// readAfter returns the read of a zone after a provider has written the changes of a plan.
func readAfter(t *rapid.T, read dns.ZoneRead, plan dns.Plan) dns.ZoneRead {
	outstanding, err := dns.Outstanding(recordsAtProvider(read), plan.Changes)
	if err != nil {
		t.Fatalf("a provider with the planned state refuses: %v\n%+v", err, plan.Changes)
	}
	if err := dns.CheckChanges("a.test", plan.Changes); err != nil {
		t.Fatal(err)
	}
	readAfterWrite := read
	readAfterWrite.Sets = slices.Clone(read.Sets)
	for _, c := range outstanding {
		readAfterWrite.Sets = slices.DeleteFunc(readAfterWrite.Sets, func(rrset dns.RRSet) bool {
			return rrset.Name == c.After.Name && (rrset.Type == c.After.Type || rrset.Synthesised)
		})
		readAfterWrite.Sets = append(readAfterWrite.Sets, c.After)
	}
	return readAfterWrite
}

// recordsAtProvider returns the record sets that the provider lists. Answers from wildcards are not
// among them.
func recordsAtProvider(read dns.ZoneRead) []dns.RRSet {
	return slices.DeleteFunc(slices.Clone(read.Sets), func(rrset dns.RRSet) bool { return rrset.Synthesised })
}

// drawManaged draws values that an earlier plan wrote.
func drawManaged(t *rapid.T) []dns.Written {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(someManaged), 0, len(someManaged), func(w dns.Written) string { return string(w.Purpose) }).Draw(t, "managed")
}

// TestPlanIsIdempotent writes a plan and makes a second plan. The second plan must change nothing,
// preserve the written records and have the same conflicts.
func TestPlanIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		read, managed := drawZone(t), drawManaged(t)
		plan := dns.NewPlan(offer(), read, managed)
		if !plan.SafeToApply() {
			return
		}
		secondPlan := dns.NewPlan(offer(), readAfter(t, read, plan), managed)
		if len(secondPlan.Changes) != 0 || !secondPlan.SafeToApply() {
			t.Fatalf("the second plan has changes or is not safe to apply: %+v", secondPlan)
		}
		for i, itemAfter := range secondPlan.Items {
			itemBefore := plan.Items[i]
			if itemAfter.Action != dns.Preserve && (itemBefore.Action != dns.Conflict || itemAfter.Reason != itemBefore.Reason) {
				t.Fatalf("the item %+v is %+v in the second plan, want preserve or the same conflict", itemBefore, itemAfter)
			}
		}
	})
}

// TestPlanKeepsForeignValues checks which values a plan replaces: managed values, values of the
// platform, and an SPF record, to which it adds the platform's include. All other values keep every
// byte.
func TestPlanKeepsForeignValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		read, managed := drawZone(t), drawManaged(t)
		plan := dns.NewPlan(offer(), read, managed)
		readAfterPlan := readAfter(t, read, plan)
		for _, setBefore := range recordsAtProvider(read) {
			setAfter := dns.Find(readAfterPlan.Sets, setBefore.Name, setBefore.Type)
			if setAfter.TTL != setBefore.TTL {
				t.Fatalf("the TTL of %+v changes to %d", setBefore, setAfter.TTL)
			}
			mustStay := slices.DeleteFunc(slices.Clone(setBefore.Values), func(v string) bool { return mayBeReplaced(plan, setBefore, managed, v) })
			stayed := slices.DeleteFunc(slices.Clone(setAfter.Values), func(v string) bool { return !slices.Contains(mustStay, v) })
			if diff := cmp.Diff(mustStay, stayed); diff != "" {
				t.Fatalf("the plan changes foreign values of %+v (-want +got):\n%s", setBefore, diff)
			}
		}
		if len(readAfterPlan.Sets) > len(read.Sets)+6 || len(plan.Changes) > 6 {
			t.Fatalf("%d record sets are written, want at most 6", len(plan.Changes))
		}
	})
}

// mayBeReplaced reports whether a plan may replace a value. An SPF record may be replaced only if
// the plan has an item that adds only the platform's include.
func mayBeReplaced(plan dns.Plan, rrset dns.RRSet, managed []dns.Written, value string) bool {
	isManaged := slices.ContainsFunc(managed, func(w dns.Written) bool { return w.Name == rrset.Name && w.Type == rrset.Type && w.Value == value })
	switch {
	case isManaged:
		return true
	case rrset.Type == dns.MX:
		return value == "0 "+previousMX || value == "32767 ms1.msv1.invalid"
	case rrset.Type == dns.CNAME:
		return value == target1 || value == target2 || value == "selector1-a-test._domainkey.t.onmicrosoft.com"
	case rrset.Name == "a.test" && strings.HasPrefix(value, "v=spf1"):
		return slices.ContainsFunc(plan.Items, func(i dns.Item) bool {
			return i.Purpose == dns.Sending && i.Action == dns.Update && addsOnly(value, i.Desired)
		})
	default:
		return false
	}
}

// addsOnly reports whether the SPF record after is the record before, or the record before with the
// platform's include added.
func addsOnly(before, after string) bool {
	return strings.Replace(after, platformInclude+" ", "", 1) == before || after == before+" "+platformInclude+" ~all" || after == before
}

func TestPlanIgnoresAnswerOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		read := drawZone(t)
		shuffled := read
		shuffled.Sets = rapid.Permutation(read.Sets).Draw(t, "sets")
		for i := range shuffled.Sets {
			shuffled.Sets[i].Values = rapid.Permutation(shuffled.Sets[i].Values).Draw(t, "values")
		}
		if dns.NewPlan(offer(), read, nil).Hash() != dns.NewPlan(offer(), shuffled, nil).Hash() {
			t.Fatal("the hash changes with the order of the answers")
		}
	})
}

// TestPlanExplainsEveryWrite checks that each new value of a plan is the desired value of an item
// that creates or updates. It also checks that only conflicts block a plan, and that each reason
// has a sentence.
func TestPlanExplainsEveryWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := dns.NewPlan(offer(), drawZone(t), drawManaged(t))
		for _, c := range plan.Changes {
			for _, value := range c.After.Values {
				explained := slices.ContainsFunc(plan.Items, func(i dns.Item) bool {
					return i.Name == c.After.Name && i.Type == c.After.Type && i.Desired == value && (i.Action == dns.Create || i.Action == dns.Update)
				})
				if !explained && !slices.Contains(c.Before.Values, value) {
					t.Fatalf("no item explains %q: %+v", value, plan.Items)
				}
			}
		}
		for _, i := range plan.Items {
			if i.Blocking && (i.Action != dns.Conflict || plan.SafeToApply()) || i.Reason.Explain() == "" {
				t.Fatalf("an item without a conflict blocks, a plan with a blocking item is safe to apply, or the reason has no sentence: %+v", i)
			}
		}
	})
}
