// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// BenchmarkEvents reads pages of the enforcement events of two years of an account with 100
// tenants, and then inserts batches of events. There are 10 million events on PostgreSQL and 2
// million on SQLite, or a thousandth of them with -short. Before the measurement, a page at each
// kind of offset is compared with the result of a query that does not use the stored counts.
func BenchmarkEvents(b *testing.B) {
	divisor := 1
	if testing.Short() {
		divisor = 1000
	}
	b.Run("postgres", func(b *testing.B) { benchEvents(b, testserver.Database(b), 10_000_000/divisor) })
	b.Run("sqlite", func(b *testing.B) {
		benchEvents(b, "sqlite://"+filepath.Join(b.TempDir(), "tenantry.db"), 2_000_000/divisor)
	})
}

// largestPage is the largest page that callers may request.
const largestPage = 200

func benchEvents(b *testing.B, url string, eventCount int) {
	history := newEnforcementHistory(b, url, eventCount)
	began := time.Now()
	must(b, "fill", history.fill(b.Context()))
	b.Logf("%d events were written in %s", eventCount, time.Since(began).Round(time.Second))
	for name, query := range map[string]ports.EventQuery{
		"all": {}, "blocked": {Action: sendlimit.Blocked}, "unblocked": {Action: sendlimit.Unblocked},
		"tenant": {Tenant: guid(7)}, "tenant blocked": {Tenant: guid(8), Action: sendlimit.Blocked},
		"tenant unblocked": {Tenant: guid(9), Action: sendlimit.Unblocked},
	} {
		b.Run(name, func(b *testing.B) { history.benchmarkPages(b, query) })
	}
	b.Run("batch", history.benchmarkBatches)
}

// benchmarkPages reads pages at the first event, at the middle of the log, at the last event and at
// random offsets. It alternates between these pages, because the machine's speed varies.
func (h enforcementHistory) benchmarkPages(b *testing.B, query ports.EventQuery) {
	query.Limit = largestPage
	total := h.count(b, query)
	offsets := map[string]func() int{
		"first": func() int { return 0 }, "middle": func() int { return total / 2 },
		"last": func() int { return total - 1 }, "any": func() int { return rand.IntN(total) },
	}
	durations := map[string][]time.Duration{}
	for name, offset := range offsets {
		query.Offset = offset()
		h.requirePage(b, query, total)
		h.timePage(b, query) // warms the caches
		durations[name] = nil
	}
	for b.Loop() {
		for name, offset := range offsets {
			query.Offset = offset()
			durations[name] = append(durations[name], h.timePage(b, query))
		}
	}
	slowest := 0.0
	for name := range offsets {
		slowest = max(slowest, quantileOf(durations[name], .5))
		b.ReportMetric(quantileOf(durations[name], .99), "ms/p99-"+name)
	}
	b.ReportMetric(slowest, "ms/median")
	b.ReportMetric(quantileOf(durations["middle"], .5)/quantileOf(durations["first"], .5), "x/middle")
	b.ReportMetric(0, "ns/op")
}

func (h enforcementHistory) timePage(b *testing.B, query ports.EventQuery) time.Duration {
	began := time.Now()
	_, err := h.Events(b.Context(), h.owner, query)
	must(b, "events", err)
	return time.Since(began)
}

// quantileOf sorts the durations and returns a quantile of them in milliseconds.
func quantileOf(durations []time.Duration, quantile float64) float64 {
	slices.Sort(durations)
	return float64(durations[int(float64(len(durations)-1)*quantile)].Microseconds()) / 1000
}

// queryWithoutCounts returns a query for the events of q that does not use the table
// enforcement_counts.
func (h enforcementHistory) queryWithoutCounts(q ports.EventQuery) *bun.SelectQuery {
	query := h.db.NewSelect().Model((*enforcementRow)(nil)).Where("ev.account_id = ?", accountKey(h.owner))
	if q.Tenant != "" {
		query = query.Where("ev.tenant_guid = ?", string(q.Tenant))
	}
	if q.Action != "" {
		query = query.Where("ev.action = ?", string(q.Action))
	}
	return query
}

func (h enforcementHistory) count(b *testing.B, query ports.EventQuery) int {
	total, err := h.queryWithoutCounts(query).Count(b.Context())
	must(b, "query without counts", err)
	return int(total)
}

