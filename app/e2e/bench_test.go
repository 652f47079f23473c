// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// benchService holds a database with one account, and the settings of a service that uses it.
type benchService struct {
	b        *testing.B
	database string   // the URL of the database
	redis    string   // the URL of Redis, or ""
	env      []string // the environment of the service
	key      string   // an API key of the account
	tenants  []string // the GUIDs of the account's tenants
}

// newBenchService creates a database with one account and 25 tenants. It does not start the
// service.
func newBenchService(b *testing.B, database string) *benchService {
	b.Helper()
	svc := newBenchAccount(b, database)
	store, err := bunstore.Open(b.Context(), svc.database, bunstore.Options{})
	svc.must(err)
	defer func() { svc.must(store.Close()) }()
	account, err := store.FindAccount(b.Context(), benchOwner)
	svc.must(err)
	consentedAt := time.Now().Add(24 * time.Hour) // the first enforcement pass is due only then, so none runs during the benchmark
	for i := range 25 {
		svc.tenants = append(svc.tenants, uuid.NewString())
		_, err := store.Attach(b.Context(), account.ID, tenant.Tenant{
			ID: uuid.NewString(), GUID: tenant.GUID(svc.tenants[i]), Name: fmt.Sprint("Example ", i), BuiltinDomain: "example.onmicrosoft.com",
			Consent: tenant.ConsentGranted, ConsentedAt: consentedAt, ConnectedBy: "admin@example.onmicrosoft.com",
			Bootstrap: tenant.BootstrapReady, SMTPAuth: tenant.SMTPAuthEnabled, Discovery: tenant.DiscoveryCompleted,
		})
		svc.must(err)
	}
	return svc
}

const (
	benchOwner   = "owner@example.com"
	benchCallers = 16 // the number of concurrent requests
)

// newBenchAccount creates a database with one account and no tenants.
func newBenchAccount(b *testing.B, database string) *benchService {
	b.Helper()
	svc := &benchService{b: b, database: database}
	secretFile := filepath.Join(b.TempDir(), "secret")
	svc.must(os.WriteFile(secretFile, []byte("not asked for"), 0o600))
	svc.env = []string{
		"TENANTRY_DATA_DIR=" + b.TempDir(), "TENANTRY_DATABASE_URL=" + database, "TENANTRY_LISTEN=127.0.0.1:0", "TENANTRY_ADMIN_LISTEN=127.0.0.1:0", "TENANTRY_LOG_LEVEL=info", "TENANTRY_LIMITS=off",
		"TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_ID=bench", "TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_SECRET_FILE=" + secretFile,
	}
	store, err := bunstore.Open(b.Context(), svc.database, bunstore.Options{})
	svc.must(err)
	defer func() { svc.must(store.Close()) }()
	svc.must(store.Migrate(b.Context()))
	_, err = wiring.MigrateQueue(b.Context(), settings.Config{DatabaseURL: svc.database})
	svc.must(err)
	now := time.Now()
	account, err := store.CreateAccount(b.Context(), benchOwner, "complete", 0, now)
	svc.must(err)
	key, text, err := access.NewKey(rand.Reader, "tny", access.Live, account.ID, "bench", now)
	svc.must(err)
	svc.must(store.AddKey(b.Context(), key))
	svc.key = text.Reveal()
	return svc
}

func sqliteURL(b *testing.B) string { return "sqlite://" + filepath.Join(b.TempDir(), "tenantry.db") }

func (svc *benchService) must(err error) {
	svc.b.Helper()
	if err != nil {
		svc.b.Fatal(err)
	}
}

// serve starts the server and waits until /readyz answers 200.
func (svc *benchService) serve() (p *process, api string) {
	svc.b.Helper()
	built, err := releaseBuild()
	svc.must(err)
	p, err = launchProcess(built, svc.env, io.Discard, "serve")
	svc.must(err)
	for {
		match := servingLine.FindStringSubmatch(p.logs.String())
		if match != nil && isReady(match[2]) {
			return p, match[1]
		}
		select {
		case <-p.done:
			svc.b.Fatalf("the server ended before it was ready: %s", p.logs.String())
		case <-time.After(time.Millisecond):
		}
	}
}

func isReady(adminURL string) bool {
	answer, err := http.Get(adminURL + "/readyz")
	if err != nil {
		return false
	}
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode == http.StatusOK
}

// BenchmarkStart measures the time from the start of the process to the first 200 of /readyz, on an
// existing database.
func BenchmarkStart(b *testing.B) {
	svc := newBenchService(b, sqliteURL(b))
	p, _ := svc.serve() // warms the disk cache
	svc.must(p.stop())
	for b.Loop() {
		p, _ := svc.serve()
		b.StopTimer()
		svc.must(p.stop())
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/start")
}

// BenchmarkList measures the authenticated list of 25 tenants, and the same query in a bare HTTP
// handler.
func BenchmarkList(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { benchList(b, newBenchService(b, sqliteURL(b))) })
	b.Run("postgres", func(b *testing.B) {
		svc := newBenchService(b, testserver.Database(b))
		svc.redis = testserver.NewRedis(b).URL
		svc.env = append(svc.env, "TENANTRY_REDIS_URL="+svc.redis)
		benchList(b, svc)
	})
}

