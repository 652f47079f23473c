// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/ports"
)

// sessionRow is an OAuth session, which connects a mailbox to a sending platform.
type sessionRow struct {
	bun.BaseModel `bun:"table:oauth_sessions,alias:os"`

	AccountID       string `bun:",pk"`
	ID              string `bun:",pk"`
	IntegrationID   string
	MailboxID       string
	Status          string
	Opened          bool
	PlatformID      string
	PreviousMark    string `bun:"stamp_before"` // see integration.Session
	PlatformAccount string
	PlatformAddress string
	PlatformName    string
	Reason          string
	CreatedAt       time.Time
	ExpiresAt       time.Time
	ConnectedAt     time.Time `bun:",nullzero"`
	CheckedAt       time.Time `bun:"looked_at,nullzero"`
}

func newSessionRow(owner string, s integration.Session) sessionRow {
	return sessionRow{
		AccountID: owner, ID: ident.ParseOrZero(s.ID), IntegrationID: ident.ParseOrZero(s.IntegrationID), MailboxID: ident.ParseOrZero(s.MailboxID),
		Status: storedText(string(s.Status)), Opened: s.Opened, PlatformID: storedText(s.PlatformID), PreviousMark: storedText(s.PreviousMark),
		PlatformAccount: storedText(s.PlatformAccountID), PlatformAddress: storedText(s.PlatformAccountAddress), PlatformName: storedText(s.PlatformAccountName),
		Reason: storedText(s.Reason), CreatedAt: storedTime(s.CreatedAt), ExpiresAt: storedTime(s.ExpiresAt),
		ConnectedAt: storedTime(s.ConnectedAt), CheckedAt: storedTime(s.CheckedAt),
	}
}

func (r sessionRow) session() integration.Session {
	return integration.Session{
		ID: r.ID, IntegrationID: r.IntegrationID, MailboxID: r.MailboxID, Status: integration.SessionStatus(r.Status),
		Opened: r.Opened, PlatformID: r.PlatformID, PreviousMark: r.PreviousMark,
		PlatformAccountID: r.PlatformAccount, PlatformAccountAddress: r.PlatformAddress, PlatformAccountName: r.PlatformName, Reason: r.Reason,
		CreatedAt: r.CreatedAt.UTC(), ExpiresAt: r.ExpiresAt.UTC(), ConnectedAt: r.ConnectedAt.UTC(), CheckedAt: r.CheckedAt.UTC(),
	}
}

// BeginSession implements ports.Connections.
func (s *Store) BeginSession(ctx context.Context, owner access.AccountID, begun integration.Session, connectionID string, staleBefore time.Time) error {
	row := newSessionRow(accountKey(owner), begun)
	connection := newConnectionRow(row.AccountID, integration.Connection{
		ID: connectionID, IntegrationID: row.IntegrationID, MailboxID: row.MailboxID,
		Status: integration.ConnectionPending, UpdatedAt: row.CreatedAt,
	})
	return s.inTransaction(ctx, "begin OAuth session", func(ctx context.Context, tx bun.IDB) error {
		if err := s.lockToConnect(ctx, tx, row.AccountID, row.IntegrationID, row.MailboxID); err != nil {
			return err
		}
		eligible, err := findEligible(ctx, tx, row.AccountID, row.IntegrationID, row.MailboxID, onlyPresent)
		if err != nil {
			return err
		}
		if eligible.HeldElsewhere { // checkNotHeld returns the same error
			return connectedElsewhere()
		}
		if err := savePendingConnection(ctx, tx, connection); err != nil {
			return err
		}
		if err := expireUnopenedSession(ctx, tx, row, staleBefore); err != nil {
			return err
		}
		// If sessions begin concurrently, the unique index admits one of them.
		res, err := tx.NewInsert().Model(&row).On("CONFLICT DO NOTHING").Exec(ctx)
		return requireRow(res, err, fault.SessionActive.With("a session of the mailbox is pending at this integration"))
	})
}

