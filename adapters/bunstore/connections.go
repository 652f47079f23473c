// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/ports"
)

type connectionRow struct {
	bun.BaseModel `bun:"table:mailbox_connections,alias:mc"`

	AccountID       string `bun:",pk"`
	ID              string `bun:",pk"`
	IntegrationID   string
	MailboxID       string
	Status          string
	PlatformAccount string
	PlatformAddress string
	PlatformName    string
	HasError        bool
	Reason          string
	ConnectedAt     time.Time `bun:",nullzero"`
	UpdatedAt       time.Time
}

func newConnectionRow(owner string, c integration.Connection) connectionRow {
	return connectionRow{
		AccountID: owner, ID: ident.ParseOrZero(c.ID), IntegrationID: ident.ParseOrZero(c.IntegrationID), MailboxID: ident.ParseOrZero(c.MailboxID),
		Status: storedText(string(c.Status)), PlatformAccount: storedText(c.PlatformAccountID), PlatformAddress: storedText(c.PlatformAccountAddress),
		PlatformName: storedText(c.PlatformAccountName), HasError: c.HasError, Reason: storedText(c.Reason),
		ConnectedAt: storedTime(c.ConnectedAt), UpdatedAt: storedTime(c.UpdatedAt),
	}
}

func (r connectionRow) connection() integration.Connection {
	return integration.Connection{
		ID: r.ID, IntegrationID: r.IntegrationID, MailboxID: r.MailboxID, Status: integration.ConnectionStatus(r.Status),
		PlatformAccountID: r.PlatformAccount, PlatformAccountAddress: r.PlatformAddress, PlatformAccountName: r.PlatformName,
		HasError: r.HasError, Reason: r.Reason, ConnectedAt: r.ConnectedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
}

// holdsMailbox is integration.ConnectionStatus.HoldsMailbox as an SQL condition. A unique index
// with this condition allows only one integration to hold a mailbox.
const holdsMailbox = "status IN ('pending', 'connected', 'disconnecting', 'other')"

func connectedElsewhere() error {
	return fault.ConnectedElsewhere.With("another integration holds the mailbox")
}

// ConnectionCounts implements ports.Connections.
func (s *Store) ConnectionCounts(ctx context.Context, owner access.AccountID, integrationID string) (integration.Counts, error) {
	var rows []struct {
		Status          string
		Mailboxes, Errs int
	}
	err := s.db.RunRead(ctx, "count connections", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		q := db.NewSelect().TableExpr("mailbox_connections AS mc").ColumnExpr("mc.status, COUNT(*) AS mailboxes").
			ColumnExpr("COUNT(*) FILTER (WHERE mc.has_error) AS errs").Where("mc.account_id = ?", accountKey(owner)).
			Where("mc.integration_id = ?", ident.ParseOrZero(integrationID)).GroupExpr("mc.status")
		return onlyVisibleConnections(ctx, q).Scan(ctx, &rows)
	})
	var counts integration.Counts
	for _, r := range rows {
		counts.Total += r.Mailboxes
		counts.HasErrors = counts.HasErrors || r.Errs > 0
		switch integration.ConnectionStatus(r.Status) {
		case integration.ConnectionConnected:
			counts.Connected += r.Mailboxes
		case integration.ConnectionPending:
			counts.Pending += r.Mailboxes
		case integration.ConnectionFailed:
			counts.Failed += r.Mailboxes
		case integration.ConnectionDisconnected:
			counts.Disconnected += r.Mailboxes
		default:
			counts.Other += r.Mailboxes
		}
	}
	return counts, err
}

