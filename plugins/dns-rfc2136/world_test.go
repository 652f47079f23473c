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
	"testing"
	"time"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/ports/contract"
)

// hang is a timeout that only a server that never answers reaches, however slow
// the machine is.
const hang = 4 * time.Minute

// newPatientProvider is newProvider with hang as the timeout of its calls.
func newPatientProvider(c sdk.Connection) (sdk.DNSProvider, error) {
	made, err := newProvider(c)
	if p, ok := made.(*provider); ok {
		p.timeout, p.dialer.Timeout = hang, hang
	}
	return made, err
}

// world is a real BIND behind a proxy that loses what it is told to.
type world struct {
	server *testserver.BIND
	proxy  net.Listener
	make   func(sdk.Connection) (sdk.DNSProvider, error)
	lose   atomic.Int64 // a contract.Failure for the next update
	served atomic.Int64 // zones that are handed out
}

const zonesOfServer = 48

func zoneName(n int64) string { return fmt.Sprintf("zone-%d.test", n) }

func newWorld(t testing.TB) *world {
	t.Helper()
	var zones []string
	for n := range int64(zonesOfServer) {
		zones = append(zones, zoneName(n+1))
	}
	server, err := testserver.StartBIND(t.Context(), zones...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	w := &world{server: server, make: newPatientProvider}
	if w.proxy, err = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.proxy.Close() })
	go w.accept()
	return w
}

func (w *world) accept() {
	for {
		conn, err := w.proxy.Accept()
		if err != nil {
			return
		}
		go w.pass(conn)
	}
}

// pass hands one connection on, message by message from the client.
func (w *world) pass(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", w.server.Addr)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var deaf atomic.Bool
	go func() {
		buffer := make([]byte, 1<<16)
		for {
			n, err := server.Read(buffer)
			if err != nil || deaf.Load() {
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
		if message[2]>>3&15 == wire.OpcodeUpdate {
			switch contract.Failure(w.lose.Swap(0)) {
			case contract.LosesRequest:
				return
			case contract.LosesAnswer:
				deaf.Store(true)
			}
		}
		_, _ = server.Write(append(size[:], message...))
	}
}

func (w *world) connection(secretText string) sdk.Connection {
	var zones []string
	for n := range w.served.Load() {
		zones = append(zones, zoneName(n+1))
	}
	if len(zones) == 0 {
		zones = append(zones, zoneName(1))
	}
	return sdk.Connection{
		Settings: map[string]string{
			"server": w.proxy.Addr().String(), "zones": strings.Join(zones, ","), "key_name": w.server.Key, "allow_private": "true",
		},
		Secrets: map[string]secret.Text{"key_secret": secret.New(secretText)},
	}
}

func (w *world) with(secretText string) sdk.DNSProvider {
	p, err := w.make(w.connection(secretText))
	if err != nil {
		panic(err)
	}
	return p
}

func (w *world) Provider() sdk.DNSProvider { return w.with(w.server.Secret) }

func (w *world) Refused() sdk.DNSProvider { return w.with("Z3Vlc3NlZA==") }

func (w *world) NewZone(t testing.TB) string {
	n := w.served.Add(1)
	if n > zonesOfServer {
		t.Fatal("the server has no more zones")
	}
	return zoneName(n)
}

func (w *world) Lose(_ testing.TB, how contract.Failure) { w.lose.Store(int64(how)) }

func (w *world) tsig(m *wire.Msg) map[string]string {
	name := wire.Fqdn(w.server.Key)
	m.SetTsig(name, wire.HmacSHA256, 300, time.Now().Unix())
	return map[string]string{name: w.server.Secret}
}

func (w *world) Put(t testing.TB, zone string, s dns.RRSet) {
	t.Helper()
	m := new(wire.Msg).SetUpdate(zone + ".")
	m.RemoveRRset([]wire.RR{&wire.ANY{Hdr: wire.RR_Header{Name: s.Name + ".", Rrtype: wire.StringToType[string(s.Type)]}}})
	for _, v := range s.Values {
		rr, err := wire.NewRR(fmt.Sprintf("%s. %d IN %s %s", s.Name, s.TTL, s.Type, sdk.WriteContent(s.Type, v)))
		if err != nil {
			t.Fatal(err)
		}
		m.Insert([]wire.RR{rr})
	}
	w.send(t, m)
}

func (w *world) send(t testing.TB, m *wire.Msg) {
	t.Helper()
	client := &wire.Client{Net: "tcp", Timeout: hang, TsigSecret: w.tsig(m)}
	a, _, err := client.ExchangeContext(context.WithoutCancel(t.Context()), m, w.server.Addr)
	if err != nil || a.Rcode != wire.RcodeSuccess {
		t.Fatalf("update: %v, %v", a, err)
	}
}

func (w *world) Held(t testing.TB, zone string) []dns.RRSet {
	t.Helper()
	var sets []dns.RRSet
	for _, rr := range w.raw(t, zone) {
		h := rr.Header()
		name, kind := strings.TrimSuffix(h.Name, "."), dns.Type(wire.TypeToString[h.Rrtype])
		if h.Rrtype == wire.TypeSOA || (h.Rrtype == wire.TypeNS && name == zone) {
			continue
		}
		value := strings.TrimSuffix(strings.TrimPrefix(rr.String(), h.String()), ".")
		if text, ok := rr.(*wire.TXT); ok {
			value, _ = sdk.UnquoteText(`"` + strings.Join(text.Txt, "") + `"`)
		}
		known := false
		for i := range sets {
			if sets[i].Name == name && sets[i].Type == kind {
				sets[i].Values, known = append(sets[i].Values, value), true
			}
		}
		if !known {
			sets = append(sets, dns.RRSet{Name: name, Type: kind, TTL: int(h.Ttl), Values: []string{value}})
		}
	}
	return sets
}

func (w *world) raw(t testing.TB, zone string) []wire.RR {
	t.Helper()
	q := new(wire.Msg).SetAxfr(zone + ".")
	in, err := (&wire.Transfer{DialTimeout: hang, ReadTimeout: hang, WriteTimeout: hang, TsigSecret: w.tsig(q)}).In(q, w.server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	var all []wire.RR
	for part := range in {
		if part.Error != nil {
			t.Fatal(part.Error)
		}
		all = append(all, part.RR...)
	}
	return all
}
