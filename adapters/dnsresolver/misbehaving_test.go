// SPDX-License-Identifier: Apache-2.0

package dnsresolver_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	wire "github.com/miekg/dns"
	"github.com/tenantry/tenantry/adapters/dnsresolver"
	"github.com/tenantry/tenantry/core/dns"
)

// codeHandler returns a handler that answers every question with the response code.
func codeHandler(code int) wire.Handler {
	return wire.HandlerFunc(func(w wire.ResponseWriter, q *wire.Msg) {
		_ = w.WriteMsg(new(wire.Msg).SetRcode(q, code))
	})
}

// silentHandler is the handler of a server that does not answer.
var silentHandler = wire.HandlerFunc(func(wire.ResponseWriter, *wire.Msg) {})

// changingHandler returns the handler of a server of standardZone. change changes each answer.
func changingHandler(t *testing.T, change func(msg, q *wire.Msg)) wire.Handler {
	server := newServer(t, standardZone)
	return wire.HandlerFunc(func(w wire.ResponseWriter, q *wire.Msg) {
		msg := server.answer(w, q)
		change(msg, q)
		_ = w.WriteMsg(msg)
	})
}

// changeForType returns a function that applies change only to answers for qtype.
func changeForType(qtype uint16, change func(msg, q *wire.Msg)) func(msg, q *wire.Msg) {
	return func(msg, q *wire.Msg) {
		if q.Question[0].Qtype == qtype {
			change(msg, q)
		}
	}
}

