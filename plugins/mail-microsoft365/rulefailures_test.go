// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
)

// TestRuleWritesSurviveAFailedCmdlet checks that the rule gets the requested state although one
// cmdlet fails once, before or after its effect.
func TestRuleWritesSurviveAFailedCmdlet(t *testing.T) {
	env := newTestEnv(t)
	for _, cmdlet := range []string{
		exchange.NewTransportRule, exchange.SetTransportRule, exchange.EnableTransportRule, exchange.DisableTransportRule,
		exchange.RemoveTransportRule, exchange.GetTransportRule,
	} {
		for _, failure := range []options{
			{"kind": "drop_before"}, {"kind": "drop_after"}, {"kind": "status", "status": 500}, {"kind": "status", "status": 503},
			{"kind": "status", "status": 504}, {"kind": "status", "status": 429},
		} {
			t.Run(fmt.Sprint(cmdlet, failure), func(t *testing.T) {
				fixture := newSendingTenant(t, env)
				runWithFault := func(step string, call func() error) {
					failure["operation"], failure["times"] = cmdlet, 1
					env.injectFault(t, failure)
					if err := call(); err != nil {
						t.Fatalf("the step %q fails: %v, want success", step, err)
					}
					env.control(t, http.MethodDelete, "/faults", nil)
				}
				block := func(mailboxes ...string) func() error {
					return func() error {
						rule, err := fixture.client.Block(t.Context(), fixture.domain, mailboxes)
						if err == nil && !slices.Equal(rule.Blocks(), mailboxes) {
							t.Fatalf("the rule blocks %v, want %v", rule.Blocks(), mailboxes)
						}
						return err
					}
				}
				runWithFault("create", block(fixture.mailboxes[0]))
				runWithFault("change", block(fixture.mailboxes[1:]...))
				runWithFault("switch off", block())
				runWithFault("switch on", block(fixture.mailboxes...))
				if got := fixture.blockedSenders(); !slices.Equal(got, fixture.mailboxes) || len(fixture.rules()) != 1 {
					t.Fatalf("the blocked senders are %v, want %v; the rules are %v, want one rule", got, fixture.mailboxes, fixture.rules())
				}
				runWithFault("remove", func() error { return fixture.client.RemoveRules(t.Context()) })
				if len(fixture.rules()) != 0 {
					t.Fatalf("after RemoveRules, the rules are %v, want none", fixture.rules())
				}
			})
		}
	}
}

// TestARuleWriteThatDoesNotShowIsNotReady lets a cmdlet succeed without an effect. Block reads the
// rule afterwards and must not report the change as done, because the read does not show it.
func TestARuleWriteThatDoesNotShowIsNotReady(t *testing.T) {
	env := newTestEnv(t)
	fixture := newSendingTenant(t, env)
	fixture.block(fixture.domain, fixture.mailboxes[0])
	for cmdlet, list := range map[string][]string{exchange.SetTransportRule: fixture.mailboxes[1:], exchange.DisableTransportRule: nil} {
		env.setBehaviour(t, fixture.tenantInfo.GUID, options{"cmdlets": options{cmdlet: options{"errors": []string{}, "times": 1}}})
		_, err := fixture.client.Block(t.Context(), fixture.domain, list)
		expectOutcome(t, err, outcome.NotReady, fault.Code{})
		if got := fixture.blockedSenders(); !slices.Equal(got, fixture.mailboxes[:1]) {
			t.Fatalf("%s: the blocked senders are %v, want %v", cmdlet, got, fixture.mailboxes[:1])
		}
	}
}

// TestAPartlyDoneRuleChangeIsUnknown checks calls that fail after a successful write. Their error
// must not say that nothing was changed.
func TestAPartlyDoneRuleChangeIsUnknown(t *testing.T) {
	env := newTestEnv(t)
	fixture := newSendingTenant(t, env)
	fixture.block(fixture.domain, fixture.mailboxes[0])
	// The first read succeeds, all later reads fail.
	readFault := options{"operation": exchange.GetTransportRule, "kind": "status", "status": 503, "skip": 1, "times": 1000}
	env.injectFault(t, readFault)
	_, err := fixture.client.Block(t.Context(), fixture.domain, fixture.mailboxes[1:])
	expectOutcome(t, err, outcome.Unknown, fault.Code{})
	env.control(t, http.MethodDelete, "/faults", nil)
	if got := fixture.blockedSenders(); !slices.Equal(got, fixture.mailboxes[1:]) {
		t.Fatalf("the blocked senders are %v, want %v", got, fixture.mailboxes[1:])
	}

	// Block removes a rule that has an exception, and then cannot create a new rule.
	fixture.runAsAdministrator(exchange.SetTransportRule, options{"Identity": sendlimit.RuleName(fixture.domain), "ExceptIfFrom": fixture.mailboxes[:1]})
	limitError := options{"times": 1, "exception": options{"type": "Microsoft.RulesValidationException", "text": "The rule is too large."}}
	env.setBehaviour(t, fixture.tenantInfo.GUID, options{"cmdlets": options{exchange.NewTransportRule: limitError}})
	_, err = fixture.client.Block(t.Context(), fixture.domain, fixture.mailboxes[1:])
	expectOutcome(t, err, outcome.Unknown, fault.Code{})
	fixture.block(fixture.domain, fixture.mailboxes[1:]...)

	env.injectFault(t, readFault)
	expectOutcome(t, fixture.client.RemoveRules(t.Context()), outcome.Unknown, fault.Code{})
	env.control(t, http.MethodDelete, "/faults", nil)
	if len(fixture.rules()) != 0 {
		t.Fatalf("after RemoveRules, the rules are %v, want none", fixture.rules())
	}
}

