// SPDX-License-Identifier: Apache-2.0

package domain_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
)

var (
	label63 = strings.Repeat("a", 63)
	name253 = strings.Join([]string{label63, label63, label63, strings.Repeat("a", 56), "test"}, ".")
)

// builtinSuffixes are the suffixes of names that the mail platform assigns.
var builtinSuffixes = []string{"onmicrosoft.com"}

func TestNamesAreNormalized(t *testing.T) {
	for _, tc := range []struct{ name, raw, want string }{
		{"plain", "example.com", "example.com"},
		{"unlisted top level", "example.test", "example.test"},
		{"subdomain", "mail.example.co.uk", "mail.example.co.uk"},
		{"any case", "EXAMPLE.com", "example.com"},
		{"one final dot", "example.com.", "example.com"},
		{"U-label", "müller.example", "xn--mller-kva.example"},
		{"U-label decomposed", "mu\u0308ller.example", "xn--mller-kva.example"},
		{"A-label", "xn--mller-kva.example", "xn--mller-kva.example"},
		{"A-label in capitals", "XN--MLLER-KVA.example", "xn--mller-kva.example"},
		{"sharp s is its own letter", "straße.example", "xn--strae-oqa.example"},
		{"ideographic full stop", "example\u3002com", "example.com"},
		{"full-width letters", "ｅｘａｍｐｌｅ.com", "example.com"},
		{"label of 63", label63 + ".example", label63 + ".example"},
		{"253 octets", name253, name253},
		{"digits in a label", "123.example", "123.example"},
		{"below a private suffix", "me.github.io", "me.github.io"},
		{"similar to a built-in name", "notonmicrosoft.com", "notonmicrosoft.com"},
		{"a built-in name followed by labels", "onmicrosoft.com.evil.example", "onmicrosoft.com.evil.example"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := domain.ParseName(tc.raw, builtinSuffixes)
			if err != nil || got != tc.want {
				t.Fatalf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestInvalidNamesAreRefused(t *testing.T) {
	for _, tc := range []struct {
		name, raw string
		code      fault.Code
	}{
		{"empty", "", fault.InvalidDomain},
		{"a dot", ".", fault.InvalidDomain},
		{"one label", "example", fault.InvalidDomain},
		{"one label and a dot", "example.", fault.InvalidDomain},
		{"localhost", "localhost", fault.InvalidDomain},
		{"two final dots", "example.com..", fault.InvalidDomain},
		{"leading dot", ".example.com", fault.InvalidDomain},
		{"empty label", "a..example.com", fault.InvalidDomain},
		{"label of 64", label63 + "a.example", fault.InvalidDomain},
		{"254 octets", "a" + name253, fault.InvalidDomain},
		{"megabyte", strings.Repeat("a.", 1<<19), fault.InvalidDomain},
		{"space", "exa mple.com", fault.InvalidDomain},
		{"space before", " example.com", fault.InvalidDomain},
		{"underscore", "_dmarc.example.com", fault.InvalidDomain},
		{"leading hyphen", "-a.example.com", fault.InvalidDomain},
		{"trailing hyphen", "a-.example.com", fault.InvalidDomain},
		{"broken A-label", "xn--\u00fc.example", fault.InvalidDomain},
		{"an empty A-label", "xn--.example", fault.InvalidDomain},
		{"A-label that decodes to ASCII", "xn--example-.example", fault.InvalidDomain},
		{"hyphens as the third and fourth characters", "ab--cd.example", fault.InvalidDomain},
		{"a zero width joiner", "a\u200db.example", fault.InvalidDomain},
		{"mixed direction", "aא1.example", fault.InvalidDomain},
		{"IPv4", "192.0.2.1", fault.InvalidDomain},
		{"IPv4 in hex", "0x7f.1", fault.InvalidDomain},
		{"IPv4 all hex", "0x7f.0x1", fault.InvalidDomain},
		{"IPv6", "[::1]", fault.InvalidDomain},
		{"port", "example.com:25", fault.InvalidDomain},
		{"URL", "https://example.com", fault.InvalidDomain},
		{"address", "anna@example.com", fault.InvalidDomain},
		{"path", "example.com/a", fault.InvalidDomain},
		{"wildcard", "*.example.com", fault.InvalidDomain},
		{"line break", "example.com\r\n", fault.InvalidDomain},
		{"tab", "example\t.com", fault.InvalidDomain},
		{"NUL", "example.com\x00", fault.InvalidDomain},
		{"invalid UTF-8", "ex\xffample.com", fault.InvalidDomain},
		{"replacement character", "ex\ufffdample.com", fault.InvalidDomain},
		{"top level", "com", fault.InvalidDomain},
		{"public suffix", "co.uk", fault.InvalidDomain},
		{"public suffix in capitals", "CO.UK.", fault.InvalidDomain},
		{"private suffix", "github.io", fault.InvalidDomain},
		{"wildcard suffix", "anything.ck", fault.InvalidDomain},
		{"a name below arpa", "in-addr.arpa", fault.InvalidDomain},
		{"a built-in suffix", "onmicrosoft.com", fault.BuiltinDomain},
		{"a built-in suffix in capitals", "OnMicrosoft.COM", fault.BuiltinDomain},
		{"below the built-in suffix", "a.ONMICROSOFT.com.", fault.BuiltinDomain},
		{"two labels below the built-in suffix", "a.b.onmicrosoft.com", fault.BuiltinDomain},
		{"the label mail below the built-in suffix", "mail.onmicrosoft.com", fault.BuiltinDomain},
		{"a built-in suffix in full width", "a.ｏｎmicrosoft.com", fault.BuiltinDomain},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := domain.ParseName(tc.raw, builtinSuffixes)
			if !errors.Is(err, tc.code) {
				t.Fatalf("got %q, %v; want %v", got, err, tc.code)
			}
			if fields := fault.ErrorOf(err).Fields; len(fields) != 1 || fields[0].Name != "domain" {
				t.Fatalf("the error has the fields %v, want only domain", fields)
			}
		})
	}
}

func TestParseNameOrNoneReturnsNoNameForInvalidNames(t *testing.T) {
	for _, tc := range []struct{ raw, want string }{
		{"EXAMPLE.com.", "example.com"},
		{"müller.example", "xn--mller-kva.example"},
		{"a.onmicrosoft.com", "a.onmicrosoft.com"},
		{"example", domain.NoName},
		{"../secret", domain.NoName},
		{"", domain.NoName},
	} {
		if got := domain.ParseNameOrNone(tc.raw); got != tc.want {
			t.Errorf("%q becomes %q, want %q", tc.raw, got, tc.want)
		}
	}
}

func TestAcceptedNamesAreCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.OneOf(
			rapid.String(),
			rapid.StringMatching(`([A-Za-z0-9_-]{1,20}\.){1,4}[A-Za-z0-9]{1,8}\.?`),
			rapid.StringMatching(`[a-zäöüßéñ\x{05d0}-\x{05ea}\x{200d}.\x{ff0e}]{1,30}\.example`),
		).Draw(t, "raw")
		name, err := domain.ParseName(raw, builtinSuffixes)
		if err != nil {
			return
		}
		if reparsed, err := domain.ParseName(name, builtinSuffixes); err != nil || reparsed != name {
			t.Fatalf("the name %q of %q is not canonical: ParseName returns %q, %v for it", name, raw, reparsed, err)
		}
		if name != strings.ToLower(name) || strings.HasSuffix(name, ".") || len(name) > 253 || domain.ParseNameOrNone(raw) != name {
			t.Fatalf("%q is not canonical", name)
		}
	})
}
