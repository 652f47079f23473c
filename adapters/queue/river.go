// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/ports"
)

// riverQueue is the name of the only queue in the library River.
const riverQueue = "wakeups"

// River is a queue in PostgreSQL that any number of processes share. The wake-ups are in the table
// wakeup. The library River executes the wake-ups that are admitted (see admission).
type River struct {
	river.WorkerDefaults[riverArgs]
	options          Options
	pool             *pgxpool.Pool
	client           *river.Client[pgx.Tx]
	admission        *admission
	handlers         handlers
	running          atomic.Int64       // number of running handlers
	cancelBackground context.CancelFunc // nil before Start
}

// OpenRiver connects to a database that Migrate has prepared. The caller must call Close. OpenRiver
// fails with ErrNotMigrated if migrations are missing. It also fails if an option is out of range,
// if the URL is invalid, or if the database cannot be reached or is a standby.
func OpenRiver(ctx context.Context, url string, o Options) (*River, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	pool, err := connect(ctx, url, pgconn.ValidateConnectTargetSessionAttrsPrimary)
	if err != nil {
		return nil, err
	}
	missing, err := missingMigrations(ctx, pool)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%w: %d are missing", ErrNotMigrated, len(missing))
	}
	r := &River{options: o, pool: pool}
	if err == nil {
		err = r.createClient()
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return r, nil
}

// maxConns is the size of the connection pool. One connection listens for notifications. The other
// connections add, admit, fetch and complete wake-ups.
const maxConns = 5

// schema is the PostgreSQL schema of the table wakeup and of River's tables. Backups do not include
// it. After a restore, sweeps recreate the wake-ups from the rows of the jobs.
const schema = "tenantry_queue"

// connectTimeout limits one attempt to connect. opTimeout limits one operation of a few statements.
const (
	connectTimeout = 15 * time.Second
	opTimeout      = 30 * time.Second
)

// maxConnLifetime is the maximum age of a connection. It limits how long a connection can lead to a
// former primary after a failover.
const maxConnLifetime = 10 * time.Minute

// pingAfter is the idle time after which a connection is pinged before its next use. It is longer
// than idlePollInterval, so an idle process does not ping each time it polls.
const pingAfter = 5 * idlePollInterval

// readOnlyCode is the SQLSTATE with which a server refuses a write because the server is a standby,
// or because its operator made it read-only.
const readOnlyCode = "25006"

// connect returns a pool. validate checks each new connection and may be nil. The URL's parameter
// target_session_attrs takes precedence over validate unless its value is any.
func connect(ctx context.Context, url string, validate pgconn.ValidateConnectFunc) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil { // err could contain the password
		return nil, errors.New("queue: the postgres URL cannot be read")
	}
	config.MaxConns, config.MaxConnLifetime = maxConns, maxConnLifetime
	config.ConnConfig.ConnectTimeout = connectTimeout
	config.ConnConfig.RuntimeParams["application_name"] = "tenantry-queue"
	config.ConnConfig.RuntimeParams["timezone"] = "UTC"
	config.ConnConfig.RuntimeParams["search_path"] = schema
	if config.ConnConfig.ValidateConnect == nil {
		config.ConnConfig.ValidateConnect = validate
	}
	isUsable := config.ConnConfig.OnPgError
	config.ConnConfig.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		return isUsable(conn, err) && err.Code != readOnlyCode // a new connection may lead to the primary
	}
	config.ShouldPing = func(_ context.Context, c pgxpool.ShouldPingParams) bool { return c.IdleDuration > pingAfter }
	return pgxpool.NewWithConfig(ctx, config)
}

func (r *River) createClient() error {
	workers := river.NewWorkers()
	if err := river.AddWorkerSafely(workers, r); err != nil {
		return err
	}
	var err error
	r.client, err = river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		Logger:  warnLogger(r.options.Log),
		Queues:  map[string]river.QueueConfig{riverQueue: {MaxWorkers: r.options.MaxHandlers}},
		Workers: workers,
		// Options.handle sets the deadline of a handler.
		JobTimeout: -1,
		// River executes a job once. If the execution is interrupted, the wake-up is admitted again
		// as a new job.
		MaxAttempts:          1,
		RescueStuckJobsAfter: 2 * r.options.RescueAfter,
		// FetchCooldown is the minimum time between two fetches. It is shorter than the time
		// between two rounds of admission, so that River fetches the jobs of each round at once.
		FetchCooldown:     minRoundInterval / 2,
		FetchPollInterval: 2 * idlePollInterval, // finds jobs whose notification was lost
		// Rows of ended jobs are not used.
		CompletedJobRetentionPeriod: time.Minute,
		DiscardedJobRetentionPeriod: time.Minute,
	})
	r.admission = newAdmission(r.pool, r.client, r.options)
	return err
}

// Start implements ports.Worker.
func (r *River) Start(ctx context.Context, w ports.Work) error {
	byKind, err := newHandlers(r, w)
	if err != nil {
		return err
	}
	if r.handlers != nil {
		return errors.New("queue: started twice")
	}
	r.handlers = byKind
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if err := r.client.Start(background); err != nil {
		cancel()
		return fmt.Errorf("start River: %w", err)
	}
	r.cancelBackground = cancel
	panics.Go(func() { r.admission.run(background) }, r.options.logPanic)
	return r.Wake(ctx, startupWakeups(w)...)
}

