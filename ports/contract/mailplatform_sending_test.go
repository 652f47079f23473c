// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

// brokenRulesOrTrace wraps a tenant and replaces methods about rules or the message trace. A nil
// field keeps the method of the tenant.
type brokenRulesOrTrace struct {
	ports.MailTenant
	ensure func(context.Context, ports.MailTenant, string, []string) (sendlimit.Rule, error)
	block  func(context.Context, ports.MailTenant, string, []string) (sendlimit.Rule, error)
	rules  func(context.Context, ports.MailTenant) ([]sendlimit.Rule, error)
	remove func(context.Context, ports.MailTenant) error
	sent   func(context.Context, ports.MailTenant, sendlimit.TraceQuery) (sendlimit.Trace, error)
}

func (b brokenRulesOrTrace) EnsureRule(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	if b.ensure != nil {
		return b.ensure(ctx, b.MailTenant, scope, mailboxes)
	}
	return b.MailTenant.EnsureRule(ctx, scope, mailboxes)
}

func (b brokenRulesOrTrace) Block(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	if b.block != nil {
		return b.block(ctx, b.MailTenant, scope, mailboxes)
	}
	return b.MailTenant.Block(ctx, scope, mailboxes)
}

func (b brokenRulesOrTrace) Rules(ctx context.Context) ([]sendlimit.Rule, error) {
	if b.rules != nil {
		return b.rules(ctx, b.MailTenant)
	}
	return b.MailTenant.Rules(ctx)
}

func (b brokenRulesOrTrace) RemoveRules(ctx context.Context) error {
	if b.remove != nil {
		return b.remove(ctx, b.MailTenant)
	}
	return b.MailTenant.RemoveRules(ctx)
}

func (b brokenRulesOrTrace) Sent(ctx context.Context, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
	if b.sent != nil {
		return b.sent(ctx, b.MailTenant, q)
	}
	return b.MailTenant.Sent(ctx, q)
}

// changedRule returns a wrapper that changes each rule that a call returns.
func changedRule(change func(*sendlimit.Rule)) brokenRulesOrTrace {
	return brokenRulesOrTrace{
		ensure: func(ctx context.Context, m ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
			r, err := m.EnsureRule(ctx, scope, list)
			change(&r)
			return r, err
		},
		block: func(ctx context.Context, m ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
			r, err := m.Block(ctx, scope, list)
			change(&r)
			return r, err
		},
	}
}

// changedRules returns a wrapper that changes the result of Rules.
func changedRules(change func([]sendlimit.Rule) []sendlimit.Rule) brokenRulesOrTrace {
	return brokenRulesOrTrace{rules: func(ctx context.Context, m ports.MailTenant) ([]sendlimit.Rule, error) {
		listed, err := m.Rules(ctx)
		return change(listed), err
	}}
}

// changedTracePage returns a wrapper that changes each page of the message trace.
func changedTracePage(change func(*sendlimit.Trace)) brokenRulesOrTrace {
	return brokenRulesOrTrace{sent: func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		page, err := m.Sent(ctx, q)
		page.Sent = slices.Clone(page.Sent)
		change(&page)
		return page, err
	}}
}

