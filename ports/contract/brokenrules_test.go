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

// brokenSends breaks a promise about rules or the trace; a nil field keeps the
// fake's behaviour.
type brokenSends struct {
	ports.MailTenant
	ensure func(context.Context, ports.MailTenant, string, []string) (sendlimit.Rule, error)
	block  func(context.Context, ports.MailTenant, string, []string) (sendlimit.Rule, error)
	rules  func(context.Context, ports.MailTenant) ([]sendlimit.Rule, error)
	remove func(context.Context, ports.MailTenant) error
	sent   func(context.Context, ports.MailTenant, sendlimit.TraceQuery) (sendlimit.Trace, error)
}

func (b brokenSends) EnsureRule(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	if b.ensure != nil {
		return b.ensure(ctx, b.MailTenant, scope, mailboxes)
	}
	return b.MailTenant.EnsureRule(ctx, scope, mailboxes)
}

func (b brokenSends) Block(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	if b.block != nil {
		return b.block(ctx, b.MailTenant, scope, mailboxes)
	}
	return b.MailTenant.Block(ctx, scope, mailboxes)
}

func (b brokenSends) Rules(ctx context.Context) ([]sendlimit.Rule, error) {
	if b.rules != nil {
		return b.rules(ctx, b.MailTenant)
	}
	return b.MailTenant.Rules(ctx)
}

func (b brokenSends) RemoveRules(ctx context.Context) error {
	if b.remove != nil {
		return b.remove(ctx, b.MailTenant)
	}
	return b.MailTenant.RemoveRules(ctx)
}

func (b brokenSends) Sent(ctx context.Context, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
	if b.sent != nil {
		return b.sent(ctx, b.MailTenant, q)
	}
	return b.MailTenant.Sent(ctx, q)
}

