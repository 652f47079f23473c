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

// maxCNAMEs is the maximum number of CNAMEs that an answer follows.
const maxCNAMEs = 8

// Server answers for all zones of a Store, by UDP and TCP on loopback. It also accepts recursive
// questions, so it can be the resolver of the sandbox. For a name outside its zones it answers like
// the registry of that name, usually with NXDOMAIN.
type Server struct {
	store   *Store
	addr    string
	servers []*wire.Server
	done    sync.WaitGroup
}

// Listen starts a server on a free port. It fails if no port can be opened for both UDP and TCP.
func Listen(ctx context.Context, store *Store) (*Server, error) {
	udp, tcp, err := listenUDPAndTCP(ctx)
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

// listenUDPAndTCP opens the same free port for UDP and TCP. The kernel chooses the UDP port. If the
// TCP port with the same number is in use, listenUDPAndTCP tries a different number.
func listenUDPAndTCP(ctx context.Context) (net.PacketConn, net.Listener, error) {
	var config net.ListenConfig
	var lastErr error
	for range 20 {
		udp, err := config.ListenPacket(ctx, "udp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, err
		}
		tcp, err := config.Listen(ctx, "tcp", udp.LocalAddr().String())
		if err == nil {
			return udp, tcp, nil
		}
		lastErr = errors.Join(err, udp.Close())
	}
	return nil, nil, lastErr
}

// Addr returns the address of the server, host:port.
func (s *Server) Addr() string { return s.addr }

// Port returns the port of Addr.
func (s *Server) Port() int { return int(netip.MustParseAddrPort(s.addr).Port()) }

// Close stops the server and waits until it has stopped.
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

func (s *Server) reply(question *wire.Msg) *wire.Msg {
	answer := new(wire.Msg)
	switch {
	case question.Opcode != wire.OpcodeQuery:
		return answer.SetRcode(question, wire.RcodeNotImplemented)
	case len(question.Question) != 1:
		return answer.SetRcode(question, wire.RcodeFormatError)
	case question.Question[0].Qclass != wire.ClassINET:
		return answer.SetRcode(question, wire.RcodeRefused)
	}
	answer.SetReply(question)
	answer.RecursionAvailable = question.RecursionDesired
	if question.IsEdns0() != nil {
		answer.SetEdns0(1232, false)
	}
	s.store.mu.RLock()
	defer s.store.mu.RUnlock()
	s.store.answer(answer, canonicalName(question.Question[0].Name), question.Question[0].Qtype, 0)
	return answer
}

// answer adds the records for a question to reply. It follows CNAMEs across zones. depth is the
// number of flattened CNAMEs that led to this question. The caller holds the lock.
func (s *Store) answer(reply *wire.Msg, name string, qtype uint16, depth int) {
	reply.Authoritative = true
	for range maxCNAMEs + 1 {
		z := s.enclosingZone(name)
		if z == nil {
			s.answerUnregistered(reply, name)
			return
		}
		if ns := z.delegationOf(name); len(ns) > 0 {
			reply.Authoritative = reply.Authoritative && len(reply.Answer) > 0
			reply.Ns = ns
			return
		}
		target := s.answerFromZone(reply, z, name, qtype, depth)
		if target == "" {
			return
		}
		name = target
	}
}

// answerFromZone answers from one zone. It returns the target of a CNAME that must still be
// followed, or "" if the answer is complete.
func (s *Store) answerFromZone(m *wire.Msg, z *zone, name string, qtype uint16, depth int) string {
	owner, exists := z.lookup(name)
	list := z.recordsAt(owner, name)
	if found := append(recordsOfType(list, qtype), s.veiledAnswer(z, owner, name, qtype, depth)...); len(found) > 0 {
		m.Answer = append(m.Answer, found...)
		return ""
	}
	if alias := recordsOfType(list, wire.TypeCNAME); len(alias) > 0 {
		m.Answer = append(m.Answer, alias...)
		return canonicalName(alias[0].(*wire.CNAME).Target)
	}
	if !exists {
		m.Rcode = wire.RcodeNameError
	}
	m.Ns = []wire.RR{z.soa}
	return ""
}

// answerUnregistered answers for a name that no zone contains. Like a resolver, it returns the SOA
// of the registry in which the name could be registered.
func (s *Store) answerUnregistered(m *wire.Msg, name string) {
	apex := s.registryOf(name)
	m.Ns = []wire.RR{registrySOA(apex)}
	if name != apex {
		m.Rcode = wire.RcodeNameError
		return
	}
	if q := m.Question[0]; q.Qtype == wire.TypeSOA && canonicalName(q.Name) == name {
		m.Answer, m.Ns = m.Ns, nil
	}
}

// registrySOA returns the SOA of a registry zone: a top-level domain, or the root "".
func registrySOA(apex string) *wire.SOA {
	return &wire.SOA{
		Hdr: header(apex, wire.TypeSOA, 3600), Ns: "a.root.sandbox-registrar.test.", Mbox: "hostmaster.sandbox-registrar.test.",
		Serial: 1, Refresh: 3600, Retry: 600, Expire: 604800, Minttl: negativeTTL,
	}
}
