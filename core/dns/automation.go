// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"fmt"
	"strings"
)

// ActionRequired is the code for what a person must do before a domain's records can be written. It
// is "" if nothing is required. The API shows the code.
type ActionRequired string

// The actions that a plan may require.
const (
	ConnectionRequired  ActionRequired = "dns_connection_required"
	ConflictToResolve   ActionRequired = "dns_conflict"
	ProviderUnsupported ActionRequired = "dns_provider_unsupported"
	CredentialRejected  ActionRequired = "dns_credential_rejected"
	ReadUnreliable      ActionRequired = "dns_read_unreliable"
)

// Automation says whether the service can write a domain's records.
type Automation struct {
	Provider  Provider // its ID is empty if no provider with a plugin was found
	Connected bool     // whether the account has a connection to Provider
	Safe      bool     // whether the plan may be written
	Required  ActionRequired
	Message   string // tells the domain's owner what to do, or that nothing is required
}

// Automate returns whether the plan can be written through the account's connection to the
// provider. If a person must act before the write, the result has one required action. Problems
// with the provider or the connection have priority, because they prevent every write. Conflicts
// have the lowest priority, because an unreliable read may report conflicts that do not exist.
func (h Holder) Automate(read ZoneRead, p Plan) Automation {
	a := Automation{
		Provider: h.Provider, Safe: p.SafeToApply(),
		Connected: h.Provider.ID != "" && h.Access.Standing != NoConnection,
	}
	a.Required, a.Message = h.requiredAction(read, p)
	return a
}

func (h Holder) requiredAction(read ZoneRead, p Plan) (ActionRequired, string) {
	switch {
	case h.Provider.ID == "":
		return h.actionWithoutPlugin(read, p)
	case h.Access.Standing == ProviderRefuses:
		return CredentialRejected, fmt.Sprintf("%s no longer accepts the credential of the account's connection. Replace the connection.", h.Title)
	case h.Access.Standing == SettingsRefused:
		return ConnectionRequired, h.unusableMessage() + ". Replace the connection."
	case h.Access.Standing != ZoneAccessible && !h.Access.Standing.RecordsUnknown():
		return ConnectionRequired, h.unconnectedMessage(read)
	case !p.Reliable:
		return ReadUnreliable, h.unreliableMessage(p.Reason)
	case len(p.Blocking()) > 0:
		return ConflictToResolve, conflictsMessage(p.Blocking())
	case len(p.Changes) == 0:
		return "", "No records need to be written." + incompleteMessage(p)
	default:
		return "", fmt.Sprintf("The changes of the plan can be written at %s.", h.Title) + incompleteMessage(p)
	}
}

const publishByHand = "Publish the records of the plan by hand."

// actionWithoutPlugin returns the required action if no provider with a plugin was found.
func (h Holder) actionWithoutPlugin(read ZoneRead, p Plan) (ActionRequired, string) {
	const holderUnknown = ", so it is not known whether it holds the zone. Replace or remove the connection."
	switch {
	case h.Reason == DetectionUnknown, h.Access.Standing.RecordsUnknown():
		return ReadUnreliable, h.unreliableMessage(p.Reason)
	case h.Access.Standing == ProviderRefuses:
		return CredentialRejected, fmt.Sprintf("%s no longer accepts the credential of the account's connection", h.Access.Title) + holderUnknown
	case h.Access.Standing == SettingsRefused:
		return ConnectionRequired, h.unusableMessage() + holderUnknown
	case h.Reason == DetectionUndescribed:
		return ReadUnreliable, "It is not known whether this service can write to the provider that serves the domain's DNS, because the plugin of a DNS provider does not run. Try again in a few minutes."
	case h.Access.Standing == ZoneIdle, h.Access.Standing == ZoneDelegatedElsewhere:
		return ProviderUnsupported, h.misplacedMessage(read) + " " + publishByHand
	case h.Reason == DetectionMulti:
		return ProviderUnsupported, "The name servers of the domain belong to several providers, and a write to one of them would not change the others. " + publishByHand
	default:
		return ProviderUnsupported, fmt.Sprintf("The DNS of the domain is served by %s, to which this service cannot write. ", h.Title) + publishByHand
	}
}

// unusableMessage returns the beginning of the message for a connection whose settings are
// rejected.
func (h Holder) unusableMessage() string {
	detail := ""
	if h.Access.Detail != "" {
		detail = " (" + h.Access.Detail + ")"
	}
	return fmt.Sprintf("The settings of the account's connection to %s are rejected%s", h.Access.Title, detail)
}

// unconnectedMessage returns the message for a zone to which no connection of the account can
// write.
func (h Holder) unconnectedMessage(read ZoneRead) string {
	switch h.Access.Standing {
	case ZoneInaccessible:
		return fmt.Sprintf("No connection of the account to %s has access to the zone %s. Give its credential access to the zone, or add another connection.", h.Title, read.Zone)
	case ZoneIdle, ZoneDelegatedElsewhere:
		return h.misplacedMessage(read)
	default:
		return fmt.Sprintf("The DNS of the domain is served by %s. Add a connection to this provider to the account, or publish the records of the plan by hand.", h.Title)
	}
}

// misplacedMessage returns the message for a zone that the account can access at a provider that
// does not publish it.
func (h Holder) misplacedMessage(read ZoneRead) string {
	if h.Access.Standing == ZoneIdle {
		return fmt.Sprintf("The account has access to the zone %s at %s, but records written there are not visible: the zone is %s there.", read.Zone, h.Access.Title, h.Access.Zone.Idle)
	}
	return fmt.Sprintf("The account has access to the zone %s at %s, but the domain is delegated to different name servers (%s) than those of that zone (%s). Add a connection to the provider that serves the zone, or change the delegation.",
		read.Zone, h.Access.Title, strings.Join(plainNames(read.Delegation), ", "), strings.Join(plainNames(h.Access.Zone.NameServers), ", "))
}

// unreliableMessage returns the message for records that could not be read reliably.
func (h Holder) unreliableMessage(reason string) string {
	switch {
	case reason == ReasonProviderUnavailable && h.Access.Standing == AnswerTooLarge:
		return fmt.Sprintf("The zone's data at %s is too large to be read, so nothing is written there. %s", h.Access.Title, publishByHand)
	case reason == ReasonRecursive:
		return "This service reads the DNS only through recursive resolvers, whose answers may be outdated, so it writes nothing. Publish the records of the plan by hand, or ask the operator to let the service query authoritative name servers."
	case reason == ReasonProviderUnavailable:
		return fmt.Sprintf("%s, to which the account has a connection, gave no usable answer, so its records are unknown. Try again in a few minutes.", h.Access.Title)
	case reason == ReasonProviderAhead:
		return "The DNS provider's records differ from those that its name servers return. Try again in a few minutes."
	}
	return fmt.Sprintf("The DNS of the domain could not be read reliably (%s). Try again in a few minutes. If the problem persists, check the domain's name servers.", reason)
}

// incompleteMessage returns the last sentences of the message if p.Incomplete returns true,
// otherwise "".
func incompleteMessage(p Plan) string {
	if !p.Incomplete() {
		return ""
	}
	return " The plan is not complete yet: the mail platform provides most records after it has verified the domain. Conflicts with those records can appear then."
}

func conflictsMessage(items []Item) string {
	var sentences []string
	for _, item := range items {
		sentences = append(sentences, fmt.Sprintf("%s at %s: %s", item.Type, item.Name, item.Reason.Explain()))
	}
	return "Resolve these conflicts first. " + strings.Join(sentences, " ")
}