// SaveConnection implements ports.Connections. readUpdatedAt is the UpdatedAt of the row that the
// caller read, zero if there was no row.
func (s *Store) SaveConnection(ctx context.Context, owner access.AccountID, c integration.Connection, readUpdatedAt time.Time, storedAnswer *ports.StoredAnswer) (bool, error) {
	row := newConnectionRow(accountKey(owner), c)
	var wasSaved bool
	err := s.inTransaction(ctx, "save "+row.Status+" connection", func(ctx context.Context, tx bun.IDB) error {
		wasSaved = false
		if readUpdatedAt.IsZero() {
			if err := s.lockToConnect(ctx, tx, row.AccountID, row.IntegrationID, row.MailboxID); err != nil {
				return err
			}
		}
		if err := checkNotHeld(ctx, tx, row); err != nil {
			return err
		}
		var err error
		if readUpdatedAt.IsZero() {
			wasSaved, err = insertConnection(ctx, tx, row)
		} else {
			wasSaved, err = s.updateConnection(ctx, tx, row, storedTime(readUpdatedAt))
		}
		if err != nil || !wasSaved {
			return err
		}
		if c.Status == integration.ConnectionDisconnected {
			if err := failPendingSession(ctx, tx, row); err != nil {
				return err
			}
		}
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
	return wasSaved && err == nil, err
}

// lockToConnect locks an integration and the mailboxes that the caller may connect to it. A
// concurrent deletion of one of these rows waits for the caller. The deletion then sees the new
// connection and emits the event that the connection has ended.
//
// Transactions lock integrations first, then mailboxes, then connections, and sessions last. A
// different order could end in a deadlock. PostgreSQL would abort one of the transactions, and the
// store would run it again.
func (s *Store) lockToConnect(ctx context.Context, tx bun.IDB, owner, integrationID string, mailboxIDs ...string) error {
	if !database.IsPostgres(s.db) { // on SQLite a transaction is the only writer
		return nil
	}
	_, err := tx.NewSelect().Model((*integrationRow)(nil)).Column("id").Where("ig.account_id = ?", owner).
		Where("ig.id = ?", integrationID).For("KEY SHARE").Exec(ctx)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(mailboxIDs, batchSize) {
		_, err := tx.NewSelect().Model((*mailboxRow)(nil)).Column("id").Where("m.account_id = ?", owner).
			Where("m.id IN (?)", bun.List(chunk)).Order("m.id").For("KEY SHARE").Exec(ctx)
		if err != nil {
			return err
		}
	}
	return nil
}

// insertConnection inserts a connection. It returns false if the mailbox already has a connection
// to the integration.
func insertConnection(ctx context.Context, tx bun.IDB, row connectionRow) (bool, error) {
	if _, err := findEligible(ctx, tx, row.AccountID, row.IntegrationID, row.MailboxID, onlyPresent); err != nil {
		return false, err
	}
	res, err := tx.NewInsert().Model(&row).On("CONFLICT (account_id, integration_id, mailbox_id) DO NOTHING").Exec(ctx)
	if err != nil {
		return false, err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return false, err
	}
	return true, emitConnections(ctx, tx, row.AccountID, []change[connectionRow]{{after: row}})
}

// updateConnection updates the connection of the row's mailbox to the row's integration, and
// ignores the row's id. It returns false if this connection does not exist, or if it was updated at
// a different time than updatedAt. A zero updatedAt matches any time.
func (s *Store) updateConnection(ctx context.Context, tx bun.IDB, row connectionRow, updatedAt time.Time) (bool, error) {
	stored, err := s.lockConnections(ctx, tx, row.AccountID, row.IntegrationID, row.MailboxID)
	if err != nil {
		return false, err
	}
	before := stored[row.MailboxID]
	if before.ID == "" || !updatedAt.IsZero() && !before.UpdatedAt.Equal(updatedAt) {
		return false, nil
	}
	row.ID = before.ID
	if _, err := tx.NewUpdate().Model(&row).Column("status", "platform_account", "platform_address", "platform_name",
		"has_error", "reason", "connected_at", "updated_at").Where("mc.account_id = ?", row.AccountID).Where("mc.id = ?", row.ID).Exec(ctx); err != nil {
		return false, err
	}
	return true, emitConnections(ctx, tx, row.AccountID, []change[connectionRow]{{before, row}})
}

// checkNotHeld returns fault.ConnectedElsewhere if row would hold a mailbox that a different
// integration holds. If transactions connect the mailbox to different integrations concurrently,
// the unique index admits one of them. The other transactions retry, and then get this error.
func checkNotHeld(ctx context.Context, tx bun.IDB, row connectionRow) error {
	if !integration.ConnectionStatus(row.Status).HoldsMailbox() {
		return nil
	}
	isTaken, err := tx.NewSelect().TableExpr("mailbox_connections AS mc").Where("mc.account_id = ?", row.AccountID).
		Where("mc.mailbox_id = ?", row.MailboxID).Where("mc.integration_id <> ?", row.IntegrationID).Where("mc." + holdsMailbox).Exists(ctx)
	if err == nil && isTaken {
		return connectedElsewhere()
	}
	return err
}

// eligibleMailboxes selects an integration, left-joined with the eligible mailboxes of its account.
// A mailbox is eligible if it is provisioned and is in one of listedStages. Its tenant must be
// visible to the caller. joinCondition can exclude more mailboxes, such as missing ones. It is
// empty or begins with AND. If the integration does not exist, the result has no rows. If no
// mailbox matches, the result is one row with an empty mailbox. Connections are read separately.
// Right after the first refresh, PostgreSQL has no statistics about them, and a join would take
// more than a second.
func eligibleMailboxes(ctx context.Context, db bun.IDB, owner, integrationID, joinCondition string, args ...any) *bun.SelectQuery {
	visibleCondition, visibleArgs := visibleTenantCondition(ctx, "m")
	joinCondition, args = joinCondition+visibleCondition, append(args, visibleArgs...)
	return db.NewSelect().TableExpr("integrations AS ig").ColumnExpr("m.*").
		ColumnExpr("t.guid AS tenant_guid, t.name AS tenant_name, d.id AS domain_id").
		Join("LEFT JOIN mailboxes AS m ON m.account_id = ig.account_id AND m.provisioned AND m.stage IN (?)"+joinCondition,
			append([]any{listedStages}, args...)...).
		Join("LEFT JOIN "+tenantOfMailbox).
		Join("LEFT JOIN domains AS d ON d.account_id = m.account_id AND d.tenant_id = m.tenant_id AND d.name = m.domain_name").
		Where("ig.account_id = ?", owner).Where("ig.id = ?", integrationID)
}

// selectConnections selects an account's connections to an integration, and the connections by
// which other integrations hold mailboxes.
func selectConnections(db bun.IDB, rows *[]connectionRow, owner, integrationID string) *bun.SelectQuery {
	return db.NewSelect().Model(rows).Where("mc.account_id = ?", owner).
		Where("(mc.integration_id = ? OR mc."+holdsMailbox+")", integrationID)
}

// joinConnections combines mailboxes with the connections that selectConnections selected.
func joinConnections(mailboxes []mailboxRow, connections []connectionRow, integrationID string) []integration.EligibleMailbox {
	eligible := make([]integration.EligibleMailbox, 0, len(mailboxes))
	byMailbox := make(map[string]*integration.EligibleMailbox, len(mailboxes))
	for _, m := range mailboxes {
		eligible = append(eligible, integration.EligibleMailbox{Mailbox: m.mailbox()})
		byMailbox[m.ID] = &eligible[len(eligible)-1]
	}
	for _, c := range connections {
		e, isEligible := byMailbox[c.MailboxID]
		switch {
		case isEligible && c.IntegrationID == integrationID:
			e.Connection = c.connection()
		case isEligible:
			e.HeldElsewhere = true
		}
	}
	return eligible
}

// Eligible implements ports.Connections.
func (s *Store) Eligible(ctx context.Context, owner access.AccountID, integrationID string) ([]integration.EligibleMailbox, error) {
	integrationKey := ident.ParseOrZero(integrationID)
	var mailboxes []mailboxRow
	var connections []connectionRow
	err := s.db.RunRead(ctx, "list eligible mailboxes", func(ctx context.Context, db bun.IDB) error {
		mailboxes = nil
		return eligibleMailboxes(ctx, db, accountKey(owner), integrationKey, onlyPresent).Order("m.address", "m.id").Scan(ctx, &mailboxes)
	})
	if err != nil {
		return nil, err
	}
	err = s.db.RunRead(ctx, "list connections", func(ctx context.Context, db bun.IDB) error {
		connections = nil
		return selectConnections(db, &connections, accountKey(owner), integrationKey).Scan(ctx)
	})
	switch {
	case err != nil:
		return nil, err
	case len(mailboxes) == 0:
		return nil, integrationNotFound()
	case mailboxes[0].ID == "":
		return []integration.EligibleMailbox{}, nil
	}
	return joinConnections(mailboxes, connections, integrationKey), nil
}

// EligibleMailbox implements ports.Connections.
func (s *Store) EligibleMailbox(ctx context.Context, owner access.AccountID, integrationID, mailboxID string) (integration.EligibleMailbox, error) {
	return s.findConnection(ctx, "find eligible mailbox", owner, integrationID, mailboxID, onlyPresent)
}

// RemovableConnection implements ports.Connections.
func (s *Store) RemovableConnection(ctx context.Context, owner access.AccountID, integrationID, mailboxID string) (integration.EligibleMailbox, error) {
	return s.findConnection(ctx, "find removable connection", owner, integrationID, mailboxID, "")
}

// onlyPresent is a join condition of eligibleMailboxes that excludes missing mailboxes.
const onlyPresent = " AND " + presentMailbox

func (s *Store) findConnection(ctx context.Context, operation string, owner access.AccountID, integrationID, mailboxID, joinCondition string) (integration.EligibleMailbox, error) {
	var found integration.EligibleMailbox
	err := s.db.RunRead(ctx, operation, func(ctx context.Context, db bun.IDB) (err error) {
		found, err = findEligible(ctx, db, accountKey(owner), ident.ParseOrZero(integrationID), ident.ParseOrZero(mailboxID), joinCondition)
		return err
	})
	return found, err
}

func findEligible(ctx context.Context, db bun.IDB, owner, integrationID, mailboxID, joinCondition string) (integration.EligibleMailbox, error) {
	var row mailboxRow
	err := eligibleMailboxes(ctx, db, owner, integrationID, joinCondition+" AND m.id = ?", mailboxID).Scan(ctx, &row)
	isUnknownIntegration := errors.Is(err, sql.ErrNoRows)
	if err != nil && !isUnknownIntegration {
		return integration.EligibleMailbox{}, err
	}
	// The queries are the same for unknown and known mailboxes, so the time of the response does
	// not reveal whether the mailbox exists.
	var connections []connectionRow
	err = selectConnections(db, &connections, owner, integrationID).Where("mc.mailbox_id = ?", mailboxID).Scan(ctx)
	switch {
	case err != nil:
		return integration.EligibleMailbox{}, err
	case isUnknownIntegration:
		return integration.EligibleMailbox{}, integrationNotFound()
	case row.ID == "":
		return integration.EligibleMailbox{}, fault.MailboxNotFound.With("the account has no mailbox with this id that this service created and that still exists")
	}
	return joinConnections([]mailboxRow{row}, connections, integrationID)[0], nil
}
