// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/simulator"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// The benchmark provisions 1000 domains of one account, 12 in each tenant. Each call to the mail
// platform is delayed by platformCallTime. The platform's mail server accepts a domain after
// acceptDelay. The real mail server takes minutes to an hour.
const (
	batchDomains     = 1000
	referenceDomains = 8 // domains that are provisioned first, as the reference
	domainsPerTenant = 12
	platformCallTime = 100 * time.Millisecond
	acceptDelay      = 80 * time.Second
	// benchTimeLimit is the longest wait for the runs of one batch of domains.
	benchTimeLimit = 4 * time.Minute
)

// BenchmarkProvisioning provisions domains, from the first DNS record to DKIM. It first provisions
// 8 domains. The slowest of them is the reference for the 1000 domains that it then provisions at
// once. The service uses its production timeouts.
func BenchmarkProvisioning(b *testing.B) {
	svc := newProvisioningBench(b, testserver.Database(b))
	defer func() { svc.must(svc.process.stop()) }()
	reference := svc.provision(svc.domains[:referenceDomains])
	callsBefore := svc.providerCalls()
	batch := svc.provision(svc.domains[referenceDomains:])
	calls := svc.providerCalls()
	b.ReportMetric(batch.took.Seconds()/reference.slowest.Seconds(), "x/chain")
	b.ReportMetric(reference.slowest.Seconds(), "s/chain")
	b.ReportMetric(batch.took.Seconds(), "s/1000")
	b.ReportMetric(batchDomains/batch.took.Seconds(), "job/s")
	for _, provider := range slices.Sorted(maps.Keys(calls)) {
		b.ReportMetric((calls[provider]-callsBefore[provider])/batchDomains, provider+"-calls/job")
	}
}

type provisioningTimes struct {
	took    time.Duration // from the first request to the end of the last run
	slowest time.Duration // of the slowest domain, from its request to the end of its run
}

// provision requests the provisioning of the domains, benchCallers at a time, and waits until all
// runs have ended.
func (svc *provisioningBench) provision(domains []string) (times provisioningTimes) {
	svc.b.Helper()
	requestedAt, runs := make([]time.Time, len(domains)), make([]string, len(domains))
	start := time.Now()
	svc.forEachNumber(len(domains), func(i int) error {
		requestedAt[i] = time.Now()
		got, err := svc.call(http.MethodPost, "/v1/domains/"+domains[i]+"/dns/provision", nil)
		runs[i] = fmt.Sprint(got.valueAt("run.id"))
		return err
	})
	for deadline := time.After(benchTimeLimit); svc.openRunCount() > 0; {
		select {
		case <-deadline:
			svc.b.Fatalf("after %s at least %d runs are open, want none", benchTimeLimit, svc.openRunCount())
		case <-time.After(time.Second):
		}
	}
	for i, id := range runs {
		got, err := svc.call(http.MethodGet, "/v1/dns/provisioning-runs/"+id, nil)
		svc.must(err)
		ended, err := time.Parse(time.RFC3339, fmt.Sprint(got.valueAt("run.completed_at")))
		if err != nil || got.valueAt("run.status") != "completed" {
			svc.b.Fatalf("run %s is %v, want it completed (%v)", id, got, err)
		}
		times.took, times.slowest = max(times.took, ended.Sub(start)), max(times.slowest, ended.Sub(requestedAt[i]))
	}
	return times
}

// openRunCount returns the number of open runs on the first page of the list.
func (svc *provisioningBench) openRunCount() int {
	svc.b.Helper()
	got, err := svc.call(http.MethodGet, "/v1/dns/provisioning-runs?active_only=true", nil)
	svc.must(err)
	return len(got.objects("runs"))
}

// provisioningBench is a service with one account. The tenants of the account have domains, and a
// PowerDNS server has the zones of the domains.
type provisioningBench struct {
	*benchService
	zones    *zoneBench
	platform string // the simulator's URL
	process  *process
	api      string   // the URL of the API
	adminURL string   // the URL of the admin listener
	domains  []string // the ids of the domains
}

// newProvisioningBench starts the service and adds all domains to tenants of its account.
func newProvisioningBench(b *testing.B, database string) *provisioningBench {
	b.Helper()
	svc := &provisioningBench{benchService: newBenchAccount(b, database), zones: newZoneBench(b, referenceDomains+batchDomains)}
	svc.startPlatform()
	svc.runCommand("keyset", "create")
	svc.addDNSConnection(svc.zones)
	svc.process, svc.api = svc.serve()
	svc.adminURL = servingLine.FindStringSubmatch(svc.process.logs.String())[2]
	svc.domains = make([]string, len(svc.zones.zones))
	svc.forEachNumber(len(svc.domains)/domainsPerTenant, svc.addTenant)
	svc.must(svc.control("/faults", object{"kind": "delay", "delay_ms": platformCallTime.Milliseconds(), "times": 1_000_000}, nil))
	return svc
}

