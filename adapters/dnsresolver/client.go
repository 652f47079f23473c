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

	"github.com/tenantry/tenantry/core/access"
)

// ednsSize is the largest UDP message that common networks do not fragment (DNS flag day 2020).
const ednsSize = 1232

// errTruncated means that the answer does not fit into UDP, and that TCP failed. errNoSlot means
// that the context ended before a slot was free.
var (
	errTruncated = errors.New("the UDP answer is truncated and TCP failed")
	errNoSlot    = errors.New("no slot was free for the question")
)

// question is a name and a record type. The name is in the form of canonicalName.
type question struct {
	name  string
	qtype uint16
}

// client sends questions to DNS servers. udpTimeout and tcpTimeout limit one attempt.
type client struct {
	udpTimeout, tcpTimeout time.Duration
	// serverSlots holds the slots for questions to servers that the owners of domains choose.
	// trustedSlots holds the slots for all other questions.
	serverSlots, trustedSlots *slots
}

type accountKey struct{}

// withAccount returns a context whose questions use the slots of an account.
func withAccount(ctx context.Context, owner access.AccountID) context.Context {
	return context.WithValue(ctx, accountKey{}, owner)
}

// acquire waits for a slot for a question to a server and returns the function that releases it.
func (c client) acquire(ctx context.Context, serverAddr netip.AddrPort, mode queryMode) (release func(), err error) {
	owner, _ := ctx.Value(accountKey{}).(access.AccountID)
	switch {
	case mode.wantsRecursion:
		return c.trustedSlots.acquire(ctx, owner, serverAddr, maxTrustedQuestions)
	case mode.isTrusted:
		return c.trustedSlots.acquire(ctx, owner, serverAddr, maxPerAddress)
	default:
		return c.serverSlots.acquire(ctx, owner, serverAddr, maxPerAddress)
	}
}

// queryMode determines how a question is sent.
type queryMode struct {
	tries          int  // attempts by UDP
	mayUseTCP      bool // try TCP when all attempts by UDP fail
	wantsRecursion bool // set RD: the server may ask other servers
	// checkingDisabled sets the CD flag: the resolver also returns answers that fail DNSSEC
	// validation.
	checkingDisabled bool
	noEDNS           bool
	// isTrusted is true for the servers of public suffixes, because the owners of domains do not
	// choose these servers.
	isTrusted bool
}

var (
	modeServer           = queryMode{tries: 2, mayUseTCP: true}
	modeSilentServer     = queryMode{tries: 1}
	modeParent           = queryMode{tries: 1}
	modeRegistry         = queryMode{tries: 1, isTrusted: true}
	modeResolver         = queryMode{tries: 1, wantsRecursion: true}
	modeResolverAsServer = queryMode{tries: 2, mayUseTCP: true, wantsRecursion: true}
	modeUnchecked        = queryMode{tries: 1, wantsRecursion: true, checkingDisabled: true}
)

// exchange sends q to a server and returns its answer. It uses TCP when the UDP answer is
// truncated. If mode.mayUseTCP is set, it also uses TCP when all attempts by UDP fail. It fails if
// no attempt gets an answer, or if ctx ends. The error wraps errNoSlot if ctx ended before q got a
// slot.
func (c client) exchange(ctx context.Context, serverAddr netip.AddrPort, q question, mode queryMode) (*wire.Msg, error) {
	release, err := c.acquire(ctx, serverAddr, mode)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoSlot, err)
	}
	defer release()
	for try := 0; try < mode.tries; try++ {
		var m *wire.Msg
		m, err = c.exchangeOnce(ctx, "udp", c.udpTimeout, serverAddr, q, mode)
		switch {
		case err != nil && isUnroutable(err):
			return nil, err
		case err != nil:
			continue
		case !mode.noEDNS && (m.Rcode == wire.RcodeFormatError || m.Rcode == wire.RcodeNotImplemented):
			// The server does not support EDNS: the attempt is repeated without EDNS.
			mode.noEDNS = true
			try--
		case m.Truncated:
			if m, err = c.exchangeOnce(ctx, "tcp", c.tcpTimeout, serverAddr, q, mode); err != nil {
				return nil, fmt.Errorf("%w: %w", errTruncated, err)
			}
			return m, nil
		default:
			return m, nil
		}
	}
	if mode.mayUseTCP && ctx.Err() == nil {
		return c.exchangeOnce(ctx, "tcp", c.tcpTimeout, serverAddr, q, mode)
	}
	return nil, err
}

