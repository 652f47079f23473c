// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/tenantry/tenantry/adapters/queue"
	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/dnsruns"
	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/app/enforcement"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/webhooks"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

const (
	// jobSweepEvery is the interval of the sweep that wakes due provisioning jobs whose wake-up
	// (the request to run the job) was lost. The jobs of a killed worker must resume within 90 s.
	// The sum of this interval and a worker's lease is therefore less than 90 s.
	jobSweepEvery = 30 * time.Second

	// domainSweepEvery is the interval of the sweep that wakes due domain checks.
	domainSweepEvery = 5 * time.Minute

	// EnforceSweepEvery is the interval of the sweep that wakes tenants whose messages are due to
	// be counted. In the sandbox, a shorter interval would often enforce the limits before the user
	// triggers enforcement through the control interface.
	EnforceSweepEvery = time.Minute

	// sessionSweepEvery is the interval of the sweep that ends expired sign-in sessions. A request
	// that reads an expired session can end the session earlier.
	sessionSweepEvery = time.Minute

	// refreshEvery is the time between two scheduled reads of an integration's accounts at its
	// sending platform. These reads stay far below the limits of the platforms, which allow dozens
	// of pages a minute.
	refreshEvery = 6 * time.Hour

	// idempotencyKeySweepEvery is the interval at which expired Idempotency-Keys are deleted.
	idempotencyKeySweepEvery = time.Minute

	// lostWriteSweepEvery is the interval of the sweep that adds the audit entries of requests that
	// did not end, for example because their process was killed.
	lostWriteSweepEvery = 30 * time.Second

	// idempotencyKeyBatchTimeout bounds the deletion of one batch of Idempotency-Keys.
	idempotencyKeyBatchTimeout = 10 * time.Second
)

// SandboxJobRetryPolicy is the retry policy of provisioning jobs in the sandbox. It is
// provisioning.DefaultRetryPolicy with shorter pauses. It also counts the time for which a due job
// was not attempted, so that a job reaches its time limits when the sandbox's clock is moved
// forward.
var SandboxJobRetryPolicy = func() provisioning.RetryPolicy {
	p := provisioning.DefaultRetryPolicy
	p.FirstPause, p.LongestPause, p.BetweenReads, p.CountIdle = time.Second, 15*time.Second, time.Second, true
	return p
}()

// jobQueue wakes jobs and runs them in this process.
type jobQueue interface {
	ports.Worker
	Close(ctx context.Context) error
}

// OpenQueue returns the queue that fits the database: the library River for PostgreSQL, a queue in
// memory for the embedded database. It fails when PostgreSQL is unreachable or the queue's tables
// are not migrated.
func OpenQueue(ctx context.Context, c settings.Config, log *slog.Logger) (jobQueue, error) {
	o := queue.Options{Log: log}
	if strings.HasPrefix(c.DatabaseURL, "sqlite:") {
		return queue.NewLocal(o)
	}
	openCtx, cancel := context.WithTimeout(ctx, databaseOpenTimeout)
	defer cancel()
	river, err := queue.OpenRiver(openCtx, c.DatabaseURL, o)
	switch {
	case errors.Is(err, queue.ErrNotMigrated):
		return nil, cli.WithFix(err, FixMigrations)
	case err != nil:
		return nil, DatabaseError(err)
	}
	return river, nil
}

// MigrateQueue migrates the queue's tables in PostgreSQL and returns the names of the migrations
// that it applied. It does nothing for the embedded database.
func MigrateQueue(ctx context.Context, c settings.Config) ([]string, error) {
	if strings.HasPrefix(c.DatabaseURL, "sqlite:") {
		return nil, nil
	}
	return queue.Migrate(ctx, c.DatabaseURL)
}

// PendingQueueMigrations returns the names of the migrations that MigrateQueue would apply.
func PendingQueueMigrations(ctx context.Context, c settings.Config) ([]string, error) {
	if strings.HasPrefix(c.DatabaseURL, "sqlite:") {
		return nil, nil
	}
	return queue.PendingMigrations(ctx, c.DatabaseURL)
}

