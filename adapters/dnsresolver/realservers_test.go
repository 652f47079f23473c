// SPDX-License-Identifier: Apache-2.0

package dnsresolver_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/core/dns"
)

// apexRecords returns the SOA and NS records of a zone with the name servers of
// newRealServersFixture.
func apexRecords(zone string, serial int) string {
	return fmt.Sprintf(`%[1]s. 3600 IN SOA ns1.provider.example. hostmaster.provider.example. %[2]d 3600 600 604800 60
%[1]s. 3600 IN NS ns1.provider.example.
%[1]s. 3600 IN NS ns2.provider.example.
`, zone, serial)
}

// parseRecords parses the text of a zone file. @ stands for the zone.
func parseRecords(t testing.TB, zone, text string) []wire.RR {
	t.Helper()
	var records []wire.RR
	parser := wire.NewZoneParser(strings.NewReader(text), zone+".", "")
	parser.SetDefaultTTL(300)
	for rr, ok := parser.Next(); ok; rr, ok = parser.Next() {
		records = append(records, rr)
	}
	if err := parser.Err(); err != nil {
		t.Fatal(err)
	}
	return records
}

// expectation is the expected result of a read.
type expectation struct {
	reason   string
	warnings []string
	states   [2]dns.ServerState
	agreeing int
}

// difference returns how a read differs from the expectation, or "".
func (want expectation) difference(zoneRead dns.ZoneRead) string {
	if len(zoneRead.Servers) != 2 || zoneRead.Complete != (zoneRead.Reason == "") {
		return fmt.Sprintf("got the servers %v, complete %v, reason %q; want two servers, and a reason only for an incomplete read", zoneRead.Servers, zoneRead.Complete, zoneRead.Reason)
	}
	got := expectation{zoneRead.Reason, zoneRead.Warnings, [2]dns.ServerState{zoneRead.Servers[0].State, zoneRead.Servers[1].State}, zoneRead.ServersAgreeing()}
	return cmp.Diff(want, got, cmp.AllowUnexported(expectation{}))
}

func (want expectation) requireMatch(t testing.TB, zoneRead dns.ZoneRead) {
	t.Helper()
	if diff := want.difference(zoneRead); diff != "" {
		t.Errorf("the read differs (-want +got):\n%s", diff)
	}
}

var (
	bothOK    = [2]dns.ServerState{dns.ServerOK, dns.ServerOK}
	bothAgree = expectation{states: bothOK, agreeing: 2}
)

const mailRecords = `@ MX 0 mail.example.net.
@ TXT "v=spf1 -all"
_dmarc TXT "v=DMARC1; p=none"
`

