// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// blockRow names the scope whose transport rule blocks a mailbox. A scope is a whole tenant or one
// of its domains.
type blockRow struct {
	bun.BaseModel `bun:"table:mailbox_blocks,alias:mb"`

	AccountID string `bun:",pk"`
	MailboxID string `bun:",pk"`
	Scope     string
}

type blockReasonRow struct {
	bun.BaseModel `bun:"table:block_grounds,alias:bg"`

	AccountID  string `bun:",pk"`
	MailboxID  string `bun:",pk"`
	LimitValue int
	DecidedAt  time.Time
}

// intentRow is a change that an enforcement pass is about to make at the platform. The row exists
// until the outcome of the change is known.
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

func newIntentRow(state sendTenantRow, c sendlimit.Change) intentRow {
	return intentRow{AccountID: state.AccountID, TenantID: state.TenantID, MailboxID: ident.ParseOrZero(c.MailboxID), Scope: storedText(c.Scope), Action: string(c.Action),
		SentCount: c.Event.Sent, LimitValue: c.Event.Limit, DecidedAt: storedTime(c.At)}
}

func (r intentRow) change(id tenant.GUID) sendlimit.Change {
	action := sendlimit.Action(r.Action)
	return sendlimit.Change{MailboxID: r.MailboxID, Scope: r.Scope, Action: action, At: r.DecidedAt.UTC(), Event: sendlimit.Event{Tenant: id,
		Address: r.Address, Action: action, Sent: r.SentCount, Limit: r.LimitValue}}
}

// SaveChanges implements ports.TenantClaims.
func (s *Store) SaveChanges(ctx context.Context, claim ports.TenantClaim, c ports.SendChanges) (bool, error) {
	// Like lockMailboxes, SaveChanges locks mailboxes in the order of their ids, so that the
	// transactions do not deadlock.
	changes := slices.Clone(c.Done)
	slices.SortFunc(changes, func(a, b sendlimit.Change) int { return cmp.Compare(a.MailboxID, b.MailboxID) })
	return s.inTenantClaim(ctx, "save changes of mailboxes", claim, func(ctx context.Context, tx bun.IDB, state sendTenantRow) error {
		events, err := applyChanges(ctx, tx, state, claim.Tenant, changes, c.At)
		if err != nil {
			return err
		}
		if err := deleteOrphanPolicies(ctx, tx, state, c.EmptyScopes); err != nil {
			return err
		}
		if err := deleteOrphanRules(ctx, tx, state, c.EmptyScopes); err != nil {
			return err
		}
		if err := dropIntents(ctx, tx, state, c.Unresolved); err != nil {
			return err
		}
		return recordEvents(ctx, tx, state.AccountID, events)
	})
}

// applyChanges blocks and unblocks mailboxes. It returns the events of the mailboxes whose state
// changed.
func applyChanges(ctx context.Context, tx bun.IDB, state sendTenantRow, id tenant.GUID, changes []sendlimit.Change, at time.Time) ([]sendlimit.Event, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	var events []sendlimit.Event
	at, err := eventTime(ctx, tx, state.AccountID, id, at)
	if err != nil {
		return nil, err
	}
	for _, change := range changes {
		e := withIDAt(change.Event, at)
		changed, err := applyChange(ctx, tx, state, change, e)
		if err != nil {
			return nil, err
		}
		if changed {
			events = append(events, e)
		}
	}
	return events, nil
}

func applyChange(ctx context.Context, tx bun.IDB, state sendTenantRow, change sendlimit.Change, e sendlimit.Event) (changed bool, err error) {
	q := tx.NewUpdate().Model((*mailboxRow)(nil)).Where("m.account_id = ?", state.AccountID).Where("m.tenant_id = ?", state.TenantID).
		Where("m.id = ?", ident.ParseOrZero(change.MailboxID))
	if change.Action == sendlimit.Blocked {
		q = q.Set("blocked_at = ?", storedTime(e.At)).Where("m.blocked_at IS NULL")
	} else {
		q = q.Set("blocked_at = NULL").Where("m.blocked_at IS NOT NULL")
	}
	res, err := q.Exec(ctx)
	if err != nil {
		return false, err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return false, err
	}
	emit(ctx, state.AccountID, event.OfBlock(ident.ParseOrZero(change.MailboxID), e))
	if change.Action == sendlimit.Blocked {
		return true, saveBlock(ctx, tx, state.AccountID, change)
	}
	return true, deleteBlock(ctx, tx, state.AccountID, ident.ParseOrZero(change.MailboxID))
}

