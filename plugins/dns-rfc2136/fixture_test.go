// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// testTimeout is long enough for a slow machine. A call exceeds it only if a server never answers.
const testTimeout = 4 * time.Minute

// newTestProvider returns a provider whose calls time out after testTimeout.
func newTestProvider(connection sdk.Connection) (sdk.DNSProvider, error) {
	created, err := newProvider(connection)
	if p, ok := created.(*provider); ok {
		p.timeout, p.dialer = testTimeout, sdk.NewDialer(testTimeout, connection.Settings["allow_private"] == "true")
	}
	return created, err
}

// fixture is a real BIND server behind a proxy that can lose requests and answers. fixture
// implements conformance.DNSFixture.
type fixture struct {
	server          *testserver.BIND
	proxy           net.Listener
	newProviderFunc func(sdk.Connection) (sdk.DNSProvider, error)
	nextFailure     atomic.Int64 // a conformance.Failure for the next update
	zonesUsed       atomic.Int64 // number of zones that NewZone has returned
}

// zonesOnServer is the number of zones of the BIND server.
const zonesOnServer = 48

func zoneName(n int64) string { return fmt.Sprintf("zone-%d.test", n) }

func newFixture(t conformance.T) *fixture {
	t.Helper()
	var zones []string
	for n := range int64(zonesOnServer) {
		zones = append(zones, zoneName(n+1))
	}
	server, err := testserver.StartBIND(t.Context(), zones...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	f := &fixture{server: server, newProviderFunc: newTestProvider}
	if f.proxy, err = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.proxy.Close() })
	go f.acceptConns()
	return f
}

func (f *fixture) acceptConns() {
	for {
		conn, err := f.proxy.Accept()
		if err != nil {
			return
		}
		go f.proxyConn(conn)
	}
}

// proxyConn forwards one connection to the server. It reads the client's data message by message,
// so that it can apply nextFailure to an update.
func (f *fixture) proxyConn(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", f.server.Addr)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var dropAnswers atomic.Bool
	go func() {
		buffer := make([]byte, 1<<16)
		for {
			n, err := server.Read(buffer)
			if err != nil || dropAnswers.Load() {
				_ = client.Close()
				return
			}
			_, _ = client.Write(buffer[:n])
		}
	}()
	for {
		var size [2]byte
		if _, err := io.ReadFull(client, size[:]); err != nil {
			return
		}
		message := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(client, message); err != nil {
			return
		}
		if opcode := message[2] >> 3 & 15; opcode == wire.OpcodeUpdate {
			switch conformance.Failure(f.nextFailure.Swap(0)) {
			case conformance.LosesRequest:
				return
			case conformance.LosesAnswer:
				dropAnswers.Store(true)
			}
		}
		_, _ = server.Write(append(size[:], message...))
	}
}

// connection returns a connection with the zones that NewZone has returned. If it has returned
// none, the connection has the first zone, because the setting zones is required.
func (f *fixture) connection(secretText string) sdk.Connection {
	var zones []string
	for n := range f.zonesUsed.Load() {
		zones = append(zones, zoneName(n+1))
	}
	if len(zones) == 0 {
		zones = append(zones, zoneName(1))
	}
	return sdk.Connection{
		Settings: map[string]string{
			"server": f.proxy.Addr().String(), "zones": strings.Join(zones, ","), "key_name": f.server.Key, "allow_private": "true",
		},
		Secrets: map[string]sdk.Secret{"key_secret": sdk.NewSecret(secretText)},
	}
}

func (f *fixture) providerWithSecret(secretText string) sdk.DNSProvider {
	p, err := f.newProviderFunc(f.connection(secretText))
	if err != nil {
		panic(err)
	}
	return p
}

func (f *fixture) Provider() sdk.DNSProvider { return f.providerWithSecret(f.server.Secret) }

// Refused returns a provider with a secret that the server rejects.
func (f *fixture) Refused() sdk.DNSProvider { return f.providerWithSecret("Z3Vlc3NlZA==") }

func (f *fixture) NewZone(t conformance.T) string {
	n := f.zonesUsed.Add(1)
	if n > zonesOnServer {
		t.Fatal("the server has no more zones")
	}
	return zoneName(n)
}

func (f *fixture) Lose(_ conformance.T, failure conformance.Failure) {
	f.nextFailure.Store(int64(failure))
}

// addTSIG adds a TSIG record with the server's key to a message. It returns the secrets with which
// the client signs the message.
func (f *fixture) addTSIG(msg *wire.Msg) map[string]string {
	name := wire.Fqdn(f.server.Key)
	msg.SetTsig(name, wire.HmacSHA256, 300, time.Now().Unix())
	return map[string]string{name: f.server.Secret}
}

func (f *fixture) Put(t conformance.T, zone string, s sdk.RRSet) {
	t.Helper()
	msg := new(wire.Msg).SetUpdate(zone + ".")
	msg.RemoveRRset([]wire.RR{&wire.ANY{Hdr: wire.RR_Header{Name: s.Name + ".", Rrtype: wire.StringToType[string(s.Type)]}}})
	for _, v := range s.Values {
		rr, err := wire.NewRR(fmt.Sprintf("%s. %d IN %s %s", s.Name, s.TTL, s.Type, sdk.WriteContent(s.Type, v)))
		if err != nil {
			t.Fatal(err)
		}
		msg.Insert([]wire.RR{rr})
	}
	f.update(t, msg)
}

// update sends a signed message directly to the server.
func (f *fixture) update(t conformance.T, msg *wire.Msg) {
	t.Helper()
	client := &wire.Client{Net: "tcp", Timeout: testTimeout, TsigSecret: f.addTSIG(msg)}
	answer, _, err := client.ExchangeContext(context.WithoutCancel(t.Context()), msg, f.server.Addr)
	if err != nil || answer.Rcode != wire.RcodeSuccess {
		t.Fatalf("the server answers the update with %v, %v, want NOERROR", answer, err)
	}
}

// Held reads the zone by a zone transfer. It omits the SOA set and the zone's own NS set.
func (f *fixture) Held(t conformance.T, zone string) []sdk.RRSet {
	t.Helper()
	var held []simulate.Record
	for _, rr := range f.transfer(t, zone) {
		header := rr.Header()
		name := strings.TrimSuffix(header.Name, ".")
		if header.Rrtype == wire.TypeSOA || (header.Rrtype == wire.TypeNS && name == zone) {
			continue
		}
		value := strings.TrimSuffix(strings.TrimPrefix(rr.String(), header.String()), ".")
		if text, ok := rr.(*wire.TXT); ok {
			value, _ = sdk.UnquoteText(`"` + strings.Join(text.Txt, "") + `"`)
		}
		held = append(held, simulate.Record{Type: wire.TypeToString[header.Rrtype], Name: name, Content: value, TTL: int(header.Ttl)})
	}
	return simulate.SetsOf(held)
}

// transfer reads all records of a zone directly from the server.
func (f *fixture) transfer(t conformance.T, zone string) []wire.RR {
	t.Helper()
	query := new(wire.Msg).SetAxfr(zone + ".")
	parts, err := (&wire.Transfer{DialTimeout: testTimeout, ReadTimeout: testTimeout, WriteTimeout: testTimeout, TsigSecret: f.addTSIG(query)}).In(query, f.server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	var records []wire.RR
	for part := range parts {
		if part.Error != nil {
			t.Fatal(part.Error)
		}
		records = append(records, part.RR...)
	}
	return records
}
