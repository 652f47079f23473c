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

// benchZones is how many zones a run plans or writes.
const benchZones = 1000

// grown is the past of each: a website, another's SPF record and a proof.
const grown = "@ 600 A 192.0.2.80\nwww 600 CNAME web.elsewhere.test.\n@ 300 TXT v=spf1 include:_spf.elsewhere.test ~all\n@ 300 TXT service-verification=0123456789abcdef"

// zoneBench is a PowerDNS with zones that nobody has planned yet.
type zoneBench struct {
	*power
	zones []messy
	input string // for the program that plans and writes
}

func newZoneBench(b *testing.B, size int) *zoneBench {
	b.Helper()
	w := &zoneBench{power: newPower(b)}
	for i := range size {
		w.zones = append(w.zones, messy{name: fmt.Sprintf("bench-%04d", i), past: grown})
	}
	w.seed(b)
	type wanted struct {
		Domain string
		Offer  dns.Offer
	}
	built, err := release()
	if err != nil {
		b.Fatal(err)
	}
	var all []wanted
	for _, m := range w.zones {
		all = append(all, wanted{m.domain(), m.offer()})
	}
	raw, err := json.Marshal(map[string]any{
		"Resolver": w.server.DNS, "Port": w.port(), "API": w.server.API, "Key": w.server.Key, "Plugins": filepath.Join(built.folder, "plugins"), "Domains": all,
	})
	if err != nil {
		b.Fatal(err)
	}
	w.input = filepath.Join(b.TempDir(), "input.json")
	if err := os.WriteFile(w.input, raw, 0o600); err != nil {
		b.Fatal(err)
	}
	return w
}

// seed makes all zones what they were before anybody wrote.
func (w *zoneBench) seed(b *testing.B) {
	b.Helper()
	work := make(chan messy)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for m := range work {
				w.put(b, m.zone(), m.lines(m.past))
			}
		})
	}
	for _, m := range w.zones {
		work <- m
	}
	close(work)
	all.Wait()
}

// BenchmarkZones plans a thousand zones and writes them, in a process of its
// own each time, beside a bare client.
func BenchmarkZones(b *testing.B) {
	program := testserver.Program(b, "testdata/dnsbench")
	w := newZoneBench(b, benchZones)
	for _, mode := range []string{"plan", "bare-plan", "apply", "bare-apply"} {
		b.Run(mode, func(b *testing.B) {
			if mode == "apply" || mode == "bare-apply" {
				w.seed(b)
			}
			w.run(b, program, mode)
		})
	}
}

// run makes one run, however often it is asked for: a written zone cannot be
// written again.
func (w *zoneBench) run(b *testing.B, program, mode string) {
	b.Helper()
	asked := w.questions(b)
	cmd := exec.Command(program, mode, w.input)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		b.Fatal(mode, ": ", err)
	}
	var f struct{ Seconds, PeakMB, PluginMB float64 }
	if err := json.Unmarshal(out, &f); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(f.Seconds, "s/1000")
	b.ReportMetric((w.questions(b)-asked)/benchZones, "questions/domain")
	b.ReportMetric(f.PeakMB, "MB-peak")
	if f.PluginMB > 0 {
		b.ReportMetric(f.PluginMB, "MB-plugin")
	}
}

// questions is how many the server has been asked by UDP.
func (w *zoneBench) questions(b *testing.B) float64 {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, w.server.API+"/api/v1/servers/localhost/statistics?statistic=udp-queries", nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("X-API-Key", w.server.Key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var found []struct{ Value string }
	if err := json.NewDecoder(answer.Body).Decode(&found); err != nil || len(found) != 1 {
		b.Fatal(found, err)
	}
	n, err := strconv.ParseFloat(found[0].Value, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}
