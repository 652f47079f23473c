// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// transportRule is a mail-flow rule of the organization.
type transportRule struct {
	GUID      string    `json:"guid"`
	Name      string    `json:"name"`
	Enabled   bool      `json:"enabled"`
	Mode      string    `json:"mode"`
	Priority  int       `json:"priority"`
	ChangedAt time.Time `json:"changed"`

	// These fields are the conditions and the exceptions. An empty field has no effect. A rule
	// without conditions applies to all mail that is not excepted.
	From          []string `json:"from"`
	SenderDomains []string `json:"sender_domains"`
	SentTo        string   `json:"sent_to"`
	ExceptFrom    []string `json:"except_from"`

	Reason   string `json:"reason"`
	Code     string `json:"code"`
	Delete   bool   `json:"delete"`
	Prepend  string `json:"prepend"` // PrependSubject, an action that does not block
	Location string `json:"location"`
	Stop     bool   `json:"stop"`
	OnError  string `json:"on_error"`
	Comments string `json:"comments"`
}

// ruleVersion is the state of a rule after one change, or its removal.
type ruleVersion struct {
	transportRule
	Removed   bool `json:"gone"`
	EffectLag lag  `json:"acts"` // until the version applies to mail
}

// maxRuleVersions is how many versions of one rule are kept. An older version applies until the
// delay of the next one has passed, and to messages that a test sends with a time in the past.
const maxRuleVersions = 10

// recordRuleChange adds a version of a rule to the log. The version applies to mail after RuleMS.
func (t *tenant) recordRuleChange(r transportRule, removed bool, now time.Time) {
	log := append(t.Exchange.RuleLog, ruleVersion{r, removed, startLag(now, t.Behaviour.RuleMS)})
	versionCount := 0
	for i := len(log) - 1; i >= 0; i-- {
		if log[i].GUID != r.GUID {
			continue
		}
		if versionCount++; versionCount > maxRuleVersions {
			log = slices.Delete(log, i, i+1)
		}
	}
	t.Exchange.RuleLog = log
}

// rule returns the rule with this name or GUID, or nil.
func (t *tenant) rule(identity string) *transportRule {
	for i := range t.Exchange.Rules {
		if r := &t.Exchange.Rules[i]; strings.EqualFold(r.Name, identity) || strings.EqualFold(r.GUID, identity) {
			return r
		}
	}
	return nil
}

// placeRule inserts a rule at the index that its priority names, and removes the earlier rule with
// the same GUID. The priority of each rule is its index. Every other rule whose index changes also
// gets a new version.
func (t *tenant) placeRule(r transportRule, now time.Time) {
	others := slices.DeleteFunc(slices.Clone(t.Exchange.Rules), func(o transportRule) bool { return o.GUID == r.GUID })
	t.Exchange.Rules = slices.Insert(others, min(r.Priority, len(others)), r)
	t.numberRules(now)
	t.recordRuleChange(*t.rule(r.GUID), false, now)
}

// numberRules sets the priority of each rule to its index.
func (t *tenant) numberRules(now time.Time) {
	for i := range t.Exchange.Rules {
		if r := &t.Exchange.Rules[i]; r.Priority != i {
			r.Priority = i
			t.recordRuleChange(*r, false, now)
		}
	}
}

// isBlockedByRule reports whether a rule blocks a message that sender sends at the time at. The
// rules apply in the order of their priorities. A rule with StopRuleProcessing that applies to the
// message ends the processing, even if it does not block the message.
func (t *tenant) isBlockedByRule(sender string, at, now time.Time) bool {
	latest := map[string]ruleVersion{}
	for _, v := range t.Exchange.RuleLog {
		if v.isInEffectAt(at, now) {
			latest[v.GUID] = v
		}
	}
	inOrder := slices.SortedFunc(maps.Values(latest), func(a, b ruleVersion) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.GUID, b.GUID))
	})
	for _, v := range inOrder {
		if v.Removed || !v.appliesTo(sender) {
			continue
		}
		if v.hasBlockAction() || v.Stop {
			return v.hasBlockAction()
		}
	}
	return false
}

