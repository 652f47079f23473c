// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/app/settings"
)

// drainTime is the default of the setting drain_time.
var drainTime, _ = time.ParseDuration(settings.Defaults()["drain_time"].(string))

// clientLoad has clients that keep their connections. Some list tenants, others rotate their API
// key. A client that loses the response to a rotation loses its key.
type clientLoad struct {
	t   *testing.T
	api string

	answered  atomic.Int64
	mu        sync.Mutex
	completed map[string]bool  // ids of requests with a complete response
	failed    map[string]error // errors of requests without a complete response
}

// runClient sends requests until a request gets no response, and returns the last API key. If email
// is empty, the requests list tenants. Otherwise each request rotates the key.
func (load *clientLoad) runClient(name, key, email string) string {
	httpClient := &http.Client{Transport: &http.Transport{}}
	defer httpClient.CloseIdleConnections()
	for n := 0; ; n++ {
		id := fmt.Sprintf("load-%s-%d", name, n)
		newKey, err := load.send(httpClient, id, key, email)
		if err != nil {
			load.mu.Lock()
			load.failed[id] = err
			load.mu.Unlock()
			return key
		}
		load.answered.Add(1)
		if newKey != "" {
			key = newKey
		}
	}
}

// send sends one request and returns the new key of a rotation.
func (load *clientLoad) send(httpClient *http.Client, id, key, email string) (newKey string, err error) {
	method, path := http.MethodGet, "/v1/tenants"
	if email != "" {
		method, path = http.MethodPost, "/api-key/rotate?user_email="+email
	}
	req, err := http.NewRequestWithContext(context.Background(), method, load.api+path, http.NoBody)
	if err != nil {
		return "", err
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + key, "X-Request-ID": id, "Idempotency-Key": id} {
		req.Header.Set(name, value)
	}
	answer, err := httpClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", err
	}
	var rotated struct {
		Key string `json:"api_key"`
	}
	if answer.StatusCode != http.StatusOK || json.Unmarshal(body, &rotated) != nil {
		load.t.Errorf("request %s is answered %d %s, want 200 with JSON", id, answer.StatusCode, body)
	}
	load.mu.Lock()
	defer load.mu.Unlock()
	load.completed[id] = true
	return rotated.Key, nil
}

// TestStopUnderLoadLosesNoAnswer sends SIGTERM while many clients send requests on connections that
// they keep. Every request that reached a handler is answered completely. Each client ends with a
// connection that is refused, or reset before its request was read.
func TestStopUnderLoadLosesNoAnswer(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); stopUnderLoad(t, "") })
	t.Run("postgres", func(t *testing.T) { t.Parallel(); stopUnderLoad(t, testserver.Database(t)) })
}

// stopUnderLoad sends SIGTERM to a server with many clients and compares the answers with its log.
func stopUnderLoad(t *testing.T, database string) {
	readers, rotators := 12, 3
	if soak.Enabled() {
		readers, rotators = 48, 8
	}
	fixture, dataDir := newServiceFixture(t, requirePrograms(t, releaseBuild)), t.TempDir()
	const drainDelay = 3 * time.Second
	env := append(fixture.env(dataDir, database), "TENANTRY_DRAIN_DELAY="+drainDelay.String(), "TENANTRY_DRAIN_TIME=2m")
	if database != "" {
		fixture.runCommand(env, "migrate")
	}
	_, readerKey := fixture.newAccount(env, "reader@example.com", "complete", 0)
	p, c := fixture.serve(env)
	load := &clientLoad{t: t, api: c.ready.APIURL, completed: map[string]bool{}, failed: map[string]error{}}
	var clients sync.WaitGroup
	for i := range readers {
		clients.Go(func() { load.runClient(fmt.Sprint("reader-", i), readerKey, "") })
	}
	keys := make([]string, rotators)
	for i := range rotators {
		email := fmt.Sprintf("rotator-%d@example.com", i)
		_, key := fixture.newAccount(env, email, "complete", 0)
		clients.Go(func() { keys[i] = load.runClient(fmt.Sprint("rotator-", i), key, email) })
	}
	c.eventually("the clients send requests", func() bool { return load.answered.Load() > 100 })
	start := time.Now()
	must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	c.eventually("/readyz answers 503, or the stop is complete", func() bool {
		isStopping := strings.Contains(p.logs.String(), `"msg":"stopping"`)
		got, err := c.tryDo("GET", c.ready.AdminURL+"/readyz", "", nil)
		if err == nil && isStopping && got.status == http.StatusOK {
			t.Error("/readyz answers 200 although the service stops")
		}
		return err != nil || got.status == http.StatusServiceUnavailable
	})
	// The delay begins after start, so an error before its end cannot come from a slow machine.
	if err := getOnNewConnection(c.ready.APIURL+"/v1/tenants", readerKey); err != nil && time.Since(start) < drainDelay {
		t.Errorf("a request on a new connection failed %s after the signal, want the answer 200 during the drain_delay of %s: %v", time.Since(start), drainDelay, err)
	}
	clients.Wait()
	<-p.done
	if code, spent := p.cmd.ProcessState.ExitCode(), time.Since(start); code != 0 || soak.Enabled() && spent > drainTime {
		t.Errorf("the service ended with the exit code %d after %v, want 0 within %v", code, spent, drainTime)
	}
	t.Logf("%d requests were answered, %d clients ended with a failed request", load.answered.Load(), len(load.failed))
	// Each client had at most one request in progress when the stop began.
	// A busy machine may answer no further request during drain_delay.
	if answered := load.compareWithLog(p.logs.String()); soak.Enabled() && answered <= readers+rotators {
		t.Errorf("%d requests were answered after the stop began, want more than %d, the number of clients", answered, readers+rotators)
	}
	if database == "" {
		if walFiles, _ := filepath.Glob(filepath.Join(dataDir, "*-wal")); len(walFiles) > 0 {
			t.Errorf("files of the write-ahead log are left: %v", walFiles)
		}
	}
	// The next server has the same address and accepts the last key of each client.
	_, restarted := fixture.serve(append(env, "TENANTRY_LISTEN="+strings.TrimPrefix(c.ready.APIURL, "http://")))
	for _, key := range append(keys, readerKey) {
		if got := restarted.do("GET", c.ready.APIURL+"/v1/tenants", key, nil); got.status != http.StatusOK {
			t.Errorf("after the next start a request with a current key is answered %d %s, want 200", got.status, got.raw)
		}
	}
}

