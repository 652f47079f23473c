// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

const (
	slowConnCount    = 50 // connections of each kind
	slowByteInterval = time.Second
	// schedulingSlack is how long after the limit the service may end a connection in a soak.
	schedulingSlack = 4 * time.Second
)

// slowConns are slow connections of one kind. Each sends the beginning of a request, and then a
// byte every slowByteInterval.
type slowConns struct {
	t     *testing.T
	conns []*slowConn
}

// slowConn is one slow connection, with the answer of the service.
type slowConn struct {
	net.Conn
	began, ended time.Time
	answer       []byte
	err          error
	done         chan struct{} // closed when the service has ended the connection
}

// newSlowConns opens slowConnCount connections that send head first.
func newSlowConns(t *testing.T, address, head string) *slowConns {
	t.Helper()
	conns := &slowConns{t: t}
	for range slowConnCount {
		began := time.Now() // before the service can have accepted the connection
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatalf("connection %d could not be opened: %v", len(conns.conns), err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		c := &slowConn{Conn: conn, began: began, done: make(chan struct{})}
		conns.conns = append(conns.conns, c)
		if _, err := io.WriteString(conn, head); err != nil {
			t.Fatal(err)
		}
		go c.sendBytes()
		go c.awaitEnd()
	}
	return conns
}

// sendBytes sends a byte every slowByteInterval until the service has ended the connection.
func (c *slowConn) sendBytes() {
	ticker := time.NewTicker(slowByteInterval)
	defer ticker.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-ticker.C:
			_, _ = c.Write([]byte("a"))
		}
	}
}

// awaitEnd reads until the service ends the connection. A reset counts as an end: it occurs when a
// byte arrives after the service has closed the connection.
func (c *slowConn) awaitEnd() {
	defer close(c.done)
	_ = c.SetReadDeadline(c.began.Add(waitTimeout))
	c.answer, c.err = io.ReadAll(c)
	c.ended = time.Now()
}

// checkEnd checks that the service does not end a connection much before the limit. A soak also
// checks that it ends each connection soon after the limit, although bytes keep arriving. The
// service must answer with status, or close without an answer if status is 0. A reset after a
// complete answer is not an error.
func (conns *slowConns) checkEnd(limit time.Duration, status int) {
	conns.t.Helper()
	var lasted []time.Duration
	for _, c := range conns.conns {
		<-c.done
		var netErr net.Error
		if errors.As(c.err, &netErr) && netErr.Timeout() {
			conns.t.Fatalf("a connection is still open after %s", waitTimeout)
		}
		got := 0
		if answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(c.answer)), nil); err == nil {
			got = answer.StatusCode
			_ = answer.Body.Close()
		}
		lasted = append(lasted, c.ended.Sub(c.began))
		if got != status && len(c.answer)+status > 0 {
			conns.t.Fatalf("the answer is %d: %q (%v), want %d", got, c.answer, c.err, status)
		}
	}
	slices.Sort(lasted)
	shortest, longest := lasted[0], lasted[len(lasted)-1]
	conns.t.Logf("the service ended the connections after %v to %v, the limit is %v", shortest.Round(time.Millisecond), longest.Round(time.Millisecond), limit)
	if shortest < limit-limit/5 || soak.Enabled() && longest > limit+schedulingSlack {
		conns.t.Errorf("the service ended the connections after %v to %v, want about the limit %v", shortest, longest, limit)
	}
}

// sendHealthyRequests sends n valid requests from each of several callers. If enough is not nil,
// the callers go on until enough returns true. Half of the callers use a new connection for each
// request. sendHealthyRequests returns the durations of all requests in ascending order.
func sendHealthyRequests(t *testing.T, c client, n int, enough func() bool) []time.Duration {
	t.Helper()
	const callers, pace = 4, 15 * time.Millisecond
	durationsByCaller := make([][]time.Duration, callers)
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			httpClient := &http.Client{Transport: &http.Transport{DisableKeepAlives: i%2 == 0}, Timeout: waitTimeout}
			defer httpClient.CloseIdleConnections()
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for sent := 0; sent < n || enough != nil && !enough(); sent++ {
				start := time.Now()
				if err := requestTenants(httpClient, c); err != nil {
					t.Errorf("a healthy request failed: %v", err)
					return
				}
				durationsByCaller[i] = append(durationsByCaller[i], time.Since(start))
				<-tick.C
			}
		})
	}
	running.Wait()
	if t.Failed() {
		t.FailNow()
	}
	durations := slices.Concat(durationsByCaller...)
	slices.Sort(durations)
	return durations
}

func requestTenants(httpClient *http.Client, c client) error {
	r, err := http.NewRequest(http.MethodGet, c.ready.APIURL+"/v1/tenants", http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+c.ready.APIKey)
	answer, err := httpClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the request is answered %d %s, want 200", answer.StatusCode, body)
	}
	return err
}

var peakMemoryLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory returns the largest resident memory that a process had, in bytes.
func peakMemory(t testing.TB, pid int) int {
	t.Helper()
	status := fileText(t, fmt.Sprintf("/proc/%d/status", pid))
	found := peakMemoryLine.FindStringSubmatch(status)
	if found == nil {
		t.Fatalf("the process status has no VmHWM: %s", status)
	}
	n, err := strconv.Atoi(found[1])
	must(t, err)
	return n << 10
}

// resetPeakMemory sets the peak memory of a process to its current memory.
func resetPeakMemory(t testing.TB, pid int) {
	t.Helper()
	must(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0))
}

// TestSlowConnectionsDoNotBlockOthers opens connections of three kinds. They send one byte at a
// time: the head of a request, the body of an authenticated request, or the form of a connect page
// without a key. Other requests are answered, and the server ends the slow connections.
func TestSlowConnectionsDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	env := fixture.env(t.TempDir(), "")
	_, key := fixture.newAccount(env, "owner@example.com", "complete", 0)
	_, c := fixture.serve(env)
	c.ready.APIKey = key
	address := strings.TrimPrefix(c.ready.APIURL, "http://")
	bodies := newSlowConns(t, address, "POST /v1/tenants/00000000-0000-0000-0000-000000000001/domains HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+key+
		"\r\nIdempotency-Key: slow\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"domain\":\"")
	forms := newSlowConns(t, address, "POST /connect/microsoft365/confirm HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded"+
		"\r\nContent-Length: 1000\r\n\r\ndecision=")
	heads := newSlowConns(t, address, "GET /v1/tenants HTTP/1.1\r\nHost: x\r\nX-Slow: ") // opened last, because the service ends these connections first
	sendHealthyRequests(t, c, 10, nil)
	server := httpapi.Server("", nil)
	heads.checkEnd(server.ReadHeaderTimeout, 0)
	bodies.checkEnd(server.ReadTimeout, http.StatusBadRequest)
	forms.checkEnd(server.ReadTimeout, http.StatusBadRequest)
	sendHealthyRequests(t, c, 10, nil)
}
