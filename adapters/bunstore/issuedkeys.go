// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
)

// AddKey implements ports.IssuedKeys.
func (s *Store) AddKey(ctx context.Context, k access.Key) error {
	row := newKeyRow(k)
	return s.atomically(ctx, "add key", func(ctx context.Context, tx bun.IDB) error {
		if _, err := s.lockOpen(ctx, tx, row.AccountID); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		return s.record(ctx, tx, audit.CreateKey, row.AccountID, keyDetails(row))
	})
}

// keyDetails is what the audit says of a key.
func keyDetails(row keyRow) map[string]string {
	return map[string]string{"key_id": row.ID, "key_hint": row.Hint, "form": row.Form, "name": row.Name}
}

// IssuedKeys implements ports.IssuedKeys.
func (s *Store) IssuedKeys(ctx context.Context, owner access.AccountID) ([]access.Key, error) {
	var rows []keyRow
	err := s.run(ctx, "list keys", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		q := db.NewSelect().Model(&rows).Order("k.created_at", "k.id")
		if owner != "" {
			q = q.Where("k.account_id = ?", account(owner))
		}
		return q.Scan(ctx)
	})
	keys := make([]access.Key, 0, len(rows))
	for _, r := range rows {
		keys = append(keys, r.key())
	}
	return keys, err
}

// IssuedKey implements ports.IssuedKeys.
func (s *Store) IssuedKey(ctx context.Context, id string) (access.Key, error) {
	var found keyRow
	err := s.run(ctx, "find key by id", func(ctx context.Context, db bun.IDB) (err error) {
		found, err = keyByID(ctx, db, id)
		return err
	})
	if err != nil {
		return access.Key{}, err
	}
	return found.key(), nil
}

func keyByID(ctx context.Context, db bun.IDB, id string) (keyRow, error) {
	var row keyRow
	err := db.NewSelect().Model(&row).Where("k.id = ?", ident.Lookup(id)).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.KeyNotFound.With("there is no API key with this id")
	}
	return row, err
}

// lockKey reads a key under its account's lock.
func (s *Store) lockKey(ctx context.Context, tx bun.IDB, id string) (keyRow, error) {
	row, err := keyByID(ctx, tx, id)
	if err != nil {
		return row, err
	}
	if err := s.lockAccount(ctx, tx, row.AccountID); err != nil {
		return row, err
	}
	return keyByID(ctx, tx, id)
}

// ReplaceKey implements ports.IssuedKeys.
func (s *Store) ReplaceKey(ctx context.Context, oldID string, fresh access.Key) (access.Key, error) {
	row := newKeyRow(fresh)
	err := s.atomically(ctx, "replace key", func(ctx context.Context, tx bun.IDB) error {
		old, err := s.lockKey(ctx, tx, oldID)
		if err != nil {
			return err
		}
		row.AccountID = old.AccountID
		if err := replace(ctx, tx, old.ID, &row); err != nil {
			if errors.Is(err, fault.InvalidAPIKey) {
				err = fault.KeyRevoked.With("the API key is revoked")
			}
			return err
		}
		details := keyDetails(row)
		details["replaced_key_id"] = old.ID
		return s.record(ctx, tx, audit.RotateKey, row.AccountID, details)
	})
	if err != nil {
		return access.Key{}, err
	}
	return row.key(), nil
}

// RevokeKey implements ports.IssuedKeys.
func (s *Store) RevokeKey(ctx context.Context, id string, now time.Time) (access.Key, error) {
	var row keyRow
	err := s.atomically(ctx, "revoke key", func(ctx context.Context, tx bun.IDB) (err error) {
		if row, err = s.lockKey(ctx, tx, id); err != nil || !row.RevokedAt.IsZero() {
			return err
		}
		row.RevokedAt = micro(now)
		return s.revoke(ctx, tx, row, now)
	})
	if err != nil {
		return access.Key{}, err
	}
	return row.key(), nil
}

// revoke ends a live key.
func (s *Store) revoke(ctx context.Context, tx bun.IDB, row keyRow, now time.Time) error {
	_, err := tx.NewUpdate().Model((*keyRow)(nil)).Set("revoked_at = ?", micro(now)).
		Where("account_id = ?", row.AccountID).Where("id = ?", row.ID).Exec(ctx)
	if err != nil {
		return err
	}
	return s.record(ctx, tx, audit.RevokeKey, row.AccountID, keyDetails(row))
}
