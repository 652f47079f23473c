// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// ruleState is a rule and its earlier versions.
type ruleState struct {
	sendlimit.Rule
	changedAt time.Time // the time of the last change, or of the creation
	// previous is the rule before the change. It applies to mail until Lag.Rule has passed.
	previous *ruleState
}

// change changes the rule at the time now and keeps the previous state.
func (r *ruleState) change(now time.Time, do func(*sendlimit.Rule)) {
	previous := *r
	r.previous, r.changedAt = &previous, now
	do(&r.Rule)
}

// blocks reports whether the rule blocks mail that an address sends at the time now. An enabled
// rule without senders blocks every address.
func (r *ruleState) blocks(address string, now time.Time, lag time.Duration) bool {
	for version := r; version != nil; version = version.previous {
		if !now.Before(version.changedAt.Add(lag)) {
			return version.Enabled && (len(version.Lists) == 0 || slices.Contains(version.Lists, address))
		}
	}
	return false
}

// answer returns the rule in the form in which the port returns it.
func (r *ruleState) answer() sendlimit.Rule {
	answered := r.Rule
	answered.Lists, answered.Altered = slices.Clone(r.Lists), r.Altered && r.Enabled
	return answered
}

// BlockChange records that managed rules began to block a sender, or stopped blocking the sender.
type BlockChange struct {
	Address string
	Blocked bool
}

// BlockChanges returns all block changes of a tenant's senders, oldest first.
func (p *Platform) BlockChanges(id tenant.GUID) []BlockChange {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.tenants[id].blockChanges)
}

// recordBlockChanges compares the blocked senders with the blocked senders at its last call, and
// records the changes.
func (t *tenantState) recordBlockChanges() {
	blocked := map[string]bool{}
	for name, r := range t.rules {
		for _, address := range r.Blocks() {
			blocked[address] = blocked[address] || sendlimit.IsRuleName(name)
		}
	}
	for _, address := range slices.Sorted(maps.Keys(blocked)) {
		if blocked[address] && !t.blockedSenders[address] {
			t.blockChanges = append(t.blockChanges, BlockChange{address, true})
		}
	}
	for _, address := range slices.Sorted(maps.Keys(t.blockedSenders)) {
		if t.blockedSenders[address] && !blocked[address] {
			t.blockChanges = append(t.blockChanges, BlockChange{address, false})
		}
	}
	t.blockedSenders = blocked
}

// changeRules runs a call that may change rules, and records the block changes.
func (c tenantClient) changeRules(ctx context.Context, method, scope string, do func(*tenantState) (bool, error)) error {
	return c.callMailServer(ctx, method, scope, func(t *tenantState) (bool, error) {
		defer t.recordBlockChanges()
		return do(t)
	})
}

// EnsureRule implements ports.SendRules.
func (c tenantClient) EnsureRule(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	var rule sendlimit.Rule
	err := c.changeRules(ctx, "EnsureRule", scope, func(t *tenantState) (bool, error) {
		if r := t.rules[sendlimit.RuleName(scope)]; r != nil {
			blocksAll := r.Enabled && len(r.Lists) == 0
			if blocksAll {
				r.change(c.p.now, func(r *sendlimit.Rule) { r.Enabled = false })
			}
			rule = r.answer()
			rule.Written = blocksAll
			return blocksAll, nil
		}
		if len(mailboxes) == 0 {
			return false, nil
		}
		rule = c.p.makeRule(t, scope, mailboxes, false).answer()
		rule.Created, rule.Written = true, true
		return true, nil
	})
	return rule, err
}

// Block implements ports.SendRules.
func (c tenantClient) Block(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	var rule sendlimit.Rule
	err := c.changeRules(ctx, "Block", scope, func(t *tenantState) (bool, error) {
		addresses, r := normalized(mailboxes), t.rules[sendlimit.RuleName(scope)]
		switch {
		case r == nil && len(addresses) == 0:
			return false, nil
		case r == nil:
			rule = c.p.makeRule(t, scope, addresses, true).answer()
			rule.Created, rule.Written = true, true
			return true, nil
		case r.answer().Matches(addresses):
			rule = r.answer()
			return false, nil
		}
		r.change(c.p.now, func(r *sendlimit.Rule) {
			if r.Enabled = len(addresses) > 0; r.Enabled {
				r.Lists, r.Altered = addresses, false
			}
		})
		rule = r.answer()
		rule.Written = true
		return true, nil
	})
	return rule, err
}

