// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Retention finds its days without going through the counts of all tenants.
func TestDaysOfEventsComeFromTheirIndex(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url func(testing.TB) string) {
		s := migrated(t, url(t))
		var owners []string
		for n := range 50 {
			a, err := s.CreateAccount(t.Context(), fmt.Sprintf("ann%d@example.test", n), "complete", 0, time.Now())
			must(t, err)
			owners = append(owners, account(a.ID))
		}
		counted := map[countRow]int{}
		for n := range 2000 {
			guid := fmt.Sprintf("10000000-0000-4000-8000-%012d", n)
			if n%100 == 0 {
				guid = ident.Zero
			}
			counted[countRow{AccountID: owners[n%50], TenantGUID: guid, Action: "blocked", Span: day, Starts: int64(n) * day}] = 1
		}
		must(t, s.atomically(t.Context(), "count", func(ctx context.Context, tx bun.IDB) error { return addCounts(ctx, tx, counted) }))
		exec(t, s, "ANALYZE enforcement_counts")
		explain := "EXPLAIN QUERY PLAN "
		if s.postgres() {
			explain = "EXPLAIN "
		}
		rows, err := s.db.QueryContext(t.Context(), explain+daysOfEvents(s.db, time.Now()).String())
		must(t, err)
		defer func() { _ = rows.Close() }()
		columns, err := rows.Columns()
		must(t, err)
		var plan []string
		for rows.Next() {
			row := make([]any, len(columns))
			for i := range row {
				row[i] = new(any)
			}
			must(t, rows.Scan(row...))
			plan = append(plan, fmt.Sprint(*row[len(row)-1].(*any)))
		}
		must(t, rows.Err())
		if whole := strings.Join(plan, "\n"); !strings.Contains(whole, "enforcement_counts_days") {
			t.Errorf("the days are found by\n%s", whole)
		}
	})
}

// Where retention ends between two of its transactions, what is left is counted.
func TestEventsAreDroppedInParts(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url func(testing.TB) string) {
		s := migrated(t, url(t))
		ctx, at := t.Context(), time.Date(2026, 1, 2, 23, 30, 0, 0, time.UTC)
		a, err := s.CreateAccount(ctx, "ann@example.test", "complete", 0, at)
		must(t, err)
		guid := tenant.GUID("10000000-0000-4000-8000-000000000001")
		_, err = s.Attach(ctx, a.ID, tenant.Tenant{GUID: guid, ConsentedAt: at}, 9)
		must(t, err)
		var events []sendlimit.Event
		for n := range 7 { // of two hours of a day, and one of the next day
			e := sendlimit.Event{Tenant: guid, Address: "ada@a.test", Action: []sendlimit.Action{sendlimit.Blocked, sendlimit.Unblocked}[n%2]}
			events = append(events, stamped(e, at.Add(time.Duration(n-5)*20*time.Minute)))
		}
		events[6] = stamped(events[6], at.Add(time.Hour))
		must(t, s.RecordEvents(ctx, a.ID, events))
		starts := at.Truncate(24 * time.Hour).Unix()
		for _, want := range []int{2, 2, 2, 0} {
			n, err := s.dropSome(ctx, countRow{AccountID: account(a.ID), Starts: starts}, 2)
			must(t, err)
			if n != want {
				t.Fatalf("%d were dropped, not %d", n, want)
			}
			events = events[n:]
			for _, q := range []ports.EventQuery{{Limit: 9}, {Tenant: guid, Limit: 9}, {Action: sendlimit.Unblocked, Limit: 9}} {
				left := 0
				for _, e := range events {
					if q.Action == "" || q.Action == e.Action {
						left++
					}
				}
				if page, err := s.Events(ctx, a.ID, q); err != nil || page.Total != left || len(page.Events) != left {
					t.Fatalf("%+v: %d of %d events, want %d, %v", q, len(page.Events), page.Total, left, err)
				}
			}
		}
		if days, err := s.db.NewSelect().Model((*countRow)(nil)).Count(ctx); err != nil || days != 4 {
			t.Fatalf("%d counts are left of one event, %v", days, err)
		}
	})
}
