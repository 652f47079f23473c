// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const (
	soaTTL = 3600
	// tsigFudge is the Fudge of signed answers: the permitted difference between the clocks, in
	// seconds.
	tsigFudge = 300
	// maxRecordsPerMessage is the maximum number of records in one message of a transfer.
	maxRecordsPerMessage = 100
)

// request is a message of a client.
type request struct {
	*wire.Msg
	tsig *wire.TSIG // nil if the message is not signed
	// tsigError is the TSIG error of a signature that is not accepted, or 0.
	tsigError uint16
}

// newRequest parses a message and checks its signature. It returns nil if the bytes are not a DNS
// message.
func newRequest(raw []byte) *request {
	msg := new(wire.Msg)
	if err := msg.Unpack(raw); err != nil {
		return nil
	}
	req := &request{Msg: msg, tsig: msg.IsTsig()}
	if req.tsig == nil {
		return req
	}
	if wire.CanonicalName(req.tsig.Hdr.Name) != KeyName+"." || wire.CanonicalName(req.tsig.Algorithm) != wire.HmacSHA256 {
		req.tsigError = wire.RcodeBadKey
		return req
	}
	switch err := wire.TsigVerify(raw, Secret, "", false); {
	case errors.Is(err, wire.ErrTime):
		req.tsigError = wire.RcodeBadTime
	case err != nil:
		req.tsigError = wire.RcodeBadSig
	}
	return req
}

func isTransfer(msg *wire.Msg) bool {
	return len(msg.Question) == 1 && msg.Question[0].Qtype == wire.TypeAXFR
}

// replyWithCode returns the bytes of an answer that has only a response code.
func (req *request) replyWithCode(code int) []byte {
	return req.pack(new(wire.Msg).SetRcode(req.Msg, code))
}

// pack signs the messages and returns their bytes on a TCP connection. It returns nil if a message
// cannot be packed.
func (req *request) pack(messages ...*wire.Msg) []byte {
	var packed []byte
	mac := ""
	if req.tsig != nil {
		mac = req.tsig.MAC
	}
	for i, msg := range messages {
		raw, err := req.sign(msg, &mac, i > 0)
		if err != nil {
			return nil // serve then closes the connection, like a server that fails
		}
		packed = append(binary.BigEndian.AppendUint16(packed, uint16(len(raw))), raw...)
	}
	return packed
}

// sign returns the bytes of the answer msg, with a TSIG record if the request has one. mac is the
// MAC of the request or of the previous message, and sign sets it to the MAC of msg. followsAnother
// is true for the second and each later message of a transfer, whose signatures cover less data
// (RFC 8945, 5.3.1).
func (req *request) sign(msg *wire.Msg, mac *string, followsAnother bool) (raw []byte, err error) {
	if req.tsig == nil {
		return msg.Pack()
	}
	msg.SetTsig(req.tsig.Hdr.Name, req.tsig.Algorithm, tsigFudge, time.Now().Unix())
	tsig := msg.IsTsig()
	tsig.Error, tsig.OrigId = req.tsigError, msg.Id
	if req.tsigError == wire.RcodeBadKey || req.tsigError == wire.RcodeBadSig { // an answer with one of these errors is not signed (RFC 8945, 5.2)
		return msg.Pack()
	}
	raw, *mac, err = wire.TsigGenerate(msg, Secret, *mac, followsAnother)
	return raw, err
}

// answer returns the bytes of the answer on a TCP connection.
func (s *simulator) answer(ctx context.Context, req *request) []byte {
	switch {
	case req.tsigError != 0:
		return req.replyWithCode(wire.RcodeNotAuth)
	case len(req.Question) != 1:
		return req.replyWithCode(wire.RcodeFormatError)
	case req.Opcode == wire.OpcodeUpdate:
		return req.replyWithCode(s.update(ctx, req))
	case req.Opcode != wire.OpcodeQuery:
		return req.replyWithCode(wire.RcodeNotImplemented)
	case isTransfer(req.Msg):
		return s.transfer(ctx, req)
	}
	return s.query(ctx, req)
}

// zone returns the zone with this apex. It fails with simulate.ErrNoZone if the zone does not
// exist.
func (s *simulator) zone(ctx context.Context, apex string) (simulate.Zone, error) {
	if name := sdk.PlainName(apex); name != OperatorZone {
		return s.zones.Get(ctx, name)
	}
	return simulate.Zone{Name: OperatorZone, NameServers: simulate.NameServers(provider), Version: 1}, nil
}

