// SPDX-License-Identifier: Apache-2.0

package dns

// Access describes what a connection of an account to a DNS provider can do in a zone.
type Access struct {
	Provider string // Provider.ID
	Title    string // display name of the provider, set by FindHolder
	Standing Standing
	Zone     Zone   // set when the credential reaches the zone
	Detail   string // why the provider rejects the settings; safe to show
}

// Standing is the result of looking up a zone through a connection, as a stable word.
type Standing string

// The standings. Published records can be written only with ReachesZone, which FindHolder checks
// against the zone's delegation.
const (
	// ReachesZone means that the credential reaches the zone.
	ReachesZone Standing = "reaches_zone"
	// ReachesElsewhere means that the zone is delegated to other name servers than the provider's.
	ReachesElsewhere Standing = "reaches_elsewhere"
	// ReachesIdle means that the provider does not publish the zone. Zone.Idle says why.
	ReachesIdle Standing = "reaches_idle"
	// ZoneUnreached means that the credential does not reach the zone.
	ZoneUnreached Standing = "zone_unreached"
	// ProviderRefuses means that the provider rejects the credential.
	ProviderRefuses Standing = "provider_refuses"
	// SettingsRefused means that the provider rejects the connection's settings.
	SettingsRefused Standing = "settings_refused"
	// AnswerTooLarge means that the provider's answer always exceeds the size that is read.
	AnswerTooLarge Standing = "answer_too_large"
	// ProviderSilent means that the provider did not answer, so nothing is known.
	ProviderSilent Standing = "provider_silent"
	// NoConnection means that the account has no connection to the provider.
	NoConnection Standing = "no_connection"
)

// Unread reports whether the provider's records are unknown.
func (s Standing) Unread() bool { return s == ProviderSilent || s == AnswerTooLarge }

// standingPriority lists the standings that do not allow a write, the most relevant first.
// Connections that may still turn out to hold the zone come before those that do not.
var standingPriority = []Standing{ProviderSilent, AnswerTooLarge, ProviderRefuses, SettingsRefused, ReachesIdle, ReachesElsewhere, ZoneUnreached}

// Holder is the DNS provider that holds a zone, and the account's access to the zone there.
type Holder struct {
	Detection
	Access Access
}

// FindHolder returns the provider that holds the zone of a sight. A connection that reaches the
// published zone takes precedence over the names of the name servers, because a provider may use
// servers with names of its own choice.
func FindHolder(s Sight, providers []Provider, all []Access) Holder {
	h := Holder{Detection: Detect(s, providers), Access: Access{Standing: NoConnection}}
	checked := make([]Access, 0, len(all))
	for _, a := range all {
		a = a.checkDelegation(s.Delegation)
		a.Title = detected(a.Provider, providers).Title
		if a.Standing == ReachesZone {
			h.Detection, h.Access = detected(a.Provider, providers), a
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

// isRelevant reports whether a connection that cannot write matters for the zone. If a provider is
// detected, only its connections matter. Otherwise the ones matter that reach the zone, and those
// of providers without name server patterns.
func (h Holder) isRelevant(a Access, providers []Provider) bool {
	if h.Provider.ID != "" {
		return a.Provider == h.Provider.ID
	}
	unknowable := a.Standing != ZoneUnreached && len(detected(a.Provider, providers).Provider.NameServers) == 0
	return unknowable || a.Standing == ReachesIdle || a.Standing == ReachesElsewhere
}

// checkDelegation returns the access with ReachesZone replaced where the zone is idle or not
// delegated to the provider.
func (a Access) checkDelegation(delegation []string) Access {
	switch {
	case a.Standing != ReachesZone:
	case a.Zone.Idle != "":
		a.Standing = ReachesIdle
	case !a.Zone.ServesWorld(delegation):
		a.Standing = ReachesElsewhere
	}
	return a
}

func detected(id string, providers []Provider) Detection {
	for _, p := range providers {
		if p.ID == id {
			return Detection{Provider: p, Title: p.name()}
		}
	}
	return Detection{Provider: Provider{ID: id}, Title: id}
}

func (p Provider) name() string {
	if p.Title != "" {
		return p.Title
	}
	return p.ID
}