// expireUnopenedSession expires the pending session of the mailbox, which would block the new
// session. It expires the session only if the session was not opened (see integration.Session). The
// session must also be past its ExpiresAt, or have begun before staleBefore.
func expireUnopenedSession(ctx context.Context, tx bun.IDB, newSession sessionRow, staleBefore time.Time) error {
	_, err := updatePendingSession(tx, newSession.AccountID, newSession.IntegrationID, newSession.MailboxID).
		Set("status = ?", string(integration.SessionExpired)).Where("NOT os.opened").
		Where("(os.expires_at <= ? OR os.created_at < ?)", newSession.CreatedAt, storedTime(staleBefore)).Exec(ctx)
	return err
}

func failPendingSession(ctx context.Context, tx bun.IDB, connection connectionRow) error {
	_, err := updatePendingSession(tx, connection.AccountID, connection.IntegrationID, connection.MailboxID).
		Set("status = ?", string(integration.SessionFailed)).Set("reason = ?", integration.ReasonDisconnected).Exec(ctx)
	return err
}

func updatePendingSession(tx bun.IDB, owner, integrationID, mailboxID string) *bun.UpdateQuery {
	return tx.NewUpdate().Model((*sessionRow)(nil)).Where("os.account_id = ?", owner).
		Where("os.integration_id = ?", integrationID).Where("os.mailbox_id = ?", mailboxID).
		Where("os.status = ?", string(integration.SessionPending))
}

// savePendingConnection sets the connection of a new session to pending, unless the mailbox is
// connected or being disconnected (see ConnectionStatus.UnaffectedBySession). Otherwise a failed
// session would release the mailbox while its account still exists at the platform.
func savePendingConnection(ctx context.Context, tx bun.IDB, row connectionRow) error {
	_, err := tx.NewInsert().Model(&row).On("CONFLICT (account_id, integration_id, mailbox_id) DO UPDATE").
		Set("status = EXCLUDED.status").Set("has_error = EXCLUDED.has_error").Set("reason = EXCLUDED.reason").
		Set("updated_at = EXCLUDED.updated_at").Where("mc.status NOT IN (?, ?)",
		string(integration.ConnectionConnected), string(integration.ConnectionDisconnecting)).Exec(ctx)
	return err
}

