// SPDX-License-Identifier: Apache-2.0

package dnsresolver_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// powerDNS is a real name server into which tests load zones.
type powerDNS struct{ *testserver.PowerDNS }

func newPowerDNS(t testing.TB) powerDNS {
	t.Helper()
	server, err := testserver.StartPowerDNS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return powerDNS{server}
}

func (p powerDNS) addr() string { return p.DNS }

// load creates a zone with these records through the HTTP API.
func (p powerDNS) load(t testing.TB, zone string, records []wire.RR) {
	t.Helper()
	type record struct {
		Content string `json:"content"`
	}
	type rrset struct {
		Name    string   `json:"name"`
		Type    string   `json:"type"`
		TTL     uint32   `json:"ttl"`
		Records []record `json:"records"`
	}
	var sets []*rrset
	setByKey := map[string]*rrset{}
	for _, rr := range records {
		header := rr.Header()
		key := header.Name + wire.TypeToString[header.Rrtype]
		if setByKey[key] == nil {
			setByKey[key] = &rrset{Name: header.Name, Type: wire.TypeToString[header.Rrtype], TTL: header.Ttl}
			sets = append(sets, setByKey[key])
		}
		setByKey[key].Records = append(setByKey[key].Records, record{strings.TrimPrefix(rr.String(), header.String())})
	}
	body, err := json.Marshal(map[string]any{"name": zone + ".", "kind": "Native", "nameservers": []string{}, "soa_edit_api": "", "rrsets": sets})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.API+"/api/v1/servers/localhost/zones", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", p.Key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if answer, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusCreated {
		t.Fatalf("creating the zone %s: %d %s, want 201", zone, resp.StatusCode, answer)
	}
}

// bind is a real name server into which tests load records. It starts with empty zones, which have
// only SOA and NS records.
type bind struct{ *testserver.BIND }

func newBIND(t testing.TB, zones ...string) bind {
	t.Helper()
	server, err := testserver.StartBIND(t.Context(), zones...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return bind{server}
}

func (b bind) addr() string { return b.Addr }

// load adds these records to a zone by a dynamic update.
func (b bind) load(t testing.TB, zone string, records []wire.RR) {
	t.Helper()
	msg := new(wire.Msg).SetUpdate(zone + ".")
	msg.Insert(records)
	msg.SetTsig(wire.Fqdn(b.Key), wire.HmacSHA256, 300, time.Now().Unix())
	client := &wire.Client{Net: "tcp", Timeout: hangTimeout, TsigSecret: map[string]string{wire.Fqdn(b.Key): b.Secret}}
	answer, _, err := client.ExchangeContext(t.Context(), msg, b.Addr)
	if err != nil || answer.Rcode != wire.RcodeSuccess {
		t.Fatalf("updating the zone %s: got %v, %v, want success", zone, answer, err)
	}
}

// forwardTo returns a handler that forwards each question to a real server and sends back the
// answer unchanged. The real server cannot be used directly, because all servers of a fixture share
// one port.
func forwardTo(address string) wire.Handler {
	return wire.HandlerFunc(func(w wire.ResponseWriter, q *wire.Msg) {
		packet, err := q.Pack()
		if err != nil {
			return
		}
		network := w.RemoteAddr().Network()
		conn, err := net.DialTimeout(network, address, hangTimeout)
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(hangTimeout))
		if network == "tcp" {
			packet = append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...)
		}
		if _, err := conn.Write(packet); err != nil {
			return
		}
		answer := make([]byte, wire.MaxMsgSize)
		if network == "tcp" {
			if _, err := io.ReadFull(conn, answer[:2]); err != nil {
				return
			}
			answer = answer[:binary.BigEndian.Uint16(answer)]
		}
		minBytes := 1 // one read returns a whole datagram
		if network == "tcp" {
			minBytes = len(answer)
		}
		n, err := io.ReadAtLeast(conn, answer, minBytes)
		if err != nil {
			return
		}
		_, _ = w.Write(answer[:n])
	})
}

// newRealServersFixture returns a fixture whose resolver delegates the zone to 127.0.0.2 and
// 127.0.0.3. The test starts servers at these addresses. resolverRecords are further records of the
// resolver.
func newRealServersFixture(t testing.TB, zone, resolverRecords string) *fixture {
	return newFixture(t, fmt.Sprintf(`
%[1]s. 300 IN SOA ns1.provider.example. hostmaster.provider.example. 7 3600 600 86400 60
%[1]s. 300 IN NS ns1.provider.example.
%[1]s. 300 IN NS ns2.provider.example.
ns1.provider.example. 300 IN A 127.0.0.2
ns2.provider.example. 300 IN A 127.0.0.3
`, zone)+resolverRecords)
}
