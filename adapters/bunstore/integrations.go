// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/ports"
)

type integrationRow struct {
	bun.BaseModel `bun:"table:integrations,alias:ig"`

	AccountID     string `bun:",pk"`
	ID            string `bun:",pk"`
	Provider      string
	Name          string
	WorkspaceID   string
	WorkspaceName string
	Credential    []byte   // encrypted
	FieldNames    []string `bun:"given,type:jsonb"` // names of the credential's fields
	Status        string
	HasError      bool
	LastTestedAt  time.Time `bun:",nullzero"`
	RefreshedAt   time.Time `bun:",nullzero"`
	BeganAt       time.Time // when the last refresh of all tenants began, the zero time before the first
	CreatedAt     time.Time
	UpdatedAt     time.Time
}

func newIntegrationRow(i integration.Integration) integrationRow {
	return integrationRow{
		AccountID: accountKey(i.AccountID), ID: ident.ParseOrZero(i.ID), Provider: storedText(i.Provider), Name: storedText(i.Name),
		WorkspaceID: storedText(i.Workspace.ID), WorkspaceName: storedText(i.Workspace.Name), FieldNames: convertAll(i.CredentialFields, storedText),
		Status: storedText(string(i.Status)), HasError: i.HasError, LastTestedAt: storedTime(i.LastTestedAt), RefreshedAt: storedTime(i.RefreshedAt),
		CreatedAt: storedTime(i.CreatedAt), UpdatedAt: storedTime(i.UpdatedAt),
	}
}

