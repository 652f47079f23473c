// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/ports"
)

// lane is the one queue that River knows.
const lane = "wakeups"

// River is the queue of any number of processes with one PostgreSQL.
type River struct {
	river.WorkerDefaults[args]
	o      Options
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	turns  *turns
	kinds  kinds
	quit   context.CancelFunc
}

// OpenRiver connects to a database that Migrate has seen. Close frees what it
// holds.
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
	r := &River{o: o, pool: pool}
	if err == nil {
		err = r.assemble()
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return r, nil
}

// connections of the pool: one listens, the others take wake-ups, finish them
// and ask for new ones.
const connections = 5

// schema keeps River's tables apart: a backup holds the jobs' rows, from which
// a sweep makes wake-ups again, and no wake-ups.
const schema = "tenantry_queue"

// connectTime bounds one attempt to connect, stepTime one statement or a few.
const (
	connectTime = 15 * time.Second
	stepTime    = 30 * time.Second
)

func connect(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil { // which could quote the password
		return nil, errors.New("queue: the postgres URL cannot be read")
	}
	config.MaxConns = connections
	config.ConnConfig.ConnectTimeout = connectTime
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
	r.turns = newTurns(r.pool, r.o)
	var err error
	r.client, err = river.NewClient(r.turns, &river.Config{
		Logger:  quiet(r.o.Log),
		Queues:  map[string]river.QueueConfig{lane: {MaxWorkers: r.o.AtOnce}},
		Workers: workers,
		// A wake-up ends by being done and by nothing else.
		MaxAttempts: 30_000,
		JobTimeout:  -1, // call sets it
		// The next two happen at the same time as in turns.claim, or later.
		RescueStuckJobsAfter: 2 * r.o.Rescue,
		RetryPolicy:          promptly{},
		FetchCooldown:        min(20*time.Millisecond, r.o.Poll),
		FetchPollInterval:    r.o.Poll,
		// Rows of what is done serve nobody.
		CompletedJobRetentionPeriod: time.Minute,
	})
	return err
}

// promptly is for wake-ups whose process died with them; for the others, call
// has set a pause.
type promptly struct{}

// NextRetry implements river.ClientRetryPolicy.
func (promptly) NextRetry(*rivertype.JobRow) time.Time { return time.Now() }

// Start implements ports.Worker.
func (r *River) Start(ctx context.Context, w ports.Work) error {
	// Two runs at once, as after two starts, each ask for the next time. The time
	// as the id makes that one wake-up, also while one of them runs.
	all, err := kindsOf(r, w, func(at time.Time) string { return at.Format(time.RFC3339Nano) })
	if err != nil {
		return err
	}
	if r.kinds != nil {
		return errors.New("queue: started twice")
	}
	r.kinds = all
	background, quit := context.WithCancel(context.WithoutCancel(ctx))
	r.quit = quit
	if err := r.client.Start(background); err != nil {
		return fmt.Errorf("start River: %w", err)
	}
	go r.turns.nudge(background)
	return r.Wake(ctx, first(w)...)
}

// Work is River's way to our handlers.
func (r *River) Work(ctx context.Context, j *river.Job[args]) error {
	defer r.turns.free(j.ID)
	var before struct{ Snoozes int }
	if err := json.Unmarshal(j.Metadata, &before); err != nil {
		return fmt.Errorf("read a wake-up: %w", err)
	}
	again, retry := r.o.call(ctx, r.kinds, j.Args.wakeup(j.ScheduledAt), before.Snoozes)
	if retry {
		return river.JobSnooze(again)
	}
	return nil
}

// Stop implements ports.Worker.
func (r *River) Stop(ctx context.Context) error {
	if r.quit == nil {
		return nil
	}
	defer r.quit()
	soft, cancel := cutBefore(ctx)
	defer cancel()
	if r.client.Stop(soft) == nil {
		return nil
	}
	if err := r.client.StopAndCancel(ctx); err != nil {
		return fmt.Errorf("queue: %d handlers did not end in time: %w", r.turns.running(), err)
	}
	return nil
}

// Close ends the connections, for which it waits until ctx ends.
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

// args is a wake-up as River stores it.
type args struct {
	Job string `json:"job" river:"unique"`
	ID  string `json:"id" river:"unique"`
	// Beside is the wake-up of the same job that this one does not wait for:
	// that one runs already, or comes too late.
	Beside int64 `json:"beside" river:"unique"`
	// Turn is whose turn it takes; its name in the database is older than work
	// that stands apart, whose account is Owner.
	Turn  access.AccountID `json:"account"`
	Owner access.AccountID `json:"owner,omitempty"`
	Apart bool             `json:"apart,omitempty"`
	Trace string           `json:"trace,omitempty"`
}

func argsOf(w ports.Wakeup) args {
	a := args{Job: w.Kind, ID: w.ID, Turn: turn(w), Apart: w.Apart, Trace: w.Trace}
	if w.Apart {
		a.Owner = w.Account
	}
	return a
}

// Kind is River's name for all wake-ups.
func (args) Kind() string { return "wakeup" }

func (a args) wakeup(at time.Time) ports.Wakeup {
	w := ports.Wakeup{Kind: a.Job, ID: a.ID, Account: a.Turn, Apart: a.Apart, At: at, Trace: a.Trace}
	if a.Apart {
		w.Account = a.Owner
	}
	return w
}
