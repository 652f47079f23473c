// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// BenchmarkLog reads pages of a large log of one account, at random cursors. The account has 100
// busy tenants with events of all types, 100 uniform tenants, and 100 quiet tenants. The quiet
// tenants together have one in 400 events. Of the events of uniform tenants, 199 in 200 have the
// same type. The log has TENANTRY_BENCH_EVENTS events, 100,000 by default, and 1,000 with -short.
// On SQLite it has a tenth of that number.
func BenchmarkLog(b *testing.B) {
	size := 100_000
	if setting := os.Getenv("TENANTRY_BENCH_EVENTS"); setting != "" {
		var err error
		size, err = strconv.Atoi(setting)
		must(b, "TENANTRY_BENCH_EVENTS", err)
	}
	if testing.Short() {
		size = 1000
	}
	b.Run("postgres", func(b *testing.B) { benchLog(b, testserver.Database(b), size) })
	b.Run("sqlite", func(b *testing.B) { benchLog(b, "sqlite://"+filepath.Join(b.TempDir(), "tenantry.db"), size/10) })
}

// The numbers of the first uniform tenant, of the first quiet tenant, and of the first tenant
// without events.
const (
	firstUniform = 100
	firstQuiet   = 200
	firstEmpty   = 1000
)

// guids returns the GUIDs of n tenants. first is the number of the first tenant.
func guids(first, n int) (ids []tenant.GUID) {
	for i := range n {
		ids = append(ids, guid(first+i))
	}
	return ids
}

func benchLog(b *testing.B, url string, eventCount int) {
	s := migratedStore(b, url)
	owner := newAccount(b, s, "ann")
	began := time.Now()
	kinds := event.Kinds()
	uniformKind := kinds[len(kinds)-1]
	// rareTypes are all types but the type of uniformKind.
	rareTypes := event.Types()[:len(kinds)-1]
	for start := 0; start < eventCount; start += 10_000 { // the types alternate, and the tenants are random
		rows := make([]eventRow, 0, 10_000)
		for i := start; i < min(start+10_000, eventCount); i++ {
			kind, tenantNumber := kinds[i%len(kinds)], rand.IntN(firstQuiet)
			switch rare := rand.IntN(200) == 0; {
			case rare && tenantNumber < firstUniform:
				tenantNumber += firstQuiet
			case !rare && tenantNumber >= firstUniform:
				kind = uniformKind
			}
			rows = append(rows, eventRow{AccountID: accountKey(owner), Sequence: int64(i) + 1, ID: newID(), Type: string(kind.Type),
				TenantGUID: string(guid(tenantNumber)), SubjectType: string(kind.Subject), SubjectID: newID(), Version: 1,
				Data: []byte(`{"domain":"example.com","is_verified":true,"dkim_enabled":true,"drifted":[]}`), CreatedAt: now})
		}
		_, err := s.db.NewInsert().Model(&rows).Exec(b.Context())
		must(b, "insert events", err)
	}
	_, err := s.db.NewInsert().Model(&eventLogRow{AccountID: accountKey(owner), LastSequence: int64(eventCount)}).Exec(b.Context())
	must(b, "insert the log", err)
	execSQL(b, s, "ANALYZE")
	if database.IsPostgres(s.db) {
		execSQL(b, s, "VACUUM events") // as autovacuum does
	}
	b.Logf("%d events were written in %s", eventCount, time.Since(began).Round(time.Second))
	for name, query := range map[string]ports.LogQuery{
		"all": {}, "type": {Types: []event.Type{event.DomainVerified}}, "tenant": {Tenants: []tenant.GUID{guid(7)}},
		"tenant and type":      {Tenants: []tenant.GUID{guid(7)}, Types: []event.Type{event.DomainVerified}},
		"tenants and types":    {Tenants: []tenant.GUID{guid(1), guid(2), guid(3)}, Types: event.Types()[:10]},
		"20 tenants and types": {Tenants: guids(0, 20), Types: event.Types()[:20]},
		"all, one by one":      {Tenants: guids(0, 100), Types: event.Types()},
		"a type without any":   {Types: []event.Type{event.DomainVerified}, Tenants: guids(firstEmpty, 1)},
		"20 types without any": {Types: event.Types()[:20], Tenants: guids(firstEmpty, 20)},
		"33 types without any": {Types: rareTypes, Tenants: guids(firstEmpty, 100)},
		"quiet tenants":        {Types: rareTypes, Tenants: guids(firstQuiet, 100)},
		"rare types":           {Types: rareTypes, Tenants: guids(firstUniform, 100)},
	} {
		b.Run(name, func(b *testing.B) {
			query.Limit = 100
			var durations []time.Duration
			for b.Loop() {
				query.After = rand.Int64N(int64(eventCount))
				started := time.Now()
				_, err := s.LoggedEvents(b.Context(), owner, query)
				must(b, fmt.Sprint("read after ", query.After), err)
				durations = append(durations, time.Since(started))
			}
			b.ReportMetric(quantileOf(durations, .5), "ms/median")
			b.ReportMetric(quantileOf(durations, .99), "ms/p99")
			b.ReportMetric(0, "ns/op")
		})
	}
}
