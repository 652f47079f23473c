// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const ruleName = "tenantry-block-tenantwide"

// ruleParams returns the parameters with which tenantry creates a rule.
func ruleParams(name string, senders ...string) jsonObject {
	return jsonObject{"Name": name, "From": senders, "SenderAddressLocation": "HeaderOrEnvelope", "RejectMessageReasonText": "Limit reached.",
		"RejectMessageEnhancedStatusCode": "5.7.910", "Mode": "Enforce", "Enabled": true, "Priority": 0, "StopRuleProcessing": true,
		"Comments": "managed"}
}

// newTenantWithRule returns a tenant with the mailboxes of Anna and Ben, and a rule that blocks
// Anna's mailbox.
func newTenantWithRule(t *testing.T) *tenant {
	t.Helper()
	testTenant := newTenantWithMailbox(t)
	testTenant.newMailbox("ben@"+domain, "ben.d")
	testTenant.mustRun("New-TransportRule", ruleParams(ruleName, "anna@"+domain))
	return testTenant
}

// mustRun runs a cmdlet. It fails the test when the status is not 200.
func (t *tenant) mustRun(cmdlet string, params any) response {
	t.t.Helper()
	answer := t.runCmdlet(cmdlet, params)
	if answer.status != http.StatusOK {
		t.t.Fatalf("%s: %d %s, want 200", cmdlet, answer.status, answer.raw)
	}
	return answer
}

// sendMessages makes a mailbox send messages. The fields in extra are added to the control call.
func (t *tenant) sendMessages(mailbox string, count int, extra ...jsonObject) {
	t.t.Helper()
	body := jsonObject{"mailbox": mailbox, "count": count}
	for _, fields := range extra {
		maps.Copy(body, fields)
	}
	t.control("POST", "/messages", body)
}

// blockedSenders sends one message each as Anna, Ben and the administrator. It returns the local
// parts of the senders whose message failed.
func (t *tenant) blockedSenders() []string {
	t.t.Helper()
	before := messageIDs(t.trace(jsonObject{}))
	for _, mailbox := range []string{"anna@" + domain, "ben@" + domain, t.admin} {
		t.sendMessages(mailbox, 1, jsonObject{"recipients": 1})
	}
	blocked := []string{}
	for _, row := range t.trace(jsonObject{}) {
		if r := row.(jsonObject); r["Status"] == "Failed" && !before[r["MessageTraceId"].(string)] {
			mailbox, _, _ := strings.Cut(r["SenderAddress"].(string), "@")
			blocked = append(blocked, mailbox)
		}
	}
	slices.Sort(blocked)
	return slices.Compact(blocked)
}

func (t *tenant) trace(params jsonObject) []any {
	t.t.Helper()
	return t.mustRun("Get-MessageTraceV2", params).rows()
}

func TestNewRuleReturnsRow(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	row := testTenant.mustRun("New-TransportRule", ruleParams(ruleName, "anna@"+domain)).valueAt("value", 0).(jsonObject)
	for name, want := range (jsonObject{"Name": ruleName, "Identity": ruleName, "State": "Enabled", "Mode": "Enforce", "SentToScope": nil,
		"RejectMessageReasonText": "Limit reached.", "RejectMessageEnhancedStatusCode": "5.7.910", "Exceptions": nil}) {
		if row[name] != want {
			t.Errorf("%s: %v, want %v", name, row[name], want)
		}
	}
	for name, want := range (jsonObject{"From": "anna@" + domain, "Conditions": "Microsoft.Exchange.MessagingPolicies.Rules.Tasks.FromPredicate",
		"Actions": "Microsoft.Exchange.MessagingPolicies.Rules.Tasks.RejectMessageAction"}) {
		if list, _ := row[name].([]any); len(list) != 1 || list[0] != want {
			t.Errorf("%s: %v, want %v", name, row[name], want)
		}
	}
	if len(row["Guid"].(string)) != 36 || row["WhenChanged@data.type"] != "System.DateTime" {
		t.Errorf("the row is %v, want a Guid of 36 characters and the type System.DateTime of WhenChanged", row)
	}
	for _, identity := range []any{ruleName, strings.ToUpper(ruleName), row["Guid"]} {
		if answer := testTenant.mustRun("Get-TransportRule", jsonObject{"Identity": identity}); len(answer.rows()) != 1 || answer.valueAt("value", 0, "Guid") != row["Guid"] {
			t.Errorf("the identity %s finds %s, want the new rule", identity, answer.raw)
		}
	}
}

