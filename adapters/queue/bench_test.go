// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/tenantry/tenantry/adapters/queue"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/ports"
)

// BenchmarkJobs shows how many wake-ups with nothing to do are handled in a
// second, of those that wait when the worker starts, beside River's own jobs
// with nothing to do on as many workers.
func BenchmarkJobs(b *testing.B) {
	b.Run("local", func(b *testing.B) {
		l, err := queue.NewLocal(queue.Options{})
		if err != nil {
			b.Fatal(err)
		}
		stopped(b, l)
		handled(b, l)
	})
	b.Run("river", func(b *testing.B) { handled(b, openRiver(b, migrated(b), queue.Options{})) })
	b.Run("bare", bare)
}

func handled(b *testing.B, w ports.Worker) {
	all := make([]ports.Wakeup, b.N)
	for i := range all {
		all[i] = ports.Wakeup{Kind: "job", ID: fmt.Sprint(i), Account: access.AccountID(fmt.Sprint("ann-", i%50))}
	}
	if err := w.Wake(b.Context(), all...); err != nil {
		b.Fatal(err)
	}
	var done sync.WaitGroup
	done.Add(b.N)
	b.ResetTimer()
	err := w.Start(b.Context(), ports.Work{Handlers: map[string]ports.Handler{"job": func(context.Context, ports.Wakeup) error {
		done.Done()
		return nil
	}}})
	if err != nil {
		b.Fatal(err)
	}
	done.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "job/s")
}

type nothing struct {
	Number int `json:"number"`
}

func (nothing) Kind() string { return "nothing" }

// bare is River as it comes.
func bare(b *testing.B) {
	pool, err := pgxpool.New(b.Context(), migrated(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	workers := river.NewWorkers()
	var done sync.WaitGroup
	done.Add(b.N)
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[nothing]) error {
		done.Done()
		return nil
	}))
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger: slog.New(slog.DiscardHandler), Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 128}}, Workers: workers,
		FetchCooldown: 20 * time.Millisecond, Schema: "tenantry_queue",
	})
	if err != nil {
		b.Fatal(err)
	}
	all := make([]river.InsertManyParams, b.N)
	for i := range all {
		all[i] = river.InsertManyParams{Args: nothing{i}}
	}
	for some := range slices.Chunk(all, 1000) {
		if _, err := client.InsertMany(b.Context(), some); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	if err := client.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	done.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "job/s")
	if err := client.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}
