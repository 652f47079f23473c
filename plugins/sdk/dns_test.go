// SPDX-License-Identifier: Apache-2.0

package sdk_test

import (
	"context"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk"
)

func TestTextIsQuotedAndUnquotedAsInZoneFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                       `""`,
		"v=spf1 -all":            `"v=spf1 -all"`,
		`a "b" \ c`:              `"a \"b\" \\ c"`,
		"\x00\xff":               `"\000\255"`,
		strings.Repeat("x", 256): `"` + strings.Repeat("x", 255) + `" "x"`,
	} {
		if got := sdk.QuoteText(text); got != want {
			t.Errorf("QuoteText(%q) is %s, want %s", text, got, want)
		}
	}
	for content, want := range map[string]string{
		`"a" "b"`: "ab", "\"a\"\t\"b\"": "ab", `"a""b"`: "ab", "bare text": "bare text", "": "",
		`"a;b\; \065\\"`: `a;b; A\`,
	} {
		if got, err := sdk.UnquoteText(content); got != want || err != nil {
			t.Errorf("UnquoteText(%s) is %q, %v, want %q", content, got, err, want)
		}
	}
	for _, content := range []string{`"open`, `"a" b`, `"\`, `"\25"`, `"\256"`, `"\2x5"`} {
		if got, err := sdk.UnquoteText(content); err == nil {
			t.Errorf("UnquoteText(%s) is %q, want an error", content, got)
		}
	}
}

func TestUnquoteTextInvertsQuoteText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOfN(rapid.Byte(), 0, 600).Draw(t, "text"))
		if got, err := sdk.UnquoteText(sdk.QuoteText(text)); got != text || err != nil {
			t.Fatalf("%q is quoted and unquoted to %q, %v, want the same text", text, got, err)
		}
	})
}

func TestContentIsConvertedFromAndToZoneFiles(t *testing.T) {
	for _, tc := range []struct {
		recordType     dns.Type
		content, value string
	}{
		{dns.CNAME, "target.example.", "target.example"},
		{dns.MX, "10 mail.example.", "10 mail.example"},
		{dns.MX, "0 .", "0 ."},
		{dns.NS, "ns.example.", "ns.example"},
		{dns.TXT, `"a b"`, "a b"},
		{"A", "192.0.2.1", "192.0.2.1"},
	} {
		value, err := sdk.ReadContent(tc.recordType, tc.content)
		if value != tc.value || err != nil {
			t.Errorf("%s %s is read as %q, %v, want %q", tc.recordType, tc.content, value, err, tc.value)
		}
		if got := sdk.WriteContent(tc.recordType, value); got != tc.content {
			t.Errorf("%s %s is written as %s, want %s", tc.recordType, value, got, tc.content)
		}
	}
	if got, _ := sdk.ReadContent(dns.MX, "10  Mail.Example"); got != "10 mail.example" {
		t.Errorf("an MX with two spaces and upper case is read as %q, want 10 mail.example", got)
	}
	if _, err := sdk.ReadContent(dns.MX, "mail.example."); err == nil {
		t.Error("an MX without a preference is accepted, want an error")
	}
}

// oneZone is a provider with one zone. Only its method Records may be called.
type oneZone struct {
	sdk.DNSProvider
	sets []dns.RRSet
	err  error
}

func (z oneZone) Records(context.Context, dns.Zone) ([]dns.RRSet, error) { return z.sets, z.err }

func TestReadBackComparesTheZoneWithTheChanges(t *testing.T) {
	want := dns.RRSet{Name: "a.test", Type: dns.TXT, TTL: 60, Values: []string{"x"}}
	changes := []dns.Change{{After: want}}
	for name, tc := range map[string]struct {
		zone oneZone
		kind outcome.Kind // 0 for success
	}{
		"written":                         {oneZone{sets: []dns.RRSet{want}}, 0},
		"not written":                     {oneZone{}, outcome.Broken},
		"the read is refused":             {oneZone{err: sdk.CredentialRefused("x")}, outcome.Unknown},
		"the read has an unknown outcome": {oneZone{err: sdk.UnknownEffect("x")}, outcome.Unknown},
		"the read is malformed":           {oneZone{err: sdk.BrokenAnswer("x")}, outcome.Broken},
	} {
		sets, err := sdk.ReadBack(t.Context(), tc.zone, dns.Zone{}, changes)
		if outcome.KindOf(err) != tc.kind || (err == nil) != (len(sets) == 1) {
			t.Errorf("%s: got %v, %v, want %s", name, sets, err, tc.kind)
		}
	}
	if after := sdk.SetsAfter([]dns.RRSet{want}, changes); len(after) != 1 || !after[0].Same(want) {
		t.Errorf("the sets after the change are %+v, want %+v", after, want)
	}
}
