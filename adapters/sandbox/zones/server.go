// SPDX-License-Identifier: Apache-2.0

package zones

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	wire "github.com/miekg/dns"
)

// maxLinks is how far aliases are followed.
const maxLinks = 8

// Server answers for all zones of a store by UDP and TCP, on loopback. It
// takes questions that want recursion too, so it can be the resolver of
// whoever lives in the sandbox; beyond its zones there is nothing.
type Server struct {
	store   *Store
	addr    string
	servers []*wire.Server
	done    sync.WaitGroup
}

// Listen starts a server on a free port.
func Listen(ctx context.Context, store *Store) (*Server, error) {
	udp, tcp, err := twins(ctx)
	if err != nil {
		return nil, fmt.Errorf("dns server: %w", err)
	}
	s := &Server{store: store, addr: udp.LocalAddr().String()}
	s.servers = []*wire.Server{{PacketConn: udp, Handler: s}, {Listener: tcp, Handler: s}}
	for _, server := range s.servers {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		s.done.Go(func() { _ = server.ActivateAndServe() })
		<-started
	}
	return s, nil
}

// twins opens UDP and TCP on one free port. Another process may hold the TCP
// port of the free UDP port that the kernel picked; then the next one is tried.
func twins(ctx context.Context) (net.PacketConn, net.Listener, error) {
	var config net.ListenConfig
	var failed error
	for range 20 {
		udp, err := config.ListenPacket(ctx, "udp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, err
		}
		tcp, err := config.Listen(ctx, "tcp", udp.LocalAddr().String())
		if err == nil {
			return udp, tcp, nil
		}
		failed = errors.Join(err, udp.Close())
	}
	return nil, nil, failed
}

// Addr is where the server listens.
func (s *Server) Addr() string { return s.addr }

// Port is the port of Addr.
func (s *Server) Port() int { return int(netip.MustParseAddrPort(s.addr).Port()) }

// Close ends the server.
func (s *Server) Close() error {
	var err error
	for _, server := range s.servers {
		err = errors.Join(err, server.Shutdown())
	}
	s.done.Wait()
	return err
}

// ServeDNS implements dns.Handler.
func (s *Server) ServeDNS(w wire.ResponseWriter, q *wire.Msg) {
	m := s.reply(q)
	size := wire.MaxMsgSize
	if w.RemoteAddr().Network() == "udp" {
		size = wire.MinMsgSize
		if o := q.IsEdns0(); o != nil {
			size = max(size, int(o.UDPSize()))
		}
	}
	m.Truncate(size)
	_ = w.WriteMsg(m)
}

func (s *Server) reply(q *wire.Msg) *wire.Msg {
	m := new(wire.Msg)
	switch {
	case q.Opcode != wire.OpcodeQuery:
		return m.SetRcode(q, wire.RcodeNotImplemented)
	case len(q.Question) != 1:
		return m.SetRcode(q, wire.RcodeFormatError)
	case q.Question[0].Qclass != wire.ClassINET:
		return m.SetRcode(q, wire.RcodeRefused)
	}
	m.SetReply(q)
	m.RecursionAvailable = q.RecursionDesired
	if q.IsEdns0() != nil {
		m.SetEdns0(1232, false)
	}
	s.store.mu.RLock()
	defer s.store.mu.RUnlock()
	s.store.answer(m, plain(q.Question[0].Name), q.Question[0].Qtype, 0)
	return m
}