// isUnroutable reports whether err means that no route to the address exists. A second attempt
// would fail too.
func isUnroutable(err error) bool {
	return errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// exchangeOnce sends one query from a new socket and waits for its answer. The socket is connected,
// so the kernel drops packets from other addresses.
func (c client) exchangeOnce(ctx context.Context, network string, limit time.Duration, serverAddr netip.AddrPort, q question, mode queryMode) (*wire.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, serverAddr.String())
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	// When the context ends, a pending read fails at once.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	query := newQuery(q, mode)
	packet, err := query.Pack()
	if err != nil {
		return nil, err
	}
	mc := messageConn{conn, network == "tcp"}
	if err := mc.write(packet); err != nil {
		return nil, err
	}
	return readAnswer(mc, query.Id, q)
}

func newQuery(q question, mode queryMode) *wire.Msg {
	msg := new(wire.Msg)
	msg.SetQuestion(wire.Fqdn(q.name), q.qtype)
	msg.Id = wire.Id()
	// The AD flag in a query asks a validating resolver to set AD in an answer that passed DNSSEC
	// validation (RFC 6840).
	msg.AuthenticatedData = mode.wantsRecursion
	msg.RecursionDesired, msg.CheckingDisabled = mode.wantsRecursion, mode.checkingDisabled
	if !mode.noEDNS {
		msg.SetEdns0(ednsSize, false)
	}
	return msg
}

// buffers holds buffers for packets. A buffer can be reused after Unpack, because Unpack copies the
// data.
var buffers = sync.Pool{New: func() any { return new([wire.MaxMsgSize]byte) }}

// readAnswer reads packets until the answer to this query arrives. It ignores other packets, which
// can be late or forged.
func readAnswer(c messageConn, id uint16, q question) (*wire.Msg, error) {
	buf := buffers.Get().(*[wire.MaxMsgSize]byte)
	defer buffers.Put(buf)
	for {
		n, err := c.read(buf[:])
		if err != nil {
			return nil, err
		}
		m := new(wire.Msg)
		err = m.Unpack(buf[:n])
		if !isAnswerTo(m, id, q) {
			continue
		}
		if err != nil && !m.Truncated {
			return nil, fmt.Errorf("malformed answer: %w", err)
		}
		return m, nil
	}
}

// isAnswerTo reports whether msg is the answer to the query with this id about q. A server that
// could not parse the query may omit the question.
func isAnswerTo(msg *wire.Msg, id uint16, q question) bool {
	if msg.Id != id || !msg.Response || msg.Opcode != wire.OpcodeQuery {
		return false
	}
	if len(msg.Question) == 0 {
		return msg.Rcode == wire.RcodeFormatError || msg.Rcode == wire.RcodeNotImplemented
	}
	answered := msg.Question[0]
	return len(msg.Question) == 1 && answered.Qtype == q.qtype && answered.Qclass == wire.ClassINET &&
		strings.EqualFold(answered.Name, wire.Fqdn(q.name))
}

// messageConn sends and receives DNS messages. On a stream, two bytes with the length precede each
// message.
type messageConn struct {
	net.Conn
	isStream bool
}

func (c messageConn) write(packet []byte) error {
	if c.isStream {
		packet = append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...)
	}
	_, err := c.Write(packet)
	return err
}

func (c messageConn) read(buf []byte) (int, error) {
	if !c.isStream {
		return c.Read(buf)
	}
	var length [2]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return 0, err
	}
	return io.ReadFull(c, buf[:binary.BigEndian.Uint16(length[:])])
}
