// SPDX-License-Identifier: Apache-2.0

package sendlimit_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/sendlimit"
)

func TestLimitsAreValidFrom1To25(t *testing.T) {
	for perDay, valid := range map[int]bool{-1: false, 0: false, 1: true, 25: true, 26: false, 1e9: false} {
		err := sendlimit.CheckLimit(perDay)
		if (err == nil) != valid || err != nil && (!errors.Is(err, fault.InvalidSendLimit) || len(fault.ErrorOf(err).Fields) != 1) {
			t.Errorf("the limit %d: got %v, want valid %t", perDay, err, valid)
		}
	}
}

func TestTheMostSpecificLimitApplies(t *testing.T) {
	bothPolicies := sendlimit.Policies{sendlimit.TenantWide: 20, "a.test": 10}
	for _, tc := range []struct {
		name        string
		policies    sendlimit.Policies
		ownLimit    int
		domain      string
		wantLimit   int
		wantScope   string
		wantCovered bool
	}{
		{"the mailbox's own limit takes precedence", bothPolicies, 5, "a.test", 5, "a.test", true},
		{"the own limit may be higher", bothPolicies, 25, "a.test", 25, "a.test", true},
		{"the limit of the domain", bothPolicies, 0, "a.test", 10, "a.test", true},
		{"the limit of the tenant", bothPolicies, 0, "b.test", 20, sendlimit.TenantWide, true},
		{"no limit", sendlimit.Policies{"a.test": 10}, 0, "b.test", 0, sendlimit.TenantWide, false},
		{"a stored limit without a policy is shown and not enforced", nil, 7, "b.test", 7, sendlimit.TenantWide, false},
	} {
		scope, covered := tc.policies.Covering(tc.domain)
		if got := tc.policies.Effective(tc.ownLimit, tc.domain); got != tc.wantLimit || scope != tc.wantScope || covered != tc.wantCovered {
			t.Errorf("%s: got %d, %q, %t; want %d, %q, %t", tc.name, got, scope, covered, tc.wantLimit, tc.wantScope, tc.wantCovered)
		}
	}
}

func TestPolicyWithTellsNewFromChanged(t *testing.T) {
	rule := sendlimit.Rule{ID: "r"}
	createdRule, correctedRule := rule, rule
	createdRule.Created, createdRule.Written, correctedRule.Written = true, true, true
	newRule := createdRule
	newRule.ID = "r2"
	existingPolicy := sendlimit.Policy{PerDay: 5, RuleID: "r", UpdatedAt: noon}
	changedAt := noon.Add(time.Hour)
	for _, tc := range []struct {
		name   string
		before sendlimit.Policy
		perDay int
		rule   sendlimit.Rule
		want   sendlimit.PolicyResult
	}{
		{"the first time", sendlimit.Policy{}, 5, createdRule, sendlimit.Created},
		{"the first time, with an existing rule", sendlimit.Policy{}, 5, rule, sendlimit.Created},
		{"the first time, without mailboxes", sendlimit.Policy{}, 5, sendlimit.Rule{}, sendlimit.Created},
		{"the same again", existingPolicy, 5, rule, sendlimit.Unchanged},
		{"a different limit", existingPolicy, 6, rule, sendlimit.Updated},
		{"a corrected rule", existingPolicy, 5, correctedRule, sendlimit.Updated},
		{"a missing rule", existingPolicy, 5, newRule, sendlimit.Created},
		{"a rule that a concurrent call has stored", existingPolicy, 5, createdRule, sendlimit.Unchanged},
		{"a rule that a concurrent call has stored with a different limit", existingPolicy, 6, createdRule, sendlimit.Updated},
	} {
		p, got := tc.before.With(tc.perDay, tc.rule, changedAt)
		if got != tc.want || p.PerDay != tc.perDay || p.RuleID != tc.rule.ID || (got == sendlimit.Unchanged) == p.UpdatedAt.Equal(changedAt) {
			t.Errorf("%s: got %s, %+v; want %s", tc.name, got, p, tc.want)
		}
	}
	if kept, _ := existingPolicy.With(6, sendlimit.Rule{}, changedAt); kept.RuleID != "r" {
		t.Errorf("without a rule: got %+v, want the stored RuleID", kept)
	}
}