// toldOf changes what a call tells of a rule.
func toldOf(change func(*sendlimit.Rule)) brokenSends {
	return brokenSends{
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

// listedAs changes what is told of all rules.
func listedAs(change func([]sendlimit.Rule) []sendlimit.Rule) brokenSends {
	return brokenSends{rules: func(ctx context.Context, m ports.MailTenant) ([]sendlimit.Rule, error) {
		all, err := m.Rules(ctx)
		return change(all), err
	}}
}

// tracedAs changes what a page of the trace tells.
func tracedAs(change func(*sendlimit.Trace)) brokenSends {
	return brokenSends{sent: func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		page, err := m.Sent(ctx, q)
		page.Sent = slices.Clone(page.Sent)
		change(&page)
		return page, err
	}}
}

// brokenRules break one promise about rules each.
var brokenRules = map[string]brokenSends{
	"ensuring switches the rule on": {ensure: func(ctx context.Context, m ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
		return m.Block(ctx, scope, list)
	}},
	"ensuring makes a rule anew": {ensure: func(ctx context.Context, m ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
		_ = m.RemoveRules(ctx)
		return m.EnsureRule(ctx, scope, list)
	}},
	"an empty list stays blocked": {block: func(ctx context.Context, m ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
		if len(list) == 0 {
			r, err := m.EnsureRule(ctx, scope, nil)
			r.Enabled, r.Written = false, true
			return r, err
		}
		return m.Block(ctx, scope, list)
	}},
	"a list is added to": {block: func(ctx context.Context, m ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
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
	"what others did is left": {block: func(ctx context.Context, m ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
		if r, err := m.EnsureRule(ctx, scope, nil); err == nil && r.ID != "" && !r.Enabled && len(list) == 1 {
			return r, nil
		}
		return m.Block(ctx, scope, list)
	}},
	"always written": toldOf(func(r *sendlimit.Rule) { r.Written = r.ID != "" }),
	"never written":  toldOf(func(r *sendlimit.Rule) { r.Written = false }),
	"made each time": toldOf(func(r *sendlimit.Rule) { r.Made = r.ID != "" }),
	"never made":     toldOf(func(r *sendlimit.Rule) { r.Made = false }),
	"no id":          toldOf(func(r *sendlimit.Rule) { r.ID = "" }),
	"another name":   toldOf(func(r *sendlimit.Rule) { r.Name = strings.ToUpper(r.Name) }),
	"out of order":   toldOf(func(r *sendlimit.Rule) { slices.Reverse(r.Lists) }),
	"as it was spelt": {block: func(ctx context.Context, m ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
		r, err := m.Block(ctx, scope, list)
		r.Lists = list
		return r, err
	}},
	"no rule is listed": listedAs(func([]sendlimit.Rule) []sendlimit.Rule { return nil }),
	"rules that are off are not listed": listedAs(func(all []sendlimit.Rule) []sendlimit.Rule {
		return slices.DeleteFunc(all, func(r sendlimit.Rule) bool { return !r.Enabled })
	}),
	"rules that are off are listed as on": listedAs(func(all []sendlimit.Rule) []sendlimit.Rule {
		for i := range all {
			all[i].Enabled = true
		}
		return all
	}),
	"rules that others altered are listed as ours": listedAs(func(all []sendlimit.Rule) []sendlimit.Rule {
		for i := range all {
			all[i].Altered = false
		}
		return all
	}),
	"rules that are right are listed as altered": listedAs(func(all []sendlimit.Rule) []sendlimit.Rule {
		for i := range all {
			all[i].Altered = all[i].Enabled
		}
		return all
	}),
	"listing puts rules right": {rules: func(ctx context.Context, m ports.MailTenant) ([]sendlimit.Rule, error) {
		all, err := m.Rules(ctx)
		for _, r := range all {
			if r.Name == sendlimit.RuleName(sendlimit.TenantWide) {
				_, _ = m.Block(ctx, sendlimit.TenantWide, r.Blocks()[:1])
			}
		}
		return all, err
	}},
	"rules that cannot be listed are none": {rules: func(ctx context.Context, m ports.MailTenant) ([]sendlimit.Rule, error) {
		all, _ := m.Rules(ctx)
		return all, nil
	}},
	"nothing is removed": {remove: func(context.Context, ports.MailTenant) error { return nil }},
	"a lost answer is told as no effect": {block: func(ctx context.Context, m ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
		r, err := m.Block(ctx, scope, list)
		if outcome.Of(err) == outcome.Unknown {
			err = &outcome.Error{Kind: outcome.Down}
		}
		return r, err
	}},
	"every trouble is unknown": {block: func(ctx context.Context, m ports.MailTenant, scope string, list []string) (sendlimit.Rule, error) {
		r, err := m.Block(ctx, scope, list)
		if err != nil {
			err = &outcome.Error{Kind: outcome.Unknown}
		}
		return r, err
	}},
}

// brokenTraces break one promise about the trace each.
var brokenTraces = map[string]brokenSends{
	"only the first page":  tracedAs(func(p *sendlimit.Trace) { p.Next = "" }),
	"pages without an end": tracedAs(func(p *sendlimit.Trace) { p.Next = "1" }),
	"stopped mail counts": tracedAs(func(p *sendlimit.Trace) {
		for i := range p.Sent {
			p.Sent[i].Refused = false
		}
	}),
	"nothing counts": tracedAs(func(p *sendlimit.Trace) {
		for i := range p.Sent {
			p.Sent[i].Refused = true
		}
	}),
	"the time it showed": tracedAs(func(p *sendlimit.Trace) {
		for i := range p.Sent {
			p.Sent[i].At = p.Sent[i].At.Add(time.Hour)
		}
	}),
	"each row a message": tracedAs(func(p *sendlimit.Trace) {
		for i := range p.Sent {
			p.Sent[i].Message += "/" + strconv.Itoa(i)
		}
	}),
	"the end is within": {sent: func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		q.To = q.To.Add(time.Second)
		return m.Sent(ctx, q)
	}},
	"the beginning is not": {sent: func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		q.From = q.From.Add(time.Nanosecond)
		return m.Sent(ctx, q)
	}},
	"the beginning is a second early": {sent: func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		q.From = q.From.Add(-time.Second)
		return m.Sent(ctx, q)
	}},
	"what others sent is told too": {sent: func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		all, err := m.Mailboxes(ctx)
		if err != nil {
			return sendlimit.Trace{}, err
		}
		q.Senders = nil
		for _, box := range all {
			q.Senders = append(q.Senders, box.Address)
		}
		return m.Sent(ctx, q)
	}},
	"only the first sender's": {sent: func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		q.Senders = q.Senders[:min(1, len(q.Senders))]
		return m.Sent(ctx, q)
	}},
	"trouble is an empty page": {sent: func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		page, _ := m.Sent(ctx, q)
		return page, nil
	}},
	"any cursor is the beginning": {sent: func(ctx context.Context, m ports.MailTenant, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
		if _, err := strconv.Atoi(q.Cursor); err != nil {
			q.Cursor = ""
		}
		return m.Sent(ctx, q)
	}},
}

func TestSendSuitesNoticeBrokenPromises(t *testing.T) {
	for _, suite := range []struct {
		checks []check
		broken map[string]brokenSends
	}{{ruleChecks, brokenRules}, {traceChecks, brokenTraces}} {
		for name, b := range suite.broken {
			t.Run(name, func(t *testing.T) {
				for _, c := range suite.checks {
					w := newFakeWorld()
					p := breaks(func(m ports.MailTenant) brokenSends { b.MailTenant = m; return b })
					p.MailPlatform = w.fake
					w.platform = p
					if fails(t, func(t testing.TB) { c.run(t, w) }) {
						return
					}
				}
				t.Fatal("the suite does not notice")
			})
		}
	}
}
