// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

// Limits in a soak, while 1,000 slow and 600 unread connections are open.
const (
	maxHealthyP99    = 100 * time.Millisecond // for the duration of a request with a key
	maxServiceMemory = 250 << 20              // bytes
)

// A slow client opens about one connection every reopenAfter, or fewer. After the same time the
// service ends a connection with a slow request head.
const reopenAfter = 5 * time.Second

// floodSize returns the number of clients that send slowly, and the number of clients that do not
// read.
func floodSize() (slow, unread int) {
	if soak.Enabled() {
		return 1000, 600
	}
	return 40, 24
}

// publicFlood is a set of clients that send the same publicRequest. Half of the slow clients send
// the end of the request head a byte at a time, the other half the body. A slow client opens a new
// connection when the service has ended its connection.
type publicFlood struct {
	request publicRequest
	address string
	dialer  net.Dialer

	ctx     context.Context // cancelled when the flood is stopped
	clients sync.WaitGroup
	opened  sync.WaitGroup // waits for the first connection of each client
	pending atomic.Int64   // the slow clients whose first connection has not ended
	refused atomic.Int64   // the answers 503 to slow clients

	mu  sync.Mutex
	err error // the first error of a client
}

// startFlood starts the clients. It returns when each has opened a connection or failed to do so.
// By then the clients that do not read have also sent their requests. stop ends the clients and
// returns the first error of a client, for example a wrong answer. Clients of the admin listener
// record no errors, because that listener limits the connections of an address.
func startFlood(t *testing.T, q publicRequest, c client) (f *publicFlood, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f = &publicFlood{request: q, address: strings.TrimPrefix(c.ready.APIURL, "http://"), ctx: ctx}
	if q.onAdminListener {
		// All clients use the address 127.0.0.2, so the limit per address does not affect other
		// requests.
		f.address = strings.TrimPrefix(c.ready.AdminURL, "http://")
		f.dialer.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}
	}
	head := q.method + " " + q.path + " HTTP/1.1\r\nHost: x\r\n" + q.header
	slow, unread := floodSize()
	f.pending.Store(int64(slow))
	f.opened.Add(slow + unread)
	for i := range slow {
		f.clients.Go(func() {
			if i%2 == 0 {
				f.sendSlowly(head+"X-Slow: ", 0)
			} else {
				f.sendSlowly(head+"Content-Length: 1000\r\n\r\n", q.status)
			}
		})
	}
	fullText := head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(q.body), q.body)
	for range unread {
		f.clients.Go(func() { f.holdUnread(strings.Repeat(fullText, 4)) })
	}
	f.opened.Wait()
	return f, func() error {
		cancel()
		f.clients.Wait()
		return f.err
	}
}

// recordError records an error, unless the flood is being stopped.
func (f *publicFlood) recordError(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil && f.ctx.Err() == nil {
		f.err = err
	}
}

// sendSlowly sends requests that begin with start, one after the other. Each must get a complete
// answer with the status or with 503. If status is 0, each must get 503 or no answer.
func (f *publicFlood) sendSlowly(start string, status int) {
	pace := time.NewTicker(reopenAfter)
	defer pace.Stop()
	for isFirst := true; f.ctx.Err() == nil; isFirst = false {
		conn, err := f.dialer.DialContext(f.ctx, "tcp", f.address)
		if isFirst {
			f.opened.Done()
		}
		if err == nil {
			err = f.sendOnce(conn, start, status)
			_ = conn.Close()
		}
		if err != nil && !f.request.onAdminListener {
			f.recordError(err)
		}
		if isFirst {
			f.pending.Add(-1)
		}
		select {
		case <-pace.C:
		case <-f.ctx.Done():
		}
	}
}

// sendOnce sends start, then a byte every slowByteInterval, until an answer arrives or the
// connection ends.
func (f *publicFlood) sendOnce(conn net.Conn, start string, status int) error {
	defer context.AfterFunc(f.ctx, func() { _ = conn.Close() })()
	if _, err := io.WriteString(conn, start); err != nil {
		return fmt.Errorf("the beginning of a slow request cannot be sent: %w", err)
	}
	reader := bufio.NewReader(conn)
	for deadline := time.Now().Add(waitTimeout); ; {
		_ = conn.SetReadDeadline(time.Now().Add(slowByteInterval))
		_, err := reader.Peek(1)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("a connection is still open after %s", waitTimeout)
		}
		_, _ = conn.Write([]byte("a"))
	}
	_ = conn.SetReadDeadline(time.Now().Add(waitTimeout))
	answer, err := http.ReadResponse(reader, nil)
	switch {
	case status == 0 && err != nil:
		return nil
	case err != nil:
		return fmt.Errorf("a slow client got no answer, want %d or 503: %w", status, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return fmt.Errorf("the answer to a slow client is not complete: %w", err)
	}
	switch {
	case answer.StatusCode == http.StatusServiceUnavailable:
		f.refused.Add(1)
	case status == 0:
		return fmt.Errorf("a slow client got %s, want 503 or no answer", answer.Status)
	case answer.StatusCode != status:
		return fmt.Errorf("a slow client got %s, want %d or 503", answer.Status, status)
	}
	return nil
}

