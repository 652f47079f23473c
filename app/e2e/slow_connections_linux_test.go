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
	dripEvery  = time.Second
	healthyP99 = 200 * time.Millisecond
	// schedulingSlack is how much later than its deadline a busy machine may close a connection.
	schedulingSlack = 4 * time.Second
)

// slowConnCount is the number of slow connections of each kind.
func slowConnCount() int {
	if soak.On() {
		return 1000
	}
	return 50
}

// slowConns are slow connections of one kind. Each sends the beginning of a request, and then a
// byte every dripEvery.
type slowConns struct {
	t     *testing.T
	conns []*slowConn
}

type slowConn struct {
	net.Conn
	began, ended time.Time
	answer       []byte
	err          error
	done         chan struct{} // closed when the service has ended the connection
}

func newSlowConns(t *testing.T, address, head string) *slowConns {
	t.Helper()
	f := &slowConns{t: t}
	for range slowConnCount() {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatalf("connection %d: %v", len(f.conns), err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		c := &slowConn{Conn: conn, began: time.Now(), done: make(chan struct{})}
		f.conns = append(f.conns, c)
		if _, err := io.WriteString(conn, head); err != nil {
			t.Fatal(err)
		}
		go c.drip()
		go c.awaitEnd()
	}
	return f
}

func (c *slowConn) drip() {
	every := time.NewTicker(dripEvery)
	defer every.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-every.C:
			_, _ = c.Write([]byte("a"))
		}
	}
}

// awaitEnd reads until the service ends the connection. A reset also counts: it occurs when a byte
// arrives after the service has closed the connection.
func (c *slowConn) awaitEnd() {
	defer close(c.done)
	_ = c.SetReadDeadline(c.began.Add(waitTimeout))
	c.answer, c.err = io.ReadAll(c)
	c.ended = time.Now()
}

// openCount returns the number of connections that the service has not ended.
func (f *slowConns) openCount() (n int) {
	for _, c := range f.conns {
		select {
		case <-c.done:
		default:
			n++
		}
	}
	return n
}

// checkEnd checks that the service ends each connection at its limit although bytes keep arriving,
// and that it answers with status, or closes without a response if status is 0. In a soak a connection
// may also get 503 at once, because all connections come together and an account has half of the
// slots. Half of the connections must get status. A reset after the answer loses nothing.
func (f *slowConns) checkEnd(limit time.Duration, status int) {
	f.t.Helper()
	var lasted []time.Duration
	answered := 0
	for _, c := range f.conns {
		<-c.done
		var late net.Error
		if errors.As(c.err, &late) && late.Timeout() {
			f.t.Fatalf("a connection is held for %s", waitTimeout)
		}
		got := 0
		if answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(c.answer)), nil); err == nil {
			got = answer.StatusCode
			_ = answer.Body.Close()
		}
		if soak.On() && got == http.StatusServiceUnavailable {
			continue
		}
		lasted = append(lasted, c.ended.Sub(c.began))
		answered++
		if got != status && len(c.answer)+status > 0 {
			f.t.Fatalf("the answer is %d: %q (%v), want %d", got, c.answer, c.err, status)
		}
	}
	if status != 0 && answered < len(f.conns)/2 {
		f.t.Fatalf("%d of %d connections got %d", answered, len(f.conns), status)
	}
	slices.Sort(lasted)
	first, last := lasted[0], lasted[len(lasted)-1]
	f.t.Logf("ended after %v to %v, the limit is %v", first.Round(time.Millisecond), last.Round(time.Millisecond), limit)
	if first < limit-limit/5 || soak.On() && last > limit+schedulingSlack {
		f.t.Errorf("ended after %v to %v, the limit is %v", first, last, limit)
	}
}

