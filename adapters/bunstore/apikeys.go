// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
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

	LastUsedAt time.Time `bun:",scanonly"`

	// The columns of api_key_bounds (see storedBounds).
	Scopes    *string    `bun:",scanonly"`
	Tenants   *string    `bun:",scanonly"`
	Networks  *string    `bun:",scanonly"`
	ExpiresAt *time.Time `bun:",scanonly"`
	CreatedBy string     `bun:",scanonly"`
}

// keyUseRow is the last use of a key.
type keyUseRow struct {
	bun.BaseModel `bun:"table:api_key_uses,alias:u"`

	KeyID      string `bun:",pk"`
	LastUsedAt time.Time
}

func newKeyRow(key access.Key) keyRow {
	return keyRow{
		Hash: key.Hash[:], ID: cmp.Or(key.ID, newID()), AccountID: ident.ParseOrZero(string(key.Account)),
		Form: string(key.Form), Hint: storedText(key.Hint), Name: storedText(key.Name), CreatedAt: storedTime(key.CreatedAt),
	}
}

// key returns the key with its bounds. It fails if the stored bounds cannot be read.
func (r keyRow) key() (access.Key, error) {
	key := r.withoutBounds()
	var err error
	key.Bounds, err = storedBounds{r.Scopes, r.Tenants, r.Networks, r.ExpiresAt}.bounds()
	return key, err
}

// withoutBounds returns the key without its bounds, which are in a different table.
func (r keyRow) withoutBounds() access.Key {
	return access.Key{
		ID: r.ID, Account: access.AccountID(r.AccountID), Hash: [32]byte(r.Hash), Form: access.KeyForm(r.Form), Hint: r.Hint, Name: r.Name,
		CreatedAt: r.CreatedAt.UTC(), RevokedAt: r.RevokedAt.UTC(), LastUsedAt: r.LastUsedAt.UTC(), CreatedBy: r.CreatedBy,
	}
}

// callerBySecretRead selects the caller by the hash of the key's current secret.
func callerBySecretRead(db *bun.DB) *database.PreparedRead {
	return database.NewPreparedRead(callerQuery(db).ColumnExpr("CAST(NULL AS TIMESTAMPTZ) AS valid_until").
		Where("k.hash = ?", database.PreparedArg))
}

// callerByOldSecretRead selects the caller by the hash of a secret that a rotation replaced.
func callerByOldSecretRead(db *bun.DB) *database.PreparedRead {
	return database.NewPreparedRead(callerQuery(db).ColumnExpr("o.valid_until").
		Join("JOIN api_key_old_secrets AS o ON o.key_id = k.id").Where("o.hash = ?", database.PreparedArg))
}

func callerQuery(db *bun.DB) *bun.SelectQuery {
	return accountColumns(db.NewSelect().Model((*accountRow)(nil))).ColumnExpr("k.id AS key_id, k.name AS key_name, k.revoked_at IS NOT NULL AS revoked").
		ColumnExpr(boundsColumns).
		Join("JOIN api_keys AS k ON k.account_id = a.account_id").
		Join(boundsJoin)
}

// Caller implements ports.Keys. It reads the key, the key's bounds, the account and the account's
// plan in one query. It runs for each request, so a revoked key stops working at once in all
// processes. If no key has this secret, a second query searches the secrets that rotations have
// replaced.
func (s *Store) Caller(ctx context.Context, hash [32]byte) (access.Caller, error) {
	var caller access.Caller
	var isUsable bool
	err := s.db.RunRead(ctx, "find key", func(ctx context.Context, _ bun.IDB) error {
		for _, read := range []*database.PreparedRead{s.callerBySecretRead, s.callerByOldSecretRead} {
			found, revoked, err := false, false, error(nil)
			if caller, found, revoked, err = s.readCaller(ctx, read, hash); err != nil || found {
				isUsable = !revoked
				return err
			}
		}
		return nil
	})
	if err != nil {
		return access.Caller{}, err
	}
	if !isUsable {
		return caller, access.UnknownKey()
	}
	return caller, nil
}

func (s *Store) readCaller(ctx context.Context, read *database.PreparedRead, hash [32]byte) (caller access.Caller, found, revoked bool, err error) {
	err = s.db.ReadPrepared(ctx, read, func(r database.Row) error {
		var row accountRow
		var slots *int
		var until *time.Time
		var bounds storedBounds
		err := r.Scan(&row.AccountID, &row.Email, &row.Plan, &row.Active, &slots, &row.CreatedAt,
			&row.PlanSlots, &row.AutomaticDNS, &caller.KeyID, &caller.KeyName, &revoked,
			&bounds.scopes, &bounds.tenants, &bounds.networks, &bounds.expiresAt, &until)
		if err != nil {
			return err
		}
		if slots != nil {
			row.TenantSlots = *slots
		}
		if until != nil {
			caller.SecretUntil = until.UTC()
		}
		caller.Account, found = row.account(), true
		caller.Bounds, err = bounds.bounds()
		return err
	}, hash[:])
	return caller, found, revoked, err
}

