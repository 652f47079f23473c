// SPDX-License-Identifier: Apache-2.0

package dns

// Access is how a connection of an account to a DNS provider stands to a zone.
type Access struct {
	Provider string // as in Provider.ID
	Title    string // how people call it; FindHolder tells
	Standing Standing
	Zone     Zone   // when the credential reaches it
	Detail   string // why the settings are refused; safe to show
}

// Standing is how a connection stands to a zone, as a stable word.
type Standing string

// The standings. ReachesZone is the only one by which records of the world
// can be written; whether it is so follows from the delegation too.
const (
	// ReachesZone: the credential reaches the zone.
	ReachesZone Standing = "reaches_zone"
	// ReachesElsewhere: it does, but the world asks other name servers.
	ReachesElsewhere Standing = "reaches_elsewhere"
	// ReachesIdle: it does, but Zone.Idle says why nobody sees it.
	ReachesIdle Standing = "reaches_idle"
	// ZoneUnreached: the provider shows no such zone to the credential.
	ZoneUnreached Standing = "zone_unreached"
	// ProviderRefuses: the provider does not take the credential.
	ProviderRefuses Standing = "provider_refuses"
	// SettingsRefused: the connection is refused, and not for its credential.
	SettingsRefused Standing = "settings_refused"
	// AnswerTooLarge: the provider answers more than is read, and always will.
	AnswerTooLarge Standing = "answer_too_large"
	// ProviderSilent: the provider gave no answer, so nothing is known.
	ProviderSilent Standing = "provider_silent"
	// NoConnection: the account has none to the provider.
	NoConnection Standing = "no_connection"
)

// Unread reports whether it is not known what the provider holds.
func (s Standing) Unread() bool { return s == ProviderSilent || s == AnswerTooLarge }

// tellingFirst is the order in which connections that cannot write speak for an
// account: what may turn out to be the right one before what is not.
var tellingFirst = []Standing{ProviderSilent, AnswerTooLarge, ProviderRefuses, SettingsRefused, ReachesIdle, ReachesElsewhere, ZoneUnreached}

// Holder is who holds a zone, and how the account reaches it there.
type Holder struct {
	Detection
	Access Access
}

// FindHolder decides who holds a sight's zone. A connection that reaches the
// zone where the world asks for it wins over the names of the servers, behind
// which a provider may hide.
func FindHolder(s Sight, providers []Provider, all []Access) Holder {
	h := Holder{Detection: Detect(s, providers), Access: Access{Standing: NoConnection}}
	judged := make([]Access, 0, len(all))
	for _, a := range all {
		a = a.judged(s.Delegation)
		a.Title = detected(a.Provider, providers).Title
		if a.Standing == ReachesZone {
			h.Detection, h.Access = detected(a.Provider, providers), a
			return h
		}
		judged = append(judged, a)
	}
	for _, standing := range tellingFirst {
		for _, a := range judged {
			if a.Standing == standing && h.concerns(a, providers) {
				h.Access = a
				return h
			}
		}
	}
	return h
}

// concerns reports whether a connection that cannot write has to do with the
// zone. While nobody is detected it may be anyone's whose servers have no
// pattern; of the others only what reaches the zone has.
func (h Holder) concerns(a Access, providers []Provider) bool {
	if h.Provider.ID != "" {
		return a.Provider == h.Provider.ID
	}
	unknowable := a.Standing != ZoneUnreached && len(detected(a.Provider, providers).Provider.NameServers) == 0
	return unknowable || a.Standing == ReachesIdle || a.Standing == ReachesElsewhere
}

// judged tells a zone that the world sees from one that it does not.
func (a Access) judged(delegation []string) Access {
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
