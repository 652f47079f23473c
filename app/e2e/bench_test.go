// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
)

// bench is a database with one account of 25 tenants, and how to serve it.
type bench struct {
	b        *testing.B
	database string
	redis    string // "" counts in the process
	env      []string
	key      string
	tenants  []string
}

func newBench(b *testing.B, database string) *bench {
	b.Helper()
	w := newOwner(b, database)
	store, err := bunstore.Open(b.Context(), w.database, bunstore.Options{})
	w.must(err)
	defer func() { w.must(store.Close()) }()
	account, err := store.FindAccount(b.Context(), benchOwner)
	w.must(err)
	now := time.Now()
	for i := range 25 {
		w.tenants = append(w.tenants, uuid.NewString())
		_, err := store.Attach(b.Context(), account.ID, tenant.Tenant{
			ID: uuid.NewString(), GUID: tenant.GUID(w.tenants[i]), Name: fmt.Sprint("Example ", i), BuiltinDomain: "example.onmicrosoft.com",
			Consent: tenant.ConsentGranted, ConsentedAt: now, ConnectedBy: "admin@example.onmicrosoft.com",
			Bootstrap: tenant.BootstrapReady, SMTPAuth: tenant.SMTPAuthEnabled, Discovery: tenant.DiscoveryCompleted,
		}, 100)
		w.must(err)
	}
	return w
}

const benchOwner = "owner@example.com"

// newOwner is a database with one account that has no tenants.
func newOwner(b *testing.B, database string) *bench {
	b.Helper()
	w := &bench{b: b, database: database}
	secret := filepath.Join(b.TempDir(), "secret")
	w.must(os.WriteFile(secret, []byte("not asked for"), 0o600))
	w.env = []string{
		"TENANTRY_DATA_DIR=" + b.TempDir(), "TENANTRY_DATABASE_URL=" + database, "TENANTRY_LISTEN=127.0.0.1:0", "TENANTRY_ADMIN_LISTEN=127.0.0.1:0", "TENANTRY_LOG_LEVEL=info", "TENANTRY_LIMITS=off",
		"TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_ID=bench", "TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_SECRET_FILE=" + secret,
	}
	store, err := bunstore.Open(b.Context(), w.database, bunstore.Options{})
	w.must(err)
	defer func() { w.must(store.Close()) }()
	w.must(store.Migrate(b.Context()))
	_, err = wiring.MigrateQueue(b.Context(), settings.Config{DatabaseURL: w.database})
	w.must(err)
	now := time.Now()
	account, err := store.CreateAccount(b.Context(), benchOwner, "complete", 0, now)
	w.must(err)
	key, text, err := access.NewKey(rand.Reader, "tny", access.Live, account.ID, "bench", now)
	w.must(err)
	w.must(store.AddKey(b.Context(), key))
	w.key = text.Reveal()
	return w
}

func embedded(b *testing.B) string { return "sqlite://" + filepath.Join(b.TempDir(), "tenantry.db") }

func (w *bench) must(err error) {
	w.b.Helper()
	if err != nil {
		w.b.Fatal(err)
	}
}

// serve starts the built server and waits until it says that it is ready.
func (w *bench) serve() (p *process, api string) {
	w.b.Helper()
	built, err := release()
	w.must(err)
	p, err = launch(built, w.env, io.Discard, "serve")
	w.must(err)
	for {
		at := servingAt.FindStringSubmatch(p.logs.String())
		if at != nil && ready(at[2]) {
			return p, at[1]
		}
		select {
		case <-p.done:
			w.b.Fatal(p.logs.String())
		case <-time.After(time.Millisecond):
		}
	}
}

func ready(admin string) bool {
	answer, err := http.Get(admin + "/readyz")
	if err != nil {
		return false
	}
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode == http.StatusOK
}

// BenchmarkStart is the time from the start of the process to the first
// successful look at /readyz, with a database that is there.
func BenchmarkStart(b *testing.B) {
	w := newBench(b, embedded(b))
	p, _ := w.serve() // builds the binary, and warms the disk's cache
	w.must(p.stop())
	for b.Loop() {
		p, _ := w.serve()
		b.StopTimer()
		w.must(p.stop())
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/start")
}

// BenchmarkList is the authenticated list of 25 tenants, and the same from a
// handler without anything around it.
func BenchmarkList(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { list25(b, newBench(b, embedded(b))) })
	b.Run("postgres", func(b *testing.B) {
		w := newBench(b, testserver.Database(b))
		w.redis = testserver.NewRedis(b).URL
		w.env = append(w.env, "TENANTRY_REDIS_URL="+w.redis)
		list25(b, w)
	})
}

func list25(b *testing.B, w *bench) {
	b.Run("tenantry", func(b *testing.B) {
		p, api := w.serve()
		w.load(b, p.cmd.Process.Pid, api)
		b.ReportMetric(resident(b, p.cmd.Process.Pid), "MB-host")
		w.get(api+"/v1/tenants/connect-url", http.DefaultClient) // which the plugin answers
		for _, pid := range children(b, p.cmd.Process.Pid) {
			b.ReportMetric(resident(b, pid), "MB-plugin")
		}
		w.must(p.stop())
	})
	b.Run("bare", func(b *testing.B) {
		pid, api := w.bare(b)
		w.load(b, pid, api)
	})
}

// bare starts a handler without anything around it on the same database.
func (w *bench) bare(b *testing.B) (pid int, api string) {
	b.Helper()
	cmd := exec.Command(testserver.Program(b, "testdata/bare"), w.database, w.redis)
	out, err := cmd.StdoutPipe()
	w.must(err)
	w.must(cmd.Start())
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	w.must(err)
	return cmd.Process.Pid, strings.TrimSpace(line)
}

// load sends as many requests at once as keep a small server busy.
func (w *bench) load(b *testing.B, pid int, api string) {
	b.Helper()
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer c.CloseIdleConnections()
	for range 200 {
		w.get(api+"/v1/tenants", c)
	}
	before := cpu(b, pid)
	b.SetParallelism(8)
	b.ResetTimer()
	b.RunParallel(func(next *testing.PB) {
		for next.Next() {
			w.get(api+"/v1/tenants", c)
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
	b.ReportMetric(float64((cpu(b, pid)-before).Microseconds())/float64(b.N), "cpu-us/req")
}

func (w *bench) get(url string, c *http.Client) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		panic(err)
	}
	r.Header.Set("Authorization", "Bearer "+w.key)
	answer, err := c.Do(r)
	if err != nil {
		panic(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if n, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK || n == 0 {
		panic(fmt.Sprint(url, ": ", answer.Status, " ", err))
	}
}

// cpu is the processor time that a process has used.
func cpu(b *testing.B, pid int) time.Duration {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // Linux counts hundredths
}

var residentSize = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// resident is the resident memory of a process in megabytes.
func resident(b *testing.B, pid int) float64 {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	found := residentSize.FindSubmatch(raw)
	if err != nil || found == nil {
		b.Fatalf("memory of %d: %v", pid, err)
	}
	kilobytes, _ := strconv.Atoi(string(found[1]))
	return float64(kilobytes) / 1000
}

// children are the processes that a process has started.
func children(b *testing.B, pid int) (pids []int) {
	b.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		b.Fatal(err)
	}
	for _, list := range lists {
		raw, _ := os.ReadFile(list)
		for field := range strings.FieldsSeq(string(raw)) {
			child, _ := strconv.Atoi(field)
			pids = append(pids, child)
		}
	}
	if len(pids) == 0 {
		b.Fatal("no plugin was started")
	}
	return pids
}
