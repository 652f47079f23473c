// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// scissors stand between the service and its database, and can cut a connection
// in the middle of a COMMIT: before the database sees it, or when it is done
// and only the answer is missing. Nobody can tell the two apart.
type scissors struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	skip  int // how many COMMITs pass before the one that is cut
	armed bool
	done  bool // cut when the database has done it
	cut   int
}

func newScissors(t *testing.T, to string) *scissors {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s := &scissors{listener: l, to: to}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go s.connect(near)
		}
	}()
	return s
}

func (s *scissors) connect(near net.Conn) {
	defer func() { _ = near.Close() }()
	far, err := net.Dial("tcp", s.to)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	deaf := make(chan struct{}) // closes when answers are no longer passed on
	go func() {
		defer func() { _ = near.Close() }()
		buffer := make([]byte, 64<<10)
		for {
			n, err := far.Read(buffer)
			select {
			case <-deaf:
				return // the answer to the COMMIT has come, and is dropped
			default:
			}
			if _, fail := near.Write(buffer[:n]); err != nil || fail != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := near.Read(buffer)
		cut, done := s.due(buffer[:n])
		if cut && !done {
			return
		}
		if cut {
			close(deaf)
		}
		if _, fail := far.Write(buffer[:n]); err != nil || fail != nil {
			return
		}
		if cut {
			_, _ = io.Copy(io.Discard, near) // until the other side has read the answer
			return
		}
	}
}

// due says whether this is the COMMIT to cut, and how.
func (s *scissors) due(sent []byte) (cut, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.armed || !bytes.Contains(bytes.ToLower(sent), []byte("commit\x00")) {
		return false, false
	}
	if s.skip > 0 {
		s.skip--
		return false, false
	}
	s.armed = false
	s.cut++
	return true, s.done
}

func (s *scissors) arm(skip int, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed, s.skip, s.done, s.cut = true, skip, done, 0
}

// disarm says how often it has cut.
func (s *scissors) disarm() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = false
	return s.cut
}

// TestConnectionLostInCommit: each write with each of its COMMITs cut. It is
// answered well or with 503 and when to come back, the same request again
// succeeds, and whatever the database did, there is one effect.
func TestConnectionLostInCommit(t *testing.T) {
	t.Parallel()
	direct := testserver.Database(t)
	address, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	s := newScissors(t, address.Host)
	address.Host = s.listener.Addr().String()
	o := newOnDatabase(t, direct, address.String())
	o.furnish()
	most, cuts := 1, 0
	if soak {
		most = 6
	}
	for _, done := range []bool{false, true} {
		if done {
			o.moves() // a tenant holds 12 domains
		}
		for skip := range most {
			cuts += o.eachWrite(s, skip, done)
		}
	}
	t.Logf("%d COMMITs were cut", cuts)
	if cuts < 4 {
		t.Errorf("only %d COMMITs were cut", cuts)
	}
	o.createdOnce()
}

// eachWrite does every write once, on a domain of its own.
func (o *onDatabase) eachWrite(s *scissors, skip int, done bool) (cuts int) {
	o.t.Helper()
	name := fmt.Sprintf("commit-%d.test", serial.Add(1))
	if err := o.rig.zones.Add(name, "manual"); err != nil {
		o.t.Fatal(err)
	}
	write := func(method, path string, body any) reply {
		o.t.Helper()
		s.arm(skip, done)
		got, met := o.insists(s, method, path, body)
		cuts += met
		return got
	}
	write("POST", o.path("/domains"), object{"domain": name})
	o.publish(name)
	sees(o.t, write("POST", o.domain(name, "/verify"), nil).object, object{"is_verified": true})
	got := write("POST", o.path("/mailboxes"), boxes(name, "ada", "max"))
	if got.at("created_count") != 2.0 {
		o.t.Errorf("skip %d, done %v: %s", skip, done, got.raw)
	}
	write("POST", o.path("/sync"), nil)
	for _, m := range o.get(o.path("/mailboxes")).objects("mailboxes") {
		if strings.HasSuffix(m.text("primary_smtp"), name) {
			write("PATCH", o.path("/mailboxes/"+m.text("id")), object{"daily_send_limit": 3})
			if o.limit(m.text("id")) != 3.0 {
				o.t.Errorf("the limit of %v", m)
			}
		}
	}
	return cuts
}

// insists sends a request with one key until it succeeds.
func (o *onDatabase) insists(s *scissors, method, path string, body any) (reply, int) {
	o.t.Helper()
	key, met := fmt.Sprint("commit-", serial.Add(1)), 0
	for deadline := time.Now().Add(hang); time.Now().Before(deadline); {
		got, err := o.tryAs(key, method, o.ready.APIURL+path, o.key, body)
		met += s.disarm()
		if err == nil && got.status == http.StatusOK {
			return got, min(met, 1)
		}
		if err != nil || got.status != 503 && got.status != 504 || got.status == 503 && got.header.Get("Retry-After") == "" {
			o.t.Fatalf("%s %s: %d %s, %v", method, path, got.status, got.raw, err)
		}
	}
	o.t.Fatalf("%s %s did not succeed in %s", method, path, hang)
	return reply{}, met
}

// createdOnce looks for what was made twice at the mail platform.
func (o *onDatabase) createdOnce() {
	o.t.Helper()
	made := map[string]int{}
	for _, q := range o.rig.requests() {
		adds := q.method == http.MethodPost && strings.HasSuffix(q.path, "/domains")
		if q.status < 300 && (adds || q.cmdlet() == "New-Mailbox") {
			made[q.path+" "+string(q.body)]++
		}
	}
	if len(made) < 6 {
		o.t.Errorf("only %d creations were seen", len(made))
	}
	for what, times := range made {
		if times > 1 {
			o.t.Errorf("done %d times: %s", times, what)
		}
	}
}
