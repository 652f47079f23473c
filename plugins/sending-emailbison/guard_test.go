// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// trap is a server inside our network that counts who gets as far as a
// connection to it.
type trap struct {
	port  string
	taken atomic.Int64
}

// newTrap listens on all loopback addresses that there are.
func newTrap(t *testing.T) *trap {
	t.Helper()
	tr := &trap{}
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, tr.port, _ = net.SplitHostPort(first.Addr().String())
	listeners := []net.Listener{first}
	if six, err := net.Listen("tcp", net.JoinHostPort("::1", tr.port)); err == nil {
		listeners = append(listeners, six)
	}
	for _, l := range listeners {
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				tr.taken.Add(1)
				_ = c.Close()
			}
		}()
	}
	return tr
}

// reach has the plugin check an instance as a customer names it.
func reach(t *testing.T, instance string, private bool) error {
	t.Helper()
	p, err := newHouse().platform(connection("9|t", instance, private))
	if err != nil {
		t.Fatalf("%s: %v", instance, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	_, err = p.Check(ctx)
	return err
}

func guarded(t *testing.T, instance string) {
	t.Helper()
	if o := outcomeOf(reach(t, instance, false)); o.Kind != sdk.Refused || o.Code.Name != "invalid_request" || o.Cause != "private_address" {
		t.Errorf("%s: %+v", instance, o)
	}
}

// TestAddressesOfOurNetworkAreNotDialed, however a customer writes them.
func TestAddressesOfOurNetworkAreNotDialed(t *testing.T) {
	tr := newTrap(t)
	for _, host := range []string{
		"127.0.0.1", "127.9.9.9", "[::1]", // loopback
		"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:10.0.0.1]", // IPv4 in IPv6
		"10.0.0.1", "172.16.3.4", "192.168.1.1", "100.64.0.1", "[fd00::1]", // private
		"169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", // link-local, metadata
		"0.0.0.0", "[::]", "255.255.255.255", "224.0.0.1", "[ff02::1]", // nobody's
		"[64:ff9b::7f00:1]", "[2002:7f00:1::1]", // IPv4 by translation
	} {
		guarded(t, "https://"+host+":"+tr.port)
	}
	if n := tr.taken.Load(); n > 0 {
		t.Fatalf("%d connections to our network", n)
	}
	// The same trap takes a connection when the operator allows it.
	if o := outcomeOf(reach(t, "https://127.0.0.1:"+tr.port, true)); o.Kind == 0 || o.Cause == "private_address" || tr.taken.Load() != 1 {
		t.Fatalf("with the operator's leave: %+v after %d connections", o, tr.taken.Load())
	}
}

// TestNamesThatLeadToOurNetworkAreNotDialed, also when they led elsewhere a moment ago.
func TestNamesThatLeadToOurNetworkAreNotDialed(t *testing.T) {
	tr := newTrap(t)
	names := useResolver(t)
	names.set("inside.example.", "127.0.0.1")
	names.set("metadata.example.", "169.254.169.254")
	names.set("private.example.", "10.1.2.3", "192.168.0.1")
	for _, host := range []string{"inside.example", "metadata.example", "private.example", "localhost"} {
		guarded(t, "https://"+host+":"+tr.port)
	}
	// Rebinding: whoever looks first sees a public address. What is dialed is
	// looked at itself, so the second answer is no way in.
	names.set("rebound.example.", "93.184.215.14")
	seen, err := net.DefaultResolver.LookupHost(t.Context(), "rebound.example")
	if err != nil || len(seen) != 1 || seen[0] != "93.184.215.14" {
		t.Fatalf("the first look: %v, %v", seen, err)
	}
	names.set("rebound.example.", "127.0.0.1")
	guarded(t, "https://rebound.example:"+tr.port)
	if n := tr.taken.Load(); n > 0 {
		t.Fatalf("%d connections to our network", n)
	}
	if names.asked("rebound.example.") < 2 || names.asked("inside.example.") == 0 {
		t.Error("the names were not looked up")
	}
}

// TestRedirectsLeadNowhere: not into our network and not anywhere else.
func TestRedirectsLeadNowhere(t *testing.T) {
	tr := newTrap(t)
	var from atomic.Int64
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from.Add(1)
		http.Redirect(w, r, "https://127.0.0.1:"+tr.port+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer outside.Close()
	// An instance that may be called, as the public ones may.
	o := outcomeOf(reach(t, outside.URL, true))
	if o.Kind != sdk.Broken || from.Load() != 1 || tr.taken.Load() != 0 {
		t.Fatalf("%+v after %d calls and %d connections", o, from.Load(), tr.taken.Load())
	}
}

// TestCertificatesAreChecked: an instance that cannot prove its name gets no token.
func TestCertificatesAreChecked(t *testing.T) {
	var got atomic.Int64
	fake := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
	fake.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	fake.Config.ErrorLog = log.New(io.Discard, "", 0) // it tells of the handshake
	fake.StartTLS()
	defer fake.Close()
	if o := outcomeOf(reach(t, fake.URL, true)); o.Kind != sdk.Down || o.Cause != "certificate" || got.Load() != 0 {
		t.Fatalf("%+v after %d requests", o, got.Load())
	}
}

// resolver is a DNS server of the test, in the place of the machine's.
type resolver struct {
	mu    sync.Mutex
	names map[string][]string
	count map[string]int
}

func useResolver(t *testing.T) *resolver {
	t.Helper()
	r := &resolver{names: map[string][]string{}, count: map[string]int{}}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go r.serve(conn)
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	t.Cleanup(func() { net.DefaultResolver = before; _ = conn.Close() })
	return r
}

func (r *resolver) set(name string, addresses ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names[name] = addresses
}

func (r *resolver) asked(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count[name]
}

func (r *resolver) serve(conn net.PacketConn) {
	packet := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(packet)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(packet[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		name := strings.ToLower(q.Name.String())
		r.mu.Lock()
		addresses := r.names[name]
		r.count[name]++
		r.mu.Unlock()
		answer := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true}, Questions: m.Questions}
		for _, a := range addresses {
			if ip := net.ParseIP(a).To4(); q.Type == dnsmessage.TypeA && ip != nil {
				answer.Answers = append(answer.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: [4]byte(ip)},
				})
			}
		}
		if out, err := answer.Pack(); err == nil {
			_, _ = conn.WriteTo(out, from)
		}
	}
}
