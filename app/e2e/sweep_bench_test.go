// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/enforcement"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/ports"
)

// BenchmarkSweep counts and enforces what tenants of 36 mailboxes sent, all of
// them due at once, at a mail platform that answers after 20 ms: with the real
// store, queue and runner, and without plugin processes. Everything is the
// service's own, the number of calls at once too.
func BenchmarkSweep(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { sweeps(b, embedded(b), 1000, 20*time.Millisecond, 1) })
	b.Run("postgres", func(b *testing.B) { sweeps(b, testserver.Database(b), 1000, 20*time.Millisecond, 1) })
}

// BenchmarkSweepMemory is the same for more and more tenants, at a platform that
// answers at once. Few are looked at several times, so that the heap of each is
// looked at often.
func BenchmarkSweepMemory(b *testing.B) {
	for _, tenants := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(tenants), func(b *testing.B) { sweeps(b, testserver.Database(b), tenants, time.Millisecond, max(1, 1000/tenants)) })
	}
}

func sweeps(b *testing.B, database string, tenants int, latency time.Duration, rounds int) {
	if testing.Short() {
		tenants = min(tenants, 50)
	}
	c := settings.Config{DatabaseURL: database}
	store, err := bunstore.Open(b.Context(), database, bunstore.Options{})
	mustSweep(b, err)
	defer func() { mustSweep(b, store.Close()) }()
	mustSweep(b, store.Migrate(b.Context()))
	_, err = wiring.MigrateQueue(b.Context(), c)
	mustSweep(b, err)
	mustSweep(b, limitedTenants(b.Context(), store, database, tenants))

	for b.Loop() {
		heap, p := 0.0, &slowPlatform{latency: latency}
		for n := range rounds {
			queue, err := wiring.OpenQueue(b.Context(), c, slog.New(slog.DiscardHandler))
			mustSweep(b, err)
			now := func() time.Time { return time.Now().Add(time.Duration(n) * time.Hour) }
			heap = max(heap, p.sweep(b, &wiring.Service{Store: store, Queue: queue, Platform: p}, tenants, now))
		}
		if p.blocks.Load() == 0 {
			b.Error("no mailbox was blocked")
		}
		b.ReportMetric(heap, "MB-heap")
	}
}

// sweep waits until all tenants were looked at, and returns how large the heap
// was.
func (p *slowPlatform) sweep(b *testing.B, s *wiring.Service, tenants int, now func() time.Time) (heap float64) {
	p.answers.Store(0)
	mustSweep(b, s.InitEnforcer(wiring.Overrides{Now: now}))
	done := make(chan struct{})
	var ended atomic.Int64
	s.Enforcer.Ended = func(_ context.Context, err error) {
		if err != nil {
			b.Error(err)
		}
		if ended.Add(1) == int64(tenants) {
			close(done)
		}
	}
	patience := 5 * time.Minute
	if testing.Short() {
		patience = time.Minute
	}
	peak := watchMemory()
	began := time.Now()
	mustSweep(b, s.Queue.Start(b.Context(), ports.Work{Handlers: s.Enforcer.Handlers(), Periodic: s.Enforcer.Periodic(wiring.EnforceSweepEvery, s.Queue)}))
	select {
	case <-done:
	case <-time.After(patience):
		b.Fatalf("%d of %d tenants were looked at", ended.Load(), tenants)
	}
	took := time.Since(began)
	heap = peak()
	mustSweep(b, s.Queue.Stop(b.Context()))
	mustSweep(b, s.Queue.Close(b.Context()))
	least := float64(p.answers.Load()) * p.latency.Seconds() / enforcement.CallsAtOnce
	b.ReportMetric(took.Seconds(), "s/sweep")
	b.ReportMetric(float64(p.answers.Load()), "calls")
	b.ReportMetric(float64(p.most.Load()), "at-once")
	b.ReportMetric(took.Seconds()/least, "x/platform")
	b.ReportMetric(0, "ns/op")
	return heap
}

func mustSweep(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// watchMemory begins to look at what is in use on the heap, as each collection
// finds it. peak ends that.
func watchMemory() (peak func() (megabytes float64)) {
	debug.FreeOSMemory()
	stop, most := make(chan struct{}), make(chan uint64)
	go func() {
		live, highest := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, uint64(0)
		for tick := time.Tick(5 * time.Millisecond); ; {
			metrics.Read(live)
			highest = max(highest, live[0].Value.Uint64())
			select {
			case <-stop:
				most <- highest
				return
			case <-tick:
			}
		}
	}()
	return func() float64 {
		runtime.GC()
		close(stop)
		return float64(<-most) / 1e6
	}
}
