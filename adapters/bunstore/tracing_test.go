// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
)

// canary is a part of values in the statements. No span may contain the canary.
const canary = "canary7c1d"

func TestSpansContainNoValues(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		spans := tracetest.NewInMemoryExporter()
		tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
		s, err := Open(t.Context(), url(t), Options{TracerProvider: tracer})
		must(t, "open", err)
		defer func() { _ = s.Close() }()
		must(t, "migrate", s.Migrate(t.Context()))
		runStatementsWithCanary(t, s)
		// PostgreSQL quotes the value in its error.
		if _, err := s.db.ExecContext(t.Context(), "SELECT CAST(? AS integer)", canary); err == nil && database.IsPostgres(s.db) {
			t.Fatal("PostgreSQL cast the canary to an integer, want an error")
		}
		var spanTexts string
		for _, span := range spans.GetSpans() {
			spanTexts += fmt.Sprintf("\n%s %v %v %v", span.Name, span.Attributes, span.Events, span.Status)
		}
		if len(spans.GetSpans()) < 10 || !strings.Contains(spanTexts, "INSERT") {
			t.Fatalf("got the spans below, want at least 10, and one of an INSERT:\n%s", spanTexts)
		}
		for _, line := range strings.Split(spanTexts, "\n") {
			if strings.Contains(line, canary) {
				t.Errorf("a span contains the canary: %s", line)
			}
		}
	})
}

func runStatementsWithCanary(t *testing.T, s *Store) {
	t.Helper()
	account, err := s.CreateAccount(t.Context(), canary+"@example.test", "complete", 0, time.Now())
	must(t, "create account", err)
	must(t, "add key", s.AddKey(t.Context(), access.Key{Account: account.ID, Name: canary, Hint: canary, CreatedAt: time.Now()}))
	attached, err := s.Attach(t.Context(), account.ID, tenant.Tenant{
		GUID: "10000000-0000-4000-8000-000000000001", Name: canary, ConnectedBy: canary, ConsentedAt: time.Now(),
	})
	must(t, "attach", err)
	must(t, "save tenant", s.SaveTenant(t.Context(), account.ID, attached))
	d, err := s.ReserveDomain(t.Context(), account.ID, attached.GUID, canary+".test", 12, time.Now())
	must(t, "reserve domain", err)
	if _, err := s.Domain(t.Context(), account.ID, attached.GUID, d.Name); err == nil {
		t.Fatal("a reserved domain was found, want an error")
	}
	if _, err := s.CreateAccount(t.Context(), canary+"@example.test", "complete", 0, time.Now()); err == nil {
		t.Fatal("a second account with the same address was created, want an error")
	}
}