// TestDifferencesBetweenTwoPowerDNSServersAreReported reads zones whose two servers agree, differ
// or fail.
func TestDifferencesBetweenTwoPowerDNSServersAreReported(t *testing.T) {
	server1, server2 := newPowerDNS(t), newPowerDNS(t)
	const noZone = "none"
	for i, tc := range []struct {
		name string
		// records1 and records2 are the records of server1 and server2. If records2 is empty,
		// server2 has records1. noZone stands for a server without the zone.
		records1, records2 string
		serial             int // SOA serial of server2; server1 has 7
		want               expectation
	}{
		{"the same records", mailRecords, "", 7, bothAgree},
		{"a fresh zone", "", "", 7, bothAgree},
		{"a different serial", mailRecords, "", 8, bothAgree},
		{"a different TTL", "@ 300 MX 0 m.test.\n", "@ 600 MX 0 m.test.\n", 7, bothAgree},
		{"texts in a different order", "@ TXT a\n@ TXT b\n", "@ TXT b\n@ TXT a\n", 7, bothAgree},
		{"a text split into different strings", `@ TXT "v=spf1 -all"` + "\n", `@ TXT "v=spf1" " -all"` + "\n", 7, bothAgree},
		{"names in upper case", "@ MX 0 m.test.\n", "@ MX 0 M.Test.\n", 7, bothAgree},
		{"addresses that rotate", "autodiscover A 192.0.2.1\n", "autodiscover A 192.0.2.2\n", 7, bothAgree},
		{"server2 lags", mailRecords + "@ TXT new\n", mailRecords, 6, expectation{"servers_disagree", nil, bothOK, 1}},
		{"the same serial with different records", mailRecords + "@ TXT new\n", mailRecords, 7, expectation{"servers_disagree", []string{"multi_provider"}, bothOK, 1}},
		{"a different MX", "@ MX 0 a.test.\n", "@ MX 0 b.test.\n", 8, expectation{"servers_disagree", nil, bothOK, 1}},
		{"a selector that only server1 has", mailRecords + "selector1._domainkey CNAME k.test.\n", mailRecords, 8, expectation{"servers_disagree", nil, bothOK, 1}},
		{"an address that only server1 has", mailRecords + "autodiscover AAAA 2001:db8::1\n", mailRecords, 8, expectation{"servers_disagree", nil, bothOK, 1}},
		{"server2 does not have the zone", mailRecords, noZone, 7,
			expectation{"single_server_answered", []string{"lame_delegation"}, [2]dns.ServerState{dns.ServerOK, dns.ServerLame}, 1}},
		{"no server has the zone", noZone, noZone, 7,
			expectation{"no_authoritative_answer", []string{"lame_delegation"}, [2]dns.ServerState{dns.ServerLame, dns.ServerLame}, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			zone := fmt.Sprintf("zone-%d.test", i)
			if tc.records2 == "" {
				tc.records2 = tc.records1
			}
			if tc.records1 != noZone {
				server1.load(t, zone, parseRecords(t, zone, apexRecords(zone, 7)+tc.records1))
			}
			if tc.records2 != noZone {
				server2.load(t, zone, parseRecords(t, zone, apexRecords(zone, tc.serial)+tc.records2))
			}
			env := newRealServersFixture(t, zone, "")
			env.startServer("127.0.0.2", forwardTo(server1.addr()))
			env.startServer("127.0.0.3", forwardTo(server2.addr()))
			tc.want.requireMatch(t, env.read(zone))
		})
	}
	t.Run("server2 is stopped", func(t *testing.T) {
		server2.Stop()
		env := newRealServersFixture(t, "zone-0.test", "") // the zone of the first case
		env.startServer("127.0.0.2", forwardTo(server1.addr()))
		env.startServer("127.0.0.3", forwardTo(server2.addr()))
		want := expectation{"single_server_answered", []string{"server_unreachable"}, [2]dns.ServerState{dns.ServerOK, dns.ServerUnreachable}, 1}
		eachTimeout(t, func(timeout time.Duration) error {
			env.questionTimeout = timeout
			got := env.read("zone-0.test")
			if diff := want.difference(got) + cmp.Diff([]string{"0 mail.example.net"}, values(got, "zone-0.test", dns.MX)); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
	})
}

// setsOf returns a line of text for each set of a ZoneRead, without the SOA and NS of the zone. The
// lines of synthesised sets begin with *.
func setsOf(zoneRead dns.ZoneRead) []string {
	var lines []string
	for _, set := range zoneRead.Sets {
		if set.Name == zoneRead.Zone && (set.Type == dns.NS || set.Type == dns.SOA) {
			continue
		}
		line := fmt.Sprintf("%s %s %s", strings.TrimSuffix(strings.TrimSuffix(set.Name, zoneRead.Zone), "."), set.Type, strings.Join(set.Values, " | "))
		if set.Synthesised {
			line = "* " + line
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// TestPowerDNSAndBINDLeadToTheSameSets reads zones that PowerDNS and BIND serve. The answers of
// both servers must lead to the same sets.
func TestPowerDNSAndBINDLeadToTheSameSets(t *testing.T) {
	var bigSet, bigSetText strings.Builder
	for i := range 50 {
		fmt.Fprintf(&bigSet, "@ TXT \"verification-%02d=%s\"\n", i, strings.Repeat("x", 120))
		fmt.Fprintf(&bigSetText, " | verification-%02d=%s", i, strings.Repeat("x", 120))
	}
	wildcardWarning := expectation{"", []string{"wildcard_ambiguous"}, bothOK, 2}
	cases := []struct {
		name, records string
		want          expectation
		wantSets      []string
	}{
		{"all record types", mailRecords + "selector1._domainkey CNAME k1.test.\nselector2._domainkey CNAME k2.test.\nautodiscover CNAME a.test.\n", bothAgree, []string{
			" MX 0 mail.example.net", " TXT v=spf1 -all", "_dmarc TXT v=DMARC1; p=none", "autodiscover CNAME a.test",
			"selector1._domainkey CNAME k1.test", "selector2._domainkey CNAME k2.test",
		}},
		{"large sets are read by TCP", bigSet.String(), bothAgree, []string{" TXT " + strings.TrimPrefix(bigSetText.String(), " | ")}},
		{"a wildcard text", "* TXT \"v=spf1 -all\"\n", wildcardWarning, []string{
			"* _dmarc TXT v=spf1 -all", "* autodiscover TXT v=spf1 -all", "* selector1._domainkey TXT v=spf1 -all", "* selector2._domainkey TXT v=spf1 -all",
		}},
		{"a wildcard alias", "* CNAME parked.test.\n", wildcardWarning, []string{
			"* _dmarc CNAME parked.test", "* autodiscover CNAME parked.test", "* selector1._domainkey CNAME parked.test", "* selector2._domainkey CNAME parked.test",
		}},
		{"a wildcard address", "* A 192.0.2.9\n", wildcardWarning, []string{
			"* autodiscover A 192.0.2.9", "* selector1._domainkey A 192.0.2.9", "* selector2._domainkey A 192.0.2.9",
		}},
		{"names with records of their own get nothing from a wildcard", "* CNAME parked.test.\n_dmarc TXT \"v=DMARC1; p=none\"\nautodiscover A 192.0.2.7\nselector1._domainkey CNAME k1.test.\n", bothAgree, []string{
			"_dmarc TXT v=DMARC1; p=none", "autodiscover A 192.0.2.7", "selector1._domainkey CNAME k1.test",
		}},
		{"a wildcard for keys", "*._domainkey TXT key\nselector1._domainkey TXT other\n", wildcardWarning, []string{
			"selector1._domainkey TXT other", "* selector2._domainkey TXT key",
		}},
		{"a name with an additional text is not synthesised", "* A 192.0.2.9\nautodiscover A 192.0.2.9\nautodiscover TXT mine\n_dmarc TXT \"v=DMARC1; p=none\"\n_domainkey TXT o\n", bothAgree, []string{
			"_dmarc TXT v=DMARC1; p=none", "autodiscover A 192.0.2.9", "autodiscover TXT mine",
		}},
		{"a name without the text of the wildcard is not synthesised", "* A 192.0.2.9\n* TXT wild\nautodiscover A 192.0.2.9\n", wildcardWarning, []string{
			"* _dmarc TXT wild", "autodiscover A 192.0.2.9", "* selector1._domainkey A 192.0.2.9", "* selector1._domainkey TXT wild",
			"* selector2._domainkey A 192.0.2.9", "* selector2._domainkey TXT wild",
		}},
		{"a chain of aliases", "_dmarc CNAME one\none CNAME two\ntwo TXT \"v=DMARC1; p=reject\"\n", bothAgree, []string{"_dmarc CNAME one.@", "_dmarc TXT v=DMARC1; p=reject"}},
		{"an alias out of the zone", "_dmarc CNAME policy.vendor.test.\n", bothAgree, []string{"_dmarc CNAME policy.vendor.test", "_dmarc TXT v=DMARC1; p=vendor"}},
		{"an alias to nothing", "_dmarc CNAME nothing\n", bothAgree, []string{"_dmarc CNAME nothing.@"}},
		{"a loop of aliases", "_dmarc CNAME one\none CNAME _dmarc\n", bothAgree, []string{"_dmarc CNAME one.@"}},
		{"a name that exists only because a name below it exists", "x.selector1._domainkey TXT below\n", bothAgree, nil},
		{"delegated keys", "_domainkey NS ns1.vendor.test.\n", bothAgree, []string{"_domainkey NS ns1.vendor.test"}},
		{"a delegated policy that resolvers find", "_dmarc NS ns1.vendor.test.\n", bothAgree, []string{"_dmarc NS ns1.vendor.test", "_dmarc TXT v=DMARC1; p=delegated"}},
		{"a null MX", "@ MX 0 .\n", bothAgree, []string{" MX 0 ."}},
		{"texts with binary bytes", "@ TXT \"a\\000\\255\\\"b\"\n", bothAgree, []string{" TXT a\x00\xff\"b"}},
	}
	zones := make([]string, len(cases))
	for i := range cases {
		zones[i] = fmt.Sprintf("zone-%d.test", i)
	}
	powerServer, bindServer := newPowerDNS(t), newBIND(t, zones...)
	for i, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			zone := zones[i]
			powerServer.load(t, zone, parseRecords(t, zone, apexRecords(zone, 7)+tc.records))
			bindServer.load(t, zone, parseRecords(t, zone, tc.records))
			env := newRealServersFixture(t, zone, "policy.vendor.test. 300 IN TXT \"v=DMARC1; p=vendor\"\n_dmarc."+zone+". 300 IN TXT \"v=DMARC1; p=delegated\"\n")
			env.startServer("127.0.0.2", forwardTo(powerServer.addr()))
			env.startServer("127.0.0.3", forwardTo(bindServer.addr()))
			got := env.read(zone)
			tc.want.requireMatch(t, got)
			var want []string
			for _, line := range tc.wantSets {
				want = append(want, strings.ReplaceAll(line, "@", zone))
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, setsOf(got)); diff != "" {
				t.Errorf("the sets differ (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNamesBelowADNAMEAreFollowed checks a zone with DNAME records. For a name below a DNAME, BIND
// synthesises a CNAME in its answer.
func TestNamesBelowADNAMEAreFollowed(t *testing.T) {
	server := newBIND(t, "old.test", "new.test")
	server.load(t, "old.test", parseRecords(t, "old.test", "_domainkey DNAME keys.new.test.\n_dmarc CNAME a.branch\nbranch DNAME new.test.\n"))
	server.load(t, "new.test", parseRecords(t, "new.test", "selector1.keys CNAME k.test.\n"))
	env := newRealServersFixture(t, "old.test", "a.new.test. 300 IN TXT \"v=DMARC1; p=none\"\n")
	env.startServer("127.0.0.2", forwardTo(server.addr()))
	env.startServer("127.0.0.3", forwardTo(server.addr()))
	got := env.read("old.test")
	bothAgree.requireMatch(t, got)
	if diff := cmp.Diff([]string{
		"_dmarc CNAME a.branch.old.test", "_dmarc TXT v=DMARC1; p=none",
		"selector1._domainkey CNAME selector1.keys.new.test", "selector2._domainkey CNAME selector2.keys.new.test",
	}, setsOf(got)); diff != "" {
		t.Error(diff)
	}
}

// TestChildZoneAtTheSameServerIsFound checks that a child zone is found although its parent zone is
// on the same server. Such a server sends no referral.
func TestChildZoneAtTheSameServerIsFound(t *testing.T) {
	for name, selectorRecord := range map[string]string{"without the selector": "", "with the selector": "selector1 CNAME k.test.\n"} {
		t.Run(name, func(t *testing.T) {
			server := newPowerDNS(t)
			server.load(t, "up.test", parseRecords(t, "up.test", apexRecords("up.test", 7)))
			server.load(t, "_domainkey.up.test", parseRecords(t, "_domainkey.up.test", apexRecords("_domainkey.up.test", 7)+selectorRecord))
			env := newRealServersFixture(t, "up.test", "")
			env.startServer("127.0.0.2", forwardTo(server.addr()))
			env.startServer("127.0.0.3", forwardTo(server.addr()))
			got := env.read("up.test")
			bothAgree.requireMatch(t, got)
			if diff := cmp.Diff([]string{"ns1.provider.example", "ns2.provider.example"}, values(got, "_domainkey.up.test", dns.NS)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSubdomainOfAWildcardIsMarkedAsSynthesised reads a subdomain that only the wildcard covers,
// and a subdomain with records of its own.
func TestSubdomainOfAWildcardIsMarkedAsSynthesised(t *testing.T) {
	server := newPowerDNS(t)
	server.load(t, "up.test", parseRecords(t, "up.test", apexRecords("up.test", 7)+"* MX 5 m.test.\nown MX 5 m.test.\nown TXT mine\n"))
	env := newRealServersFixture(t, "up.test", "")
	env.startServer("127.0.0.2", forwardTo(server.addr()))
	env.startServer("127.0.0.3", forwardTo(server.addr()))
	for name, want := range map[string][]string{"covered": {"* covered MX 5 m.test"}, "own": {"own MX 5 m.test", "own TXT mine"}} {
		if diff := cmp.Diff(want, setsOf(env.read(name+".up.test"))); diff != "" {
			t.Error(diff)
		}
	}
}