// Rules implements ports.SendRules.
func (c tenantClient) Rules(ctx context.Context) ([]sendlimit.Rule, error) {
	var rules []sendlimit.Rule
	err := c.callMailServer(ctx, "Rules", "", func(t *tenantState) (bool, error) {
		listed := t.listedRules()
		for _, name := range slices.Sorted(maps.Keys(listed)) {
			if sendlimit.IsRuleName(name) {
				rules = append(rules, listed[name].answer())
			}
		}
		return false, nil
	})
	return rules, err
}

// RemoveRule implements ports.SendRules.
func (c tenantClient) RemoveRule(ctx context.Context, scope string) error {
	return c.changeRules(ctx, "RemoveRule", scope, func(t *tenantState) (bool, error) {
		countBefore := len(t.rules)
		delete(t.rules, sendlimit.RuleName(scope))
		return len(t.rules) < countBefore, nil
	})
}

// RemoveRules implements ports.SendRules.
func (c tenantClient) RemoveRules(ctx context.Context) error {
	return c.changeRules(ctx, "RemoveRules", "", func(t *tenantState) (bool, error) {
		countBefore := len(t.rules)
		for name := range t.listedRules() {
			if sendlimit.IsRuleName(name) {
				delete(t.rules, name)
			}
		}
		return len(t.rules) < countBefore, nil
	})
}

func (p *Platform) makeRule(t *tenantState, scope string, mailboxes []string, enabled bool) *ruleState {
	name := sendlimit.RuleName(scope)
	created := &ruleState{changedAt: p.now, Rule: sendlimit.Rule{
		ID: p.newRuleID(), Name: name, Enabled: enabled, Lists: normalized(mailboxes),
	}}
	t.rules[name] = created
	return created
}

func (p *Platform) newRuleID() string {
	p.serial++
	return fmt.Sprintf("00000000-0000-4000-9000-%012d", p.serial)
}

// normalized returns the addresses in lower case, sorted and without duplicates.
func normalized(mailboxes []string) []string {
	var addresses []string
	for _, m := range mailboxes {
		addresses = append(addresses, strings.ToLower(m))
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}

// SetRule creates a rule, or changes the rule with the same name, as a person can do at the
// platform. A rule that SetRule creates is marked Altered, because its form differs from the form
// of a managed rule.
func (p *Platform) SetRule(id tenant.GUID, r sendlimit.Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tenants[id]
	defer t.recordBlockChanges()
	if t.rules[r.Name] == nil {
		r.ID, r.Altered = p.newRuleID(), true
		t.rules[r.Name] = &ruleState{changedAt: p.now, Rule: r}
		return
	}
	t.rules[r.Name].change(p.now, func(rule *sendlimit.Rule) {
		rule.Enabled, rule.Lists, rule.Altered = r.Enabled, r.Lists, rule.Altered || r.Altered
	})
}

// FreezeRuleList makes later calls return the list of rules as it is now, like a lagging replica.
// RemoveRules then removes only the rules in this list.
func (p *Platform) FreezeRuleList(id tenant.GUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tenants[id]
	t.frozenRules = map[string]*ruleState{}
	for name, r := range t.rules {
		t.frozenRules[name] = &ruleState{Rule: r.answer(), changedAt: r.changedAt}
	}
}

// listedRules returns the rules that a list shows, by name.
func (t *tenantState) listedRules() map[string]*ruleState {
	if t.frozenRules != nil {
		return t.frozenRules
	}
	return t.rules
}

// DropRule removes a rule, as a person can do at the platform.
func (p *Platform) DropRule(id tenant.GUID, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.tenants[id].rules, name)
	p.tenants[id].recordBlockChanges()
}
