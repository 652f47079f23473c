// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the PostgreSQL driver

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/enforcement"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// BenchmarkSweep measures a sweep: one enforcement pass for each of 1,000 tenants with 36 mailboxes
// each. All tenants are due at once. A double of the mail platform answers after 20 ms. Store,
// queue and enforcer are those of the service.
func BenchmarkSweep(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { benchSweeps(b, sqliteURL(b), 1000, 20*time.Millisecond, 1) })
	b.Run("postgres", func(b *testing.B) { benchSweeps(b, testserver.Database(b), 1000, 20*time.Millisecond, 1) })
}

// BenchmarkSweepMemory measures the heap for increasing numbers of tenants, at a platform that
// answers after 1 ms. With few tenants the sweep is repeated, to take enough samples of the heap.
func BenchmarkSweepMemory(b *testing.B) {
	for _, tenants := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(tenants), func(b *testing.B) {
			benchSweeps(b, testserver.Database(b), tenants, time.Millisecond, max(1, 1000/tenants))
		})
	}
}

// benchSweeps measures sweeps of a database. rounds is the number of sweeps in each iteration.
func benchSweeps(b *testing.B, database string, tenants int, latency time.Duration, rounds int) {
	if testing.Short() {
		tenants = min(tenants, 50)
	}
	config := settings.Config{DatabaseURL: database}
	store, err := bunstore.Open(b.Context(), database, bunstore.Options{})
	must(b, err)
	defer func() { must(b, store.Close()) }()
	must(b, store.Migrate(b.Context()))
	_, err = wiring.MigrateQueue(b.Context(), config)
	must(b, err)
	must(b, insertLimitedTenants(b.Context(), store, database, tenants))

	for b.Loop() {
		peakHeap, platform := 0.0, &slowPlatform{latency: latency}
		for round := range rounds {
			queue, err := wiring.OpenQueue(b.Context(), config, slog.New(slog.DiscardHandler))
			must(b, err)
			now := func() time.Time { return time.Now().Add(time.Duration(round) * time.Hour) } // all tenants are due again
			peakHeap = max(peakHeap, platform.sweep(b, &wiring.Service{Store: store, Queue: queue, Platform: platform}, tenants, now))
		}
		if platform.blocks.Load() == 0 {
			b.Error("no mailbox was blocked, want one in each tenth tenant")
		}
		b.ReportMetric(peakHeap, "MB-heap")
	}
}

// sweep runs the queue of a service until all tenants were evaluated. It reports the metrics of the
// sweep and returns the peak heap in megabytes.
func (p *slowPlatform) sweep(b *testing.B, service *wiring.Service, tenants int, now func() time.Time) (peakMegabytes float64) {
	p.answers.Store(0)
	must(b, service.InitEnforcer(wiring.Overrides{Now: now}))
	allEvaluated := make(chan struct{})
	var passes atomic.Int64
	service.Enforcer.OnPassEnd = func(_ context.Context, err error) {
		if err != nil {
			b.Error(err)
		}
		if passes.Add(1) == int64(tenants) {
			close(allEvaluated)
		}
	}
	stopWatching := watchHeap()
	start := time.Now()
	must(b, service.Queue.Start(b.Context(), ports.Work{Handlers: service.Enforcer.Handlers(), Periodic: service.Enforcer.Periodic(wiring.EnforceSweepEvery, service.Queue)}))
	select {
	case <-allEvaluated:
	case <-time.After(waitTimeout):
		b.Fatalf("after %s only %d of %d tenants were evaluated", waitTimeout, passes.Load(), tenants)
	}
	took := time.Since(start)
	peakMegabytes = stopWatching()
	must(b, service.Queue.Stop(b.Context()))
	must(b, service.Queue.Close(b.Context()))
	platformSeconds := float64(p.answers.Load()) * p.latency.Seconds() / enforcement.ParallelCalls
	b.ReportMetric(took.Seconds(), "s/sweep")
	b.ReportMetric(float64(p.answers.Load()), "calls")
	b.ReportMetric(float64(p.maxRunning.Load()), "at-once")
	b.ReportMetric(took.Seconds()/platformSeconds, "x/platform")
	b.ReportMetric(0, "ns/op")
	return peakMegabytes
}

