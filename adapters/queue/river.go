// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/ports"
)

// riverQueue is the name of the only queue in River.
const riverQueue = "wakeups"

// River is a queue in PostgreSQL that any number of processes share.
type River struct {
	river.WorkerDefaults[args]
	options          Options
	pool             *pgxpool.Pool
	client           *river.Client[pgx.Tx]
	driver           *fairDriver
	handlers         handlers
	cancelBackground context.CancelFunc // nil before Start
}

// OpenRiver connects to a database that Migrate has prepared. The caller must call Close. It fails
// with ErrNotMigrated if migrations are missing. It also fails if an option is out of range, if the
// URL is invalid, or if the database cannot be reached.
func OpenRiver(ctx context.Context, url string, o Options) (*River, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	pool, err := connect(ctx, url)
	if err != nil {
		return nil, err
	}
	missing, err := pending(ctx, pool)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%w: %d are missing", ErrNotMigrated, len(missing))
	}
	r := &River{options: o, pool: pool}
	if err == nil {
		err = r.assemble()
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return r, nil
}

// maxConns is the size of the connection pool. One connection listens for notifications, the
// others insert, fetch and complete wake-ups.
const maxConns = 5

// schema is the PostgreSQL schema of River's tables. It is separate because backups leave it out.
// After a restore the sweeps recreate the wake-ups from the jobs' rows.
const schema = "tenantry_queue"

// connectTimeout limits one attempt to connect. opTimeout limits one operation of a few statements.
const (
	connectTimeout = 15 * time.Second
	opTimeout      = 30 * time.Second
)

func connect(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil { // err could contain the password
		return nil, errors.New("queue: the postgres URL cannot be read")
	}
	config.MaxConns = maxConns
	config.ConnConfig.ConnectTimeout = connectTimeout
	config.ConnConfig.RuntimeParams["application_name"] = "tenantry-queue"
	config.ConnConfig.RuntimeParams["timezone"] = "UTC"
	config.ConnConfig.RuntimeParams["search_path"] = schema
	return pgxpool.NewWithConfig(ctx, config)
}

func (r *River) assemble() error {
	workers := river.NewWorkers()
	if err := river.AddWorkerSafely(workers, r); err != nil {
		return err
	}
	r.driver = newFairDriver(r.pool, r.options)
	var err error
	r.client, err = river.NewClient(r.driver, &river.Config{
		Logger:  warnLogger(r.options.Log),
		Queues:  map[string]river.QueueConfig{riverQueue: {MaxWorkers: r.options.AtOnce}},
		Workers: workers,
		// Effectively unlimited: a wake-up ends only when its handler succeeds.
		MaxAttempts: 30_000,
		JobTimeout:  -1, // no timeout: Options.handle sets the deadline
		// fairDriver.claim has already rescued these jobs by then.
		RescueStuckJobsAfter: 2 * r.options.Rescue,
		RetryPolicy:          retryNow{},
		FetchCooldown:        min(20*time.Millisecond, r.options.Poll),
		FetchPollInterval:    r.options.Poll,
		// Completed rows have no further use.
		CompletedJobRetentionPeriod: time.Minute,
	})
	return err
}

// retryNow retries wake-ups without a delay. It applies to wake-ups that have lost their process.
// For all others, Work sets the delay with JobSnooze.
type retryNow struct{}

// NextRetry implements river.ClientRetryPolicy.
func (retryNow) NextRetry(*rivertype.JobRow) time.Time { return time.Now() }

// Start implements ports.Worker.
func (r *River) Start(ctx context.Context, w ports.Work) error {
	// Replicas that start together each run a periodic and enqueue its next run. With the time as
	// the id these are duplicates of one wake-up, even while a run is active.
	all, err := newHandlers(r, w, func(at time.Time) string { return at.Format(time.RFC3339Nano) })
	if err != nil {
		return err
	}
	if r.handlers != nil {
		return errors.New("queue: started twice")
	}
	r.handlers = all
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancelBackground = cancel
	if err := r.client.Start(background); err != nil {
		return fmt.Errorf("start River: %w", err)
	}
	go r.driver.notifyOnRelease(background)
	return r.Wake(ctx, startupWakeups(w)...)
}

