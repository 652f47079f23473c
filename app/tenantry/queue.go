// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/adapters/queue"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/dnsruns"
	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/ports"
)

// jobQueue wakes jobs and runs them in this process.
type jobQueue interface {
	ports.Worker
	Close(ctx context.Context) error
}

// openQueue takes the queue that fits the database: River on a server's, the
// memory of this process for the embedded one.
func openQueue(ctx context.Context, c settings.Config, log *slog.Logger) (jobQueue, error) {
	o := queue.Options{Log: log}
	if strings.HasPrefix(c.DatabaseURL, "sqlite:") {
		return queue.NewLocal(o)
	}
	asked, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	r, err := queue.OpenRiver(asked, c.DatabaseURL, o)
	switch {
	case errors.Is(err, queue.ErrNotMigrated):
		return nil, cli.WithFix(err, fixMigrations)
	case err != nil:
		return nil, databaseError(err)
	}
	return r, nil
}

// migrateQueue brings the tables of a server's queue up to this release and
// names what was missing.
func migrateQueue(ctx context.Context, c settings.Config) ([]string, error) {
	if strings.HasPrefix(c.DatabaseURL, "sqlite:") {
		return nil, nil
	}
	return queue.Migrate(ctx, c.DatabaseURL)
}

// pendingQueue names what migrateQueue would do.
func pendingQueue(ctx context.Context, c settings.Config) ([]string, error) {
	if strings.HasPrefix(c.DatabaseURL, "sqlite:") {
		return nil, nil
	}
	return queue.Pending(ctx, c.DatabaseURL)
}

// work is everything that happens by itself.
func (s *service) work() ports.Work {
	handlers := map[string]ports.Handler{dnsruns.Kind: s.jobs.Handle, domains.CheckKind: s.watch.Handle}
	maps.Copy(handlers, s.integrations.Handlers())
	maps.Copy(handlers, s.enforcer.Handlers())
	return ports.Work{
		Handlers: handlers,
		Periodic: slices.Concat([]ports.Periodic{
			{Kind: "idempotency_keys", Every: sweepEvery, Do: s.reap},
			{Kind: "enforcement_events", Every: time.Hour, Do: s.enforcement.Forget},
			s.jobs.Sweep(s.jobSweep),
			s.watch.Sweep(s.checkTick),
		}, s.integrations.Periodic(s.sessionSweep, refreshEvery), s.enforcer.Periodic(enforceSweepEvery, s.queue)),
	}
}

// stopQueue lets handlers finish; those that do not are woken again later.
func (s *service) stopQueue(ctx context.Context) error {
	if err := s.queue.Stop(ctx); err != nil {
		return cli.WithFix(fmt.Errorf("jobs: %w", err), "what they did not finish goes on after the next start; raise drain_time if this happens often")
	}
	return nil
}