// transfer answers an AXFR query (RFC 5936) with all records of the zone. The first and the last
// record are the SOA. It refuses an unsigned query.
func (s *simulator) transfer(ctx context.Context, req *request) []byte {
	zone, err := s.zone(ctx, req.Question[0].Name)
	var records []wire.RR
	if err == nil {
		records, err = recordsOf(zone)
	}
	switch {
	case errors.Is(err, simulate.ErrNoZone):
		return req.replyWithCode(wire.RcodeNotAuth)
	case err != nil:
		return req.replyWithCode(wire.RcodeServerFailure)
	case req.tsig == nil:
		return req.replyWithCode(wire.RcodeRefused)
	}
	var messages []*wire.Msg
	for part := range slices.Chunk(append(records, records[0]), maxRecordsPerMessage) {
		msg := new(wire.Msg).SetReply(req.Msg)
		msg.Authoritative, msg.Answer = true, part
		messages = append(messages, msg)
	}
	return req.pack(messages...)
}

// query answers a query for a name of a zone. It ignores wildcards and delegations, and does not
// follow CNAME records.
func (s *simulator) query(ctx context.Context, req *request) []byte {
	queried := req.Question[0]
	for _, index := range wire.Split(queried.Name) {
		zone, err := s.zone(ctx, queried.Name[index:])
		if errors.Is(err, simulate.ErrNoZone) {
			continue
		}
		var records []wire.RR
		if err == nil {
			records, err = recordsOf(zone)
		}
		if err != nil {
			return req.replyWithCode(wire.RcodeServerFailure)
		}
		withName := recordsNamed(records, queried.Name)
		msg := new(wire.Msg).SetReply(req.Msg)
		msg.Authoritative = true
		if msg.Answer = recordsOfType(withName, queried.Qtype); len(msg.Answer) == 0 {
			msg.Ns = records[:1]
		}
		if len(withName) == 0 {
			msg.Rcode = wire.RcodeNameError
		}
		return req.pack(msg)
	}
	return req.replyWithCode(wire.RcodeRefused)
}

// recordsOf returns the records of a zone, its SOA first.
func recordsOf(z simulate.Zone) ([]wire.RR, error) {
	sets := append([]sdk.RRSet{
		{Name: z.Name, Type: sdk.SOA, TTL: soaTTL, Values: []string{fmt.Sprintf("%s. hostmaster.%s. %d 3600 600 604800 60", z.NameServers[0], z.Name, z.Version)}},
		{Name: z.Name, Type: sdk.NS, TTL: soaTTL, Values: z.NameServers},
	}, simulate.SetsOf(z.Records)...)
	var records []wire.RR
	for _, set := range sets {
		for _, value := range set.Values {
			rr, err := wire.NewRR(fmt.Sprintf("%s. %d IN %s %s", set.Name, set.TTL, set.Type, sdk.WriteContent(set.Type, value)))
			if err != nil {
				return nil, err
			}
			records = append(records, rr)
		}
	}
	return records, nil
}

// toStoredRecords returns the records in the format of simulate.Zones, without the SOA and NS
// records of the apex. It is the inverse of recordsOf.
func toStoredRecords(zone string, records []wire.RR) ([]simulate.Record, error) {
	var sets []sdk.RRSet
	for _, rr := range records {
		header := rr.Header()
		name, kind := sdk.PlainName(header.Name), sdk.RecordType(wire.Type(header.Rrtype).String())
		if name == zone && (header.Rrtype == wire.TypeSOA || header.Rrtype == wire.TypeNS) {
			continue
		}
		value, err := sdk.ReadContent(kind, strings.TrimPrefix(rr.String(), header.String()))
		if err != nil {
			return nil, err
		}
		sets = append(sets, sdk.RRSet{Name: name, Type: kind, TTL: int(header.Ttl), Values: []string{value}})
	}
	return simulate.RecordsOf(sets), nil
}

func recordsNamed(records []wire.RR, name string) []wire.RR {
	return filter(records, func(rr wire.RR) bool { return wire.CanonicalName(rr.Header().Name) == wire.CanonicalName(name) })
}

func recordsOfType(records []wire.RR, kind uint16) []wire.RR {
	return filter(records, func(rr wire.RR) bool { return rr.Header().Rrtype == kind })
}

func filter(records []wire.RR, wanted func(wire.RR) bool) []wire.RR {
	return slices.DeleteFunc(slices.Clone(records), func(rr wire.RR) bool { return !wanted(rr) })
}
