// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// fakeDNS is a DNS server with an HTTP interface that returns the address of the DNS server. The
// simulator gets the URL of the HTTP interface as Options.World. In `tenantry dev`, the sandbox
// serves that interface.
type fakeDNS struct {
	url string

	mu          sync.Mutex
	records     []string // in zone-file form
	unavailable bool     // the HTTP interface omits the address
}

// newFakeDNS starts the DNS server over UDP and TCP.
func newFakeDNS(t *testing.T) *fakeDNS {
	t.Helper()
	f := &fakeDNS{}
	conn, listener := listenUDPAndTCP(t)
	udpStarted := make(chan struct{})
	udp := &dns.Server{PacketConn: conn, Handler: f, NotifyStartedFunc: func() { close(udpStarted) }}
	go func() { _ = udp.ActivateAndServe() }()
	<-udpStarted
	t.Cleanup(func() { _ = udp.Shutdown() })
	tcpStarted := make(chan struct{})
	tcp := &dns.Server{Listener: listener, Handler: f, NotifyStartedFunc: func() { close(tcpStarted) }}
	go func() { _ = tcp.ActivateAndServe() }()
	<-tcpStarted
	t.Cleanup(func() { _ = tcp.Shutdown() })

	sandbox := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !f.unavailable {
			_, _ = rw.Write([]byte(`{"addr":"` + conn.LocalAddr().String() + `"}`))
		}
	}))
	t.Cleanup(sandbox.Close)
	f.url = sandbox.URL
	return f
}

// listenUDPAndTCP listens on one port over UDP and TCP. A free TCP port may be in use over UDP, so
// it tries up to 20 ports.
func listenUDPAndTCP(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 20 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.ListenPacket("udp", listener.Addr().String())
		if err == nil {
			return conn, listener
		}
		_ = listener.Close()
	}
	t.Fatal("no port is free for UDP and TCP")
	return nil, nil
}

// publish adds records in zone-file form.
func (f *fakeDNS) publish(records ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records = append(f.records, records...)
}

// setUnavailable sets whether the HTTP interface omits the address of the DNS server.
func (f *fakeDNS) setUnavailable(unavailable bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unavailable = unavailable
}

// ServeDNS answers with the published records. Over UDP, an answer of more than four records
// becomes an empty, truncated answer, so that the simulator asks again over TCP.
func (f *fakeDNS) ServeDNS(rw dns.ResponseWriter, query *dns.Msg) {
	f.mu.Lock()
	defer f.mu.Unlock()
	reply := new(dns.Msg).SetReply(query)
	for _, text := range f.records {
		rr, err := dns.NewRR(text)
		if err == nil && strings.EqualFold(rr.Header().Name, query.Question[0].Name) && rr.Header().Rrtype == query.Question[0].Qtype {
			reply.Answer = append(reply.Answer, rr)
		}
	}
	if _, udp := rw.RemoteAddr().(*net.UDPAddr); udp && len(reply.Answer) > 4 {
		reply.Truncated, reply.Answer = true, nil
	}
	_ = rw.WriteMsg(reply)
}
