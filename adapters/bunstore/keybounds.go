// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/page"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// keyBoundsRow holds the bounds of a key: its scopes, tenants, networks and expiry. It also holds
// who created the key. A key that is older than the table has no row.
type keyBoundsRow struct {
	bun.BaseModel `bun:"table:api_key_bounds,alias:b"`

	KeyID     string `bun:",pk"`
	Scopes    string
	Tenants   *string
	Networks  *string
	ExpiresAt time.Time `bun:",nullzero"`
	CreatedBy string
}

func newKeyBoundsRow(keyID string, b access.Bounds, createdBy string) keyBoundsRow {
	row := keyBoundsRow{KeyID: keyID, Scopes: storedText(strings.Join(access.Words(b.Scopes), " ")), CreatedBy: storedText(createdBy)}
	if b.Tenants != nil {
		row.Tenants = joinedWords(access.Words(b.Tenants))
	}
	if b.Networks != nil {
		var networks []string
		for _, network := range b.Networks {
			networks = append(networks, network.String())
		}
		row.Networks = joinedWords(networks)
	}
	if !b.ExpiresAt.IsZero() {
		row.ExpiresAt = storedTime(b.ExpiresAt)
	}
	return row
}

// addBounds adds the bounds of a key, if it has any, to the details of an audit event.
func addBounds(details map[string]string, row keyBoundsRow) {
	if row.Scopes != string(access.AnyScope) {
		details["scopes"] = row.Scopes
	}
	if row.Tenants != nil {
		details["tenant_ids"] = *row.Tenants
	}
	if row.Networks != nil {
		details["allowed_cidrs"] = *row.Networks
	}
	if !row.ExpiresAt.IsZero() {
		details["expires_at"] = row.ExpiresAt.Format(time.RFC3339)
	}
}

func joinedWords(words []string) *string {
	text := strings.Join(words, " ")
	return &text
}

// storedBounds holds the columns of api_key_bounds from a left join. All fields are nil for a key
// without a row.
type storedBounds struct {
	scopes, tenants, networks *string
	expiresAt                 *time.Time
}

// boundsColumns selects the columns of storedBounds, in the order of its fields.
const boundsColumns = "b.scopes, b.tenants, b.networks, b.expires_at"

const boundsJoin = "LEFT JOIN api_key_bounds AS b ON b.key_id = k.id"

// bounds returns the bounds of a key. It fails if a stored network cannot be parsed, or if a stored
// list of tenants is empty. A damaged row must not permit anything.
func (r storedBounds) bounds() (access.Bounds, error) {
	if r.scopes == nil {
		return access.Unbounded(), nil
	}
	var b access.Bounds
	for _, s := range strings.Fields(*r.scopes) {
		b.Scopes = append(b.Scopes, access.Scope(s))
	}
	if r.tenants != nil {
		b.Tenants = []tenant.GUID{}
		for _, id := range strings.Fields(*r.tenants) {
			b.Tenants = append(b.Tenants, tenant.GUID(id))
		}
		if len(b.Tenants) == 0 {
			return access.Bounds{}, errors.New("read the bounds of a key: the stored list of tenants is empty")
		}
	}
	if r.networks != nil {
		b.Networks = []netip.Prefix{}
		for _, raw := range strings.Fields(*r.networks) {
			network, err := netip.ParsePrefix(raw)
			if err != nil {
				return access.Bounds{}, fmt.Errorf("read the bounds of a key: %w", err)
			}
			b.Networks = append(b.Networks, network)
		}
	}
	if r.expiresAt != nil {
		b.ExpiresAt = r.expiresAt.UTC()
	}
	return b, nil
}

// oldSecretRow is an earlier secret of a key. A rotation has replaced it.
type oldSecretRow struct {
	bun.BaseModel `bun:"table:api_key_old_secrets,alias:o"`

	Hash       []byte `bun:",pk"`
	KeyID      string
	ValidUntil time.Time
}

// insertKey stores a key with its bounds.
func insertKey(ctx context.Context, tx bun.IDB, row keyRow, b access.Bounds, createdBy string) error {
	if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
		return err
	}
	emitKey(ctx, row.AccountID, change[access.Key]{after: row.withoutBounds()})
	bounds := newKeyBoundsRow(row.ID, b, createdBy)
	_, err := tx.NewInsert().Model(&bounds).Exec(ctx)
	return err
}

// copyBounds copies the bounds and the creator of one key to another. If the first key has no
// bounds row, the second key gets no row.
func copyBounds(ctx context.Context, tx bun.IDB, from, to string) error {
	_, err := tx.NewRaw("INSERT INTO api_key_bounds (key_id, scopes, tenants, networks, expires_at, created_by) "+
		"SELECT ?, scopes, tenants, networks, expires_at, created_by FROM api_key_bounds WHERE key_id = ?", to, from).Exec(ctx)
	return err
}