func TestUnknownRuleIdentityReturnsAllRules(t *testing.T) {
	testTenant := newTenantWithRule(t)
	testTenant.mustRun("New-TransportRule", ruleParams("Another", "ben@"+domain))
	if answer := testTenant.mustRun("Get-TransportRule", jsonObject{"Identity": "nobody's"}); len(answer.rows()) != 2 {
		t.Errorf("an unknown identity finds %s, want both rules", answer.raw)
	}
}

func TestRuleChangesApplyToMail(t *testing.T) {
	testTenant := newTenantWithRule(t)
	assertBlocked := func(change string, want ...string) {
		t.Helper()
		if got := testTenant.blockedSenders(); !slices.Equal(got, want) {
			t.Errorf("%s: blocked %v, want %v", change, got, want)
		}
	}
	assertBlocked("created", "anna")
	if got := fmt.Sprint(testTenant.control("GET", "/tenants/"+testTenant.id, nil).valueAt("rules")); got != "[map[blocks:[anna@"+domain+"] enabled:true name:"+ruleName+"]]" {
		t.Errorf("the control interface shows %s, want the state of the rule", got)
	}
	testTenant.mustRun("Set-TransportRule", jsonObject{"Identity": ruleName, "From": []string{"ben@" + domain}})
	assertBlocked("the list is replaced", "ben")
	testTenant.mustRun("Disable-TransportRule", jsonObject{"Identity": ruleName, "Confirm": false})
	assertBlocked("disabled")
	if got := fmt.Sprint(testTenant.control("GET", "/tenants/"+testTenant.id, nil).valueAt("rules", 0)); got != "map[blocks:[] enabled:false name:"+ruleName+"]" {
		t.Errorf("the control interface shows %s, want the state of the rule", got)
	}
	testTenant.mustRun("Enable-TransportRule", jsonObject{"Identity": ruleName, "Confirm": false})
	assertBlocked("enabled", "ben")
	testTenant.mustRun("Set-TransportRule", jsonObject{"Identity": ruleName, "Mode": "Audit"})
	assertBlocked("audit mode")
	testTenant.mustRun("Set-TransportRule", jsonObject{"Identity": ruleName, "Mode": "Enforce", "ExceptIfFrom": []string{"ben@" + domain}})
	assertBlocked("with an exception")
	testTenant.mustRun("Remove-TransportRule", jsonObject{"Identity": ruleName, "Confirm": false})
	assertBlocked("removed")
}

// TestRuleWithoutSendersBlocksAllMail checks that a sender list that is empty, null or missing is
// not a condition.
func TestRuleWithoutSendersBlocksAllMail(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	testTenant.newMailbox("ben@"+domain, "ben.d")
	params := ruleParams(ruleName)
	withFrom := func(from any) jsonObject { params["From"] = from; return params }
	for change, apply := range map[string]func(){
		"created without a list":     func() { delete(params, "From"); testTenant.mustRun("New-TransportRule", params) },
		"created with an empty list": func() { testTenant.mustRun("New-TransportRule", withFrom([]string{})) },
		"created with null":          func() { testTenant.mustRun("New-TransportRule", withFrom(nil)) },
		"changed to an empty list": func() {
			testTenant.mustRun("New-TransportRule", ruleParams(ruleName, "anna@"+domain))
			testTenant.changeRule(jsonObject{"From": []string{}})
		},
		"changed to null": func() {
			testTenant.mustRun("New-TransportRule", ruleParams(ruleName, "anna@"+domain))
			testTenant.changeRule(jsonObject{"From": nil})
		},
		"changed without naming the list": func() {
			testTenant.mustRun("New-TransportRule", withFrom([]string{}))
			testTenant.changeRule(jsonObject{"Comments": "x"})
		},
	} {
		apply()
		if got := testTenant.blockedSenders(); len(got) != 3 {
			t.Errorf("%s: blocked %v, want all three senders", change, got)
		}
		if got, _ := testTenant.control("GET", "/tenants/"+testTenant.id, nil).valueAt("rules", 0, "blocks").([]any); len(got) < 3 {
			t.Errorf("%s: the control interface shows %v, want at least three mailboxes", change, got)
		}
		testTenant.mustRun("Remove-TransportRule", jsonObject{"Identity": ruleName})
	}
}

