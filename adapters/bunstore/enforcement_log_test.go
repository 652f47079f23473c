// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
)

// eventLog is a large log and whose it is.
type eventLog struct {
	*Store
	owner access.AccountID
	size  int
}

const (
	logBegins    = 1_699_920_000_000 // a midnight, Unix time in ms
	logDays      = 730
	benchTenants = 100
)

func benchGUID(n int) tenant.GUID {
	return tenant.GUID(fmt.Sprintf("10000000-0000-4000-8000-%012d", n))
}

func newEventLog(b *testing.B, url string, size int) eventLog {
	s := migrated(b, url)
	s.patience = time.Hour // for the filling
	a, err := s.CreateAccount(b.Context(), "ann@example.test", "complete", 0, time.Now())
	mustBench(b, err)
	for n := range benchTenants {
		_, err := s.Attach(b.Context(), a.ID, tenant.Tenant{GUID: benchGUID(n), Name: "Contoso", ConsentedAt: time.Now()}, benchTenants)
		mustBench(b, err)
	}
	return eventLog{s, a.ID, size}
}

// fill writes the log as RecordEvents would, in a few statements. A day's half
// is from the hour after midnight, when mailboxes are let go, the other half
// from the ten hours in which people send.
func (l eventLog) fill(ctx context.Context) error {
	err := l.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if l.postgres() { // which would look up the account ten million times
			if _, err := tx.ExecContext(ctx, "SET LOCAL session_replication_role = replica"); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, l.events()); err != nil {
			return err
		}
		return l.fillCounts(ctx, tx)
	})
	if err != nil {
		return err
	}
	analyze := "ANALYZE"
	if l.postgres() {
		analyze = "VACUUM ANALYZE"
	}
	_, err = l.db.ExecContext(ctx, analyze)
	return err
}

// events is the statement that writes all of them.
func (l eventLog) events() string {
	numbers := "WITH RECURSIVE series(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM series WHERE n + 1 < %d)"
	id := "printf('%%08x-%%04x-7%%03x-8%%03x-%%012x', ms / 65536, ms %% 65536, n %% 4096, n %% 4096, n)"
	at, guid := "strftime('%%Y-%%m-%%d %%H:%%M:%%f+00:00', ms / 1000.0, 'unixepoch')", "printf('10000000-0000-4000-8000-%%012d', n * 7 %% 100)"
	owner := "'" + account(l.owner) + "'"
	if l.postgres() {
		numbers = "WITH series AS (SELECT generate_series(0, %d - 1)::bigint AS n)"
		id = "(lpad(to_hex(ms), 12, '0') || '7' || lpad(to_hex(n %% 4096), 3, '0') || '8' || lpad(to_hex(n), 15, '0'))::uuid"
		at, guid = "to_timestamp(ms / 1000.0)", "('10000000-0000-4000-8000-' || lpad((n * 7 %% 100)::text, 12, '0'))::uuid"
		owner += "::uuid"
	}
	perDay := l.size/logDays + 1
	return fmt.Sprintf(numbers+", placed AS (SELECT n, n / %d AS d, n %% %d AS i FROM series), "+
		"timed AS (SELECT n, i < %d AS night, %d + d * 86400000 + CASE WHEN i < %[4]d THEN i * 3600000 / %[4]d ELSE 28800000 + (i - %[4]d) * 36000000 / %[6]d END AS ms FROM placed) "+
		"INSERT INTO enforcement_events (account_id, id, tenant_guid, mailbox_address, action, sent_count, limit_value, created_at) "+
		"SELECT "+owner+", "+id+", "+guid+", 'box@example.test', CASE WHEN night THEN 'unblocked' ELSE 'blocked' END, 26, 25, "+at+" FROM timed",
		l.size, perDay, perDay, perDay/2, int64(logBegins), perDay-perDay/2)
}

// fillCounts counts what is there.
func (l eventLog) fillCounts(ctx context.Context, tx bun.Tx) error {
	epoch := "CAST(strftime('%s', created_at) AS integer)"
	if l.postgres() {
		epoch = "floor(extract(epoch FROM created_at))::bigint"
	}
	for _, span := range []int{hour, day} {
		for _, guid := range []string{"'" + ident.Zero + "'", "tenant_guid"} {
			if l.postgres() {
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