// keysWithBounds selects keys with their bounds and their last uses.
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
// the secret that is replaced now. A rotation without overlap therefore leaves one secret.
func (s *Store) RenewKeySecret(ctx context.Context, owner access.AccountID, id string, fresh access.Key, oldUntil time.Time, storedAnswer *ports.StoredAnswer) error {
	return s.inTransaction(ctx, "renew key", func(ctx context.Context, tx bun.IDB) error {
		if err := s.lockAccount(ctx, tx, accountKey(owner)); err != nil {
			return err
		}
		var row keyRow
		err := tx.NewSelect().Model(&row).Where("k.account_id = ?", accountKey(owner)).Where("k.id = ?", ident.ParseOrZero(id)).
			Where("k.revoked_at IS NULL").Scan(ctx)
		if err != nil {
			return orNotFound(err, keyRevoked())
		}
		if err := retireSecrets(ctx, tx, row, storedTime(fresh.CreatedAt), storedTime(oldUntil)); err != nil {
			return err
		}
		row.Hash, row.Hint = fresh.Hash[:], storedText(fresh.Hint)
		_, err = tx.NewUpdate().Model((*keyRow)(nil)).Set("hash = ?", row.Hash).Set("hint = ?", row.Hint).
			Where("account_id = ?", row.AccountID).Where("id = ?", row.ID).Exec(ctx)
		if err != nil {
			return err
		}
		emit(ctx, row.AccountID, event.OfRotation(row.withoutBounds()))
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
}

// retireSecrets stores the current secret of a key as an old secret that expires at until, if until
// is after now. It makes all earlier secrets expire at until at the latest, and deletes expired
// secrets.
func retireSecrets(ctx context.Context, tx bun.IDB, row keyRow, now, until time.Time) error {
	_, err := tx.NewUpdate().Model((*oldSecretRow)(nil)).Set("valid_until = ?", until).
		Where("key_id = ?", row.ID).Where("valid_until > ?", until).Exec(ctx)
	if err != nil {
		return err
	}
	if until.After(now) {
		old := oldSecretRow{Hash: row.Hash, KeyID: row.ID, ValidUntil: until}
		if _, err := tx.NewInsert().Model(&old).Exec(ctx); err != nil {
			return err
		}
	}
	_, err = tx.NewDelete().Model((*oldSecretRow)(nil)).Where("key_id = ?", row.ID).Where("valid_until <= ?", now).Exec(ctx)
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
			return orNotFound(err, keyRevoked())
		}
		before := row.withoutBounds()
		before.RevokedAt = time.Time{}
		emitKey(ctx, row.AccountID, change[access.Key]{before, row.withoutBounds()})
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
}

func keyRevoked() error { return fault.FromStore(fault.KeyRevoked.With("the API key is revoked")) }

// The context of a request limits the visible tenants, with ports.WithTenants, if the request's key
// is limited to some tenants. Methods that read lists, or that find an object by its own id, use
// the functions below. Methods that get the id of the tenant do not need these functions. The HTTP
// package guard has already replaced the id of a tenant that is not visible with an id that no
// tenant has.

// isVisible reports whether a tenant is visible in ctx.
func isVisible(ctx context.Context, id tenant.GUID) bool {
	tenants, limited := ports.VisibleTenants(ctx)
	return !limited || slices.Contains(tenants, id)
}

// onlyVisible limits a query to rows of visible tenants. column holds the tenant's GUID.
func onlyVisible(ctx context.Context, q *bun.SelectQuery, column string) *bun.SelectQuery {
	if tenants, limited := ports.VisibleTenants(ctx); limited {
		q = q.Where("? IN (?)", bun.Safe(column), bun.List(tenantKeys(tenants)))
	}
	return q
}

// ofVisibleTenant returns the SQL condition that a row belongs to a visible tenant, with its
// argument. rows is the alias of a table with the columns account_id and tenant_id. The condition
// is empty if all tenants are visible.
func ofVisibleTenant(ctx context.Context, rows string) (condition string, args []any) {
	tenants, limited := ports.VisibleTenants(ctx)
	if !limited {
		return "", nil
	}
	return " AND " + rows + ".tenant_id IN (SELECT vt.id FROM tenants AS vt WHERE vt.account_id = " + rows + ".account_id AND vt.guid IN (?))",
		[]any{bun.List(tenantKeys(tenants))}
}

// onlyVisibleMailboxes limits a query to connections of mailboxes of visible tenants. The alias of
// the connections is mc.
func onlyVisibleMailboxes(ctx context.Context, q *bun.SelectQuery) *bun.SelectQuery {
	condition, args := ofVisibleTenant(ctx, "vm")
	if condition == "" {
		return q
	}
	return q.Where("mc.mailbox_id IN (SELECT vm.id FROM mailboxes AS vm WHERE vm.account_id = mc.account_id"+condition+")", args...)
}

// checkNoHiddenConnection fails with insufficient_scope if an integration has a connection of a
// mailbox whose tenant is not visible. A key must not change what it cannot see.
func checkNoHiddenConnection(ctx context.Context, tx bun.IDB, owner, integrationID string) error {
	if _, limited := ports.VisibleTenants(ctx); !limited {
		return nil
	}
	connections := func() *bun.SelectQuery {
		return tx.NewSelect().TableExpr("mailbox_connections AS mc").Where("mc.account_id = ?", owner).Where("mc.integration_id = ?", integrationID)
	}
	total, err := connections().Count(ctx)
	if err != nil {
		return err
	}
	visibleCount, err := onlyVisibleMailboxes(ctx, connections()).Count(ctx)
	if err == nil && visibleCount < total {
		return fault.FromStore(fault.InsufficientScope.WithValues(access.IntegrationsWrite,
			"the integration has mailboxes of tenants to which the API key is not limited"))
	}
	return err
}

// tenantKeys returns GUIDs in the form in which they are stored.
func tenantKeys(tenants []tenant.GUID) []string {
	return convertAll(tenants, func(id tenant.GUID) string { return ident.ParseOrZero(string(id)) })
}
