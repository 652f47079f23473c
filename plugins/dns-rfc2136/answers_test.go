// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"strings"
	"testing"
	"time"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestLargeTransferIsRefused checks that Records refuses a transfer that is larger than maxBytes,
// even if the transfer has few records.
func TestLargeTransferIsRefused(t *testing.T) {
	dnsProvider := serveMessages(t, answerLargeTransfer)
	_, err := dnsProvider.Records(t.Context(), sdk.Zone{ID: "a.test", Name: "a.test"})
	if err == nil || !strings.Contains(err.Error(), "answer_too_large") {
		t.Fatalf("Records: %v, want answer_too_large", err)
	}
}

// serveMessages starts a server that passes all messages to a handler, and returns a provider for
// this server.
func serveMessages(t *testing.T, handler wire.HandlerFunc) sdk.DNSProvider {
	t.Helper()
	const key = "c2VjcmV0"
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &wire.Server{Listener: listener, Net: "tcp", TsigSecret: map[string]string{"k.": key}, Handler: handler,
		MsgAcceptFunc: func(wire.Header) wire.MsgAcceptAction { return wire.MsgAccept }}
	go func() { _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = listener.Close() })
	provider, err := newTestProvider(sdk.Connection{
		Settings: map[string]string{"server": listener.Addr().String(), "zones": "a.test", "key_name": "k", "allow_private": "true"},
		Secrets:  map[string]sdk.Secret{"key_secret": sdk.NewSecret(key)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

// TestRecordsOutsideTheZoneAreOmitted uses a server that answers every transfer with the zone
// a.test and a record outside of that zone. If a different zone was requested, Records must fail.
func TestRecordsOutsideTheZoneAreOmitted(t *testing.T) {
	var soa, outsideRecord, zoneRecord wire.RR
	for text, rr := range map[string]*wire.RR{
		"a.test. 300 IN SOA ns.a.test. h.a.test. 1 1 1 1 1": &soa, "not-a.test. 300 IN A 192.0.2.1": &outsideRecord, "w.a.test. 300 IN A 192.0.2.2": &zoneRecord,
	} {
		parsed, err := wire.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		*rr = parsed
	}
	dnsProvider := serveMessages(t, func(w wire.ResponseWriter, r *wire.Msg) {
		parts := make(chan *wire.Envelope, 1)
		parts <- &wire.Envelope{RR: []wire.RR{soa, outsideRecord, zoneRecord, soa}}
		close(parts)
		_ = new(wire.Transfer).Out(w, r, parts)
	})
	got, err := dnsProvider.Records(t.Context(), sdk.Zone{ID: "a.test", Name: "a.test"})
	if err != nil || len(got) != 2 || got[0].Type != sdk.SOA || got[1].Name != "w.a.test" {
		t.Errorf("Records: %+v, %v, want the SOA and w.a.test", got, err)
	}
	if _, err := dnsProvider.Records(t.Context(), sdk.Zone{ID: "b.test", Name: "b.test"}); sdk.OutcomeOf(err).Kind != sdk.Broken {
		t.Errorf("Records of b.test, answered with a.test: %v, want broken", err)
	}
}

// TestUnsignedAnswerHasUnknownOutcome checks unsigned answers to an update. Only the response code
// NOTAUTH counts, because a server that does not know the key cannot sign its answer.
func TestUnsignedAnswerHasUnknownOutcome(t *testing.T) {
	for rcode, want := range map[int]sdk.OutcomeKind{
		wire.RcodeSuccess: sdk.Unknown, wire.RcodeNXRrset: sdk.Unknown, wire.RcodeRefused: sdk.Unknown, wire.RcodeNotAuth: sdk.Refused,
	} {
		dnsProvider := serveMessages(t, func(w wire.ResponseWriter, r *wire.Msg) { _ = w.WriteMsg(new(wire.Msg).SetRcode(r, rcode)) })
		err := dnsProvider.(*provider).update(t.Context(), new(wire.Msg).SetUpdate("a.test."))
		if got := sdk.OutcomeOf(err).Kind; got != want {
			t.Errorf("%s: %v (%v), want %v", wire.RcodeToString[rcode], got, err, want)
		}
	}
}

// TestNotAuthNamesItsReason checks the errors for a transfer that the server answers with NOTAUTH.
// The plugin then sends a query. If the server signs its answer to the query, the server accepts
// the key, and does not have the zone. Otherwise it does not accept the key.
func TestNotAuthNamesItsReason(t *testing.T) {
	for _, tc := range []struct {
		queryRcode int
		signsQuery bool
		wantNoZone bool
	}{{wire.RcodeRefused, true, true}, {wire.RcodeSuccess, true, true}, {wire.RcodeRefused, false, false}, {wire.RcodeNotAuth, false, false}} {
		dnsProvider := serveMessages(t, func(w wire.ResponseWriter, r *wire.Msg) {
			answer := new(wire.Msg).SetRcode(r, wire.RcodeNotAuth)
			if r.Question[0].Qtype == wire.TypeSOA {
				answer.Rcode = tc.queryRcode
			}
			if tc.signsQuery {
				answer.SetTsig("k.", wire.HmacSHA256, clockSkew, time.Now().Unix())
			}
			_ = w.WriteMsg(answer)
		})
		_, err := dnsProvider.Records(t.Context(), sdk.Zone{ID: "a.test", Name: "a.test"})
		if sdk.IsNoZone(err) != tc.wantNoZone || !tc.wantNoZone && sdk.OutcomeOf(err).Kind != sdk.Refused {
			t.Errorf("answer to the query %+v: got %v, want no zone: %v, otherwise a refusal of the key", tc, err, tc.wantNoZone)
		}
	}
}

// answerLargeTransfer answers with a transfer of a.test that has 1,000 records of 40 kB.
func answerLargeTransfer(w wire.ResponseWriter, r *wire.Msg) {
	soa, _ := wire.NewRR("a.test. 300 IN SOA ns.a.test. h.a.test. 1 1 1 1 1")
	long := &wire.TXT{Hdr: wire.RR_Header{Name: "a.test.", Rrtype: wire.TypeTXT, Class: wire.ClassINET, Ttl: 300}}
	for range 160 {
		long.Txt = append(long.Txt, strings.Repeat("x", 250))
	}
	parts := make(chan *wire.Envelope)
	go func() {
		defer close(parts)
		parts <- &wire.Envelope{RR: []wire.RR{soa}}
		for range 1000 {
			parts <- &wire.Envelope{RR: []wire.RR{long}}
		}
		parts <- &wire.Envelope{RR: []wire.RR{soa}}
	}()
	_ = new(wire.Transfer).Out(w, r, parts)
	for range parts { // receive the parts that Out did not send, so that the goroutine ends
	}
}
