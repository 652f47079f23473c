// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
	"github.com/tenantry/tenantry/plugins/sdk"
)

func TestRuleIsCreatedEnabledDisabledAndRemoved(t *testing.T) {
	fixture := newSendingTenant(t, newTestEnv(t))
	ensure := func(mailboxes ...string) sendlimit.Rule {
		rule, err := fixture.client.EnsureRule(t.Context(), fixture.domain, mailboxes)
		if err != nil {
			t.Fatal(err)
		}
		return rule
	}
	if r := ensure(); !cmp.Equal(r, sendlimit.Rule{}) || len(fixture.rules()) != 0 {
		t.Fatalf("EnsureRule without mailboxes: %+v, %v, want no rule", r, fixture.rules())
	}
	if r := fixture.block(fixture.domain); !cmp.Equal(r, sendlimit.Rule{}) || len(fixture.rules()) != 0 {
		t.Fatalf("Block without mailboxes: %+v, %v, want no rule", r, fixture.rules())
	}
	created := ensure(fixture.mailboxes...)
	want := sendlimit.Rule{ID: created.ID, Name: sendlimit.RuleName(fixture.domain), Lists: fixture.mailboxes, Created: true, Written: true}
	if created.ID == "" || !cmp.Equal(created, want) || len(fixture.blockedSenders()) != 0 {
		t.Fatalf("EnsureRule: %+v, want %+v, which blocks nobody", created, want)
	}
	want.Created, want.Written = false, false
	if repeated := ensure(fixture.mailboxes[:1]...); !cmp.Equal(repeated, want) {
		t.Fatalf("the second EnsureRule: %+v, want %+v", repeated, want)
	}
	want.Written, want.Enabled, want.Lists = true, true, fixture.mailboxes[:1]
	if r := fixture.block(fixture.domain, strings.ToUpper(fixture.mailboxes[0])); !cmp.Equal(r, want) {
		t.Fatalf("Block of one mailbox: %+v, want %+v", r, want)
	}
	want.Written = false
	if r := fixture.block(fixture.domain, fixture.mailboxes[0], fixture.mailboxes[0]); !cmp.Equal(r, want) {
		t.Fatalf("Block of the same mailbox, named twice: %+v, want %+v", r, want)
	}
	if got := fixture.blockedSenders(); !slices.Equal(got, fixture.mailboxes[:1]) {
		t.Fatalf("the blocked mailboxes are %v, want %v", got, fixture.mailboxes[:1])
	}
	want.Written, want.Enabled = true, false
	if r := fixture.block(fixture.domain); !cmp.Equal(r, want) || len(fixture.blockedSenders()) != 0 {
		t.Fatalf("Block of no mailbox: %+v, want %+v, which blocks nobody", r, want)
	}
	if err := fixture.client.RemoveRules(t.Context()); err != nil || len(fixture.rules()) != 0 {
		t.Fatalf("RemoveRules: %v; the rules are %v, want none", err, fixture.rules())
	}
	if err := fixture.client.RemoveRules(t.Context()); err != nil {
		t.Fatalf("the second RemoveRules: %v, want no error", err)
	}
}

// TestRemoveRulesRemovesARecreatedRule creates the rule again directly after RemoveRules has
// removed it, as a concurrent client could.
func TestRemoveRulesRemovesARecreatedRule(t *testing.T) {
	afterRemoval := func() {}
	fixture := newSendingTenant(t, newTestEnvWithHook(t, exchange.RemoveTransportRule, func() { afterRemoval() }))
	fixture.block(fixture.domain, fixture.mailboxes[0])
	removals := 0
	afterRemoval = func() {
		if removals++; removals == 1 {
			fixture.block(fixture.domain, fixture.mailboxes[0])
		}
	}
	if err := fixture.client.RemoveRules(t.Context()); err != nil || len(fixture.rules()) != 0 || removals != 2 {
		t.Errorf("RemoveRules: %v after %d removals, want 2; the rules are %v, want none", err, removals, fixture.rules())
	}
}

