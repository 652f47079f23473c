// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	wire "github.com/miekg/dns"
)

// ednsSize is the UDP size that passes everywhere unfragmented (DNS flag day
// 2020).
const ednsSize = 1232

// errTruncated: the answer does not fit UDP and TCP brings none.
var errTruncated = errors.New("answer is truncated and TCP brings none")

// question is what is asked; name is lower case without the final dot.
type question struct {
	name  string
	qtype uint16
}

// exchanger asks single servers single questions.
type exchanger struct {
	udp, tcp time.Duration
	slots    *slots
}

// manner is how a server is asked.
type manner struct {
	tries   int  // by UDP
	insist  bool // by TCP too when UDP brings nothing
	recurse bool // let the server ask others
	// unchecked lets a resolver pass on what DNSSEC says is forged.
	unchecked bool
	old       bool // without EDNS
}

var (
	asServer    = manner{tries: 2, insist: true}
	asParent    = manner{tries: 1}
	asResolver  = manner{tries: 1, recurse: true}
	asStandIn   = manner{tries: 2, insist: true, recurse: true}
	asUnchecked = manner{tries: 1, recurse: true, unchecked: true}
)

// ask puts q to the server at to, by TCP when the answer is truncated.
func (e exchanger) ask(ctx context.Context, to netip.AddrPort, q question, how manner) (*wire.Msg, error) {
	release, err := e.slots.take(ctx, to, how)
	if err != nil {
		return nil, err
	}
	defer release()
	for try := 0; try < how.tries; try++ {
		var m *wire.Msg
		m, err = e.once(ctx, "udp", e.udp, to, q, how)
		switch {
		case err != nil && unroutable(err):
			return nil, err
		case err != nil:
			continue
		case !how.old && (m.Rcode == wire.RcodeFormatError || m.Rcode == wire.RcodeNotImplemented):
			// A server from before EDNS: ask once more as it likes it.
			how.old = true
			try--
		case m.Truncated:
			return e.whole(ctx, to, q, how)
		default:
			return m, nil
		}
	}
	if how.insist && ctx.Err() == nil {
		return e.once(ctx, "tcp", e.tcp, to, q, how)
	}
	return nil, err
}

// whole asks by TCP for an answer that UDP truncated.
func (e exchanger) whole(ctx context.Context, to netip.AddrPort, q question, how manner) (*wire.Msg, error) {
	m, err := e.once(ctx, "tcp", e.tcp, to, q, how)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTruncated, err)
	}
	return m, nil
}

// unroutable errors do not go away by trying again.
func unroutable(err error) bool {
	return errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// once sends one query from a new socket and waits for its answer. The socket
// is connected, so the kernel drops what other addresses send.
func (e exchanger) once(ctx context.Context, network string, limit time.Duration, to netip.AddrPort, q question, how manner) (*wire.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, to.String())
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	// A context that ends early ends the reading too.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	query := newQuery(q, how)
	packet, err := query.Pack()
	if err != nil {
		return nil, err
	}
	c := framed{conn, network == "tcp"}
	if err := c.write(packet); err != nil {
		return nil, err
	}
	return await(c, query.Id, q)
}

func newQuery(q question, how manner) *wire.Msg {
	m := new(wire.Msg)
	m.SetQuestion(wire.Fqdn(q.name), q.qtype)
	m.Id = wire.Id()
	// A resolver that checks DNSSEC says so to who sets this bit (RFC 6840).
	m.AuthenticatedData = how.recurse
	m.RecursionDesired, m.CheckingDisabled = how.recurse, how.unchecked
	if !how.old {
		m.SetEdns0(ednsSize, false)
	}
	return m
}

// buffers hold packets while they are read; what is unpacked is a copy.
var buffers = sync.Pool{New: func() any { return new([wire.MaxMsgSize]byte) }}

// await reads until the answer to this very query comes; stray and forged
// packets are passed over.
func await(c framed, id uint16, q question) (*wire.Msg, error) {
	buf := buffers.Get().(*[wire.MaxMsgSize]byte)
	defer buffers.Put(buf)
	for {
		n, err := c.read(buf[:])
		if err != nil {
			return nil, err
		}
		m := new(wire.Msg)
		err = m.Unpack(buf[:n])
		if !answers(m, id, q) {
			continue
		}
		if err != nil && !m.Truncated {
			return nil, fmt.Errorf("malformed answer: %w", err)
		}
		return m, nil
	}
}

// answers reports whether m is the answer to query id about q. A server that
// could not read the query may leave the question out.
func answers(m *wire.Msg, id uint16, q question) bool {
	if m.Id != id || !m.Response || m.Opcode != wire.OpcodeQuery {
		return false
	}
	if len(m.Question) == 0 {
		return m.Rcode == wire.RcodeFormatError || m.Rcode == wire.RcodeNotImplemented
	}
	asked := m.Question[0]
	return len(m.Question) == 1 && asked.Qtype == q.qtype && asked.Qclass == wire.ClassINET &&
		strings.EqualFold(asked.Name, wire.Fqdn(q.name))
}

// framed is a connection that carries DNS messages, with the length before
// each on a stream.
type framed struct {
	net.Conn
	stream bool
}

func (f framed) write(packet []byte) error {
	if f.stream {
		packet = append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...)
	}
	_, err := f.Write(packet)
	return err
}

func (f framed) read(buf []byte) (int, error) {
	if !f.stream {
		return f.Read(buf)
	}
	var length [2]byte
	if _, err := io.ReadFull(f, length[:]); err != nil {
		return 0, err
	}
	return io.ReadFull(f, buf[:binary.BigEndian.Uint16(length[:])])
}
