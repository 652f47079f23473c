// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

type dnsRunRow struct {
	bun.BaseModel `bun:"table:dns_runs,alias:dr"`

	AccountID    string `bun:",pk"`
	ID           string `bun:",pk"`
	TotalDomains int
	CreatedAt    time.Time
}

func (r dnsRunRow) run(jobs []provisioning.Job) provisioning.Run {
	return provisioning.Run{
		ID: r.ID, Account: access.AccountID(r.AccountID), TotalDomains: r.TotalDomains, CreatedAt: r.CreatedAt.UTC(),
	}.With(jobs)
}

type dnsJobRow struct {
	bun.BaseModel `bun:"table:dns_jobs,alias:dj"`

	AccountID      string `bun:",pk"`
	ID             string `bun:",pk"`
	RunID          string
	DomainID       string
	TenantGUID     string `bun:"tenant_guid"`
	DomainName     string
	Stage          string
	Status         string
	NextStep       string
	Provider       string
	RequiredAction string `bun:"required"`
	Message        string
	NextAttemptAt  time.Time
	Epoch          int64
	LeasedUntil    int64 // microseconds, see Store.databaseNowSQL
	Trace          string
	Progress       storedProgress `bun:"type:jsonb"`
	CreatedAt      time.Time
	StartedAt      time.Time `bun:",nullzero"`
	EndedAt        time.Time `bun:",nullzero"`
	UpdatedAt      time.Time
}

// storedProgress is the JSON form of a job's Progress. Renaming one of its JSON fields requires a
// migration.
type storedProgress struct {
	PlanHash        string
	ZoneChanges     int `json:"Moves"`
	Attempt, Faults int
	StageSince      time.Time     `json:"Since"`
	OutageTime      time.Duration `json:"Away"`
	OutageSince     time.Time     `json:"AwaySince"`
	UnreliableSince time.Time
	MissingSince    time.Time
	VisibleSince    time.Time `json:"SeenAt"`
	PublishedAt     time.Time
	NegativeTTL     time.Duration
}

func newDNSJobRow(j provisioning.Job) dnsJobRow {
	return dnsJobRow{
		AccountID: accountKey(j.Account), ID: ident.ParseOrZero(j.ID), RunID: ident.ParseOrZero(j.RunID), DomainID: ident.ParseOrZero(j.DomainID),
		TenantGUID: ident.ParseOrZero(string(j.TenantGUID)), DomainName: storedText(j.DomainName),
		Stage: storedText(string(j.Stage)), Status: storedText(string(j.Status)), NextStep: storedText(string(j.Next)),
		Provider: storedText(j.Provider), RequiredAction: storedText(string(j.RequiredAction)), Message: storedText(j.Message),
		NextAttemptAt: storedTime(j.NextAttemptAt), Epoch: j.Epoch, Trace: storedText(j.Trace), Progress: newProgress(j.Progress),
		CreatedAt: storedTime(j.CreatedAt), StartedAt: storedTime(j.StartedAt), EndedAt: storedTime(j.EndedAt), UpdatedAt: storedTime(j.UpdatedAt),
	}
}

func newProgress(p provisioning.Progress) storedProgress {
	stored := storedProgress(p)
	stored.PlanHash = storedText(p.PlanHash)
	return stored
}