// isInEffectAt reports whether the version applies to a message that is sent at the time at. If at
// is more than clockTolerance in the past, it compares only the end of the lag: hasPassed would
// return true for a lag that starts after at.
func (v ruleVersion) isInEffectAt(at, now time.Time) bool {
	if at.Before(now.Add(-clockTolerance)) {
		return !at.Before(v.EffectLag.Until)
	}
	return v.EffectLag.hasPassed(at)
}

// blocks reports whether the rule, on its own, blocks mail from sender to a recipient outside the
// tenant.
func (r transportRule) blocks(sender string) bool { return r.hasBlockAction() && r.appliesTo(sender) }

// hasBlockAction reports whether an action of the rule prevents the delivery of a message.
func (r transportRule) hasBlockAction() bool { return r.Reason != "" || r.Code != "" || r.Delete }

// appliesTo reports whether the rule acts on mail from sender to a recipient outside the tenant.
// All its conditions must be true, and sender must not be an exception.
func (r transportRule) appliesTo(sender string) bool {
	isSenderIn := func(list []string) bool {
		return slices.ContainsFunc(list, func(a string) bool { return strings.EqualFold(a, sender) })
	}
	_, domain, _ := strings.Cut(sender, "@")
	isSenderBelow := func(d string) bool {
		return strings.EqualFold(domain, d) || strings.HasSuffix(strings.ToLower(domain), "."+strings.ToLower(d))
	}
	return r.Enabled && r.Mode == "Enforce" &&
		(len(r.From) == 0 || isSenderIn(r.From)) &&
		(len(r.SenderDomains) == 0 || slices.ContainsFunc(r.SenderDomains, isSenderBelow)) &&
		r.SentTo != "InOrganization" && !isSenderIn(r.ExceptFrom)
}

// size returns how many bytes of the limit of 8 KB the rule uses.
func (r transportRule) size() int {
	size := len(r.Name) + len(r.Reason) + len(r.Code) + len(r.Comments)
	for _, list := range [][]string{r.From, r.SenderDomains, r.ExceptFrom} {
		for _, text := range list {
			size += len(text) + 1
		}
	}
	return size
}

// ruleTaskTypes is the .NET namespace of the conditions, actions and errors of rules.
const ruleTaskTypes = "Microsoft.Exchange.MessagingPolicies.Rules.Tasks."

// row returns the rule as Get-TransportRule shows it.
func (r transportRule) row() object {
	conditions := classNames("FromPredicate", len(r.From) > 0, "SenderDomainIsPredicate", len(r.SenderDomains) > 0,
		"SentToScopePredicate", r.SentTo != "")
	actions := classNames("RejectMessageAction", r.Reason != "" || r.Code != "", "DeleteMessageAction", r.Delete,
		"PrependSubjectAction", r.Prepend != "")
	exceptions := classNames("FromPredicate", len(r.ExceptFrom) > 0)
	state := "Disabled"
	if r.Enabled {
		state = "Enabled"
	}
	return object{
		"Name": r.Name, "Identity": r.Name, "Guid": r.GUID, "State": state, "Mode": r.Mode, "Priority": r.Priority,
		"From": listOrNull(r.From), "SenderDomainIs": listOrNull(r.SenderDomains), "SentToScope": listOrNull([]string{r.SentTo}),
		"ExceptIfFrom": listOrNull(r.ExceptFrom), "RejectMessageReasonText": r.Reason, "RejectMessageEnhancedStatusCode": r.Code,
		"DeleteMessage": r.Delete, "PrependSubject": r.Prepend, "SenderAddressLocation": r.Location, "StopRuleProcessing": r.Stop,
		"RuleErrorAction": r.OnError, "Comments": r.Comments, "Conditions": conditions, "Actions": actions,
		"Exceptions": exceptions, "ActivationDate": nil, "ExpiryDate": nil, "WhenChanged": r.ChangedAt,
		"Description": "If the message: is received from one of the senders, take the following actions: reject it",
	}
}