// Account implements ports.Keys.
func (s *Store) Account(ctx context.Context, id access.AccountID) (access.Account, error) {
	var row accountRow
	err := s.db.RunRead(ctx, "load account", func(ctx context.Context, db bun.IDB) error {
		err := accountColumns(db.NewSelect().Model(&row)).Where("a.account_id = ?", accountKey(id)).Scan(ctx)
		return orNotFound(err, accountNotFound())
	})
	if err != nil {
		return access.Account{}, err
	}
	return row.account(), nil
}

// Member implements ports.Keys.
func (s *Store) Member(ctx context.Context, owner access.AccountID, email string) (bool, error) {
	var isMember bool
	err := s.db.RunRead(ctx, "find member", func(ctx context.Context, db bun.IDB) (err error) {
		isMember, err = db.NewSelect().Model((*memberRow)(nil)).
			Where("account_id = ?", accountKey(owner)).Where("email = ?", normalEmail(email)).Exists(ctx)
		return err
	})
	return isMember, err
}

// RotateKey implements ports.Keys. It locks the account. Otherwise an account that is being closed
// at the same time could keep the new key.
func (s *Store) RotateKey(ctx context.Context, owner access.AccountID, oldID string, fresh access.Key) error {
	row := newKeyRow(fresh)
	row.AccountID = accountKey(owner)
	return s.inTransaction(ctx, "rotate key", func(ctx context.Context, tx bun.IDB) error {
		if err := s.lockAccount(ctx, tx, row.AccountID); err != nil {
			return err
		}
		return replaceKeyRow(ctx, tx, ident.ParseOrZero(oldID), &row)
	})
}

// replaceKeyRow revokes the key oldID and inserts fresh with the name and the bounds of the old
// key. It returns access.UnknownKey if the old key does not exist or is revoked.
func replaceKeyRow(ctx context.Context, tx bun.IDB, oldID string, fresh *keyRow) error {
	var old keyRow
	err := tx.NewUpdate().Model(&old).Set("revoked_at = ?", fresh.CreatedAt).
		Where("account_id = ?", fresh.AccountID).Where("id = ?", oldID).Where("revoked_at IS NULL").
		Returning("*").Scan(ctx)
	if err != nil {
		return orNotFound(err, access.UnknownKey())
	}
	before, after := old.withoutBounds(), old.withoutBounds()
	before.RevokedAt, fresh.Name = time.Time{}, old.Name
	emitKey(ctx, fresh.AccountID, change[access.Key]{before, after})
	emit(ctx, fresh.AccountID, event.OfRotation(fresh.withoutBounds()))
	if _, err := tx.NewInsert().Model(fresh).Exec(ctx); err != nil {
		return err
	}
	return copyBounds(ctx, tx, oldID, fresh.ID)
}

// newID returns a random id that sorts by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// accountKey returns the account's id in the form in which it is stored.
func accountKey(owner access.AccountID) string { return ident.ParseOrZero(string(owner)) }

// requireRow returns refusal if the statement changed no row.
func requireRow(res sql.Result, err, refusal error) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		return refusal
	}
	return err
}

// AddKey implements ports.IssuedKeys.
func (s *Store) AddKey(ctx context.Context, key access.Key) error {
	row := newKeyRow(key)
	return s.inTransaction(ctx, "add key", func(ctx context.Context, tx bun.IDB) error {
		if _, err := s.lockOpenAccount(ctx, tx, row.AccountID); err != nil {
			return err
		}
		if err := insertKey(ctx, tx, row, key.Bounds, s.operator); err != nil {
			return err
		}
		details := keyDetails(row)
		addBounds(details, newKeyBoundsRow(row.ID, key.Bounds, s.operator))
		return s.recordAudit(ctx, tx, audit.CreateKey, row.AccountID, details)
	})
}

// keyDetails returns the audit details of a key.
func keyDetails(row keyRow) map[string]string {
	return map[string]string{"key_id": row.ID, "key_hint": row.Hint, "form": row.Form, "name": row.Name}
}

