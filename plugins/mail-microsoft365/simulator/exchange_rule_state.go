// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"
	"time"
)

// transportRule is a mail-flow rule of the organization.
type transportRule struct {
	GUID     string    `json:"guid"`
	Name     string    `json:"name"`
	Enabled  bool      `json:"enabled"`
	Mode     string    `json:"mode"`
	Priority int       `json:"priority"`
	Changed  time.Time `json:"changed"`

	// The conditions. One without a value is none, and a rule without
	// conditions is about all mail.
	From          []string `json:"from"`
	SenderDomains []string `json:"sender_domains"`
	SentTo        string   `json:"sent_to"`
	ExceptFrom    []string `json:"except_from"`

	Reason   string `json:"reason"`
	Code     string `json:"code"`
	Delete   bool   `json:"delete"`
	Location string `json:"location"`
	Stop     bool   `json:"stop"`
	OnError  string `json:"on_error"`
	Comments string `json:"comments"`
}

// version is a rule as it is from a change on, or its end.
type version struct {
	transportRule
	Gone bool `json:"gone"`
	Acts lag  `json:"acts"`
}

// versions is how many of one rule are kept, for mail of a while ago.
const versions = 10

// changed remembers what a change of a rule does to mail, from rule_ms on.
func (t *tenant) changed(r transportRule, gone bool, now time.Time) {
	log := append(t.Exchange.RuleLog, version{r, gone, after(now, t.Behaviour.RuleMS)})
	held := 0
	for i := len(log) - 1; i >= 0; i-- {
		if log[i].GUID != r.GUID {
			continue
		}
		if held++; held > versions {
			log = slices.Delete(log, i, i+1)
		}
	}
	t.Exchange.RuleLog = log
}

// rule finds a rule by name or GUID.
func (t *tenant) rule(identity string) *transportRule {
	for i := range t.Exchange.Rules {
		if r := &t.Exchange.Rules[i]; strings.EqualFold(r.Name, identity) || strings.EqualFold(r.GUID, identity) {
			return r
		}
	}
	return nil
}

// stopped reports whether a rule stops a message that an address of the tenant
// sends at a moment.
func (t *tenant) stopped(sender string, at, now time.Time) bool {
	latest := map[string]version{}
	for _, v := range t.Exchange.RuleLog {
		if v.actsAt(at, now) {
			latest[v.GUID] = v
		}
	}
	for _, v := range latest {
		if !v.Gone && v.stops(sender) {
			return true
		}
	}
	return false
}

// actsAt reports whether mail of a moment meets the rule as it is here.
func (v version) actsAt(at, now time.Time) bool {
	if at.Before(now.Add(-slack)) {
		return !at.Before(v.Acts.Until)
	}
	return v.Acts.over(at)
}

// stops reports whether the rule, where it acts, stops mail of a sender to
// somebody outside. Every condition that it has must hold.
func (r transportRule) stops(sender string) bool {
	among := func(list []string) bool {
		return slices.ContainsFunc(list, func(a string) bool { return strings.EqualFold(a, sender) })
	}
	_, domain, _ := strings.Cut(sender, "@")
	within := func(d string) bool {
		return strings.EqualFold(domain, d) || strings.HasSuffix(strings.ToLower(domain), "."+strings.ToLower(d))
	}
	return r.Enabled && r.Mode == "Enforce" && (r.Reason != "" || r.Code != "" || r.Delete) &&
		(len(r.From) == 0 || among(r.From)) &&
		(len(r.SenderDomains) == 0 || slices.ContainsFunc(r.SenderDomains, within)) &&
		r.SentTo != "InOrganization" && !among(r.ExceptFrom)
}

// size is what the rule takes of its 8 KB.
func (r transportRule) size() int {
	size := len(r.Name) + len(r.Reason) + len(r.Code) + len(r.Comments)
	for _, list := range [][]string{r.From, r.SenderDomains, r.ExceptFrom} {
		for _, text := range list {
			size += len(text) + 1
		}
	}
	return size
}

const predicates = "Microsoft.Exchange.MessagingPolicies.Rules.Tasks."

// row is the rule as Get-TransportRule shows it.
func (r transportRule) row() object {
	var conditions, actions, exceptions any // null without any
	conditions = classes("FromPredicate", len(r.From) > 0, "SenderDomainIsPredicate", len(r.SenderDomains) > 0,
		"SentToScopePredicate", r.SentTo != "")
	actions = classes("RejectMessageAction", r.Reason != "" || r.Code != "", "DeleteMessageAction", r.Delete)
	exceptions = classes("FromPredicate", len(r.ExceptFrom) > 0)
	state := "Disabled"
	if r.Enabled {
		state = "Enabled"
	}
	return object{
		"Name": r.Name, "Identity": r.Name, "Guid": r.GUID, "State": state, "Mode": r.Mode, "Priority": r.Priority,
		"From": listOrNull(r.From), "SenderDomainIs": listOrNull(r.SenderDomains), "SentToScope": listOrNull([]string{r.SentTo}),
		"ExceptIfFrom": listOrNull(r.ExceptFrom), "RejectMessageReasonText": r.Reason, "RejectMessageEnhancedStatusCode": r.Code,
		"DeleteMessage": r.Delete, "SenderAddressLocation": r.Location, "StopRuleProcessing": r.Stop,
		"RuleErrorAction": r.OnError, "Comments": r.Comments, "Conditions": conditions, "Actions": actions,
		"Exceptions": exceptions, "ActivationDate": nil, "ExpiryDate": nil, "WhenChanged": r.Changed,
		"Description": "If the message: is received from one of the senders, take the following actions: reject it",
	}
}

// classes names the classes that a rule has, or null.
func classes(named ...any) any {
	var out []string
	for i := 0; i < len(named); i += 2 {
		if has, _ := named[i+1].(bool); has {
			name, _ := named[i].(string)
			out = append(out, predicates+name)
		}
	}
	return listOrNull(out)
}

func listOrNull(list []string) any {
	if len(list) == 0 || list[0] == "" {
		return nil
	}
	return list
}
