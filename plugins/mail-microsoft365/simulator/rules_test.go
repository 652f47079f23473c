// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const ruleName = "tenantry-block-tenantwide"

// rule is a rule as our product makes it.
func rule(name string, from ...string) m {
	return m{"Name": name, "From": from, "SenderAddressLocation": "HeaderOrEnvelope", "RejectMessageReasonText": "Limit reached.",
		"RejectMessageEnhancedStatusCode": "5.7.910", "Mode": "Enforce", "Enabled": true, "Priority": 0, "StopRuleProcessing": true,
		"Comments": "managed"}
}

// withRule is a ready tenant with a second mailbox and a rule about the first.
func withRule(t *testing.T) *tenant {
	t.Helper()
	tn := ready(t)
	tn.newMailbox("ben@"+domain, "ben.d")
	tn.runs("New-TransportRule", rule(ruleName, "anna@"+domain))
	return tn
}

// runs runs a cmdlet that must succeed.
func (t *tenant) runs(cmdlet string, params any) answer {
	t.t.Helper()
	a := t.exchange(cmdlet, params)
	if a.status != http.StatusOK {
		t.t.Fatalf("%s: %d %s", cmdlet, a.status, a.raw)
	}
	return a
}

func (t *tenant) sends(box string, count int, more ...m) {
	t.t.Helper()
	body := m{"mailbox": box, "count": count}
	for _, one := range more {
		for name, value := range one {
			body[name] = value
		}
	}
	t.control("POST", "/messages", body)
}

// stopped sends one message from each mailbox and lists whose came back.
func (t *tenant) stopped() []string {
	t.t.Helper()
	before := ids(t.trace(m{}))
	for _, box := range []string{"anna@" + domain, "ben@" + domain, t.admin} {
		t.sends(box, 1, m{"recipients": 1})
	}
	stopped := []string{}
	for _, row := range t.trace(m{}) {
		if r := row.(m); r["Status"] == "Failed" && !before[r["MessageTraceId"].(string)] {
			box, _, _ := strings.Cut(r["SenderAddress"].(string), "@")
			stopped = append(stopped, box)
		}
	}
	slices.Sort(stopped)
	return slices.Compact(stopped)
}

func (t *tenant) trace(params m) []any {
	t.t.Helper()
	return t.runs("Get-MessageTraceV2", params).rows()
}

func TestRuleObject(t *testing.T) {
	tn := ready(t)
	row := tn.runs("New-TransportRule", rule(ruleName, "anna@"+domain)).at("value", 0).(m)
	for name, want := range (m{"Name": ruleName, "Identity": ruleName, "State": "Enabled", "Mode": "Enforce", "SentToScope": nil,
		"RejectMessageReasonText": "Limit reached.", "RejectMessageEnhancedStatusCode": "5.7.910", "Exceptions": nil}) {
		if row[name] != want {
			t.Errorf("%s: %v, want %v", name, row[name], want)
		}
	}
	for name, want := range (m{"From": "anna@" + domain, "Conditions": "Microsoft.Exchange.MessagingPolicies.Rules.Tasks.FromPredicate",
		"Actions": "Microsoft.Exchange.MessagingPolicies.Rules.Tasks.RejectMessageAction"}) {
		if list, _ := row[name].([]any); len(list) != 1 || list[0] != want {
			t.Errorf("%s: %v, want %v", name, row[name], want)
		}
	}
	if len(row["Guid"].(string)) != 36 || row["WhenChanged@data.type"] != "System.DateTime" {
		t.Errorf("%v", row)
	}
	for _, identity := range []any{ruleName, strings.ToUpper(ruleName), row["Guid"]} {
		if a := tn.runs("Get-TransportRule", m{"Identity": identity}); len(a.rows()) != 1 || a.at("value", 0, "Guid") != row["Guid"] {
			t.Errorf("%s: %s", identity, a.raw)
		}
	}
}

// TestUnknownRuleBringsAll: a name that no rule has is no error.
func TestUnknownRuleBringsAll(t *testing.T) {
	tn := withRule(t)
	tn.runs("New-TransportRule", rule("Another", "ben@"+domain))
	if a := tn.runs("Get-TransportRule", m{"Identity": "nobody's"}); len(a.rows()) != 2 {
		t.Errorf("%s", a.raw)
	}
}

