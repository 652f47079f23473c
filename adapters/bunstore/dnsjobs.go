// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

// DueJobs implements ports.DNSJobs. A job's turn is how many jobs of its
// account are at work or come before it, so one account's many leave the first
// places to the others.
func (s *Store) DueJobs(ctx context.Context, now time.Time, most int) ([]ports.DueJob, error) {
	var rows []dnsJobRow
	err := s.run(ctx, "list due provisioning jobs", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		busy := db.NewSelect().TableExpr("dns_jobs AS dj").ColumnExpr("dj.account_id, count(*) AS jobs").
			Where(wakingJob).Where("dj.leased_until > ?", s.clock()).GroupExpr("dj.account_id")
		due := db.NewSelect().TableExpr("dns_jobs AS dj").ColumnExpr("dj.account_id, dj.id, dj.next_attempt_at").
			ColumnExpr("row_number() OVER (PARTITION BY dj.account_id ORDER BY dj.next_attempt_at, dj.id) AS place").
			Where(wakingJob).Where("dj.next_attempt_at <= ?", micro(now)).Where("dj.leased_until <= ?", s.clock())
		return db.NewSelect().With("busy", busy).With("due", due).TableExpr("due").Join("LEFT JOIN busy ON busy.account_id = due.account_id").
			ColumnExpr("due.account_id, due.id, due.next_attempt_at").
			OrderExpr("due.place + COALESCE(busy.jobs, 0), due.next_attempt_at, due.id").Limit(int64(most)).Scan(ctx, &rows)
	})
	all := make([]ports.DueJob, 0, len(rows))
	for _, r := range rows {
		all = append(all, ports.DueJob{ID: r.ID, Account: access.AccountID(r.AccountID), At: r.NextAttemptAt.UTC()})
	}
	return all, err
}

// ClaimJob implements ports.DNSJobs.
func (s *Store) ClaimJob(ctx context.Context, id string, lease time.Duration, now time.Time) (provisioning.Job, bool, error) {
	var row dnsJobRow
	err := s.run(ctx, "claim provisioning job", func(ctx context.Context, db bun.IDB) error {
		return db.NewUpdate().Model(&row).Set("epoch = epoch + 1").Set("status = ?", string(provisioning.Running)).
			Set("leased_until = ? + ?", s.clock(), lease.Microseconds()).
			Where("dj.id = ?", ident.Lookup(id)).Where(wakingJob).Where("dj.next_attempt_at <= ?", micro(now)).
			Where("dj.leased_until <= ?", s.clock()).Returning("*").Scan(ctx)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return provisioning.Job{}, false, nil
	}
	if err != nil {
		return provisioning.Job{}, false, err
	}
	return row.job(), true, nil
}

// HoldJob implements ports.DNSJobs.
func (s *Store) HoldJob(ctx context.Context, j provisioning.Job, lease time.Duration) (bool, error) {
	return s.decides(ctx, "hold provisioning job", func(db bun.IDB) (sql.Result, error) {
		return ofEpoch(db.NewUpdate().Model((*dnsJobRow)(nil)), j, j.Epoch).Where("dj.status = ?", string(provisioning.Running)).
			Set("leased_until = ? + ?", s.clock(), lease.Microseconds()).Exec(ctx)
	})
}

// SaveJob implements ports.DNSJobs.
func (s *Store) SaveJob(ctx context.Context, j provisioning.Job) (bool, error) {
	return s.decides(ctx, "save provisioning job", func(db bun.IDB) (sql.Result, error) { return saveJob(ctx, db, j, j.Epoch) })
}

// saveJob stores a job if its epoch is still that one.
func saveJob(ctx context.Context, db bun.IDB, j provisioning.Job, epoch int64) (sql.Result, error) {
	row := newDNSJobRow(j)
	q := db.NewUpdate().Model(&row).Column("stage", "status", "next_step", "provider", "required", "message", "next_attempt_at",
		"epoch", "progress", "started_at", "ended_at", "updated_at")
	if j.Status != provisioning.Running {
		q = q.Set("leased_until = 0")
	}
	return ofEpoch(q, j, epoch).Exec(ctx)
}

// ReleaseJob implements ports.DNSJobs.
func (s *Store) ReleaseJob(ctx context.Context, j provisioning.Job, now time.Time) (bool, error) {
	return s.decides(ctx, "release provisioning job", func(db bun.IDB) (sql.Result, error) {
		return ofEpoch(db.NewUpdate().Model((*dnsJobRow)(nil)), j, j.Epoch).Where("dj.status = ?", string(provisioning.Running)).
			Set("status = ?", string(provisioning.Queued)).Set("next_attempt_at = ?", micro(now)).Set("leased_until = 0").Exec(ctx)
	})
}

// ofEpoch is a change of a job only as long as its epoch is that one.
func ofEpoch(q *bun.UpdateQuery, j provisioning.Job, epoch int64) *bun.UpdateQuery {
	return q.Where("dj.account_id = ?", account(j.Account)).Where("dj.id = ?", ident.Lookup(j.ID)).Where("dj.epoch = ?", epoch)
}
