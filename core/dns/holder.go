// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// Provider is a DNS provider that has a plugin.
type Provider struct {
	ID    string // id of the provider in its plugin
	Title string // display name
	// NameServers are patterns of the provider's name servers, such as *.ns.example.com. A
	// provider without patterns can be found only through a connection that has access to the zone.
	// Patterns for which IsNameServerPattern is false match no name server.
	NameServers []string
	// Undescribed is true if the plugin does not run and has not described itself yet. Title and
	// NameServers are then not known.
	Undescribed bool
}

// Detection is the DNS provider that serves a zone, or the reason why the provider is not known.
type Detection struct {
	// Provider has an empty ID when Reason is set.
	Provider Provider
	// Title is the display name: the provider's title or id, or the domain of a name server if the
	// provider has no plugin. It is "" when Reason is DetectionUnknown, DetectionUndescribed or
	// DetectionMulti.
	Title  string
	Reason DetectionReason
}

// DetectionReason is the code for why Detection.Provider has no ID. It is "" if the provider has a
// plugin.
type DetectionReason string

// The reasons why Detection.Provider has no ID.
const (
	// DetectionUnknown means that the name servers are not known.
	DetectionUnknown DetectionReason = "unknown"
	// DetectionUndescribed means that no described provider has the zone's name servers, but an
	// undescribed provider may have them.
	DetectionUndescribed DetectionReason = "undescribed"
	// DetectionUnsupported means that there is no plugin for the provider.
	DetectionUnsupported DetectionReason = "unsupported"
	// DetectionMulti means that the servers belong to several providers, at least one of which has
	// a plugin. A write at one provider would leave the records of the others unchanged.
	DetectionMulti DetectionReason = "multi_provider"
)

// Detect returns the provider that serves the zone of a read. It compares the name servers of the
// delegation with the patterns of the providers. It cannot detect a provider whose name servers can
// have any names. FindHolder finds such a provider through a connection that has access to the
// zone.
func Detect(read ZoneRead, providers []Provider) Detection {
	if len(read.Delegation) == 0 {
		return Detection{Reason: DetectionUnknown}
	}
	first, found := providerOf(read.Delegation[0], providers)
	for _, host := range read.Delegation[1:] {
		next, known := providerOf(host, providers)
		if known != found || next.ID != first.ID {
			return Detection{Reason: DetectionMulti}
		}
	}
	if found {
		return Detection{Provider: first, Title: first.titleOrID()}
	}
	if slices.ContainsFunc(providers, func(p Provider) bool { return p.Undescribed }) {
		return Detection{Reason: DetectionUndescribed}
	}
	return Detection{Title: registeredDomain(slices.Min(read.Delegation)), Reason: DetectionUnsupported}
}

// providerOf returns the provider with the longest pattern that matches the name server.
func providerOf(host string, providers []Provider) (match Provider, found bool) {
	longest := 0
	for _, p := range providers {
		for _, pattern := range p.NameServers {
			if matchesPattern(host, pattern) && len(pattern) > longest {
				match, found, longest = p, true, len(pattern)
			}
		}
	}
	return match, found
}

var nameServerPattern = regexp.MustCompile(`^(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)+$`)

// IsNameServerPattern reports whether a pattern is a host name, or "*." and a domain. Both need at
// least two labels. The domain must not be a public suffix of a registry, such as co.uk, because
// the pattern would then match the name servers of many providers.
func IsNameServerPattern(pattern string) bool {
	pattern = normalName(pattern)
	if domain, wild := strings.CutPrefix(pattern, "*."); wild {
		if suffix, icann := publicsuffix.PublicSuffix(domain); icann && suffix == domain {
			return false
		}
	}
	return nameServerPattern.MatchString(pattern)
}

func matchesPattern(host, pattern string) bool {
	if !IsNameServerPattern(pattern) {
		return false
	}
	host, pattern = normalName(host), normalName(pattern)
	if suffix, wild := strings.CutPrefix(pattern, "*"); wild {
		return strings.HasSuffix(host, suffix)
	}
	return host == pattern
}

// registeredDomain returns the registered domain of a name server. It returns the host name if
// there is no registered domain.
func registeredDomain(host string) string {
	host = normalName(host)
	if domain, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return domain
	}
	return host
}

// Access describes whether an account's connection to a DNS provider can write to a zone.
type Access struct {
	Provider string // Provider.ID
	Title    string // display name of the provider, set by FindHolder
	Standing Standing
	Zone     Zone   // set when the credential has access to the zone
	Detail   string // why the settings are rejected; safe to show
}

// Standing is the code for what a connection can do with a zone.
type Standing string

