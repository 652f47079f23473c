// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// A thousand domains in one account, as many in a tenant as are fit to send
// from one. Every call of the mail platform takes its time, and its mail
// server takes up a domain after a while, as it does within minutes or an hour.
const (
	chainDomains   = 1000
	chainsAlone    = 8
	chainPerTenant = 12
	chainCall      = 100 * time.Millisecond
	chainTakeUp    = 80 * time.Second
	// chainLimit is longer than any run may take.
	chainLimit = 4 * time.Minute
)

// BenchmarkProvisioning takes domains from their first record to signed mail:
// a few alone, whose slowest is the measure, then a thousand at a time. The
// service is as patient as it is with customers.
func BenchmarkProvisioning(b *testing.B) {
	w := newChains(b, testserver.Database(b))
	defer func() { w.must(w.process.stop()) }()
	alone := w.provision(w.domains[:chainsAlone])
	before := w.providerCalls()
	all := w.provision(w.domains[chainsAlone:])
	calls := w.providerCalls()
	b.ReportMetric(all.took.Seconds()/alone.slowest.Seconds(), "x/chain")
	b.ReportMetric(alone.slowest.Seconds(), "s/chain")
	b.ReportMetric(all.took.Seconds(), "s/1000")
	b.ReportMetric(chainDomains/all.took.Seconds(), "job/s")
	for _, provider := range slices.Sorted(maps.Keys(calls)) {
		b.ReportMetric((calls[provider]-before[provider])/chainDomains, provider+"-calls/job")
	}
}

// chained is what became of domains that were provisioned at a time.
type chained struct {
	took    time.Duration // from the first request to the end of the last job
	slowest time.Duration // from a domain's own request
}

// provision asks for the domains, 16 at a time, and waits for the end of all.
func (w *chains) provision(domains []string) (c chained) {
	w.b.Helper()
	asked, runs := make([]time.Time, len(domains)), make([]string, len(domains))
	began := time.Now()
	w.each(len(domains), func(i int) error {
		asked[i] = time.Now()
		got, err := w.call(http.MethodPost, "/v1/domains/"+domains[i]+"/dns/provision", nil)
		runs[i] = fmt.Sprint(got.at("run.id"))
		return err
	})
	for deadline := time.After(chainLimit); w.active() > 0; {
		select {
		case <-deadline:
			w.b.Fatalf("after %s %d and more are open", chainLimit, w.active())
		case <-time.After(time.Second):
		}
	}
	for i, id := range runs {
		got, err := w.call(http.MethodGet, "/v1/dns/provisioning-runs/"+id, nil)
		w.must(err)
		ended, err := time.Parse(time.RFC3339, fmt.Sprint(got.at("run.completed_at")))
		if err != nil || got.at("run.status") != "completed" {
			w.b.Fatal(got)
		}
		c.took, c.slowest = max(c.took, ended.Sub(began)), max(c.slowest, ended.Sub(asked[i]))
	}
	return c
}

// active is how many runs are open, or a page of them.
func (w *chains) active() int {
	w.b.Helper()
	got, err := w.call(http.MethodGet, "/v1/dns/provisioning-runs?active_only=true", nil)
	w.must(err)
	return len(got.objects("runs"))
}
