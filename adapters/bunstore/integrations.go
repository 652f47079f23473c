// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/integration"
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
	Given         []string `bun:"type:jsonb"`
	Status        string
	HasError      bool
	LastTestedAt  time.Time `bun:",nullzero"`
	RefreshedAt   time.Time `bun:",nullzero"`
	BeganAt       time.Time // when the last refresh began
	CreatedAt     time.Time
	UpdatedAt     time.Time
}

func newIntegrationRow(i integration.Integration) integrationRow {
	given := make([]string, 0, len(i.CredentialFields))
	for _, name := range i.CredentialFields {
		given = append(given, storedText(name))
	}
	return integrationRow{
		AccountID: accountKey(i.AccountID), ID: ident.Lookup(i.ID), Provider: storedText(i.Provider), Name: storedText(i.Name),
		WorkspaceID: storedText(i.Workspace.ID), WorkspaceName: storedText(i.Workspace.Name), Given: given,
		Status: storedText(string(i.Status)), HasError: i.HasError, LastTestedAt: storedTime(i.LastTestedAt), RefreshedAt: storedTime(i.RefreshedAt),
		CreatedAt: storedTime(i.CreatedAt), UpdatedAt: storedTime(i.UpdatedAt),
	}
}

func (r integrationRow) integration() integration.Integration {
	return integration.Integration{
		ID: r.ID, AccountID: access.AccountID(r.AccountID), Provider: r.Provider, Name: r.Name,
		Workspace: integration.Workspace{ID: r.WorkspaceID, Name: r.WorkspaceName},
		Status:    integration.Status(r.Status), HasError: r.HasError, CredentialFields: slices.Clip(r.Given),
		LastTestedAt: r.LastTestedAt.UTC(), RefreshedAt: r.RefreshedAt.UTC(), CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
}

func integrationNotFound() error {
	return fault.FromStore(fault.IntegrationNotFound.With("the account has no such integration"))
}

// AddIntegration implements ports.Integrations.
func (s *Store) AddIntegration(ctx context.Context, i integration.Integration, credential []byte, completion *ports.Completion) error {
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
		return s.storeCompletion(ctx, tx, completion)
	})
}

// Integrations implements ports.Integrations.
func (s *Store) Integrations(ctx context.Context, owner access.AccountID) ([]integration.Integration, error) {
	var rows []integrationRow
	err := s.db.Run(ctx, "list integrations", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().Model(&rows).ExcludeColumn("credential").Where("ig.account_id = ?", accountKey(owner)).
			OrderExpr("ig.created_at DESC, ig.id DESC").Scan(ctx)
	})
	return integrationsOf(rows), err
}

func integrationsOf(rows []integrationRow) []integration.Integration {
	all := make([]integration.Integration, 0, len(rows))
	for _, r := range rows {
		all = append(all, r.integration())
	}
	return all
}

// Integration implements ports.Integrations.
func (s *Store) Integration(ctx context.Context, owner access.AccountID, id string) (integration.Integration, []byte, error) {
	var row integrationRow
	err := s.db.Run(ctx, "find integration", func(ctx context.Context, db bun.IDB) error {
		err := db.NewSelect().Model(&row).Where("ig.account_id = ?", accountKey(owner)).Where("ig.id = ?", ident.Lookup(id)).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return integrationNotFound()
		}
		return err
	})
	if err != nil {
		return integration.Integration{}, nil, err
	}
	return row.integration(), row.Credential, nil
}

// SaveIntegration implements ports.Integrations.
func (s *Store) SaveIntegration(ctx context.Context, i integration.Integration, completion *ports.Completion) error {
	return s.inTransaction(ctx, "save integration", func(ctx context.Context, tx bun.IDB) error {
		err := s.saveIntegration(ctx, tx, newIntegrationRow(i), func(q *bun.UpdateQuery) *bun.UpdateQuery { return q })
		if err != nil {
			return err
		}
		return s.storeCompletion(ctx, tx, completion)
	})
}

// saveIntegration stores the result of a test or a refresh. with adds to the update.
func (s *Store) saveIntegration(ctx context.Context, tx bun.IDB, row integrationRow, with func(*bun.UpdateQuery) *bun.UpdateQuery) error {
	var before integrationRow
	err := s.db.LockRows(tx.NewSelect().Model(&before).ExcludeColumn("credential").
		Where("ig.account_id = ?", row.AccountID).Where("ig.id = ?", row.ID), "ig").Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return integrationNotFound()
	}
	if err != nil {
		return err
	}
	after := before
	after.Status = row.Status
	emitIntegration(ctx, row.AccountID, change[integration.Integration]{before.integration(), after.integration()})
	_, err = with(tx.NewUpdate().Model(&row).Column("status", "has_error", "workspace_id", "workspace_name",
		"last_tested_at", "refreshed_at", "updated_at")).
		Where("ig.account_id = ?", row.AccountID).Where("ig.id = ?", row.ID).Exec(ctx)
	return err
}

// RemoveIntegration implements ports.Integrations.
func (s *Store) RemoveIntegration(ctx context.Context, owner access.AccountID, id string, completion *ports.Completion) error {
	return s.inTransaction(ctx, "remove integration", func(ctx context.Context, tx bun.IDB) error {
		if err := checkNoHiddenConnection(ctx, tx, accountKey(owner), ident.Lookup(id)); err != nil {
			return err
		}
		n, err := s.removeIntegrations(ctx, tx, accountKey(owner), ident.Lookup(id))
		switch {
		case err != nil:
			return err
		case n == 0:
			return integrationNotFound()
		}
		return s.storeCompletion(ctx, tx, completion)
	})
}

// removeIntegrations deletes the integrations with these ids, or all integrations of an account, with
// their credentials and connections. It returns their number.
func (s *Store) removeIntegrations(ctx context.Context, tx bun.IDB, owner string, only ...string) (int, error) {
	var rows []integrationRow
	q := tx.NewSelect().Model(&rows).ExcludeColumn("credential").Where("ig.account_id = ?", owner).Order("ig.id")
	if len(only) > 0 {
		q = q.Where("ig.id IN (?)", bun.List(only))
	}
	if err := s.db.LockRows(q, "ig").Scan(ctx); err != nil || len(rows) == 0 {
		return 0, err
	}
	ids := each(rows, func(r integrationRow) string { return r.ID })
	if err := s.emitEnded(ctx, tx, owner, "integration_id", ids); err != nil {
		return 0, err
	}
	for _, row := range rows {
		emitIntegration(ctx, owner, change[integration.Integration]{before: row.integration()})
	}
	_, err := tx.NewDelete().Model((*integrationRow)(nil)).Where("account_id = ?", owner).Where("id IN (?)", bun.List(ids)).Exec(ctx)
	return len(rows), err
}

// DueRefreshes implements ports.Integrations. A concurrent caller waits for the locked rows and
// then finds that their refresh has just begun.
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
	return integrationsOf(rows), err
}
