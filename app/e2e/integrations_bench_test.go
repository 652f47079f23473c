// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// A platform with all mailboxes of an account of 100 tenants, in pages of 100,
// each of which takes 20 ms.
const (
	benchTenants    = 100
	benchPerTenant  = 36
	benchPage       = 100
	benchPlatformMS = 20
	benchWarm       = 5 // refreshes before memory is looked at
)

// BenchmarkRefresh reads the list of a platform with 3,600 accounts and joins it
// with as many mailboxes: the first time all of them are found, then nothing has
// changed.
func BenchmarkRefresh(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { refresh3600(b, newBench(b, embedded(b))) })
	b.Run("postgres", func(b *testing.B) { refresh3600(b, newBench(b, testserver.Database(b))) })
}

func refresh3600(b *testing.B, w *bench) {
	addresses := w.sellers()
	var calls atomic.Int64
	platform := httptest.NewServer(slowInstantly(addresses, &calls))
	defer platform.Close()
	w.env = append(w.env, "TENANTRY_PROVIDERS_INSTANTLY_BASE_URL="+platform.URL)
	p, api := w.serve()
	made := w.asks("POST", api+"/v1/integrations", `{"provider":"instantly","name":"Bench","api_key":"bench"}`)
	path := fmt.Sprint(api, "/v1/integrations/", made["id"], "/mailboxes/refresh")
	began := time.Now()
	if found := w.asks("POST", path, ""); found["newly_connected"] != float64(len(addresses)) {
		b.Fatal(found)
	}
	first := time.Since(began)
	for range benchWarm {
		w.asks("POST", path, "")
	}
	before, asked, refreshes := resident(b, p.cmd.Process.Pid), calls.Load(), 0
	for b.Loop() {
		if again := w.asks("POST", path, ""); again["unchanged"] != float64(len(addresses)) {
			b.Fatal(again)
		}
		refreshes++
	}
	b.ReportMetric(first.Seconds(), "s/first")
	b.ReportMetric(b.Elapsed().Seconds()/float64(refreshes), "s/refresh")
	b.ReportMetric(float64(calls.Load()-asked)/float64(refreshes), "calls/refresh")
	b.ReportMetric(resident(b, p.cmd.Process.Pid), "MB-host")
	b.ReportMetric((resident(b, p.cmd.Process.Pid)-before)/float64(refreshes), "MB-growth")
	w.must(p.stop())
}

// sellers gives the account as many tenants as a plan may have, full of
// mailboxes that the service made.
func (w *bench) sellers() (addresses []string) {
	w.b.Helper()
	ctx := w.b.Context()
	store, err := bunstore.Open(ctx, w.database, bunstore.Options{})
	w.must(err)
	defer func() { w.must(store.Close()) }()
	accounts, err := store.Accounts(ctx)
	w.must(err)
	owner := accounts[0].ID
	for i := range benchTenants {
		if i >= len(w.tenants) {
			w.tenants = append(w.tenants, uuid.NewString())
			_, err := store.Attach(ctx, owner, tenant.Tenant{ID: uuid.NewString(), GUID: tenant.GUID(w.tenants[i]), Name: "Example", BuiltinDomain: "example.onmicrosoft.com",
				Consent: tenant.ConsentGranted, ConsentedAt: time.Now(), Bootstrap: tenant.BootstrapReady, SMTPAuth: tenant.SMTPAuthEnabled,
				Discovery: tenant.DiscoveryCompleted}, benchTenants)
			w.must(err)
		}
		addresses = append(addresses, w.filled(store, owner, i)...)
	}
	return addresses
}

func (w *bench) filled(store *bunstore.Store, owner access.AccountID, n int) (addresses []string) {
	found, id := ports.Found{Began: time.Now()}, tenant.GUID(w.tenants[n])
	for i := range benchPerTenant {
		zone := fmt.Sprintf("d%d.example-%d.test", i/mailbox.MaxPerDomain, n)
		if i%mailbox.MaxPerDomain == 0 {
			found.Domains = append(found.Domains, domain.Domain{Name: zone, Added: true, Verified: true, MailReady: true})
		}
		address := fmt.Sprintf("box-%d@%s", i%mailbox.MaxPerDomain, zone)
		addresses = append(addresses, address)
		found.Mailboxes = append(found.Mailboxes, mailbox.Platform{ObjectID: address, DisplayName: "Box", Address: address, PrincipalName: address,
			AccountEnabled: true, CreatedAt: time.Now()})
	}
	w.must(store.SaveDiscovery(w.b.Context(), owner, id, found))
	held, err := store.Mailboxes(w.b.Context(), owner, id)
	w.must(err)
	for i := range held {
		held[i].Provisioned = true
	}
	w.must(store.ConcludeMailboxes(w.b.Context(), owner, held))
	return addresses
}

// asks sends a request that must succeed.
func (w *bench) asks(method, url, body string) object {
	w.b.Helper()
	r, err := http.NewRequestWithContext(w.b.Context(), method, url, strings.NewReader(body))
	w.must(err)
	r.Header.Set("Authorization", "Bearer "+w.key)
	r.Header.Set("Idempotency-Key", uuid.NewString())
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	w.must(err)
	defer func() { _ = answer.Body.Close() }()
	got := object{}
	w.must(json.NewDecoder(answer.Body).Decode(&got))
	if answer.StatusCode != http.StatusOK {
		w.b.Fatal(method, url, got)
	}
	return got
}

// slowInstantly answers as Instantly's API does, after some time. Its simulator
// is for what people do there.
func slowInstantly(addresses []string, calls *atomic.Int64) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v2/workspaces/current", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(object{"id": "8d0b1a52-77f2-4a0e-9f1c-2b6f3f5a9e10", "name": "Bench"})
	})
	mux.HandleFunc("GET /api/v2/accounts", func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		<-time.After(benchPlatformMS * time.Millisecond)
		from, _ := strconv.Atoi(r.URL.Query().Get("starting_after"))
		to := min(from+benchPage, len(addresses))
		page := object{}
		items := []object{}
		for _, address := range addresses[from:to] {
			items = append(items, object{"email": address, "first_name": "Box", "last_name": "Test", "organization": "8d0b1a52-77f2-4a0e-9f1c-2b6f3f5a9e10",
				"status": 1, "provider_code": 3, "setup_pending": false, "is_managed_account": false, "warmup_status": 0,
				"timestamp_created": "2026-01-01T00:00:00.000Z", "timestamp_updated": "2026-01-01T00:00:00.000Z"})
		}
		page["items"] = items
		if to < len(addresses) {
			page["next_starting_after"] = strconv.Itoa(to)
		}
		_ = json.NewEncoder(w).Encode(page)
	})
	return mux
}
