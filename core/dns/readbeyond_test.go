// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
)

func TestNeeds(t *testing.T) {
	want := func(p dns.Purpose, of dns.Type, name, content string) dns.Desired {
		return dns.Desired{Purpose: p, Record: dns.Record{Type: of, Name: name, Content: content}}
	}
	spf := want(dns.Sending, dns.TXT, "a.test", "v=spf1 include:spf.platform.test -all")
	policy := want(dns.Policy, dns.TXT, "_dmarc.a.test", "v=DMARC1; p=none")
	mx := want(dns.Inbound, dns.MX, "a.test", "a-test.mx.platform.test")
	one := want(dns.Selector1, dns.CNAME, "selector1._domainkey.a.test", target1)
	for _, tt := range []struct {
		name   string
		wanted []dns.Desired
		sets   []dns.RRSet
		want   dns.Needs
	}{
		{"nothing wanted", nil, []dns.RRSet{set("a.test", dns.MX, "5 m.test"), set("a.test", dns.TXT, "v=spf1 include:b.test -all")}, dns.Needs{}},
		{"the platform's SPF names and the domain's, once", []dns.Desired{spf},
			[]dns.RRSet{set("a.test", dns.TXT, "v=spf1 include:B.test redirect=c.test", "v=spf1 include:spf.platform.test -all", "include:d.test")},
			dns.Needs{SPF: []string{"b.test", "c.test", "spf.platform.test"}}},
		{"no DMARC", []dns.Desired{policy}, []dns.RRSet{set("_dmarc.a.test", dns.TXT, "hello")}, dns.Needs{Above: []string{"_dmarc.test"}}},
		{"DMARC of its own", []dns.Desired{policy}, []dns.RRSet{set("_dmarc.a.test", dns.TXT, "v=DMARC1; p=none")}, dns.Needs{}},
		{"DMARC elsewhere", []dns.Desired{policy}, []dns.RRSet{set("_dmarc.a.test", dns.CNAME, "vendor.test")}, dns.Needs{}},
		{"hosts of the MX but the platform's", []dns.Desired{mx},
			[]dns.RRSet{set("a.test", dns.MX, "0 a-test.mx.platform.test", "5 m.test", "9 m.test", "0 .", "7 192.0.2.1", "nonsense")},
			dns.Needs{Exchanges: []string{"m.test"}}},
		{"selectors say nothing of the MX", []dns.Desired{one}, []dns.RRSet{set("a.test", dns.MX, "5 m.test")}, dns.Needs{}},
		{"a key in the place of the CNAME", []dns.Desired{one}, []dns.RRSet{set("selector1._domainkey.a.test", dns.TXT, "v=DKIM1; p=")}, dns.Needs{Keys: []string{target1}}},
		{"a key by way of the CNAME", []dns.Desired{one},
			[]dns.RRSet{set("selector1._domainkey.a.test", dns.CNAME, target1), set("selector1._domainkey.a.test", dns.TXT, "v=DKIM1; p=")}, dns.Needs{}},
		{"a key that a wildcard makes up", []dns.Desired{one},
			[]dns.RRSet{{Name: "selector1._domainkey.a.test", Type: dns.TXT, Values: []string{"x"}, Synthesised: true}}, dns.Needs{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, sight(tt.sets...).Needs(tt.wanted)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestWantedSelectors(t *testing.T) {
	want := []dns.Desired{{Purpose: dns.Selector1, Record: signing.Selector1}, {Purpose: dns.Selector2, Record: signing.Selector2}}
	if diff := cmp.Diff(want, signing.Wanted()); diff != "" {
		t.Fatal(diff)
	}
	if got := (dns.Signing{}).Wanted(); got != nil {
		t.Fatalf("got %v", got)
	}
}
