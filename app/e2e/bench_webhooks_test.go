// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the PostgreSQL driver

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/access"
)

const (
	// benchEndpoints is the number of webhooks. Of every ten endpoints, one never answers and one
	// fails.
	benchEndpoints = 1000
	// benchEventRate is the number of events that all accounts together write in a second.
	benchEventRate = 200
	benchDuration  = 30 * time.Second
)

// BenchmarkWebhooks measures the time from an event to the arrival of its message, at the endpoints
// that accept messages. API requests cause the events at a fixed rate. The benchmark runs with one
// endpoint per account, and with ten, so that an event causes ten messages.
func BenchmarkWebhooks(b *testing.B) {
	for _, perAccount := range []int{1, 10} {
		b.Run(fmt.Sprintf("%d-per-account", perAccount), func(b *testing.B) {
			for b.Loop() {
				benchWebhooks(b, perAccount)
			}
		})
	}
}

func benchWebhooks(b *testing.B, perAccount int) {
	receiver := &lagReceiver{}
	server := httptest.NewServer(receiver)
	defer server.Close()
	defer server.CloseClientConnections()
	svc := newBenchAccount(b, testserver.Database(b))
	svc.env = append(svc.env, "TENANTRY_WEBHOOKS_ALLOW_PRIVATE=true")
	keys := svc.addAccounts(benchEndpoints / perAccount)
	service, api := svc.serve()
	httpClient := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer httpClient.CloseIdleConnections()
	for i := range benchEndpoints {
		behaviour := map[int]string{3: "hang", 7: "fail"}[i%10]
		svc.post(httpClient, keys[i/perAccount], api+"/v1/webhooks", fmt.Sprintf(`{"url":"%s/%s","event_types":["*"]}`, server.URL, behaviour))
	}
	const events = int(benchDuration/time.Second) * benchEventRate
	postgres := postgresProcess(b, svc.database)
	cpuBefore := []time.Duration{cpuTime(b, service.cmd.Process.Pid), cpuTimeWithChildren(b, postgres), cpuTime(b, os.Getpid())}
	eventNumbers, start := make(chan int), time.Now()
	var writers sync.WaitGroup
	for range benchCallers {
		writers.Go(func() {
			for i := range eventNumbers {
				svc.post(httpClient, keys[i%len(keys)], api+"/v1/keys", `{"name":"bench","scopes":["events:read"]}`)
			}
		})
	}
	ticker := time.NewTicker(time.Second / benchEventRate)
	for i := range events {
		<-ticker.C
		eventNumbers <- i
	}
	ticker.Stop()
	close(eventNumbers)
	writers.Wait()
	writingTime := time.Since(start)
	wantMessages := events * perAccount * 8 / 10
	for deadline := time.Now().Add(waitTimeout); receiver.lagCount() < wantMessages; {
		if time.Now().After(deadline) {
			b.Fatalf("only %d of %d messages arrived", receiver.lagCount(), wantMessages)
		}
		time.Sleep(50 * time.Millisecond) // the lags do not depend on this interval
	}
	cpuAfter := []time.Duration{cpuTime(b, service.cmd.Process.Pid), cpuTimeWithChildren(b, postgres), cpuTime(b, os.Getpid())}
	lags := receiver.sortedLags()
	for i, name := range []string{"service", "postgres", "benchmark"} {
		b.ReportMetric(float64((cpuAfter[i]-cpuBefore[i]).Microseconds())/1000/float64(len(lags)), "cpu-ms-"+name+"/message")
	}
	b.ReportMetric(lags[len(lags)/2].Seconds(), "s/median")
	b.ReportMetric(lags[len(lags)*99/100].Seconds(), "s/p99")
	b.ReportMetric(float64(events)/writingTime.Seconds(), "event/s")
	b.ReportMetric(float64(len(lags))/writingTime.Seconds(), "message/s")
	b.ReportMetric(0, "ns/op")
	service.kill() // stopping would wait for the endpoints that hang
}

// postgresProcess returns the id of the PostgreSQL server's first process, which starts the others.
func postgresProcess(b *testing.B, url string) (pid int) {
	b.Helper()
	db, err := sql.Open("pgx", url)
	must(b, err)
	defer func() { _ = db.Close() }()
	var own int
	must(b, db.QueryRow("SELECT pg_backend_pid()").Scan(&own))
	stat := fileText(b, fmt.Sprintf("/proc/%d/stat", own))
	var state string
	_, err = fmt.Sscan(stat[strings.LastIndexByte(stat, ')')+1:], &state, &pid)
	must(b, err)
	return pid
}

// cpuTimeWithChildren returns the processor time that a process and its children have used,
// including children that have ended.
func cpuTimeWithChildren(b *testing.B, pid int) time.Duration {
	b.Helper()
	own, total, err := processTimes(pid)
	must(b, err)
	total += own
	for _, child := range childProcesses(b, pid) {
		if used, _, err := processTimes(child); err == nil { // the child may have ended
			total += used
		}
	}
	return total
}

func (svc *benchService) addAccounts(n int) (keys []string) {
	svc.b.Helper()
	ctx := svc.b.Context()
	store, err := bunstore.Open(ctx, svc.database, bunstore.Options{})
	svc.must(err)
	defer func() { svc.must(store.Close()) }()
	for i := range n {
		now := time.Now()
		account, err := store.CreateAccount(ctx, fmt.Sprintf("bench-%d@example.com", i), "complete", 0, now)
		svc.must(err)
		key, text, err := access.NewKey(rand.Reader, "tny", access.Live, account.ID, "bench", now)
		svc.must(err)
		svc.must(store.AddKey(ctx, key))
		keys = append(keys, text.Reveal())
	}
	return keys
}

func (svc *benchService) post(c *http.Client, key, url, body string) {
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}, "Idempotency-Key": {rand.Text()}}
	answer, err := c.Do(r)
	if err != nil {
		panic(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if raw, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		panic(fmt.Sprint(url, ": ", answer.Status, " ", string(raw), " ", err))
	}
}

// lagReceiver serves all endpoints. Endpoints at /hang never answer, and endpoints at /fail answer
// 500. For all other endpoints it stores the lag of each message.
type lagReceiver struct {
	mu   sync.Mutex
	lags []time.Duration
}

func (l *lagReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var message struct {
		Timestamp time.Time `json:"timestamp"`
	}
	err := json.NewDecoder(r.Body).Decode(&message)
	switch {
	case r.URL.Path == "/hang":
		_, _ = io.Copy(io.Discard, r.Body) // the server notices a closed connection only after the body was read
		<-r.Context().Done()
	case r.URL.Path == "/fail" || err != nil:
		w.WriteHeader(http.StatusInternalServerError)
	default:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lags = append(l.lags, time.Since(message.Timestamp))
	}
}

func (l *lagReceiver) lagCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lags)
}

func (l *lagReceiver) sortedLags() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(slices.Values(l.lags))
}