// startPlatform starts the simulator of the mail platform. The simulator reads DNS records from the
// PowerDNS server.
func (svc *provisioningBench) startPlatform() {
	svc.b.Helper()
	dnsLocator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(object{"addr": svc.zones.server.DNS})
	}))
	svc.b.Cleanup(dnsLocator.Close)
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	svc.b.Cleanup(server.Close)
	var ready simulate.Ready
	var err error
	handler, ready, err = simulator.New(simulate.Options{URL: server.URL, DataDir: svc.b.TempDir(), World: dnsLocator.URL, Log: io.Discard})
	svc.must(err)
	svc.platform = server.URL
	file := filepath.Join(svc.b.TempDir(), "client-secret")
	svc.must(os.WriteFile(file, []byte(ready.Secrets["client_secret"]), 0o600))
	ready.Settings["client_secret_file"] = file
	for name, value := range ready.Settings {
		svc.env = append(svc.env, "TENANTRY_PROVIDERS_MICROSOFT365_"+strings.ToUpper(name)+"="+value)
	}
	svc.env = append(svc.env, fmt.Sprint("TENANTRY_DNS_RESOLVERS=", svc.zones.server.DNS), fmt.Sprint("TENANTRY_DNS_PORT=", svc.zones.port()),
		"TENANTRY_DNS_ALLOW_PRIVATE=true", "TENANTRY_PROVIDERS_POWERDNS_ALLOW_PRIVATE=true", "TENANTRY_DRAIN_DELAY=0s")
}

func (svc *provisioningBench) addTenant(number int) error {
	var created struct {
		ID    string `json:"tenant_id"`
		Admin string `json:"admin"`
	}
	if err := svc.control("/tenants", object{}, &created); err != nil {
		return err
	}
	behaviour := noDelays()
	behaviour["accepted_domain_ms"] = acceptDelay.Milliseconds()
	if err := svc.control("/tenants/"+created.ID+"/behaviour", behaviour, nil); err != nil {
		return err
	}
	link, err := svc.call(http.MethodGet, "/v1/tenants/connect-url", nil)
	if err != nil {
		return err
	}
	admin := newAdministrator(svc.b, created.Admin)
	admin.openConfirmationFrom(link.text("connect_url"))
	admin.submit("connect", "")
	path, tenantZones := "/v1/tenants/"+created.ID, svc.zones.zones[number*domainsPerTenant:][:domainsPerTenant]
	if got, err := svc.call(http.MethodPost, path+"/sync", nil); err != nil || got.text("status") != "completed" {
		return errors.Join(err, fmt.Errorf("the sync is not complete: %v", got))
	}
	for _, c := range tenantZones {
		if _, err := svc.call(http.MethodPost, path+"/domains", object{"domain": c.domain()}); err != nil {
			return err
		}
	}
	stored, err := svc.call(http.MethodGet, path+"/domains", nil)
	for i, d := range stored.objects("domains") {
		svc.domains[number*domainsPerTenant+i] = d.text("id")
	}
	return err
}

// forEachNumber calls task for all numbers below n, benchCallers at a time. It ends the benchmark
// after an error.
func (svc *provisioningBench) forEachNumber(n int, task func(int) error) {
	svc.b.Helper()
	numbers := make(chan int)
	var workers sync.WaitGroup
	for range benchCallers {
		workers.Go(func() {
			for i := range numbers {
				if err := task(i); err != nil {
					svc.b.Error(err)
				}
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	workers.Wait()
	if svc.b.Failed() {
		svc.b.FailNow()
	}
}

// call sends a request to the API. It returns an error unless the request succeeds.
func (svc *provisioningBench) call(method, path string, body any) (object, error) {
	got := object{}
	err := svc.send(method, svc.api+path, body, &got)
	return got, err
}

// control sends a POST request to the control interface of the simulator.
func (svc *provisioningBench) control(path string, body, result any) error {
	return svc.send(http.MethodPost, svc.platform+"/_control"+path, body, result)
}

// send sends a request with the account's key. It decodes the response into result unless result is
// nil.
func (svc *provisioningBench) send(method, url string, body, result any) error {
	raw := []byte{}
	if body != nil {
		raw, _ = json.Marshal(body)
	}
	r, err := http.NewRequestWithContext(svc.b.Context(), method, url, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	r.Header = http.Header{"Authorization": {"Bearer " + svc.key}, "Content-Type": {"application/json"}, "Idempotency-Key": {uuid.NewString()}}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	answerBody, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("%s %s: %s %s", method, url, answer.Status, answerBody)
	case result == nil:
		return nil
	}
	return json.Unmarshal(answerBody, result)
}

var callCount = regexp.MustCompile(`(?m)^tenantry_provider_call_duration_seconds_count\{(?:.*,)?provider="([^"]+)".*\} (\d+)$`)

func (svc *provisioningBench) providerCalls() map[string]float64 {
	svc.b.Helper()
	answer, err := http.Get(svc.adminURL + "/metrics")
	svc.must(err)
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	svc.must(err)
	counts := map[string]float64{}
	for _, found := range callCount.FindAllStringSubmatch(string(raw), -1) {
		n, err := strconv.ParseFloat(found[2], 64)
		svc.must(err)
		counts[found[1]] += n
	}
	return counts
}
