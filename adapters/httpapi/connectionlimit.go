// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"container/list"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
)

// connectionWarning is the minimum time between two log lines about connections beyond a limit.
const connectionWarning = time.Minute

// ConnectionLimit limits how many connections a server has open: at most Max in total, and at most
// half of them from one client. A client is the network of the peer's address (see
// guard.ClientNetwork). A trusted proxy is a client by its address alone, and can have all
// connections, because it forwards the requests of many clients.
//
// If there is one connection too many, the limit closes the connection that has waited longest for
// its client:
//
//   - If one client exceeds its limit, the limit chooses among the connections of this client.
//   - If the total is exceeded, the limit chooses among the connections of the client that has the
//     most connections. If that client has no waiting connection, the limit chooses among the
//     connections of the client that opened the new connection.
//
// A connection waits for its client until the head of a request is complete, while the body
// arrives, and while a complete answer is sent. A new connection therefore begins as a waiting
// connection. The limit never closes a connection while the service works on its request or sends a
// stream (see guard.Stream).
//
// An attacker can open connections and then send nothing, send slowly or not read. Because of the
// limit, other callers can still connect, even from the attacker's own address.
type ConnectionLimit struct {
	Max            int
	TrustedProxies []netip.Prefix
	Log            *slog.Logger

	mu              sync.Mutex
	openConnections map[net.Conn]*openConnection
	byClient        map[string]*clientConnections
	closedCounts    ClosedConnections
	warnedAt        time.Time
}

// ClosedConnections counts the connections that a ConnectionLimit has closed. ByClientLimit counts
// the connections that were closed because one client exceeded its limit. ByTotalLimit counts the
// connections that were closed because the total limit was exceeded.
type ClosedConnections struct{ ByClientLimit, ByTotalLimit int64 }

// Counts returns how many connections are open, and how many the limit has closed so far.
func (l *ConnectionLimit) Counts() (open int, closed ClosedConnections) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.openConnections), l.closedCounts
}

type openConnection struct {
	client *clientConnections
	// waitingElement is the connection's element in client.waitingList. It is nil while the service
	// works on a request.
	waitingElement *list.Element
}

type clientConnections struct {
	network        string
	isTrustedProxy bool
	openCount      int
	waitingList    list.List // the connections that wait for the client, longest waiting first
}

// Attach applies the limit to a server. Call it before the server runs. If the server has a
// ConnState function, it is still called. Attach replaces ConnContext.
func (l *ConnectionLimit) Attach(server *http.Server) {
	previousHook := server.ConnState
	server.ConnContext = l.connContext
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		l.connState(conn, state)
		if previousHook != nil {
			previousHook(conn, state)
		}
	}
}

func (l *ConnectionLimit) connState(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if surplus := l.add(conn); surplus != nil {
			_ = transport(surplus).Close() // the server then ends the connection
		}
	case http.StateActive, http.StateIdle:
		l.setWaiting(conn, state == http.StateIdle)
	case http.StateClosed, http.StateHijacked:
		l.remove(conn)
	}
}

// connContext returns the context for the requests of a connection. Through this context, package
// guard reports when a request waits for its client.
func (l *ConnectionLimit) connContext(ctx context.Context, conn net.Conn) context.Context {
	return guard.WithClientWait(limitSendBuffer(ctx, conn), func(waiting bool) { l.setWaiting(conn, waiting) })
}

// add counts a new connection. It returns the connection to close, or nil if no limit is exceeded.
func (l *ConnectionLimit) add(conn net.Conn) (surplus net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.openConnections == nil {
		l.openConnections, l.byClient = map[net.Conn]*openConnection{}, map[string]*clientConnections{}
	}
	client := l.clientOf(conn)
	client.openCount++
	l.openConnections[conn] = &openConnection{client: client, waitingElement: client.waitingList.PushBack(conn)}
	switch {
	case !client.isTrustedProxy && client.openCount > max(1, l.Max/2):
		l.closedCounts.ByClientLimit++
	case len(l.openConnections) > l.Max:
		l.closedCounts.ByTotalLimit++
		if largest := l.largestClient(); largest.waitingList.Len() > 0 {
			client = largest
		}
	default:
		return nil
	}
	l.warnLimitReached(client)
	surplus = client.waitingList.Front().Value.(net.Conn)
	l.forgetConnection(surplus)
	return surplus
}

// clientOf returns the client of a connection, and adds a new client to byClient.
func (l *ConnectionLimit) clientOf(conn net.Conn) *clientConnections {
	peer, _ := netip.ParseAddrPort(conn.RemoteAddr().String()) // all addresses that cannot be parsed count as one client
	address := peer.Addr().Unmap().WithZone("")
	network := guard.ClientNetwork(address)
	trusted := slices.ContainsFunc(l.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(address) })
	if trusted {
		network = address.String() // the other addresses of its network may be untrusted
	}
	c := l.byClient[network]
	if c == nil {
		c = &clientConnections{network: network, isTrustedProxy: trusted}
		l.byClient[network] = c
	}
	return c
}

func (l *ConnectionLimit) largestClient() (largest *clientConnections) {
	for _, c := range l.byClient {
		if largest == nil || c.openCount > largest.openCount {
			largest = c
		}
	}
	return largest
}

func (l *ConnectionLimit) setWaiting(conn net.Conn, waiting bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	counted := l.openConnections[conn]
	switch {
	case counted == nil: // the connection is being closed
	case !waiting && counted.waitingElement != nil:
		counted.client.waitingList.Remove(counted.waitingElement)
		counted.waitingElement = nil
	case waiting && counted.waitingElement == nil:
		counted.waitingElement = counted.client.waitingList.PushBack(conn)
	}
}

func (l *ConnectionLimit) remove(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetConnection(conn)
}

// forgetConnection stops counting a connection. The caller holds the lock.
func (l *ConnectionLimit) forgetConnection(conn net.Conn) {
	o := l.openConnections[conn]
	if o == nil {
		return
	}
	delete(l.openConnections, conn)
	if o.waitingElement != nil {
		o.client.waitingList.Remove(o.waitingElement)
	}
	if o.client.openCount--; o.client.openCount == 0 {
		delete(l.byClient, o.client.network)
	}
}

// warnLimitReached logs that a limit was exceeded, at most once per connectionWarning.
func (l *ConnectionLimit) warnLimitReached(c *clientConnections) {
	if now := time.Now(); l.Log != nil && now.Sub(l.warnedAt) >= connectionWarning {
		l.warnedAt = now
		l.Log.Warn("connections are closed, because the limit of the process or of one client is exceeded", "open", len(l.openConnections), "client", c.network, "of_client", c.openCount)
	}
}

// transport returns the connection below TLS, or conn if there is no TLS. Closing a TLS connection
// can wait for the client. Closing the connection below it never waits.
func transport(conn net.Conn) net.Conn {
	if encrypted, ok := conn.(*tls.Conn); ok {
		return encrypted.NetConn()
	}
	return conn
}
