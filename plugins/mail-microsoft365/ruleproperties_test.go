// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
)

// TestBlockStopsOnlyTheListedMailboxes calls Block with random scopes and lists. Before each call
// it may change the rule as an administrator of the tenant could. In the end, the rules must block
// exactly the mailboxes in the last list of each scope.
func TestBlockStopsOnlyTheListedMailboxes(t *testing.T) {
	env := newTestEnv(t)
	fixture := newSendingTenant(t, env)
	env.setBehaviour(t, fixture.tenantInfo.GUID, options{"trace_quota": 1_000_000}) // more queries than the test sends
	scopes := []string{sendlimit.TenantWide, fixture.domain}
	checkProperty(t, func(rt *rapid.T) {
		lists := map[string][]string{}
		if err := fixture.client.RemoveRules(t.Context()); err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 3).Draw(rt, "writes") {
			scope := rapid.SampledFrom(scopes).Draw(rt, "scope")
			changeRuleAsAdministrator(rt, fixture, scope)
			list := rapid.SliceOfN(rapid.SampledFrom(append(fixture.mailboxes, strings.ToUpper(fixture.mailboxes[0]), "", " ", "@", "*")), 0, 4).Draw(rt, "list")
			rule, err := fixture.client.Block(t.Context(), scope, list)
			if slices.ContainsFunc(list, func(entry string) bool { return len(entry) < len("a@b") }) {
				expectOutcome(t, err, outcome.Refused, fault.ProviderError)
				// The refused call left the rule as the administrator had changed it. A call
				// without mailboxes disables the rule.
				list = nil
				rule, err = fixture.client.Block(t.Context(), scope, list)
			}
			if err != nil {
				rt.Fatalf("Block of %v in the scope %q: %v", list, scope, err)
			}
			want := normalizedAddresses(list)
			if !slices.Equal(rule.Blocks(), want) {
				rt.Fatalf("the rule of the scope %q blocks %v, want %v", scope, rule.Blocks(), want)
			}
			lists[scope] = want
		}
		if got, want := fixture.blockedSenders(), normalizedAddresses(slices.Concat(lists[scopes[0]], lists[scopes[1]])); !slices.Equal(got, want) {
			rt.Fatalf("the blocked senders are %v, want %v; the rules are %v", got, want, fixture.rules())
		}
	})
}

// checkProperty checks a property with 20 random inputs, because each check is slow. If
// TENANTRY_SOAK is set, the flag -rapid.checks sets the number of inputs.
func checkProperty(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if !soak.Enabled() {
		before := checks.Value.String()
		defer func() { _ = checks.Value.Set(before) }()
		if err := checks.Value.Set("20"); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, property)
}

// normalizedAddresses returns the addresses in lower case, sorted and without duplicates.
func normalizedAddresses(list []string) []string {
	var values []string
	for _, address := range list {
		values = append(values, strings.ToLower(address))
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// changeRuleAsAdministrator makes a random change, or none, to the managed rule of a scope. It does
// nothing if the rule does not exist.
func changeRuleAsAdministrator(rt *rapid.T, fixture *sendingTenant, scope string) {
	name := sendlimit.RuleName(scope)
	if fixture.managedRule(scope) == "" {
		return
	}
	switch rapid.SampledFrom([]string{"nothing", "remove the senders", "enable", "add an exception", "add a condition", "set mode Audit"}).Draw(rt, "change") {
	case "remove the senders":
		fixture.runAsAdministrator(exchange.SetTransportRule, options{"Identity": name, "From": nil})
	case "enable":
		fixture.runAsAdministrator(exchange.EnableTransportRule, options{"Identity": name})
	case "add an exception":
		fixture.runAsAdministrator(exchange.SetTransportRule, options{"Identity": name, "ExceptIfFrom": []string{fixture.mailboxes[0]}})
	case "add a condition":
		fixture.runAsAdministrator(exchange.SetTransportRule, options{"Identity": name, "SentToScope": "InOrganization"})
	case "set mode Audit":
		fixture.runAsAdministrator(exchange.SetTransportRule, options{"Identity": name, "Mode": "Audit"})
	}
}

// TestAnEmptySenderListIsNeverSent checks that write refuses an empty list, and that ensureStep and
// blockStep choose no step that writes senders if there are none. It also checks that blockStep
// disables an enabled rule without senders and does not enable such a rule.
func TestAnEmptySenderListIsNeverSent(t *testing.T) {
	fake := newFakePlatform(t) // it has no answer for rule cmdlets and fails the test if a rule cmdlet is sent
	update := &ruleUpdate{tenantClient: fake.client.(*tenantClient), name: "tenantry-block-a.example"}
	for _, step := range []ruleStep{stepCreateDisabled, stepCreateEnabled, stepSetSenders} {
		if err := update.write(t.Context(), step); outcome.KindOf(err) != outcome.Broken {
			t.Errorf("write of step %d without senders: %v, want broken", step, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		row := ruleRow{
			State:      exchange.Text(rapid.SampledFrom([]string{"Enabled", "Disabled"}).Draw(t, "state")),
			Mode:       exchange.Text(rapid.SampledFrom([]string{"Enforce", "Audit", ""}).Draw(t, "mode")),
			From:       rapid.SliceOfN(rapid.SampledFrom([]string{"a@a.example", "b@a.example"}), 0, 2).Draw(t, "from"),
			ExpiryDate: exchange.Text(rapid.SampledFrom([]string{"", "2026-11-02"}).Draw(t, "ends")),
		}
		for _, next := range []nextStep{ensureStep, blockStep} {
			step := next(row, rapid.Bool().Draw(t, "found"), nil)
			if step != stepDone && step != stepDisable {
				t.Fatalf("got the step %d without senders for %+v, want stepDone or stepDisable", step, row)
			}
		}
		step := blockStep(row, true, []string{"a@a.example"})
		if step == stepEnable && row.hasNoSenders() || row.isEnabled() && row.hasNoSenders() && step != stepDisable {
			t.Fatalf("got the step %d for %+v, want stepDisable if the rule is enabled, and not stepEnable", step, row)
		}
	})
}

// TestThirtySixAddressesFitIntoARule checks the number in README.md: 36 addresses of 200 characters
// fit into a rule. 36 addresses of 254 characters, the greatest length of an address, do not fit.
func TestThirtySixAddressesFitIntoARule(t *testing.T) {
	for length, want := range map[int]outcome.Kind{200: 0, 254: outcome.Refused} {
		var addresses []string
		for i := range 36 {
			addresses = append(addresses, fmt.Sprintf("%s%02d@a.example", strings.Repeat("x", length-len("00@a.example")), i))
		}
		if _, err := ruleSenders(sendlimit.RuleName(sendlimit.TenantWide), addresses); outcome.KindOf(err) != want {
			t.Errorf("36 addresses of %d characters: got %v, want the kind %v", len(addresses[0]), err, want)
		}
	}
}
