// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/dns"
)

// FuzzReadStatus checks that no published content causes a panic. Only the platform's target counts
// as a published DKIM selector, and only the text of the ownership record proves ownership.
func FuzzReadStatus(f *testing.F) {
	for _, seed := range []string{"", "v=spf1 -all", "V=SPF1", "v=DMARC1; p=none", "10 mx.example", "x mx.example", "-1", "99999999999999999999 a", ".", "target.example", "\x00\xff", "v=spf1 v=spf1"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, firstValue, secondValue string) {
		read := dns.ZoneRead{Domain: "example.com", Complete: true}
		for _, owner := range []string{"example.com", "_dmarc.example.com", "selector1._domainkey.example.com", firstValue} {
			for _, recordType := range []dns.Type{dns.TXT, dns.MX, dns.CNAME} {
				values := []string{firstValue, secondValue}
				if recordType == dns.CNAME {
					values = values[:1] // several CNAMEs never count as a published selector
				}
				read.Sets = append(read.Sets, dns.RRSet{Name: owner, Type: recordType, Values: values})
			}
		}
		desired := dns.Record{Type: dns.CNAME, Name: "selector1._domainkey.example.com", Content: "target.example"}
		status := dns.ReadStatus(read, []dns.Record{{Type: dns.TXT, Name: "example.com", Content: "MS=ms1"}}, dns.Signing{Selector1: desired})
		if status.VerificationSeen && firstValue != "MS=ms1" && secondValue != "MS=ms1" {
			t.Errorf("%q and %q count as the ownership record", firstValue, secondValue)
		}
		want := dns.Missing
		if strings.EqualFold(strings.TrimSuffix(firstValue, "."), desired.Content) {
			want = dns.DKIMPartial // the platform has specified no target for selector 2
		}
		if status.DKIM != want {
			t.Errorf("with the CNAME %q: DKIM is %q, want %s", firstValue, status.DKIM, want)
		}
	})
}

// FuzzPlan checks that no content of a zone or of a referenced name causes a panic. Among the TXT
// records, a plan replaces only the SPF record. The new SPF record is the old record with the
// platform's include added.
func FuzzPlan(f *testing.F) {
	for _, seed := range []string{"", "v=spf1 -all", "v=spf1 a:x.test//64 ?all", "v=spf1 include:%{i}.x.test", "v=spf1 redirect=one.test", "v=DMARC1; p=none", ";=", "0 .", "\x00\xff"} {
		f.Add(seed, seed, seed)
	}
	f.Fuzz(func(t *testing.T, text, exchange, referenced string) {
		read := reliableRead(rrset("a.test", dns.TXT, "x", text, "y"), rrset("a.test", dns.MX, exchange), rrset("_dmarc.a.test", dns.TXT, text),
			rrset("selector1._domainkey.a.test", dns.CNAME, exchange))
		read.Referenced.SPF["one.test"] = []string{referenced}
		for _, name := range dns.SPFReferences(text) {
			read.Referenced.SPF[name] = []string{referenced}
		}
		plan := dns.NewPlan(offer(), read, nil)
		for _, c := range plan.Changes {
			for _, value := range c.Before.Values {
				if slices.Contains(c.After.Values, value) || c.After.Type != dns.TXT {
					continue
				}
				if got := itemFor(t, plan, dns.Sending).Desired; value != text || !strings.HasPrefix(strings.ToLower(text), "v=spf1") || !addsOnly(text, got) {
					t.Errorf("%q is replaced, although it is not the SPF record or %q changes more than the include", value, got)
				}
			}
		}
		if plan.Hash() != dns.NewPlan(offer(), read, nil).Hash() {
			t.Error("a second plan of the same zone has a different hash")
		}
	})
}
