// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"encoding/hex"
	"net/netip"
	"slices"
	"testing"

	wire "github.com/miekg/dns"
	"github.com/tenantry/tenantry/core/dns"
	"pgregory.net/rapid"
)

func TestServerAddressesAreLimited(t *testing.T) {
	reader := &Reader{port: 53}
	hosts := make([]string, maxServers)
	addrsOfHost := make([][]netip.Addr, maxServers)
	for i := range hosts {
		for j := range 3 {
			addrsOfHost[i] = append(addrsOfHost[i], netip.AddrFrom4([4]byte{8, 8, byte(i), byte(j)}))
		}
	}
	total := 0
	for _, s := range reader.permittedServers(hosts, addrsOfHost, nil) {
		if len(s.addrs) == 0 || len(s.addrs) > maxAddressesPerServer || s.isBlocked {
			t.Fatalf("got the server %v, want 1 to %d addresses, not blocked", s, maxAddressesPerServer)
		}
		total += len(s.addrs)
	}
	if total != maxAddresses {
		t.Fatalf("all servers have %d addresses, want %d", total, maxAddresses)
	}
}

// TestServerWithoutAddressBelowTheLimitIsNotAdded adds two servers that only the zone lists, after
// the servers of the delegation have used up maxAddresses. A server with a new address is not
// asked. The result must not list it, because it would look unreachable.
func TestServerWithoutAddressBelowTheLimitIsNotAdded(t *testing.T) {
	r := New(Options{Resolvers: []string{"192.0.2.1"}, Port: 53})
	address := func(i, j int) netip.Addr { return netip.AddrFrom4([4]byte{8, 8, byte(i), byte(j)}) }
	var z zone
	for i := range maxAddresses / 2 {
		addrs := []netip.AddrPort{netip.AddrPortFrom(address(i, 0), 53), netip.AddrPortFrom(address(i, 1), 53)}
		z.servers = append(z.servers, server{addrs: addrs})
	}
	r.hostAddrs.put("new.test", []netip.Addr{address(99, 0)})
	r.hostAddrs.put("same-address.test", []netip.Addr{address(0, 1)})
	added := r.addServersByName(t.Context(), z, []string{"new.test", "same-address.test"}).servers[len(z.servers):]
	if len(added) != 1 || added[0].name != "same-address.test" || len(added[0].addrs) != 1 {
		t.Fatalf("the added servers are %v, want only same-address.test with the address that is already asked", added)
	}
}

func TestGlueIsUsedOnlyInsideTheZone(t *testing.T) {
	outside := &wire.A{Hdr: wire.RR_Header{Name: "ns.other.test.", Rrtype: wire.TypeA}, A: []byte{8, 8, 8, 8}}
	inside := &wire.A{Hdr: wire.RR_Header{Name: "NS.example.test.", Rrtype: wire.TypeA}, A: []byte{8, 8, 4, 4}}
	msg := &wire.Msg{Extra: []wire.RR{outside, inside}}
	if got := glueAddrs(msg, "ns.other.test", "example.test"); got != nil {
		t.Errorf("glue outside the zone: got %v, want none", got)
	}
	if got := glueAddrs(msg, "ns.example.test", "example.test"); len(got) != 1 || got[0].String() != "8.8.4.4" {
		t.Errorf("glue inside the zone: got %v, want 8.8.4.4", got)
	}
}