// PendingSession implements ports.Connections.
func (s *Store) PendingSession(ctx context.Context, owner access.AccountID, integrationID, mailboxID string) (integration.Session, bool, error) {
	var row sessionRow
	err := s.db.RunRead(ctx, "find pending OAuth session", func(ctx context.Context, db bun.IDB) error {
		return db.NewSelect().Model(&row).Where("os.account_id = ?", accountKey(owner)).
			Where("os.integration_id = ?", ident.ParseOrZero(integrationID)).Where("os.mailbox_id = ?", ident.ParseOrZero(mailboxID)).
			Where("os.status = ?", string(integration.SessionPending)).Scan(ctx)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return integration.Session{}, false, nil
	}
	return row.session(), err == nil, err
}

// Session implements ports.Connections.
func (s *Store) Session(ctx context.Context, owner access.AccountID, integrationID, mailboxID, id string) (integration.Session, error) {
	var row sessionRow
	err := s.db.RunRead(ctx, "find OAuth session", func(ctx context.Context, db bun.IDB) error {
		return db.NewSelect().Model(&row).Where("os.account_id = ?", accountKey(owner)).
			Where("os.integration_id = ?", ident.ParseOrZero(integrationID)).Where("os.mailbox_id = ?", ident.ParseOrZero(mailboxID)).
			Where("os.id = ?", ident.ParseOrZero(id)).Scan(ctx)
	})
	if err != nil {
		return integration.Session{}, orNotFound(err, fault.FromStore(fault.SessionNotFound.With("the mailbox has no such session at this integration")))
	}
	return row.session(), nil
}

// SaveSession implements ports.Connections.
func (s *Store) SaveSession(ctx context.Context, owner access.AccountID, session integration.Session, c *integration.Connection, storedAnswer *ports.StoredAnswer) (bool, error) {
	row := newSessionRow(accountKey(owner), session)
	var wasSaved bool
	err := s.inTransaction(ctx, "save "+row.Status+" OAuth session", func(ctx context.Context, tx bun.IDB) error {
		wasSaved = false
		savesConnection := c != nil
		if savesConnection { // see lockToConnect for the order of locks
			stored, err := s.lockConnections(ctx, tx, row.AccountID, row.IntegrationID, row.MailboxID)
			if err != nil {
				return err
			}
			connection := stored[row.MailboxID]
			switch integration.ConnectionStatus(connection.Status) {
			case integration.ConnectionPending:
			case integration.ConnectionDisconnecting:
				// The disconnect may have removed the account of an older session.
				savesConnection = session.Status == integration.SessionConnected && !row.CreatedAt.Before(connection.UpdatedAt)
			default:
				savesConnection = session.Status == integration.SessionConnected
			}
		}
		n, err := savePendingSession(ctx, tx, row)
		if err != nil || n == 0 {
			return err
		}
		if savesConnection {
			if err := s.saveSessionConnection(ctx, tx, row, *c); err != nil {
				return err
			}
		}
		wasSaved = true
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
	return wasSaved && err == nil, err
}

// savePendingSession stores the new state of a session if the stored session is still pending. A
// connected session also replaces an expired one, unless the mailbox is disconnected or is being
// disconnected. savePendingSession returns the number of changed rows.
func savePendingSession(ctx context.Context, tx bun.IDB, row sessionRow) (int64, error) {
	disconnected := tx.NewSelect().Model((*connectionRow)(nil)).ColumnExpr("1").Where("mc.account_id = ?", row.AccountID).
		Where("mc.integration_id = ?", row.IntegrationID).Where("mc.mailbox_id = ?", row.MailboxID).
		Where("mc.status IN (?, ?)", string(integration.ConnectionDisconnecting), string(integration.ConnectionDisconnected))
	res, err := tx.NewUpdate().Model(&row).Column("status", "opened", "platform_id", "stamp_before", "platform_account",
		"platform_address", "platform_name", "reason", "expires_at", "connected_at", "looked_at").
		Where("os.account_id = ?", row.AccountID).Where("os.id = ?", row.ID).Where("os.integration_id = ?", row.IntegrationID).
		Where("os.mailbox_id = ?", row.MailboxID).Where("(os.status = ? OR os.status = ? AND ? = ? AND NOT EXISTS (?))",
		string(integration.SessionPending), string(integration.SessionExpired), row.Status, string(integration.SessionConnected), disconnected).Exec(ctx)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// saveSessionConnection stores the connection of a session. The connection exists, because deleting
// it would also delete the session.
func (s *Store) saveSessionConnection(ctx context.Context, tx bun.IDB, session sessionRow, c integration.Connection) error {
	c.IntegrationID, c.MailboxID = session.IntegrationID, session.MailboxID
	row := newConnectionRow(session.AccountID, c)
	if err := checkNotHeld(ctx, tx, row); err != nil {
		return err
	}
	_, err := s.updateConnection(ctx, tx, row, time.Time{})
	return err
}

// ClaimSessionCheck implements ports.Connections.
func (s *Store) ClaimSessionCheck(ctx context.Context, owner access.AccountID, sessionID string, since, now time.Time) (bool, error) {
	return s.execChanged(ctx, "claim check of OAuth session", func(ctx context.Context, db bun.IDB) (sql.Result, error) {
		return db.NewUpdate().Model((*sessionRow)(nil)).Set("looked_at = ?", storedTime(now)).
			Where("os.account_id = ?", accountKey(owner)).Where("os.id = ?", ident.ParseOrZero(sessionID)).
			Where("os.status = ?", string(integration.SessionPending)).
			Where("(os.looked_at IS NULL OR os.looked_at <= ?)", storedTime(since)).Exec(ctx)
	})
}

// PendingSessions implements ports.Connections.
func (s *Store) PendingSessions(ctx context.Context, before time.Time, limit int) ([]ports.OwnedSession, error) {
	var rows []sessionRow
	err := s.db.RunRead(ctx, "list OAuth sessions that are over", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().Model(&rows).Where("os.status = 'pending'").Where("os.expires_at < ?", storedTime(before)).
			OrderExpr("os.expires_at, os.id").Limit(int64(limit)).Scan(ctx)
	})
	return convertAll(rows, func(r sessionRow) ports.OwnedSession {
		return ports.OwnedSession{Account: access.AccountID(r.AccountID), Session: r.session()}
	}), err
}