// benchList measures the list of tenants at the service and at the bare handler, and the memory of
// the service after the reads.
func benchList(b *testing.B, svc *benchService) {
	p, api := svc.serve()
	svc.compare(b, p, api, "req", func(c *http.Client, api string) { svc.get(api+"/v1/tenants", c) })
	b.Run("memory", func(b *testing.B) {
		b.ReportMetric(residentMemory(b, p.cmd.Process.Pid), "MB-host")
		svc.get(api+"/v1/tenants/connect-url", http.DefaultClient) // starts the plugin
		for _, pid := range childProcesses(b, p.cmd.Process.Pid) {
			b.ReportMetric(residentMemory(b, pid), "MB-plugin")
		}
	})
	svc.must(p.stop())
}

// serveBare starts the bare HTTP handler of testdata/bare on the same database.
func (svc *benchService) serveBare(b *testing.B) (pid int, api string) {
	b.Helper()
	cmd := exec.Command(testserver.Program(b, "testdata/bare"), svc.database, svc.redis)
	out, err := cmd.StdoutPipe()
	svc.must(err)
	svc.must(cmd.Start())
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	svc.must(err)
	return cmd.Process.Pid, strings.TrimSpace(line)
}

// comparedServer is one of the two servers that the method compare measures.
type comparedServer struct {
	name     string
	pid      int
	api      string
	requests int           // the number of requests that were answered
	wall     time.Duration // the time in which they were answered
	cpu      time.Duration // the processor time that the server used for them
}

// compare measures the same requests at the service and at the bare handler. Both servers run at
// the same time, and their rounds alternate, because the speed of the machine changes from minute
// to minute. The first round of a server does not count, because its caches are still empty.
func (svc *benchService) compare(b *testing.B, p *process, api, unit string, request func(c *http.Client, api string)) {
	b.Helper()
	const rounds, duration = 20, 500 * time.Millisecond
	barePID, bareAPI := svc.serveBare(b)
	servers := []comparedServer{{name: "tenantry", pid: p.cmd.Process.Pid, api: api}, {name: "bare", pid: barePID, api: bareAPI}}
	for i := range servers {
		discarded := servers[i]
		discarded.addRound(b, duration, request)
	}
	for range rounds {
		for i := range servers {
			servers[i].addRound(b, duration, request)
		}
	}
	for _, s := range servers {
		b.Run(s.name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(s.requests)/s.wall.Seconds(), unit+"/s")
			b.ReportMetric(float64(s.cpu.Microseconds())/float64(s.requests), "cpu-us/"+unit)
		})
	}
}

// addRound lets benchCallers callers send requests for the duration, and adds the results to s.
func (s *comparedServer) addRound(b *testing.B, duration time.Duration, request func(c *http.Client, api string)) {
	b.Helper()
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: benchCallers}}
	defer c.CloseIdleConnections()
	var answered atomic.Int64
	var callers sync.WaitGroup
	began, cpuBefore := time.Now(), cpuTime(b, s.pid)
	for range benchCallers {
		callers.Go(func() {
			for time.Since(began) < duration {
				request(c, s.api)
				answered.Add(1)
			}
		})
	}
	callers.Wait()
	s.requests += int(answered.Load())
	s.wall += time.Since(began)
	s.cpu += cpuTime(b, s.pid) - cpuBefore
}

func (svc *benchService) get(url string, c *http.Client) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		panic(err)
	}
	r.Header.Set("Authorization", "Bearer "+svc.key)
	answer, err := c.Do(r)
	if err != nil {
		panic(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if n, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK || n == 0 {
		panic(fmt.Sprint(url, ": ", answer.Status, " ", err))
	}
}

func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	own, _, err := processTimes(pid)
	must(b, err)
	return own
}

// processTimes returns the processor time of a process, and the processor time of its children that
// have ended.
func processTimes(pid int) (own, endedChildren time.Duration, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	var times [4]time.Duration
	for i := range times {
		hundredths, _ := strconv.Atoi(fields[11+i])
		times[i] = time.Duration(hundredths) * 10 * time.Millisecond // Linux counts in hundredths of a second
	}
	return times[0] + times[1], times[2] + times[3], nil
}

var residentSize = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// residentMemory returns the resident memory of a process in megabytes.
func residentMemory(b *testing.B, pid int) float64 {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	found := residentSize.FindSubmatch(raw)
	if err != nil || found == nil {
		b.Fatalf("the memory of process %d is unknown: %v", pid, err)
	}
	kilobytes, _ := strconv.Atoi(string(found[1]))
	return float64(kilobytes) / 1000
}

