// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/httpapi"
)

// limitedServer is a server with a limit on its connections.
type limitedServer struct {
	address    string
	tls        bool
	arrived    chan struct{} // receives a value for each request for /hold
	open       atomic.Int64  // number of connections that the server has not closed
	accepted   atomic.Int64  // number of connections that the server has accepted
	becameIdle atomic.Int64  // how many times a connection became idle
}

// newLimitedServer starts a server on which a request for /hold waits until the test ends.
func newLimitedServer(t *testing.T, limit *httpapi.ConnectionLimit, encrypted bool) *limitedServer {
	t.Helper()
	s := &limitedServer{tls: encrypted, arrived: make(chan struct{})}
	release := make(chan struct{})
	s.serve(t, limit, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			s.arrived <- struct{}{}
			<-release
		}
	}))
	t.Cleanup(func() { close(release) }) // this runs before the server is closed
	return s
}

// serve starts the server with a handler. The time limits for reading and for idle connections are
// so long that they close no connection during a test.
func (s *limitedServer) serve(t *testing.T, limit *httpapi.ConnectionLimit, handler http.Handler) {
	t.Helper()
	server := httpapi.Server("", handler)
	server.ReadHeaderTimeout, server.ReadTimeout, server.IdleTimeout = testTimeout, testTimeout, testTimeout
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.open.Add(1)
			s.accepted.Add(1)
		case http.StateIdle:
			s.becameIdle.Add(1)
		case http.StateClosed:
			s.open.Add(-1)
		}
	}
	limit.Attach(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s.address = listener.Addr().String()
	if s.tls {
		certificate := httptest.NewTLSServer(nil)
		t.Cleanup(certificate.Close)
		server.TLSConfig = &tls.Config{Certificates: certificate.TLS.Certificates}
		go func() { _ = server.ServeTLS(listener, "", "") }()
	} else {
		go func() { _ = server.Serve(listener) }()
	}
	t.Cleanup(func() { _ = server.Close() })
}

// dial opens a connection from an address of the loopback network.
func (s *limitedServer) dial(t *testing.T, clientIP string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(clientIP)}}).Dial("tcp", s.address)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	if s.tls {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	return conn
}

// get sends a request on a connection and checks that it is answered. It returns when the
// connection is idle.
func (s *limitedServer) get(t *testing.T, conn net.Conn) {
	t.Helper()
	idleBefore := s.becameIdle.Load()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("the request is answered %d, want 200", answer.StatusCode)
	}
	waitFor(t, "the connection is not idle", func() bool { return s.becameIdle.Load() > idleBefore })
}

// hold sends a request that stays in progress.
func (s *limitedServer) hold(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := io.WriteString(conn, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	receive(t, s.arrived, "the request did not arrive")
}

func requireClosed(t *testing.T, label string, conn net.Conn) {
	t.Helper()
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading from %s fails with %v, want the error of a closed connection", label, err)
	}
}

// requireOpen waits until exactly this number of connections is open.
func (s *limitedServer) requireOpen(t *testing.T, want int64) {
	t.Helper()
	waitFor(t, fmt.Sprintf("the number of open connections is not %d", want), func() bool { return s.open.Load() == want })
}

func requireCounts(t *testing.T, limit *httpapi.ConnectionLimit, wantOpen int, wantClosed httpapi.ClosedConnections) {
	t.Helper()
	if open, closed := limit.Counts(); open != wantOpen || closed != wantClosed {
		t.Errorf("%d connections are open and %+v were closed, want %d and %+v", open, closed, wantOpen, wantClosed)
	}
}

func waitFor(t *testing.T, failure string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s: %s", testTimeout, failure)
		}
	}
}

// TestOneClientGetsHalfOfTheConnections opens more connections from one address than half of the
// limit. The server closes the connection of this address that has waited longest for a request, so
// a new caller with the same address is served.
func TestOneClientGetsHalfOfTheConnections(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", encrypted), func(t *testing.T) {
			limit := &httpapi.ConnectionLimit{Max: 8}
			server := newLimitedServer(t, limit, encrypted)
			busyConn := server.dial(t, "127.0.0.1")
			server.hold(t, busyConn) // the oldest connection, which stays open because it has a request in progress
			idleConn := server.dial(t, "127.0.0.1")
			server.get(t, idleConn)
			silentConns := []net.Conn{server.dial(t, "127.0.0.1"), server.dial(t, "127.0.0.1")}
			server.requireOpen(t, 4)
			server.get(t, server.dial(t, "127.0.0.1"))
			requireClosed(t, "the idle connection", idleConn)
			server.get(t, server.dial(t, "127.0.0.1"))
			requireClosed(t, "the silent connection", silentConns[0])
			server.get(t, server.dial(t, "127.0.0.2")) // a different client
			server.requireOpen(t, 5)
			requireCounts(t, limit, 5, httpapi.ClosedConnections{ByClientLimit: 2})
		})
	}
}

// TestAllClientsTogetherGetMaxConnections checks that new clients are served when the limit is
// reached. The server then closes a connection of the client that has the most connections.
func TestAllClientsTogetherGetMaxConnections(t *testing.T) {
	limit := &httpapi.ConnectionLimit{Max: 8}
	server := newLimitedServer(t, limit, false)
	var silentConns []net.Conn
	for i, client := range []string{"127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3"} {
		silentConns = append(silentConns, server.dial(t, client))
		server.requireOpen(t, int64(i+1))
	}
	server.get(t, server.dial(t, "127.0.0.9"))
	requireClosed(t, "the oldest connection of the client with the most", silentConns[2])
	server.requireOpen(t, 8)
	requireCounts(t, limit, 8, httpapi.ClosedConnections{ByTotalLimit: 1})
}

