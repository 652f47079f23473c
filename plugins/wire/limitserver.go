// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

func (s *mailServer) EnsureRule(ctx context.Context, q *proto.SendRuleRequest) (*proto.SendRule, error) {
	return within(s, q, func(t ports.MailTenant) (sendlimit.Rule, error) {
		return t.EnsureRule(ctx, q.GetScope(), q.GetMailboxes())
	}, ruleOut)
}

func (s *mailServer) Block(ctx context.Context, q *proto.SendRuleRequest) (*proto.SendRule, error) {
	return within(s, q, func(t ports.MailTenant) (sendlimit.Rule, error) {
		return t.Block(ctx, q.GetScope(), q.GetMailboxes())
	}, ruleOut)
}

func (s *mailServer) Rules(ctx context.Context, q *proto.TenantRequest) (*proto.RulesAnswer, error) {
	return within(s, q, func(t ports.MailTenant) ([]sendlimit.Rule, error) { return t.Rules(ctx) },
		func(all []sendlimit.Rule) *proto.RulesAnswer { return &proto.RulesAnswer{Rules: each(all, ruleOut)} })
}

func (s *mailServer) RemoveRules(ctx context.Context, q *proto.TenantRequest) (*proto.Done, error) {
	return carryOut(s, q, func(t ports.MailTenant) error { return t.RemoveRules(ctx) })
}

func (s *mailServer) Sent(ctx context.Context, q *proto.SentRequest) (*proto.SentAnswer, error) {
	return within(s, q, func(t ports.MailTenant) (sendlimit.Trace, error) {
		return t.Sent(ctx, sendlimit.TraceQuery{
			From: timeIn(q.GetFrom()), To: timeIn(q.GetTo()), Senders: q.GetSenders(), Cursor: q.GetCursor(),
		})
	}, traceOut)
}
