// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	clockSkew = 300 // in seconds, the value that RFC 8945 recommends
	// The limits of a zone transfer. They are needed because a customer chooses the server, which
	// may send any amount of data.
	maxRecords = 20_000
	maxBytes   = 8 << 20
)

// dial connects by TCP, because an update or a transfer may be larger than a datagram. The caller
// must call the returned function to close the connection. The connection is also closed when ctx
// ends, and after p.timeout.
func (p *provider) dial(ctx context.Context) (*wire.Conn, func(), error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	conn, err := p.dialer.DialContext(ctx, "tcp", p.server)
	if err != nil {
		cancel()
		return nil, nil, sdk.TransportError(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return &wire.Conn{Conn: conn, TsigSecret: p.secrets}, func() {
		stop()
		_ = conn.Close()
		cancel()
	}, nil
}

func (p *provider) sign(msg *wire.Msg) { msg.SetTsig(p.key, p.algorithm, clockSkew, time.Now().Unix()) }

// transfer returns all records of a zone by AXFR, without the second SOA. It fails with sdk.NoZone
// or another outcome of package sdk, for example if the zone exceeds maxRecords or maxBytes.
func (p *provider) transfer(ctx context.Context, zone string) ([]wire.RR, error) {
	conn, closeConn, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer closeConn()
	query := new(wire.Msg).SetAxfr(wire.Fqdn(zone))
	p.sign(query)
	parts, err := (&wire.Transfer{Conn: conn, TsigSecret: p.secrets, ReadTimeout: p.timeout, WriteTimeout: p.timeout}).In(query, p.server)
	if err != nil {
		return nil, sdk.TransportError(err)
	}
	var records []wire.RR
	size := 0
	for part := range parts {
		if err != nil {
			continue // The zone is too large and the connection is closed. Receive until the library closes the channel.
		}
		if errors.Is(part.Error, wire.ErrAuth) {
			return nil, p.notAuthError(ctx, zone)
		}
		if part.Error != nil {
			return nil, transferError(part.Error)
		}
		for _, rr := range part.RR {
			size += wire.Len(rr)
		}
		if records = append(records, part.RR...); len(records) > maxRecords || size > maxBytes {
			closeConn()
			records, err = nil, sdk.AnswerTooLarge()
		}
	}
	if err != nil {
		return nil, err
	}
	if len(records) < 2 {
		return nil, sdk.BrokenAnswer("empty_transfer")
	}
	if setKey(records[0]) != sdk.PlainName(zone)+" SOA" {
		return nil, sdk.BrokenAnswer("different_zone")
	}
	return records[:len(records)-1], nil // the last record is the SOA again
}

// notAuthError returns the error for a transfer that the server answered with NOTAUTH. The server
// does not have the zone, or it does not accept the key. miekg/dns does not tell which. If the
// server accepts the key in a query, it does not have the zone.
func (p *provider) notAuthError(ctx context.Context, zone string) error {
	conn, closeConn, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer closeConn()
	query := new(wire.Msg).SetQuestion(wire.Fqdn(zone), wire.TypeSOA)
	p.sign(query)
	if err := conn.WriteMsg(query); err != nil {
		return sdk.TransportError(err)
	}
	switch resp, err := conn.ReadMsg(); {
	case resp == nil:
		return sdk.TransportError(err)
	case err != nil || resp.IsTsig() == nil || resp.Rcode == wire.RcodeNotAuth:
		return sdk.CredentialRefused("transfer_refused")
	}
	return sdk.NoZone()
}

// transferError classifies the error of a transfer. miekg/dns returns the response code only as
// text. Every other wire.Error means that the answer cannot be decoded, has the wrong id, or does
// not begin with a SOA.
func transferError(err error) error {
	switch {
	case isTSIGError(err), strings.HasSuffix(err.Error(), "bad xfr rcode: 5"):
		return sdk.CredentialRefused("transfer_refused")
	case strings.Contains(err.Error(), "bad xfr rcode: "):
		return sdk.BrokenAnswer("transfer_" + err.Error()[strings.LastIndexByte(err.Error(), ' ')+1:])
	case errors.As(err, new(*wire.Error)), errors.Is(err, io.ErrUnexpectedEOF):
		return sdk.BrokenAnswer("not_a_dns_message")
	default:
		return sdk.TransportError(err)
	}
}

// isTSIGError reports whether the server did not accept the key, or whether its answer has no valid
// signature.
func isTSIGError(err error) bool {
	for _, e := range []error{wire.ErrAuth, wire.ErrSig, wire.ErrKey, wire.ErrSecret, wire.ErrTime, wire.ErrKeyAlg, wire.ErrNoSig} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// update sends an update message and returns the error for the answer. Every answer other than
// NOTAUTH must be signed.
func (p *provider) update(ctx context.Context, msg *wire.Msg) error {
	conn, closeConn, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer closeConn()
	p.sign(msg)
	if err := conn.WriteMsg(msg); err != nil {
		return sdk.UnknownEffect("no_answer")
	}
	resp, err := conn.ReadMsg()
	switch {
	case resp == nil || (err != nil && !isTSIGError(err)) || resp.Id != msg.Id:
		return sdk.UnknownEffect("no_answer")
	case (err != nil || resp.IsTsig() == nil) && resp.Rcode != wire.RcodeNotAuth:
		// Anybody can send an unsigned answer. ReadMsg verifies a signature only if there is one.
		return sdk.UnknownEffect("unsigned_answer")
	}
	return rcodeError(resp.Rcode)
}

// rcodeError returns the error for the response code of an update, or nil for NOERROR.
func rcodeError(code int) error {
	cause := "rcode " + wire.RcodeToString[code]
	switch code {
	case wire.RcodeSuccess:
		return nil
	case wire.RcodeYXDomain, wire.RcodeYXRrset, wire.RcodeNXRrset, wire.RcodeNameError:
		return sdk.ZoneChanged()
	case wire.RcodeNotAuth, wire.RcodeRefused:
		return sdk.CredentialRefused(cause)
	case wire.RcodeFormatError, wire.RcodeNotImplemented, wire.RcodeNotZone:
		return sdk.RequestRefused(cause)
	default:
		return sdk.BrokenAnswer(cause)
	}
}
