// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

type policyRow struct {
	bun.BaseModel `bun:"table:send_policies,alias:sp"`

	AccountID      string `bun:",pk"`
	ID             string `bun:",pk"`
	TenantID       string
	DomainID       string // ident.Zero: the whole tenant
	Scope          string
	DailySendLimit int    `bun:",nullzero"`
	RuleID         string `bun:"rule_id"`
	RuleName       string
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

func newPolicyRow(owner string, p sendlimit.Policy) policyRow {
	return policyRow{AccountID: owner, ID: ident.Lookup(p.ID), DailySendLimit: p.PerDay, RuleID: text(p.RuleID), RuleName: text(p.RuleName),
		UpdatedAt: micro(p.UpdatedAt)}
}

func (r policyRow) policy(id string) sendlimit.Policy {
	return sendlimit.Policy{ID: r.ID, Tenant: tenant.GUID(id), Scope: r.Scope, PerDay: r.DailySendLimit, RuleID: r.RuleID, RuleName: r.RuleName,
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC()}
}

type sendTenantRow struct {
	bun.BaseModel `bun:"table:send_tenants,alias:st"`

	AccountID   string `bun:",pk"`
	TenantID    string `bun:",pk"`
	Place       string
	Mark        time.Time `bun:",nullzero"`
	DueAt       time.Time
	Epoch       int64
	LeasedUntil int64 // see clock
}

func (r sendTenantRow) run(id string) ports.SendRun {
	return ports.SendRun{Account: access.AccountID(r.AccountID), Tenant: tenant.GUID(id), Epoch: r.Epoch, Place: r.Place, Mark: r.Mark.UTC(), Due: r.DueAt.UTC()}
}

type sendsRow struct {
	bun.BaseModel `bun:"table:mailbox_sends,alias:ms"`

	AccountID string `bun:",pk"`
	MailboxID string `bun:",pk"`
	DayStart  time.Time
	Settled   int
	Recent    int
	// CountedAt is when the count changed, all of the day being read by then. Of
	// one that a part changed it is the day's start, when there was nothing.
	CountedAt time.Time
}

func (r sendsRow) count() sendlimit.Count {
	return sendlimit.Count{Day: r.DayStart.UTC(), Settled: r.Settled, Recent: r.Recent, Part: !r.CountedAt.After(r.DayStart)}
}

type blockRow struct {
	bun.BaseModel `bun:"table:mailbox_blocks,alias:mb"`

	AccountID string `bun:",pk"`
	MailboxID string `bun:",pk"`
	Scope     string
}

// groundRow is why a mailbox is blocked.
type groundRow struct {
	bun.BaseModel `bun:"table:block_grounds,alias:bg"`

	AccountID  string `bun:",pk"`
	MailboxID  string `bun:",pk"`
	LimitValue int
	DecidedAt  time.Time
}

type intentRow struct {
	bun.BaseModel `bun:"table:send_intents,alias:si"`

	AccountID  string `bun:",pk"`
	TenantID   string
	MailboxID  string `bun:",pk"`
	Scope      string
	Action     string
	SentCount  int
	LimitValue int
	DecidedAt  time.Time

	Address string `bun:",scanonly"`
}

func newIntentRow(own sendTenantRow, c sendlimit.Change) intentRow {
	return intentRow{AccountID: own.AccountID, TenantID: own.TenantID, MailboxID: ident.Lookup(c.Box), Scope: text(c.Scope), Action: string(c.Action),
		SentCount: c.Event.Sent, LimitValue: c.Event.Limit, DecidedAt: micro(c.At)}
}

func (r intentRow) change(id tenant.GUID) sendlimit.Change {
	action := sendlimit.Action(r.Action)
	return sendlimit.Change{Box: r.MailboxID, Scope: r.Scope, Action: action, At: r.DecidedAt.UTC(), Event: sendlimit.Event{Tenant: id,
		Address: r.Address, Action: action, Sent: r.SentCount, Limit: r.LimitValue}}
}
