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

// world is the outside: a DNS server that the simulator asks.
type world struct {
	url string

	mu      sync.Mutex
	records []string
	silent  bool // the world does not say where its DNS is
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{}
	conn, listener := bothProtocols(t)
	started := make(chan struct{})
	udp := &dns.Server{PacketConn: conn, Handler: w, NotifyStartedFunc: func() { close(started) }}
	go func() { _ = udp.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = udp.Shutdown() })
	ready := make(chan struct{})
	tcp := &dns.Server{Listener: listener, Handler: w, NotifyStartedFunc: func() { close(ready) }}
	go func() { _ = tcp.ActivateAndServe() }()
	<-ready
	t.Cleanup(func() { _ = tcp.Shutdown() })

	web := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.silent {
			_, _ = rw.Write([]byte(`{"addr":"` + conn.LocalAddr().String() + `"}`))
		}
	}))
	t.Cleanup(web.Close)
	w.url = web.URL
	return w
}

// bothProtocols listens on one port over UDP and TCP. A port that is free for
// one may be taken for the other, so it tries a few.
func bothProtocols(t *testing.T) (net.PacketConn, net.Listener) {
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
func (w *world) publish(records ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records = append(w.records, records...)
}

func (w *world) silence(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = on
}

// ServeDNS answers exactly what was published, and UDP answers with more than
// four records as truncated.
func (w *world) ServeDNS(rw dns.ResponseWriter, q *dns.Msg) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := new(dns.Msg).SetReply(q)
	for _, text := range w.records {
		rr, err := dns.NewRR(text)
		if err == nil && strings.EqualFold(rr.Header().Name, q.Question[0].Name) && rr.Header().Rrtype == q.Question[0].Qtype {
			m.Answer = append(m.Answer, rr)
		}
	}
	if _, udp := rw.RemoteAddr().(*net.UDPAddr); udp && len(m.Answer) > 4 {
		m.Truncated, m.Answer = true, nil
	}
	_ = rw.WriteMsg(m)
}
