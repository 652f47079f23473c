// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// BenchmarkPlans requests the DNS plans of 1000 domains, first from public DNS alone and then
// through a provider connection.
func BenchmarkPlans(b *testing.B) {
	zones := newZoneBench(b, benchZones)
	for _, connected := range []bool{false, true} {
		name := map[bool]string{false: "dns", true: "provider"}[connected]
		b.Run(name, func(b *testing.B) {
			svc := newBenchService(b, sqliteURL(b))
			svc.env = append(svc.env, fmt.Sprint("TENANTRY_DNS_RESOLVERS=", zones.server.DNS), fmt.Sprint("TENANTRY_DNS_PORT=", zones.port()),
				"TENANTRY_DNS_ALLOW_PRIVATE=true", "TENANTRY_PROVIDERS_POWERDNS_ALLOW_PRIVATE=true")
			paths := svc.addDomains(zones.zones)
			if connected {
				svc.addDNSConnection(zones)
			}
			p, api := svc.serve()
			defer func() { svc.must(p.stop()) }()
			svc.requestPlans(b, api, paths[:benchCallers], connected) // to warm up
			start := time.Now()
			svc.requestPlans(b, api, paths, connected)
			b.ReportMetric(time.Since(start).Seconds(), "s/1000")
			b.ReportMetric(float64(peakMemory(b, p.cmd.Process.Pid))/1e6, "MB-service")
		})
	}
}

// addDomains distributes the domains over the account's tenants, as a discovery would store them.
// It returns the URL paths of the domains' DNS plans.
func (svc *benchService) addDomains(zones []zoneCase) (paths []string) {
	svc.b.Helper()
	ctx := svc.b.Context()
	store, err := bunstore.Open(ctx, svc.database, bunstore.Options{})
	svc.must(err)
	defer func() { svc.must(store.Close()) }()
	accounts, err := store.Accounts(ctx)
	svc.must(err)
	owner := accounts[0].ID
	perTenant := len(zones) / len(svc.tenants)
	for i, id := range svc.tenants {
		var discovered []domain.Platform
		offers := map[string]dns.Offer{}
		for _, c := range zones[i*perTenant : (i+1)*perTenant] {
			offers[c.domain()] = c.offer()
			discovered = append(discovered, domain.Platform{Name: c.domain(), Verified: true})
		}
		svc.must(store.SaveDiscovery(ctx, owner, tenant.GUID(id), ports.DiscoveryResult{Began: time.Now(), Domains: discovered}))
		stored, err := store.Domains(ctx, owner, tenant.GUID(id))
		svc.must(err)
		for _, d := range stored {
			offer := offers[d.Name]
			d.MailReady, d.Verification, d.Service, d.Signing = true, offer.Verification, offer.Service, offer.Signing
			_, err := store.ChangeDomain(ctx, owner, d)
			svc.must(err)
			paths = append(paths, "/v1/domains/"+d.ID+"/dns/plan")
		}
	}
	return paths
}

func (svc *benchService) addDNSConnection(zones *zoneBench) {
	svc.b.Helper()
	file := filepath.Join(svc.b.TempDir(), "key")
	svc.must(os.WriteFile(file, []byte(zones.server.Key+"\n"), 0o600))
	svc.runCommand("dns-connection", "add", "--account", benchOwner, "--provider", "powerdns",
		"--credential-file", file, "--set", "api_url="+zones.server.API)
}

func (svc *benchService) runCommand(args ...string) {
	svc.b.Helper()
	built, err := releaseBuild()
	svc.must(err)
	cmd := exec.Command(built.binary, args...)
	cmd.Env = append(os.Environ(), svc.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		svc.b.Fatalf("the command %q fails: %v\n%s", args, err, out)
	}
}

func (svc *benchService) requestPlans(b *testing.B, api string, paths []string, connected bool) {
	b.Helper()
	httpClient := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: benchCallers}}
	defer httpClient.CloseIdleConnections()
	work := make(chan string)
	var callers sync.WaitGroup
	for range benchCallers {
		callers.Go(func() {
			for path := range work {
				svc.requestPlan(b, httpClient, api+path, connected)
			}
		})
	}
	for _, path := range paths {
		work <- path
	}
	close(work)
	callers.Wait()
}

// requestPlan requests a plan, which must create records and be safe to apply.
func (svc *benchService) requestPlan(b *testing.B, httpClient *http.Client, url string, connected bool) {
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
	if err != nil {
		b.Error(err)
		return
	}
	r.Header.Set("Authorization", "Bearer "+svc.key)
	answer, err := httpClient.Do(r)
	if err != nil {
		b.Error(err)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	var plan struct {
		Provider struct{ Supported bool }  `json:"dns_provider"`
		Actions  []struct{ Action string } `json:"actions"`
		Safe     bool                      `json:"safe_to_apply"`
	}
	err = json.NewDecoder(answer.Body).Decode(&plan)
	createsRecords := slices.ContainsFunc(plan.Actions, func(a struct{ Action string }) bool { return a.Action == "create" })
	if err != nil || answer.StatusCode != http.StatusOK || !plan.Safe || !createsRecords || plan.Provider.Supported != connected {
		b.Errorf("%s: got %s and %+v, want a safe plan that creates records, with the provider supported: %t (%v)", url, answer.Status, plan, connected, err)
	}
}