// TestEnabledRulesAreRemovedFirst enables one of three rules, and lets all removals except the
// first fail. The remaining rules must block no mailbox.
func TestEnabledRulesAreRemovedFirst(t *testing.T) {
	env := newTestEnv(t)
	fixture := newSendingTenant(t, env)
	scopes := []string{fixture.domain, sendlimit.TenantWide, "a.test"}
	for _, scope := range scopes {
		fixture.block(scope, fixture.mailboxes[0])
	}
	for _, enabledScope := range scopes {
		for _, scope := range scopes {
			if scope == enabledScope {
				fixture.block(scope, fixture.mailboxes[0])
			} else {
				fixture.block(scope)
			}
		}
		env.injectFault(t, options{"operation": exchange.RemoveTransportRule, "kind": "status", "status": 503, "skip": 1, "times": 1000})
		if err := fixture.client.RemoveRules(t.Context()); err == nil || len(fixture.blockedSenders()) != 0 || len(fixture.rules()) != 2 {
			t.Fatalf("enabled in %q: RemoveRules returns %v, want an error; the remaining rules are %v, want two disabled rules", enabledScope, err, fixture.rules())
		}
		env.control(t, http.MethodDelete, "/faults", nil)
		for _, scope := range scopes {
			fixture.block(scope, fixture.mailboxes[0])
		}
	}
}

// TestASenderListThatIsTooLongIsRefused checks that the plugin refuses the list without a request
// to the platform.
func TestASenderListThatIsTooLongIsRefused(t *testing.T) {
	env := newTestEnv(t)
	fixture := newSendingTenant(t, env)
	var tooLong []string
	for n := range 300 {
		tooLong = append(tooLong, fmt.Sprintf("a-mailbox-among-many-%d@%s", n, fixture.domain))
	}
	env.control(t, http.MethodDelete, "/calls", nil)
	for _, call := range []func() (sendlimit.Rule, error){
		func() (sendlimit.Rule, error) { return fixture.client.Block(t.Context(), fixture.domain, tooLong) },
		func() (sendlimit.Rule, error) { return fixture.client.EnsureRule(t.Context(), fixture.domain, tooLong) },
	} {
		_, err := call()
		if expectOutcome(t, err, outcome.Refused, fault.ProviderError); !strings.Contains(err.Error(), "300 mailboxes") {
			t.Errorf("got %v, want a text with \"300 mailboxes\"", err)
		}
	}
	if got := env.calls(t); len(got) != 0 {
		t.Fatalf("the refused calls sent %v, want no request", got)
	}
}

func TestBlockReportsRefusals(t *testing.T) {
	env := newTestEnv(t)
	fixture := newSendingTenant(t, env)
	_, err := fixture.client.Block(t.Context(), fixture.domain, []string{"nobody@" + fixture.domain})
	expectOutcome(t, err, outcome.Refused, fault.MailboxNotFound)
	fixture.block(fixture.domain, fixture.mailboxes[0])
	_, err = fixture.client.Block(t.Context(), fixture.domain, []string{fixture.mailboxes[1], "nobody@" + fixture.domain})
	if expectOutcome(t, err, outcome.Refused, fault.MailboxNotFound); strings.Contains(err.Error(), fixture.domain) {
		t.Errorf("got the error %v, want one that does not name the domain of the customer", err)
	}
	if got := fixture.blockedSenders(); !slices.Equal(got, fixture.mailboxes[:1]) {
		t.Fatalf("the blocked senders are %v, want %v", got, fixture.mailboxes[:1])
	}
	limitError := options{"times": 1, "exception": options{"type": "Microsoft.RulesValidationException", "text": "You've reached the maximum number of rules."}}
	env.setBehaviour(t, fixture.tenantInfo.GUID, options{"cmdlets": options{exchange.NewTransportRule: limitError}})
	_, err = fixture.client.Block(t.Context(), sendlimit.TenantWide, fixture.mailboxes)
	expectOutcome(t, err, outcome.Refused, fault.ProviderError)
}
