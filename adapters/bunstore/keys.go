// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
)

type memberRow struct {
	bun.BaseModel `bun:"table:members,alias:mb"`

	AccountID string `bun:",pk"`
	Email     string `bun:",pk"`
	CreatedAt time.Time
}

type keyRow struct {
	bun.BaseModel `bun:"table:api_keys,alias:k"`

	Hash      []byte `bun:",pk"`
	ID        string
	AccountID string
	Form      string
	Hint      string
	Name      string
	CreatedAt time.Time
	RevokedAt time.Time `bun:",nullzero"`
}

func newKeyRow(k access.Key) keyRow {
	return keyRow{
		Hash: k.Hash[:], ID: cmp.Or(k.ID, newID()), AccountID: ident.Lookup(string(k.Account)),
		Form: string(k.Form), Hint: text(k.Hint), Name: text(k.Name), CreatedAt: micro(k.CreatedAt),
	}
}

func (r keyRow) key() access.Key {
	return access.Key{
		ID: r.ID, Account: access.AccountID(r.AccountID), Hash: [32]byte(r.Hash), Form: access.Form(r.Form), Hint: r.Hint, Name: r.Name,
		CreatedAt: r.CreatedAt.UTC(), RevokedAt: r.RevokedAt.UTC(),
	}
}

func callerByHash(db *bun.DB) *prepared {
	return fixed(accountColumns(db.NewSelect().Model((*accountRow)(nil))).ColumnExpr("k.id AS key_id").
		Join("JOIN api_keys AS k ON k.account_id = a.account_id").
		Where("k.hash = ?", first).Where("k.revoked_at IS NULL"))
}

// Caller implements ports.Keys: key, account and plan are one query, asked
// anew for each request, so that a rotated key is dead at once everywhere.
func (s *Store) Caller(ctx context.Context, hash [32]byte) (access.Caller, error) {
	caller, found := access.Caller{}, false
	err := s.run(ctx, "find key", func(ctx context.Context, _ bun.IDB) error {
		return s.read(ctx, s.callerByHash, hash[:], func(r row) error {
			var row accountRow
			var slots *int
			err := r.Scan(&row.AccountID, &row.Email, &row.Plan, &row.Active, &slots, &row.CreatedAt,
				&row.PlanSlots, &row.AutomaticDNS, &caller.KeyID)
			if slots != nil {
				row.TenantSlots = *slots
			}
			caller.Account, found = row.account(), true
			return err
		})
	})
	if err == nil && !found {
		err = access.UnknownKey()
	}
	if err != nil {
		return access.Caller{}, err
	}
	return caller, nil
}

// Account implements ports.Keys.
func (s *Store) Account(ctx context.Context, id access.AccountID) (access.Account, error) {
	var row accountRow
	err := s.run(ctx, "load account", func(ctx context.Context, db bun.IDB) error {
		return oneAccount(accountColumns(db.NewSelect().Model(&row)).Where("a.account_id = ?", account(id)).Scan(ctx))
	})
	if err != nil {
		return access.Account{}, err
	}
	return row.account(), nil
}

// Member implements ports.Keys.
func (s *Store) Member(ctx context.Context, owner access.AccountID, email string) (bool, error) {
	var member bool
	err := s.run(ctx, "find member", func(ctx context.Context, db bun.IDB) (err error) {
		member, err = db.NewSelect().Model((*memberRow)(nil)).
			Where("account_id = ?", account(owner)).Where("email = ?", mailAddress(email)).Exists(ctx)
		return err
	})
	return member, err
}

// RotateKey implements ports.Keys. Under the account's lock, as a closing must
// not miss the new key.
func (s *Store) RotateKey(ctx context.Context, owner access.AccountID, oldID string, fresh access.Key) error {
	row := newKeyRow(fresh)
	row.AccountID = account(owner)
	return s.atomically(ctx, "rotate key", func(ctx context.Context, tx bun.IDB) error {
		if err := s.lockAccount(ctx, tx, row.AccountID); err != nil {
			return err
		}
		return replace(ctx, tx, ident.Lookup(oldID), &row)
	})
}

// replace puts a key in the place of a live one, whose row stays, dead.
func replace(ctx context.Context, tx bun.IDB, oldID string, fresh *keyRow) error {
	err := tx.NewUpdate().Model((*keyRow)(nil)).Set("revoked_at = ?", fresh.CreatedAt).
		Where("account_id = ?", fresh.AccountID).Where("id = ?", oldID).Where("revoked_at IS NULL").
		Returning("name").Scan(ctx, &fresh.Name)
	if errors.Is(err, sql.ErrNoRows) {
		return access.UnknownKey()
	}
	if err != nil {
		return err
	}
	_, err = tx.NewInsert().Model(fresh).Exec(ctx)
	return err
}

// newID makes an id that sorts by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// account is the owner as it stands in a condition.
func account(owner access.AccountID) string { return ident.Lookup(string(owner)) }

// changed gives the refusal when a statement found no row to change.
func changed(res sql.Result, err, refusal error) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		return refusal
	}
	return err
}
