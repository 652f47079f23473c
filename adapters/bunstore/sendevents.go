// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// eventTime is when the events of a tenant happen that are about to be written:
// after all that it has, also when the clock stepped back. It is asked for in
// the transaction that writes them, so that none is put below those that
// somebody has seen already.
func eventTime(ctx context.Context, tx bun.IDB, owner string, id tenant.GUID, now time.Time) (time.Time, error) {
	var newest enforcementRow
	err := tx.NewSelect().Model(&newest).Where("ev.account_id = ?", owner).Where("ev.tenant_guid = ?", ident.Lookup(string(id))).
		OrderExpr("ev.id DESC").Limit(1).Scan(ctx)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return now, err
	}
	if next := newest.CreatedAt.Add(time.Millisecond); next.After(now) {
		return next, nil
	}
	return now, nil
}

// stamped is an event that happens then.
func stamped(e sendlimit.Event, at time.Time) sendlimit.Event {
	var random [ident.Entropy]byte
	_, _ = rand.Read(random[:]) // never fails
	e.ID, e.At = ident.New(at, random), at
	return e
}