// TestARuleThatAConcurrentCallCreatesIsNotReportedAsWritten lets a concurrent EnsureRule create the
// rule after the tested EnsureRule has read that the rule does not exist. The creation by the
// tested EnsureRule then fails.
func TestARuleThatAConcurrentCallCreatesIsNotReportedAsWritten(t *testing.T) {
	afterRead := func() {}
	fixture := newSendingTenant(t, newTestEnvWithHook(t, exchange.GetTransportRule, func() { afterRead() }))
	var created sendlimit.Rule
	afterRead = func() {
		afterRead = func() {}
		var err error
		if created, err = fixture.client.EnsureRule(t.Context(), fixture.domain, fixture.mailboxes); err != nil || !created.Created || !created.Written {
			t.Errorf("the concurrent EnsureRule: %+v, %v, want a created and written rule", created, err)
		}
	}
	found, err := fixture.client.EnsureRule(t.Context(), fixture.domain, fixture.mailboxes)
	if err != nil || found.ID != created.ID || found.Created || found.Written {
		t.Errorf("the tested EnsureRule: %+v, %v, want the rule %s, neither created nor written", found, err, created.ID)
	}
}

// newTestEnvWithHook returns an environment whose plugin calls hook after each request that runs
// cmdlet.
func newTestEnvWithHook(t *testing.T, cmdlet string, hook func()) *testEnv {
	t.Helper()
	return newTestEnvWith(t, func(connection sdk.Connection) sdk.MailPlatform {
		state := newProcessState()
		state.httpClient.Transport = cmdletHook{next: state.httpClient.Transport, cmdlet: cmdlet, hook: hook}
		platform, err := state.newPlatform(connection)
		if err != nil {
			t.Fatal(err)
		}
		return platform
	})
}

// cmdletHook calls the function hook after each request to Exchange that runs the command cmdlet.
type cmdletHook struct {
	next   http.RoundTripper
	cmdlet string
	hook   func()
}

// RoundTrip implements http.RoundTripper.
func (h cmdletHook) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := h.next.RoundTrip(r)
	if bytes.Contains(body, []byte(h.cmdlet)) {
		h.hook()
	}
	return resp, err
}

