// SPDX-License-Identifier: Apache-2.0

package limits_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/app/limits"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

var errCrashed = errors.New("the process is dead")

// crashPlan crashes a process at one of its steps, before or after the effect of the step. Later
// calls of the process fail.
type crashPlan struct {
	stepsLeft   int
	afterEffect bool
	crashed     bool
}

// step executes do, unless the process has crashed. If this is the step of the crash, the process
// crashes before or after do.
func (p *crashPlan) step(do func() error) error {
	isCrashStep := p.stepsLeft == 0
	p.stepsLeft--
	if p.crashed || isCrashStep && !p.afterEffect {
		p.crashed = true
		return errCrashed
	}
	err := do()
	if p.crashed = isCrashStep; isCrashStep {
		return errCrashed
	}
	return err
}

// crashingPolicies is a store that crashes the process at ReservePolicy and SavePolicy.
type crashingPolicies struct {
	ports.SendPolicies
	*crashPlan
}

func (m crashingPolicies) ReservePolicy(ctx context.Context, owner access.AccountID, id tenant.GUID, scope string, now time.Time) (p sendlimit.Policy, err error) {
	err = m.step(func() error { p, err = m.SendPolicies.ReservePolicy(ctx, owner, id, scope, now); return err })
	return p, err
}

func (m crashingPolicies) SavePolicy(ctx context.Context, owner access.AccountID, p sendlimit.Policy, storedAnswer *ports.StoredAnswer) error {
	return m.step(func() error { return m.SendPolicies.SavePolicy(ctx, owner, p, nil) })
}

// crashingPlatform is a platform that crashes the process at EnsureRule.
type crashingPlatform struct {
	ports.MailPlatform
	*crashPlan
}

type crashingTenant struct {
	ports.MailTenant
	*crashPlan
}

func (m crashingPlatform) For(id tenant.GUID) ports.MailTenant {
	return crashingTenant{m.MailPlatform.For(id), m.crashPlan}
}

func (m crashingTenant) EnsureRule(ctx context.Context, scope string, mailboxes []string) (r sendlimit.Rule, err error) {
	err = m.step(func() error { r, err = m.MailTenant.EnsureRule(ctx, scope, mailboxes); return err })
	return r, err
}

// TestSetConvergesAfterACrash crashes the process once at each step of a request. After the crash,
// no policy is in force without its rule. Each rule has a stored policy, which may be only
// reserved. After a repeated request there is exactly one rule.
func TestSetConvergesAfterACrash(t *testing.T) {
	for _, afterEffect := range []bool{false, true} {
		for step := range 3 {
			t.Run(fmt.Sprintf("step %d, after its effect %v", step, afterEffect), func(t *testing.T) {
				fx := newFixture(t)
				plan := &crashPlan{stepsLeft: step, afterEffect: afterEffect}
				fx.Policies, fx.Platform = crashingPolicies{fx.store, plan}, crashingPlatform{fx.fake, plan}
				if _, err := fx.Set(t.Context(), fx.owner, guid, limits.SetRequest{PerDay: 5}, nil); !errors.Is(err, errCrashed) {
					t.Fatalf("the process did not end: %v", err)
				}
				fx.Policies, fx.Platform = fx.store, fx.fake
				rules := fx.fake.SnapshotOf(guid).Rules
				if _, err := fx.Get(t.Context(), fx.owner, guid, nil); err == nil && len(rules) == 0 || err != nil && !errors.Is(err, fault.PolicyNotFound) {
					t.Errorf("%v with the rules %+v", err, rules)
				}
				scopes, err := fx.store.ScopesWithRules(t.Context(), fx.owner, guid)
				must(t, err)
				if len(rules) > 0 && !slices.Contains(scopes, sendlimit.TenantWide) {
					t.Errorf("no policy records the rules %+v", rules)
				}
				result := fx.set(t, nil, 5)
				if rules = fx.fake.SnapshotOf(guid).Rules; len(rules) != 1 || rules[0].ID != result.Policy.RuleID || rules[0].Enabled || fx.fake.Effects("EnsureRule") != 1 {
					t.Errorf("%+v, and the rules %+v", result, rules)
				}
			})
		}
	}
}
