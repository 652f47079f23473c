// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"regexp"
	"slices"
)

// The limits of an organization's rules.
const (
	maxRules    = 300
	maxRuleSize = 8 << 10
	maxRuleName = 64
	maxRuleText = 1024
)

// ruleParameters are what New- and Set-TransportRule both take.
func ruleParameters(more map[string]kind) map[string]kind {
	takes := map[string]kind{
		"Name": text, "From": list, "SenderDomainIs": list, "ExceptIfFrom": list, "Comments": text, "Priority": count,
		"SentToScope": enum("InOrganization", "NotInOrganization"), "DeleteMessage": boolean,
		"RejectMessageReasonText": text, "RejectMessageEnhancedStatusCode": text,
		"SenderAddressLocation": enum("Header", "Envelope", "HeaderOrEnvelope"),
		"Mode":                  enum("Audit", "AuditAndNotify", "Enforce"), "RuleErrorAction": enum("Ignore", "Defer"),
		"StopRuleProcessing": boolean, "Confirm": flag,
	}
	for name, k := range more {
		takes[name] = k
	}
	return takes
}

// getRules knows one trap: a name that no rule has brings all of them.
func getRules(in *invocation, t *tenant, _ map[string]bool) outcome {
	if r := t.rule(in.params.text("Identity")); r != nil {
		return outcome{rows: []object{r.row()}}
	}
	rows := []object{}
	for _, r := range t.Exchange.Rules {
		rows = append(rows, r.row())
	}
	return limited(rows, in.params)
}

func newRule(in *invocation, t *tenant, _ map[string]bool) outcome {
	switch {
	case t.Exchange.dehydrated(in.now):
		return outcome{failed: errDehydrated.of("")}
	case t.rule(in.params.text("Name")) != nil:
		return outcome{failed: errRuleExists.of(in.params.text("Name"))}
	case len(t.Exchange.Rules) >= maxRules:
		return outcome{failed: errRuleCount.of("")}
	}
	r := transportRule{
		GUID: guid("rule", t.ID, in.params.text("Name"), in.now.String()), Enabled: true, Mode: "Enforce", Location: "Header", OnError: "Ignore", Priority: len(t.Exchange.Rules),
	}
	if in.params.has("Enabled") {
		r.Enabled = in.params.yes("Enabled")
	}
	if failed := in.fill(t, &r); failed != nil {
		return outcome{failed: failed}
	}
	t.Exchange.Rules = append(t.Exchange.Rules, r)
	t.changed(r, false, in.now)
	return outcome{rows: []object{r.row()}}
}

func setRule(in *invocation, t *tenant, _ map[string]bool) outcome {
	held := t.rule(in.params.text("Identity"))
	if held == nil {
		return outcome{failed: errNoObject.of(in.params.text("Identity"))}
	}
	r := *held
	if in.params.has("Name") {
		if other := t.rule(in.params.text("Name")); other != nil && other.GUID != r.GUID {
			return outcome{failed: errRuleExists.of(in.params.text("Name"))}
		}
	}
	if failed := in.fill(t, &r); failed != nil {
		return outcome{failed: failed}
	}
	*held = r
	t.changed(r, false, in.now)
	return outcome{}
}

// switchRule makes Enable- and Disable-TransportRule.
func switchRule(on bool) func(*invocation, *tenant, map[string]bool) outcome {
	return func(in *invocation, t *tenant, _ map[string]bool) outcome {
		r := t.rule(in.params.text("Identity"))
		if r == nil {
			return outcome{failed: errNoObject.of(in.params.text("Identity"))}
		}
		r.Enabled, r.Changed = on, in.now
		t.changed(*r, false, in.now)
		return outcome{}
	}
}

func removeRule(in *invocation, t *tenant, _ map[string]bool) outcome {
	r := t.rule(in.params.text("Identity"))
	if r == nil {
		return outcome{failed: errNoObject.of(in.params.text("Identity"))}
	}
	gone := *r
	t.changed(gone, true, in.now)
	t.Exchange.Rules = slices.DeleteFunc(t.Exchange.Rules, func(o transportRule) bool { return o.GUID == gone.GUID })
	return outcome{}
}

// statusCodes are those that a rejection may have.
var statusCodes = regexp.MustCompile(`^5\.7\.(1|9[0-9][0-9])$`)

// fill puts the parameters into a rule. A list is replaced as a whole; an empty
// one, or null, takes the condition away.
func (in *invocation) fill(t *tenant, r *transportRule) *exception {
	in.fillConditions(r)
	in.fillTexts(r)
	r.Changed = in.now
	for _, sender := range slices.Concat(in.params.texts("From"), in.params.texts("ExceptIfFrom")) {
		if t.mailbox(sender) == nil {
			return errNoObject.of(sender)
		}
	}
	switch {
	case r.Name == "" || len(r.Name) > maxRuleName:
		return errInvalid.of("Property Name: it has 1 to 64 characters.")
	case r.Reason == "" && r.Code == "" && !r.Delete:
		return errMissing.of("an action")
	case r.Code != "" && !statusCodes.MatchString(r.Code):
		return errInvalid.of("RejectMessageEnhancedStatusCode is 5.7.1 or from 5.7.900 to 5.7.999.")
	case len(r.Reason) > maxRuleText || len(r.Comments) > maxRuleText:
		return errInvalid.of("A text has at most 1024 characters.")
	case r.size() > maxRuleSize:
		return errRuleSize.of("")
	}
	return nil
}

func (in *invocation) fillConditions(r *transportRule) {
	for name, of := range map[string]*[]string{"From": &r.From, "SenderDomainIs": &r.SenderDomains, "ExceptIfFrom": &r.ExceptFrom} {
		if in.params.has(name) {
			*of = in.params.texts(name)
		}
	}
	if in.params.has("SentToScope") {
		r.SentTo = in.params.text("SentToScope")
	}
}

func (in *invocation) fillTexts(r *transportRule) {
	for name, of := range map[string]*string{
		"Name": &r.Name, "Comments": &r.Comments, "RejectMessageReasonText": &r.Reason, "Mode": &r.Mode,
		"RejectMessageEnhancedStatusCode": &r.Code, "SenderAddressLocation": &r.Location, "RuleErrorAction": &r.OnError,
	} {
		if in.params.has(name) {
			*of = in.params.text(name)
		}
	}
	if in.params.has("DeleteMessage") {
		r.Delete = in.params.yes("DeleteMessage")
	}
	if in.params.has("StopRuleProcessing") {
		r.Stop = in.params.yes("StopRuleProcessing")
	}
	if n, ok := in.params["priority"].(float64); ok {
		r.Priority = int(n)
	}
}
