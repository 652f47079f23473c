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

// TestRuleWritesSurviveALostAnswer checks that the rule has the requested state in the end if one
// cmdlet fails once, before or after its effect.
func TestRuleWritesSurviveALostAnswer(t *testing.T) {
	env := newTestEnv(t)
	for _, cmdlet := range []string{
		exchange.NewTransportRule, exchange.SetTransportRule, exchange.EnableTransportRule, exchange.DisableTransportRule,
		exchange.RemoveTransportRule, exchange.GetTransportRule,
	} {
		for _, f := range []options{
			{"kind": "drop_before"}, {"kind": "drop_after"}, {"kind": "status", "status": 500}, {"kind": "status", "status": 503},
			{"kind": "status", "status": 504}, {"kind": "status", "status": 429},
		} {
			t.Run(fmt.Sprint(cmdlet, f), func(t *testing.T) {
				s := newSendingTenant(t, env)
				runWithFault := func(step string, do func() error) {
					f["operation"], f["times"] = cmdlet, 1
					env.injectFault(t, f)
					if err := do(); err != nil {
						t.Fatalf("the step %q fails: %v", step, err)
					}
					env.control(t, http.MethodDelete, "/faults", nil)
				}
				block := func(list ...string) func() error {
					return func() error {
						r, err := s.client.Block(t.Context(), s.domain, list)
						if err == nil && !slices.Equal(r.Blocks(), list) {
							t.Fatalf("the rule blocks %v, want %v", r.Blocks(), list)
						}
						return err
					}
				}
				runWithFault("create", block(s.mailboxes[0]))
				runWithFault("change", block(s.mailboxes[1:]...))
				runWithFault("switch off", block())
				runWithFault("switch on", block(s.mailboxes...))
				if got := s.blockedSenders(); !slices.Equal(got, s.mailboxes) || len(s.rules()) != 1 {
					t.Fatalf("blocked are %v, want %v; the rules are %v, want one", got, s.mailboxes, s.rules())
				}
				runWithFault("remove", func() error { return s.client.RemoveRules(t.Context()) })
				if len(s.rules()) != 0 {
					t.Fatalf("after RemoveRules there are still %v", s.rules())
				}
			})
		}
	}
}

// TestARuleWriteThatDoesNotShowIsNotReady checks that a change is not reported as done when a later
// read does not show it.
func TestARuleWriteThatDoesNotShowIsNotReady(t *testing.T) {
	env := newTestEnv(t)
	s := newSendingTenant(t, env)
	s.block(s.domain, s.mailboxes[0])
	for cmdlet, list := range map[string][]string{exchange.SetTransportRule: s.mailboxes[1:], exchange.DisableTransportRule: nil} {
		env.setBehaviour(t, s.tenantInfo.GUID, options{"cmdlets": options{cmdlet: options{"errors": []string{}, "times": 1}}})
		_, err := s.client.Block(t.Context(), s.domain, list)
		expectOutcome(t, err, outcome.NotReady, fault.Code{})
		if got := s.blockedSenders(); !slices.Equal(got, s.mailboxes[:1]) {
			t.Fatalf("%s: blocked are %v, want %v", cmdlet, got, s.mailboxes[:1])
		}
	}
}

// TestAPartlyDoneRuleChangeIsUnknown checks a failure after a successful write. It must not be
// reported as a change that was not made.
func TestAPartlyDoneRuleChangeIsUnknown(t *testing.T) {
	env := newTestEnv(t)
	s := newSendingTenant(t, env)
	s.block(s.domain, s.mailboxes[0])
	readFault := options{"operation": exchange.GetTransportRule, "kind": "status", "status": 503, "skip": 1, "times": 1000}
	env.injectFault(t, readFault)
	_, err := s.client.Block(t.Context(), s.domain, s.mailboxes[1:])
	expectOutcome(t, err, outcome.Unknown, fault.Code{})
	env.control(t, http.MethodDelete, "/faults", nil)
	if got := s.blockedSenders(); !slices.Equal(got, s.mailboxes[1:]) {
		t.Fatalf("blocked are %v, want %v", got, s.mailboxes[1:])
	}

	s.runAsAdministrator(exchange.SetTransportRule, options{"Identity": sendlimit.RuleName(s.domain), "ExceptIfFrom": s.mailboxes[:1]})
	limitError := options{"times": 1, "exception": options{"type": "Microsoft.RulesValidationException", "text": "The rule is too large."}}
	env.setBehaviour(t, s.tenantInfo.GUID, options{"cmdlets": options{exchange.NewTransportRule: limitError}})
	_, err = s.client.Block(t.Context(), s.domain, s.mailboxes[1:])
	expectOutcome(t, err, outcome.Unknown, fault.Code{})
	s.block(s.domain, s.mailboxes[1:]...)

	env.injectFault(t, readFault)
	expectOutcome(t, s.client.RemoveRules(t.Context()), outcome.Unknown, fault.Code{})
	env.control(t, http.MethodDelete, "/faults", nil)
	if len(s.rules()) != 0 {
		t.Fatalf("after RemoveRules there are still %v", s.rules())
	}
}

