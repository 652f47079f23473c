// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/tenantry/tenantry/core/access"
)

// fairDriver wraps River's driver and replaces how jobs are fetched. River fetches the oldest jobs
// first, so 10,000 jobs of one account would delay the first job of the next account. fairDriver
// serves the fairness groups round-robin and limits each to its share of the handlers.
//
// It also makes due jobs available and rescues the jobs of dead processes. River leaves both to its
// leader, whose intervals (5 s, 30 s, and 15 s for an election) cannot be configured.
type fairDriver struct {
	*riverpgxv5.Driver
	pool    *pgxpool.Pool
	options Options

	promotedAt time.Time     // needs no lock: River makes one fetch at a time
	released   chan struct{} // receives a value when a handler has ended

	mu      sync.Mutex
	claimed map[int64]access.AccountID // fairness groups of the jobs that run here, by job id
	failing bool
}

func newFairDriver(pool *pgxpool.Pool, o Options) *fairDriver {
	return &fairDriver{
		Driver: riverpgxv5.New(pool), pool: pool, options: o,
		claimed: map[int64]access.AccountID{}, released: make(chan struct{}, 1),
	}
}

// GetExecutor implements riverdriver.Driver.
func (d *fairDriver) GetExecutor() riverdriver.Executor { return executor{d.Driver.GetExecutor(), d} }

type executor struct {
	riverdriver.Executor
	driver *fairDriver
}

// JobGetAvailable implements riverdriver.Executor.
func (e executor) JobGetAvailable(ctx context.Context, p *riverdriver.JobGetAvailableParams) (*riverdriver.JobGetAvailableResult, error) {
	ids := e.driver.fetch(ctx, p)
	if len(ids) == 0 {
		return &riverdriver.JobGetAvailableResult{}, nil
	}
	// If the connection breaks here, the jobs are claimed but do not run. They are rescued after
	// Options.Rescue.
	jobs, err := e.JobGetByIDMany(ctx, &riverdriver.JobGetByIDManyParams{ID: ids, Schema: p.Schema})
	if err != nil {
		e.driver.release(ids...)
		return nil, err
	}
	return &riverdriver.JobGetAvailableResult{Jobs: jobs}, nil
}

// JobSchedule implements riverdriver.Executor. It does nothing, because claim has already made due
// jobs available when River's leader calls it. River's own statement compares each due job with all
// others, which takes half of the time of a busy database.
func (e executor) JobSchedule(context.Context, *riverdriver.JobScheduleParams) ([]*riverdriver.JobScheduleResult, error) {
	return nil, nil
}

// fetch claims jobs and returns their ids. It does not return an error, because River would log it
// at every poll.
func (d *fairDriver) fetch(ctx context.Context, p *riverdriver.JobGetAvailableParams) []int64 {
	ids, err := d.claim(ctx, p)
	d.logChange(ctx, err)
	return ids
}

// logChange logs the first of several failures in a row, and the first success after them.
func (d *fairDriver) logChange(ctx context.Context, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err != nil && !d.failing:
		d.options.Log.WarnContext(ctx, "jobs wait: the queue does not reach its database and keeps trying", "error", err)
	case err == nil && d.failing:
		d.options.Log.InfoContext(ctx, "the queue reaches its database again")
	}
	d.failing = err != nil
}

// promoteJobs makes due jobs available ($1 is River's queue). It does the same for running jobs
// that were claimed longer ago than $2, because their process must be dead.
const promoteJobs = `
UPDATE river_job SET state = 'available' WHERE id IN (
	SELECT id FROM river_job
	WHERE (state IN ('scheduled', 'retryable') AND queue = $1 AND scheduled_at <= now())
		OR (state = 'running' AND queue = $1 AND attempted_at < now() - $2::interval)
	ORDER BY scheduled_at LIMIT 5000 FOR UPDATE SKIP LOCKED
)`

