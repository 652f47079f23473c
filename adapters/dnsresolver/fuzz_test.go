// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"slices"
	"testing"

	wire "github.com/miekg/dns"
	"github.com/tenantry/tenantry/core/dns"
)

// FuzzAnswer parses arbitrary packets. It checks that a parsed answer is within the limits. It also
// checks that commonSets returns the same sets for one and for two servers with this answer.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		"example.test. 60 IN TXT \"a\\000b\" \"c\"", "example.test. 60 IN MX 0 .", "example.test. 60 IN CNAME example.test.",
		"example.test. 60 IN CNAME b.test.", "example.test. 60 IN SOA a. b. 1 2 3 4 5",
	} {
		rr, err := wire.NewRR(text)
		if err != nil {
			f.Fatal(err)
		}
		msg := new(wire.Msg).SetQuestion("example.test.", rr.Header().Rrtype)
		msg.Response, msg.Answer = true, []wire.RR{rr, rr}
		packet, err := msg.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packet, rr.Header().Rrtype)
	}
	f.Fuzz(func(t *testing.T, packet []byte, qtype uint16) {
		msg := new(wire.Msg)
		if msg.Unpack(packet) != nil {
			return
		}
		q := question{"example.test", qtype}
		isAnswerTo(msg, 1, q)
		zoneOf(msg, q.name)
		referredHosts(msg, q.name)
		parsed, err := parseAnswer(msg, q)
		if err != nil {
			return
		}
		hasDuplicates := qtype != wire.TypeTXT && len(slices.Compact(slices.Clone(parsed.values))) != len(parsed.values)
		if len(parsed.values) > maxRecords || hasDuplicates {
			t.Fatalf("got %d values, want at most %d without duplicates: %q", len(parsed.values), maxRecords, parsed.values)
		}
		answer := report{state: dns.ServerOK, sets: map[setKey]recordSet{{q.name, dns.TXT}: {values: parsed.values, ttl: parsed.ttl}}}
		setsOfOne, setsOfTwo := commonSets([]report{answer}), commonSets([]report{answer, answer})
		if !slices.EqualFunc(setsOfOne, setsOfTwo, func(a, b dns.RRSet) bool { return a.TTL == b.TTL && slices.Equal(a.Values, b.Values) }) {
			t.Fatalf("the sets of one server are %v, and of two servers %v, want the same", setsOfOne, setsOfTwo)
		}
	})
}
