// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/dns"
)

const (
	target1 = "selector1-a-test01i._domainkey.t.n-v1.dkim.mail.microsoft"
	target2 = "selector2-a-test01i._domainkey.t.n-v1.dkim.mail.microsoft"
)

var (
	signing = dns.Signing{
		Selector1: dns.Record{Type: dns.CNAME, Name: "selector1._domainkey.a.test", Content: target1},
		Selector2: dns.Record{Type: dns.CNAME, Name: "selector2._domainkey.a.test", Content: target2},
	}
	offered = []dns.Record{
		{Type: dns.MX, Name: "a.test", Content: "ms1.msv1.invalid", Preference: 32767},
		{Type: dns.TXT, Name: "a.test", Content: "MS=ms12345678"},
	}
)

func sight(sets ...dns.RRSet) dns.Sight { return dns.Sight{Domain: "a.test", Sets: sets} }

func set(name string, of dns.Type, values ...string) dns.RRSet {
	return dns.RRSet{Name: name, Type: of, Values: values}
}

func TestReadStatus(t *testing.T) {
	for _, tt := range []struct {
		name string
		sets []dns.RRSet
		want dns.Status
	}{
		{"nothing", nil, dns.Status{MX: "missing", SPF: "missing", DMARC: "missing", DKIM: "missing"}},
		{
			"all of it", []dns.RRSet{
				set("a.test", dns.MX, "10 backup.test", "0 a-test.mail.protection.outlook.com"),
				set("a.test", dns.TXT, "other", "v=spf1 include:spf.protection.outlook.com -all", "MS=ms12345678"),
				set("_dmarc.a.test", dns.TXT, "v=DMARC1; p=none"),
				set("selector1._domainkey.a.test", dns.CNAME, target1+"."),
				set("Selector2._domainkey.a.test.", dns.CNAME, strings.ToUpper(target2)),
			},
			dns.Status{
				MX: "a-test.mail.protection.outlook.com.", SPF: "v=spf1 include:spf.protection.outlook.com -all",
				DMARC: "v=DMARC1; p=none", DKIM: "healthy", VerificationSeen: true,
			},
		},
		{
			"one selector right, one foreign", []dns.RRSet{
				set("selector1._domainkey.a.test", dns.CNAME, target1),
				set("selector2._domainkey.a.test", dns.CNAME, "elsewhere.test"),
			},
			dns.Status{MX: "missing", SPF: "missing", DMARC: "missing", DKIM: "partial"},
		},
		{
			"words that only begin alike", []dns.RRSet{
				set("a.test", dns.TXT, "v=spf10 -all", "v=spf", "MS=ms123456789", "ms=MS12345678"),
				set("_dmarc.a.test", dns.TXT, "v=DMARC12"),
			},
			dns.Status{MX: "missing", SPF: "missing", DMARC: "missing", DKIM: "missing"},
		},
		{
			"tags in any case, alone", []dns.RRSet{
				set("a.test", dns.TXT, "V=SPF1"),
				set("_dmarc.a.test", dns.TXT, "v=dmarc1;p=reject"),
			},
			dns.Status{MX: "missing", SPF: "V=SPF1", DMARC: "v=dmarc1;p=reject", DKIM: "missing"},
		},
		{
			"a null MX, and the name alone does not verify", []dns.RRSet{
				set("a.test", dns.MX, "0 ."),
				set("b.test", dns.TXT, "MS=ms12345678"),
			},
			dns.Status{MX: ".", SPF: "missing", DMARC: "missing", DKIM: "missing"},
		},
		{
			"verified by the MX", []dns.RRSet{set("a.test", dns.MX, "32767 ms1.msv1.invalid.")},
			dns.Status{MX: "ms1.msv1.invalid.", SPF: "missing", DMARC: "missing", DKIM: "missing", VerificationSeen: true},
		},
		{
			"of equal exchanges the first by name", []dns.RRSet{set("a.test", dns.MX, "5 b.test", "5 a.test")},
			dns.Status{MX: "a.test.", SPF: "missing", DMARC: "missing", DKIM: "missing"},
		},
		{
			"nonsense in the MX", []dns.RRSet{set("a.test", dns.MX, "host.test", "5 right.test")},
			dns.Status{MX: "right.test.", SPF: "missing", DMARC: "missing", DKIM: "missing"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, dns.ReadStatus(sight(tt.sets...), offered, signing)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestReadSelectors(t *testing.T) {
	const name = "selector1._domainkey.a.test"
	for _, tt := range []struct {
		name    string
		signing dns.Signing
		seen    []dns.RRSet
		want    dns.Selector
	}{
		{"nothing there", signing, nil, dns.SelectorMissing},
		{"the target", signing, []dns.RRSet{set(name, dns.CNAME, target1)}, dns.SelectorPropagated},
		{"the other selector's target", signing, []dns.RRSet{set(name, dns.CNAME, target2)}, dns.SelectorMismatch},
		{"a key pasted by hand", signing, []dns.RRSet{set(name, dns.TXT, "v=DKIM1; p=")}, dns.SelectorMismatch},
		{"two CNAMEs", signing, []dns.RRSet{set(name, dns.CNAME, target1, target2)}, dns.SelectorMismatch},
		{"no target named, nothing there", dns.Signing{}, nil, dns.SelectorMissing},
		{"no target named, something there", dns.Signing{}, []dns.RRSet{set(name, dns.CNAME, target1)}, dns.SelectorMismatch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, _ := dns.ReadSelectors(sight(tt.seen...), tt.signing); got != tt.want {
				t.Fatalf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestTheOrderOfAnswersDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mx := rapid.SliceOfN(rapid.SampledFrom([]string{"0 a.test", "0 b.test", "5 c.test", "x"}), 0, 4).Draw(t, "mx")
		txt := rapid.SliceOfN(rapid.SampledFrom([]string{"v=spf1 -all", "v=spf1 ~all", "MS=ms12345678", ""}), 0, 4).Draw(t, "txt")
		read := func(mx, txt []string) dns.Status {
			return dns.ReadStatus(sight(set("a.test", dns.MX, mx...), set("a.test", dns.TXT, txt...)), offered, signing)
		}
		turned := read(rapid.Permutation(mx).Draw(t, "turned mx"), rapid.Permutation(txt).Draw(t, "turned txt"))
		if diff := cmp.Diff(read(mx, txt), turned); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestVerification(t *testing.T) {
	for _, tt := range []struct {
		name    string
		offered []dns.Record
		want    dns.Type
	}{
		{"the TXT, wherever it stands", offered, dns.TXT},
		{"what there is", offered[:1], dns.MX},
		{"nothing", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := dns.Verification(tt.offered); got.Type != tt.want || ok != (tt.want != "") {
				t.Fatalf("got %+v, %v", got, ok)
			}
		})
	}
}
