// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

// BenchmarkEvents is pages of a large log of two years: 10 million events on
// PostgreSQL, 2 million on SQLite, of one account with 100 tenants. Pages are
// compared with the plain query's, so a fast wrong one fails.
func BenchmarkEvents(b *testing.B) {
	fewer := 1
	if testing.Short() {
		fewer = 1000
	}
	b.Run("postgres", func(b *testing.B) { benchEvents(b, testserver.Database(b), 10_000_000/fewer) })
	b.Run("sqlite", func(b *testing.B) {
		benchEvents(b, "sqlite://"+filepath.Join(b.TempDir(), "tenantry.db"), 2_000_000/fewer)
	})
}

// largestPage is the largest that callers may ask for, and what costs most.
const largestPage = 200

func benchEvents(b *testing.B, url string, size int) {
	l := newEventLog(b, url, size)
	began := time.Now()
	mustBench(b, l.fill(b.Context()))
	b.Logf("%d events were written in %s", size, time.Since(began).Round(time.Second))
	for name, q := range map[string]ports.EventQuery{
		"all": {}, "blocked": {Action: sendlimit.Blocked}, "unblocked": {Action: sendlimit.Unblocked},
		"tenant": {Tenant: benchGUID(7)}, "tenant blocked": {Tenant: benchGUID(8), Action: sendlimit.Blocked},
		"tenant unblocked": {Tenant: benchGUID(9), Action: sendlimit.Unblocked},
	} {
		b.Run(name, func(b *testing.B) { l.pages(b, q) })
	}
	b.Run("batch", l.batches)
}

func mustBench(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// pages asks for pages at the beginning, in the middle, at the end and all over
// the log, in turns, as the machine's pace changes.
func (l eventLog) pages(b *testing.B, q ports.EventQuery) {
	q.Limit = largestPage
	total := l.count(b, q)
	places := map[string]func() int{
		"first": func() int { return 0 }, "middle": func() int { return total / 2 },
		"last": func() int { return total - 1 }, "any": func() int { return rand.IntN(total) },
	}
	took := map[string][]time.Duration{}
	for name, offset := range places {
		q.Offset = offset()
		l.compare(b, q, total)
		l.timed(b, q) // the database has seen the query
		took[name] = nil
	}
	for b.Loop() {
		for name, offset := range places {
			q.Offset = offset()
			took[name] = append(took[name], l.timed(b, q))
		}
	}
	slowest := 0.0
	for name := range places {
		slowest = max(slowest, quantileOf(took[name], .5))
		b.ReportMetric(quantileOf(took[name], .99), "ms/p99-"+name)
	}
	b.ReportMetric(slowest, "ms/median")
	b.ReportMetric(quantileOf(took["middle"], .5)/quantileOf(took["first"], .5), "x/middle")
	b.ReportMetric(0, "ns/op")
}

func (l eventLog) timed(b *testing.B, q ports.EventQuery) time.Duration {
	began := time.Now()
	_, err := l.Events(b.Context(), l.owner, q)
	mustBench(b, err)
	return time.Since(began)
}

// quantileOf is one in milliseconds.
func quantileOf(all []time.Duration, quantile float64) float64 {
	slices.Sort(all)
	return float64(all[int(float64(len(all)-1)*quantile)].Microseconds()) / 1000
}

// plain is what a query selects.
func (l eventLog) plain(q ports.EventQuery) *bun.SelectQuery {
	query := l.db.NewSelect().Model((*enforcementRow)(nil)).Where("ev.account_id = ?", account(l.owner))
	if q.Tenant != "" {
		query = query.Where("ev.tenant_guid = ?", string(q.Tenant))
	}
	if q.Action != "" {
		query = query.Where("ev.action = ?", string(q.Action))
	}
	return query
}

func (l eventLog) count(b *testing.B, q ports.EventQuery) int {
	total, err := l.plain(q).Count(b.Context())
	mustBench(b, err)
	return int(total)
}

// compare asks the plain query.
func (l eventLog) compare(b *testing.B, q ports.EventQuery, total int) {
	b.Helper()
	var rows []enforcementRow
	mustBench(b, l.plain(q).OrderExpr("ev.id DESC").Limit(int64(q.Limit)).Offset(int64(q.Offset)).Scan(b.Context(), &rows))
	want := ports.EventPage{Events: []sendlimit.Event{}, Total: total}
	for _, r := range rows {
		want.Events = append(want.Events, r.event())
	}
	got, err := l.Events(b.Context(), l.owner, q)
	mustBench(b, err)
	if diff := cmp.Diff(want, got); diff != "" {
		b.Fatalf("%+v (-plain +got):\n%s", q, diff)
	}
}

// batches writes what a look at a tenant does, 36 events in a transaction, with
// their counts and without, in turns.
func (l eventLog) batches(b *testing.B) {
	before, err := l.Events(b.Context(), l.owner, ports.EventQuery{Limit: 1})
	mustBench(b, err)
	var with, without []time.Duration
	for b.Loop() {
		began := time.Now()
		mustBench(b, l.RecordEvents(b.Context(), l.owner, batchOf(len(with))))
		middle := time.Now()
		mustBench(b, l.plainly(b.Context(), batchOf(len(with))))
		with, without = append(with, middle.Sub(began)), append(without, time.Since(middle))
	}
	after, err := l.Events(b.Context(), l.owner, ports.EventQuery{Limit: 1})
	mustBench(b, err)
	if counted := after.Total - before.Total; counted != batchSize*len(with) {
		b.Fatalf("%d events were counted of %d", counted, batchSize*len(with))
	}
	b.ReportMetric(quantileOf(with, .5), "ms/batch")
	b.ReportMetric(quantileOf(without, .5), "ms/bare")
	b.ReportMetric(sum(with)/sum(without), "x/mean")
	b.ReportMetric(quantileOf(with, .5)/quantileOf(without, .5), "x/batch")
	b.ReportMetric(0, "ns/op")
}

const batchSize = 36

// batchOf are events of one tenant.
func batchOf(n int) (events []sendlimit.Event) {
	now := time.Now().UTC()
	for range batchSize {
		events = append(events, sendlimit.Event{ID: newID(), Tenant: benchGUID(n % benchTenants),
			Address: "box@example.test", Action: sendlimit.Blocked, Sent: 26, Limit: 25, At: now})
	}
	return events
}

func sum(all []time.Duration) (s float64) {
	for _, d := range all {
		s += d.Seconds()
	}
	return s
}

// plainly writes events and no counts.
func (l eventLog) plainly(ctx context.Context, events []sendlimit.Event) error {
	return l.atomically(ctx, "record events alone", func(ctx context.Context, tx bun.IDB) error {
		var rows []enforcementRow
		for _, e := range events {
			rows = append(rows, newEnforcementRow(account(l.owner), e))
		}
		_, err := tx.NewInsert().Model(&rows).Exec(ctx)
		return err
	})
}
