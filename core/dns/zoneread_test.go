// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/dns"
)

func TestNegativeTTLIsTheLowerOfTTLAndMinimum(t *testing.T) {
	for name, tc := range map[string]struct {
		soaTTL int
		soa    string
		want   time.Duration
	}{
		"the SOA minimum is lower":        {3600, "ns1.a.test hostmaster.a.test 1 3600 600 604800 60", time.Minute},
		"the TTL is lower":                {30, "ns1.a.test hostmaster.a.test 1 3600 600 604800 60", 30 * time.Second},
		"the SOA minimum is not a number": {3600, "ns1.a.test hostmaster.a.test 1 3600 600 604800 x", 0},
		"the SOA has too few fields":      {3600, "ns1.a.test hostmaster.a.test 1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			read := dns.ZoneRead{Zone: "a.test", Sets: []dns.RRSet{{Name: "a.test", Type: dns.SOA, TTL: tc.soaTTL, Values: []string{tc.soa}}}}
			if got := read.NegativeTTL(); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
	if got := (dns.ZoneRead{Zone: "a.test"}).NegativeTTL(); got != 0 {
		t.Errorf("without an SOA: got %s, want 0", got)
	}
}

func TestZoneReadCountsServers(t *testing.T) {
	read := dns.ZoneRead{Servers: []dns.Server{
		{Name: "ns1.test", State: dns.ServerOK, Agrees: true}, {Name: "ns2.test", State: dns.ServerOK},
		{Name: "ns3.test", State: dns.ServerBlocked}, {Name: "ns4.test", State: dns.ServerUnreachable},
	}}
	if got := read.ServersAsked(); got != 3 {
		t.Errorf("ServersAsked returns %d, want 3", got)
	}
	if got := read.ServersAgreeing(); got != 1 {
		t.Errorf("ServersAgreeing returns %d, want 1", got)
	}
}

func TestAReadIsSilentWhenNoServerAnswered(t *testing.T) {
	servers := []dns.Server{{State: dns.ServerUnreachable}, {State: dns.ServerOK}}
	for name, tc := range map[string]struct {
		read dns.ZoneRead
		want bool
	}{
		"a complete read":                   {dns.ZoneRead{Complete: true, Servers: servers}, false},
		"an incomplete read":                {dns.ZoneRead{Reason: "single_server_answered", Servers: servers}, false},
		"no server answered":                {dns.ZoneRead{Reason: "no_authoritative_answer", Servers: servers[:1]}, true},
		"no resolver answered":              {dns.ZoneRead{Reason: "zone_cut_unknown"}, true},
		"the parent zone does not delegate": {dns.ZoneRead{Reason: dns.ReasonNotDelegated}, false},
		"the zero ZoneRead":                 {dns.ZoneRead{}, true},
	} {
		if got := tc.read.AllServersSilent(); got != tc.want {
			t.Errorf("%s: got %t, want %t", name, got, tc.want)
		}
	}
}

func TestNeedsListsTheNamesOfAPlan(t *testing.T) {
	desired := func(purpose dns.Purpose, recordType dns.Type, name, content string) dns.Desired {
		return dns.Desired{Purpose: purpose, Record: dns.Record{Type: recordType, Name: name, Content: content}}
	}
	spf := desired(dns.Sending, dns.TXT, "a.test", "v=spf1 include:spf.platform.test -all")
	policy := desired(dns.Policy, dns.TXT, "_dmarc.a.test", "v=DMARC1; p=none")
	mx := desired(dns.Inbound, dns.MX, "a.test", "a-test.mx.platform.test")
	selector := desired(dns.Selector1, dns.CNAME, "selector1._domainkey.a.test", target1)
	for _, tc := range []struct {
		name   string
		wanted []dns.Desired
		sets   []dns.RRSet
		want   dns.Needs
	}{
		{"nothing wanted", nil, []dns.RRSet{rrset("a.test", dns.MX, "5 m.test"), rrset("a.test", dns.TXT, "v=spf1 include:b.test -all")}, dns.Needs{}},
		{"each name in the SPF records of the platform and the domain", []dns.Desired{spf},
			[]dns.RRSet{rrset("a.test", dns.TXT, "v=spf1 include:B.test redirect=c.test", "v=spf1 include:spf.platform.test -all", "include:d.test")},
			dns.Needs{SPF: []string{"b.test", "c.test", "spf.platform.test"}}},
		{"no DMARC record", []dns.Desired{policy}, []dns.RRSet{rrset("_dmarc.a.test", dns.TXT, "hello")}, dns.Needs{ParentDMARC: []string{"_dmarc.test"}}},
		{"a DMARC record of the domain", []dns.Desired{policy}, []dns.RRSet{rrset("_dmarc.a.test", dns.TXT, "v=DMARC1; p=none")}, dns.Needs{}},
		{"a CNAME at the DMARC name", []dns.Desired{policy}, []dns.RRSet{rrset("_dmarc.a.test", dns.CNAME, "vendor.test")}, dns.Needs{}},
		{"MX hosts except the platform's", []dns.Desired{mx},
			[]dns.RRSet{rrset("a.test", dns.MX, "0 a-test.mx.platform.test", "5 m.test", "9 m.test", "0 .", "7 192.0.2.1", "nonsense")},
			dns.Needs{Exchanges: []string{"m.test"}}},
		{"selectors need no MX hosts", []dns.Desired{selector}, []dns.RRSet{rrset("a.test", dns.MX, "5 m.test")}, dns.Needs{}},
		{"a key in place of the CNAME", []dns.Desired{selector}, []dns.RRSet{rrset("selector1._domainkey.a.test", dns.TXT, "v=DKIM1; p=")}, dns.Needs{Keys: []string{target1}}},
		{"a key behind the CNAME", []dns.Desired{selector},
			[]dns.RRSet{rrset("selector1._domainkey.a.test", dns.CNAME, target1), rrset("selector1._domainkey.a.test", dns.TXT, "v=DKIM1; p=")}, dns.Needs{}},
		{"a key from a wildcard", []dns.Desired{selector},
			[]dns.RRSet{{Name: "selector1._domainkey.a.test", Type: dns.TXT, Values: []string{"x"}, Synthesised: true}}, dns.Needs{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, readOf(tc.sets...).Needs(tc.wanted)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestWantedListsBothSelectors(t *testing.T) {
	want := []dns.Desired{{Purpose: dns.Selector1, Record: signing.Selector1}, {Purpose: dns.Selector2, Record: signing.Selector2}}
	if diff := cmp.Diff(want, signing.Wanted()); diff != "" {
		t.Fatal(diff)
	}
	if got := (dns.Signing{}).Wanted(); got != nil {
		t.Fatalf("without a configuration: got %v, want nil", got)
	}
}

func TestEscapeTextEscapesControlCharactersAndInvalidUTF8(t *testing.T) {
	for content, want := range map[string]string{
		"v=spf1 -all": "v=spf1 -all", "": "", "grüße \\ \"x\"": "grüße \\ \"x\"", "a\xff\x00b": `a\255\000b`, "\n\u0085": `\010\194\133`,
		"\u2028\ufffd": "\u2028\ufffd",
	} {
		if got := dns.EscapeText(content); got != want {
			t.Errorf("%q is shown as %q, want %q", content, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		content := string(rapid.SliceOf(rapid.Byte()).Draw(t, "content"))
		got := dns.EscapeText(content)
		if !utf8.ValidString(got) || strings.ContainsRune(got, 0) || dns.EscapeText(got) != got {
			t.Fatalf("%q is shown as %q, which is not safe to show, or changes when it is escaped again", content, got)
		}
	})
}

func TestChunksJoinToTheSameText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.StringN(0, -1, 600)).Draw(t, "words"), " ")
		chunks := dns.Chunks(text)
		if strings.Join(chunks, "") != text {
			t.Fatalf("the chunks %q do not join to %q", chunks, text)
		}
		for i, c := range chunks {
			if len(c) > 255 || c == "" && text != "" {
				t.Fatalf("chunk %d has %d octets, want 1 to 255", i, len(c))
			}
			if i < len(chunks)-1 && strings.Contains(c, " ") && !strings.HasSuffix(c, " ") {
				t.Fatalf("%q is not split at its last space", c)
			}
		}
	})
	if got := dns.Chunks(""); len(got) != 1 {
		t.Errorf("the chunks of the empty text are %q, want one", got)
	}
}
