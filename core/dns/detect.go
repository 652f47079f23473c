// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"cmp"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// Detection is the DNS provider that serves a zone, detected by its name servers.
type Detection struct {
	// Provider has an empty ID when there is no plugin for the provider.
	Provider Provider
	// Title is the display name. It is the provider's title, or the domain of the name servers if
	// there is no plugin. It is "" when unknown.
	Title  string
	Reason DetectionReason
}

// DetectionReason is a stable word for why no provider is detected, "" if one is.
type DetectionReason string

// The reasons why no provider is detected.
const (
	// DetectionUnknown means that the name servers are not known.
	DetectionUnknown DetectionReason = "unknown"
	// DetectionUnsupported means that there is no plugin for the provider.
	DetectionUnsupported DetectionReason = "unsupported"
	// DetectionMulti means that the servers belong to several providers. A write to one of them
	// would leave the others unchanged.
	DetectionMulti DetectionReason = "multi_provider"
)

// Detect returns the provider that serves the zone of a sight, by the names of the delegated name
// servers. Providers without fixed name server names, such as PowerDNS, cannot be detected this
// way. FindHolder finds them by a connection that reaches the zone.
func Detect(s Sight, providers []Provider) Detection {
	if len(s.Delegation) == 0 {
		return Detection{Reason: DetectionUnknown}
	}
	first, found := providerOf(s.Delegation[0], providers)
	for _, host := range s.Delegation[1:] {
		next, known := providerOf(host, providers)
		if known != found || next.ID != first.ID {
			return Detection{Reason: DetectionMulti}
		}
	}
	if found {
		return Detection{Provider: first, Title: cmp.Or(first.Title, first.ID)}
	}
	return Detection{Title: registeredDomain(slices.Min(s.Delegation)), Reason: DetectionUnsupported}
}

// providerOf returns the provider whose longest pattern matches the name server.
func providerOf(host string, providers []Provider) (of Provider, found bool) {
	longest := 0
	for _, p := range providers {
		for _, pattern := range p.NameServers {
			if matches(host, pattern) && len(pattern) > longest {
				of, found, longest = p, true, len(pattern)
			}
		}
	}
	return of, found
}

// matches reports whether a name server matches a pattern: a host name, or "*." and a suffix.
func matches(host, pattern string) bool {
	host, pattern = normalName(host), normalName(pattern)
	if end, wild := strings.CutPrefix(pattern, "*"); wild {
		return strings.HasPrefix(end, ".") && strings.HasSuffix(host, end) && len(host) > len(end)
	}
	return host == pattern
}

// registeredDomain returns the registered domain of a name server, or the host name if it has none.
func registeredDomain(host string) string {
	host = normalName(host)
	if domain, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return domain
	}
	return host
}
