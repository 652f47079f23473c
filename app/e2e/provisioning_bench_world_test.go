// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/tenantry/tenantry/plugins/mail-microsoft365/simulator"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// chains is an account whose tenants hold domains at a PowerDNS that nobody has
// provisioned yet, and the service.
type chains struct {
	*bench
	zones    *zoneBench
	platform string // the simulator's URL
	process  *process
	api      string
	admin    string
	domains  []string // ids
}

func newChains(b *testing.B, database string) *chains {
	b.Helper()
	w := &chains{bench: newOwner(b, database), zones: newZoneBench(b, chainsAlone+chainDomains)}
	w.startPlatform()
	w.command("keyset", "create")
	w.connect(w.zones)
	w.process, w.api = w.serve()
	w.admin = servingAt.FindStringSubmatch(w.process.logs.String())[2]
	w.domains = make([]string, len(w.zones.zones))
	w.each(len(w.domains)/chainPerTenant, w.fill)
	w.must(w.control("/faults", object{"kind": "delay", "delay_ms": chainCall.Milliseconds(), "times": 1_000_000}, nil))
	return w
}

// startPlatform has the mail platform's simulator ask the same name server.
func (w *chains) startPlatform() {
	w.b.Helper()
	world := httptest.NewServer(http.HandlerFunc(func(a http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(a).Encode(object{"addr": w.zones.server.DNS})
	}))
	w.b.Cleanup(world.Close)
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) { handler.ServeHTTP(a, r) }))
	w.b.Cleanup(server.Close)
	var ready simulate.Ready
	var err error
	handler, ready, err = simulator.New(simulate.Options{URL: server.URL, DataDir: w.b.TempDir(), World: world.URL, Log: io.Discard})
	w.must(err)
	w.platform = server.URL
	file := filepath.Join(w.b.TempDir(), "client-secret")
	w.must(os.WriteFile(file, []byte(ready.Secrets["client_secret"]), 0o600))
	ready.Settings["client_secret_file"] = file
	for name, value := range ready.Settings {
		w.env = append(w.env, "TENANTRY_PROVIDERS_MICROSOFT365_"+strings.ToUpper(name)+"="+value)
	}
	w.env = append(w.env, fmt.Sprint("TENANTRY_DNS_RESOLVERS=", w.zones.server.DNS), fmt.Sprint("TENANTRY_DNS_PORT=", w.zones.port()),
		"TENANTRY_DNS_ALLOW_PRIVATE=true", "TENANTRY_PROVIDERS_POWERDNS_ALLOW_PRIVATE=true", "TENANTRY_DRAIN_DELAY=0s")
}

// fill connects a tenant, prepares it and adds its domains.
func (w *chains) fill(number int) error {
	var made struct {
		ID    string `json:"tenant_id"`
		Admin string `json:"admin"`
	}
	if err := w.control("/tenants", object{}, &made); err != nil {
		return err
	}
	slow := quick()
	slow["accepted_domain_ms"] = chainTakeUp.Milliseconds()
	if err := w.control("/tenants/"+made.ID+"/behaviour", slow, nil); err != nil {
		return err
	}
	link, err := w.call(http.MethodGet, "/v1/tenants/connect-url", nil)
	if err != nil {
		return err
	}
	admin := newAdministrator(w.b, made.Admin)
	admin.follows(link.text("connect_url"))
	admin.press("connect", "")
	path, mine := "/v1/tenants/"+made.ID, w.zones.zones[number*chainPerTenant:][:chainPerTenant]
	if got, err := w.call(http.MethodPost, path+"/sync", nil); err != nil || got.text("status") != "completed" {
		return errors.Join(err, fmt.Errorf("sync: %v", got))
	}
	for _, m := range mine {
		if _, err := w.call(http.MethodPost, path+"/domains", object{"domain": m.domain()}); err != nil {
			return err
		}
	}
	held, err := w.call(http.MethodGet, path+"/domains", nil)
	for i, d := range held.objects("domains") {
		w.domains[number*chainPerTenant+i] = d.text("id")
	}
	return err
}

// each does something for all numbers below n, 16 at a time.
func (w *chains) each(n int, do func(int) error) {
	w.b.Helper()
	numbers := make(chan int)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := range numbers {
				if err := do(i); err != nil {
					w.b.Error(err)
				}
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	all.Wait()
	if w.b.Failed() {
		w.b.FailNow()
	}
}

// call sends a request to the API that must succeed.
func (w *chains) call(method, path string, body any) (object, error) {
	got := object{}
	return got, w.send(method, w.api+path, body, &got)
}

func (w *chains) control(path string, body, into any) error {
	return w.send(http.MethodPost, w.platform+"/_control"+path, body, into)
}

func (w *chains) send(method, url string, body, into any) error {
	raw := []byte{}
	if body != nil {
		raw, _ = json.Marshal(body)
	}
	r, err := http.NewRequestWithContext(w.b.Context(), method, url, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	r.Header = http.Header{"Authorization": {"Bearer " + w.key}, "Content-Type": {"application/json"}, "Idempotency-Key": {uuid.NewString()}}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	said, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("%s %s: %s %s", method, url, answer.Status, said)
	case into == nil:
		return nil
	}
	return json.Unmarshal(said, into)
}

var callCount = regexp.MustCompile(`(?m)^tenantry_provider_call_duration_seconds_count\{(?:.*,)?provider="([^"]+)".*\} (\d+)$`)

// providerCalls counts the calls of each provider so far.
func (w *chains) providerCalls() map[string]float64 {
	w.b.Helper()
	answer, err := http.Get(w.admin + "/metrics")
	w.must(err)
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	w.must(err)
	all := map[string]float64{}
	for _, found := range callCount.FindAllStringSubmatch(string(raw), -1) {
		n, err := strconv.ParseFloat(found[2], 64)
		w.must(err)
		all[found[1]] += n
	}
	return all
}
