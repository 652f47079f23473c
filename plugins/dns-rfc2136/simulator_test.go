// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/dns-rfc2136/simulator"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// simulated is an environment with the simulator. It implements conformance.DNSFixture.
type simulated struct {
	*conformance.DNSTest
	t conformance.T
}

func newSimulated(t conformance.T) simulated {
	return simulated{conformance.SimulateDNS(t, simulator.New, nil), t}
}

// connect returns a provider with this secret. The setting zones of its connection names all
// current zones of the simulator.
func (s simulated) connect(secretText string) sdk.DNSProvider {
	s.t.Helper()
	var issued struct{ Settings map[string]string }
	s.Control(s.t, http.MethodPost, "/credentials", map[string]string{"customer": "test"}, &issued)
	connection := s.Connection(issued.Settings, nil)
	connection.Secrets["key_secret"] = sdk.NewSecret(secretText)
	provider, err := newTestProvider(connection)
	if err != nil {
		s.t.Fatal(err)
	}
	return provider
}

func (s simulated) Provider() sdk.DNSProvider { return s.connect(simulator.Secret) }

func (s simulated) Refused() sdk.DNSProvider { return s.connect("Z3Vlc3NlZA==") }

// TestContractOnSimulator runs the contract suite of a DNS provider with the simulator.
func TestContractOnSimulator(t *testing.T) {
	conformance.DNSInProcess(t, func(t conformance.T) conformance.DNSFixture { return newSimulated(t) })
}

// client sends messages to the simulator or to BIND.
type client struct{ addr, key, secret string }