// QueueWork returns all background jobs: the handlers by job kind, and the periodic jobs.
func (s *Service) QueueWork() ports.Work {
	handlers := map[string]ports.Handler{dnsruns.Kind: s.dnsWorker.Handle, domains.CheckKind: s.domainWatch.Handle}
	maps.Copy(handlers, s.integrations.Handlers())
	maps.Copy(handlers, s.Enforcer.Handlers())
	maps.Copy(handlers, s.WebhookWorker.Handlers())
	for kind, handle := range handlers {
		if !runsForInactiveAccounts[kind] {
			handlers[kind] = onlyForActiveAccounts(s.Store, handle)
		}
	}
	return ports.Work{
		Handlers: handlers,
		Periodic: slices.Concat([]ports.Periodic{
			{Kind: "idempotency_keys", Every: idempotencyKeySweepEvery, Do: s.deleteExpiredKeys},
			{Kind: "enforcement_events", Every: time.Hour, Do: s.enforcement.DeleteOldEvents},
			{Kind: "events", Every: time.Hour, Do: s.Events.DeleteOldEvents},
			{Kind: "audit_entries", Every: time.Hour, Do: s.audits.DeleteOldEntries},
			{Kind: "audit_acts", Every: lostWriteSweepEvery, Do: s.audits.RecordLostWrites},
			s.dnsWorker.Sweep(jobSweepEvery),
			s.domainWatch.Sweep(domainSweepEvery),
		}, s.integrations.Periodic(sessionSweepEvery, refreshEvery), s.WebhookWorker.Periodic(webhookSweepEvery), s.Enforcer.Periodic(EnforceSweepEvery, s.Queue)),
	}
}

// WakeDueJobs wakes jobs that are due by the service's clock: provisioning jobs, domain checks, the
// jobs of expired sessions, and deliveries. It also deletes old events, audit entries and
// deliveries. The sandbox calls WakeDueJobs after its clock was moved, so that due jobs do not wait
// for the periodic sweeps.
func (s *Service) WakeDueJobs(ctx context.Context) error {
	return errors.Join(
		s.dnsWorker.Sweep(jobSweepEvery).Do(ctx),
		s.integrations.SessionSweep(sessionSweepEvery).Do(ctx),
		s.domainWatch.CheckDue(ctx),
		s.audits.DeleteOldEntries(ctx),
		s.Events.DeleteOldEvents(ctx),
		s.enforcement.DeleteOldEvents(ctx),
		s.WebhookWorker.DeleteOldDeliveries(ctx),
		s.WebhookWorker.Sweep(ctx),
	)
}

// runsForInactiveAccounts says for each kind of job whether it runs for suspended and closed
// accounts. A job of a kind with the value false waits until its suspended account is active again.
// See docs/decisions/0023-inactive-accounts.md.
var runsForInactiveAccounts = map[string]bool{
	dnsruns.Kind:             false,
	domains.CheckKind:        false,
	integrations.RefreshKind: false,
	integrations.SessionKind: true,
	enforcement.PassKind:     true,
	webhooks.Kind:            false,
}

// onlyForActiveAccounts returns a handler that ignores the wake-ups of inactive accounts. The
// sweeps exclude the jobs of inactive accounts, but a wake-up can be older than the suspension.
// When the account is active again, the next sweep wakes the job.
func onlyForActiveAccounts(accounts ports.Keys, handle ports.Handler) ports.Handler {
	return func(ctx context.Context, w ports.Wakeup) error {
		acc, err := accounts.Account(ctx, w.Account)
		switch {
		case errors.Is(err, fault.AccountNotFound):
			return nil
		case err != nil:
			return fmt.Errorf("load the account of a job: %w", err)
		case !acc.Active:
			return nil
		default:
			return handle(ctx, w)
		}
	}
}

// StopQueue stops the queue and the webhook worker at the same time, so that slow deliveries do not
// shorten the time of the handlers. It waits for running handlers and deliveries, and cancels slow
// ones before ctx ends. If some do not end in time, it returns an error, and their jobs run again
// later.
func (s *Service) StopQueue(ctx context.Context) error {
	var deliveriesErr, handlersErr error
	var stops panics.Group
	stops.Go(func() { deliveriesErr = s.WebhookWorker.Stop(ctx) })
	stops.Go(func() { handlersErr = s.Queue.Stop(ctx) })
	stops.Wait()
	if err := errors.Join(deliveriesErr, handlersErr); err != nil {
		return cli.WithFix(fmt.Errorf("jobs: %w", err), "the jobs continue after the next start; raise drain_time if this happens often")
	}
	return nil
}