// requirePage checks that the page of query equals the result of queryWithoutCounts. total is the
// number of all events that match the query.
func (h enforcementHistory) requirePage(b *testing.B, query ports.EventQuery, total int) {
	b.Helper()
	var rows []enforcementRow
	must(b, "query without counts", h.queryWithoutCounts(query).OrderExpr("ev.id DESC").Limit(int64(query.Limit)).Offset(int64(query.Offset)).Scan(b.Context(), &rows))
	want := ports.EventPage{Events: []sendlimit.Event{}, Total: total}
	for _, r := range rows {
		want.Events = append(want.Events, r.event())
	}
	got, err := h.Events(b.Context(), h.owner, query)
	must(b, "events", err)
	if diff := cmp.Diff(want, got); diff != "" {
		b.Fatalf("the page of %+v (-without counts +got):\n%s", query, diff)
	}
}

// benchmarkBatches inserts batches in a loop. A batch has the events of one enforcement pass. After
// each batch, a batch of the same size is inserted without counts, for comparison.
func (h enforcementHistory) benchmarkBatches(b *testing.B) {
	before, err := h.Events(b.Context(), h.owner, ports.EventQuery{Limit: 1})
	must(b, "events", err)
	var withCounts, withoutCounts []time.Duration
	for b.Loop() {
		began := time.Now()
		storeEvents(b, h.Store, h.owner, batchOf(len(withCounts))...)
		recorded := time.Now()
		must(b, "insert without counts", h.insertWithoutCounts(b.Context(), batchOf(len(withCounts))))
		withCounts, withoutCounts = append(withCounts, recorded.Sub(began)), append(withoutCounts, time.Since(recorded))
	}
	after, err := h.Events(b.Context(), h.owner, ports.EventQuery{Limit: 1})
	must(b, "events", err)
	if counted := after.Total - before.Total; counted != eventsPerPass*len(withCounts) {
		b.Fatalf("the count grew by %d, want %d", counted, eventsPerPass*len(withCounts))
	}
	b.ReportMetric(quantileOf(withCounts, .5), "ms/batch")
	b.ReportMetric(quantileOf(withoutCounts, .5), "ms/bare")
	b.ReportMetric(totalSeconds(withCounts)/totalSeconds(withoutCounts), "x/mean")
	b.ReportMetric(quantileOf(withCounts, .5)/quantileOf(withoutCounts, .5), "x/batch")
	b.ReportMetric(0, "ns/op")
}

// eventsPerPass is the number of mailboxes of a tenant with the maximum number of mailboxes. A pass
// can block all of them.
const eventsPerPass = domain.MaxPerTenant * mailbox.MaxPerDomain

// batchOf returns the events of one enforcement pass. All of them belong to the tenant with the
// number n modulo benchTenants.
func batchOf(n int) (events []sendlimit.Event) {
	at := time.Now().UTC()
	for range eventsPerPass {
		events = append(events, sendlimit.Event{ID: newID(), Tenant: guid(n % benchTenants),
			Address: "box@example.test", Action: sendlimit.Blocked, Sent: 26, Limit: 25, At: at})
	}
	return events
}

func totalSeconds(durations []time.Duration) (seconds float64) {
	for _, d := range durations {
		seconds += d.Seconds()
	}
	return seconds
}

func (h enforcementHistory) insertWithoutCounts(ctx context.Context, events []sendlimit.Event) error {
	return h.inTransaction(ctx, "record events alone", func(ctx context.Context, tx bun.IDB) error {
		var rows []enforcementRow
		for _, e := range events {
			rows = append(rows, newEnforcementRow(accountKey(h.owner), e))
		}
		_, err := tx.NewInsert().Model(&rows).Exec(ctx)
		return err
	})
}

// enforcementHistory is a store with the enforcement events of historyDays days of one account.
type enforcementHistory struct {
	*Store
	owner      access.AccountID
	eventCount int
}

const (
	historyBegins = 1_699_920_000_000 // the Unix time of a midnight (UTC), in milliseconds
	historyDays   = 730
	benchTenants  = 100
)

