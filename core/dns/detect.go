// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"cmp"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// Detection is whose name servers serve a zone.
type Detection struct {
	// Provider is the one with a plugin; its ID is empty without.
	Provider Provider
	// Title is how people call it: the provider's, or for one without a
	// plugin the domain of its name servers. "" when none is known.
	Title  string
	Reason DetectionReason
}

// DetectionReason says, as a stable word, why no provider is detected.
type DetectionReason string

// The reasons why no provider is detected. One that is has none.
const (
	// DetectionUnknown: the name servers are not known.
	DetectionUnknown DetectionReason = "unknown"
	// DetectionUnsupported: there is no plugin for whose they are.
	DetectionUnsupported DetectionReason = "unsupported"
	// DetectionMulti: they are of more than one provider. A write to one
	// would leave the other as it is.
	DetectionMulti DetectionReason = "multi_provider"
)

// Detect finds the provider that serves a sight's zone by the names of the
// servers to which it is delegated. A provider whose servers are called like
// their owner, as PowerDNS, is found only by a connection that reaches the zone.
func Detect(s Sight, providers []Provider) Detection {
	if len(s.Delegation) == 0 {
		return Detection{Reason: DetectionUnknown}
	}
	first, found := recognise(s.Delegation[0], providers)
	for _, host := range s.Delegation[1:] {
		next, known := recognise(host, providers)
		if known != found || next.ID != first.ID {
			return Detection{Reason: DetectionMulti}
		}
	}
	if found {
		return Detection{Provider: first, Title: cmp.Or(first.Title, first.ID)}
	}
	return Detection{Title: owner(slices.Min(s.Delegation)), Reason: DetectionUnsupported}
}

// recognise finds whose a name server is: of the patterns that match, the
// longest decides.
func recognise(host string, providers []Provider) (of Provider, found bool) {
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

// matches holds a name server against a host name, or against *. and the end of
// its name.
func matches(host, pattern string) bool {
	host, pattern = referred(host), referred(pattern)
	if end, wild := strings.CutPrefix(pattern, "*"); wild {
		return strings.HasPrefix(end, ".") && strings.HasSuffix(host, end) && len(host) > len(end)
	}
	return host == pattern
}

// owner is the domain that somebody registered for a name server, or the name
// itself.
func owner(host string) string {
	host = referred(host)
	if domain, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return domain
	}
	return host
}