// getOnNewConnection sends a GET request with an API key on a new connection. It returns an error
// if the status of the answer is not 200.
func getOnNewConnection(url, key string) error {
	httpClient := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: waitTimeout}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	answer, err := httpClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the status is %s", answer.Status)
	}
	return nil
}

// compareWithLog compares the responses that the clients got with the service's log. It returns how
// many requests the service answered after its stop began.
func (load *clientLoad) compareWithLog(logs string) (answeredAfterStop int) {
	load.t.Helper()
	loggedRequests, stopping := 0, false
	for line := range strings.Lines(logs) {
		var entry struct {
			Msg string `json:"msg"`
			ID  string `json:"request_id"`
		}
		err := json.Unmarshal([]byte(line), &entry)
		stopping = stopping || entry.Msg == "stopping"
		if err != nil || entry.Msg != "request" || !strings.HasPrefix(entry.ID, "load-") {
			continue
		}
		if stopping {
			answeredAfterStop++
		}
		if loggedRequests++; !load.completed[entry.ID] {
			load.t.Errorf("%s was executed and its answer lost: %v", entry.ID, load.failed[entry.ID])
		}
	}
	if loggedRequests < len(load.completed) {
		load.t.Errorf("%d requests are in the log, want at least the %d that were answered", loggedRequests, len(load.completed))
	}
	for id, err := range load.failed {
		var network *net.OpError
		if !errors.As(err, &network) && !errors.Is(err, io.EOF) {
			load.t.Errorf("%s failed with an error that is not about its connection: %v", id, err)
		}
	}
	return answeredAfterStop
}

// TestStopClosesOpenConnections checks that a stop closes a connection that waits for its next
// request, and answers a request whose body is still being sent.
func TestStopClosesOpenConnections(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	env := append(fixture.env(t.TempDir(), ""), "TENANTRY_DRAIN_DELAY=0s", "TENANTRY_DRAIN_TIME=2m") // more than a busy machine needs
	_, key := fixture.newAccount(env, "ann@example.com", "complete", 0)
	p, c := fixture.serve(env)
	idle, uploading := dialAPI(t, c), dialAPI(t, c)
	get := "GET /v1/tenants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + "\r\n\r\n"
	for _, conn := range []net.Conn{idle, uploading} {
		if answer := sendAndRead(t, conn, get); !bytes.HasPrefix(answer, []byte("HTTP/1.1 200")) || bytes.Contains(answer, []byte("Connection: close")) {
			t.Fatalf("the first request is answered %q, want 200 without Connection: close", answer)
		}
	}
	post := "POST /v1/integrations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key +
		"\r\nIdempotency-Key: slow-body-of-a-stop\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
	if answer := sendAndRead(t, uploading, post); !bytes.HasPrefix(answer, []byte("HTTP/1.1 100")) { // a handler reads the body
		t.Fatalf("the service answers %q, want 100 before it reads the body", answer)
	}
	must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	if n, err := idle.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("reading the idle connection returned %d bytes and %v, want its end", n, err)
	}
	answer := sendAndRead(t, uploading, "{}")
	if !bytes.HasPrefix(answer, []byte("HTTP/1.1 400")) || !bytes.Contains(answer, []byte("Connection: close")) {
		t.Errorf("the request with a slow body is answered %q, want 400 with Connection: close", answer)
	}
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the service ended with the exit code %d, want 0", code)
	}
}

func dialAPI(t *testing.T, c client) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(c.ready.APIURL, "http://"))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(waitTimeout)))
	return conn
}

// sendAndRead sends a request and reads the response. One read is enough, because the response is
// short and written at once.
func sendAndRead(t *testing.T, conn net.Conn, request string) []byte {
	t.Helper()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 64<<10)
	n, err := conn.Read(answer)
	must(t, err)
	return answer[:n]
}
