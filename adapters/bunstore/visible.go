// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// A request with a key that is limited to some tenants has a context with ports.WithTenants. The
// reads of lists, and of objects that are found by their own id, apply the functions of this file.
// Reads that name the tenant do not need them: package guard replaces the id of a tenant that is not
// visible by the id of no tenant.

// visible reports whether a tenant is visible in ctx.
func visible(ctx context.Context, id tenant.GUID) bool {
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
// argument. rows is the alias of a table with the columns account_id and tenant_id. The condition is
// empty if all tenants are visible.
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
	all, err := connections().Count(ctx)
	if err != nil {
		return err
	}
	seen, err := onlyVisibleMailboxes(ctx, connections()).Count(ctx)
	if err == nil && seen < all {
		return fault.FromStore(fault.InsufficientScope.WithValues(access.IntegrationsWrite,
			"the integration has mailboxes of tenants to which the API key is not limited"))
	}
	return err
}

// tenantKeys returns GUIDs in the form in which they are stored.
func tenantKeys(tenants []tenant.GUID) []string {
	keys := make([]string, 0, len(tenants))
	for _, id := range tenants {
		keys = append(keys, ident.Lookup(string(id)))
	}
	return keys
}