func (r integrationRow) integration() integration.Integration {
	return integration.Integration{
		ID: r.ID, AccountID: access.AccountID(r.AccountID), Provider: r.Provider, Name: r.Name,
		Workspace: integration.Workspace{ID: r.WorkspaceID, Name: r.WorkspaceName},
		Status:    integration.Status(r.Status), HasError: r.HasError, CredentialFields: slices.Clip(r.FieldNames),
		LastTestedAt: r.LastTestedAt.UTC(), RefreshedAt: r.RefreshedAt.UTC(), CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
}

func integrationNotFound() error {
	return fault.FromStore(fault.IntegrationNotFound.With("the account has no such integration"))
}

// AddIntegration implements ports.Integrations.
func (s *Store) AddIntegration(ctx context.Context, i integration.Integration, credential []byte, storedAnswer *ports.StoredAnswer) error {
	row := newIntegrationRow(i)
	row.Credential = credential
	return s.inTransaction(ctx, "add integration", func(ctx context.Context, tx bun.IDB) error {
		if _, err := s.lockOpenAccount(ctx, tx, row.AccountID); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		emitIntegration(ctx, row.AccountID, change[integration.Integration]{after: row.integration()})
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
}

// Integrations implements ports.Integrations.
func (s *Store) Integrations(ctx context.Context, owner access.AccountID) ([]integration.Integration, error) {
	var rows []integrationRow
	err := s.db.RunRead(ctx, "list integrations", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().Model(&rows).ExcludeColumn("credential").Where("ig.account_id = ?", accountKey(owner)).
			OrderExpr("ig.created_at DESC, ig.id DESC").Scan(ctx)
	})
	return convertAll(rows, integrationRow.integration), err
}

// Integration implements ports.Integrations.
func (s *Store) Integration(ctx context.Context, owner access.AccountID, id string) (integration.Integration, []byte, error) {
	var row integrationRow
	err := s.db.RunRead(ctx, "find integration", func(ctx context.Context, db bun.IDB) error {
		err := db.NewSelect().Model(&row).Where("ig.account_id = ?", accountKey(owner)).Where("ig.id = ?", ident.ParseOrZero(id)).Scan(ctx)
		return orNotFound(err, integrationNotFound())
	})
	if err != nil {
		return integration.Integration{}, nil, err
	}
	return row.integration(), row.Credential, nil
}

// SaveIntegration implements ports.Integrations.
func (s *Store) SaveIntegration(ctx context.Context, i integration.Integration, storedAnswer *ports.StoredAnswer) error {
	return s.inTransaction(ctx, "save integration", func(ctx context.Context, tx bun.IDB) error {
		if _, err := s.mergeIntegration(ctx, tx, i, time.Time{}); err != nil {
			return err
		}
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
}

// mergeIntegration stores an observation of an integration, and returns the integration as it was
// before. It locks the row, so that concurrent observations are merged one after another. If began
// is later than the stored began_at, it replaces began_at.
func (s *Store) mergeIntegration(ctx context.Context, tx bun.IDB, i integration.Integration, began time.Time) (before integration.Integration, err error) {
	var row integrationRow
	err = s.db.LockRows(tx.NewSelect().Model(&row).ExcludeColumn("credential").
		Where("ig.account_id = ?", accountKey(i.AccountID)).Where("ig.id = ?", ident.ParseOrZero(i.ID)), "ig").Scan(ctx)
	if err != nil {
		return before, orNotFound(err, integrationNotFound())
	}
	stored, err := observations(ctx, tx, integrationObservations, row.AccountID, row.ID)
	if err != nil {
		return before, err
	}
	before = stored[row.ID].ofIntegration(row.integration())
	merged := before.Merge(i)
	emitIntegration(ctx, row.AccountID, change[integration.Integration]{before, merged})
	row = newIntegrationRow(merged)
	_, err = tx.NewUpdate().Model(&row).Column("status", "has_error", "workspace_id", "workspace_name",
		"last_tested_at", "refreshed_at", "updated_at").Set("began_at = CASE WHEN began_at < ? THEN ? ELSE began_at END", began, began).
		Where("ig.account_id = ?", row.AccountID).Where("ig.id = ?", row.ID).Exec(ctx)
	if err != nil {
		return before, err
	}
	return before, saveObservations(ctx, tx, integrationObservations, integrationObservation(row.AccountID, merged))
}

// RemoveIntegration implements ports.Integrations.
func (s *Store) RemoveIntegration(ctx context.Context, owner access.AccountID, id string, storedAnswer *ports.StoredAnswer) error {
	return s.inTransaction(ctx, "remove integration", func(ctx context.Context, tx bun.IDB) error {
		rows, err := s.lockIntegrations(ctx, tx, accountKey(owner), ident.ParseOrZero(id))
		switch {
		case err != nil:
			return err
		case len(rows) == 0:
			return integrationNotFound()
		}
		if err := checkNoHiddenConnection(ctx, tx, accountKey(owner), ident.ParseOrZero(id)); err != nil {
			return err
		}
		if err := s.removeIntegrations(ctx, tx, accountKey(owner), rows); err != nil {
			return err
		}
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
}

// lockIntegrations locks the integrations with these ids, or all integrations of an account if
// there are no ids, and returns them. The caller deletes them. lockIntegrations waits for the
// transactions that are adding connections. Transactions that add connections later wait for the
// caller.
func (s *Store) lockIntegrations(ctx context.Context, tx bun.IDB, owner string, onlyIDs ...string) ([]integrationRow, error) {
	var rows []integrationRow
	q := tx.NewSelect().Model(&rows).ExcludeColumn("credential").Where("ig.account_id = ?", owner).Order("ig.id")
	if len(onlyIDs) > 0 {
		q = q.Where("ig.id IN (?)", bun.List(onlyIDs))
	}
	err := s.db.LockRowsToDelete(q, "ig").Scan(ctx)
	return rows, err
}

// removeIntegrations deletes integrations that lockIntegrations returned. Foreign keys delete their
// connections and OAuth sessions.
func (s *Store) removeIntegrations(ctx context.Context, tx bun.IDB, owner string, rows []integrationRow) error {
	if len(rows) == 0 {
		return nil
	}
	ids := convertAll(rows, func(r integrationRow) string { return r.ID })
	if err := s.emitEndedConnections(ctx, tx, owner, "integration_id", ids); err != nil {
		return err
	}
	for _, row := range rows {
		emitIntegration(ctx, owner, change[integration.Integration]{before: row.integration()})
	}
	_, err := tx.NewDelete().Model((*integrationRow)(nil)).Where("account_id = ?", owner).Where("id IN (?)", bun.List(ids)).Exec(ctx)
	return err
}

// DueRefreshes implements ports.Integrations. It stores that the refresh of each returned
// integration began at the time now. A concurrent caller waits for the locked rows, and then does
// not select them, because their refresh has just begun.
func (s *Store) DueRefreshes(ctx context.Context, before, now time.Time, limit int) ([]integration.Integration, error) {
	var rows []integrationRow
	err := s.inTransaction(ctx, "claim due refreshes", func(ctx context.Context, tx bun.IDB) error {
		rows = nil
		err := s.db.LockRows(tx.NewSelect().Model(&rows).ExcludeColumn("credential").
			Where(ofActiveAccount("ig")).
			Where("ig.began_at < ?", storedTime(before)).OrderExpr("ig.began_at, ig.id").Limit(int64(limit)), "ig").Scan(ctx)
		if err != nil {
			return err
		}
		for _, row := range rows {
			row.BeganAt = storedTime(now)
			if _, err := tx.NewUpdate().Model(&row).Column("began_at").Where("ig.account_id = ?", row.AccountID).Where("ig.id = ?", row.ID).Exec(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	return convertAll(rows, integrationRow.integration), err
}

// maxRefreshTries is the maximum number of calls of saveRefresh, which itself retries its
// transaction (see database.DB.RetryWrite). The transaction fails with ErrDuplicate if a different
// integration claims a mailbox of the refresh at the same time, usually for an OAuth session.
const maxRefreshTries = 10

// SaveRefresh implements ports.Connections.
func (s *Store) SaveRefresh(ctx context.Context, owner access.AccountID, i integration.Integration, began time.Time, connections []integration.Connection, storedAnswer *ports.StoredAnswer) (int, error) {
	i.AccountID = owner
	observed := newConnectionRows(newIntegrationRow(i), connections)
	for range maxRefreshTries {
		stored, err := s.saveRefresh(ctx, i, observed, storedTime(began), storedAnswer)
		if !errors.Is(err, database.ErrDuplicate) {
			return stored, err
		}
	}
	return 0, fault.ServiceUnavailable.RetryIn(database.UnavailableRetry, "other requests are connecting the same mailboxes right now")
}

func (s *Store) saveRefresh(ctx context.Context, i integration.Integration, observed []connectionRow, began time.Time, storedAnswer *ports.StoredAnswer) (storedCount int, err error) {
	err = s.inTransaction(ctx, "save refresh", func(ctx context.Context, tx bun.IDB) error {
		storedCount = 0
		isNewest, err := s.mergeRefreshed(ctx, tx, i, began)
		if err != nil {
			return err
		}
		if !isNewest {
			return s.storeAnswer(ctx, tx, storedAnswer)
		}
		row := newIntegrationRow(i)
		if err := s.lockToConnect(ctx, tx, row.AccountID, row.ID, convertAll(observed, func(r connectionRow) string { return r.MailboxID })...); err != nil {
			return err
		}
		rows, err := savableConnections(ctx, tx, row, observed)
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(rows, batchSize) {
			n, err := s.saveBatch(ctx, tx, chunk, began)
			if err != nil {
				return err
			}
			storedCount += n
		}
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
	if err != nil {
		return 0, err
	}
	return storedCount, nil
}

// newConnectionRows returns the rows sorted by mailbox, so that two concurrent refreshes do not
// deadlock. Of several connections of a mailbox it keeps the last.
func newConnectionRows(parent integrationRow, connections []integration.Connection) []connectionRow {
	lastOfMailbox := make(map[string]connectionRow, len(connections))
	for _, c := range connections {
		c.IntegrationID = parent.ID
		row := newConnectionRow(parent.AccountID, c)
		lastOfMailbox[row.MailboxID] = row
	}
	return slices.SortedFunc(maps.Values(lastOfMailbox), func(a, b connectionRow) int { return strings.Compare(a.MailboxID, b.MailboxID) })
}

// mergeRefreshed stores the state of the integration that a refresh observed. isNewest is false if
// the connections of a refresh of all tenants that began later are stored already.
//
// mergeRefreshed stores began only for a refresh of all tenants. A refresh by a key that is limited
// to some tenants stores connections of only their mailboxes. Its time would delay the next
// scheduled refresh, and an older refresh of all tenants could no longer be saved.
func (s *Store) mergeRefreshed(ctx context.Context, tx bun.IDB, i integration.Integration, began time.Time) (isNewest bool, err error) {
	var beganAt time.Time
	if _, isLimited := ports.VisibleTenants(ctx); !isLimited {
		i.Observed.Listing, beganAt = began, began
	}
	before, err := s.mergeIntegration(ctx, tx, i, beganAt)
	return observation.Advance(&before.Observed.Listing, began), err
}

// savableConnections returns the rows whose mailbox still exists and is provisioned. If a different
// integration holds the mailbox (see integration.ConnectionStatus.HoldsMailbox), it returns the row
// only if the row ends the connection. If a different integration claims a mailbox later, the
// transaction fails and runs again.
func savableConnections(ctx context.Context, tx bun.IDB, parent integrationRow, rows []connectionRow) ([]connectionRow, error) {
	var mailboxIDs []string
	err := tx.NewSelect().Model((*mailboxRow)(nil)).Column("id").Where("m.account_id = ?", parent.AccountID).
		Where("m.provisioned").Scan(ctx, &mailboxIDs)
	if err != nil {
		return nil, err
	}
	var connections []connectionRow
	if err := selectConnections(tx, &connections, parent.AccountID, parent.ID).Where("mc.integration_id <> ?", parent.ID).Scan(ctx); err != nil {
		return nil, err
	}
	provisioned, heldElsewhere := setOf(mailboxIDs), setOf(convertAll(connections, func(c connectionRow) string { return c.MailboxID }))
	return slices.DeleteFunc(slices.Clone(rows), func(row connectionRow) bool {
		isEnded := row.Status == string(integration.ConnectionDisconnected)
		return !provisioned[row.MailboxID] || heldElsewhere[row.MailboxID] && !isEnded
	}), nil
}

// saveBatch stores the rows, except those whose stored connection has changed since the refresh
// began. It returns the number of stored rows.
func (s *Store) saveBatch(ctx context.Context, tx bun.IDB, rows []connectionRow, began time.Time) (int, error) {
	stored, err := s.lockConnections(ctx, tx, rows[0].AccountID, rows[0].IntegrationID, convertAll(rows, func(r connectionRow) string { return r.MailboxID })...)
	if err != nil {
		return 0, err
	}
	var changed []change[connectionRow]
	var rowsToSave []connectionRow
	for _, row := range rows {
		before := stored[row.MailboxID]
		if before.UpdatedAt.After(began) {
			continue
		}
		row.ID = cmp.Or(before.ID, row.ID)
		changed, rowsToSave = append(changed, change[connectionRow]{before, row}), append(rowsToSave, row)
	}
	if len(rowsToSave) == 0 {
		return 0, nil
	}
	var savedMailboxIDs []string
	err = tx.NewInsert().Model(&rowsToSave).On("CONFLICT (account_id, integration_id, mailbox_id) DO UPDATE").
		Set("status = EXCLUDED.status").Set("platform_account = EXCLUDED.platform_account").
		Set("platform_address = EXCLUDED.platform_address").
		Set("platform_name = EXCLUDED.platform_name").
		Set("has_error = EXCLUDED.has_error").Set("reason = EXCLUDED.reason").
		Set("connected_at = EXCLUDED.connected_at").Set("updated_at = EXCLUDED.updated_at").
		Where("mc.updated_at <= ?", began).Returning("mailbox_id").Scan(ctx, &savedMailboxIDs)
	if err != nil {
		return 0, err
	}
	// After lockConnections, a concurrent transaction can have inserted a connection. The INSERT
	// leaves it unchanged if it was updated after began.
	saved := setOf(savedMailboxIDs)
	changed = slices.DeleteFunc(changed, func(c change[connectionRow]) bool { return !saved[c.after.MailboxID] })
	return len(changed), emitConnections(ctx, tx, rows[0].AccountID, changed)
}