// claimJobs claims jobs, one after the other of each fairness group ("account"). $1 and $2 are the
// groups with running handlers in this process and the number of these. $3 is the maximum number of
// handlers, $4 the maximum number of jobs to claim, $5 the id of the River client.
//
// The statement steps through the groups by the index river_job_turns. Its cost therefore depends
// on the number of groups and not on their backlogs. It leaves out conditions, such as the queue,
// that would make the planner choose a different index.
const claimJobs = `
WITH RECURSIVE waiting AS (
	(SELECT args->>'account' AS account FROM river_job WHERE state = 'available' ORDER BY args->>'account' LIMIT 1)
	UNION ALL
	SELECT (SELECT args->>'account' FROM river_job
		WHERE state = 'available' AND args->>'account' > waiting.account ORDER BY args->>'account' LIMIT 1)
	FROM waiting WHERE waiting.account IS NOT NULL
), busy AS (
	SELECT * FROM unnest($1::text[], $2::int[]) AS b (account, running)
), share AS (
	SELECT greatest(1, $3::int / (1 + count(*))) AS size
	FROM (SELECT account FROM waiting WHERE account IS NOT NULL UNION SELECT account FROM busy) AS having_work
), picked AS (
	SELECT turn.id FROM waiting CROSS JOIN share LEFT JOIN busy USING (account)
	CROSS JOIN LATERAL (
		SELECT id, scheduled_at, row_number() OVER (ORDER BY scheduled_at, id) AS number FROM (
			SELECT id, scheduled_at FROM river_job
			WHERE state = 'available' AND args->>'account' = waiting.account AND scheduled_at <= now()
			ORDER BY scheduled_at, id LIMIT greatest(0, share.size - coalesce(busy.running, 0))
		) AS oldest
	) AS turn
	ORDER BY turn.number, turn.scheduled_at LIMIT $4
)
UPDATE river_job SET state = 'running', attempt = attempt + 1, attempted_at = now(),
	attempted_by = (coalesce(attempted_by, '{}') || $5::text)[greatest(1, cardinality(attempted_by) - 8):]
WHERE id = ANY (ARRAY(
	SELECT id FROM river_job WHERE id = ANY (ARRAY(SELECT id FROM picked)) AND state = 'available' FOR UPDATE SKIP LOCKED
))
RETURNING id, args->>'account'`

// claim makes due jobs available, at most twice in Options.Poll, and claims jobs for this process.
func (d *fairDriver) claim(ctx context.Context, p *riverdriver.JobGetAvailableParams) ([]int64, error) {
	if time.Since(d.promotedAt) >= d.options.Poll/2 {
		if _, err := d.pool.Exec(ctx, promoteJobs, p.Queue, d.options.Rescue); err != nil {
			return nil, fmt.Errorf("find due jobs: %w", err)
		}
		d.promotedAt = time.Now()
	}
	groups, running := d.busy()
	rows, err := d.pool.Query(ctx, claimJobs, groups, running, d.options.AtOnce, p.MaxToLock, p.ClientID)
	if err != nil {
		return nil, fmt.Errorf("take jobs: %w", err)
	}
	var ids []int64
	var id int64
	var group access.AccountID
	_, err = pgx.ForEachRow(rows, []any{&id, &group}, func() error {
		ids = append(ids, id)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.claimed[id] = group
		return nil
	})
	if err != nil {
		d.release(ids...)
		return nil, fmt.Errorf("take jobs: %w", err)
	}
	return ids, nil
}

// busy returns the fairness groups with running handlers in this process, and the number of these
// handlers.
func (d *fairDriver) busy() (groups []string, running []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	count := map[access.AccountID]int{}
	for _, group := range d.claimed {
		count[group]++
	}
	for group, n := range count {
		groups, running = append(groups, string(group)), append(running, n)
	}
	return groups, running
}

func (d *fairDriver) running() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.claimed)
}

// release records that the handlers of these jobs have ended.
func (d *fairDriver) release(ids ...int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		delete(d.claimed, id)
	}
	select {
	case d.released <- struct{}{}:
	default:
	}
}

// notifyOnRelease makes River fetch again soon after a handler has ended, until ctx ends. River
// does so itself only if the last fetch returned as many jobs as it asked for.
func (d *fairDriver) notifyOnRelease(ctx context.Context) {
	notification := &riverdriver.NotifyManyParams{Topic: "river_insert", Payload: []string{`{"queue":"` + riverQueue + `"}`}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.released:
		}
		// After a failure River fetches at the next poll.
		_ = d.Driver.GetExecutor().NotifyMany(ctx, notification)
		select {
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Millisecond): // one notification for all that end in the meantime
		}
	}
}