func saveBlock(ctx context.Context, tx bun.IDB, owner string, c sendlimit.Change) error {
	block := blockRow{AccountID: owner, MailboxID: ident.ParseOrZero(c.MailboxID), Scope: storedText(c.Scope)}
	if _, err := tx.NewInsert().Model(&block).On("CONFLICT (account_id, mailbox_id) DO UPDATE").Set("scope = EXCLUDED.scope").Exec(ctx); err != nil {
		return err
	}
	reason := blockReasonRow{AccountID: owner, MailboxID: block.MailboxID, LimitValue: c.Event.Limit, DecidedAt: storedTime(c.At)}
	_, err := tx.NewInsert().Model(&reason).On("CONFLICT (account_id, mailbox_id) DO UPDATE").
		Set("limit_value = EXCLUDED.limit_value").Set("decided_at = EXCLUDED.decided_at").Exec(ctx)
	return err
}

func deleteBlock(ctx context.Context, tx bun.IDB, owner, mailboxID string) error {
	if _, err := tx.NewDelete().Model((*blockRow)(nil)).Where("mb.account_id = ?", owner).Where("mb.mailbox_id = ?", mailboxID).Exec(ctx); err != nil {
		return err
	}
	_, err := tx.NewDelete().Model((*blockReasonRow)(nil)).Where("bg.account_id = ?", owner).Where("bg.mailbox_id = ?", mailboxID).Exec(ctx)
	return err
}

// deleteOrphanPolicies deletes the policies with these scopes whose domain no longer exists (see
// emitEndedPolicies). The caller knows that the rules of the scopes block no mailbox.
func deleteOrphanPolicies(ctx context.Context, tx bun.IDB, state sendTenantRow, scopes []string) error {
	if len(scopes) == 0 {
		return nil
	}
	_, err := tx.NewDelete().Model((*policyRow)(nil)).Where("sp.account_id = ?", state.AccountID).Where("sp.tenant_id = ?", state.TenantID).
		Where("sp.scope IN (?)", bun.List(scopes)).Where("NOT " + domainOfPolicy).Exec(ctx)
	return err
}

// orphanRuleRow is a managed rule that an enforcement pass found and whose scope was not known (see
// ports.TenantClaims.SaveOrphanRules). The rule may still block mailboxes.
type orphanRuleRow struct {
	bun.BaseModel `bun:"table:orphan_rules,alias:orp"`

	AccountID string `bun:",pk"`
	TenantID  string `bun:",pk"`
	RuleName  string `bun:",pk"`
}

// SaveOrphanRules implements ports.TenantClaims.
func (s *Store) SaveOrphanRules(ctx context.Context, claim ports.TenantClaim, ruleNames []string) (bool, error) {
	return s.inTenantClaim(ctx, "save orphan rules", claim, func(ctx context.Context, tx bun.IDB, state sendTenantRow) error {
		rows := convertAll(ruleNames, func(name string) orphanRuleRow {
			return orphanRuleRow{AccountID: state.AccountID, TenantID: state.TenantID, RuleName: storedText(name)}
		})
		_, err := tx.NewInsert().Model(&rows).On("CONFLICT DO NOTHING").Exec(ctx)
		return err
	})
}

func deleteOrphanRules(ctx context.Context, tx bun.IDB, state sendTenantRow, scopes []string) error {
	if len(scopes) == 0 {
		return nil
	}
	_, err := tx.NewDelete().Model((*orphanRuleRow)(nil)).Where("orp.account_id = ?", state.AccountID).Where("orp.tenant_id = ?", state.TenantID).
		Where("orp.rule_name IN (?)", bun.List(convertAll(scopes, sendlimit.RuleName))).Exec(ctx)
	return err
}