// TestEnabledRulesAreRemovedFirst checks that the rules left after a failed removal block nobody.
func TestEnabledRulesAreRemovedFirst(t *testing.T) {
	env := newTestEnv(t)
	s := newSendingTenant(t, env)
	scopes := []string{s.domain, sendlimit.TenantWide, "a.test"}
	for _, scope := range scopes {
		s.block(scope, s.mailboxes[0])
	}
	for _, enabledScope := range scopes {
		for _, scope := range scopes {
			if scope == enabledScope {
				s.block(scope, s.mailboxes[0])
			} else {
				s.block(scope)
			}
		}
		env.injectFault(t, options{"operation": exchange.RemoveTransportRule, "kind": "status", "status": 503, "skip": 1, "times": 1000})
		if err := s.client.RemoveRules(t.Context()); err == nil || len(s.blockedSenders()) != 0 || len(s.rules()) != 2 {
			t.Fatalf("enabled in %q: RemoveRules returns %v, want an error; left are %v, want two disabled rules", enabledScope, err, s.rules())
		}
		env.control(t, http.MethodDelete, "/faults", nil)
		for _, scope := range scopes {
			s.block(scope, s.mailboxes[0])
		}
	}
}

// TestASenderListThatIsTooLongIsRefused checks that the refusal comes before any request.
func TestASenderListThatIsTooLongIsRefused(t *testing.T) {
	env := newTestEnv(t)
	s := newSendingTenant(t, env)
	var tooLong []string
	for n := range 300 {
		tooLong = append(tooLong, fmt.Sprintf("a-mailbox-among-many-%d@%s", n, s.domain))
	}
	env.control(t, http.MethodDelete, "/calls", nil)
	for _, call := range []func() (sendlimit.Rule, error){
		func() (sendlimit.Rule, error) { return s.client.Block(t.Context(), s.domain, tooLong) },
		func() (sendlimit.Rule, error) { return s.client.EnsureRule(t.Context(), s.domain, tooLong) },
	} {
		_, err := call()
		if expectOutcome(t, err, outcome.Refused, fault.ProviderError); !strings.Contains(err.Error(), "300 mailboxes") {
			t.Errorf("got %v, want a text with the number of mailboxes", err)
		}
	}
	if got := env.calls(t); len(got) != 0 {
		t.Fatalf("the refused calls sent %v", got)
	}
}

func TestBlockReportsRefusals(t *testing.T) {
	env := newTestEnv(t)
	s := newSendingTenant(t, env)
	_, err := s.client.Block(t.Context(), s.domain, []string{"nobody@" + s.domain})
	expectOutcome(t, err, outcome.Refused, fault.MailboxNotFound)
	s.block(s.domain, s.mailboxes[0])
	_, err = s.client.Block(t.Context(), s.domain, []string{s.mailboxes[1], "nobody@" + s.domain})
	if expectOutcome(t, err, outcome.Refused, fault.MailboxNotFound); strings.Contains(err.Error(), s.domain) {
		t.Errorf("the error names the customer: %v", err)
	}
	if got := s.blockedSenders(); !slices.Equal(got, s.mailboxes[:1]) {
		t.Fatalf("blocked are %v, want %v", got, s.mailboxes[:1])
	}
	limitError := options{"times": 1, "exception": options{"type": "Microsoft.RulesValidationException", "text": "You've reached the maximum number of rules."}}
	env.setBehaviour(t, s.tenantInfo.GUID, options{"cmdlets": options{exchange.NewTransportRule: limitError}})
	_, err = s.client.Block(t.Context(), sendlimit.TenantWide, s.mailboxes)
	expectOutcome(t, err, outcome.Refused, fault.ProviderError)
}