func newEnforcementHistory(b *testing.B, url string, eventCount int) enforcementHistory {
	s := openWithin(b, url, time.Hour) // filling the log takes long
	b.Cleanup(func() { must(b, "close", s.Close()) })
	must(b, "migrate", s.Migrate(b.Context()))
	account, err := s.CreateAccount(b.Context(), "ann@example.test", "complete", 0, time.Now())
	must(b, "create account", err)
	for n := range benchTenants {
		_, err := s.Attach(b.Context(), account.ID, tenant.Tenant{GUID: guid(n), Name: "Contoso", ConsentedAt: time.Now()})
		must(b, "attach", err)
	}
	return enforcementHistory{s, account.ID, eventCount}
}

// fill inserts the events in a few statements, with the rows that recordEvents would write. Half of
// a day's events are unblocks in the hour after midnight. The other half are blocks in ten working
// hours.
func (h enforcementHistory) fill(ctx context.Context) error {
	err := h.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if database.IsPostgres(h.db) { // turns off foreign keys, which would look up the account ten million times
			if _, err := tx.ExecContext(ctx, "SET LOCAL session_replication_role = replica"); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, h.insertStatement()); err != nil {
			return err
		}
		return h.fillCounts(ctx, tx)
	})
	if err != nil {
		return err
	}
	analyze := "ANALYZE"
	if database.IsPostgres(h.db) {
		analyze = "VACUUM ANALYZE"
	}
	_, err = h.db.ExecContext(ctx, analyze)
	return err
}

func (h enforcementHistory) insertStatement() string {
	numbers := "WITH RECURSIVE series(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM series WHERE n + 1 < %d)"
	id := "printf('%%08x-%%04x-7%%03x-8%%03x-%%012x', ms / 65536, ms %% 65536, n %% 4096, n %% 4096, n)"
	at, guid := "strftime('%%Y-%%m-%%d %%H:%%M:%%f+00:00', ms / 1000.0, 'unixepoch')", "printf('10000000-0000-4000-8000-%%012d', n * 7 %% 100)"
	owner := "'" + accountKey(h.owner) + "'"
	if database.IsPostgres(h.db) {
		numbers = "WITH series AS (SELECT generate_series(0, %d - 1)::bigint AS n)"
		id = "(lpad(to_hex(ms), 12, '0') || '7' || lpad(to_hex(n %% 4096), 3, '0') || '8' || lpad(to_hex(n), 15, '0'))::uuid"
		at, guid = "to_timestamp(ms / 1000.0)", "('10000000-0000-4000-8000-' || lpad((n * 7 %% 100)::text, 12, '0'))::uuid"
		owner += "::uuid"
	}
	perDay := h.eventCount/historyDays + 1
	return fmt.Sprintf(numbers+", placed AS (SELECT n, n / %d AS d, n %% %d AS i FROM series), "+
		"timed AS (SELECT n, i < %d AS night, %d + d * 86400000 + CASE WHEN i < %[4]d THEN i * 3600000 / %[4]d ELSE 28800000 + (i - %[4]d) * 36000000 / %[6]d END AS ms FROM placed) "+
		"INSERT INTO enforcement_events (account_id, id, tenant_guid, mailbox_address, action, sent_count, limit_value, created_at) "+
		"SELECT "+owner+", "+id+", "+guid+", 'box@example.test', CASE WHEN night THEN 'unblocked' ELSE 'blocked' END, 26, 25, "+at+" FROM timed",
		h.eventCount, perDay, perDay, perDay/2, int64(historyBegins), perDay-perDay/2)
}

func (h enforcementHistory) fillCounts(ctx context.Context, tx bun.Tx) error {
	epoch := "CAST(strftime('%s', created_at) AS integer)"
	if database.IsPostgres(h.db) {
		epoch = "floor(extract(epoch FROM created_at))::bigint"
	}
	for _, span := range []int{hour, day} {
		for _, guid := range []string{"'" + ident.Zero + "'", "tenant_guid"} {
			if database.IsPostgres(h.db) {
				guid += "::uuid"
			}
			if _, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO enforcement_counts (account_id, tenant_guid, action, span, starts, events) "+
				"SELECT account_id, %s, action, %d, %s / %d * %d AS at, COUNT(*) FROM enforcement_events GROUP BY 1, 2, 3, 5",
				guid, span, epoch, span, span)); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestBenchmarks(t *testing.T) { testserver.Benchmarks(t, "Events") }