// holdUnread sends all requests at once and reads no answer. It keeps the connection until the
// flood is stopped.
func (f *publicFlood) holdUnread(requests string) {
	conn, err := f.dialer.DialContext(f.ctx, "tcp", f.address)
	if err == nil {
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		_, err = io.WriteString(conn, requests)
		defer func() { _ = conn.Close() }()
	}
	f.opened.Done()
	if err != nil && !f.request.onAdminListener {
		f.recordError(fmt.Errorf("the requests of a client that does not read cannot be sent: %w", err))
	}
	<-f.ctx.Done()
}

// TestPublicPathsDoNotBlockOthers sends publicRequests from slow clients and from clients that do
// not read. Requests with an accepted key are answered meanwhile. A soak tests all
// publicRequests with many clients. Other runs test two of them with few clients. A soak also
// measures the requests with a key and the memory, while no other test of the package runs.
func TestPublicPathsDoNotBlockOthers(t *testing.T) {
	if !soak.Enabled() {
		t.Parallel()
	}
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	env := fixture.env(t.TempDir(), "")
	_, key := fixture.newAccount(env, "owner@example.com", "complete", 0)
	p, c := fixture.serve(env)
	c.ready.APIKey = key
	sendHealthyRequests(t, c, 30, nil)
	for _, q := range soak.Sample(t, publicRequests, 2) {
		t.Run(q.String(), func(t *testing.T) {
			c.t = t
			if !soak.Enabled() {
				sendDuringFlood(t, q, c, 10)
				return
			}
			resetPeakMemory(t, p.cmd.Process.Pid)
			measureDuringFlood(t, q, c)
			peak := peakMemory(t, p.cmd.Process.Pid)
			t.Logf("at most %d MiB of memory", peak>>20)
			if peak > maxServiceMemory {
				t.Errorf("the service used %d MiB, the limit is %d MiB", peak>>20, maxServiceMemory>>20)
			}
		})
	}
}

// measureDuringFlood checks how long healthy requests take during a flood. It makes up to three
// tries, because a busy machine can slow a try down.
func measureDuringFlood(t *testing.T, q publicRequest, c client) {
	t.Helper()
	const tries = 3
	for try := 1; ; try++ {
		durations := sendDuringFlood(t, q, c, 250)
		median, p99 := durations[len(durations)/2], durations[len(durations)*99/100]
		t.Logf("try %d: %d healthy requests, median %v, 99th percentile %v, longest %v", try, len(durations), median, p99, durations[len(durations)-1])
		if p99 < maxHealthyP99 {
			return
		}
		if try == tries {
			t.Errorf("the 99th percentile is %v, the limit is %v", p99, maxHealthyP99)
			return
		}
	}
}

var openConnectionsLine = regexp.MustCompile(`(?m)^tenantry_connections(?:\{.*\})? (\d+)$`)

// openConnections returns the number of open connections from /metrics, or 0 if the service does
// not export it.
func openConnections(c client) (n int) {
	if found := openConnectionsLine.FindSubmatch(c.do("GET", c.ready.AdminURL+"/metrics", "", nil).raw); found != nil {
		n, _ = strconv.Atoi(string(found[1]))
	}
	return n
}

// sendDuringFlood calls sendHealthyRequests while a flood runs. The requests go on until the
// service has ended the first connection of each slow client. It returns the durations of all
// healthy requests in ascending order.
func sendDuringFlood(t *testing.T, q publicRequest, c client, n int) []time.Duration {
	t.Helper()
	f, stop := startFlood(t, q, c)
	if _, unread := floodSize(); !q.onAdminListener {
		c.eventually("the unread connections are open", func() bool { return openConnections(c) >= unread })
	}
	durations := sendHealthyRequests(t, c, n, func() bool { return f.pending.Load() == 0 })
	if q.onAdminListener { // /metrics answers four requests at a time, including requests of slow clients
		c.eventually("/metrics answers 200", func() bool {
			return c.do("GET", c.ready.AdminURL+"/metrics", "", nil).status == http.StatusOK
		})
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if refused := f.refused.Load(); refused > 0 {
		t.Logf("%d requests of slow clients got 503", refused)
	}
	return durations
}
