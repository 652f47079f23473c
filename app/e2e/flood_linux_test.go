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
)

const (
	dripEvery  = time.Second
	healthyP99 = 200 * time.Millisecond
	// lateTime is how long after its time a busy machine may end a connection.
	lateTime = 4 * time.Second
)

// slowEach is the number of slow connections of either kind.
func slowEach() int {
	if soak {
		return 1000
	}
	return 50
}

// flood is slow connections of one kind: each sends the beginning of a
// request, and then a byte now and then.
type flood struct {
	t     *testing.T
	conns []*slowConn
}

type slowConn struct {
	net.Conn
	began, ended time.Time
	answer       []byte
	err          error
	done         chan struct{} // closes when the service has ended it
}

func newFlood(t *testing.T, address, head string) *flood {
	t.Helper()
	f := &flood{t: t}
	for range slowEach() {
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
		go c.listen()
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

// listen reads until the service ends the connection. One that it has ended
// before it read our last byte is reset, which is an end as well.
func (c *slowConn) listen() {
	defer close(c.done)
	_ = c.SetReadDeadline(c.began.Add(hang))
	c.answer, c.err = io.ReadAll(c)
	c.ended = time.Now()
}

// held counts the connections that the service still has.
func (f *flood) held() (n int) {
	for _, c := range f.conns {
		select {
		case <-c.done:
		default:
			n++
		}
	}
	return n
}

// endAfter checks that the service ends each connection at its time, however
// the bytes drip in, and what it answers, 0 being nothing.
func (f *flood) endAfter(limit time.Duration, status int) {
	f.t.Helper()
	var lasted []time.Duration
	for _, c := range f.conns {
		<-c.done
		lasted = append(lasted, c.ended.Sub(c.began))
		var late net.Error
		if errors.As(c.err, &late) && late.Timeout() {
			f.t.Fatalf("a connection is held for %s", hang)
		}
		got := 0
		if answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(c.answer)), nil); err == nil {
			got = answer.StatusCode
			_ = answer.Body.Close()
		}
		if got != status && len(c.answer)+status > 0 {
			f.t.Fatalf("the answer is %d: %q, want %d", got, c.answer, status)
		}
	}
	slices.Sort(lasted)
	first, last := lasted[0], lasted[len(lasted)-1]
	f.t.Logf("ended after %v to %v, the limit is %v", first.Round(time.Millisecond), last.Round(time.Millisecond), limit)
	if first < limit-limit/5 || soak && last > limit+lateTime {
		f.t.Errorf("ended after %v to %v, the limit is %v", first, last, limit)
	}
}

// healthy sends n good requests from each of several callers. Half of the callers use a
// new connection for each request. It returns the duration of each request, in order.
func healthy(t *testing.T, c client, n int) []time.Duration {
	t.Helper()
	const callers, pace = 4, 15 * time.Millisecond
	took := make([][]time.Duration, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			own := &http.Client{Transport: &http.Transport{DisableKeepAlives: i%2 == 0}, Timeout: hang}
			defer own.CloseIdleConnections()
			turn := time.NewTicker(pace)
			defer turn.Stop()
			for range n {
				at := time.Now()
				if err := lists(own, c); err != nil {
					t.Errorf("a healthy request: %v", err)
					return
				}
				took[i] = append(took[i], time.Since(at))
				<-turn.C
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	every := slices.Concat(took...)
	slices.Sort(every)
	return every
}

func lists(own *http.Client, c client) error {
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

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak is the most memory that a process ever had.
func peak(t testing.TB, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := highWater.FindSubmatch(status)
	if found == nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// TestSlowConnectionsBesideHealthyOnes opens many connections that send their head one
// byte at a time, and many with a key that send their body so. Other requests are
// answered, and the server ends each slow connection at its limit. A soak also measures
// the other requests and the memory, before it lets other tests run beside it.
func TestSlowConnectionsBesideHealthyOnes(t *testing.T) {
	if !soak {
		t.Parallel()
	}
	r := newRig(t, binary(t, release))
	env := r.env(t.TempDir(), "")
	_, key := r.account(env, "owner@example.com", "complete", 0)
	p, c := r.serve(env)
	c.ready.APIKey = key
	address := strings.TrimPrefix(c.ready.APIURL, "http://")
	flooded := func() (heads, bodies *flood) {
		bodies = newFlood(t, address, "POST /v1/tenants/00000000-0000-0000-0000-000000000001/domains HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+key+
			"\r\nIdempotency-Key: slow\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"domain\":\"")
		return newFlood(t, address, "GET /v1/tenants HTTP/1.1\r\nHost: x\r\nX-Slow: "), bodies
	}
	var heads, bodies *flood
	if soak {
		heads, bodies = measured(t, p, c, flooded)
		t.Parallel()
	} else {
		heads, bodies = flooded()
		healthy(t, c, 10)
	}
	server := httpapi.Server("", nil)
	heads.endAfter(server.ReadHeaderTimeout, 0)
	bodies.endAfter(server.ReadTimeout, http.StatusBadRequest)
	healthy(t, c, 10)
}

// measured checks the time of healthy requests beside a flood, and the memory that the
// flood takes. A busy machine gets more tries: a server that is held up is so each time.
func measured(t *testing.T, p *process, c client, flooded func() (heads, bodies *flood)) (heads, bodies *flood) {
	t.Helper()
	healthy(t, c, 30)
	before := peak(t, p.cmd.Process.Pid)
	const tries = 3
	for try := 1; ; try++ {
		heads, bodies = flooded()
		took := healthy(t, c, 250)
		middle, p99 := took[len(took)/2], took[len(took)*99/100]
		held := heads.held() + bodies.held()
		t.Logf("try %d: %d healthy requests beside %d slow ones, median %v, 99th percentile %v, longest %v",
			try, len(took), held, middle, p99, took[len(took)-1])
		if p99 < healthyP99 && held == 2*slowEach() {
			break
		}
		if try == tries {
			t.Fatalf("the 99th percentile is %v, beside %d slow connections", p99, held)
		}
	}
	grown, most := peak(t, p.cmd.Process.Pid)-before, 2*slowEach()*64<<10 // 64 KiB each
	t.Logf("%d slow connections took %d MiB", 2*slowEach(), grown>>20)
	if grown > most {
		t.Errorf("%d slow connections may take %d MiB", 2*slowEach(), most>>20)
	}
	return heads, bodies
}
