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
	"github.com/tenantry/tenantry/adapters/testserver/leaks"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/ports/contract"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // more than the processors, because parallel tests mostly wait
	leaks.VerifyTestMain(m)
}

// fixture is a small DNS for one test: a resolver on 127.0.0.1, and name servers on 127.0.0.2 and
// the following addresses. All use the same port.
type fixture struct {
	t    testing.TB
	port int
	// resolver is the recursive resolver. It answers from its own list of records.
	resolver *recordServer
	// questionTimeout is the timeout of one question. Zero means hangTimeout.
	questionTimeout time.Duration
}

// standardZone is the zone of most tests.
const standardZone = `
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

// delegation holds the resolver's records about example.test and its name servers.
const delegation = `
example.test. 300 IN SOA ns1.example.test. hostmaster.example.test. 7 3600 600 86400 60
example.test. 300 IN NS ns1.example.test.
example.test. 300 IN NS ns2.example.test.
ns1.example.test. 300 IN A 127.0.0.2
ns2.example.test. 300 IN A 127.0.0.3
`

// newFixture returns a fixture whose resolver answers with these records.
func newFixture(t testing.TB, records string) *fixture {
	t.Helper()
	env := &fixture{t: t, resolver: newServer(t, records)}
	for try := 0; ; try++ { // until a port is free for UDP and for TCP
		udp, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		env.port = udp.LocalAddr().(*net.UDPAddr).Port
		tcp, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", env.port))
		if err == nil {
			serve(t, udp, tcp, env.resolver)
			return env
		}
		_ = udp.Close()
		if try == 10 {
			t.Fatal(err)
		}
	}
}

// startServer starts a name server at an address of the loopback network.
func (f *fixture) startServer(ip string, handler wire.Handler) {
	f.t.Helper()
	addr := fmt.Sprintf("%s:%d", ip, f.port)
	udp, err := net.ListenPacket("udp", addr)
	if err != nil {
		f.t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", addr)
	if err != nil {
		f.t.Fatal(err)
	}
	serve(f.t, udp, tcp, handler)
}

// startServers starts two name servers with these records, on 127.0.0.2 and 127.0.0.3.
func (f *fixture) startServers(records string) {
	f.t.Helper()
	f.startServer("127.0.0.2", newServer(f.t, records))
	f.startServer("127.0.0.3", newServer(f.t, records))
}

// serve answers with handler until the test ends.
func serve(t testing.TB, udp net.PacketConn, tcp net.Listener, handler wire.Handler) {
	t.Helper()
	for _, s := range []*wire.Server{{PacketConn: udp, Handler: handler}, {Listener: tcp, Handler: handler}} {
		s.ReadTimeout = hangTimeout // the default of 2 s closes the connection of a slow client
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		var running sync.WaitGroup
		running.Go(func() { _ = s.ActivateAndServe() })
		<-started
		t.Cleanup(func() { _ = s.Shutdown(); running.Wait() })
	}
}

// hangTimeout is how long a test waits for an event. It is exceeded only if something hangs.
const hangTimeout = 4 * time.Minute

// eachTimeout is for tests with a server that never answers. It passes attempt a short timeout of a
// question. If attempt fails, eachTimeout repeats it with longer timeouts, because on a busy
// machine the servers that answer may be too slow. If attempt fails with the longest timeout, the
// test fails.
func eachTimeout(t *testing.T, attempt func(timeout time.Duration) error) {
	t.Helper()
	var err error
	for _, timeout := range []time.Duration{time.Second, 5 * time.Second, 30 * time.Second} {
		if err = attempt(timeout); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// options returns the options of a Reader that uses the fixture's resolver.
func (f *fixture) options() dnsresolver.Options {
	timeout := cmp.Or(f.questionTimeout, hangTimeout)
	return dnsresolver.Options{
		Resolvers:    []string{fmt.Sprintf("127.0.0.1:%d", f.port)},
		Port:         f.port,
		AllowPrivate: true,
		Timeout:      hangTimeout,
		UDPTimeout:   timeout,
		TCPTimeout:   timeout,
	}
}

func (f *fixture) reader() *dnsresolver.Reader { return dnsresolver.New(f.options()) }

func (f *fixture) read(name string) dns.ZoneRead {
	f.t.Helper()
	zoneRead, err := f.reader().Read(f.t.Context(), "ann", name)
	if err != nil {
		f.t.Fatal(err)
	}
	return zoneRead
}

// recordServer answers from a list of records and counts the questions.
type recordServer struct {
	mu             sync.Mutex
	records        []wire.RR
	questionCounts map[string]int
	refersOnly     bool                   // answer with referrals, like a server of the parent zone
	failName       string                 // answer SERVFAIL for this name
	change         func(msg, q *wire.Msg) // applied to each answer, unless nil
}

// newServer returns a server that answers from these records.
func newServer(t contract.T, records string) *recordServer {
	t.Helper()
	server := &recordServer{questionCounts: map[string]int{}}
	parser := wire.NewZoneParser(strings.NewReader(records), "", "")
	for rr, ok := parser.Next(); ok; rr, ok = parser.Next() {
		server.records = append(server.records, rr)
	}
	if err := parser.Err(); err != nil {
		t.Fatal(err)
	}
	return server
}

func (s *recordServer) ServeDNS(w wire.ResponseWriter, q *wire.Msg) { _ = w.WriteMsg(s.answer(w, q)) }

func (s *recordServer) answer(w wire.ResponseWriter, q *wire.Msg) *wire.Msg {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, qtype := q.Question[0].Name, q.Question[0].Qtype
	s.questionCounts[strings.ToLower(name)+" "+wire.TypeToString[qtype]]++
	msg := new(wire.Msg)
	msg.SetReply(q)
	msg.Authoritative = true
	defer s.applyFaults(msg, q)
	if s.refersOnly {
		msg.Authoritative, msg.Ns = false, s.records
		return msg
	}
	const maxCNAMEs = 12 // more than a Reader follows
	for range maxCNAMEs {
		target := ""
		for _, rr := range s.records {
			if !strings.EqualFold(rr.Header().Name, name) {
				continue
			}
			if cname, ok := rr.(*wire.CNAME); ok && qtype != wire.TypeCNAME {
				target = cname.Target
			}
			if rr.Header().Rrtype == qtype || target != "" {
				msg.Answer = append(msg.Answer, rr)
			}
		}
		if target == "" {
			break
		}
		name = target
	}
	if len(msg.Answer) == 0 {
		s.answerNegative(msg, name)
	}
	if w.RemoteAddr().Network() == "udp" {
		size := wire.MinMsgSize
		if edns := q.IsEdns0(); edns != nil {
			size = int(edns.UDPSize())
		}
		msg.Truncate(size)
	}
	return msg
}

// setChange sets the change that is applied to each answer.
func (s *recordServer) setChange(change func(msg, q *wire.Msg)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change = change
}

// failOn makes the server answer SERVFAIL for a name.
func (s *recordServer) failOn(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failName = name
}

// applyFaults changes an answer as failName and change say.
func (s *recordServer) applyFaults(msg, q *wire.Msg) {
	if s.failName != "" && strings.EqualFold(s.failName, q.Question[0].Name) {
		msg.SetRcode(q, wire.RcodeServerFailure)
	}
	if s.change != nil {
		s.change(msg, q)
	}
}

// answerNegative makes msg a negative answer: NXDOMAIN, or NOERROR when the name exists.
func (s *recordServer) answerNegative(msg *wire.Msg, name string) {
	msg.Rcode = wire.RcodeNameError
	for _, rr := range s.records {
		owner := rr.Header().Name
		if wire.IsSubDomain(name, owner) {
			msg.Rcode = wire.RcodeSuccess
		}
		if rr.Header().Rrtype == wire.TypeSOA && wire.IsSubDomain(owner, name) && (len(msg.Ns) == 0 || len(owner) > len(msg.Ns[0].Header().Name)) {
			msg.Ns = []wire.RR{rr}
		}
	}
}

// count returns how often the server received a question, such as "example.test. MX".
func (s *recordServer) count(question string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.questionCounts[question]
}

func (s *recordServer) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.questionCounts)
}

func (s *recordServer) replace(records []wire.RR) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = records
}

// values returns the values of a ZoneRead at a name and type, or nil.
func values(zoneRead dns.ZoneRead, name string, kind dns.Type) []string {
	for _, set := range zoneRead.Sets {
		if set.Name == name && set.Type == kind {
			return set.Values
		}
	}
	return nil
}