// FinishInterrupted releases the leases that a previous process left in an embedded database, so
// that interrupted requests and background jobs can run again at once. On PostgreSQL it does
// nothing, because other processes may hold leases. Abandoned leases expire there.
func (s *Service) FinishInterrupted(ctx context.Context, databaseURL string) error {
	if !strings.HasPrefix(databaseURL, "sqlite:") {
		return nil
	}
	return s.Store.EndLeases(ctx)
}

func (s *Service) initDNSWorker(c settings.Config, o Overrides) {
	spans := telemetry.Jobs{CustomerData: c.TraceCustomerData}
	s.dnsWorker = &dnsruns.Worker{
		Jobs: s.Store, Domains: s.domains.Steps, Queue: s.Queue, Fence: wire.Fence{}, RetryPolicy: cmp.Or(o.JobRetryPolicy, provisioning.DefaultRetryPolicy),
		Now: o.Now, Chance: mathrand.Float64, Log: s.Log, RunInSpan: spans.Step,
	}
}

// initDomainWatch builds the job that periodically reads the DNS of verified domains. It fails when
// its counter cannot be registered.
func (s *Service) initDomainWatch(c settings.Config, o Overrides) error {
	results := make([]string, 0, len(domains.CheckResults))
	for _, check := range domains.CheckResults {
		results = append(results, string(check))
	}
	count, err := telemetry.NewDomainCheckCounter(results...)
	if err != nil {
		return err
	}
	s.domainWatch = &domains.Watch{
		Domains: s.Store, Checks: s.Store, DNS: s.domains.DNS, Facts: s.domains.Facts, Queue: s.Queue, Now: o.Now, Log: s.Log, Disabled: !c.DomainChecks,
		OnCheck: func(ctx context.Context, check domains.CheckResult) { count(ctx, string(check)) },
	}
	return nil
}

// initIntegrations builds the use cases of integrations, with their background jobs. It fails
// when the drift counter cannot be registered.
func (s *Service) initIntegrations(sealer ports.Sealer, o Overrides) error {
	drift, err := otel.Meter(meterName).Int64Counter("tenantry.sending.drift",
		metric.WithDescription("Changes at sending platforms that tenantry did not make, by kind, as refreshes find them."))
	if err != nil {
		return err
	}
	s.integrations = &integrations.Service{
		Integrations: s.Store, Connections: s.Store, Tenants: s.Store, Platforms: s.sendingPlatforms, Sealer: sealer, Queue: s.Queue, Random: rand.Reader,
		Now: o.Now, OnDrift: func(provider string, kind integration.Drift) {
			drift.Add(context.Background(), 1, labels("provider", provider, "kind", string(kind)))
		},
	}
	s.mailboxes.Connections = s.integrations
	return nil
}

// InitEnforcer builds s.Enforcer, which counts messages and enforces send limits. It fails when
// the metrics of enforcement cannot be registered.
func (s *Service) InitEnforcer(o Overrides) error {
	m, err := telemetry.NewEnforcement()
	if err != nil {
		return err
	}
	s.Enforcer = &enforcement.Runner{
		Claims: s.Store, Policies: s.Store, Tenants: s.Store, Platform: s.Platform, Now: o.Now,
		OnBlockDelay: m.RecordLag, OnChange: m.CountChange, OnPassEnd: m.CountPass, OnlyTenantsWithLimits: o.OnlyTenantsWithLimits,
	}
	return nil
}

// EnforceNow calls Enforcer.RunAll for the sandbox. It only logs the failures of the mail platform,
// because the next pass tries again. It returns all other errors.
func (s *Service) EnforceNow(ctx context.Context) error {
	platformErr, err := s.Enforcer.RunAll(ctx)
	if platformErr != nil {
		s.Log.WarnContext(ctx, "the send limits of some tenants could not be enforced", "error", platformErr)
	}
	return err
}

// deleteExpiredKeys deletes expired Idempotency-Keys in batches, so that no transaction holds its
// locks for long.
func (s *Service) deleteExpiredKeys(ctx context.Context) error {
	for deleted := idempotency.DeleteBatch; deleted == idempotency.DeleteBatch; {
		batchCtx, cancel := context.WithTimeout(ctx, idempotencyKeyBatchTimeout)
		var err error
		deleted, err = s.Store.Reap(batchCtx, s.idempotency.Now(), idempotency.DeleteBatch)
		cancel()
		if err != nil {
			return fmt.Errorf("delete expired Idempotency-Keys: %w", err)
		}
	}
	return nil
}
