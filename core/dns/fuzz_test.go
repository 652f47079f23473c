// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/dns"
)

// FuzzReadStatus checks that no published content causes a panic, and that a foreign DKIM target
// never counts as the platform's.
func FuzzReadStatus(f *testing.F) {
	for _, seed := range []string{"", "v=spf1 -all", "V=SPF1", "v=DMARC1; p=none", "10 mx.example", "x mx.example", "-1", "99999999999999999999 a", ".", "\x00\xff", "v=spf1 v=spf1"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		s := dns.ZoneRead{Domain: "example.com", Complete: true}
		for _, owner := range []string{"example.com", "_dmarc.example.com", "selector1._domainkey.example.com", one} {
			for _, of := range []dns.Type{dns.TXT, dns.MX, dns.CNAME} {
				s.Sets = append(s.Sets, dns.RRSet{Name: owner, Type: of, Values: []string{one, two}})
			}
		}
		desired := dns.Record{Type: dns.CNAME, Name: "selector1._domainkey.example.com", Content: "target.example"}
		status := dns.ReadStatus(s, []dns.Record{{Type: dns.TXT, Name: "example.com", Content: "MS=ms1"}}, dns.Signing{Selector1: desired})
		if status.VerificationSeen && one != "MS=ms1" && two != "MS=ms1" {
			t.Errorf("%q, %q: seen as the verification", one, two)
		}
		if status.DKIM != "missing" {
			t.Errorf("%q, %q: DKIM is %q", one, two, status.DKIM)
		}
	})
}

// FuzzPlan checks that no content of a zone or of a referenced name causes a panic. The only value
// that a plan replaces is an SPF record. The new record is the old one with the platform added.
func FuzzPlan(f *testing.F) {
	for _, seed := range []string{"", "v=spf1 -all", "v=spf1 a:x.test//64 ?all", "v=spf1 include:%{i}.x.test", "v=spf1 redirect=one.test", "v=DMARC1; p=none", ";=", "0 .", "\x00\xff"} {
		f.Add(seed, seed, seed)
	}
	f.Fuzz(func(t *testing.T, text, exchange, referenced string) {
		s := reliable(set("a.test", dns.TXT, "x", text, "y"), set("a.test", dns.MX, exchange), set("_dmarc.a.test", dns.TXT, text),
			set("selector1._domainkey.a.test", dns.CNAME, exchange))
		s.Referenced.SPF["one.test"] = []string{referenced}
		for _, name := range dns.SPFReferences(text) {
			s.Referenced.SPF[name] = []string{referenced}
		}
		p := dns.NewPlan(offer(), s, nil)
		for _, c := range p.Changes {
			for _, value := range c.Before.Values {
				if slices.Contains(c.After.Values, value) || c.After.Type != dns.TXT {
					continue
				}
				if got := item(t, p, dns.Sending).Desired; value != text || !strings.HasPrefix(strings.ToLower(text), "v=spf1") || !addsOnly(text, got) {
					t.Errorf("%q is replaced by %q", value, got)
				}
			}
		}
		if p.Hash() != dns.NewPlan(offer(), s, nil).Hash() {
			t.Error("the same zone results in a different plan")
		}
	})
}