// send sends a message that is signed at the time `at`. It returns the response code and the TSIG
// error of the answer. It does not sign the message if key is "none". If key is empty, send uses
// c.key. If secretText is empty, it uses c.secret.
func (c client) send(t *testing.T, msg *wire.Msg, key, secretText, algorithm string, at time.Time) string {
	t.Helper()
	msg = msg.Copy()
	secrets := map[string]string{}
	if key != "none" {
		if key == "" {
			key = c.key
		}
		if secretText == "" {
			secretText = c.secret
		}
		msg.SetTsig(wire.Fqdn(key), algorithm, 300, at.Unix())
		secrets[wire.Fqdn(key)] = secretText
	}
	conn, err := wire.DialTimeout("tcp", c.addr, testTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	conn.TsigSecret = secrets
	if err := conn.WriteMsg(msg); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	answer, err := conn.ReadMsg()
	if answer == nil {
		return fmt.Sprint("no answer: ", err)
	}
	text := wire.RcodeToString[answer.Rcode]
	if tsig := answer.IsTsig(); tsig != nil {
		text += fmt.Sprintf(" signed: %v, error %d", err == nil, tsig.Error)
	}
	return text
}

// records returns the sorted records of a zone, without SOA and NS records, and the serial of the
// zone.
func (c client) records(t *testing.T, zone string) (texts []string, serial uint32) {
	t.Helper()
	query := new(wire.Msg).SetAxfr(wire.Fqdn(zone))
	query.SetTsig(wire.Fqdn(c.key), wire.HmacSHA256, 300, time.Now().Unix())
	parts, err := (&wire.Transfer{TsigSecret: map[string]string{wire.Fqdn(c.key): c.secret}, DialTimeout: testTimeout, ReadTimeout: testTimeout, WriteTimeout: testTimeout}).In(query, c.addr)
	if err != nil {
		t.Fatal(err)
	}
	for part := range parts {
		if part.Error != nil {
			t.Fatal(part.Error)
		}
		for _, rr := range part.RR {
			if soa, ok := rr.(*wire.SOA); ok {
				serial = soa.Serial
			} else if rr.Header().Rrtype != wire.TypeNS {
				texts = append(texts, rr.String())
			}
		}
	}
	slices.Sort(texts)
	return texts, serial
}

// TestSimulatorAnswersLikeBIND sends the same messages to the simulator and to a real server. The
// response codes, the TSIG errors, the records after each message and the increase of the serial
// must be equal.
func TestSimulatorAnswersLikeBIND(t *testing.T) {
	simulated, bind := newSimulated(t), newFixture(t)
	zone := bind.NewZone(t)
	if simulatedZone := simulated.NewZone(t); simulatedZone != zone {
		t.Fatalf("the zones are %s and %s, want equal names", zone, simulatedZone)
	}
	servers := []client{
		{bind.server.Addr, bind.server.Key, bind.server.Secret},
		{simulated.Ready.Settings["server"], simulator.KeyName, simulator.Secret},
	}
	parseRR := func(text string) wire.RR {
		r, err := wire.NewRR(strings.ReplaceAll(text, "@", zone+"."))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	anySetOf := func(name, kind string) []wire.RR {
		return []wire.RR{&wire.ANY{Hdr: wire.RR_Header{Name: strings.ReplaceAll(name, "@", zone+"."), Rrtype: wire.StringToType[kind]}}}
	}
	update := func(edit func(msg *wire.Msg)) *wire.Msg {
		msg := new(wire.Msg).SetUpdate(zone + ".")
		edit(msg)
		return msg
	}
	insert := func(texts ...string) *wire.Msg {
		return update(func(msg *wire.Msg) {
			for _, text := range texts {
				msg.Insert([]wire.RR{parseRR(text)})
			}
		})
	}
	const txtRecord = `x.@ 300 IN TXT "x"`
	axfr := func(zone string) *wire.Msg { return new(wire.Msg).SetAxfr(zone) }
	for _, step := range []struct {
		name                   string
		msg                    *wire.Msg
		key, secret, algorithm string
		skew                   time.Duration
	}{
		{name: "a transfer", msg: axfr(zone + ".")},
		{name: "a transfer without a key", msg: axfr(zone + "."), key: "none"},
		{name: "a transfer of an unknown zone", msg: axfr("nobody.test.")},
		{name: "a wrong secret", msg: insert(txtRecord), secret: "Z3Vlc3NlZA=="},
		{name: "an unknown key", msg: insert(txtRecord), key: "other-key"},
		{name: "a different algorithm", msg: insert(txtRecord), algorithm: wire.HmacSHA512},
		{name: "a slow clock", msg: insert(txtRecord), skew: -time.Hour},
		{name: "an update without a key", msg: insert(txtRecord), key: "none"},
		{name: "an update of an unknown zone", msg: new(wire.Msg).SetUpdate("nobody.test.")},
		{name: "an empty update", msg: update(func(*wire.Msg) {})},
		{name: "two records", msg: insert(txtRecord, `x.@ 300 IN TXT "y \"quoted\" \\ \228"`)},
		{name: "the same record again", msg: insert(txtRecord)},
		{name: "a record with a different TTL", msg: insert(`x.@ 600 IN TXT "z"`)},
		{name: "a CNAME beside a text", msg: insert("x.@ 300 IN CNAME a.example.")},
		{name: "a CNAME", msg: insert("c.@ 300 IN CNAME a.example.")},
		{name: "a different CNAME", msg: insert("c.@ 300 IN CNAME b.example.")},
		{name: "a text beside a CNAME", msg: insert(`c.@ 300 IN TXT "x"`)},
		{name: "records of other types", msg: insert("@ 300 IN MX 10 mx.example.", "@ 300 IN A 192.0.2.1", "a.@ 300 IN AAAA 2001:db8::1", "_s._tcp.@ 300 IN SRV 1 2 3 host.example.")},
		{name: "a name outside the zone", msg: insert(txtRecord, `x.example. 300 IN TXT "x"`)},
		{name: "prerequisite: a name is used, met", msg: update(func(msg *wire.Msg) { msg.NameUsed(anySetOf("x.@", "ANY")) })},
		{name: "prerequisite: a name is used, not met", msg: update(func(msg *wire.Msg) { msg.NameUsed(anySetOf("nobody.@", "ANY")) })},
		{name: "prerequisite: a name is unused, not met", msg: update(func(msg *wire.Msg) { msg.NameNotUsed(anySetOf("x.@", "ANY")) })},
		{name: "prerequisite: a set is missing, not met", msg: update(func(msg *wire.Msg) {
			msg.RRsetNotUsed(anySetOf("x.@", "TXT"))
			msg.Insert([]wire.RR{parseRR(txtRecord)})
		})},
		{name: "prerequisite: a set exists, not met", msg: update(func(msg *wire.Msg) { msg.RRsetUsed(anySetOf("nobody.@", "TXT")) })},
		{name: "prerequisite: a name outside the zone", msg: update(func(msg *wire.Msg) { msg.RRsetUsed(anySetOf("x.example.", "TXT")) })},
		{name: "prerequisite: a set of three values has one value", msg: update(func(msg *wire.Msg) { msg.Used([]wire.RR{parseRR(txtRecord)}); msg.RemoveRRset(anySetOf("x.@", "TXT")) })},
		{name: "prerequisite: a set of three values has all three", msg: update(func(msg *wire.Msg) {
			msg.Used([]wire.RR{parseRR(txtRecord), parseRR(`x.@ 600 IN TXT "y \"quoted\" \\ \228"`), parseRR(`x.@ 600 IN TXT "z"`)})
			msg.Remove([]wire.RR{parseRR(txtRecord)})
		})},
		{name: "a removal of a missing record", msg: update(func(msg *wire.Msg) { msg.Remove([]wire.RR{parseRR(txtRecord)}) })},
		{name: "a removal outside the zone", msg: update(func(msg *wire.Msg) { msg.RemoveRRset(anySetOf("x.example.", "TXT")) })},
		{name: "a CNAME instead of texts", msg: update(func(msg *wire.Msg) {
			msg.RemoveRRset(anySetOf("x.@", "TXT"))
			msg.Insert([]wire.RR{parseRR("x.@ 300 IN CNAME a.example.")})
		})},
		{name: "a removal of all sets of the apex", msg: update(func(msg *wire.Msg) { msg.RemoveName(anySetOf("@", "ANY")) })},
		{name: "a query", msg: new(wire.Msg).SetQuestion("c."+zone+".", wire.TypeCNAME)},
		{name: "a query for an unknown name", msg: new(wire.Msg).SetQuestion("nobody."+zone+".", wire.TypeCNAME)},
		{name: "a query for an unknown zone", msg: new(wire.Msg).SetQuestion("nobody.test.", wire.TypeCNAME)},
		{name: "an opcode that the server does not support", msg: &wire.Msg{MsgHdr: wire.MsgHdr{Id: 7, Opcode: wire.OpcodeStatus}, Question: axfr(zone + ".").Question}},
	} {
		// The answers and zones of BIND come first, those of the simulator second.
		var answers [2]string
		var zones [2][]string
		var serialIncreases [2]uint32
		for i, server := range servers {
			_, before := server.records(t, zone)
			algorithm := step.algorithm
			if algorithm == "" {
				algorithm = wire.HmacSHA256
			}
			answers[i] = server.send(t, step.msg, step.key, step.secret, algorithm, time.Now().Add(step.skew))
			var after uint32
			zones[i], after = server.records(t, zone)
			serialIncreases[i] = after - before
		}
		if answers[0] != answers[1] || serialIncreases[0] != serialIncreases[1] {
			t.Errorf("%s: the simulator answers %s and increases the serial by %d, want %s and %d like BIND", step.name, answers[1], serialIncreases[1], answers[0], serialIncreases[0])
		}
		if diff := cmp.Diff(zones[0], zones[1]); diff != "" {
			t.Errorf("%s: the zones differ (-BIND +simulator):\n%s", step.name, diff)
		}
	}
}
