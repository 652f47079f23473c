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
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// callers is how many requests for plans are under way at a time.
const callers = 16

// BenchmarkPlans is GET …/dns/plan of a thousand domains, from DNS alone, and
// of an account whose connection reaches the zones.
func BenchmarkPlans(b *testing.B) {
	zones := newZoneBench(b, benchZones)
	for _, connected := range []bool{false, true} {
		name := map[bool]string{false: "dns", true: "provider"}[connected]
		b.Run(name, func(b *testing.B) {
			w := newBench(b, embedded(b))
			w.env = append(w.env, fmt.Sprint("TENANTRY_DNS_RESOLVERS=", zones.server.DNS), fmt.Sprint("TENANTRY_DNS_PORT=", zones.port()),
				"TENANTRY_DNS_ALLOW_PRIVATE=true", "TENANTRY_PROVIDERS_POWERDNS_ALLOW_PRIVATE=true")
			paths := w.domains(zones.zones)
			if connected {
				w.connect(zones)
			}
			p, api := w.serve()
			defer func() { w.must(p.stop()) }()
			w.plans(b, api, paths[:callers], connected) // starts the plugins
			began := time.Now()
			w.plans(b, api, paths, connected)
			b.ReportMetric(time.Since(began).Seconds(), "s/1000")
			b.ReportMetric(float64(peak(b, p.cmd.Process.Pid))/1e6, "MB-service")
		})
	}
}

// domains gives the account's tenants the domains, as a discovery finds them,
// and returns the paths of their plans.
func (w *bench) domains(zones []messy) (paths []string) {
	w.b.Helper()
	ctx := w.b.Context()
	store, err := bunstore.Open(ctx, w.database, bunstore.Options{})
	w.must(err)
	defer func() { w.must(store.Close()) }()
	accounts, err := store.Accounts(ctx)
	w.must(err)
	owner := accounts[0].ID
	share := len(zones) / len(w.tenants)
	for i, id := range w.tenants {
		var found []domain.Domain
		for _, m := range zones[i*share : (i+1)*share] {
			o := m.offer()
			found = append(found, domain.Domain{Name: m.domain(), Added: true, Verified: true, MailReady: true,
				Verification: o.Verification, Service: o.Service, Signing: o.Signing})
		}
		w.must(store.SaveDiscovery(ctx, owner, tenant.GUID(id), ports.Found{Began: time.Now(), Domains: found}))
		held, err := store.Domains(ctx, owner, tenant.GUID(id))
		w.must(err)
		for _, d := range held {
			paths = append(paths, "/v1/domains/"+d.ID+"/dns/plan")
		}
	}
	return paths
}

// connect gives the account a connection to the server.
func (w *bench) connect(zones *zoneBench) {
	w.b.Helper()
	file := filepath.Join(w.b.TempDir(), "key")
	w.must(os.WriteFile(file, []byte(zones.server.Key+"\n"), 0o600))
	w.command("dns-connection", "add", "--account", benchOwner, "--provider", "powerdns",
		"--credential-file", file, "--set", "api_url="+zones.server.API)
}

// command runs one of the operator's commands.
func (w *bench) command(args ...string) {
	w.b.Helper()
	built, err := release()
	w.must(err)
	cmd := exec.Command(built.binary, args...)
	cmd.Env = append(os.Environ(), w.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.b.Fatalf("%v\n%s", err, out)
	}
}

// plans asks for each plan once.
func (w *bench) plans(b *testing.B, api string, paths []string, connected bool) {
	b.Helper()
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer c.CloseIdleConnections()
	work := make(chan string)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for path := range work {
				w.plan(b, c, api+path, connected)
			}
		})
	}
	for _, path := range paths {
		work <- path
	}
	close(work)
	all.Wait()
}

func (w *bench) plan(b *testing.B, c *http.Client, url string, connected bool) {
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
	if err != nil {
		b.Error(err)
		return
	}
	r.Header.Set("Authorization", "Bearer "+w.key)
	answer, err := c.Do(r)
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
	writes := slices.ContainsFunc(plan.Actions, func(a struct{ Action string }) bool { return a.Action == "create" })
	if err != nil || answer.StatusCode != http.StatusOK || !plan.Safe || !writes || plan.Provider.Supported != connected {
		b.Errorf("%s: %s %+v %v", url, answer.Status, plan, err)
	}
}
