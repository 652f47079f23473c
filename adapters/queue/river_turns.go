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

// turns is River's driver but for one thing: which jobs are taken. River takes
// the oldest, so that one account's 10,000 would be before another's first;
// here accounts take turns, and each has its share. It also takes what fell
// due at some time or was left by a dead process without waiting for
// River's leader, whose intervals (5 s, 30 s, an election of 15 s) cannot be
// set.
type turns struct {
	*riverpgxv5.Driver
	pool *pgxpool.Pool
	o    Options

	promoted time.Time     // used by one claim at a time
	freed    chan struct{} // a handler ended

	mu      sync.Mutex
	taken   map[int64]access.AccountID
	failing bool
}

func newTurns(pool *pgxpool.Pool, o Options) *turns {
	return &turns{Driver: riverpgxv5.New(pool), pool: pool, o: o, taken: map[int64]access.AccountID{}, freed: make(chan struct{}, 1)}
}

// GetExecutor implements riverdriver.Driver.
func (t *turns) GetExecutor() riverdriver.Executor { return executor{t.Driver.GetExecutor(), t} }

type executor struct {
	riverdriver.Executor
	turns *turns
}

// JobGetAvailable implements riverdriver.Executor.
func (e executor) JobGetAvailable(ctx context.Context, p *riverdriver.JobGetAvailableParams) (*riverdriver.JobGetAvailableResult, error) {
	ids := e.turns.next(ctx, p)
	if len(ids) == 0 {
		return &riverdriver.JobGetAvailableResult{}, nil
	}
	// Not to lose them to a connection that breaks here would take a second
	// try; the rescue is that.
	jobs, err := e.JobGetByIDMany(ctx, &riverdriver.JobGetByIDManyParams{ID: ids, Schema: p.Schema})
	if err != nil {
		e.turns.free(ids...)
		return nil, err
	}
	return &riverdriver.JobGetAvailableResult{Jobs: jobs}, nil
}

// JobSchedule implements riverdriver.Executor. claim has promoted what is due by
// the time that River's leader looks, whose statement costs half of a busy
// database: it compares each job that is due with all others.
func (e executor) JobSchedule(context.Context, *riverdriver.JobScheduleParams) ([]*riverdriver.JobScheduleResult, error) {
	return nil, nil
}

// next takes jobs. River would log each failure, four times a second.
func (t *turns) next(ctx context.Context, p *riverdriver.JobGetAvailableParams) []int64 {
	ids, err := t.claim(ctx, p)
	t.note(ctx, err)
	return ids
}

// note logs the first failure of a row of them, and their end.
func (t *turns) note(ctx context.Context, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil && !t.failing:
		t.o.Log.WarnContext(ctx, "jobs wait: the queue does not reach its database and keeps trying", "error", err)
	case err == nil && t.failing:
		t.o.Log.InfoContext(ctx, "the queue reaches its database again")
	}
	t.failing = err != nil
}

// promote makes available what is due, and what a process took so long ago
// that it must be dead.
const promote = `
UPDATE river_job SET state = 'available' WHERE id IN (
	SELECT id FROM river_job
	WHERE (state IN ('scheduled', 'retryable') AND queue = $1 AND scheduled_at <= now())
		OR (state = 'running' AND queue = $1 AND attempted_at < now() - $2::interval)
	ORDER BY scheduled_at LIMIT 5000 FOR UPDATE SKIP LOCKED
)`

// take goes through the accounts that wait by the index river_job_turns, so
// that its cost is theirs and not that of their backlogs: it leaves out
// conditions by which the planner would choose another. $1 and $2 are the
// accounts with handlers here and how many, $3 how many there may be.
const take = `
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

func (t *turns) claim(ctx context.Context, p *riverdriver.JobGetAvailableParams) ([]int64, error) {
	if time.Since(t.promoted) >= t.o.Poll/2 {
		if _, err := t.pool.Exec(ctx, promote, p.Queue, t.o.Rescue); err != nil {
			return nil, fmt.Errorf("find due jobs: %w", err)
		}
		t.promoted = time.Now()
	}
	accounts, running := t.busy()
	rows, err := t.pool.Query(ctx, take, accounts, running, t.o.AtOnce, p.MaxToLock, p.ClientID)
	if err != nil {
		return nil, fmt.Errorf("take jobs: %w", err)
	}
	var ids []int64
	var id int64
	var account access.AccountID
	_, err = pgx.ForEachRow(rows, []any{&id, &account}, func() error {
		ids = append(ids, id)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.taken[id] = account
		return nil
	})
	if err != nil {
		t.free(ids...)
		return nil, fmt.Errorf("take jobs: %w", err)
	}
	return ids, nil
}

// busy counts the handlers of accounts.
func (t *turns) busy() (accounts []string, running []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	count := map[access.AccountID]int{}
	for _, account := range t.taken {
		count[account]++
	}
	for account, n := range count {
		accounts, running = append(accounts, string(account)), append(running, n)
	}
	return accounts, running
}

func (t *turns) running() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.taken)
}

// free is for handlers that ended.
func (t *turns) free(ids ...int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		delete(t.taken, id)
	}
	select {
	case t.freed <- struct{}{}:
	default:
	}
}

// nudge makes River look again soon after a handler ended: it does so itself
// only when it was given as many jobs as it has room for.
func (t *turns) nudge(ctx context.Context) {
	say := &riverdriver.NotifyManyParams{Topic: "river_insert", Payload: []string{`{"queue":"` + lane + `"}`}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.freed:
		}
		// A failure costs the time until the next poll.
		_ = t.Driver.GetExecutor().NotifyMany(ctx, say)
		select {
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Millisecond): // one for all that end meanwhile
		}
	}
}
