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

// dnsTimeout limits one query over one protocol, and the request for the address of the DNS server.
const dnsTimeout = 10 * time.Second

// dnsTypes contains the record types that this package queries, keyed by their names.
var dnsTypes = map[string]dnsmessage.Type{
	"TXT": dnsmessage.TypeTXT, "MX": dnsmessage.TypeMX, "CNAME": dnsmessage.TypeCNAME,
}

// lookup returns the values of a name's records of one type. It does not use net.Resolver, whose
// LookupCNAME returns the end of a chain of CNAME records. It fails if the name is invalid, if the
// DNS server is unknown, or if the server sends no valid reply. It ignores the response code.
func (s *simulator) lookup(ctx context.Context, name, recordType string) ([]string, error) {
	server, err := s.dnsServer(ctx)
	if err != nil {
		return nil, err
	}
	owner, err := dnsmessage.NewName(strings.TrimSuffix(name, ".") + ".")
	if err != nil {
		return nil, fmt.Errorf("name: %w", err)
	}
	query := dnsmessage.Message{
		Header: dnsmessage.Header{ID: uint16(rand.Uint32()), RecursionDesired: true},
		Questions: []dnsmessage.Question{
			{Name: owner, Type: dnsTypes[recordType], Class: dnsmessage.ClassINET}},
	}
	reply, err := exchangeDNS(ctx, "udp", server, query)
	if err != nil || reply.Truncated {
		reply, err = exchangeDNS(ctx, "tcp", server, query)
	}
	if err != nil {
		return nil, err
	}
	return recordValues(reply, dnsTypes[recordType]), nil
}

// lookupOrLog is lookup, but logs a failure and returns no values, because Microsoft then does not
// find the record either.
func (s *simulator) lookupOrLog(ctx context.Context, name, recordType string) []string {
	found, err := s.lookup(ctx, name, recordType)
	if err != nil {
		s.logf("look up %s: %v", recordType, err)
	}
	return found
}

// dnsServer asks the sandbox for the address of its DNS server.
func (s *simulator) dnsServer(ctx context.Context) (string, error) {
	if s.kit.World == "" {
		return "", errors.New("the simulator runs outside a sandbox (without --world), so the DNS server is unknown")
	}
	ctx, cancel := context.WithTimeout(ctx, dnsTimeout)
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
	var answer struct {
		Addr string `json:"addr"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 4096)).Decode(&answer); err != nil {
		return "", fmt.Errorf("address of the DNS server: %w", err)
	}
	return answer.Addr, nil
}

// exchangeDNS sends one query over the network "udp" or "tcp", and returns the reply.
func exchangeDNS(ctx context.Context, network, server string, query dnsmessage.Message) (dnsmessage.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, dnsTimeout)
	defer cancel()
	var reply dnsmessage.Message
	packed, err := query.Pack()
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
		packed = append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...)
	}
	if _, err := conn.Write(packed); err != nil {
		return reply, err
	}
	raw, err := readDNSMessage(conn, network)
	if err != nil {
		return reply, err
	}
	if err := reply.Unpack(raw); err != nil {
		return reply, err
	}
	if reply.ID != query.ID {
		return reply, errors.New("the DNS reply has the id of a different query")
	}
	return reply, nil
}

// readDNSMessage reads one message. Over UDP that is a datagram. Over TCP a length precedes the
// message (RFC 1035, section 4.2.2).
func readDNSMessage(conn net.Conn, network string) ([]byte, error) {
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

// recordValues returns the values of the TXT and MX records of a reply, and also of the CNAME
// records if the query was for CNAME. Host names are in lower case and without the final dot.
func recordValues(reply dnsmessage.Message, recordType dnsmessage.Type) []string {
	host := func(n dnsmessage.Name) string { return strings.ToLower(strings.TrimSuffix(n.String(), ".")) }
	var values []string
	for _, a := range reply.Answers {
		switch body := a.Body.(type) {
		case *dnsmessage.TXTResource:
			values = append(values, strings.Join(body.TXT, ""))
		case *dnsmessage.MXResource:
			values = append(values, host(body.MX))
		case *dnsmessage.CNAMEResource:
			if recordType == dnsmessage.TypeCNAME {
				values = append(values, host(body.CNAME))
			}
		}
	}
	return values
}
