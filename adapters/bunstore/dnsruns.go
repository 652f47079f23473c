// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

// The statuses, as they stand in the conditions of the two partial indexes.
const (
	activeJob = "dj.status IN ('queued', 'running', 'waiting', 'action_required')"
	wakingJob = "dj.status IN ('queued', 'running', 'waiting')"
)

func noRun() error { return fault.RunNotFound.With("the account has no such provisioning run") }

func noJob() error { return fault.JobNotFound.With("the account has no such provisioning job") }

// CreateRun implements ports.DNSRuns.
func (s *Store) CreateRun(ctx context.Context, r provisioning.Run, jobs []provisioning.Job) error {
	row := dnsRunRow{AccountID: account(r.Account), ID: ident.Lookup(r.ID), TotalDomains: r.TotalDomains, CreatedAt: micro(r.CreatedAt)}
	err := s.atomically(ctx, "create provisioning run", func(ctx context.Context, tx bun.IDB) error {
		if err := dropEmptyRuns(ctx, tx, row.AccountID); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		for _, j := range jobs {
			j.Account, j.RunID = r.Account, r.ID
			if err := addJob(ctx, tx, newDNSJobRow(j)); err != nil {
				return err
			}
		}
		return s.complete(ctx, tx)
	})
	if errors.Is(err, errNoParent) {
		return noDomain()
	}
	return err
}

// addJob leaves it to the index which of several jobs of a domain is the one.
func addJob(ctx context.Context, tx bun.IDB, row dnsJobRow) error {
	res, err := tx.NewInsert().Model(&row).On("CONFLICT DO NOTHING").Exec(ctx)
	return changed(res, err, fault.JobActive.With("the domain has an active provisioning job"))
}

// dropEmptyRuns deletes runs whose domains are gone, and their jobs with them.
func dropEmptyRuns(ctx context.Context, tx bun.IDB, owner string) error {
	_, err := tx.NewDelete().Model((*dnsRunRow)(nil)).Where("dr.account_id = ?", owner).
		Where("NOT EXISTS (SELECT 1 FROM dns_jobs AS dj WHERE dj.account_id = dr.account_id AND dj.run_id = dr.id)").Exec(ctx)
	return err
}

// Runs implements ports.DNSRuns.
func (s *Store) Runs(ctx context.Context, owner access.AccountID, q ports.RunQuery) ([]provisioning.Run, error) {
	var rows []dnsRunRow
	err := s.run(ctx, "list provisioning runs", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		jobs := db.NewSelect().TableExpr("dns_jobs AS dj").ColumnExpr("1").
			Where("dj.account_id = dr.account_id").Where("dj.run_id = dr.id")
		if q.ActiveOnly {
			jobs = jobs.Where(activeJob)
		}
		return db.NewSelect().Model(&rows).Where("dr.account_id = ?", account(owner)).Where("EXISTS (?)", jobs).
			OrderExpr("dr.created_at DESC, dr.id DESC").Limit(int64(q.Limit)).Scan(ctx)
	})
	if err != nil || len(rows) == 0 {
		return []provisioning.Run{}, err
	}
	return s.withJobs(ctx, rows)
}

// withJobs makes runs of rows. A run whose jobs went meanwhile is not there.
func (s *Store) withJobs(ctx context.Context, rows []dnsRunRow) ([]provisioning.Run, error) {
	var ids []string
	for _, r := range rows {
		ids = append(ids, r.ID)
	}
	all, err := s.jobsOf(ctx, rows[0].AccountID, ids...)
	runs := make([]provisioning.Run, 0, len(rows))
	for _, r := range rows {
		if jobs := all[r.ID]; len(jobs) > 0 {
			runs = append(runs, r.run(jobs))
		}
	}
	return runs, err
}

func (s *Store) jobsOf(ctx context.Context, owner string, runs ...string) (map[string][]provisioning.Job, error) {
	var rows []dnsJobRow
	err := s.run(ctx, "list provisioning jobs", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().Model(&rows).Where("dj.account_id = ?", owner).Where("dj.run_id IN (?)", bun.List(runs)).
			Order("dj.domain_name", "dj.id").Scan(ctx)
	})
	all := map[string][]provisioning.Job{}
	for _, r := range rows {
		all[r.RunID] = append(all[r.RunID], r.job())
	}
	return all, err
}

// Run implements ports.DNSRuns.
func (s *Store) Run(ctx context.Context, owner access.AccountID, id string) (provisioning.Run, []provisioning.Job, error) {
	var row dnsRunRow
	err := s.run(ctx, "find provisioning run", func(ctx context.Context, db bun.IDB) error {
		return db.NewSelect().Model(&row).Where("dr.account_id = ?", account(owner)).Where("dr.id = ?", ident.Lookup(id)).Scan(ctx)
	})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return provisioning.Run{}, nil, err
	}
	// An unknown run takes the same queries.
	all, err := s.jobsOf(ctx, account(owner), ident.Lookup(id))
	if err != nil {
		return provisioning.Run{}, nil, err
	}
	jobs := all[ident.Lookup(id)]
	if row.ID == "" || len(jobs) == 0 {
		return provisioning.Run{}, nil, noRun()
	}
	return row.run(jobs), jobs, nil
}

// Job implements ports.DNSRuns.
func (s *Store) Job(ctx context.Context, owner access.AccountID, id string) (provisioning.Job, error) {
	var row dnsJobRow
	err := s.run(ctx, "find provisioning job", func(ctx context.Context, db bun.IDB) error {
		return oneJob(db.NewSelect().Model(&row).
			Where("dj.account_id = ?", account(owner)).Where("dj.id = ?", ident.Lookup(id)).Scan(ctx))
	})
	if err != nil {
		return provisioning.Job{}, err
	}
	return row.job(), nil
}

func oneJob(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return noJob()
	}
	return err
}

// ActiveJob implements ports.DNSRuns.
func (s *Store) ActiveJob(ctx context.Context, owner access.AccountID, domainID string) (provisioning.Job, bool, error) {
	var row dnsJobRow
	err := s.run(ctx, "find active provisioning job", func(ctx context.Context, db bun.IDB) error {
		return db.NewSelect().Model(&row).Where("dj.account_id = ?", account(owner)).
			Where("dj.domain_id = ?", ident.Lookup(domainID)).Where(activeJob).Scan(ctx)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return provisioning.Job{}, false, nil
	}
	if err != nil {
		return provisioning.Job{}, false, err
	}
	return row.job(), true, nil
}

// RetryJob implements ports.DNSRuns.
func (s *Store) RetryJob(ctx context.Context, owner access.AccountID, id string, now time.Time) (provisioning.Job, error) {
	var retried provisioning.Job
	err := s.atomically(ctx, "retry provisioning job", func(ctx context.Context, tx bun.IDB) error {
		var row dnsJobRow
		found := s.locked(tx.NewSelect().Model(&row).
			Where("dj.account_id = ?", account(owner)).Where("dj.id = ?", ident.Lookup(id)), "dj").Scan(ctx)
		if err := oneJob(found); err != nil {
			return err
		}
		var err error
		if retried, err = provisioning.Retry(row.job(), micro(now)); err != nil {
			return err
		}
		if _, err := saveJob(ctx, tx, retried, row.Epoch); err != nil {
			return err
		}
		return s.complete(ctx, tx)
	})
	return retried, err
}