func (t *tenant) changeRule(params jsonObject) {
	t.t.Helper()
	params["Identity"] = ruleName
	t.mustRun("Set-TransportRule", params)
}

// TestRuleChangesApplyAfterLag creates, changes, disables, enables and removes a rule. Each change
// applies to mail only after rule_ms.
func TestRuleChangesApplyAfterLag(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	testTenant.newMailbox("ben@"+domain, "ben.d")
	testTenant.setBehaviour(jsonObject{"rule_ms": 1_800_000})
	assertBlocked := func(change string, atOnce, afterLag []string) {
		t.Helper()
		if got := testTenant.blockedSenders(); !slices.Equal(got, atOnce) {
			t.Errorf("%s: blocked at once %v, want %v", change, got, atOnce)
		}
		testTenant.control("POST", "/clock", jsonObject{"advance": "31m"})
		if got := testTenant.blockedSenders(); !slices.Equal(got, afterLag) {
			t.Errorf("%s: blocked after the lag %v, want %v", change, got, afterLag)
		}
	}
	testTenant.mustRun("New-TransportRule", ruleParams(ruleName, "anna@"+domain))
	assertBlocked("created", []string{}, []string{"anna"})
	testTenant.changeRule(jsonObject{"From": []string{"ben@" + domain}})
	assertBlocked("changed", []string{"anna"}, []string{"ben"})
	testTenant.mustRun("Disable-TransportRule", jsonObject{"Identity": ruleName})
	assertBlocked("disabled", []string{"ben"}, []string{})
	testTenant.mustRun("Enable-TransportRule", jsonObject{"Identity": ruleName})
	assertBlocked("enabled", []string{}, []string{"ben"})
	testTenant.mustRun("Remove-TransportRule", jsonObject{"Identity": ruleName})
	assertBlocked("removed", []string{"ben"}, []string{})
}

func TestInvalidRuleChangesAreRefused(t *testing.T) {
	testTenant := newTenantWithRule(t)
	for _, tc := range []struct {
		name, cmdlet string
		params       jsonObject
		message      string // a text in the message of the exception
	}{
		{"name taken", "New-TransportRule", ruleParams(strings.ToUpper(ruleName), "anna@"+domain), "already exists"},
		{"no name", "New-TransportRule", jsonObject{"From": "anna@" + domain}, "Missing mandatory parameters"},
		{"name too long", "New-TransportRule", ruleParams(strings.Repeat("x", 65), "anna@"+domain), "1 to 64 characters"},
		{"unknown sender", "New-TransportRule", ruleParams("x", "nobody@"+domain), "couldn't be found"},
		{"blank sender", "New-TransportRule", ruleParams("x", ""), "couldn't be found"},
		{"no action", "New-TransportRule", jsonObject{"Name": "x", "From": "anna@" + domain}, "Missing mandatory parameters"},
		{"status code of another kind", "Set-TransportRule", jsonObject{"Identity": ruleName, "RejectMessageEnhancedStatusCode": "5.1.1"}, "5.7.900"},
		{"text too long", "Set-TransportRule", jsonObject{"Identity": ruleName, "Comments": strings.Repeat("x", 1025)}, "1024"},
		{"rule too large", "Set-TransportRule", jsonObject{"Identity": ruleName, "SenderDomainIs": slices.Repeat([]string{strings.Repeat("x", 99)}, 90)}, "too large"},
		{"Set has no parameter Enabled", "Set-TransportRule", jsonObject{"Identity": ruleName, "Enabled": false}, "Invalid cmdlet parameters"},
		{"unknown mode", "Set-TransportRule", jsonObject{"Identity": ruleName, "Mode": "Off"}, "argument transformation"},
		{"unknown rule changed", "Set-TransportRule", jsonObject{"Identity": "x", "Comments": "y"}, "couldn't be found"},
		{"unknown rule enabled", "Enable-TransportRule", jsonObject{"Identity": "x"}, "couldn't be found"},
		{"unknown rule disabled", "Disable-TransportRule", jsonObject{"Identity": "x"}, "couldn't be found"},
		{"unknown rule removed", "Remove-TransportRule", jsonObject{"Identity": "x"}, "couldn't be found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			answer := testTenant.runCmdlet(tc.cmdlet, tc.params)
			text, _ := answer.valueAt("error", "innererror", "internalexception", "message").(string)
			if answer.status != http.StatusBadRequest || !strings.Contains(text, tc.message) {
				t.Errorf("the answer is %d %s, want 400 with %q", answer.status, answer.raw, tc.message)
			}
			if got := testTenant.mustRun("Get-TransportRule", jsonObject{}); len(got.rows()) != 1 || got.valueAt("value", 0, "Comments") != "managed" {
				t.Errorf("after the refused call the rules are %s, want one with the comment managed", got.raw)
			}
		})
	}
}

