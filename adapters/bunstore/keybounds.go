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
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// keyBoundsRow holds the bounds of a key and its creator. A key that is older than the table has no
// row, and neither has a key that replaces such a key.
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
	row := keyBoundsRow{KeyID: keyID, Scopes: storedText(strings.Join(access.Strings(b.Scopes), " ")), CreatedBy: storedText(createdBy)}
	if b.Tenants != nil {
		row.Tenants = new(strings.Join(access.Strings(b.Tenants), " "))
	}
	if b.Networks != nil {
		var networks []string
		for _, network := range b.Networks {
			networks = append(networks, network.String())
		}
		row.Networks = new(strings.Join(networks, " "))
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

// storedBounds holds columns of api_key_bounds from a left join. All fields are nil for a key
// without a row.
type storedBounds struct {
	scopes, tenants, networks *string
	expiresAt                 *time.Time
}

// boundsColumns are the columns of storedBounds, in the order of its fields.
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

// copyBounds copies the bounds and the creator of one key to another. If the first key has no
// bounds row, the second key gets no row.
func copyBounds(ctx context.Context, tx bun.IDB, from, to string) error {
	_, err := tx.NewRaw("INSERT INTO api_key_bounds (key_id, scopes, tenants, networks, expires_at, created_by) "+
		"SELECT ?, scopes, tenants, networks, expires_at, created_by FROM api_key_bounds WHERE key_id = ?", to, from).Exec(ctx)
	return err
}

// If the key of a request is limited to some tenants, only these tenants are visible in the
// request's context (see ports.WithTenants). The functions below apply the limit to lists, and to
// objects that are found by their own ids. For the event log and the audit entries, package httpapi
// passes the visible tenants in the query. Methods that get the id of the tenant need no check:
// package httpapi/guard has replaced the id of an invisible tenant with an unknown id.

func isVisible(ctx context.Context, id tenant.GUID) bool {
	tenants, limited := ports.VisibleTenants(ctx)
	return !limited || slices.Contains(tenants, id)
}

// onlyVisible limits a query to rows of visible tenants. column holds the tenant's GUID.
func onlyVisible(ctx context.Context, q *bun.SelectQuery, column string) *bun.SelectQuery {
	if tenants, limited := ports.VisibleTenants(ctx); limited {
		q = q.Where("? IN (?)", bun.Safe(column), bun.List(storedGUIDs(tenants)))
	}
	return q
}

// visibleTenantCondition returns the SQL condition that a row belongs to a visible tenant, with its
// argument. rows is the alias of a table with the columns account_id and tenant_id. The condition
// is empty if all tenants are visible.
func visibleTenantCondition(ctx context.Context, rows string) (condition string, args []any) {
	tenants, limited := ports.VisibleTenants(ctx)
	if !limited {
		return "", nil
	}
	return " AND " + rows + ".tenant_id IN (SELECT vt.id FROM tenants AS vt WHERE vt.account_id = " + rows + ".account_id AND vt.guid IN (?))",
		[]any{bun.List(storedGUIDs(tenants))}
}

// onlyVisibleConnections limits a query to connections of mailboxes of visible tenants. The alias
// of the connections is mc.
func onlyVisibleConnections(ctx context.Context, q *bun.SelectQuery) *bun.SelectQuery {
	condition, args := visibleTenantCondition(ctx, "vm")
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
	visibleCount, err := onlyVisibleConnections(ctx, connections()).Count(ctx)
	if err == nil && visibleCount < total {
		return fault.FromStore(fault.InsufficientScope.WithValues(access.IntegrationsWrite,
			"the integration has mailboxes of tenants that the API key must not access"))
	}
	return err
}

// storedGUIDs returns GUIDs in the form in which they are stored.
func storedGUIDs(tenants []tenant.GUID) []string {
	return convertAll(tenants, func(id tenant.GUID) string { return ident.ParseOrZero(string(id)) })
}
