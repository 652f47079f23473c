// SPDX-License-Identifier: Apache-2.0

//go:build unix

package httpapi_test

import (
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/keys"
	"github.com/tenantry/tenantry/app/mailboxes"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// guardBench has an account on PostgreSQL, with one tenant and one mailbox. It has two handlers for
// the same operations: one with the middleware and one without.
type guardBench struct {
	guarded, unguarded http.Handler
	key, mailboxPath   string
}

func newGuardBench(b *testing.B) guardBench {
	b.Helper()
	store, err := bunstore.Open(b.Context(), testserver.Database(b), bunstore.Options{})
	must(b, err)
	b.Cleanup(func() { must(b, store.Close()) })
	must(b, store.Migrate(b.Context()))
	keyset, err := secrets.OpenKeyset(filepath.Join(b.TempDir(), "keyset.json"), secrets.CreateMissing)
	must(b, err)
	counters, err := limiter.Open(b.Context(), limiter.Options{})
	must(b, err)
	b.Cleanup(func() { must(b, counters.Close()) })
	account, err := store.CreateAccount(b.Context(), "owner@example.com", "complete", 0, time.Now())
	must(b, err)
	key, text, err := access.NewKey(rand.Reader, "tny", access.Live, account.ID, "bench", time.Now())
	must(b, err)
	must(b, store.AddKey(b.Context(), key))
	_, err = store.Attach(b.Context(), account.ID, tenant.Tenant{GUID: tenantOfA, Name: "Example", ConsentedAt: time.Now()})
	must(b, err)
	must(b, store.SaveDiscovery(b.Context(), account.ID, tenantOfA, ports.DiscoveryResult{
		Began: time.Now(), Mailboxes: []mailbox.Platform{{ObjectID: "o", DisplayName: "Ana", Address: "ana@a.example", CreatedAt: time.Now()}},
	}))
	stored, err := store.Mailboxes(b.Context(), account.ID, tenantOfA)
	must(b, err)
	options := httpapi.Options{
		Tenants:   &tenants.Service{Tenants: store, Now: time.Now},
		Mailboxes: &mailboxes.Service{Tenants: store, Mailboxes: store, Policies: store, Now: time.Now},
		Guard: guard.Options{
			Log:         slog.New(slog.DiscardHandler),
			Keys:        &keys.Service{Keys: store, Prefix: "tny", Random: rand.Reader, Now: time.Now},
			Idempotency: guard.Idempotency{Keys: store, Sealer: keyset, Fingerprinter: keyset, Now: time.Now},
			Limits:      guard.Limits{Counters: counters, Off: true},
		},
	}
	return guardBench{
		guarded: httpapi.New(options), unguarded: httpapi.Unguarded(options, access.Caller{Account: account}), key: text.Reveal(),
		mailboxPath: "/v1/tenants/" + string(tenantOfA) + "/mailboxes/" + stored[0].ID,
	}
}

// BenchmarkGuard measures the processor time of this process for a read and a write, with and
// without the middleware.
func BenchmarkGuard(b *testing.B) {
	bench := newGuardBench(b)
	for _, op := range []struct{ name, method, path, body string }{
		{"read", "GET", bench.mailboxPath + "/usage", ""},
		{"write", "PATCH", bench.mailboxPath, `{"daily_send_limit":5}`},
	} {
		b.Run(op.name+"/with", func(b *testing.B) { bench.measure(b, bench.guarded, op.method, op.path, op.body) })
		b.Run(op.name+"/without", func(b *testing.B) { bench.measure(b, bench.unguarded, op.method, op.path, op.body) })
	}
}

// measure sends the request repeatedly and reports the processor time in microseconds per request.
func (bench guardBench) measure(b *testing.B, handler http.Handler, method, path, body string) {
	b.Helper()
	before := processorTime(b)
	for b.Loop() {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+bench.key)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", rand.Text())
		answer := httptest.NewRecorder()
		if handler.ServeHTTP(answer, r); answer.Code != http.StatusOK {
			b.Fatalf("a request got %d %s, want 200", answer.Code, answer.Body)
		}
	}
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-us/req")
}

// processorTime returns the user and system time that this process has used so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