// Work implements river.Worker. It calls the handler of a job's kind.
func (r *River) Work(ctx context.Context, j *river.Job[args]) error {
	defer r.driver.release(j.ID)
	var metadata struct{ Snoozes int }
	if err := json.Unmarshal(j.Metadata, &metadata); err != nil {
		return fmt.Errorf("read a wake-up: %w", err)
	}
	delay, retry := r.options.handle(ctx, r.handlers, j.Args.wakeup(j.ScheduledAt), metadata.Snoozes)
	if retry {
		return river.JobSnooze(delay)
	}
	return nil
}

// Stop implements ports.Worker.
func (r *River) Stop(ctx context.Context) error {
	if r.cancelBackground == nil {
		return nil
	}
	defer r.cancelBackground()
	grace, cancel := graceContext(ctx)
	defer cancel()
	if r.client.Stop(grace) == nil {
		return nil
	}
	if err := r.client.StopAndCancel(ctx); err != nil {
		return fmt.Errorf("queue: %d handlers did not end in time: %w", r.driver.running(), err)
	}
	return nil
}

// Close closes the connections. It waits for those in use and fails if ctx ends before.
func (r *River) Close(ctx context.Context) error {
	closed := make(chan struct{})
	go func() {
		r.pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close the queue's connections: %w", ctx.Err())
	}
}

// args is a wake-up as River stores it, in JSON.
type args struct {
	Job string `json:"job" river:"unique"`
	ID  string `json:"id" river:"unique"`
	// Beside is the River job id of an earlier wake-up of the same job, or 0. It makes this wake-up
	// unique although the earlier one exists, which runs already or is due too late.
	Beside int64 `json:"beside" river:"unique"`
	// Group is the fairness group. Its JSON name is account, which is true unless Apart is set. The
	// account of an Apart wake-up is in Owner.
	Group access.AccountID `json:"account"`
	Owner access.AccountID `json:"owner,omitempty"`
	Apart bool             `json:"apart,omitempty"`
	Trace string           `json:"trace,omitempty"`
}

func argsOf(w ports.Wakeup) args {
	a := args{Job: w.Kind, ID: w.ID, Group: fairnessGroup(w), Apart: w.Apart, Trace: w.Trace}
	if w.Apart {
		a.Owner = w.Account
	}
	return a
}

// Kind implements river.JobArgs. All wake-ups have one kind in River.
func (args) Kind() string { return "wakeup" }

func (a args) wakeup(at time.Time) ports.Wakeup {
	w := ports.Wakeup{Kind: a.Job, ID: a.ID, Account: a.Group, Apart: a.Apart, At: at, Trace: a.Trace}
	if a.Apart {
		w.Account = a.Owner
	}
	return w
}

const countWaiting = `
SELECT args->>'job', count(*), greatest(0, extract(epoch FROM now() - min(scheduled_at)))::float8
FROM river_job WHERE state IN ('available', 'scheduled', 'retryable') AND queue = $1 GROUP BY 1`

// Backlog implements ports.Worker.
func (r *River) Backlog(ctx context.Context) ([]ports.Backlog, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	rows, err := r.pool.Query(ctx, countWaiting, riverQueue)
	if err != nil {
		return nil, fmt.Errorf("count what waits: %w", err)
	}
	backlogs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b ports.Backlog, err error) {
		var late float64
		err = row.Scan(&b.Kind, &b.Waiting, &late)
		b.Late = time.Duration(late * float64(time.Second))
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("count what waits: %w", err)
	}
	slices.SortFunc(backlogs, byKind)
	return backlogs, nil
}

func byKind(a, b ports.Backlog) int { return strings.Compare(a.Kind, b.Kind) }

// warnLogger returns a logger that passes on only warnings and errors. River logs its routine work
// at lower levels.
func warnLogger(log *slog.Logger) *slog.Logger { return slog.New(warnHandler{log.Handler()}) }

type warnHandler struct{ slog.Handler }

// Enabled implements slog.Handler.
func (w warnHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (w warnHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnHandler{w.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (w warnHandler) WithGroup(name string) slog.Handler {
	return warnHandler{w.Handler.WithGroup(name)}
}
