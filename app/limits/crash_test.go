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

var errDead = errors.New("the process is dead")

// crashPlan crashes a process at one of its steps, before or after the effect of the step.
type crashPlan struct {
	left  int
	after bool
	dead  bool
}

func (l *crashPlan) step(do func() error) error {
	last := l.left == 0
	l.left--
	if l.dead || last && !l.after {
		l.dead = true
		return errDead
	}
	err := do()
	if l.dead = last; last {
		return errDead
	}
	return err
}

type crashingPolicies struct {
	ports.SendPolicies
	*crashPlan
}

func (m crashingPolicies) ReservePolicy(ctx context.Context, owner access.AccountID, id tenant.GUID, scope string, now time.Time) (p sendlimit.Policy, err error) {
	err = m.step(func() error { p, err = m.SendPolicies.ReservePolicy(ctx, owner, id, scope, now); return err })
	return p, err
}

func (m crashingPolicies) SavePolicy(ctx context.Context, owner access.AccountID, p sendlimit.Policy, completion *ports.Completion) error {
	return m.step(func() error { return m.SendPolicies.SavePolicy(ctx, owner, p, nil) })
}

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

func (m crashingTenant) EnsureRule(ctx context.Context, scope string, all []string) (r sendlimit.Rule, err error) {
	err = m.step(func() error { r, err = m.MailTenant.EnsureRule(ctx, scope, all); return err })
	return r, err
}

// The process crashes once at each step of a request. No policy is then in force without its
// rule, and each rule has a reserved policy. After a repeated request there is exactly one rule.
func TestSetConvergesAfterACrash(t *testing.T) {
	for _, after := range []bool{false, true} {
		for steps := range 3 {
			t.Run(fmt.Sprintf("step %d, after its effect %v", steps, after), func(t *testing.T) {
				fx := newFixture(t)
				l := &crashPlan{left: steps, after: after}
				fx.Policies, fx.Platform = crashingPolicies{fx.store, l}, crashingPlatform{fx.fake, l}
				if _, err := fx.Set(t.Context(), fx.owner, guid, limits.SetRequest{PerDay: 5}, nil); !errors.Is(err, errDead) {
					t.Fatalf("the process did not end: %v", err)
				}
				fx.Policies, fx.Platform = fx.store, fx.fake
				rules := fx.fake.SnapshotOf(guid).Rules
				if _, err := fx.Get(t.Context(), fx.owner, guid, nil); err == nil && len(rules) == 0 || err != nil && !errors.Is(err, fault.PolicyNotFound) {
					t.Errorf("%v with the rules %+v", err, rules)
				}
				known, err := fx.store.ScopesWithRules(t.Context(), fx.owner, guid)
				must(t, err)
				if len(rules) > 0 && !slices.Contains(known, sendlimit.TenantWide) {
					t.Errorf("no policy records the rules %+v", rules)
				}
				out := fx.set(t, nil, 5)
				if rules = fx.fake.SnapshotOf(guid).Rules; len(rules) != 1 || rules[0].ID != out.Policy.RuleID || rules[0].Enabled || fx.fake.Effects("EnsureRule") != 1 {
					t.Errorf("%+v, and the rules %+v", out, rules)
				}
			})
		}
	}
}
