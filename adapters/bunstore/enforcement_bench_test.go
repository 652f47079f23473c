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

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// BenchmarkEvents is pages of a large log of two years: 10 million events on
// PostgreSQL, 2 million on SQLite, of one account with 100 tenants. Each page
// is compared with the plain query's now and then, so a fast wrong one fails.
func BenchmarkEvents(b *testing.B) {
	b.Run("postgres", func(b *testing.B) { benchEvents(b, testserver.Database(b), 10_000_000) })
	b.Run("sqlite", func(b *testing.B) {
		benchEvents(b, "sqlite://"+filepath.Join(b.TempDir(), "tenantry.db"), 2_000_000)
	})
}

// eventLog is a large log and whose it is.
type eventLog struct {
	*Store
	owner access.AccountID
	size  int
}

const logBegins = 1_700_000_000_000 // Unix time in ms

func benchGUID(n int) tenant.GUID {
	return tenant.GUID(fmt.Sprintf("10000000-0000-4000-8000-%012d", n))
}

func benchEvents(b *testing.B, url string, size int) {
	s := migrated(b, url)
	s.patience = time.Hour // for the filling
	a, err := s.CreateAccount(b.Context(), "ann@example.test", "complete", 0, time.Now())
	mustBench(b, err)
	for n := range 100 {
		_, err := s.Attach(b.Context(), a.ID, tenant.Tenant{GUID: benchGUID(n), Name: "Contoso", ConsentedAt: time.Now()}, 100)
		mustBench(b, err)
	}
	l := eventLog{s, a.ID, size}
	mustBench(b, l.fill(b.Context()))
	for _, filter := range []ports.EventQuery{
		{}, {Action: sendlimit.Blocked}, {Tenant: benchGUID(7)}, {Tenant: benchGUID(8), Action: sendlimit.Unblocked},
	} {
		name := fmt.Sprintf("all,tenant=%t,action=%t", filter.Tenant != "", filter.Action != "")
		b.Run(name, func(b *testing.B) { l.pages(b, filter) })
	}
	b.Run("batch", func(b *testing.B) { l.batches(b, true) })
	b.Run("batch without counts", func(b *testing.B) { l.batches(b, false) })
}

