// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/page"
	"github.com/tenantry/tenantry/ports"
)

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

type keyUseRow struct {
	bun.BaseModel `bun:"table:api_key_uses,alias:u"`

	KeyID      string `bun:",pk"`
	LastUsedAt time.Time
}

// oldSecretRow is a secret of a key that a rotation has replaced.
type oldSecretRow struct {
	bun.BaseModel `bun:"table:api_key_old_secrets,alias:o"`

	Hash       []byte `bun:",pk"`
	KeyID      string
	ValidUntil time.Time
}

func newKeyRow(key access.Key) keyRow {
	return keyRow{
		Hash: key.Hash[:], ID: cmp.Or(key.ID, newID()), AccountID: accountKey(key.Account),
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

func (r keyRow) withoutBounds() access.Key {
	return access.Key{
		ID: r.ID, Account: access.AccountID(r.AccountID), Hash: [32]byte(r.Hash), Form: access.KeyForm(r.Form), Hint: r.Hint, Name: r.Name,
		CreatedAt: r.CreatedAt.UTC(), RevokedAt: r.RevokedAt.UTC(), LastUsedAt: r.LastUsedAt.UTC(), CreatedBy: r.CreatedBy,
	}
}

func callerBySecretRead(db *bun.DB) *database.PreparedRead {
	return database.NewPreparedRead(callerQuery(db).ColumnExpr("CAST(NULL AS TIMESTAMPTZ) AS valid_until").
		Where("k.hash = ?", database.PreparedArg))
}

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
// plan in one query. It runs for each request with an API key, so a revoked key stops working at
// once in all processes. If no key has this secret, a second query searches the secrets that
// rotations have replaced.
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

func insertKey(ctx context.Context, tx bun.IDB, row keyRow, b access.Bounds, createdBy string) error {
	if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
		return err
	}
	emitKey(ctx, row.AccountID, change[access.Key]{after: row.withoutBounds()})
	bounds := newKeyBoundsRow(row.ID, b, createdBy)
	_, err := tx.NewInsert().Model(&bounds).Exec(ctx)
	return err
}

func keysWithBounds(db bun.IDB, rows *[]keyRow) *bun.SelectQuery {
	return db.NewSelect().Model(rows).ColumnExpr("?TableColumns").ColumnExpr("u.last_used_at, b.created_by, " + boundsColumns).
		Join("LEFT JOIN api_key_uses AS u ON u.key_id = k.id").Join(boundsJoin)
}

func keysOf(rows []keyRow) ([]access.Key, error) {
	keys := make([]access.Key, 0, len(rows))
	for _, r := range rows {
		k, err := r.key()
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// KeyPage implements ports.AccountKeys.
func (s *Store) KeyPage(ctx context.Context, owner access.AccountID, q page.Query) (page.Page[access.Key], error) {
	var rows []keyRow
	err := s.db.RunRead(ctx, "list keys of account", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		query := keysWithBounds(db, &rows).Where("k.account_id = ?", accountKey(owner))
		if q.After != "" {
			query = query.Where("k.id < ?", ident.ParseOrZero(string(q.After)))
		}
		return query.OrderExpr("k.id DESC").Limit(int64(q.Limit) + 1).Scan(ctx)
	})
	if err != nil {
		return page.Page[access.Key]{}, err
	}
	keys, err := keysOf(rows)
	return page.New(q, keys, func(k access.Key) page.Cursor { return page.Cursor(k.ID) }), err
}

// AccountKey implements ports.AccountKeys.
func (s *Store) AccountKey(ctx context.Context, owner access.AccountID, id string) (access.Key, error) {
	var rows []keyRow
	err := s.db.RunRead(ctx, "find key of account", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return keysWithBounds(db, &rows).Where("k.account_id = ?", accountKey(owner)).Where("k.id = ?", ident.ParseOrZero(id)).Scan(ctx)
	})
	if err != nil {
		return access.Key{}, err
	}
	if len(rows) == 0 {
		return access.Key{}, accountKeyNotFound()
	}
	return rows[0].key()
}

func accountKeyNotFound() error {
	return fault.FromStore(fault.KeyNotFound.With("the account has no API key with this id"))
}

// IssueKey implements ports.AccountKeys.
func (s *Store) IssueKey(ctx context.Context, k access.Key, storedAnswer *ports.StoredAnswer) error {
	row := newKeyRow(k)
	return s.inTransaction(ctx, "issue key", func(ctx context.Context, tx bun.IDB) error {
		if _, err := s.lockOpenAccount(ctx, tx, row.AccountID); err != nil {
			return err
		}
		if err := insertKey(ctx, tx, row, k.Bounds, k.CreatedBy); err != nil {
			return err
		}
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
}

// RenewKeySecret implements ports.AccountKeys. All earlier secrets of the key expire no later than
// the secret that is replaced now. After a rotation without overlap, only the new secret is valid.
func (s *Store) RenewKeySecret(ctx context.Context, owner access.AccountID, id string, fresh access.Key, oldUntil time.Time, storedAnswer *ports.StoredAnswer) error {
	return s.inTransaction(ctx, "renew key", func(ctx context.Context, tx bun.IDB) error {
		if err := s.lockAccount(ctx, tx, accountKey(owner)); err != nil {
			return err
		}
		var row keyRow
		err := tx.NewSelect().Model(&row).Where("k.account_id = ?", accountKey(owner)).Where("k.id = ?", ident.ParseOrZero(id)).
			Where("k.revoked_at IS NULL").Scan(ctx)
		if err != nil {
			return orNotFound(err, access.RevokedError())
		}
		if err := retireSecrets(ctx, tx, row, storedTime(fresh.CreatedAt), storedTime(oldUntil)); err != nil {
			return err
		}
		row.Hash, row.Form, row.Hint = fresh.Hash[:], string(fresh.Form), storedText(fresh.Hint)
		_, err = tx.NewUpdate().Model((*keyRow)(nil)).Set("hash = ?", row.Hash).Set("form = ?", row.Form).Set("hint = ?", row.Hint).
			Where("account_id = ?", row.AccountID).Where("id = ?", row.ID).Exec(ctx)
		if err != nil {
			return err
		}
		emit(ctx, row.AccountID, event.OfRotation(row.withoutBounds()))
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
}

// longPast is the expiry of a secret that must not work any more, also not at a replica whose clock
// is behind.
var longPast = time.Unix(0, 0).UTC()

// retireSecrets stores the current secret of a key as an old secret that expires at until, or at
// once if until is not after now. It makes all earlier secrets expire at that time at the latest.
// Expired secrets stay stored, so a refused request with one of them gets an audit entry.
func retireSecrets(ctx context.Context, tx bun.IDB, row keyRow, now, until time.Time) error {
	if !until.After(now) {
		until = longPast
	}
	_, err := tx.NewUpdate().Model((*oldSecretRow)(nil)).Set("valid_until = ?", until).
		Where("key_id = ?", row.ID).Where("valid_until > ?", until).Exec(ctx)
	if err != nil {
		return err
	}
	old := oldSecretRow{Hash: row.Hash, KeyID: row.ID, ValidUntil: until}
	_, err = tx.NewInsert().Model(&old).Exec(ctx)
	return err
}

// RevokeOwnKey implements ports.AccountKeys.
func (s *Store) RevokeOwnKey(ctx context.Context, owner access.AccountID, id string, now time.Time, storedAnswer *ports.StoredAnswer) error {
	return s.inTransaction(ctx, "revoke own key", func(ctx context.Context, tx bun.IDB) error {
		if err := s.lockAccount(ctx, tx, accountKey(owner)); err != nil {
			return err
		}
		var row keyRow
		err := tx.NewUpdate().Model(&row).Set("revoked_at = ?", storedTime(now)).
			Where("account_id = ?", accountKey(owner)).Where("id = ?", ident.ParseOrZero(id)).Where("revoked_at IS NULL").
			Returning("*").Scan(ctx)
		if err != nil {
			return orNotFound(err, access.RevokedError())
		}
		before := row.withoutBounds()
		before.RevokedAt = time.Time{}
		emitKey(ctx, row.AccountID, change[access.Key]{before, row.withoutBounds()})
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
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
				err = access.RevokedError()
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

// revokeKeyRow revokes a key and records the revocation in the audit log. The caller has checked
// that the key is not revoked yet.
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
