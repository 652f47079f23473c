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

// ruleState is a rule and since when it is as it is.
type ruleState struct {
	sendlimit.Rule
	since time.Time
	// before is how it was until then; mail still meets that for Lag.Rule.
	before *ruleState
}

// change makes the rule another from now on.
func (r *ruleState) change(now time.Time, do func(*sendlimit.Rule)) {
	was := *r
	r.before, r.since = &was, now
	do(&r.Rule)
}

// blocks reports whether mail that an address sends now is stopped. A rule
// without senders stops everybody's.
func (r *ruleState) blocks(address string, now time.Time, lag time.Duration) bool {
	for at := r; at != nil; at = at.before {
		if !now.Before(at.since.Add(lag)) {
			return at.Enabled && (len(at.Lists) == 0 || slices.Contains(at.Lists, address))
		}
	}
	return false
}

// told is the rule as a call answers with it.
func (r *ruleState) told(made, written bool) sendlimit.Rule {
	out := r.Rule
	out.Lists, out.Made, out.Written, out.Altered = slices.Clone(r.Lists), made, written, r.Altered && r.Enabled
	return out
}

// Turn is a sender whose mail our rules began to stop, or ceased to: whichever
// of them, as far as they were enabled.
type Turn struct {
	Address string
	Blocked bool
}

// Turns are all turns of a tenant's senders so far, in order.
func (p *Platform) Turns(id tenant.GUID) []Turn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.tenants[id].turns)
}

// turn notes whom our rules stop now and did not before, or the other way round.
func (t *state) turn() {
	now := map[string]bool{}
	for name, r := range t.rules {
		for _, address := range r.Blocks() {
			now[address] = now[address] || sendlimit.IsRuleName(name)
		}
	}
	for _, address := range slices.Sorted(maps.Keys(now)) {
		if now[address] && !t.stopped[address] {
			t.turns = append(t.turns, Turn{address, true})
		}
	}
	for _, address := range slices.Sorted(maps.Keys(t.stopped)) {
		if t.stopped[address] && !now[address] {
			t.turns = append(t.turns, Turn{address, false})
		}
	}
	t.stopped = now
}

// ruled makes a call that may change rules.
func (c client) ruled(ctx context.Context, method, scope string, do func(*state) (bool, error)) error {
	return c.server(ctx, method, scope, func(t *state) (bool, error) {
		defer t.turn()
		return do(t)
	})
}

// EnsureRule implements ports.SendRules.
func (c client) EnsureRule(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	var out sendlimit.Rule
	err := c.ruled(ctx, "EnsureRule", scope, func(t *state) (bool, error) {
		if r := t.rules[sendlimit.RuleName(scope)]; r != nil {
			open := r.Enabled && len(r.Lists) == 0
			if open {
				r.change(c.p.now, func(r *sendlimit.Rule) { r.Enabled = false })
			}
			out = r.told(false, open)
			return open, nil
		}
		if len(mailboxes) == 0 {
			return false, nil
		}
		out = c.p.makeRule(t, scope, mailboxes, false).told(true, true)
		return true, nil
	})
	return out, err
}

// Block implements ports.SendRules.
func (c client) Block(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	var out sendlimit.Rule
	err := c.ruled(ctx, "Block", scope, func(t *state) (bool, error) {
		want, r := listed(mailboxes), t.rules[sendlimit.RuleName(scope)]
		switch {
		case r == nil && len(want) == 0:
			return false, nil
		case r == nil:
			out = c.p.makeRule(t, scope, want, true).told(true, true)
			return true, nil
		case r.told(false, false).Right(want):
			out = r.told(false, false)
			return false, nil
		}
		r.change(c.p.now, func(r *sendlimit.Rule) {
			if r.Enabled = len(want) > 0; r.Enabled {
				r.Lists, r.Altered = want, false
			}
		})
		out = r.told(false, true)
		return true, nil
	})
	return out, err
}

// Rules implements ports.SendRules.
func (c client) Rules(ctx context.Context) ([]sendlimit.Rule, error) {
	var out []sendlimit.Rule
	err := c.server(ctx, "Rules", "", func(t *state) (bool, error) {
		for _, name := range slices.Sorted(maps.Keys(t.rules)) {
			if sendlimit.IsRuleName(name) {
				out = append(out, t.rules[name].told(false, false))
			}
		}
		return false, nil
	})
	return out, err
}

// RemoveRules implements ports.SendRules.
func (c client) RemoveRules(ctx context.Context) error {
	return c.ruled(ctx, "RemoveRules", "", func(t *state) (bool, error) {
		held := len(t.rules)
		maps.DeleteFunc(t.rules, func(name string, _ *ruleState) bool { return sendlimit.IsRuleName(name) })
		return len(t.rules) < held, nil
	})
}

func (p *Platform) makeRule(t *state, scope string, mailboxes []string, enabled bool) *ruleState {
	p.serial++
	name := sendlimit.RuleName(scope)
	made := &ruleState{since: p.now, Rule: sendlimit.Rule{
		ID: fmt.Sprintf("00000000-0000-4000-9000-%012d", p.serial), Name: name, Enabled: enabled, Lists: listed(mailboxes),
	}}
	t.rules[name] = made
	return made
}

// listed are addresses as a rule lists them: in lower case, in order, once.
func listed(mailboxes []string) []string {
	var out []string
	for _, m := range mailboxes {
		out = append(out, strings.ToLower(m))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// SetRule is somebody else who makes a rule of the tenant, or changes one: its
// name decides which. One that he makes is not as ours are.
func (p *Platform) SetRule(id tenant.GUID, r sendlimit.Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tenants[id]
	defer t.turn()
	if t.rules[r.Name] == nil {
		p.serial++
		r.ID = fmt.Sprintf("00000000-0000-4000-9000-%012d", p.serial)
		r.Altered = true
		t.rules[r.Name] = &ruleState{since: p.now, Rule: r}
		return
	}
	t.rules[r.Name].change(p.now, func(now *sendlimit.Rule) {
		now.Enabled, now.Lists, now.Altered = r.Enabled, r.Lists, now.Altered || r.Altered
	})
}

// DropRule is somebody else who removes a rule.
func (p *Platform) DropRule(id tenant.GUID, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.tenants[id].rules, name)
	p.tenants[id].turn()
}
