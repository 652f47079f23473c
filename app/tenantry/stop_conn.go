// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// freshTime is how long a client that has just connected may take to begin
// its request when the service stops.
const freshTime = time.Second

// handshakeTime is what a connection takes to be made.
const handshakeTime = 100 * time.Millisecond

// door is a listener that knows its connections and whether something is
// under way on them.
type door struct {
	net.Listener
	mu   sync.Mutex
	open map[*line]struct{}
}

func newDoor(l net.Listener) *door { return &door{Listener: l, open: map[*line]struct{}{}} }

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l := &line{Conn: c, door: d, quiet: true, fresh: time.Now()}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[l] = struct{}{}
	return l, nil
}

// state is the server's report on a connection.
func (d *door) state(c net.Conn, s http.ConnState) {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	if l, ok := c.(*line); ok && s == http.StateIdle {
		l.rest()
	}
}

func (d *door) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open)
}

// shut lets nobody in any more but those who are connected already, or were
// about to be.
func (d *door) shut() {
	if l, ok := d.Listener.(*net.TCPListener); ok && deafen(l) == nil {
		<-time.After(handshakeTime)
		until(time.Now().Add(time.Second), func() bool { return waiting(l) == 0 })
	}
	_ = d.Close()
}

// emptyBy ends each connection once nothing is under way on it, and reports
// whether that was the last one.
func (d *door) emptyBy(end time.Time) bool {
	return until(end, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		for l := range d.open {
			l.hurry()
		}
		return len(d.open) == 0
	})
}

// until asks until the answer is yes, or the time is over.
func until(end time.Time, yes func() bool) bool {
	for !yes() {
		wait := min(tick, time.Until(end))
		if wait <= 0 {
			return false
		}
		<-time.After(wait)
	}
	return true
}

// line is a connection. It is quiet while nothing of a request has been read.
type line struct {
	net.Conn
	door *door

	mu       sync.Mutex
	quiet    bool
	fresh    time.Time // when it was accepted, until something is read
	deadline time.Time // as the server wants it
	hurried  bool
}

// Read implements net.Conn. What arrives as a quiet line is about to be
// closed is still a request.
func (l *line) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && l.isHurried() {
		if last := lastRead(l.Conn, p); last > 0 {
			n, err = last, nil
		}
	}
	if n > 0 {
		l.stir()
	}
	return n, err
}

// stir notes that a request has begun.
func (l *line) stir() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.quiet, l.fresh = false, time.Time{}
	if l.hurried {
		l.hurried = false
		_ = l.Conn.SetReadDeadline(l.deadline)
	}
}

func (l *line) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.quiet = true
}

func (l *line) isHurried() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hurried
}

// hurry ends a quiet line: its read finds out that there is nothing to read.
func (l *line) hurry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hurried || !l.quiet || time.Since(l.fresh) < freshTime {
		return
	}
	l.hurried = true
	_ = l.Conn.SetReadDeadline(time.Unix(1, 0))
}

// SetReadDeadline implements net.Conn. A line that was hurried stays so.
func (l *line) SetReadDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = t
	if l.hurried {
		return nil
	}
	return l.Conn.SetReadDeadline(t)
}

// CloseWrite lets the server say that it is done while a client still sends.
func (l *line) CloseWrite() error {
	if c, ok := l.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (l *line) Close() error {
	l.door.mu.Lock()
	delete(l.door.open, l)
	l.door.mu.Unlock()
	return l.Conn.Close()
}
