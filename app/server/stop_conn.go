// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// newConnGrace is how long a new connection may stay without a request during a stop. After it the
// connection counts as idle and is closed.
const newConnGrace = time.Second

// handshakeTime is how long stopAccepting waits for TCP handshakes in progress to complete.
const handshakeTime = 100 * time.Millisecond

// trackingListener is a listener that keeps the set of its open connections. It can close those
// that have no request in progress.
type trackingListener struct {
	net.Listener
	mu   sync.Mutex
	open map[*trackedConn]struct{}
}

func newTrackingListener(l net.Listener) *trackingListener {
	return &trackingListener{Listener: l, open: map[*trackedConn]struct{}{}}
}

// Accept returns the next connection as a *trackedConn. It fails when the listener fails.
func (t *trackingListener) Accept() (net.Conn, error) {
	conn, err := t.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &trackedConn{Conn: conn, listener: t, idle: true, acceptedAt: time.Now()}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open[c] = struct{}{}
	return c, nil
}

// connStateChanged is the ConnState hook of the HTTP server. It marks a connection as idle after
// its request was answered.
func (t *trackingListener) connStateChanged(conn net.Conn, state http.ConnState) {
	if tlsConn, ok := conn.(*tls.Conn); ok {
		conn = tlsConn.NetConn()
	}
	if c, ok := conn.(*trackedConn); ok && state == http.StateIdle {
		c.markIdle()
	}
}

// openConns returns the number of open connections.
func (t *trackingListener) openConns() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

// stopAccepting closes the listener. On Linux it first blocks new handshakes and waits until the
// accept queue is empty, because closing the listener resets the connections in the queue.
func (t *trackingListener) stopAccepting() {
	if l, ok := t.Listener.(*net.TCPListener); ok && dropSYNs(l) == nil {
		<-time.After(handshakeTime)
		pollUntil(time.Now().Add(time.Second), func() bool { return acceptQueueLen(l) == 0 })
	}
	_ = t.Close()
}

// closeIdleUntil closes each connection as soon as it is idle. It returns true when all connections
// are closed, and false when some are still open at the deadline.
func (t *trackingListener) closeIdleUntil(deadline time.Time) bool {
	return pollUntil(deadline, func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		for c := range t.open {
			c.interruptIfIdle()
		}
		return len(t.open) == 0
	})
}

// pollUntil calls done every pollInterval. It returns true when done returns true, and false at the
// deadline.
func pollUntil(deadline time.Time, done func() bool) bool {
	for !done() {
		wait := min(pollInterval, time.Until(deadline))
		if wait <= 0 {
			return false
		}
		<-time.After(wait)
	}
	return true
}

// trackedConn is a connection that records whether a request is in progress on it.
type trackedConn struct {
	net.Conn
	listener *trackingListener

	mu           sync.Mutex
	idle         bool      // no byte of the next request has been read
	acceptedAt   time.Time // zero once the first byte has been read
	readDeadline time.Time // the deadline that the HTTP server set last
	// interrupted means that the read deadline of the socket is in the past, whatever readDeadline
	// says. The pending read then fails, and the HTTP server closes the connection.
	interrupted bool
}

// Read reads from the connection and marks it as active. If bytes arrived just before the
// connection was interrupted, Read returns them, and the request is served.
func (c *trackedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.isInterrupted() {
		if available := readAvailable(c.Conn, p); available > 0 {
			n, err = available, nil
		}
	}
	if n > 0 {
		c.markActive()
	}
	return n, err
}

// markActive records that a request has begun. It restores the read deadline of the HTTP server if
// the connection was interrupted.
func (c *trackedConn) markActive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle, c.acceptedAt = false, time.Time{}
	if c.interrupted {
		c.interrupted = false
		_ = c.Conn.SetReadDeadline(c.readDeadline)
	}
}

func (c *trackedConn) markIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = true
}

func (c *trackedConn) isInterrupted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.interrupted
}

// interruptIfIdle makes the pending read of an idle connection fail, so that the HTTP server closes
// the connection. It does nothing within newConnGrace of the accept.
func (c *trackedConn) interruptIfIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.interrupted || !c.idle || time.Since(c.acceptedAt) < newConnGrace {
		return
	}
	c.interrupted = true
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
}

// SetReadDeadline sets the deadline of reads. On an interrupted connection it only records the
// deadline, which markActive sets later.
func (c *trackedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readDeadline = t
	if c.interrupted {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// CloseWrite closes the sending half of a TCP connection. The HTTP server calls it to finish a
// response while the client still sends. It does nothing on other connections.
func (c *trackedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close closes the connection and removes it from its listener's set.
func (c *trackedConn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.open, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