func TestRuleCountIsLimited(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	token := bearer(testTenant.token(exchangeScope))
	const maxRules = 300
	for n := 1; n <= maxRules+1; n++ {
		answer := testTenant.runCmdletWith(token, "", "New-TransportRule", ruleParams(fmt.Sprint("rule ", n), "anna@"+domain))
		if want := map[bool]int{true: http.StatusOK, false: http.StatusBadRequest}[n <= maxRules]; answer.status != want {
			t.Fatalf("rule %d: %d %s, want %d", n, answer.status, answer.raw, want)
		}
	}
}

func TestDehydratedTenantRefusesRules(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant(jsonObject{"bootstrap": "dehydrated"})
	assertGolden(t, "exchange-dehydrated", testTenant.runCmdlet("New-TransportRule", ruleParams(ruleName, testTenant.admin)))
}

// TestRulesApplyInOrderOfPriority checks that a new rule is last unless it has a Priority, that the
// priorities have no gaps, and that a rule with StopRuleProcessing keeps later rules from acting.
func TestRulesApplyInOrderOfPriority(t *testing.T) {
	testTenant := newTenantWithRule(t)
	assertOrder := func(change string, want ...string) {
		t.Helper()
		var got []string
		for i, row := range testTenant.mustRun("Get-TransportRule", jsonObject{}).rows() {
			r := row.(jsonObject)
			if got = append(got, r["Name"].(string)); r["Priority"] != float64(i) {
				t.Errorf("%s: rule %d of the list has the priority %v, want %d", change, i, r["Priority"], i)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the rules are %v, want %v", change, got, want)
		}
	}
	tag := jsonObject{"Name": "Tag", "PrependSubject": "[out]", "StopRuleProcessing": true}
	testTenant.mustRun("New-TransportRule", tag)
	assertOrder("a rule without a priority", ruleName, "Tag")
	if got := testTenant.blockedSenders(); !slices.Equal(got, []string{"anna"}) {
		t.Errorf("a later rule that stops processing: blocked %v, want anna", got)
	}
	testTenant.mustRun("Set-TransportRule", jsonObject{"Identity": "Tag", "Priority": 0})
	assertOrder("a rule moved to the front", "Tag", ruleName)
	if got := testTenant.blockedSenders(); len(got) > 0 {
		t.Errorf("an earlier rule that stops processing: blocked %v, want nobody", got)
	}
	testTenant.mustRun("Set-TransportRule", jsonObject{"Identity": "Tag", "StopRuleProcessing": false})
	if got := testTenant.blockedSenders(); !slices.Equal(got, []string{"anna"}) {
		t.Errorf("an earlier rule that does not stop processing: blocked %v, want anna", got)
	}
	testTenant.mustRun("New-TransportRule", ruleParams("Second", "ben@"+domain))
	assertOrder("a new rule with the priority 0", "Second", "Tag", ruleName)
	testTenant.mustRun("Remove-TransportRule", jsonObject{"Identity": "Second", "Confirm": false})
	assertOrder("a removed rule", "Tag", ruleName)
	if answer := testTenant.runCmdlet("Set-TransportRule", jsonObject{"Identity": "Tag", "Priority": 2}); answer.status != http.StatusBadRequest {
		t.Errorf("a priority beyond the last place: %d %s, want 400", answer.status, answer.raw)
	}
}
