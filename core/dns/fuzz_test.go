// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"testing"

	"github.com/tenantry/tenantry/core/dns"
)

// FuzzReadStatus: whatever the world publishes, it is read without a panic,
// and a foreign DKIM target never counts as ours.
func FuzzReadStatus(f *testing.F) {
	for _, seed := range []string{"", "v=spf1 -all", "V=SPF1", "v=DMARC1; p=none", "10 mx.example", "x mx.example", "-1", "99999999999999999999 a", ".", "\x00\xff", "v=spf1 v=spf1"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		s := dns.Sight{Domain: "example.com", Complete: true}
		for _, at := range []string{"example.com", "_dmarc.example.com", "selector1._domainkey.example.com", one} {
			for _, of := range []dns.Type{dns.TXT, dns.MX, dns.CNAME} {
				s.Sets = append(s.Sets, dns.RRSet{Name: at, Type: of, Values: []string{one, two}})
			}
		}
		ours := dns.Record{Type: dns.CNAME, Name: "selector1._domainkey.example.com", Content: "target.example"}
		status := dns.ReadStatus(s, []dns.Record{{Type: dns.TXT, Name: "example.com", Content: "MS=ms1"}}, dns.Signing{Selector1: ours})
		if status.VerificationSeen && one != "MS=ms1" && two != "MS=ms1" {
			t.Errorf("%q, %q: seen as the verification", one, two)
		}
		if status.DKIM != "missing" {
			t.Errorf("%q, %q: DKIM is %q", one, two, status.DKIM)
		}
	})
}