// watchHeap starts to sample the size of the live heap, which each garbage collection measures.
// peak ends the sampling and returns the maximum.
func watchHeap() (peak func() (megabytes float64)) {
	debug.FreeOSMemory()
	stop, result := make(chan struct{}), make(chan uint64)
	go func() {
		live, highest := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, uint64(0)
		for tick := time.Tick(5 * time.Millisecond); ; {
			metrics.Read(live)
			highest = max(highest, live[0].Value.Uint64())
			select {
			case <-stop:
				result <- highest
				return
			case <-tick:
			}
		}
	}()
	return func() float64 {
		runtime.GC()
		close(stop)
		return float64(<-result) / 1e6
	}
}

const (
	sweepMailboxes = 36
	sweepMessages  = 20 // messages that each mailbox has sent on the day
	sweepLimit     = 25
	sweepAccounts  = 10
)

// slowPlatform is a mail platform whose mailboxes have sent sweepMessages messages each. In one
// tenant of ten, one mailbox has instead exceeded its limit.
type slowPlatform struct {
	ports.MailPlatform
	latency                              time.Duration
	answers, running, maxRunning, blocks atomic.Int64 // running are calls that have no answer yet
	blockRules                           sync.Map     // the rule that Block stored last, by tenant
}

// For implements ports.MailPlatform.
func (p *slowPlatform) For(id tenant.GUID) ports.MailTenant { return slowTenant{platform: p, id: id} }