// The standings. Only ZoneAccessible allows a write. FindHolder changes ZoneAccessible to
// ZoneDelegatedElsewhere or ZoneIdle if the records of the zone at the provider are not published.
const (
	// ZoneAccessible means that the credential has access to the zone.
	ZoneAccessible Standing = "zone_accessible"
	// ZoneDelegatedElsewhere means that the zone is delegated to name servers other than
	// Zone.NameServers.
	ZoneDelegatedElsewhere Standing = "zone_delegated_elsewhere"
	// ZoneIdle means that the provider does not publish the zone. Zone.Idle says why.
	ZoneIdle Standing = "zone_idle"
	// ZoneInaccessible means that the credential has no access to the zone.
	ZoneInaccessible Standing = "zone_inaccessible"
	// ProviderRefuses means that the provider rejects the credential.
	ProviderRefuses Standing = "provider_refuses"
	// SettingsRefused means that the provider or its plugin rejects the connection's settings.
	SettingsRefused Standing = "settings_refused"
	// AnswerTooLarge means that the provider's answer exceeds the size that tenantry reads.
	AnswerTooLarge Standing = "answer_too_large"
	// ProviderSilent means that the provider gave no usable answer, so the access to the zone is
	// unknown.
	ProviderSilent Standing = "provider_silent"
	// NoConnection means that the account has no connection to the provider.
	NoConnection Standing = "no_connection"
)

// RecordsUnknown reports whether the access was checked without a usable answer.
func (s Standing) RecordsUnknown() bool { return s == ProviderSilent || s == AnswerTooLarge }

// standingPriority orders the standings of connections that cannot write. FindHolder reports the
// first of these standings that a relevant connection has.
var standingPriority = []Standing{ProviderSilent, AnswerTooLarge, ProviderRefuses, SettingsRefused, ZoneIdle, ZoneDelegatedElsewhere, ZoneInaccessible}

// Holder is the DNS provider that serves a zone, and the account's access to the zone there.
type Holder struct {
	Detection
	Access Access
}

// FindHolder returns the provider that serves the zone of a read. If a connection has access to the
// zone, and its provider publishes the zone, this provider is the holder. The patterns of the
// providers do not matter in this case. Otherwise Detect determines the provider, and Access is the
// first relevant access in the order of standingPriority. If no access is relevant, Access has the
// standing NoConnection.
func FindHolder(read ZoneRead, providers []Provider, accesses []Access) Holder {
	h := Holder{Detection: Detect(read, providers), Access: Access{Standing: NoConnection}}
	checked := make([]Access, 0, len(accesses))
	for _, a := range accesses {
		a = a.checkDelegation(read.Delegation)
		a.Title = detectionOf(a.Provider, providers).Title
		if a.Standing == ZoneAccessible {
			h.Detection, h.Access = detectionOf(a.Provider, providers), a
			return h
		}
		checked = append(checked, a)
	}
	for _, standing := range standingPriority {
		for _, a := range checked {
			if a.Standing == standing && h.isRelevant(a, providers) {
				h.Access = a
				return h
			}
		}
	}
	return h
}

// isRelevant reports whether a connection that cannot write matters for the zone. If a provider
// with a plugin is detected, only connections to this provider matter. Otherwise two kinds of
// connections matter:
//
//   - a connection that has access to the zone, although its provider does not publish the zone
//   - a connection to a provider without name server patterns, because this provider may serve the
//     zone. The connection's standing must not be ZoneInaccessible.
func (h Holder) isRelevant(a Access, providers []Provider) bool {
	if h.Provider.ID != "" {
		return a.Provider == h.Provider.ID
	}
	mayHoldZone := a.Standing != ZoneInaccessible && len(detectionOf(a.Provider, providers).Provider.NameServers) == 0
	return mayHoldZone || a.Standing == ZoneIdle || a.Standing == ZoneDelegatedElsewhere
}

// checkDelegation returns the access with a corrected standing: ZoneAccessible is replaced if the
// zone is idle, or if its delegation does not list exactly Zone.NameServers.
func (a Access) checkDelegation(delegation []string) Access {
	switch {
	case a.Standing != ZoneAccessible:
	case a.Zone.Idle != "":
		a.Standing = ZoneIdle
	case !a.Zone.ServesDelegation(delegation):
		a.Standing = ZoneDelegatedElsewhere
	}
	return a
}

func detectionOf(id string, providers []Provider) Detection {
	for _, p := range providers {
		if p.ID == id {
			return Detection{Provider: p, Title: p.titleOrID()}
		}
	}
	return Detection{Provider: Provider{ID: id}, Title: id}
}

func (p Provider) titleOrID() string { return cmp.Or(p.Title, p.ID) }
