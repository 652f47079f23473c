// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"regexp"
	"strings"
)

// The domains of the mail platform's hosts. They identify earlier records of the platform. No
// record is derived from them.
var (
	platformExchanges = []string{".mail.protection.outlook.com", ".mx.microsoft"}
	platformSigners   = []string{".onmicrosoft.com", ".dkim.mail.microsoft"}
)

func below(name string, spaces []string) bool {
	name = normalName(name)
	for _, space := range spaces {
		if strings.HasSuffix(name, space) {
			return true
		}
	}
	return false
}

// hostSuffix matches the suffix in the platform's host name of a domain with hyphens.
var hostSuffix = regexp.MustCompile(`^[0-9]{2}[a-z][0-9a-z]{0,3}$`)

// servesDomain reports whether a host is a current or earlier host of the platform for exactly this
// domain. The host's first label is the domain with hyphens in place of dots. The hyphens of the
// domain itself are dropped and a suffix is added, because the label without a suffix belongs to a
// different domain.
func servesDomain(host, domain string) bool {
	if !below(host, platformExchanges) {
		return false
	}
	label, _, _ := strings.Cut(normalName(host), ".")
	bare := strings.ReplaceAll(normalName(domain), "-", "")
	rest, found := strings.CutPrefix(label, strings.ReplaceAll(bare, ".", "-"))
	if bare == normalName(domain) {
		return found && rest == ""
	}
	return found && hostSuffix.MatchString(rest)
}

// signingTenant returns the tenant in a DKIM target of the platform, "" for any other name.
func signingTenant(target string) string {
	if !below(target, platformSigners) {
		return ""
	}
	_, rest, found := strings.Cut(normalName(target), "._domainkey.")
	if !found {
		return ""
	}
	tenant, _, _ := strings.Cut(rest, ".")
	return tenant
}