// brokenRules are tenants that break one promise about rules each, keyed by a description of the
// fault.
var brokenRules = map[string]brokenRulesOrTrace{
	"EnsureRule enables the rule": {ensure: func(ctx context.Context, m ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
		return m.Block(ctx, scope, list)
	}},
	"EnsureRule creates the rule again": {ensure: func(ctx context.Context, m ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
		_ = m.RemoveRules(ctx)
		return m.EnsureRule(ctx, scope, list)
	}},
	"an empty list changes nothing": {block: func(ctx context.Context, m ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
		if len(list) == 0 {
			r, err := m.EnsureRule(ctx, scope, nil)
			r.Enabled, r.Written = false, true
			return r, err
		}
		return m.Block(ctx, scope, list)
	}},
	"a list is added to the earlier one": {block: func(ctx context.Context, m ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
		if r, err := m.EnsureRule(ctx, scope, nil); err == nil && len(list) > 0 {
			list = slices.Concat(list, r.Blocks())
		}
		return m.Block(ctx, scope, list)
	}},
	"nothing is written": {block: func(_ context.Context, _ ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
		return sendlimit.Rule{ID: "1", Name: sendlimit.RuleName(scope), Enabled: len(list) > 0, Lists: list, Written: true}, nil
	}},
	"one rule for all scopes": {block: func(ctx context.Context, m ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
		r, err := m.Block(ctx, "any.test", list)
		r.Name = sendlimit.RuleName(scope)
		return r, err
	}},
	"changes by others are not repaired": {block: func(ctx context.Context, m ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
		if r, err := m.EnsureRule(ctx, scope, nil); err == nil && r.ID != "" && !r.Enabled && len(list) == 1 {
			return r, nil
		}
		return m.Block(ctx, scope, list)
	}},
	"every rule is reported as written": changedRule(func(r *sendlimit.Rule) { r.Written = r.ID != "" }),
	"no rule is reported as written":    changedRule(func(r *sendlimit.Rule) { r.Written = false }),
	"every rule is reported as created": changedRule(func(r *sendlimit.Rule) { r.Created = r.ID != "" }),
	"no rule is reported as created":    changedRule(func(r *sendlimit.Rule) { r.Created = false }),
	"the rule has no id":                changedRule(func(r *sendlimit.Rule) { r.ID = "" }),
	"the rule has a different name":     changedRule(func(r *sendlimit.Rule) { r.Name = strings.ToUpper(r.Name) }),
	"the addresses are not sorted":      changedRule(func(r *sendlimit.Rule) { slices.Reverse(r.Lists) }),
	"the case of addresses is kept": {block: func(ctx context.Context, m ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
		r, err := m.Block(ctx, scope, list)
		r.Lists = list
		return r, err
	}},
	"no rule is listed": changedRules(func([]sendlimit.Rule) []sendlimit.Rule { return nil }),
	"disabled rules are not listed": changedRules(func(listed []sendlimit.Rule) []sendlimit.Rule {
		return slices.DeleteFunc(listed, func(r sendlimit.Rule) bool { return !r.Enabled })
	}),
	"disabled rules are listed as enabled": changedRules(func(listed []sendlimit.Rule) []sendlimit.Rule {
		for i := range listed {
			listed[i].Enabled = true
		}
		return listed
	}),
	"altered rules are listed as unaltered": changedRules(func(listed []sendlimit.Rule) []sendlimit.Rule {
		for i := range listed {
			listed[i].Altered = false
		}
		return listed
	}),
	"unaltered rules are listed as altered": changedRules(func(listed []sendlimit.Rule) []sendlimit.Rule {
		for i := range listed {
			listed[i].Altered = listed[i].Enabled
		}
		return listed
	}),
	"listing repairs rules": {rules: func(ctx context.Context, m ports.MailTenant) ([]sendlimit.Rule, error) {
		listed, err := m.Rules(ctx)
		for _, r := range listed {
			if r.Name == sendlimit.RuleName(sendlimit.TenantWide) {
				_, _ = m.Block(ctx, sendlimit.TenantWide, r.Blocks()[:1])
			}
		}
		return listed, err
	}},
	"a failed listing is an empty list": {rules: func(ctx context.Context, m ports.MailTenant) ([]sendlimit.Rule, error) {
		listed, _ := m.Rules(ctx)
		return listed, nil
	}},
	"nothing is removed": {remove: func(context.Context, ports.MailTenant) error { return nil }},
	"a lost answer is reported as no effect": {block: func(ctx context.Context, m ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
		r, err := m.Block(ctx, scope, list)
		if outcome.KindOf(err) == outcome.Unknown {
			err = &outcome.Error{Kind: outcome.Down}
		}
		return r, err
	}},
	"every failure is reported as unknown": {block: func(ctx context.Context, m ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
		r, err := m.Block(ctx, scope, list)
		if err != nil {
			err = &outcome.Error{Kind: outcome.Unknown}
		}
		return r, err
	}},
}

// brokenTraces are tenants that break one promise about the message trace each, keyed by a
// description of the fault.
var brokenTraces = map[string]brokenRulesOrTrace{
	"only the first page is returned": changedTracePage(func(p *sendlimit.Trace) { p.Next = "" }),
	"the pages have no end":           changedTracePage(func(p *sendlimit.Trace) { p.Next = "1" }),
	"blocked mail counts as sent": changedTracePage(func(p *sendlimit.Trace) {
		for i := range p.Sent {
			p.Sent[i].Refused = false
		}
	}),
	"all mail counts as refused": changedTracePage(func(p *sendlimit.Trace) {
		for i := range p.Sent {
			p.Sent[i].Refused = true
		}
	}),
	"the time of a message is an hour late": changedTracePage(func(p *sendlimit.Trace) {
		for i := range p.Sent {
			p.Sent[i].At = p.Sent[i].At.Add(time.Hour)
		}
	}),
	"each row is reported as a message": changedTracePage(func(p *sendlimit.Trace) {
		for i := range p.Sent {
			p.Sent[i].Message += "/" + strconv.Itoa(i)
		}
	}),
	"the end of the span is included": {sent: func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		q.To = q.To.Add(time.Second)
		return m.Sent(ctx, q)
	}},
	"the beginning of the span is excluded": {sent: func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		q.From = q.From.Add(time.Nanosecond)
		return m.Sent(ctx, q)
	}},
	"the span begins a second early": {sent: func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		q.From = q.From.Add(-time.Second)
		return m.Sent(ctx, q)
	}},
	"messages of other senders are returned": {sent: func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		listed, err := m.Mailboxes(ctx)
		if err != nil {
			return sendlimit.Trace{}, err
		}
		q.Senders = nil
		for _, listedMailbox := range listed {
			q.Senders = append(q.Senders, listedMailbox.Address)
		}
		return m.Sent(ctx, q)
	}},
	"only messages of the first sender are returned": {sent: func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		q.Senders = q.Senders[:min(1, len(q.Senders))]
		return m.Sent(ctx, q)
	}},
	"a failure is reported as an empty page": {sent: func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		page, _ := m.Sent(ctx, q)
		return page, nil
	}},
	"an invalid cursor reads the first page": {sent: func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		if _, err := strconv.Atoi(q.Cursor); err != nil {
			q.Cursor = ""
		}
		return m.Sent(ctx, q)
	}},
}

func TestSendSuitesDetectBrokenPromises(t *testing.T) {
	for _, suite := range []struct {
		checks []mailCheck
		broken map[string]brokenRulesOrTrace
	}{{ruleChecks, brokenRules}, {traceChecks, brokenTraces}} {
		for name, broken := range suite.broken {
			t.Run(name, func(t *testing.T) {
				requireDetected(t, suite.checks, func() MailPlatformEnv {
					env := newFakeEnv()
					platform := brokenTenant(func(m ports.MailTenant) brokenRulesOrTrace { broken.MailTenant = m; return broken })
					platform.MailPlatform = env.fake
					env.platform = platform
					return env
				})
			})
		}
	}
}