// classNames returns the full class names whose flag is true, or nil. namesAndFlags contains a
// name, its flag, the next name, and so on.
func classNames(namesAndFlags ...any) any {
	var values []string
	for i := 0; i < len(namesAndFlags); i += 2 {
		if isSet, _ := namesAndFlags[i+1].(bool); isSet {
			name, _ := namesAndFlags[i].(string)
			values = append(values, ruleTaskTypes+name)
		}
	}
	return listOrNull(values)
}

// listOrNull returns the list, or nil if the list is empty or begins with "" (a text that is not
// set).
func listOrNull(list []string) any {
	if len(list) == 0 || list[0] == "" {
		return nil
	}
	return list
}

// The limits of transport rules.
const (
	maxRules    = 300
	maxRuleSize = 8 << 10 // bytes
	maxRuleName = 64      // bytes
	maxRuleText = 1024    // bytes
)

// ruleParameters returns the parameters that New-TransportRule and Set-TransportRule have in
// common, and the parameters in extra.
func ruleParameters(extra map[string]paramType) map[string]paramType {
	parameters := map[string]paramType{
		"Name": stringParam, "From": stringListParam, "SenderDomainIs": stringListParam, "ExceptIfFrom": stringListParam, "Comments": stringParam, "Priority": int32Param,
		"SentToScope": enumParam("InOrganization", "NotInOrganization"), "DeleteMessage": boolParam, "PrependSubject": stringParam,
		"RejectMessageReasonText": stringParam, "RejectMessageEnhancedStatusCode": stringParam,
		"SenderAddressLocation": enumParam("Header", "Envelope", "HeaderOrEnvelope"),
		"Mode":                  enumParam("Audit", "AuditAndNotify", "Enforce"), "RuleErrorAction": enumParam("Ignore", "Defer"),
		"StopRuleProcessing": boolParam, "Confirm": switchParam,
	}
	maps.Copy(parameters, extra)
	return parameters
}

// getRules runs Get-TransportRule. As in Exchange, an unknown identity selects all rules.
func getRules(call *invocation, t *tenant, _ map[string]bool) outcome {
	if r := t.rule(call.params.text("Identity")); r != nil {
		return outcome{rows: []object{r.row()}}
	}
	rows := []object{}
	for _, r := range t.Exchange.Rules {
		rows = append(rows, r.row())
	}
	return limitRows(rows, call.params)
}

func newRule(call *invocation, t *tenant, _ map[string]bool) outcome {
	switch {
	case t.Exchange.isDehydrated(call.now):
		return outcome{failure: errDehydrated.with("")}
	case t.rule(call.params.text("Name")) != nil:
		return outcome{failure: errRuleExists.with(call.params.text("Name"))}
	case len(t.Exchange.Rules) >= maxRules:
		return outcome{failure: errRuleCount.with("")}
	}
	r := transportRule{
		GUID: guid("rule", t.ID, call.params.text("Name"), call.now.String()), Enabled: true, Mode: "Enforce", Location: "Header", OnError: "Ignore", Priority: len(t.Exchange.Rules),
	}
	if call.params.has("Enabled") {
		r.Enabled = call.params.isTrue("Enabled")
	}
	if failure := call.applyParams(t, &r); failure != nil {
		return outcome{failure: failure}
	}
	t.placeRule(r, call.now)
	return outcome{rows: []object{r.row()}}
}

func setRule(call *invocation, t *tenant, _ map[string]bool) outcome {
	existing := t.rule(call.params.text("Identity"))
	if existing == nil {
		return outcome{failure: errNoObject.with(call.params.text("Identity"))}
	}
	r := *existing
	if call.params.has("Name") {
		if other := t.rule(call.params.text("Name")); other != nil && other.GUID != r.GUID {
			return outcome{failure: errRuleExists.with(call.params.text("Name"))}
		}
	}
	if failure := call.applyParams(t, &r); failure != nil {
		return outcome{failure: failure}
	}
	t.placeRule(r, call.now)
	return outcome{}
}