func (r dnsJobRow) job() provisioning.Job {
	return provisioning.Job{
		ID: r.ID, RunID: r.RunID, Account: access.AccountID(r.AccountID), DomainID: r.DomainID,
		TenantGUID: tenant.GUID(r.TenantGUID), DomainName: r.DomainName,
		Stage: provisioning.Stage(r.Stage), Status: provisioning.Status(r.Status), Next: provisioning.Step(r.NextStep),
		Provider: r.Provider, RequiredAction: dns.ActionRequired(r.RequiredAction), Message: r.Message,
		NextAttemptAt: r.NextAttemptAt.UTC(), Epoch: r.Epoch, Trace: r.Trace, Progress: r.Progress.progress(),
		CreatedAt: r.CreatedAt.UTC(), StartedAt: r.StartedAt.UTC(), EndedAt: r.EndedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
}

func (p storedProgress) progress() provisioning.Progress {
	for _, t := range []*time.Time{&p.StageSince, &p.OutageSince, &p.UnreliableSince, &p.MissingSince, &p.VisibleSince, &p.PublishedAt} {
		*t = t.UTC()
	}
	return provisioning.Progress(p)
}

// activeJob and jobWithNextAttempt are the conditions of the two partial indexes on the status of
// jobs.
const (
	activeJob          = "dj.status IN ('queued', 'running', 'waiting', 'action_required')"
	jobWithNextAttempt = "dj.status IN ('queued', 'running', 'waiting')"
)

func runNotFound() error {
	return fault.FromStore(fault.RunNotFound.With("the account has no such provisioning run"))
}

func jobNotFound() error { return fault.JobNotFound.With("the account has no such provisioning job") }

// CreateRun implements ports.DNSRuns.
func (s *Store) CreateRun(ctx context.Context, r provisioning.Run, jobs []provisioning.Job, storedAnswer *ports.StoredAnswer) error {
	row := dnsRunRow{AccountID: accountKey(r.Account), ID: ident.ParseOrZero(r.ID), TotalDomains: r.TotalDomains, CreatedAt: storedTime(r.CreatedAt)}
	err := s.inTransaction(ctx, "create provisioning run", func(ctx context.Context, tx bun.IDB) error {
		if err := dropEmptyRuns(ctx, tx, row.AccountID); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		for _, j := range jobs {
			j.Account, j.RunID = r.Account, r.ID
			if err := insertJob(ctx, tx, newDNSJobRow(j)); err != nil {
				return err
			}
		}
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
	if errors.Is(err, database.ErrMissingParent) {
		return domainNotFound()
	}
	return err
}

// insertJob inserts a job. It returns fault.JobActive if a unique index detects that the domain
// already has an active job.
func insertJob(ctx context.Context, tx bun.IDB, row dnsJobRow) error {
	res, err := tx.NewInsert().Model(&row).On("CONFLICT DO NOTHING").Exec(ctx)
	return requireRow(res, err, fault.JobActive.With("the domain has an active provisioning job"))
}

// dropEmptyRuns deletes runs without jobs. The deletion of a domain also deletes its jobs, and can
// leave a run without jobs.
func dropEmptyRuns(ctx context.Context, tx bun.IDB, owner string) error {
	_, err := tx.NewDelete().Model((*dnsRunRow)(nil)).Where("dr.account_id = ?", owner).
		Where("NOT EXISTS (SELECT 1 FROM dns_jobs AS dj WHERE dj.account_id = dr.account_id AND dj.run_id = dr.id)").Exec(ctx)
	return err
}

// Runs implements ports.DNSRuns.
func (s *Store) Runs(ctx context.Context, owner access.AccountID, q ports.RunQuery) ([]provisioning.Run, error) {
	var rows []dnsRunRow
	err := s.db.RunRead(ctx, "list provisioning runs", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		jobs := db.NewSelect().TableExpr("dns_jobs AS dj").ColumnExpr("1").
			Where("dj.account_id = dr.account_id").Where("dj.run_id = dr.id")
		if q.ActiveOnly {
			jobs = jobs.Where(activeJob)
		}
		jobs = onlyVisible(ctx, jobs, "dj.tenant_guid")
		return db.NewSelect().Model(&rows).Where("dr.account_id = ?", accountKey(owner)).Where("EXISTS (?)", jobs).
			OrderExpr("dr.created_at DESC, dr.id DESC").Limit(int64(q.Limit)).Scan(ctx)
	})
	if err != nil || len(rows) == 0 {
		return []provisioning.Run{}, err
	}
	return s.runsWithJobs(ctx, rows)
}

// runsWithJobs loads the jobs of runs. It omits a run whose jobs were deleted after the runs were
// read.
func (s *Store) runsWithJobs(ctx context.Context, rows []dnsRunRow) ([]provisioning.Run, error) {
	ids := convertAll(rows, func(r dnsRunRow) string { return r.ID })
	jobsByRun, err := s.readJobs(ctx, rows[0].AccountID, ids...)
	runs := make([]provisioning.Run, 0, len(rows))
	for _, r := range rows {
		if jobs := jobsByRun[r.ID]; len(jobs) > 0 {
			runs = append(runs, r.run(jobs))
		}
	}
	return runs, err
}

// readJobs returns the jobs of runs, by the id of the run. It omits jobs of tenants that are not
// visible.
func (s *Store) readJobs(ctx context.Context, owner string, runIDs ...string) (jobsByRun map[string][]provisioning.Job, err error) {
	err = s.db.RunRead(ctx, "list provisioning jobs", func(ctx context.Context, db bun.IDB) (err error) {
		jobsByRun, err = jobsOfRuns(ctx, db, owner, runIDs...)
		return err
	})
	for id, jobs := range jobsByRun {
		jobsByRun[id] = slices.DeleteFunc(jobs, func(j provisioning.Job) bool { return !isVisible(ctx, j.TenantGUID) })
	}
	return jobsByRun, err
}

// Run implements ports.DNSRuns.
func (s *Store) Run(ctx context.Context, owner access.AccountID, id string) (provisioning.Run, []provisioning.Job, error) {
	var row dnsRunRow
	err := s.db.RunRead(ctx, "find provisioning run", func(ctx context.Context, db bun.IDB) error {
		return db.NewSelect().Model(&row).Where("dr.account_id = ?", accountKey(owner)).Where("dr.id = ?", ident.ParseOrZero(id)).Scan(ctx)
	})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return provisioning.Run{}, nil, err
	}
	// The queries are the same for unknown and invisible runs, so the time of the response does not
	// reveal whether the run exists.
	jobsByRun, err := s.readJobs(ctx, accountKey(owner), ident.ParseOrZero(id))
	if err != nil {
		return provisioning.Run{}, nil, err
	}
	jobs := jobsByRun[ident.ParseOrZero(id)]
	if row.ID == "" || len(jobs) == 0 {
		return provisioning.Run{}, nil, runNotFound()
	}
	return row.run(jobs), jobs, nil
}

// Job implements ports.DNSRuns.
func (s *Store) Job(ctx context.Context, owner access.AccountID, id string) (provisioning.Job, error) {
	var row dnsJobRow
	err := s.db.RunRead(ctx, "find provisioning job", func(ctx context.Context, db bun.IDB) error {
		q := db.NewSelect().Model(&row).Where("dj.account_id = ?", accountKey(owner)).Where("dj.id = ?", ident.ParseOrZero(id))
		return orNotFound(onlyVisible(ctx, q, "dj.tenant_guid").Scan(ctx), jobNotFound())
	})
	if err != nil {
		return provisioning.Job{}, err
	}
	return row.job(), nil
}

// ActiveJob implements ports.DNSRuns.
func (s *Store) ActiveJob(ctx context.Context, owner access.AccountID, domainID string) (provisioning.Job, bool, error) {
	var row dnsJobRow
	err := s.db.RunRead(ctx, "find active provisioning job", func(ctx context.Context, db bun.IDB) error {
		return db.NewSelect().Model(&row).Where("dj.account_id = ?", accountKey(owner)).
			Where("dj.domain_id = ?", ident.ParseOrZero(domainID)).Where(activeJob).Scan(ctx)
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
func (s *Store) RetryJob(ctx context.Context, owner access.AccountID, id string, now time.Time, storedAnswer *ports.StoredAnswer) (provisioning.Job, error) {
	var retried provisioning.Job
	err := s.inTransaction(ctx, "retry provisioning job", func(ctx context.Context, tx bun.IDB) error {
		var row dnsJobRow
		q := tx.NewSelect().Model(&row).Where("dj.account_id = ?", accountKey(owner)).Where("dj.id = ?", ident.ParseOrZero(id))
		err := s.db.LockRows(onlyVisible(ctx, q, "dj.tenant_guid"), "dj").Scan(ctx)
		if err != nil {
			return orNotFound(err, jobNotFound())
		}
		if retried, err = provisioning.Retry(row.job(), storedTime(now)); err != nil {
			return err
		}
		if _, err := saveJob(ctx, tx, change[provisioning.Job]{row.job(), retried}); err != nil {
			return err
		}
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
	return retried, err
}

// DueJobs implements ports.DNSJobs. It serves accounts in fair shares. For each job it counts the
// jobs of the same account that are running or became due earlier. It returns the jobs with the
// smallest counts first.
func (s *Store) DueJobs(ctx context.Context, now time.Time, limit int) ([]ports.DueJob, error) {
	var rows []dnsJobRow
	err := s.db.RunRead(ctx, "list due provisioning jobs", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		busy := db.NewSelect().TableExpr("dns_jobs AS dj").ColumnExpr("dj.account_id, count(*) AS jobs").
			Where(jobWithNextAttempt).Where("dj.leased_until > ?", s.databaseNowSQL()).GroupExpr("dj.account_id")
		dueQuery := db.NewSelect().TableExpr("dns_jobs AS dj").ColumnExpr("dj.account_id, dj.id, dj.next_attempt_at").
			ColumnExpr("row_number() OVER (PARTITION BY dj.account_id ORDER BY dj.next_attempt_at, dj.id) AS nth").
			Where(jobWithNextAttempt).Where("dj.next_attempt_at <= ?", storedTime(now)).Where("dj.leased_until <= ?", s.databaseNowSQL()).
			Where(ofActiveAccount("dj"))
		return db.NewSelect().With("busy", busy).With("due", dueQuery).TableExpr("due").Join("LEFT JOIN busy ON busy.account_id = due.account_id").
			ColumnExpr("due.account_id, due.id, due.next_attempt_at").
			OrderExpr("due.nth + COALESCE(busy.jobs, 0), due.next_attempt_at, due.id").Limit(int64(limit)).Scan(ctx, &rows)
	})
	return convertAll(rows, func(r dnsJobRow) ports.DueJob {
		return ports.DueJob{ID: r.ID, Account: access.AccountID(r.AccountID), At: r.NextAttemptAt.UTC()}
	}), err
}

// ClaimJob implements ports.DNSJobs.
func (s *Store) ClaimJob(ctx context.Context, id string, lease time.Duration, now time.Time) (provisioning.Job, bool, error) {
	var row dnsJobRow
	err := s.db.RunWrite(ctx, "claim provisioning job", func(ctx context.Context, db bun.IDB) error {
		return db.NewUpdate().Model(&row).Set("epoch = epoch + 1").Set("status = ?", string(provisioning.Running)).
			Set("leased_until = ? + ?", s.databaseNowSQL(), lease.Microseconds()).
			Where("dj.id = ?", ident.ParseOrZero(id)).Where(jobWithNextAttempt).Where("dj.next_attempt_at <= ?", storedTime(now)).
			Where("dj.leased_until <= ?", s.databaseNowSQL()).Returning("*").Scan(ctx)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return provisioning.Job{}, false, nil
	}
	if err != nil {
		return provisioning.Job{}, false, err
	}
	return row.job(), true, nil
}

// RenewJobLease implements ports.DNSJobs.
func (s *Store) RenewJobLease(ctx context.Context, j provisioning.Job, lease time.Duration) (bool, error) {
	return s.execChanged(ctx, "renew lease of provisioning job", func(ctx context.Context, db bun.IDB) (sql.Result, error) {
		return whereEpoch(db.NewUpdate().Model((*dnsJobRow)(nil)), j, j.Epoch).Where("dj.status = ?", string(provisioning.Running)).
			Set("leased_until = ? + ?", s.databaseNowSQL(), lease.Microseconds()).Exec(ctx)
	})
}

// SaveJob implements ports.DNSJobs. If the saved job has a next attempt, no event is emitted, so
// one statement is enough. For a job that ends, SaveJob locks the run before the job, like the
// deletion of a domain. In a different order, the two transactions could deadlock.
func (s *Store) SaveJob(ctx context.Context, j provisioning.Job) (saved bool, err error) {
	if j.Status.HasNextAttempt() {
		err = s.db.RunWrite(ctx, "save provisioning job", func(ctx context.Context, db bun.IDB) (err error) {
			saved, err = updateJob(ctx, db, j, j.Epoch)
			return err
		})
		return saved && err == nil, err
	}
	err = s.inTransaction(ctx, "save provisioning job", func(ctx context.Context, tx bun.IDB) error {
		save := func() error {
			var row dnsJobRow
			err := s.db.LockRows(tx.NewSelect().Model(&row).Where("dj.account_id = ?", accountKey(j.Account)).
				Where("dj.id = ?", ident.ParseOrZero(j.ID)).Where("dj.epoch = ?", j.Epoch), "dj").Scan(ctx)
			if saved = err == nil; errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			if err != nil {
				return err
			}
			saved, err = saveJob(ctx, tx, change[provisioning.Job]{row.job(), j})
			return err
		}
		if j.Status.IsActive() {
			return save()
		}
		return s.changeAndEmitRuns(ctx, tx, accountKey(j.Account), []string{ident.ParseOrZero(j.RunID)}, save)
	})
	return saved && err == nil, err
}

// saveJob stores the job c.after if its row still has the epoch of c.before, and emits the events
// of the change. It reports whether it stored the job.
func saveJob(ctx context.Context, tx bun.IDB, c change[provisioning.Job]) (bool, error) {
	saved, err := updateJob(ctx, tx, c.after, c.before.Epoch)
	if saved {
		emitJob(ctx, accountKey(c.after.Account), c)
	}
	return saved, err
}

// updateJob stores a job if its row still has this epoch. It reports whether it stored the job.
func updateJob(ctx context.Context, db bun.IDB, j provisioning.Job, epoch int64) (bool, error) {
	row := newDNSJobRow(j)
	q := db.NewUpdate().Model(&row).Column("stage", "status", "next_step", "provider", "required", "message", "next_attempt_at",
		"epoch", "progress", "started_at", "ended_at", "updated_at")
	if j.Status != provisioning.Running {
		q = q.Set("leased_until = 0")
	}
	res, err := whereEpoch(q, j, epoch).Exec(ctx)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0 && err == nil, err
}

// ReleaseJob implements ports.DNSJobs.
func (s *Store) ReleaseJob(ctx context.Context, j provisioning.Job, now time.Time) (bool, error) {
	return s.execChanged(ctx, "release provisioning job", func(ctx context.Context, db bun.IDB) (sql.Result, error) {
		return whereEpoch(db.NewUpdate().Model((*dnsJobRow)(nil)), j, j.Epoch).Where("dj.status = ?", string(provisioning.Running)).
			Set("status = ?", string(provisioning.Queued)).Set("next_attempt_at = ?", storedTime(now)).Set("leased_until = 0").Exec(ctx)
	})
}

func whereEpoch(q *bun.UpdateQuery, j provisioning.Job, epoch int64) *bun.UpdateQuery {
	return q.Where("dj.account_id = ?", accountKey(j.Account)).Where("dj.id = ?", ident.ParseOrZero(j.ID)).Where("dj.epoch = ?", epoch)
}