func TestTXTEscapesAreDecoded(t *testing.T) {
	for escaped, want := range map[string]string{
		`plain`: "plain", `a\"b`: `a"b`, `a\\b`: `a\b`, `\065\010`: "A\n", `\255`: "\xff", `\999`: "999", `end\`: `end\`,
	} {
		if got := txtContent([]string{escaped}); got != want {
			t.Errorf("%q: got %q, want %q", escaped, got, want)
		}
	}
}

// TestDifferentlySplitTXTRecordsStaySeparate checks that two TXT records with the same text, split
// into strings in two ways, stay two records. An exact duplicate is dropped.
func TestDifferentlySplitTXTRecordsStaySeparate(t *testing.T) {
	msg := new(wire.Msg)
	for _, txtStrings := range [][]string{{"v=spf1 -all"}, {"v=spf1 ", "-all"}, {"v=spf1 -all"}} {
		msg.Answer = append(msg.Answer, &wire.TXT{Hdr: wire.RR_Header{Name: "a.test.", Rrtype: wire.TypeTXT, Class: wire.ClassINET}, Txt: txtStrings})
	}
	parsed, err := parseAnswer(msg, question{"a.test", wire.TypeTXT})
	if err != nil || !slices.Equal(parsed.values, []string{"v=spf1 -all", "v=spf1 -all"}) {
		t.Errorf("got %q, %v, want the text twice", parsed.values, err)
	}
}

func TestTXTContentSurvivesARoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.Byte(), 0, 600).Draw(t, "raw")
		rdata := []byte{}
		for chunk := range slices.Chunk(raw, 255) { // the maximum length of one string of a TXT record
			rdata = append(append(rdata, byte(len(chunk))), chunk...)
		}
		if len(raw) == 0 {
			rdata = []byte{0}
		}
		record := &wire.RFC3597{Hdr: wire.RR_Header{Name: "t.", Rrtype: wire.TypeTXT, Class: wire.ClassINET}, Rdata: hex.EncodeToString(rdata)}
		packet := make([]byte, 2048)
		length, err := wire.PackRR(record, packet, 0, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := wire.UnpackRR(packet[:length], 0)
		if err != nil {
			t.Fatal(err)
		}
		if content := txtContent(got.(*wire.TXT).Txt); content != string(raw) {
			t.Fatalf("got %q, want %q", content, raw)
		}
	})
}

// TestMergedSetsAreTheIntersection checks that the result has exactly the values that all servers
// return.
func TestMergedSetsAreTheIntersection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		possibleValues := []string{"a", "b", "c", "d"}
		valuesOfServers := rapid.SliceOfN(rapid.SliceOfDistinct(rapid.SampledFrom(possibleValues), rapid.ID), 1, 4).Draw(t, "servers")
		var serving []report
		for _, serverValues := range valuesOfServers {
			sets := map[setKey]recordSet{}
			if len(serverValues) > 0 {
				sets[setKey{"n", dns.TXT}] = recordSet{values: serverValues, ttl: 60}
			}
			serving = append(serving, report{state: dns.ServerOK, sets: sets})
		}
		var want []string
		for _, value := range possibleValues {
			if !slices.ContainsFunc(valuesOfServers, func(serverValues []string) bool { return !slices.Contains(serverValues, value) }) {
				want = append(want, value)
			}
		}
		sets := commonSets(serving)
		var got []string
		if len(sets) > 0 {
			got = sets[0].Values
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestSetIsSynthesisedOnlyWhenAllServersSynthesiseIt(t *testing.T) {
	reportOf := func(synthesised bool) report {
		return report{sets: map[setKey]recordSet{{"n", dns.TXT}: {values: []string{"a"}, isSynthesised: synthesised}}}
	}
	for _, tc := range []struct{ server1, server2, want bool }{{true, true, true}, {true, false, false}, {false, true, false}, {false, false, false}} {
		if got := commonSets([]report{reportOf(tc.server1), reportOf(tc.server2)}); got[0].Synthesised != tc.want {
			t.Errorf("reports with synthesised %v and %v: got %v, want %v", tc.server1, tc.server2, got[0].Synthesised, tc.want)
		}
	}
}

func TestAnswerShowsTheZoneOfTheAskedName(t *testing.T) {
	soa := func(name string) wire.RR {
		return &wire.SOA{Hdr: wire.RR_Header{Name: name, Rrtype: wire.TypeSOA}}
	}
	alias := &wire.CNAME{Hdr: wire.RR_Header{Name: "a.example.test.", Rrtype: wire.TypeCNAME}, Target: "b.other.test."}
	for _, tc := range []struct {
		name      string
		msg       wire.Msg
		wantZone  string
		wantShown bool
	}{
		{"the name servers of the name", wire.Msg{Answer: []wire.RR{&wire.NS{Hdr: wire.RR_Header{Name: "A.example.test.", Rrtype: wire.TypeNS}}}}, "a.example.test", true},
		{"the name is the apex", wire.Msg{Answer: []wire.RR{soa("A.example.test.")}}, "a.example.test", true},
		{"the enclosing zone", wire.Msg{Ns: []wire.RR{soa("example.test.")}}, "example.test", true},
		{"an alias does not show its zone", wire.Msg{Answer: []wire.RR{alias}, Ns: []wire.RR{soa("other.test.")}}, "", false},
		{"a different zone", wire.Msg{Ns: []wire.RR{soa("other.test.")}}, "", false},
		{"nothing", wire.Msg{}, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, ok := zoneOf(&tc.msg, "a.example.test"); got != tc.wantZone || ok != tc.wantShown {
				t.Fatalf("got %q, %v, want %q, %v", got, ok, tc.wantZone, tc.wantShown)
			}
		})
	}
}
