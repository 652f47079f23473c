// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"regexp"
	"strings"
)

// Where the mail platform's own hosts stand. They only tell its earlier records
// from other people's; no record is ever made from them.
var (
	platformExchanges = []string{".mail.protection.outlook.com", ".mx.microsoft"}
	platformSigners   = []string{".onmicrosoft.com", ".dkim.mail.microsoft"}
)

func below(name string, spaces []string) bool {
	name = referred(name)
	for _, space := range spaces {
		if strings.HasSuffix(name, space) {
			return true
		}
	}
	return false
}

// suffix follows in the host of a domain with dashes.
var suffix = regexp.MustCompile(`^[0-9]{2}[a-z][0-9a-z]{0,3}$`)

// servesDomain reports whether a host is one that the platform has or had for
// this very domain. Its first label is the domain with its dots as dashes; one
// with dashes of its own loses those and gets a suffix, as the label without
// is that of another domain.
func servesDomain(host, domain string) bool {
	if !below(host, platformExchanges) {
		return false
	}
	label, _, _ := strings.Cut(referred(host), ".")
	bare := strings.ReplaceAll(referred(domain), "-", "")
	rest, found := strings.CutPrefix(label, strings.ReplaceAll(bare, ".", "-"))
	if bare == referred(domain) {
		return found && rest == ""
	}
	return found && suffix.MatchString(rest)
}

// signingTenant is the tenant whose key a DKIM target of the platform holds, ""
// for any other name.
func signingTenant(target string) string {
	if !below(target, platformSigners) {
		return ""
	}
	_, rest, found := strings.Cut(referred(target), "._domainkey.")
	if !found {
		return ""
	}
	tenant, _, _ := strings.Cut(rest, ".")
	return tenant
}
