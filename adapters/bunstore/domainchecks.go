// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/ports"
)

// The conditions and the order are those of the index domains_checked.
const (
	checkedDomain = "d.verified AND d.added"
	lastRead      = "COALESCE(d.checked_at, d.created_at)"
)

// StaleDomains implements ports.DomainChecks. A domain that was never read
// counts from its creation, which comes to the same: nothing is verified unread.
func (s *Store) StaleDomains(ctx context.Context, before time.Time, most int) ([]ports.StaleDomain, error) {
	var rows []struct{ AccountID, ID string }
	err := s.run(ctx, "list stale domains", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().TableExpr("domains AS d").ColumnExpr("d.account_id, d.id").Where(checkedDomain).
			Where(lastRead+" <= ?", micro(before)).OrderExpr(lastRead+", d.id").Limit(int64(most)).Scan(ctx, &rows)
	})
	all := make([]ports.StaleDomain, 0, len(rows))
	for _, r := range rows {
		all = append(all, ports.StaleDomain{ID: r.ID, Account: access.AccountID(r.AccountID)})
	}
	return all, err
}

// DomainHealth implements ports.DomainChecks.
func (s *Store) DomainHealth(ctx context.Context) (ports.DomainHealth, error) {
	h := ports.DomainHealth{Drifted: map[domain.Drift]int{}}
	var groups []struct {
		Drifted string
		Domains int
	}
	err := s.run(ctx, "count drifted domains", func(ctx context.Context, db bun.IDB) error {
		groups = nil
		return db.NewSelect().TableExpr("domains AS d").ColumnExpr("d.records->>'Drifted' AS drifted, count(*) AS domains").
			Where(checkedDomain).Where("d.records->>'Drifted' <> ''").GroupExpr("d.records->>'Drifted'").Scan(ctx, &groups)
	})
	if err != nil {
		return h, err
	}
	for _, g := range groups {
		for _, kind := range drifts(g.Drifted) {
			h.Drifted[kind] += g.Domains
		}
	}
	err = s.domainAges(ctx, &h)
	return h, err
}

// domainAges are two answers of one index.
func (s *Store) domainAges(ctx context.Context, h *ports.DomainHealth) error {
	var row struct {
		Domains int
		Oldest  time.Time `bun:",nullzero"`
	}
	err := s.run(ctx, "count verified domains", func(ctx context.Context, db bun.IDB) error {
		oldest := db.NewSelect().TableExpr("domains AS d").ColumnExpr(lastRead).Where(checkedDomain).OrderExpr(lastRead + ", d.id").Limit(1)
		return db.NewSelect().TableExpr("domains AS d").ColumnExpr("count(*) AS domains").ColumnExpr("(?) AS oldest", oldest).
			Where(checkedDomain).Scan(ctx, &row)
	})
	if h.Verified = row.Domains; !row.Oldest.IsZero() {
		h.Oldest = row.Oldest.UTC()
	}
	return err
}
