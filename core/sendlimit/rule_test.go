// SPDX-License-Identifier: Apache-2.0

package sendlimit_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/sendlimit"
)

func TestRuleNamesShowTheirScope(t *testing.T) {
	longDomain := strings.Repeat("a", 50) + ".test"
	for scope, want := range map[string]string{
		sendlimit.TenantWide: "tenantry-block-tenantwide",
		"Example.test":       "tenantry-block-example.test",
		longDomain:           "tenantry-block-" + strings.Repeat("a", 36) + "-93fc63bf2a2f",
	} {
		if got := sendlimit.RuleName(scope); got != want {
			t.Errorf("the rule of %q is %s, want %s", scope, got, want)
		}
	}
	if scope := sendlimit.ScopeOfRule(sendlimit.RuleName(sendlimit.TenantWide)); scope != sendlimit.TenantWide {
		t.Errorf("the scope of the tenant-wide rule is %q, want TenantWide", scope)
	}
	for _, foreign := range []string{"", "Disclaimer", "tenantry-block-", "tenantry-block-mine", "my tenantry-block-a.test", "tenantry-block-a b.test", "tenantry-block-."} {
		if sendlimit.IsRuleName(foreign) {
			t.Errorf("IsRuleName accepts %q, which is not a name that RuleName returns", foreign)
		}
	}
}

// TestRuleNamesAreUnique checks that the rule name of any domain is valid at the platform,
// recognized by IsRuleName, and unique.
func TestRuleNamesAreUnique(t *testing.T) {
	domainGenerator := rapid.StringMatching(`([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.){1,4}[a-z]{2,10}`)
	rapid.Check(t, func(t *rapid.T) {
		domain, otherDomain := domainGenerator.Draw(t, "one"), domainGenerator.Draw(t, "other")
		name := sendlimit.RuleName(domain)
		if len(name) > 64 || !sendlimit.IsRuleName(name) || !sendlimit.IsRuleName(strings.ToUpper(name)) {
			t.Fatalf("the rule %q of %s is too long, or IsRuleName refuses it", name, domain)
		}
		if domain != otherDomain && name == sendlimit.RuleName(otherDomain) {
			t.Fatalf("%s and %s have the same rule %s", domain, otherDomain, name)
		}
		if name == sendlimit.RuleName(sendlimit.TenantWide) || name != sendlimit.RuleName(strings.ToUpper(domain)) {
			t.Fatalf("the rule %s of %s is the tenant-wide rule, or depends on the letter case", name, domain)
		}
		if nameOfScope := sendlimit.RuleName(sendlimit.ScopeOfRule(strings.ToUpper(name))); nameOfScope != name {
			t.Fatalf("the scope of the rule %s has the rule %s, want the same rule", name, nameOfScope)
		}
	})
}