// healthyRequests sends n good requests from each of several callers. Half of the callers use a new
// connection for each request. It returns the duration of each request, in ascending order.
func healthyRequests(t *testing.T, c client, n int) []time.Duration {
	t.Helper()
	const callers, pace = 4, 15 * time.Millisecond
	took := make([][]time.Duration, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			own := &http.Client{Transport: &http.Transport{DisableKeepAlives: i%2 == 0}, Timeout: waitTimeout}
			defer own.CloseIdleConnections()
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for range n {
				at := time.Now()
				if err := requestTenants(own, c); err != nil {
					t.Errorf("a healthy request: %v", err)
					return
				}
				took[i] = append(took[i], time.Since(at))
				<-tick.C
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	durations := slices.Concat(took...)
	slices.Sort(durations)
	return durations
}

func requestTenants(own *http.Client, c client) error {
	r, err := http.NewRequest(http.MethodGet, c.ready.APIURL+"/v1/tenants", http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+c.ready.APIKey)
	answer, err := own.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %d %s", answer.StatusCode, body)
	}
	return err
}

var peakMemoryLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory returns the largest resident memory that a process had, in bytes.
func peakMemory(t testing.TB, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := peakMemoryLine.FindSubmatch(status)
	if found == nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// flood is all slow connections of a try. Those in unread have asked for a large file and do not
// read it.
type flood struct {
	heads, bodies, forms *slowConns
	unread               []net.Conn
}

// slowCount returns the number of connections that send slowly.
func (f flood) slowCount() int {
	return len(f.heads.conns) + len(f.bodies.conns) + len(f.forms.conns)
}

// newFlood opens four kinds of connections. Three send one byte at a time: the head of a request,
// the body of an authenticated request, or the form of a connect page without a key. The fourth
// does not read its answers.
func newFlood(t *testing.T, address, key string) flood {
	t.Helper()
	var f flood
	for range slowConnCount() {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		f.unread = append(f.unread, conn)
		if _, err := io.WriteString(conn, strings.Repeat("GET /docs/assets/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n", 4)); err != nil {
			t.Fatal(err)
		}
	}
	f.bodies = newSlowConns(t, address, "POST /v1/tenants/00000000-0000-0000-0000-000000000001/domains HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+key+
		"\r\nIdempotency-Key: slow\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"domain\":\"")
	f.forms = newSlowConns(t, address, "POST /connect/microsoft365/confirm HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded"+
		"\r\nContent-Length: 1000\r\n\r\ndecision=")
	f.heads = newSlowConns(t, address, "GET /v1/tenants HTTP/1.1\r\nHost: x\r\nX-Slow: ") // last, because it ends first
	return f
}

// TestSlowConnectionsDoNotBlockOthers opens the connections of newFlood. Other requests are
// answered, and the server ends each slow connection at its limit. A soak also measures the other
// requests and the memory; while it measures, no other test runs.
func TestSlowConnectionsDoNotBlockOthers(t *testing.T) {
	if !soak.On() {
		t.Parallel()
	}
	r := newServiceFixture(t, requirePrograms(t, releaseBuild))
	env := r.env(t.TempDir(), "")
	_, key := r.newAccount(env, "owner@example.com", "complete", 0)
	p, c := r.serve(env)
	c.ready.APIKey = key
	address := strings.TrimPrefix(c.ready.APIURL, "http://")
	flooded := func() flood { return newFlood(t, address, key) }
	var slow flood
	if soak.On() {
		slow = measureHealthyRequests(t, p, c, flooded)
		t.Parallel()
	} else {
		slow = flooded()
		healthyRequests(t, c, 10)
	}
	server := httpapi.Server("", nil)
	slow.heads.checkEnd(server.ReadHeaderTimeout, 0)
	slow.bodies.checkEnd(server.ReadTimeout, http.StatusBadRequest)
	slow.forms.checkEnd(server.ReadTimeout, http.StatusBadRequest)
	healthyRequests(t, c, 10)
}

// measureHealthyRequests checks the duration of healthy requests beside the slow connections, and
// the memory that the slow connections take. It makes three tries, because a busy machine can spoil
// one.
func measureHealthyRequests(t *testing.T, p *process, c client, flooded func() flood) (slow flood) {
	t.Helper()
	healthyRequests(t, c, 30)
	before := peakMemory(t, p.cmd.Process.Pid)
	const tries = 3
	for try := 1; ; try++ {
		slow = flooded()
		took := healthyRequests(t, c, 250)
		middle, p99 := took[len(took)/2], took[len(took)*99/100]
		held := slow.heads.openCount() + slow.bodies.openCount() + slow.forms.openCount()
		t.Logf("try %d: %d healthy requests beside %d slow ones, median %v, 99th percentile %v, longest %v",
			try, len(took), held, middle, p99, took[len(took)-1])
		if p99 < healthyP99 && held == slow.slowCount() {
			break
		}
		if try == tries {
			t.Fatalf("the 99th percentile is %v, beside %d slow connections", p99, held)
		}
	}
	all := slow.slowCount() + len(slow.unread)
	grown, most := peakMemory(t, p.cmd.Process.Pid)-before, all*64<<10 // 64 KiB each
	t.Logf("%d slow and unread connections took %d MiB", all, grown>>20)
	if grown > most {
		t.Errorf("%d slow and unread connections may take %d MiB", all, most>>20)
	}
	return slow
}