func TestRuleLife(t *testing.T) {
	tn := withRule(t)
	step := func(what string, want ...string) {
		t.Helper()
		if got := tn.stopped(); !slices.Equal(got, want) {
			t.Errorf("%s: stopped %v, want %v", what, got, want)
		}
	}
	step("made", "anna")
	if got := fmt.Sprint(tn.control("GET", "/tenants/"+tn.id, nil).at("rules")); got != "[map[blocks:[anna@"+domain+"] enabled:true name:"+ruleName+"]]" {
		t.Errorf("control: %s", got)
	}
	tn.runs("Set-TransportRule", m{"Identity": ruleName, "From": []string{"ben@" + domain}})
	step("the list is replaced", "ben")
	tn.runs("Disable-TransportRule", m{"Identity": ruleName, "Confirm": false})
	step("switched off")
	if got := fmt.Sprint(tn.control("GET", "/tenants/"+tn.id, nil).at("rules", 0)); got != "map[blocks:[] enabled:false name:"+ruleName+"]" {
		t.Errorf("control: %s", got)
	}
	tn.runs("Enable-TransportRule", m{"Identity": ruleName, "Confirm": false})
	step("switched on", "ben")
	tn.runs("Set-TransportRule", m{"Identity": ruleName, "Mode": "Audit"})
	step("it only reports")
	tn.runs("Set-TransportRule", m{"Identity": ruleName, "Mode": "Enforce", "ExceptIfFrom": []string{"ben@" + domain}})
	step("with an exception")
	tn.runs("Remove-TransportRule", m{"Identity": ruleName, "Confirm": false})
	step("removed")
}

// TestRuleWithoutSenders: a list that is empty, null or missing is no
// condition, and the rule stops the mail of the whole tenant.
func TestRuleWithoutSenders(t *testing.T) {
	tn := ready(t)
	tn.newMailbox("ben@"+domain, "ben.d")
	open := rule(ruleName)
	delete(open, "From")
	made := func(from any) m { open["From"] = from; return open }
	for what, write := range map[string]func(){
		"made without a list":   func() { delete(open, "From"); tn.runs("New-TransportRule", open) },
		"made with an empty":    func() { tn.runs("New-TransportRule", made([]string{})) },
		"made with null":        func() { tn.runs("New-TransportRule", made(nil)) },
		"changed to an empty":   func() { tn.runs("New-TransportRule", rule(ruleName, "anna@"+domain)); tn.set(m{"From": []string{}}) },
		"changed to null":       func() { tn.runs("New-TransportRule", rule(ruleName, "anna@"+domain)); tn.set(m{"From": nil}) },
		"changed, list unnamed": func() { tn.runs("New-TransportRule", made([]string{})); tn.set(m{"Comments": "x"}) },
	} {
		write()
		if got := tn.stopped(); len(got) != 3 {
			t.Errorf("%s: only %v are stopped", what, got)
		}
		if got, _ := tn.control("GET", "/tenants/"+tn.id, nil).at("rules", 0, "blocks").([]any); len(got) < 3 {
			t.Errorf("%s: the control interface shows %v", what, got)
		}
		tn.runs("Remove-TransportRule", m{"Identity": ruleName})
	}
}

func (t *tenant) set(params m) {
	t.t.Helper()
	params["Identity"] = ruleName
	t.runs("Set-TransportRule", params)
}