func TestStateOfASecondServerIsReported(t *testing.T) {
	notAuthoritative := func(msg, _ *wire.Msg) { msg.Authoritative = false }
	referToRoot := func(msg, q *wire.Msg) {
		msg.Authoritative, msg.Answer = false, nil
		msg.Ns = []wire.RR{&wire.NS{Hdr: wire.RR_Header{Name: ".", Rrtype: wire.TypeNS, Class: wire.ClassINET}, Ns: "a.root-servers.net."}}
	}
	for _, tc := range []struct {
		name         string
		secondServer wire.Handler
		wantState    dns.ServerState
		wantReason   string
		wantWarnings []string
	}{
		{"refuses the zone", codeHandler(wire.RcodeRefused), dns.ServerLame, "single_server_answered", []string{"lame_delegation"}},
		{"fails", codeHandler(wire.RcodeServerFailure), dns.ServerLame, "single_server_answered", []string{"lame_delegation"}},
		{"serves only the parent zone", changingHandler(t, func(msg, _ *wire.Msg) {
			msg.Rcode, msg.Answer = wire.RcodeNameError, nil
			msg.Ns = []wire.RR{&wire.SOA{Hdr: wire.RR_Header{Name: "test.", Rrtype: wire.TypeSOA, Class: wire.ClassINET}, Ns: "a.", Mbox: "b."}}
		}), dns.ServerLame, "single_server_answered", []string{"lame_delegation"}},
		{"is not authoritative", codeHandler(wire.RcodeNotAuth), dns.ServerLame, "single_server_answered", []string{"lame_delegation"}},
		{"answers from a cache", changingHandler(t, notAuthoritative), dns.ServerLame, "single_server_answered", []string{"lame_delegation"}},
		{"refers upwards", changingHandler(t, referToRoot), dns.ServerLame, "single_server_answered", []string{"lame_delegation"}},
		{"does not answer", silentHandler, dns.ServerUnreachable, "single_server_answered", []string{"server_unreachable"}},
		{"does not run", nil, dns.ServerUnreachable, "single_server_answered", []string{"server_unreachable"}},
		{"refuses one type", changingHandler(t, changeForType(wire.TypeTXT, func(msg, q *wire.Msg) { msg.SetRcode(q, wire.RcodeRefused) })), dns.ServerOK, "type_unknown", []string{"wildcard_ambiguous"}},
		{"answers one type from a cache", changingHandler(t, changeForType(wire.TypeMX, notAuthoritative)), dns.ServerOK, "type_unknown", nil},
		{"cannot read EDNS", changingHandler(t, func(msg, q *wire.Msg) {
			if q.IsEdns0() != nil {
				*msg = *new(wire.Msg).SetRcodeFormatError(q)
				msg.Question = nil
			}
		}), dns.ServerOK, "", nil},
		{"does not support EDNS", changingHandler(t, func(msg, q *wire.Msg) {
			if q.IsEdns0() != nil {
				msg.SetRcode(q, wire.RcodeNotImplemented)
			}
		}), dns.ServerOK, "", nil},
		{"answers in upper case", changingHandler(t, func(msg, _ *wire.Msg) {
			msg.Question[0].Name = strings.ToUpper(msg.Question[0].Name)
			for i, rr := range msg.Answer {
				msg.Answer[i] = wire.Copy(rr)
				msg.Answer[i].Header().Name = strings.ToUpper(rr.Header().Name)
			}
		}), dns.ServerOK, "", nil},
		{"answers with a wrong id", changingHandler(t, func(msg, _ *wire.Msg) { msg.Id++ }), dns.ServerUnreachable, "single_server_answered", []string{"server_unreachable"}},
		{"answers a different question", changingHandler(t, func(msg, _ *wire.Msg) { msg.Question[0].Name = "other.test." }), dns.ServerUnreachable, "single_server_answered", []string{"server_unreachable"}},
		{"sends the question back instead of an answer", changingHandler(t, func(msg, _ *wire.Msg) { msg.Response = false }), dns.ServerUnreachable, "single_server_answered", []string{"server_unreachable"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			env := newFixture(t, delegation)
			env.startServer("127.0.0.2", newServer(t, standardZone))
			if tc.secondServer != nil {
				env.startServer("127.0.0.3", tc.secondServer)
			}
			checkRead := func() error {
				got := env.read("example.test")
				if len(got.Servers) != 2 || got.Servers[1].State != tc.wantState || got.Reason != tc.wantReason || got.Complete != (tc.wantReason == "") {
					return fmt.Errorf("got %v, reason %q, complete %v; want %s, %q", got.Servers, got.Reason, got.Complete, tc.wantState, tc.wantReason)
				}
				if diff := cmp.Diff(tc.wantWarnings, got.Warnings); diff != "" {
					return errors.New("the warnings (-want +got): " + diff)
				}
				if tc.wantReason == "" && len(values(got, "example.test", dns.MX)) != 2 {
					return fmt.Errorf("got the sets %v, want two MX records", got.Sets)
				}
				return nil
			}
			if tc.wantState == dns.ServerUnreachable {
				eachTimeout(t, func(timeout time.Duration) error { env.questionTimeout = timeout; return checkRead() })
			} else if err := checkRead(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestReadIsIncompleteIfNoServerServesTheZone(t *testing.T) {
	env := newFixture(t, delegation)
	env.startServer("127.0.0.2", codeHandler(wire.RcodeRefused))
	got := env.read("example.test")
	if got.Complete || got.Reason != "no_authoritative_answer" {
		t.Fatalf("got complete %v, reason %q; want an incomplete read with the reason no_authoritative_answer", got.Complete, got.Reason)
	}
}

// TestStrayPacketsAreIgnored uses a server whose answers arrive after three stray packets: one from
// a different address, one that is not a DNS message, and one with a wrong id.
func TestStrayPacketsAreIgnored(t *testing.T) {
	env := newFixture(t, delegation)
	server := newServer(t, standardZone)
	foreignSocket, err := net.ListenPacket("udp", "127.0.0.8:0")
	if err != nil {
		t.Fatal(err)
	}
	defer foreignSocket.Close()
	env.startServer("127.0.0.2", wire.HandlerFunc(func(w wire.ResponseWriter, q *wire.Msg) {
		msg := server.answer(w, q)
		forged := msg.Copy()
		forged.Answer = []wire.RR{&wire.TXT{Hdr: wire.RR_Header{Name: q.Question[0].Name, Rrtype: wire.TypeTXT, Class: wire.ClassINET}, Txt: []string{"forged"}}}
		if w.RemoteAddr().Network() == "udp" {
			packet, _ := forged.Pack()
			_, _ = foreignSocket.WriteTo(packet, w.RemoteAddr())
			_, _ = w.Write([]byte{1, 2, 3})
		}
		forged.Id++
		_ = w.WriteMsg(forged)
		_ = w.WriteMsg(msg)
	}))
	env.startServer("127.0.0.3", newServer(t, standardZone))
	got := env.read("example.test")
	if diff := cmp.Diff([]string{"v=spf1 -all"}, values(got, "example.test", dns.TXT)); diff != "" || !got.Complete {
		t.Fatalf("got the reason %q, want a complete read; the texts (-want +got):\n%s", got.Reason, diff)
	}
}

func TestLongAnswersAreReadByTCP(t *testing.T) {
	var records, want strings.Builder
	records.WriteString(standardZone)
	want.WriteString("v=spf1 -all\n")
	for i := range 50 {
		fmt.Fprintf(&records, "example.test. 300 IN TXT \"verification-%02d=%s\"\n", i, strings.Repeat("x", 120))
		fmt.Fprintf(&want, "verification-%02d=%s\n", i, strings.Repeat("x", 120))
	}
	env := newFixture(t, delegation)
	env.startServers(records.String())
	got := env.read("example.test")
	if diff := cmp.Diff(want.String(), strings.Join(values(got, "example.test", dns.TXT), "\n")+"\n"); diff != "" || !got.Complete {
		t.Fatalf("got the reason %q, want a complete read; the texts (-want +got):\n%s", got.Reason, diff)
	}
}

func TestBlockedTCPIsAWarning(t *testing.T) {
	server := newServer(t, standardZone)
	udpOnly := wire.HandlerFunc(func(w wire.ResponseWriter, q *wire.Msg) {
		msg := server.answer(w, q)
		if q.Question[0].Qtype == wire.TypeMX {
			if w.RemoteAddr().Network() == "tcp" {
				return
			}
			msg.Truncated, msg.Answer = true, nil
		}
		_ = w.WriteMsg(msg)
	})
	t.Parallel()
	env := newFixture(t, delegation)
	env.startServer("127.0.0.2", udpOnly)
	env.startServer("127.0.0.3", newServer(t, standardZone))
	eachTimeout(t, func(timeout time.Duration) error {
		env.questionTimeout = timeout
		got := env.read("example.test")
		if got.Reason != "type_unknown" || !slices.Equal(got.Warnings, []string{"tcp_blocked"}) || values(got, "example.test", dns.MX) != nil {
			return fmt.Errorf("got the reason %q, warnings %v, MX %v; want type_unknown, tcp_blocked and no MX", got.Reason, got.Warnings, values(got, "example.test", dns.MX))
		}
		return nil
	})
}

func TestTooManyRecordsAreRefused(t *testing.T) {
	var records strings.Builder
	records.WriteString(standardZone)
	for i := range 501 { // the limit is 500 records of a name and type
		fmt.Fprintf(&records, "example.test. 300 IN MX %d m%d.example.net.\n", i, i)
	}
	env := newFixture(t, delegation)
	env.startServers(records.String())
	if got := env.read("example.test"); got.Reason != "type_unknown" || values(got, "example.test", dns.MX) != nil {
		t.Fatalf("got the reason %q, want type_unknown and no MX records", got.Reason)
	}
}

func TestValuesThatOneServerLacksAreNotReturned(t *testing.T) {
	newRecords := standardZone + "example.test. 60 IN TXT \"MS=ms1\"\nmail.example.test. 60 IN A 192.0.2.1\n"
	env := newFixture(t, delegation)
	env.startServer("127.0.0.2", newServer(t, newRecords))
	laggingServer := newServer(t, standardZone)
	env.startServer("127.0.0.3", laggingServer)
	reader := env.reader()
	got, err := reader.Read(t.Context(), "ann", "example.test")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"v=spf1 -all"}, values(got, "example.test", dns.TXT)); diff != "" {
		t.Fatal(diff)
	}
	laggingServer.replace(newServer(t, newRecords).records)
	if got, err = reader.Read(t.Context(), "ann", "example.test"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"MS=ms1", "v=spf1 -all"}, values(got, "example.test", dns.TXT)); diff != "" {
		t.Fatal(diff)
	}
}

func TestPrivateNameServersAreNotAsked(t *testing.T) {
	env := newFixture(t, delegation)
	privateServer := newServer(t, standardZone)
	env.startServer("127.0.0.2", privateServer)
	options := env.options()
	options.AllowPrivate = false
	got, err := dnsresolver.New(options).Read(t.Context(), "ann", "example.test")
	if err != nil {
		t.Fatal(err)
	}
	if got.Reason != "no_authoritative_answer" || !slices.Equal(got.Warnings, []string{"ns_address_forbidden"}) || got.Servers[0].State != dns.ServerBlocked || len(privateServer.counts()) > 0 {
		t.Fatalf("got the reason %q, warnings %v, servers %v; the private server was asked %v; want no_authoritative_answer, ns_address_forbidden, a blocked server and no question", got.Reason, got.Warnings, got.Servers, privateServer.counts())
	}
}

// TestReadEndsAtTheTimeout uses a silent server, and a server that answers only the question for
// the SOA record.
func TestReadEndsAtTheTimeout(t *testing.T) {
	t.Parallel()
	env := newFixture(t, delegation)
	env.startServer("127.0.0.2", silentHandler)
	server := newServer(t, standardZone)
	env.startServer("127.0.0.3", wire.HandlerFunc(func(w wire.ResponseWriter, q *wire.Msg) {
		if q.Question[0].Qtype == wire.TypeSOA {
			server.ServeDNS(w, q)
		}
	}))
	eachTimeout(t, func(timeout time.Duration) error {
		options := env.options()
		options.Timeout = timeout
		got, err := dnsresolver.New(options).Read(t.Context(), "ann", "example.test")
		if err != nil || got.Complete || got.Reason != "read_deadline" {
			return fmt.Errorf("got complete %v, reason %q, %v; want an incomplete read with the reason read_deadline", got.Complete, got.Reason, err)
		}
		return nil
	})
}