// childProcesses returns the ids of the child processes of a process. It ends the benchmark if
// there are none.
func childProcesses(b *testing.B, pid int) (pids []int) {
	b.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	must(b, err)
	for _, list := range lists {
		raw, _ := os.ReadFile(list)
		for field := range strings.FieldsSeq(string(raw)) {
			child, _ := strconv.Atoi(field)
			pids = append(pids, child)
		}
	}
	if len(pids) == 0 {
		b.Fatalf("process %d has no child processes", pid)
	}
	return pids
}

// BenchmarkWrites measures a write of one row with its Idempotency-Key. It compares the service
// with a bare HTTP handler that makes the same number of commits.
func BenchmarkWrites(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { benchWrites(b, newBenchService(b, sqliteURL(b))) })
	b.Run("postgres", func(b *testing.B) { benchWrites(b, newBenchService(b, testserver.Database(b))) })
}

func benchWrites(b *testing.B, svc *benchService) {
	paths := svc.addMailboxes()
	var requests atomic.Int64
	p, api := svc.serve()
	svc.compare(b, p, api, "write", func(c *http.Client, api string) {
		svc.patchMailbox(c, api+paths[int(requests.Add(1))%len(paths)])
	})
	svc.must(p.stop())
}

func (svc *benchService) addMailboxes() (paths []string) {
	svc.b.Helper()
	ctx := svc.b.Context()
	store, err := bunstore.Open(ctx, svc.database, bunstore.Options{})
	svc.must(err)
	defer func() { svc.must(store.Close()) }()
	accounts, err := store.Accounts(ctx)
	svc.must(err)
	for i, id := range svc.tenants {
		address := fmt.Sprintf("ana@example-%d.test", i)
		svc.must(store.SaveDiscovery(ctx, accounts[0].ID, tenant.GUID(id), ports.DiscoveryResult{Began: time.Now(), Mailboxes: []mailbox.Platform{
			{ObjectID: address, DisplayName: "Ana", Address: address, PrincipalName: address, AccountEnabled: true, CreatedAt: time.Now()},
		}}))
		stored, err := store.Mailboxes(ctx, accounts[0].ID, tenant.GUID(id))
		svc.must(err)
		paths = append(paths, "/v1/tenants/"+id+"/mailboxes/"+stored[0].ID)
	}
	return paths
}

func (svc *benchService) patchMailbox(c *http.Client, url string) {
	r, err := http.NewRequest(http.MethodPatch, url, strings.NewReader(`{"daily_send_limit":5}`))
	if err != nil {
		panic(err)
	}
	r.Header = http.Header{"Authorization": {"Bearer " + svc.key}, "Content-Type": {"application/json"}, "Idempotency-Key": {rand.Text()}}
	answer, err := c.Do(r)
	if err != nil {
		panic(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if body, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		panic(fmt.Sprint(url, ": ", answer.Status, " ", string(body), " ", err))
	}
}

// BenchmarkSlowPlatform measures how long list requests take, as the 99th percentile, while 50
// other requests wait for a mail platform that does not answer.
func BenchmarkSlowPlatform(b *testing.B) {
	platform := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices a closed connection only after the body was read
		<-r.Context().Done()
	}))
	defer platform.Close()
	svc := newBenchService(b, testserver.Database(b))
	svc.env = append(svc.env, "TENANTRY_PROVIDERS_MICROSOFT365_LOGIN_URL="+platform.URL, "TENANTRY_DRAIN_TIME=1s", "TENANTRY_DRAIN_DELAY=0s")
	p, api := svc.serve()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	sent := make(chan struct{})
	for _, tenant := range svc.tenants {
		for _, domain := range []string{"a.example", "b.example"} {
			go func() {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, api+"/v1/tenants/"+tenant+"/domains", strings.NewReader(`{"domain":"`+domain+`"}`))
				if err != nil {
					panic(err)
				}
				r.Header = http.Header{"Authorization": {"Bearer " + svc.key}, "Content-Type": {"application/json"}, "Idempotency-Key": {tenant + domain}}
				sent <- struct{}{}
				if answer, err := http.DefaultClient.Do(r); err == nil {
					_ = answer.Body.Close()
				}
			}()
		}
	}
	for range 2 * len(svc.tenants) {
		<-sent
	}
	var durations []time.Duration
	for b.Loop() {
		start := time.Now()
		svc.get(api+"/v1/tenants", http.DefaultClient)
		durations = append(durations, time.Since(start))
	}
	slices.Sort(durations)
	b.ReportMetric(float64(durations[len(durations)*99/100].Microseconds())/1000, "ms/p99")
	svc.must(p.stop())
}

// TestBenchmarks runs BenchmarkSweep with few tenants.
func TestBenchmarks(t *testing.T) { testserver.Benchmarks(t, "Sweep$") }