// IssuedKeys implements ports.IssuedKeys.
func (s *Store) IssuedKeys(ctx context.Context, owner access.AccountID) ([]access.Key, error) {
	var rows []keyRow
	err := s.db.RunRead(ctx, "list keys", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		query := keysWithBounds(db, &rows).Order("k.created_at", "k.id")
		if owner != "" {
			query = query.Where("k.account_id = ?", accountKey(owner))
		}
		return query.Scan(ctx)
	})
	if err != nil {
		return nil, err
	}
	return keysOf(rows)
}

// SaveKeyUses implements ports.KeyUses. The rows are sorted, so that concurrent calls lock them in
// the same order.
func (s *Store) SaveKeyUses(ctx context.Context, lastUsed map[string]time.Time) error {
	var rows []keyUseRow
	for _, id := range slices.Sorted(maps.Keys(lastUsed)) {
		rows = append(rows, keyUseRow{KeyID: ident.ParseOrZero(id), LastUsedAt: storedTime(lastUsed[id])})
	}
	if len(rows) == 0 {
		return nil
	}
	return s.db.RunWrite(ctx, "save key uses", func(ctx context.Context, db bun.IDB) error {
		_, err := db.NewInsert().Model(&rows).On("CONFLICT (key_id) DO UPDATE").
			Set("last_used_at = EXCLUDED.last_used_at").Where("u.last_used_at < EXCLUDED.last_used_at").Exec(ctx)
		return err
	})
}

// IssuedKey implements ports.IssuedKeys.
func (s *Store) IssuedKey(ctx context.Context, id string) (access.Key, error) {
	var found keyRow
	err := s.db.RunRead(ctx, "find key by id", func(ctx context.Context, db bun.IDB) (err error) {
		found, err = keyByID(ctx, db, id)
		return err
	})
	if err != nil {
		return access.Key{}, err
	}
	return found.key()
}

// keyByID returns a key with its bounds.
func keyByID(ctx context.Context, db bun.IDB, id string) (keyRow, error) {
	var rows []keyRow
	err := keysWithBounds(db, &rows).Where("k.id = ?", ident.ParseOrZero(id)).Scan(ctx)
	if err != nil {
		return keyRow{}, err
	}
	if len(rows) == 0 {
		return keyRow{}, fault.KeyNotFound.With("there is no API key with this id")
	}
	return rows[0], nil
}

// lockKey locks the account of a key. It then reads the key again, because the key can have changed
// before the lock.
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
	err := s.inTransaction(ctx, "replace key", func(ctx context.Context, tx bun.IDB) error {
		old, err := s.lockKey(ctx, tx, oldID)
		if err != nil {
			return err
		}
		row.AccountID = old.AccountID
		if err := replaceKeyRow(ctx, tx, old.ID, &row); err != nil {
			if errors.Is(err, fault.InvalidAPIKey) {
				err = fault.KeyRevoked.With("the API key is revoked")
			}
			return err
		}
		details := keyDetails(row)
		details["replaced_key_id"] = old.ID
		if err := s.recordAudit(ctx, tx, audit.RotateKey, row.AccountID, details); err != nil {
			return err
		}
		row, err = keyByID(ctx, tx, row.ID)
		return err
	})
	if err != nil {
		return access.Key{}, err
	}
	return row.key()
}

// RevokeKey implements ports.IssuedKeys.
func (s *Store) RevokeKey(ctx context.Context, id string, now time.Time) (access.Key, error) {
	var row keyRow
	err := s.inTransaction(ctx, "revoke key", func(ctx context.Context, tx bun.IDB) (err error) {
		if row, err = s.lockKey(ctx, tx, id); err != nil || !row.RevokedAt.IsZero() {
			return err
		}
		row.RevokedAt = storedTime(now)
		return s.revokeKeyRow(ctx, tx, row, now)
	})
	if err != nil {
		return access.Key{}, err
	}
	return row.key()
}

// revokeKeyRow revokes a key that is not revoked yet (the caller checks this), and records the
// revocation in the audit log.
func (s *Store) revokeKeyRow(ctx context.Context, tx bun.IDB, row keyRow, now time.Time) error {
	_, err := tx.NewUpdate().Model((*keyRow)(nil)).Set("revoked_at = ?", storedTime(now)).
		Where("account_id = ?", row.AccountID).Where("id = ?", row.ID).Exec(ctx)
	if err != nil {
		return err
	}
	before, after := row.withoutBounds(), row.withoutBounds()
	before.RevokedAt, after.RevokedAt = time.Time{}, now
	emitKey(ctx, row.AccountID, change[access.Key]{before, after})
	return s.recordAudit(ctx, tx, audit.RevokeKey, row.AccountID, keyDetails(row))
}