// blockReasons returns the stored reasons of the blocked mailboxes, keyed by mailbox id.
func blockReasons(ctx context.Context, tx bun.IDB, owner string, mailboxes []mailboxRow) (map[string]blockReasonRow, error) {
	reasons := map[string]blockReasonRow{}
	var blocked []string
	for _, m := range mailboxes {
		if !m.BlockedAt.IsZero() {
			blocked = append(blocked, m.ID)
		}
	}
	for chunk := range slices.Chunk(blocked, batchSize) {
		var rows []blockReasonRow
		if err := tx.NewSelect().Model(&rows).Where("bg.account_id = ?", owner).Where("bg.mailbox_id IN (?)", bun.List(chunk)).Scan(ctx); err != nil {
			return nil, err
		}
		for _, reason := range rows {
			reasons[reason.MailboxID] = reason
		}
	}
	return reasons, nil
}

// sendState returns the mailbox in the form that enforcement evaluates. For a block that an earlier
// release stored, reason is zero. The result then has the time of the block's event as BlockedAt,
// and no ExceededLimit.
func (r mailboxRow) sendState(reason blockReasonRow) sendlimit.MailboxState {
	state := sendlimit.MailboxState{ID: r.ID, Address: r.Address, Domain: r.DomainName, OwnLimit: r.DailySendLimit, BlockedAt: r.BlockedAt.UTC()}
	if !state.BlockedAt.IsZero() && !reason.DecidedAt.IsZero() {
		state.BlockedAt, state.ExceededLimit = reason.DecidedAt.UTC(), reason.LimitValue
	}
	return state
}

// SaveIntents implements ports.TenantClaims.
func (s *Store) SaveIntents(ctx context.Context, claim ports.TenantClaim, changes []sendlimit.Change) (bool, error) {
	return s.inTenantClaim(ctx, "save intents", claim, func(ctx context.Context, tx bun.IDB, state sendTenantRow) error {
		if err := dropIntents(ctx, tx, state, nil); err != nil {
			return err
		}
		var mailboxIDs []string
		if err := tx.NewSelect().Model((*mailboxRow)(nil)).Column("id").Where("m.account_id = ?", state.AccountID).
			Where("m.tenant_id = ?", state.TenantID).Scan(ctx, &mailboxIDs); err != nil {
			return err
		}
		known := setOf(mailboxIDs)
		var rows []intentRow
		for _, c := range changes {
			if row := newIntentRow(state, c); known[row.MailboxID] {
				rows = append(rows, row)
			}
		}
		slices.SortFunc(rows, func(a, b intentRow) int { return cmp.Compare(a.MailboxID, b.MailboxID) })
		for chunk := range slices.Chunk(rows, batchSize) {
			if _, err := tx.NewInsert().Model(&chunk).Exec(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// Intents implements ports.TenantClaims.
func (s *Store) Intents(ctx context.Context, claim ports.TenantClaim) ([]sendlimit.Change, error) {
	var rows []intentRow
	owner, guid := accountKey(claim.Account), ident.ParseOrZero(string(claim.Tenant))
	err := s.db.RunRead(ctx, "list intents", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().Model(&rows).ColumnExpr("?TableColumns").ColumnExpr("m.address AS address").
			Join("JOIN mailboxes AS m ON m.account_id = si.account_id AND m.id = si.mailbox_id").
			Where("si.account_id = ?", owner).Where("si.tenant_id = "+tenantByGUID, owner, guid).Order("m.address").Scan(ctx)
	})
	return convertAll(rows, func(r intentRow) sendlimit.Change { return r.change(tenant.GUID(guid)) }), err
}

// dropIntents deletes the stored intents of a tenant, except those of the mailboxes in unresolved.
func dropIntents(ctx context.Context, tx bun.IDB, state sendTenantRow, unresolved []string) error {
	var dropped []string
	if err := tx.NewSelect().Model((*intentRow)(nil)).Column("mailbox_id").Where("si.account_id = ?", state.AccountID).
		Where("si.tenant_id = ?", state.TenantID).Order("mailbox_id").Scan(ctx, &dropped); err != nil {
		return err
	}
	isUnresolved := setOf(convertAll(unresolved, ident.ParseOrZero))
	dropped = slices.DeleteFunc(dropped, func(id string) bool { return isUnresolved[id] })
	for chunk := range slices.Chunk(dropped, batchSize) {
		if _, err := tx.NewDelete().Model((*intentRow)(nil)).Where("si.account_id = ?", state.AccountID).
			Where("si.mailbox_id IN (?)", bun.List(chunk)).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}