func mustBench(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// fill writes the log as RecordEvents would, in a few statements.
func (l eventLog) fill(ctx context.Context) error {
	step := int64(730*day) * 1000 / int64(l.size)
	numbers := "WITH RECURSIVE series(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM series WHERE n + 1 < ?0)"
	id := "printf('%08x-%04x-7%03x-8%03x-%012x', ms / 65536, ms % 65536, n % 4096, n % 4096, n)"
	at, guid := "strftime('%Y-%m-%d %H:%M:%f+00:00', ms / 1000.0, 'unixepoch')", "printf('10000000-0000-4000-8000-%012d', n * 7 % 100)"
	if l.postgres() {
		numbers = "WITH series(n) AS (SELECT generate_series(0, ?0 - 1)::bigint)"
		id = "(lpad(to_hex(ms), 12, '0') || '7' || lpad(to_hex(n % 4096), 3, '0') || '8' || lpad(to_hex(n), 15, '0'))::uuid"
		at, guid = "to_timestamp(ms / 1000.0)", "('10000000-0000-4000-8000-' || lpad((n * 7 % 100)::text, 12, '0'))::uuid"
	}
	events := numbers + ", timed AS (SELECT n, ?1 + n * ?2 AS ms FROM series) " +
		"INSERT INTO enforcement_events (account_id, id, tenant_guid, mailbox_address, action, sent_count, limit_value, created_at) " +
		"SELECT ?3, " + id + ", " + guid + ", 'box@example.test', CASE WHEN n % 3 = 0 THEN 'unblocked' ELSE 'blocked' END, 26, 25, " + at + " FROM timed"
	if l.postgres() {
		events = "INSERT INTO enforcement_events (account_id, id, tenant_guid, mailbox_address, action, sent_count, limit_value, created_at) " +
			"SELECT ?3::uuid, " + id + ", " + guid + ", 'box@example.test', CASE WHEN n % 3 = 0 THEN 'unblocked' ELSE 'blocked' END, 26, 25, " + at +
			" FROM (SELECT n, ?1 + n * ?2 AS ms FROM generate_series(0, ?0 - 1) AS n) AS timed"
	}
	if _, err := l.db.ExecContext(ctx, events, l.size, int64(logBegins), step, account(l.owner)); err != nil {
		return err
	}
	epoch := "CAST(strftime('%s', created_at) AS integer)"
	if l.postgres() {
		epoch = "floor(extract(epoch FROM created_at))::bigint"
	}
	for _, span := range []int{hour, day} {
		for _, guid := range []string{"'" + ident.Zero + "'", "tenant_guid"} {
			if l.postgres() && guid != "tenant_guid" {
				guid += "::uuid"
			}
			count := fmt.Sprintf("INSERT INTO enforcement_counts (account_id, tenant_guid, action, span, starts, events) "+
				"SELECT account_id, %s, action, %d, %s / %d * %d AS at, COUNT(*) FROM enforcement_events GROUP BY 1, 2, 3, 5", guid, span, epoch, span, span)
			if _, err := l.db.ExecContext(ctx, count); err != nil {
				return err
			}
		}
	}
	analyze := "ANALYZE"
	if l.postgres() {
		analyze = "VACUUM ANALYZE"
	}
	_, err := l.db.ExecContext(ctx, analyze)
	return err
}

// pages asks for pages at offset 0 and all over the log.
func (l eventLog) pages(b *testing.B, q ports.EventQuery) {
	q.Limit = 50
	first, err := l.Events(b.Context(), l.owner, q)
	mustBench(b, err)
	l.compare(b, q, first)
	r := rand.New(rand.NewPCG(3, 4))
	var front, deep []time.Duration
	for b.Loop() {
		q.Offset = 0
		front = append(front, l.timed(b, q))
		q.Offset = r.IntN(first.Total)
		deep = append(deep, l.timed(b, q))
	}
	for range 3 {
		q.Offset = r.IntN(first.Total)
		page, err := l.Events(b.Context(), l.owner, q)
		mustBench(b, err)
		l.compare(b, q, page)
	}
	q.Offset = first.Total / 2
	var middle []time.Duration
	for range 200 {
		middle = append(middle, l.timed(b, q))
	}
	b.ReportMetric(quantileOf(front, .99), "ms/p99-first")
	b.ReportMetric(quantileOf(deep, .99), "ms/p99-any")
	b.ReportMetric(quantileOf(middle, .5)/quantileOf(front, .5), "x-middle")
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

// compare asks the plain query.
func (l eventLog) compare(b *testing.B, q ports.EventQuery, got ports.EventPage) {
	b.Helper()
	var rows []enforcementRow
	query := l.db.NewSelect().Model(&rows).Where("ev.account_id = ?", account(l.owner))
	if q.Tenant != "" {
		query = query.Where("ev.tenant_guid = ?", string(q.Tenant))
	}
	if q.Action != "" {
		query = query.Where("ev.action = ?", string(q.Action))
	}
	total, err := query.OrderExpr("ev.id DESC").Limit(int64(q.Limit)).Offset(int64(q.Offset)).ScanAndCount(b.Context())
	mustBench(b, err)
	want := ports.EventPage{Events: []sendlimit.Event{}, Total: int(total)}
	for _, r := range rows {
		want.Events = append(want.Events, r.event())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.Fatalf("%+v (-plain +got):\n%s", q, diff)
	}
}

// batches writes what a sweep of one tenant does: 36 events in a transaction.
func (l eventLog) batches(b *testing.B, counted bool) {
	n := 0
	began := time.Now()
	for b.Loop() {
		var events []sendlimit.Event
		for range 36 {
			n++
			now := time.Now().UTC()
			var entropy [ident.Entropy]byte
			for i := range entropy {
				entropy[i] = byte(rand.Uint32())
			}
			events = append(events, sendlimit.Event{ID: ident.New(now, entropy), Tenant: benchGUID(n / 36 % 100),
				Address: "box@example.test", Action: sendlimit.Blocked, Sent: 26, Limit: 25, At: now})
		}
		if counted {
			mustBench(b, l.RecordEvents(b.Context(), l.owner, events))
		} else {
			mustBench(b, l.plainly(b.Context(), events))
		}
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/float64(b.N)/1000, "ms/batch")
}

// plainly writes events and no counts.
func (l eventLog) plainly(ctx context.Context, events []sendlimit.Event) error {
	return l.atomically(ctx, "record events alone", func(ctx context.Context, tx bun.IDB) error {
		var rows []enforcementRow
		for _, e := range events {
			rows = append(rows, newEnforcementRow(account(l.owner), e))
		}
		_, err := tx.NewInsert().Model(&rows).On("CONFLICT DO NOTHING").Exec(ctx)
		return err
	})
}
