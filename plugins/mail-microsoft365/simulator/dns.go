// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// dnsPatience bounds one question over one protocol.
const dnsPatience = 10 * time.Second

var dnsTypes = map[string]dnsmessage.Type{
	"TXT": dnsmessage.TypeTXT, "MX": dnsmessage.TypeMX, "CNAME": dnsmessage.TypeCNAME,
}

// lookup asks the DNS for the records of one type, as the platform's resolvers
// do. It asks for a CNAME itself, where the standard resolver would follow it.
func (s *simulator) lookup(ctx context.Context, name, kind string) ([]string, error) {
	server, err := s.dnsServer(ctx)
	if err != nil {
		return nil, err
	}
	owner, err := dnsmessage.NewName(strings.TrimSuffix(name, ".") + ".")
	if err != nil {
		return nil, fmt.Errorf("name: %w", err)
	}
	ask := dnsmessage.Message{
		Header: dnsmessage.Header{ID: uint16(rand.Uint32()), RecursionDesired: true},
		Questions: []dnsmessage.Question{
			{Name: owner, Type: dnsTypes[kind], Class: dnsmessage.ClassINET}},
	}
	reply, err := exchange(ctx, "udp", server, ask)
	if err != nil || reply.Truncated {
		reply, err = exchange(ctx, "tcp", server, ask)
	}
	if err != nil {
		return nil, err
	}
	return contents(reply, dnsTypes[kind]), nil
}

// finds looks records up for a check that a missing record fails. An outage of
// the DNS fails it too, as it would at the platform, and is told in the log.
func (s *simulator) finds(ctx context.Context, name, kind string) []string {
	found, err := s.lookup(ctx, name, kind)
	if err != nil {
		s.note("look up %s: %v", kind, err)
	}
	return found
}

// dnsServer is where the sandbox's world says that its DNS is.
func (s *simulator) dnsServer(ctx context.Context) (string, error) {
	if s.kit.World == "" {
		return "", errors.New("there is no world to ask for a DNS server")
	}
	ctx, cancel := context.WithTimeout(ctx, dnsPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.kit.World+"/dns", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	var world struct {
		Addr string `json:"addr"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 4096)).Decode(&world); err != nil {
		return "", fmt.Errorf("world: %w", err)
	}
	return world.Addr, nil
}

// exchange asks one question over UDP or TCP.
func exchange(ctx context.Context, network, server string, ask dnsmessage.Message) (dnsmessage.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, dnsPatience)
	defer cancel()
	var reply dnsmessage.Message
	question, err := ask.Pack()
	if err != nil {
		return reply, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, server)
	if err != nil {
		return reply, err
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if network == "tcp" {
		question = append(binary.BigEndian.AppendUint16(nil, uint16(len(question))), question...)
	}
	if _, err := conn.Write(question); err != nil {
		return reply, err
	}
	raw, err := receive(conn, network)
	if err != nil {
		return reply, err
	}
	if err := reply.Unpack(raw); err != nil {
		return reply, err
	}
	if reply.ID != ask.ID {
		return reply, errors.New("an answer to another question")
	}
	return reply, nil
}

func receive(conn net.Conn, network string) ([]byte, error) {
	if network == "udp" {
		raw := make([]byte, 65535)
		n, err := conn.Read(raw)
		return raw[:n], err
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	raw := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(conn, raw)
	return raw, err
}

// contents reads the answers of one type, host names in lower case and without
// the final dot.
func contents(reply dnsmessage.Message, kind dnsmessage.Type) []string {
	host := func(n dnsmessage.Name) string { return strings.ToLower(strings.TrimSuffix(n.String(), ".")) }
	var out []string
	for _, a := range reply.Answers {
		switch body := a.Body.(type) {
		case *dnsmessage.TXTResource:
			out = append(out, strings.Join(body.TXT, ""))
		case *dnsmessage.MXResource:
			out = append(out, host(body.MX))
		case *dnsmessage.CNAMEResource:
			if kind == dnsmessage.TypeCNAME {
				out = append(out, host(body.CNAME))
			}
		}
	}
	return out
}
