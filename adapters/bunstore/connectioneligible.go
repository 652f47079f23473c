// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/integration"
)

// eligibleBelow reads an integration and, joined to it, its account's mailboxes
// that on lets through: no row means no integration, an empty one no mailbox.
// Connections are read apart: right after a first refresh PostgreSQL does not
// know yet how many there are, and joins them in a second and more.
func eligibleBelow(db bun.IDB, owner, integrationID, on string, args ...any) *bun.SelectQuery {
	return db.NewSelect().TableExpr("integrations AS ig").ColumnExpr("m.*").
		ColumnExpr("t.guid AS tenant_guid, t.name AS tenant_name, d.id AS domain_id").
		Join("LEFT JOIN mailboxes AS m ON m.account_id = ig.account_id AND m.provisioned AND m.stage IN (?)"+on,
			append([]any{listedStages}, args...)...).
		Join("LEFT JOIN "+tenantOfBox).
		Join("LEFT JOIN domains AS d ON d.account_id = m.account_id AND d.tenant_id = m.tenant_id AND d.name = m.domain_name").
		Where("ig.account_id = ?", owner).Where("ig.id = ?", integrationID)
}

// standing reads an account's connections to an integration, and those by which
// others hold a mailbox.
func standing(db bun.IDB, rows *[]connectionRow, owner, integrationID string) *bun.SelectQuery {
	return db.NewSelect().Model(rows).Where("mc.account_id = ?", owner).
		Where("(mc.integration_id = ? OR mc."+held+")", integrationID)
}

// eligibleOf joins the two.
func eligibleOf(mailboxes []mailboxRow, connections []connectionRow, integrationID string) []integration.Eligible {
	all := make([]integration.Eligible, 0, len(mailboxes))
	at := make(map[string]*integration.Eligible, len(mailboxes))
	for _, m := range mailboxes {
		all = append(all, integration.Eligible{Mailbox: m.mailbox()})
		at[m.ID] = &all[len(all)-1]
	}
	for _, c := range connections {
		e, eligible := at[c.MailboxID]
		switch {
		case eligible && c.IntegrationID == integrationID:
			e.Connection = c.connection()
		case eligible:
			e.Elsewhere = true
		}
	}
	return all
}

// Eligible implements ports.Connections.
func (s *Store) Eligible(ctx context.Context, owner access.AccountID, integrationID string) ([]integration.Eligible, error) {
	of := ident.Lookup(integrationID)
	var mailboxes []mailboxRow
	var connections []connectionRow
	err := s.run(ctx, "list eligible mailboxes", func(ctx context.Context, db bun.IDB) error {
		mailboxes = nil
		return eligibleBelow(db, account(owner), of, "").Order("m.address", "m.id").Scan(ctx, &mailboxes)
	})
	if err != nil {
		return nil, err
	}
	err = s.run(ctx, "list connections", func(ctx context.Context, db bun.IDB) error {
		connections = nil
		return standing(db, &connections, account(owner), of).Scan(ctx)
	})
	switch {
	case err != nil:
		return nil, err
	case len(mailboxes) == 0:
		return nil, noIntegration()
	case mailboxes[0].ID == "":
		return []integration.Eligible{}, nil
	}
	return eligibleOf(mailboxes, connections, of), nil
}

// EligibleMailbox implements ports.Connections.
func (s *Store) EligibleMailbox(ctx context.Context, owner access.AccountID, integrationID, mailboxID string) (integration.Eligible, error) {
	var found integration.Eligible
	err := s.run(ctx, "find eligible mailbox", func(ctx context.Context, db bun.IDB) (err error) {
		found, err = eligibleOne(ctx, db, account(owner), ident.Lookup(integrationID), ident.Lookup(mailboxID))
		return err
	})
	return found, err
}

func eligibleOne(ctx context.Context, db bun.IDB, owner, integrationID, mailboxID string) (integration.Eligible, error) {
	var row mailboxRow
	err := eligibleBelow(db, owner, integrationID, " AND m.id = ?", mailboxID).Scan(ctx, &row)
	unknown := errors.Is(err, sql.ErrNoRows)
	if err != nil && !unknown {
		return integration.Eligible{}, err
	}
	// What is unknown takes the same queries.
	var connections []connectionRow
	err = standing(db, &connections, owner, integrationID).Where("mc.mailbox_id = ?", mailboxID).Scan(ctx)
	switch {
	case err != nil:
		return integration.Eligible{}, err
	case unknown:
		return integration.Eligible{}, noIntegration()
	case row.ID == "":
		return integration.Eligible{}, fault.MailboxNotFound.With("this service made no such mailbox in a tenant of the account")
	}
	return eligibleOf([]mailboxRow{row}, connections, integrationID)[0], nil
}
