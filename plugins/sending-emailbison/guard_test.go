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

// countingServer is a server on loopback that counts the connections to it.
type countingServer struct {
	port        string
	connections atomic.Int64
}

// startCountingServer starts a server that listens on the same port of 127.0.0.1 and, if possible,
// of ::1.
func startCountingServer(t *testing.T) *countingServer {
	t.Helper()
	server := &countingServer{}
	ipv4, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, server.port, _ = net.SplitHostPort(ipv4.Addr().String())
	listeners := []net.Listener{ipv4}
	if ipv6, err := net.Listen("tcp", net.JoinHostPort("::1", server.port)); err == nil {
		listeners = append(listeners, ipv6)
	}
	for _, listener := range listeners {
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				server.connections.Add(1)
				_ = conn.Close()
			}
		}()
	}
	return server
}

// checkInstance returns the error of Check for a connection whose instance_url is instance.
func checkInstance(t *testing.T, instance string, allowPrivate bool) error {
	t.Helper()
	platform, err := newProcessState().newPlatform(connection("9|t", instance, allowPrivate))
	if err != nil {
		t.Fatalf("the connection to %s is refused: %v", instance, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	_, err = platform.Check(ctx)
	return err
}

// expectRefused checks that Check refuses the instance because its address is private.
func expectRefused(t *testing.T, instance string) {
	t.Helper()
	if result := sdk.OutcomeOf(checkInstance(t, instance, false)); result.Kind != sdk.Refused || result.Code.Name != "invalid_request" || result.Cause != "private_address" {
		t.Errorf("%s: %+v, want invalid_request with the cause private_address", instance, result)
	}
}

// TestPrivateAddressesAreNotDialed covers addresses that are not public, in several notations.
func TestPrivateAddressesAreNotDialed(t *testing.T) {
	server := startCountingServer(t)
	for _, host := range []string{
		"127.0.0.1", "127.9.9.9", "[::1]", // loopback
		"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:10.0.0.1]", // IPv4 in IPv6
		"10.0.0.1", "172.16.3.4", "192.168.1.1", "100.64.0.1", "[fd00::1]", // private
		"169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", // link-local, metadata
		"0.0.0.0", "[::]", "255.255.255.255", "224.0.0.1", "[ff02::1]", // unspecified, broadcast, multicast
		"[64:ff9b::7f00:1]", "[2002:7f00:1::1]", // IPv4 by translation
	} {
		expectRefused(t, "https://"+host+":"+server.port)
	}
	if n := server.connections.Load(); n > 0 {
		t.Fatalf("%d connections to private addresses, want none", n)
	}
	// If the operator sets allow_private, the plugin connects to the same server.
	if result := sdk.OutcomeOf(checkInstance(t, "https://127.0.0.1:"+server.port, true)); result.Kind == 0 || result.Cause == "private_address" || server.connections.Load() != 1 {
		t.Fatalf("with allow_private: %+v after %d connections, want a failure after one", result, server.connections.Load())
	}
}

// TestNamesOfPrivateAddressesAreNotDialed covers names that resolve to private addresses. The
// address of rebound.example changes after the lookup by the test.
func TestNamesOfPrivateAddressesAreNotDialed(t *testing.T) {
	server := startCountingServer(t)
	dnsServer := useResolver(t)
	dnsServer.setAddresses("inside.example.", "127.0.0.1")
	dnsServer.setAddresses("metadata.example.", "169.254.169.254")
	dnsServer.setAddresses("private.example.", "10.1.2.3", "192.168.0.1")
	for _, host := range []string{"inside.example", "metadata.example", "private.example", "localhost"} {
		expectRefused(t, "https://"+host+":"+server.port)
	}
	// DNS rebinding: the test's lookup returns a public address, and the dialer's lookup returns a
	// private address. The dialer must check the address to which it connects.
	dnsServer.setAddresses("rebound.example.", "93.184.215.14")
	addresses, err := net.DefaultResolver.LookupHost(t.Context(), "rebound.example")
	if err != nil || len(addresses) != 1 || addresses[0] != "93.184.215.14" {
		t.Fatalf("the lookup by the test: %v, %v, want 93.184.215.14", addresses, err)
	}
	lookupsOfTest := dnsServer.lookupsOf("rebound.example.")
	dnsServer.setAddresses("rebound.example.", "127.0.0.1")
	expectRefused(t, "https://rebound.example:"+server.port)
	if n := server.connections.Load(); n > 0 {
		t.Fatalf("%d connections to private addresses, want none", n)
	}
	if dnsServer.lookupsOf("rebound.example.") == lookupsOfTest || dnsServer.lookupsOf("inside.example.") == 0 {
		t.Error("the plugin did not look up rebound.example or inside.example")
	}
}

// TestRedirectsAreNotFollowed uses an instance that the operator allows and that redirects to a
// private address.
func TestRedirectsAreNotFollowed(t *testing.T) {
	server := startCountingServer(t)
	var requests atomic.Int64
	instance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.Redirect(w, r, "https://127.0.0.1:"+server.port+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer instance.Close()
	result := sdk.OutcomeOf(checkInstance(t, instance.URL, true))
	if result.Kind != sdk.Broken || requests.Load() != 1 || server.connections.Load() != 0 {
		t.Fatalf("%+v after %d requests and %d connections to the target, want broken after one and none", result, requests.Load(), server.connections.Load())
	}
}

// TestUntrustedCertificateGetsNoToken expects that an instance with an untrusted certificate
// receives no request.
func TestUntrustedCertificateGetsNoToken(t *testing.T) {
	var requests atomic.Int64
	untrusted := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	untrusted.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0) // the server would log the failed handshake
	untrusted.StartTLS()
	defer untrusted.Close()
	if result := sdk.OutcomeOf(checkInstance(t, untrusted.URL, true)); result.Kind != sdk.Down || result.Cause != "certificate" || requests.Load() != 0 {
		t.Fatalf("%+v after %d requests, want down with the cause certificate after none", result, requests.Load())
	}
}

// resolver is a DNS server that replaces the default resolver during a test.
type resolver struct {
	mu      sync.Mutex
	names   map[string][]string // the IPv4 addresses of each name
	lookups map[string]int      // the number of queries for each name
}

func useResolver(t *testing.T) *resolver {
	t.Helper()
	server := &resolver{names: map[string][]string{}, lookups: map[string]int{}}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.serveQueries(conn)
	previous := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	t.Cleanup(func() { net.DefaultResolver = previous; _ = conn.Close() })
	return server
}

func (r *resolver) setAddresses(name string, addresses ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names[name] = addresses
}

func (r *resolver) lookupsOf(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lookups[name]
}

func (r *resolver) serveQueries(conn net.PacketConn) {
	packet := make([]byte, 1500)
	for {
		size, client, err := conn.ReadFrom(packet)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if query.Unpack(packet[:size]) != nil || len(query.Questions) != 1 {
			continue
		}
		question := query.Questions[0]
		name := strings.ToLower(question.Name.String())
		r.mu.Lock()
		addresses := r.names[name]
		r.lookups[name]++
		r.mu.Unlock()
		answer := dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true}, Questions: query.Questions}
		for _, address := range addresses {
			if ip := net.ParseIP(address).To4(); question.Type == dnsmessage.TypeA && ip != nil {
				answer.Answers = append(answer.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class}, Body: &dnsmessage.AResource{A: [4]byte(ip)},
				})
			}
		}
		if packed, err := answer.Pack(); err == nil {
			_, _ = conn.WriteTo(packed, client)
		}
	}
}
