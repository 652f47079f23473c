// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/dns"
)

// benchZones is the number of zones that BenchmarkZones and BenchmarkPlans read or write.
const benchZones = 1000

// benchZoneRecords are the records of each zone before the run: a website, a foreign SPF record and
// a foreign verification record.
const benchZoneRecords = "@ 600 A 192.0.2.80\nwww 600 CNAME web.elsewhere.test.\n@ 300 TXT v=spf1 include:_spf.elsewhere.test ~all\n@ 300 TXT service-verification=0123456789abcdef"

// zoneBench is a PowerDNS server with the zones of a benchmark.
type zoneBench struct {
	*powerDNSHost
	zones []zoneCase
	input string // path of the input file of testdata/dnsbench
}

// newZoneBench starts a PowerDNS server with zoneCount zones, and writes the input file.
func newZoneBench(b *testing.B, zoneCount int) *zoneBench {
	b.Helper()
	bench := &zoneBench{powerDNSHost: newPowerDNSHost(b)}
	for i := range zoneCount {
		bench.zones = append(bench.zones, zoneCase{name: fmt.Sprintf("bench-%04d", i), records: benchZoneRecords})
	}
	bench.resetZones(b)
	type domainOffer struct {
		Domain string
		Offer  dns.Offer
	}
	built, err := releaseBuild()
	must(b, err)
	var domains []domainOffer
	for _, c := range bench.zones {
		domains = append(domains, domainOffer{c.domain(), c.offer()})
	}
	raw, err := json.Marshal(map[string]any{
		"Resolver": bench.server.DNS, "Port": bench.port(), "API": bench.server.API, "Key": bench.server.Key, "Plugins": filepath.Join(built.folder, "plugins"), "Domains": domains,
	})
	must(b, err)
	bench.input = filepath.Join(b.TempDir(), "input.json")
	must(b, os.WriteFile(bench.input, raw, 0o600))
	return bench
}

// resetZones writes the records that each zone has before a run.
func (bench *zoneBench) resetZones(b *testing.B) {
	b.Helper()
	work := make(chan zoneCase)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for c := range work {
				bench.replaceRecords(b, c.zone(), c.parseRecords(c.records))
			}
		})
	}
	for _, c := range bench.zones {
		work <- c
	}
	close(work)
	workers.Wait()
}

// BenchmarkZones measures how long planning and writing 1000 zones takes. For comparison, it
// measures a bare client that sends the same DNS queries and API calls. Each measurement runs in a
// new process.
func BenchmarkZones(b *testing.B) {
	program := testserver.Program(b, "testdata/dnsbench")
	bench := newZoneBench(b, benchZones)
	for _, mode := range []string{"plan", "bare-plan", "apply", "bare-apply"} {
		b.Run(mode, func(b *testing.B) {
			if mode == "apply" || mode == "bare-apply" {
				bench.resetZones(b)
			}
			bench.runOnce(b, program, mode)
		})
	}
}

// runOnce runs dnsbench once and ignores b.N, because a second apply would find nothing to write.
func (bench *zoneBench) runOnce(b *testing.B, program, mode string) {
	b.Helper()
	queriesBefore := bench.udpQueries(b)
	cmd := exec.Command(program, mode, bench.input)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("the mode %s of dnsbench fails: %v", mode, err)
	}
	var figures struct{ Seconds, PeakMB, PluginMB float64 }
	must(b, json.Unmarshal(out, &figures))
	b.ReportMetric(figures.Seconds, "s/1000")
	b.ReportMetric((bench.udpQueries(b)-queriesBefore)/benchZones, "questions/domain")
	b.ReportMetric(figures.PeakMB, "MB-peak")
	if figures.PluginMB > 0 {
		b.ReportMetric(figures.PluginMB, "MB-plugin")
	}
}

func (bench *zoneBench) udpQueries(b *testing.B) float64 {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, bench.server.API+"/api/v1/servers/localhost/statistics?statistic=udp-queries", nil)
	must(b, err)
	r.Header.Set("X-API-Key", bench.server.Key)
	answer, err := http.DefaultClient.Do(r)
	must(b, err)
	defer func() { _ = answer.Body.Close() }()
	var statistics []struct{ Value string }
	if err := json.NewDecoder(answer.Body).Decode(&statistics); err != nil || len(statistics) != 1 {
		b.Fatalf("the server returned the statistics %v, want one value: %v", statistics, err)
	}
	queries, err := strconv.ParseFloat(statistics[0].Value, 64)
	must(b, err)
	return queries
}