// setRuleEnabled returns the handler of Enable-TransportRule or Disable-TransportRule.
func setRuleEnabled(enabled bool) func(*invocation, *tenant, map[string]bool) outcome {
	return func(call *invocation, t *tenant, _ map[string]bool) outcome {
		r := t.rule(call.params.text("Identity"))
		if r == nil {
			return outcome{failure: errNoObject.with(call.params.text("Identity"))}
		}
		r.Enabled, r.ChangedAt = enabled, call.now
		t.recordRuleChange(*r, false, call.now)
		return outcome{}
	}
}

func removeRule(call *invocation, t *tenant, _ map[string]bool) outcome {
	r := t.rule(call.params.text("Identity"))
	if r == nil {
		return outcome{failure: errNoObject.with(call.params.text("Identity"))}
	}
	removed := *r
	t.recordRuleChange(removed, true, call.now)
	t.Exchange.Rules = slices.DeleteFunc(t.Exchange.Rules, func(o transportRule) bool { return o.GUID == removed.GUID })
	t.numberRules(call.now)
	return outcome{}
}

// statusCodePattern matches the status codes that a rejection can have.
var statusCodePattern = regexp.MustCompile(`^5\.7\.(1|9[0-9][0-9])$`)

// applyParams sets the properties of a rule from the parameters and checks the rule. A list in the
// parameters replaces the whole list of the rule. An empty list or null removes the condition or
// exception.
func (call *invocation) applyParams(t *tenant, r *transportRule) *exception {
	call.applyConditions(r)
	call.applyTexts(r)
	r.ChangedAt = call.now
	for _, sender := range slices.Concat(call.params.textList("From"), call.params.textList("ExceptIfFrom")) {
		if t.mailbox(sender) == nil {
			return errNoObject.with(sender)
		}
	}
	highest := len(t.Exchange.Rules) // the priority of a rule that comes last
	if t.rule(r.GUID) != nil {
		highest--
	}
	switch {
	case r.Priority > highest:
		return errInvalid.with("Property Priority: it is from 0 to the number of the other rules.")
	case r.Name == "" || len(r.Name) > maxRuleName:
		return errInvalid.with("Property Name: it has 1 to 64 characters.")
	case !r.hasBlockAction() && r.Prepend == "":
		return errMissing.with("an action")
	case r.Code != "" && !statusCodePattern.MatchString(r.Code):
		return errInvalid.with("RejectMessageEnhancedStatusCode is 5.7.1 or from 5.7.900 to 5.7.999.")
	case len(r.Reason) > maxRuleText || len(r.Comments) > maxRuleText:
		return errInvalid.with("A text has at most 1024 characters.")
	case r.size() > maxRuleSize:
		return errRuleSize.with("")
	}
	return nil
}

// applyConditions sets the conditions and the exceptions that the parameters name.
func (call *invocation) applyConditions(r *transportRule) {
	for name, target := range map[string]*[]string{"From": &r.From, "SenderDomainIs": &r.SenderDomains, "ExceptIfFrom": &r.ExceptFrom} {
		if call.params.has(name) {
			*target = call.params.textList(name)
		}
	}
	if call.params.has("SentToScope") {
		r.SentTo = call.params.text("SentToScope")
	}
}

// applyTexts sets the texts, the flags and the priority that the parameters name.
func (call *invocation) applyTexts(r *transportRule) {
	for name, target := range map[string]*string{
		"Name": &r.Name, "Comments": &r.Comments, "PrependSubject": &r.Prepend, "RejectMessageReasonText": &r.Reason, "Mode": &r.Mode,
		"RejectMessageEnhancedStatusCode": &r.Code, "SenderAddressLocation": &r.Location, "RuleErrorAction": &r.OnError,
	} {
		if call.params.has(name) {
			*target = call.params.text(name)
		}
	}
	if call.params.has("DeleteMessage") {
		r.Delete = call.params.isTrue("DeleteMessage")
	}
	if call.params.has("StopRuleProcessing") {
		r.Stop = call.params.isTrue("StopRuleProcessing")
	}
	if n, ok := call.params["priority"].(float64); ok {
		r.Priority = int(n)
	}
}
