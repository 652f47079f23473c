// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/plugins/proto"
)

func (t tenantClient) EnsureRule(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	return t.rule(ctx, proto.MailPlatformClient.EnsureRule, scope, mailboxes)
}

func (t tenantClient) Block(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	return t.rule(ctx, proto.MailPlatformClient.Block, scope, mailboxes)
}

func (t tenantClient) rule(
	ctx context.Context, method rpc[proto.SendRuleRequest, proto.SendRule], scope string, mailboxes []string,
) (sendlimit.Rule, error) {
	a, err := call(ctx, t.open, method, func(c *proto.Connection) *proto.SendRuleRequest {
		return &proto.SendRuleRequest{Connection: c, Tenant: t.tenant, Scope: scope, Mailboxes: mailboxes}
	})
	return ruleIn(a), err
}

func (t tenantClient) Rules(ctx context.Context) ([]sendlimit.Rule, error) {
	a, err := ofTenant(ctx, t, proto.MailPlatformClient.Rules)
	return each(a.GetRules(), ruleIn), err
}

func (t tenantClient) RemoveRules(ctx context.Context) error {
	_, err := ofTenant(ctx, t, proto.MailPlatformClient.RemoveRules)
	return err
}

func (t tenantClient) Sent(ctx context.Context, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
	a, err := call(ctx, t.open, proto.MailPlatformClient.Sent, func(c *proto.Connection) *proto.SentRequest {
		return &proto.SentRequest{Connection: c, Tenant: t.tenant, From: timeOut(q.From), To: timeOut(q.To), Senders: q.Senders, Cursor: q.Cursor}
	})
	return traceIn(a), err
}
