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
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/ports"
)

// TestBenchmarks runs the benchmark once, to check that it still works.
func TestBenchmarks(t *testing.T) { testserver.Benchmarks(t, "Jobs") }

// BenchmarkJobs measures how many empty wake-ups a worker handles in a second. All wake-ups are
// enqueued before the worker starts. For comparison, `bare` measures River without this package.
func BenchmarkJobs(b *testing.B) {
	b.Run("local", func(b *testing.B) {
		l, err := queue.NewLocal(queue.Options{})
		if err != nil {
			b.Fatal(err)
		}
		stopAtCleanup(b, l)
		benchWorker(b, l)
	})
	b.Run("river", func(b *testing.B) { benchWorker(b, openRiver(b, newMigratedDatabase(b), queue.Options{})) })
	b.Run("bare", benchBareRiver)
}

func benchWorker(b *testing.B, worker ports.Worker) {
	wakeups := make([]ports.Wakeup, b.N)
	for i := range wakeups {
		wakeups[i] = ports.Wakeup{Kind: "job", ID: fmt.Sprint(i), Account: access.AccountID(fmt.Sprint("ann-", i%50))}
	}
	if err := worker.Wake(b.Context(), wakeups...); err != nil {
		b.Fatal(err)
	}
	var handled sync.WaitGroup
	handled.Add(b.N)
	b.ResetTimer()
	err := worker.Start(b.Context(), ports.Work{Handlers: map[string]ports.Handler{"job": func(context.Context, ports.Wakeup) error {
		handled.Done()
		return nil
	}}})
	if err != nil {
		b.Fatal(err)
	}
	handled.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "job/s")
}

type emptyJob struct {
	Number int `json:"number"`
}

func (emptyJob) Kind() string { return "nothing" }

func benchBareRiver(b *testing.B) {
	pool, err := pgxpool.New(b.Context(), newMigratedDatabase(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	workers := river.NewWorkers()
	var handled sync.WaitGroup
	handled.Add(b.N)
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[emptyJob]) error {
		handled.Done()
		return nil
	}))
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger: slog.New(slog.DiscardHandler), Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 128}}, Workers: workers,
		FetchCooldown: 20 * time.Millisecond, Schema: "tenantry_queue",
	})
	if err != nil {
		b.Fatal(err)
	}
	jobs := make([]river.InsertManyParams, b.N)
	for i := range jobs {
		jobs[i] = river.InsertManyParams{Args: emptyJob{i}}
	}
	for batch := range slices.Chunk(jobs, 1000) {
		if _, err := client.InsertMany(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	if err := client.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	handled.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "job/s")
	if err := client.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}