// answer waits as long as n consecutive responses of the platform take.
func (p *slowPlatform) answer(ctx context.Context, n int) error {
	p.answers.Add(int64(n))
	running := p.running.Add(1)
	defer p.running.Add(-1)
	for peak := p.maxRunning.Load(); running > peak && !p.maxRunning.CompareAndSwap(peak, running); peak = p.maxRunning.Load() {
	}
	select {
	case <-time.After(time.Duration(n) * p.latency):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type slowTenant struct {
	ports.MailTenant
	platform *slowPlatform
	id       tenant.GUID
}

func (t slowTenant) exceedsLimit() bool { return strings.HasSuffix(string(t.id), "0") }

// Sent implements ports.SendTrace.
func (t slowTenant) Sent(ctx context.Context, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
	page := sendlimit.Trace{Sent: make([]sendlimit.Sent, 0, sweepMailboxes*(sweepMessages+1))}
	for n := range sweepMailboxes {
		messages := sweepMessages
		if n == 0 && t.exceedsLimit() {
			messages = sweepLimit + 1
		}
		for m := range messages {
			page.Sent = append(page.Sent, sendlimit.Sent{Message: fmt.Sprint(n, "-", m), Sender: sweepAddress(n),
				At: q.From.Add(q.To.Sub(q.From) * time.Duration(m) / time.Duration(messages))})
		}
	}
	return page, t.platform.answer(ctx, 1)
}

// Rules implements ports.SendRules.
func (t slowTenant) Rules(ctx context.Context) ([]sendlimit.Rule, error) {
	rule := sendlimit.Rule{ID: "rule", Name: sendlimit.RuleName(sendlimit.TenantWide)}
	if stored, exists := t.platform.blockRules.Load(t.id); exists {
		rule = stored.(sendlimit.Rule)
	}
	return []sendlimit.Rule{rule}, t.platform.answer(ctx, 1)
}

// Block implements ports.SendRules. It takes three responses: the rule is read, written and read
// back.
func (t slowTenant) Block(ctx context.Context, scope string, list []string) (sendlimit.Rule, error) {
	r := sendlimit.Rule{ID: "rule", Name: sendlimit.RuleName(scope), Enabled: len(list) > 0, Lists: list, Written: true}
	t.platform.blocks.Add(int64(len(list)))
	t.platform.blockRules.Store(t.id, r)
	return r, t.platform.answer(ctx, 3)
}

func sweepAddress(n int) string { return fmt.Sprintf("box-%d@example.test", n) }

// insertLimitedTenants inserts tenants with a limit and all their mailboxes by SQL, because the
// store would be slow for 10,000 tenants.
func insertLimitedTenants(ctx context.Context, store *bunstore.Store, database string, tenants int) (err error) {
	var owners []access.AccountID
	for n := range sweepAccounts {
		a, err := store.CreateAccount(ctx, fmt.Sprintf("owner-%d@example.test", n), "complete", 0, time.Now())
		if err != nil {
			return err
		}
		owners = append(owners, a.ID)
	}
	driver, source := "pgx", database
	if path, ok := strings.CutPrefix(database, "sqlite://"); ok {
		driver, source = "sqlite", path
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for first := 0; first < tenants && err == nil; first += 100 {
		_, err = db.ExecContext(ctx, insertTenantsSQL(owners, first, min(first+100, tenants)))
	}
	return err
}

// insertTenantsSQL returns the SQL that inserts the tenants with numbers from first to last-1.
func insertTenantsSQL(owners []access.AccountID, first, last int) string {
	const insertedAt = "2026-01-01 00:00:00+00:00"
	var holderRows, tenantRows, policyRows, mailboxRows []string
	for n := first; n < last; n++ {
		owner, id := owners[n%len(owners)], fmt.Sprintf("20000000-0000-4000-8000-%012d", n)
		holderRows = append(holderRows, fmt.Sprintf("('%s', '%s')", id, owner))
		tenantRows = append(tenantRows, fmt.Sprintf("('%s', '%s', '%[2]s', 'Example', 'example.onmicrosoft.com', '', TRUE, '%s', '%s', '', '%s', '', '%s', '%s', %d)",
			owner, id, tenant.ConsentGranted, insertedAt, tenant.BootstrapReady, tenant.SMTPAuthEnabled, tenant.DiscoveryCompleted, sweepMailboxes))
		policyRows = append(policyRows, fmt.Sprintf("('%s', '%s', '%[2]s', '%s', '', %d, 'rule', '%s', '%s', '%[6]s')",
			owner, id, ident.Zero, sweepLimit, sendlimit.RuleName(sendlimit.TenantWide), insertedAt))
		for i := range sweepMailboxes {
			mailboxRows = append(mailboxRows, fmt.Sprintf("('%s', '%08d-0000-4000-8000-%012d', '%s', '%s', 'example.test', '%s', TRUE, '', 'Box', '', '', TRUE, 0, '%s', '%[7]s')",
				owner, i, n, id, sweepAddress(i), mailbox.Ready, insertedAt))
		}
	}
	return "BEGIN; INSERT INTO tenant_holders (guid, account_id) VALUES " + strings.Join(holderRows, ", ") +
		"; INSERT INTO tenants (account_id, id, guid, name, builtin_domain, default_domain, managed, consent, consented_at, connected_by, bootstrap, bootstrap_step, smtp_auth, discovery, user_mailboxes) VALUES " + strings.Join(tenantRows, ", ") +
		"; INSERT INTO send_policies (account_id, id, tenant_id, domain_id, scope, daily_send_limit, rule_id, rule_name, created_at, updated_at) VALUES " + strings.Join(policyRows, ", ") +
		"; INSERT INTO mailboxes (account_id, id, tenant_id, address, domain_name, stage, provisioned, object_id, display_name, principal_name, alias, account_enabled, sends_today, created_at, stored_at) VALUES " + strings.Join(mailboxRows, ", ") +
		"; COMMIT"
}
