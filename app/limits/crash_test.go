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

// life ends a process at one of its steps, before or after the step's effect.
type life struct {
	left  int
	after bool
	dead  bool
}

func (l *life) step(do func() error) error {
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

type mortalPolicies struct {
	ports.SendPolicies
	*life
}

func (m mortalPolicies) ReservePolicy(ctx context.Context, owner access.AccountID, id tenant.GUID, scope string, now time.Time) (p sendlimit.Policy, err error) {
	err = m.step(func() error { p, err = m.SendPolicies.ReservePolicy(ctx, owner, id, scope, now); return err })
	return p, err
}

func (m mortalPolicies) SavePolicy(ctx context.Context, owner access.AccountID, p sendlimit.Policy) error {
	return m.step(func() error { return m.SendPolicies.SavePolicy(ctx, owner, p) })
}

type mortalPlatform struct {
	ports.MailPlatform
	*life
}

type mortalTenant struct {
	ports.MailTenant
	*life
}

func (m mortalPlatform) For(id tenant.GUID) ports.MailTenant {
	return mortalTenant{m.MailPlatform.For(id), m.life}
}

func (m mortalTenant) EnsureRule(ctx context.Context, scope string, all []string) (r sendlimit.Rule, err error) {
	err = m.step(func() error { r, err = m.MailTenant.EnsureRule(ctx, scope, all); return err })
	return r, err
}

// Wherever the process ends, no policy is in force without its rule, no rule is
// there that nobody knows of, and the same request converges with one rule.
func TestSetConvergesAfterACrash(t *testing.T) {
	for _, after := range []bool{false, true} {
		for steps := range 3 {
			t.Run(fmt.Sprintf("step %d, after its effect %v", steps, after), func(t *testing.T) {
				h := newHouse(t)
				l := &life{left: steps, after: after}
				h.Policies, h.Platform = mortalPolicies{h.store, l}, mortalPlatform{h.fake, l}
				if _, err := h.Set(t.Context(), h.owner, guid, limits.Wanted{PerDay: 5}); !errors.Is(err, errDead) {
					t.Fatalf("the process did not end: %v", err)
				}
				h.Policies, h.Platform = h.store, h.fake
				rules := h.fake.Holds(guid).Rules
				if _, err := h.Get(t.Context(), h.owner, guid, nil); err == nil && len(rules) == 0 || err != nil && !errors.Is(err, fault.PolicyNotFound) {
					t.Errorf("%v with the rules %+v", err, rules)
				}
				known, err := h.store.RuledScopes(t.Context(), h.owner, guid)
				must(t, err)
				if len(rules) > 0 && !slices.Contains(known, sendlimit.TenantWide) {
					t.Errorf("nobody knows of %+v", rules)
				}
				out := h.set(t, nil, 5)
				if rules = h.fake.Holds(guid).Rules; len(rules) != 1 || rules[0].ID != out.Policy.RuleID || rules[0].Enabled || h.fake.Effects("EnsureRule") != 1 {
					t.Errorf("%+v, and the rules %+v", out, rules)
				}
			})
		}
	}
}
