// SPDX-License-Identifier: Apache-2.0

package dns

import "strings"

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

// servesDomain reports whether a host is one that the platform has or had for
// this very domain. Its first label is the domain with dashes; a short number
// may follow where two domains would give the same.
func servesDomain(host, domain string) bool {
	if !below(host, platformExchanges) {
		return false
	}
	label, _, _ := strings.Cut(referred(host), ".")
	rest, found := strings.CutPrefix(strings.ReplaceAll(label, "-", ""), squeezed(domain))
	return found && (rest == "" || len(rest) <= 3 && rest[0] >= '0' && rest[0] <= '9')
}

func squeezed(domain string) string {
	return strings.NewReplacer(".", "", "-", "").Replace(referred(domain))
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