// TestConnectionsWithRequestsStayOpen checks that a new connection beyond a limit is closed when
// all other connections that count for the limit have a request in progress.
func TestConnectionsWithRequestsStayOpen(t *testing.T) {
	limit := &httpapi.ConnectionLimit{Max: 4}
	server := newLimitedServer(t, limit, false)
	for range 2 {
		server.hold(t, server.dial(t, "127.0.0.1"))
	}
	requireClosed(t, "the third connection of a client", server.dial(t, "127.0.0.1"))
	for range 2 {
		server.hold(t, server.dial(t, "127.0.0.2"))
	}
	requireClosed(t, "the fifth connection", server.dial(t, "127.0.0.3"))
	server.requireOpen(t, 4)
}

// TestSlowClientsLeaveConnections opens all connections for clients that send bodies slowly or do
// not read their answers. Other callers must still be able to connect, from the same addresses and
// from a different address.
func TestSlowClientsLeaveConnections(t *testing.T) {
	const maxConnections = 8
	env := newTestEnv(t)
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", encrypted), func(t *testing.T) {
			server := &limitedServer{tls: encrypted}
			server.serve(t, &httpapi.ConnectionLimit{Max: maxConnections}, env.handler(t))
			slowBody := "POST " + domainsOfA + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + env.accountA.key + "\r\nIdempotency-Key: slow\r\n" +
				"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
			const unread = "GET /docs/assets/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n"
			for i := range maxConnections {
				client, request := "127.0.0.1", slowBody
				if i%2 == 1 {
					client, request = "127.0.0.2", unread
				}
				conn := server.dial(t, client)
				if _, err := io.WriteString(conn, request); err != nil {
					t.Fatal(err)
				}
				// On a slow machine, the server may already have closed a connection with an unread
				// answer. Therefore the test does not wait for a number of open connections.
				waitFor(t, "a connection was not accepted", func() bool { return server.accepted.Load() > int64(i) })
			}
			for _, client := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"} {
				waitFor(t, "a caller from "+client+" is not served", func() bool { return server.serves(t, client) })
			}
		})
	}
}

// serves reports whether a request on a new connection from this address is answered with 200.
func (s *limitedServer) serves(t *testing.T, clientIP string) bool {
	t.Helper()
	conn := s.dial(t, clientIP)
	if _, err := io.WriteString(conn, "GET /docs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		return false
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// TestTrustedProxyGetsAllConnections checks that a trusted proxy can have all connections up to the
// total limit, because it forwards the requests of many clients.
func TestTrustedProxyGetsAllConnections(t *testing.T) {
	server := newLimitedServer(t, &httpapi.ConnectionLimit{Max: 6, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.7/32")}}, false)
	var conns []net.Conn
	for range 6 {
		conn := server.dial(t, "127.0.0.7")
		server.get(t, conn)
		conns = append(conns, conn)
	}
	server.requireOpen(t, 6)
	server.get(t, server.dial(t, "127.0.0.7"))
	requireClosed(t, "the proxy's oldest connection", conns[0])
	server.requireOpen(t, 6)
}

// addressedConn is a connection from the address client. It records that it was closed.
type addressedConn struct {
	net.Conn

	client netip.AddrPort
	closed bool
}

func (c *addressedConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.client) }

func (c *addressedConn) Close() error {
	c.closed = true
	return nil
}

// TestNetworkOfIPv6IsOneClient checks that all addresses of an IPv6 /64 share half of the
// connections. An IPv4 address must be the same client in both notations. A trusted proxy can have
// more than half of the connections, but the other addresses in the proxy's /64 cannot.
func TestNetworkOfIPv6IsOneClient(t *testing.T) {
	for _, tc := range []struct {
		name       string
		clients    []string
		wantClosed int // the index of the connection that is closed, -1 if no connection is closed
	}{
		{"one /64", []string{"2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:1::3"}, 0},
		{"two networks", []string{"2001:db8:0:1::1", "2001:db8:0:1::2", "2001:db8:0:2::1", "2001:db8:0:2::2"}, -1},
		{"the third connection of the second network", []string{"2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:2::2", "2001:db8:0:2::3"}, 1},
		{"IPv4 in IPv6", []string{"192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1"}, 0},
		{"two IPv4 addresses", []string{"::ffff:192.0.2.1", "192.0.2.1", "::ffff:192.0.2.2", "192.0.2.2"}, -1},
		{"a trusted proxy", []string{"2001:db8:0:9::1", "2001:db8:0:9::1", "2001:db8:0:9::1", "2001:db8:0:9::1"}, -1},
		{"other addresses in the network of a trusted proxy", []string{"2001:db8:0:9::1", "2001:db8:0:9::2", "2001:db8:0:9::3", "2001:db8:0:9::4"}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			limit := httpapi.ConnectionLimit{Max: 4, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("2001:db8:0:9::1/128")}}
			var server http.Server
			limit.Attach(&server)
			var conns []*addressedConn
			for _, client := range tc.clients {
				conns = append(conns, &addressedConn{client: netip.AddrPortFrom(netip.MustParseAddr(client), 50000)})
				server.ConnState(conns[len(conns)-1], http.StateNew)
			}
			for i, conn := range conns {
				if conn.closed != (i == tc.wantClosed) {
					t.Errorf("connection %d from %s: closed is %v, want %v", i, conn.client, conn.closed, i == tc.wantClosed)
				}
			}
		})
	}
}

func TestEndedConnectionsAreNotCounted(t *testing.T) {
	server := newLimitedServer(t, &httpapi.ConnectionLimit{Max: 4}, false)
	server.hold(t, server.dial(t, "127.0.0.1"))
	for range 20 {
		conn := server.dial(t, "127.0.0.1")
		server.get(t, conn)
		_ = conn.Close()
		server.requireOpen(t, 1)
	}
}