// TestRulePropagation: mail meets what was changed only after rule_ms, whether a
// rule was made, changed or removed.
func TestRulePropagation(t *testing.T) {
	tn := ready(t)
	tn.newMailbox("ben@"+domain, "ben.d")
	tn.behave(m{"rule_ms": 1_800_000})
	step := func(what string, before, after []string) {
		t.Helper()
		if got := tn.stopped(); !slices.Equal(got, before) {
			t.Errorf("%s: at once %v, want %v", what, got, before)
		}
		tn.control("POST", "/clock", m{"advance": "31m"})
		if got := tn.stopped(); !slices.Equal(got, after) {
			t.Errorf("%s: later %v, want %v", what, got, after)
		}
	}
	tn.runs("New-TransportRule", rule(ruleName, "anna@"+domain))
	step("made", []string{}, []string{"anna"})
	tn.set(m{"From": []string{"ben@" + domain}})
	step("changed", []string{"anna"}, []string{"ben"})
	tn.runs("Disable-TransportRule", m{"Identity": ruleName})
	step("switched off", []string{"ben"}, []string{})
	tn.runs("Enable-TransportRule", m{"Identity": ruleName})
	step("switched on", []string{}, []string{"ben"})
	tn.runs("Remove-TransportRule", m{"Identity": ruleName})
	step("removed", []string{"ben"}, []string{})
}

func TestRuleErrors(t *testing.T) {
	long := strings.Repeat("x", 65)
	tn := withRule(t)
	for _, tt := range []struct {
		name, cmdlet string
		params       m
		says         string
	}{
		{"name taken", "New-TransportRule", rule(strings.ToUpper(ruleName), "anna@"+domain), "already exists"},
		{"no name", "New-TransportRule", m{"From": "anna@" + domain}, "Missing mandatory parameters"},
		{"name too long", "New-TransportRule", rule(long, "anna@"+domain), "1 to 64 characters"},
		{"sender that is not there", "New-TransportRule", rule("x", "nobody@"+domain), "couldn't be found"},
		{"blank sender", "New-TransportRule", rule("x", ""), "couldn't be found"},
		{"no action", "New-TransportRule", m{"Name": "x", "From": "anna@" + domain}, "Missing mandatory parameters"},
		{"status code of another kind", "Set-TransportRule", m{"Identity": ruleName, "RejectMessageEnhancedStatusCode": "5.1.1"}, "5.7.900"},
		{"text too long", "Set-TransportRule", m{"Identity": ruleName, "Comments": strings.Repeat("x", 1025)}, "1024"},
		{"rule too large", "Set-TransportRule", m{"Identity": ruleName, "SenderDomainIs": slices.Repeat([]string{strings.Repeat("x", 99)}, 90)}, "too large"},
		{"Enabled is no parameter of Set", "Set-TransportRule", m{"Identity": ruleName, "Enabled": false}, "Invalid cmdlet parameters"},
		{"unknown mode", "Set-TransportRule", m{"Identity": ruleName, "Mode": "Off"}, "argument transformation"},
		{"unknown rule changed", "Set-TransportRule", m{"Identity": "x", "Comments": "y"}, "couldn't be found"},
		{"unknown rule switched on", "Enable-TransportRule", m{"Identity": "x"}, "couldn't be found"},
		{"unknown rule switched off", "Disable-TransportRule", m{"Identity": "x"}, "couldn't be found"},
		{"unknown rule removed", "Remove-TransportRule", m{"Identity": "x"}, "couldn't be found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := tn.exchange(tt.cmdlet, tt.params)
			text, _ := a.at("error", "innererror", "internalexception", "message").(string)
			if a.status != http.StatusBadRequest || !strings.Contains(text, tt.says) {
				t.Errorf("%d %s", a.status, a.raw)
			}
			if got := tn.runs("Get-TransportRule", m{}); len(got.rows()) != 1 || got.at("value", 0, "Comments") != "managed" {
				t.Errorf("it had an effect: %s", got.raw)
			}
		})
	}
}

func TestRuleCount(t *testing.T) {
	tn := ready(t)
	token := bearer(tn.token(exchangeScope))
	for n := range 301 {
		a := tn.exchangeWith(token, "", "New-TransportRule", rule(fmt.Sprint("rule ", n), "anna@"+domain))
		if want := map[bool]int{true: http.StatusOK, false: http.StatusBadRequest}[n < 300]; a.status != want {
			t.Fatalf("rule %d: %d %s", n, a.status, a.raw)
		}
	}
}

func TestRulesOfADehydratedTenant(t *testing.T) {
	tn := start(t).connected(m{"bootstrap": "dehydrated"})
	golden(t, "exchange-dehydrated", tn.exchange("New-TransportRule", rule(ruleName, tn.admin)))
}
