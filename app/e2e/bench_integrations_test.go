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

// The simulated sending platform has the mailboxes of an account with 100 tenants. It returns pages
// of 100, each after 20 ms.
const (
	benchTenants       = 100
	benchPerTenant     = 36 // mailboxes of each tenant
	benchPageSize      = 100
	benchPlatformMS    = 20
	benchWarmRefreshes = 5 // refreshes before memory is measured
)

// BenchmarkRefresh measures the refreshes of an integration. A refresh reads the sending platform's
// list of 3,600 accounts and matches it with 3,600 mailboxes. The first refresh connects all
// mailboxes, and later refreshes find no change.
func BenchmarkRefresh(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { benchRefresh(b, newBenchService(b, sqliteURL(b))) })
	b.Run("postgres", func(b *testing.B) { benchRefresh(b, newBenchService(b, testserver.Database(b))) })
}

func benchRefresh(b *testing.B, svc *benchService) {
	addresses := svc.fillAccount()
	var calls atomic.Int64
	platform := httptest.NewServer(slowInstantly(addresses, &calls))
	defer platform.Close()
	svc.env = append(svc.env, "TENANTRY_PROVIDERS_INSTANTLY_BASE_URL="+platform.URL)
	p, api := svc.serve()
	integration := svc.mustPost(api+"/v1/integrations", `{"provider":"instantly","name":"Bench","api_key":"bench"}`)
	refreshURL := fmt.Sprint(api, "/v1/integrations/", integration["id"], "/mailboxes/refresh")
	start := time.Now()
	if connected := svc.mustPost(refreshURL, ""); connected["newly_connected"] != float64(len(addresses)) {
		b.Fatalf("the first refresh answered %v, want %d mailboxes newly connected", connected, len(addresses))
	}
	firstDuration := time.Since(start)
	for range benchWarmRefreshes {
		svc.mustPost(refreshURL, "")
	}
	memoryBefore, callsBefore, refreshes := residentMemory(b, p.cmd.Process.Pid), calls.Load(), 0
	for b.Loop() {
		if refreshed := svc.mustPost(refreshURL, ""); refreshed["unchanged"] != float64(len(addresses)) {
			b.Fatalf("a later refresh answered %v, want %d mailboxes unchanged", refreshed, len(addresses))
		}
		refreshes++
	}
	b.ReportMetric(firstDuration.Seconds(), "s/first")
	b.ReportMetric(b.Elapsed().Seconds()/float64(refreshes), "s/refresh")
	b.ReportMetric(float64(calls.Load()-callsBefore)/float64(refreshes), "calls/refresh")
	b.ReportMetric(residentMemory(b, p.cmd.Process.Pid), "MB-host")
	b.ReportMetric((residentMemory(b, p.cmd.Process.Pid)-memoryBefore)/float64(refreshes), "MB-growth")
	svc.must(p.stop())
}

// fillAccount adds tenants until the account has benchTenants, and adds benchPerTenant mailboxes to
// each tenant. It returns the addresses of the mailboxes.
func (svc *benchService) fillAccount() (addresses []string) {
	svc.b.Helper()
	ctx := svc.b.Context()
	store, err := bunstore.Open(ctx, svc.database, bunstore.Options{})
	svc.must(err)
	defer func() { svc.must(store.Close()) }()
	accounts, err := store.Accounts(ctx)
	svc.must(err)
	owner := accounts[0].ID
	for i := range benchTenants {
		if i >= len(svc.tenants) {
			svc.tenants = append(svc.tenants, uuid.NewString())
			_, err := store.Attach(ctx, owner, tenant.Tenant{ID: uuid.NewString(), GUID: tenant.GUID(svc.tenants[i]), Name: "Example", BuiltinDomain: "example.onmicrosoft.com",
				Consent: tenant.ConsentGranted, ConsentedAt: time.Now(), Bootstrap: tenant.BootstrapReady, SMTPAuth: tenant.SMTPAuthEnabled,
				Discovery: tenant.DiscoveryCompleted})
			svc.must(err)
		}
		addresses = append(addresses, svc.fillTenant(store, owner, i)...)
	}
	return addresses
}

func (svc *benchService) fillTenant(store *bunstore.Store, owner access.AccountID, tenantIndex int) (addresses []string) {
	discovery, id := ports.DiscoveryResult{Began: time.Now()}, tenant.GUID(svc.tenants[tenantIndex])
	for i := range benchPerTenant {
		zone := fmt.Sprintf("d%d.example-%d.test", i/mailbox.MaxPerDomain, tenantIndex)
		if i%mailbox.MaxPerDomain == 0 {
			discovery.Domains = append(discovery.Domains, domain.Platform{Name: zone, Verified: true})
		}
		address := fmt.Sprintf("box-%d@%s", i%mailbox.MaxPerDomain, zone)
		addresses = append(addresses, address)
		discovery.Mailboxes = append(discovery.Mailboxes, mailbox.Platform{ObjectID: address, DisplayName: "Box", Address: address, PrincipalName: address,
			AccountEnabled: true, CreatedAt: time.Now()})
	}
	svc.must(store.SaveDiscovery(svc.b.Context(), owner, id, discovery))
	stored, err := store.Mailboxes(svc.b.Context(), owner, id)
	svc.must(err)
	for i := range stored {
		stored[i].Provisioned, stored[i].Observed.Stage = true, time.Now()
	}
	svc.must(store.ConcludeMailboxes(svc.b.Context(), owner, stored, nil))
	return addresses
}

func (svc *benchService) mustPost(url, body string) object {
	svc.b.Helper()
	r, err := http.NewRequestWithContext(svc.b.Context(), http.MethodPost, url, strings.NewReader(body))
	svc.must(err)
	r.Header.Set("Authorization", "Bearer "+svc.key)
	r.Header.Set("Idempotency-Key", uuid.NewString())
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	svc.must(err)
	defer func() { _ = answer.Body.Close() }()
	got := object{}
	svc.must(json.NewDecoder(answer.Body).Decode(&got))
	if answer.StatusCode != http.StatusOK {
		svc.b.Fatalf("the request to %s failed: %v", url, got)
	}
	return got
}

// slowInstantly answers like Instantly's API. It delays each page of accounts by benchPlatformMS.
func slowInstantly(addresses []string, calls *atomic.Int64) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v2/workspaces/current", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(object{"id": "8d0b1a52-77f2-4a0e-9f1c-2b6f3f5a9e10", "name": "Bench"})
	})
	mux.HandleFunc("GET /api/v2/accounts", func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		<-time.After(benchPlatformMS * time.Millisecond)
		from, _ := strconv.Atoi(r.URL.Query().Get("starting_after"))
		to := min(from+benchPageSize, len(addresses))
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