// TestForeignRulesAreNotTouched checks that a rule stays unchanged if its name only resembles the
// name of a managed rule. If the plugin reads a rule by an unknown name, the platform answers with
// all rules of the tenant.
func TestForeignRulesAreNotTouched(t *testing.T) {
	fixture := newSendingTenant(t, newTestEnv(t))
	foreignRules := []string{"Disclaimer", "tenantry-block", "tenantry-block-mine", sendlimit.RuleName(fixture.domain) + " (old)"}
	for _, name := range foreignRules {
		fixture.runAsAdministrator(exchange.NewTransportRule, options{"Name": name, "Enabled": false, "From": fixture.mailboxes, "DeleteMessage": true})
	}
	before := fmt.Sprint(fixture.rules())
	for _, scope := range []string{sendlimit.TenantWide, fixture.domain} {
		if r := fixture.block(scope); r.Name != "" {
			t.Fatalf("Block of no mailbox returns %+v, want no rule", r)
		}
		fixture.block(scope, fixture.mailboxes[0])
		fixture.block(scope)
	}
	if err := fixture.client.RemoveRules(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := fmt.Sprint(fixture.rules()); after != before {
		t.Fatalf("the foreign rules are %s, want %s", after, before)
	}
}

// TestRulesListsManagedRules checks that Rules lists no foreign rule, that the case of names does
// not matter, and that a rule in the mode Audit is listed as one that blocks no mailbox.
func TestRulesListsManagedRules(t *testing.T) {
	fixture := newSendingTenant(t, newTestEnv(t))
	fixture.runAsAdministrator(exchange.NewTransportRule, options{"Name": "Disclaimer", "Enabled": true, "From": fixture.mailboxes, "DeleteMessage": true})
	if rules := fixture.listRules(); len(rules) != 0 {
		t.Fatalf("listed are %+v, want no foreign rule", rules)
	}
	domainRule := fixture.block(fixture.domain, fixture.mailboxes[1:]...)
	tenantWideName := strings.ToUpper(sendlimit.RuleName(sendlimit.TenantWide))
	fixture.runAsAdministrator(exchange.NewTransportRule, options{"Name": tenantWideName, "Enabled": true, "From": fixture.mailboxes[:1], "Mode": "Audit", "DeleteMessage": true})
	before := fmt.Sprint(fixture.rules())
	rules := fixture.listRules()
	slices.SortFunc(rules, func(a, b sendlimit.Rule) int { return strings.Compare(b.Name, a.Name) })
	if domainRule.Written, domainRule.Created = false, false; len(rules) != 2 || !cmp.Equal(rules[0], domainRule) || rules[1].Name != tenantWideName || len(rules[1].Blocks()) != 0 {
		t.Fatalf("listed are %+v, want %+v and a rule that blocks nobody", rules, domainRule)
	}
	if after := fmt.Sprint(fixture.rules()); after != before {
		t.Fatalf("after the call, the rules are %s, want %s", after, before)
	}
}

// TestRulesReportsAnAlteredRule checks that Rules reports an enabled rule as altered after each of
// several changes by an administrator.
func TestRulesReportsAnAlteredRule(t *testing.T) {
	fixture := newSendingTenant(t, newTestEnv(t))
	name := sendlimit.RuleName(fixture.domain)
	for _, alteration := range []options{
		{"ExceptIfFrom": fixture.mailboxes[:1]}, {"SenderAddressLocation": "Header"}, {"RejectMessageReasonText": "Go away."},
		{"RejectMessageEnhancedStatusCode": "5.7.1"}, {"DeleteMessage": true}, {"Mode": "Audit"}, {"SentToScope": "NotInOrganization"},
	} {
		fixture.block(fixture.domain, fixture.mailboxes[0])
		isUnaltered := func() bool {
			return sendlimit.RuleOf(fixture.domain, fixture.listRules()).Matches(fixture.mailboxes[:1])
		}
		if !isUnaltered() {
			t.Fatalf("the rule counts as altered before %v, want unaltered; the rules are %v", alteration, fixture.rules())
		}
		alteration["Identity"] = name
		if fixture.runAsAdministrator(exchange.SetTransportRule, alteration); isUnaltered() {
			t.Errorf("the rule counts as unaltered after %v, want altered", alteration)
		}
	}
}

// TestAnExistingRuleIsAdopted checks that EnsureRule uses a rule with the managed name that an
// administrator created, and that Block corrects it.
func TestAnExistingRuleIsAdopted(t *testing.T) {
	fixture := newSendingTenant(t, newTestEnv(t))
	name := sendlimit.RuleName(sendlimit.TenantWide)
	fixture.runAsAdministrator(exchange.NewTransportRule, options{"Name": strings.ToUpper(name), "From": []string{fixture.mailboxes[2]}, "DeleteMessage": true, "Enabled": true})
	found, err := fixture.client.EnsureRule(t.Context(), sendlimit.TenantWide, fixture.mailboxes)
	if err != nil || found.Created || found.Written || !slices.Equal(found.Blocks(), fixture.mailboxes[2:]) {
		t.Fatalf("EnsureRule: %+v, %v, want the existing rule, unchanged", found, err)
	}
	if r := fixture.block(sendlimit.TenantWide, fixture.mailboxes[0]); !slices.Equal(r.Blocks(), fixture.mailboxes[:1]) || len(fixture.rules()) != 1 {
		t.Fatalf("Block: %+v, want it to block %v; the rules are %v, want one", r, fixture.mailboxes[:1], fixture.rules())
	}
	if got := fixture.blockedSenders(); !slices.Equal(got, fixture.mailboxes[:1]) {
		t.Fatalf("the blocked mailboxes are %v, want %v", got, fixture.mailboxes[:1])
	}
}

// TestEnsureRuleDisablesARuleWithoutSenders checks that EnsureRule disables a managed rule that
// blocks all mail because it has no senders.
func TestEnsureRuleDisablesARuleWithoutSenders(t *testing.T) {
	fixture := newSendingTenant(t, newTestEnv(t))
	fixture.block(sendlimit.TenantWide, fixture.mailboxes[0])
	fixture.runAsAdministrator(exchange.SetTransportRule, options{"Identity": sendlimit.RuleName(sendlimit.TenantWide), "From": []string{}})
	if got := fixture.blockedSenders(); len(got) != len(fixture.allSenders()) {
		t.Fatalf("a rule without senders blocks %v, want all mailboxes", got)
	}
	r, err := fixture.client.EnsureRule(t.Context(), sendlimit.TenantWide, fixture.mailboxes)
	if err != nil || r.Enabled || !r.Written || len(fixture.blockedSenders()) != 0 {
		t.Fatalf("EnsureRule: %+v, %v, want a disabled rule that blocks nobody", r, err)
	}
}
