// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/core/dns"

	"github.com/tenantry/tenantry/plugins/conformance"
)

// dnsServer is the DNS server that the simulator queries.
type dnsServer struct {
	url string

	mu      sync.Mutex
	records map[string][]dns.Record
}

func newDNSServer(t conformance.T) *dnsServer {
	t.Helper()
	z := &dnsServer{records: map[string][]dns.Record{}}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	server := &wire.Server{PacketConn: conn, Handler: z, NotifyStartedFunc: func() { close(started) }}
	go func() { _ = server.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = server.Shutdown() })
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"addr":"` + conn.LocalAddr().String() + `"}`))
	}))
	t.Cleanup(web.Close)
	z.url = web.URL
	return z
}

func (z *dnsServer) publish(zone string, records []dns.Record) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.records[zone] = records
}

// ServeDNS answers with the published records.
func (z *dnsServer) ServeDNS(w wire.ResponseWriter, q *wire.Msg) {
	z.mu.Lock()
	defer z.mu.Unlock()
	asked := q.Question[0]
	m := new(wire.Msg).SetReply(q)
	for _, records := range z.records {
		for _, r := range records {
			if strings.EqualFold(r.Name+".", asked.Name) && wire.StringToType[string(r.Type)] == asked.Qtype {
				m.Answer = append(m.Answer, resource(r))
			}
		}
	}
	_ = w.WriteMsg(m)
}

func resource(r dns.Record) wire.RR {
	content := r.Content + "."
	switch r.Type {
	case dns.TXT:
		content = fmt.Sprintf("%q", r.Content)
	case dns.MX:
		content = fmt.Sprintf("%d %s.", r.Preference, r.Content)
	}
	rr, err := wire.NewRR(fmt.Sprintf("%s. 60 IN %s %s", r.Name, r.Type, content))
	if err != nil {
		panic(err) // no test publishes an invalid record
	}
	return rr
}
