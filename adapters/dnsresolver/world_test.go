// SPDX-License-Identifier: Apache-2.0

package dnsresolver_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	wire "github.com/miekg/dns"
	"github.com/tenantry/tenantry/adapters/dnsresolver"
	"github.com/tenantry/tenantry/core/dns"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // those that run in parallel wait
	goleak.VerifyTestMain(m)
}

// world is a small DNS of ours: a resolver on 127.0.0.1 and name servers on
// 127.0.0.2 and up, all on one port.
type world struct {
	t    testing.TB
	port int
	// cut is what the resolver knows: the records it answers with.
	cut *served
	// wait is how long a reader waits for an answer, hang when zero.
	wait time.Duration
}

// standard is the zone that most tests read.
const standard = `
example.test. 300 IN SOA ns1.example.test. hostmaster.example.test. 7 3600 600 86400 60
example.test. 300 IN NS ns1.example.test.
example.test. 300 IN NS ns2.example.test.
example.test. 600 IN MX 10 backup.example.net.
example.test. 300 IN MX 5 Mail.Example.net.
example.test. 300 IN TXT "v=spf1 " "-all"
_dmarc.example.test. 300 IN TXT "v=DMARC1; p=none"
selector1._domainkey.example.test. 300 IN CNAME s1.dkim.example.net.
selector2._domainkey.example.test. 300 IN TXT "v=DKIM1; p=abc"
autodiscover.example.test. 300 IN A 192.0.2.7
`

const delegation = `
example.test. 300 IN SOA ns1.example.test. hostmaster.example.test. 7 3600 600 86400 60
example.test. 300 IN NS ns1.example.test.
example.test. 300 IN NS ns2.example.test.
ns1.example.test. 300 IN A 127.0.0.2
ns2.example.test. 300 IN A 127.0.0.3
`

// newWorld starts the resolver with what it knows.
func newWorld(t testing.TB, records string) *world {
	t.Helper()
	w := &world{t: t, cut: zone(t, records)}
	for try := 0; ; try++ {
		l, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		w.port = l.LocalAddr().(*net.UDPAddr).Port
		tcp, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", w.port))
		if err == nil {
			run(t, l, tcp, w.cut)
			return w
		}
		_ = l.Close()
		if try == 10 {
			t.Fatal(err)
		}
	}
}

// server starts a name server at an address of the loopback network.
func (w *world) server(ip string, h wire.Handler) {
	w.t.Helper()
	addr := fmt.Sprintf("%s:%d", ip, w.port)
	udp, err := net.ListenPacket("udp", addr)
	if err != nil {
		w.t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", addr)
	if err != nil {
		w.t.Fatal(err)
	}
	run(w.t, udp, tcp, h)
}

func run(t testing.TB, udp net.PacketConn, tcp net.Listener, h wire.Handler) {
	t.Helper()
	for _, s := range []*wire.Server{{PacketConn: udp, Handler: h}, {Listener: tcp, Handler: h}} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		var wg sync.WaitGroup
		wg.Go(func() { _ = s.ActivateAndServe() })
		<-started
		t.Cleanup(func() { _ = s.Shutdown(); wg.Wait() })
	}
}

// hang is how long a test waits for an event. Only a test that hangs reaches it.
const hang = 4 * time.Minute

// brief is how long a reader waits for a server that never answers. The others
// have that long too, so it is generous.
const brief = time.Second

// reader reads through the world's resolver.
func (w *world) reader() *dnsresolver.Reader {
	wait := cmp.Or(w.wait, hang)
	return dnsresolver.New(dnsresolver.Options{
		Resolvers:    []string{fmt.Sprintf("127.0.0.1:%d", w.port)},
		Port:         w.port,
		AllowPrivate: true,
		Timeout:      hang,
		UDPTimeout:   wait,
		TCPTimeout:   wait,
	})
}

func (w *world) read(name string) dns.Sight {
	w.t.Helper()
	sight, err := w.reader().Read(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	return sight
}

// served answers from a list of records and counts what it was asked.
type served struct {
	mu      sync.Mutex
	records []wire.RR
	asked   map[string]int
	// refer makes it answer as a zone above does; fails is a name it fails
	// on; change is made to each answer.
	refer  bool
	fails  string
	change func(m, q *wire.Msg)
}

func zone(t testing.TB, records string) *served {
	t.Helper()
	s := &served{asked: map[string]int{}}
	z := wire.NewZoneParser(strings.NewReader(records), "", "")
	for rr, ok := z.Next(); ok; rr, ok = z.Next() {
		s.records = append(s.records, rr)
	}
	if err := z.Err(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *served) ServeDNS(w wire.ResponseWriter, q *wire.Msg) { _ = w.WriteMsg(s.answer(w, q)) }

func (s *served) answer(w wire.ResponseWriter, q *wire.Msg) *wire.Msg {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, qtype := q.Question[0].Name, q.Question[0].Qtype
	s.asked[strings.ToLower(name)+" "+wire.TypeToString[qtype]]++
	m := new(wire.Msg)
	m.SetReply(q)
	m.Authoritative = true
	defer s.twist(m, q)
	if s.refer {
		m.Authoritative, m.Ns = false, s.records
		return m
	}
	for range 12 {
		next := ""
		for _, rr := range s.records {
			if !strings.EqualFold(rr.Header().Name, name) {
				continue
			}
			if c, ok := rr.(*wire.CNAME); ok && qtype != wire.TypeCNAME {
				next = c.Target
			}
			if rr.Header().Rrtype == qtype || next != "" {
				m.Answer = append(m.Answer, rr)
			}
		}
		if next == "" {
			break
		}
		name = next
	}
	if len(m.Answer) == 0 {
		s.deny(m, name)
	}
	if w.RemoteAddr().Network() == "udp" {
		size := wire.MinMsgSize
		if o := q.IsEdns0(); o != nil {
			size = int(o.UDPSize())
		}
		m.Truncate(size)
	}
	return m
}

// changing makes a change to each answer from now on.
func (s *served) changing(change func(m, q *wire.Msg)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change = change
}

// failing makes it fail on a name from now on.
func (s *served) failing(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = name
}

// twist makes an answer what the test wants it to be.
func (s *served) twist(m, q *wire.Msg) {
	if s.fails != "" && strings.EqualFold(s.fails, q.Question[0].Name) {
		m.SetRcode(q, wire.RcodeServerFailure)
	}
	if s.change != nil {
		s.change(m, q)
	}
}

// deny says that there is nothing, and whether there is not even the name.
func (s *served) deny(m *wire.Msg, name string) {
	m.Rcode = wire.RcodeNameError
	for _, rr := range s.records {
		owner := rr.Header().Name
		if wire.IsSubDomain(name, owner) {
			m.Rcode = wire.RcodeSuccess
		}
		if rr.Header().Rrtype == wire.TypeSOA && wire.IsSubDomain(owner, name) && (len(m.Ns) == 0 || len(owner) > len(m.Ns[0].Header().Name)) {
			m.Ns = []wire.RR{rr}
		}
	}
}

func (s *served) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[what]
}

func (s *served) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.asked)
}

// replace makes the zone serve other records.
func (s *served) replace(records []wire.RR) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = records
}

// values finds what a sight says at a name and type.
func values(s dns.Sight, name string, kind dns.Type) []string {
	for _, set := range s.Sets {
		if set.Name == name && set.Type == kind {
			return set.Values
		}
	}
	return nil
}
