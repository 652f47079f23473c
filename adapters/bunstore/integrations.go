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
)

func noIntegration() error {
	return fault.IntegrationNotFound.With("the account has no such integration")
}

// AddIntegration implements ports.Integrations.
func (s *Store) AddIntegration(ctx context.Context, i integration.Integration, credential []byte) error {
	row := newIntegrationRow(i)
	row.Credential = credential
	return s.atomically(ctx, "add integration", func(ctx context.Context, tx bun.IDB) error {
		if _, err := s.lockOpen(ctx, tx, row.AccountID); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		return s.complete(ctx, tx)
	})
}

// Integrations implements ports.Integrations.
func (s *Store) Integrations(ctx context.Context, owner access.AccountID) ([]integration.Integration, error) {
	var rows []integrationRow
	err := s.run(ctx, "list integrations", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().Model(&rows).ExcludeColumn("credential").Where("ig.account_id = ?", account(owner)).
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
	err := s.run(ctx, "find integration", func(ctx context.Context, db bun.IDB) error {
		err := db.NewSelect().Model(&row).Where("ig.account_id = ?", account(owner)).Where("ig.id = ?", ident.Lookup(id)).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return noIntegration()
		}
		return err
	})
	if err != nil {
		return integration.Integration{}, nil, err
	}
	return row.integration(), row.Credential, nil
}

// SaveIntegration implements ports.Integrations.
func (s *Store) SaveIntegration(ctx context.Context, i integration.Integration) error {
	return s.completing(ctx, "save integration", func(ctx context.Context, db bun.IDB) error {
		return saveIntegration(ctx, db, newIntegrationRow(i), "status", "has_error", "workspace_id", "workspace_name",
			"last_tested_at", "refreshed_at", "updated_at")
	})
}

func saveIntegration(ctx context.Context, db bun.IDB, row integrationRow, columns ...string) error {
	res, err := db.NewUpdate().Model(&row).Column(columns...).
		Where("ig.account_id = ?", row.AccountID).Where("ig.id = ?", row.ID).Exec(ctx)
	return changed(res, err, noIntegration())
}

// RemoveIntegration implements ports.Integrations.
func (s *Store) RemoveIntegration(ctx context.Context, owner access.AccountID, id string) error {
	return s.completing(ctx, "remove integration", func(ctx context.Context, db bun.IDB) error {
		res, err := db.NewDelete().Model((*integrationRow)(nil)).
			Where("account_id = ?", account(owner)).Where("id = ?", ident.Lookup(id)).Exec(ctx)
		return changed(res, err, noIntegration())
	})
}

// dropIntegrations takes all integrations from an account, credentials and all.
func dropIntegrations(ctx context.Context, tx bun.IDB, owner string) (int, error) {
	res, err := tx.NewDelete().Model((*integrationRow)(nil)).Where("account_id = ?", owner).Exec(ctx)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}

// DueRefreshes implements ports.Integrations. Whoever else wants the same rows
// waits for them, and then finds that their refresh has just begun.
func (s *Store) DueRefreshes(ctx context.Context, before, now time.Time, most int) ([]integration.Integration, error) {
	var rows []integrationRow
	err := s.atomically(ctx, "claim due refreshes", func(ctx context.Context, tx bun.IDB) error {
		rows = nil
		err := s.locked(tx.NewSelect().Model(&rows).ExcludeColumn("credential").
			Join("JOIN accounts AS a ON a.account_id = ig.account_id AND a.active").
			Where("ig.began_at < ?", micro(before)).OrderExpr("ig.began_at, ig.id").Limit(int64(most)), "ig").Scan(ctx)
		if err != nil {
			return err
		}
		for _, row := range rows {
			row.BeganAt = micro(now)
			if err := saveIntegration(ctx, tx, row, "began_at"); err != nil {
				return err
			}
		}
		return nil
	})
	return integrationsOf(rows), err
}
