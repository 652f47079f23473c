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
	"github.com/tenantry/tenantry/app/settings"
)

// drainTime is the default of the setting.
var drainTime, _ = time.ParseDuration(settings.Defaults()["drain_time"].(string))

// siege is a load of clients that keep their connections: some list tenants,
// some rotate their key, who are locked out when they lose an answer.
type siege struct {
	t   *testing.T
	api string

	answered atomic.Int64
	mu       sync.Mutex
	whole    map[string]bool  // the ids of requests whose whole answer came
	failed   map[string]error // of those that got none
}

// client sends requests until one finds nobody, and returns its last key. With
// an e-mail it rotates the key.
func (s *siege) client(name, key, email string) string {
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	for n := 0; ; n++ {
		id := fmt.Sprintf("siege-%s-%d", name, n)
		fresh, err := s.send(c, id, key, email)
		if err != nil {
			s.mu.Lock()
			s.failed[id] = err
			s.mu.Unlock()
			return key
		}
		s.answered.Add(1)
		if fresh != "" {
			key = fresh
		}
	}
}

func (s *siege) send(c *http.Client, id, key, email string) (fresh string, err error) {
	method, path := http.MethodGet, "/v1/tenants"
	if email != "" {
		method, path = http.MethodPost, "/api-key/rotate?user_email="+email
	}
	r, err := http.NewRequestWithContext(context.Background(), method, s.api+path, http.NoBody)
	if err != nil {
		return "", err
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + key, "X-Request-ID": id, "Idempotency-Key": id} {
		r.Header.Set(name, value)
	}
	answer, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", err
	}
	var got struct {
		Key string `json:"api_key"`
	}
	if answer.StatusCode != http.StatusOK || json.Unmarshal(body, &got) != nil {
		s.t.Errorf("%s: %d %s", id, answer.StatusCode, body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole[id] = true
	return got.Key, nil
}

// TestStopUnderLoad sends SIGTERM while many clients send requests on connections that
// they keep. Every request that the service read is answered as a whole, and each
// client ends with a connection that is refused.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); stopUnderLoad(t, "") })
	t.Run("postgres", func(t *testing.T) { t.Parallel(); stopUnderLoad(t, testserver.Database(t)) })
}

func stopUnderLoad(t *testing.T, database string) {
	readers, rotators := 12, 3
	if soak {
		readers, rotators = 48, 8
	}
	r, data := newRig(t, binary(t, release)), t.TempDir()
	env := append(r.env(data, database), "TENANTRY_DRAIN_DELAY=3s")
	if database != "" {
		r.command(env, "migrate")
	}
	_, reader := r.account(env, "reader@example.com", "complete", 0)
	p, c := r.serve(env)
	s := &siege{t: t, api: c.ready.APIURL, whole: map[string]bool{}, failed: map[string]error{}}
	var all sync.WaitGroup
	for i := range readers {
		all.Go(func() { s.client(fmt.Sprint("reader-", i), reader, "") })
	}
	keys := make([]string, rotators)
	for i := range rotators {
		email := fmt.Sprintf("rotator-%d@example.com", i)
		_, key := r.account(env, email, "complete", 0)
		all.Go(func() { keys[i] = s.client(fmt.Sprint("rotator-", i), key, email) })
	}
	c.eventually("the load is on", func() bool { return s.answered.Load() > 100 })
	began := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.eventually("not ready", func() bool {
		return c.do("GET", c.ready.AdminURL+"/readyz", "", nil).status == http.StatusServiceUnavailable
	})
	all.Wait()
	<-p.done
	if code, spent := p.cmd.ProcessState.ExitCode(), time.Since(began); code != 0 || soak && spent > drainTime {
		t.Errorf("exit code %d after %v", code, spent)
	}
	t.Logf("%d requests were answered, %d clients were refused at last", s.answered.Load(), len(s.failed))
	// Each client had at most one request under way when the stop began.
	if after := s.check(p.logs.String()); after <= readers+rotators {
		t.Errorf("%d requests were answered after the stop began: none of them was new", after)
	}
	if database == "" {
		if left, _ := filepath.Glob(filepath.Join(data, "*-wal")); len(left) > 0 {
			t.Errorf("left of the database: %v", left)
		}
	}
	// The next start gets the same address, and every rotated key is the last.
	_, again := r.serve(append(env, "TENANTRY_LISTEN="+strings.TrimPrefix(c.ready.APIURL, "http://")))
	for _, key := range append(keys, reader) {
		if got := again.do("GET", c.ready.APIURL+"/v1/tenants", key, nil); got.status != http.StatusOK {
			t.Errorf("a key after the next start: %d %s", got.status, got.raw)
		}
	}
}

// check compares the answers that the clients got with the service's log. It returns
// how many requests the service answered after its stop began.
func (s *siege) check(logs string) (after int) {
	s.t.Helper()
	read, stopping := 0, false
	for line := range strings.Lines(logs) {
		var entry struct {
			Msg string `json:"msg"`
			ID  string `json:"request_id"`
		}
		err := json.Unmarshal([]byte(line), &entry)
		stopping = stopping || entry.Msg == "stopping"
		if err != nil || entry.Msg != "request" || !strings.HasPrefix(entry.ID, "siege-") {
			continue
		}
		if stopping {
			after++
		}
		if read++; !s.whole[entry.ID] {
			s.t.Errorf("%s was done and its answer lost: %v", entry.ID, s.failed[entry.ID])
		}
	}
	if read < len(s.whole) {
		s.t.Errorf("%d requests are in the log, %d were answered", read, len(s.whole))
	}
	for id, err := range s.failed {
		var dial *net.OpError
		if !errors.As(err, &dial) || dial.Op != "dial" {
			s.t.Errorf("%s was not refused at the connection: %v", id, err)
		}
	}
	return after
}

// TestStopOfQuietConnections: a connection that waits for its next request is
// closed at once, and one whose request arrives slowly is answered.
func TestStopOfQuietConnections(t *testing.T) {
	t.Parallel()
	r := newRig(t, binary(t, release))
	env := append(r.env(t.TempDir(), ""), "TENANTRY_DRAIN_DELAY=0s")
	_, key := r.account(env, "ann@example.com", "complete", 0)
	p, c := r.serve(env)
	quiet, slow := dialed(t, c), dialed(t, c)
	get := "GET /v1/tenants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + "\r\n\r\n"
	for _, conn := range []net.Conn{quiet, slow} {
		if first := said(t, conn, get); !bytes.HasPrefix(first, []byte("HTTP/1.1 200")) || bytes.Contains(first, []byte("Connection: close")) {
			t.Fatalf("%s", first)
		}
	}
	if _, err := io.WriteString(slow, get[:40]); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if n, err := quiet.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the quiet connection: %d bytes, %v", n, err)
	}
	last := said(t, slow, get[40:])
	if !bytes.HasPrefix(last, []byte("HTTP/1.1 200")) || !bytes.Contains(last, []byte("Connection: close")) {
		t.Errorf("the slow request: %s", last)
	}
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func dialed(t *testing.T, c client) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(c.ready.APIURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(hang)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// said sends a request and reads one answer, which fits one read: it is short
// and written at once.
func said(t *testing.T, conn net.Conn, request string) []byte {
	t.Helper()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 64<<10)
	n, err := conn.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	return answer[:n]
}
