// SPDX-License-Identifier: Apache-2.0

package limits_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/limits"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// crashingPolicies is a store in which ReservePolicy and ChangePolicy are steps of a
// fake.CrashingProcess. That process crashes at one of its steps.
type crashingPolicies struct {
	ports.SendPolicies

	process *fake.CrashingProcess
}

func (p crashingPolicies) ReservePolicy(ctx context.Context, owner access.AccountID, id tenant.GUID, scope string, now time.Time) (sendlimit.Policy, error) {
	return fake.StepWithResult(ctx, p.process, func() (sendlimit.Policy, error) { return p.SendPolicies.ReservePolicy(ctx, owner, id, scope, now) })
}

func (p crashingPolicies) ChangePolicy(ctx context.Context, owner access.AccountID, policyID string, change func(sendlimit.Policy) (sendlimit.Policy, *ports.StoredAnswer, error)) error {
	return p.process.Step(ctx, func() error { return p.SendPolicies.ChangePolicy(ctx, owner, policyID, change) })
}

// crashingPlatform is a platform in which EnsureRule is a step of a fake.CrashingProcess.
type crashingPlatform struct {
	ports.MailPlatform

	process *fake.CrashingProcess
}

type crashingTenant struct {
	ports.MailTenant

	process *fake.CrashingProcess
}

func (p crashingPlatform) For(id tenant.GUID) ports.MailTenant {
	return crashingTenant{p.MailPlatform.For(id), p.process}
}

func (p crashingTenant) EnsureRule(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	return fake.StepWithResult(ctx, p.process, func() (sendlimit.Rule, error) { return p.MailTenant.EnsureRule(ctx, scope, mailboxes) })
}

// TestSetConvergesAfterACrash crashes the process once at each of the three steps of Set:
// ReservePolicy, EnsureRule and ChangePolicy. After the crash, no policy is in force without its
// rule. Each rule has a stored policy, which may be only reserved. After a repeated request there
// is exactly one rule.
func TestSetConvergesAfterACrash(t *testing.T) {
	for _, afterEffect := range []bool{false, true} {
		for step := range 3 {
			t.Run(fmt.Sprintf("step %d, after its effect %v", step, afterEffect), func(t *testing.T) {
				fx := newFixture(t)
				process := fake.NewCrashingProcess(step, afterEffect)
				fx.Policies, fx.Platform = crashingPolicies{fx.store, process}, crashingPlatform{fx.fake, process}
				if _, err := fx.Set(t.Context(), fx.owner, guid, limits.SetRequest{PerDay: 5}, nil); !errors.Is(err, fake.ErrCrashed) {
					t.Fatalf("got %v, want that the process crashed", err)
				}
				fx.Policies, fx.Platform = fx.store, fx.fake
				rules := fx.fake.SnapshotOf(guid).Rules
				if _, err := fx.Get(t.Context(), fx.owner, guid, nil); err == nil && len(rules) == 0 || err != nil && !errors.Is(err, fault.PolicyNotFound) {
					t.Errorf("Get after the crash: %v, although the rules are %+v", err, rules)
				}
				scopes, err := fx.store.ScopesWithRules(t.Context(), fx.owner, guid)
				must(t, err)
				if len(rules) > 0 && !slices.Contains(scopes, sendlimit.TenantWide) {
					t.Errorf("the scopes with a stored policy are %q, want the whole tenant, because the rules are %+v", scopes, rules)
				}
				result := fx.set(t, nil, 5)
				if rules = fx.fake.SnapshotOf(guid).Rules; len(rules) != 1 || rules[0].ID != result.Policy.RuleID || rules[0].Enabled || fx.fake.Effects("EnsureRule") != 1 {
					t.Errorf("the repeated Set returns %+v, and the rules are %+v, want exactly its rule", result, rules)
				}
			})
		}
	}
}