// Wake implements ports.Queue.
func (r *River) Wake(ctx context.Context, wakeups ...ports.Wakeup) error {
	for batch := range slices.Chunk(wakeups, insertBatch) {
		if err := r.insertWakeups(ctx, batch); err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
	}
	r.admission.trigger()
	return nil
}

// insertBatch is the maximum number of wake-ups that one statement inserts.
const insertBatch = 1000

// insertWakeups inserts wake-ups. Of several wake-ups of a job it inserts only the earliest. It
// retries, because after a restart of the database every connection in the pool may be broken.
func (r *River) insertWakeups(ctx context.Context, wakeups []ports.Wakeup) (err error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	earliest := map[jobKey]ports.Wakeup{}
	for _, w := range wakeups {
		other, found := earliest[jobKey{w.Kind, w.ID}]
		if !found || w.At.Before(other.At) {
			earliest[jobKey{w.Kind, w.ID}] = withTrace(ctx, w)
		}
	}
	var kinds, ids, groups, accounts, traces []string
	var separate []bool
	var dueTimes []*time.Time // nil means the current time of the database
	for _, w := range earliest {
		kinds, ids, traces = append(kinds, w.Kind), append(ids, w.ID), append(traces, w.Trace)
		groups, accounts, separate = append(groups, string(fairnessGroup(w))), append(accounts, string(w.Account)), append(separate, w.SeparateGroup)
		var at *time.Time
		if !w.At.IsZero() {
			at = &w.At
		}
		dueTimes = append(dueTimes, at)
	}
	for attempt := range maxConns + 1 {
		if _, err = r.pool.Exec(ctx, addWakeups, kinds, ids, groups, accounts, separate, traces, dueTimes); err == nil {
			return nil
		}
		if !sleep(ctx, time.Duration(attempt)*50*time.Millisecond, nil) {
			return err
		}
	}
	return err
}

// Work implements river.Worker. It calls the handler of a job's kind.
func (r *River) Work(ctx context.Context, j *river.Job[riverArgs]) error {
	r.running.Add(1)
	defer r.running.Add(-1)
	result := r.options.handle(ctx, r.handlers, j.Args.wakeup(), j.Args.Failures)
	return r.admission.finish(&endedHandler{job: j.Args, handlerResult: result})
}

// errStopped is the error of a River job whose end was not recorded before the queue stopped. The
// wake-up of the job is admitted again.
var errStopped = errors.New("the queue has stopped")

// Stop implements ports.Worker.
func (r *River) Stop(ctx context.Context) error {
	if r.cancelBackground == nil {
		return nil
	}
	r.admission.stopAdmitting()
	defer func() {
		r.cancelBackground()
		<-r.admission.stopped
	}()
	grace, cancel := graceContext(ctx)
	defer cancel()
	if r.client.Stop(grace) == nil {
		return nil
	}
	if err := r.client.StopAndCancel(ctx); err != nil {
		return fmt.Errorf("queue: %d handlers did not end in time: %w", r.running.Load(), err)
	}
	return nil
}

// Close closes the connections. It waits for connections in use, and fails if ctx ends before they
// are released.
func (r *River) Close(ctx context.Context) error {
	closed := make(chan struct{})
	panics.Go(func() {
		defer close(closed)
		r.pool.Close()
	}, r.options.logPanic)
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close the queue's connections: %w", ctx.Err())
	}
}

// riverArgs is an admitted wake-up as the library River stores it, in JSON.
type riverArgs struct {
	JobKind       string           `json:"job"`
	ID            string           `json:"id"`
	Account       access.AccountID `json:"account"`
	SeparateGroup bool             `json:"separate_group,omitempty"`
	At            time.Time        `json:"at"`
	Trace         string           `json:"trace,omitempty"`
	Failures      int              `json:"failures,omitempty"`
	// Admission is the number of times that the wake-up was admitted, including this time.
	Admission int64 `json:"admission"`
}

// Kind implements river.JobArgs. In the library River, all wake-ups have the same kind.
func (riverArgs) Kind() string { return "wakeup" }

func (a riverArgs) wakeup() ports.Wakeup {
	return ports.Wakeup{Kind: a.JobKind, ID: a.ID, Account: a.Account, SeparateGroup: a.SeparateGroup, At: a.At, Trace: a.Trace}
}

// Backlog implements ports.Worker.
func (r *River) Backlog(ctx context.Context) ([]ports.Backlog, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	rows, err := r.pool.Query(ctx, countWakeups)
	if err != nil {
		return nil, fmt.Errorf("count waiting wake-ups: %w", err)
	}
	backlogs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b ports.Backlog, err error) {
		var lateSeconds float64
		err = row.Scan(&b.Kind, &b.Waiting, &lateSeconds)
		b.Lateness = time.Duration(lateSeconds * float64(time.Second))
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("count waiting wake-ups: %w", err)
	}
	return backlogs, nil
}

// warnLogger returns a logger that passes on only warnings and errors. The library River logs its
// routine work at lower levels.
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
