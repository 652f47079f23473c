// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"

	"github.com/tenantry/tenantry/core/fault"
)

// NoName is a name that no stored domain has, because it is a single label.
const NoName = "invalid"

// maxInput limits the length, in octets, of the text that a caller sends. The canonical form of a
// valid name has at most 253 octets. The text that a caller sends can be longer than this form.
const maxInput = 1024

// hostNameProfile maps names as browsers do: UTS #46 without transitional mappings. It allows only
// letters, digits and hyphens. Unlike browsers, it also checks lengths, and refuses hyphens at the
// ends of a label and in its positions 3 and 4.
var hostNameProfile = idna.New(
	idna.MapForLookup(), idna.Transitional(false), idna.BidiRule(), idna.CheckHyphens(true), idna.CheckJoiners(true),
	idna.ValidateLabels(true), idna.StrictDomainName(true), idna.VerifyDNSLength(true),
)

// ParseName returns the canonical form of a domain that a caller wants to add: lower-case A-labels
// without the final dot. builtinSuffixes are the suffixes of the names that the mail platform
// assigns. ParseName fails with invalid_domain or builtin_domain_not_allowed.
func ParseName(raw string, builtinSuffixes []string) (string, error) {
	name, ok := canonicalName(raw)
	if !ok {
		return "", refuse(fault.InvalidDomain, "the domain is not a host name of two labels or more")
	}
	if slices.ContainsFunc(builtinSuffixes, func(suffix string) bool { return name == suffix || strings.HasSuffix(name, "."+suffix) }) {
		return "", refuse(fault.BuiltinDomain, "the domain belongs to the mail platform")
	}
	// PublicSuffix returns the last label of a name whose top-level domain is not in its list. A
	// name of two labels is then accepted.
	if suffix, _ := publicsuffix.PublicSuffix(name); suffix == name {
		return "", refuse(fault.InvalidDomain, "the domain is a public suffix, under which others register names")
	}
	return name, nil
}

// ParseNameOrNone returns the canonical form of raw. It returns NoName for a malformed name, so
// that the caller gets the same answer as for an unknown name.
func ParseNameOrNone(raw string) string {
	if name, ok := canonicalName(raw); ok {
		return name
	}
	return NoName
}

func refuse(code fault.Code, detail string) error {
	return code.At(detail, fault.Field{Name: "domain", Message: detail})
}

func canonicalName(raw string) (string, bool) {
	if raw == "" || len(raw) > maxInput || !utf8.ValidString(raw) {
		return "", false
	}
	name, err := hostNameProfile.ToASCII(strings.TrimSuffix(raw, "."))
	if err != nil || !strings.Contains(name, ".") || endsInNumber(name) {
		return "", false
	}
	return name, true
}

// endsInNumber reports whether the last label is a number. No top-level domain is a number, and
// resolvers read some of these names as IPv4 addresses.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}
