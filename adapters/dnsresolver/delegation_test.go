// SPDX-License-Identifier: Apache-2.0

package dnsresolver_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/core/dns"
)

// registry holds the resolver's records about the parent zone of example.test.
const registry = `
test. 300 IN SOA ns.registry.test. host.registry.test. 1 1 1 1 60
test. 300 IN NS ns.registry.test.
ns.registry.test. 300 IN A 127.0.0.4
ns3.example.test. 300 IN A 127.0.0.5
`

// newReferralServer returns a server of the parent zone. The server answers every question with a
// referral that contains records.
func newReferralServer(t testing.TB, records string) *recordServer {
	parentServer := newServer(t, records)
	parentServer.refersOnly = true
	return parentServer
}

// serverStates returns a line with the name and the state of each server.
func serverStates(servers []dns.Server) []string {
	var lines []string
	for _, s := range servers {
		lines = append(lines, s.Name+" "+string(s.State))
	}
	return lines
}

func TestServersOfParentAndZoneAreAsked(t *testing.T) {
	const nsRecords = `
example.test. 300 IN NS ns1.example.test.
example.test. 300 IN NS ns2.example.test.
`
	recordsWithNS3 := strings.ReplaceAll(nsRecords, "ns2", "ns3")
	allServers := []string{"ns1.example.test ok", "ns2.example.test ok", "ns3.example.test ok"}
	for _, tc := range []struct {
		name          string
		parentRecords string   // the records of the parent zone's server
		zoneRecords   string   // the records of the zone's servers
		wantHosts     []string // ZoneRead.Delegation
		wantServers   []string
		wantWarnings  []string
	}{
		{"the parent and the zone list the same servers", nsRecords, standardZone, []string{"ns1.example.test", "ns2.example.test"}, allServers[:2], nil},
		{"the parent lists a different server", recordsWithNS3, standardZone, []string{"ns1.example.test", "ns3.example.test"}, allServers, []string{"delegation_mismatch"}},
		{"the zone lists a different server", nsRecords, strings.ReplaceAll(standardZone, "ns2.", "ns3."), []string{"ns1.example.test", "ns2.example.test"}, allServers, []string{"delegation_mismatch"}},
		{"the parent lists no servers", "", standardZone, []string{"ns1.example.test", "ns2.example.test"}, allServers[:2], nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := newFixture(t, delegation+registry)
			env.startServer("127.0.0.4", newReferralServer(t, tc.parentRecords))
			for _, ip := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.5"} {
				env.startServer(ip, newServer(t, tc.zoneRecords))
			}
			got := env.read("example.test")
			if !got.Complete {
				t.Errorf("got the reason %q, want a complete read", got.Reason)
			}
			if diff := cmp.Diff(tc.wantHosts, got.Delegation); diff != "" {
				t.Error("the delegation (-want +got):", diff)
			}
			if diff := cmp.Diff(tc.wantServers, serverStates(got.Servers)); diff != "" {
				t.Error("the servers (-want +got):", diff)
			}
			if diff := cmp.Diff(tc.wantWarnings, got.Warnings); diff != "" {
				t.Error("the warnings (-want +got):", diff)
			}
		})
	}
}

// TestDelegationToLameServersIsReadFromTheParentZone checks a zone that its only server refuses.
// For such a zone a resolver answers SERVFAIL, so the delegation comes from the parent zone.
func TestDelegationToLameServersIsReadFromTheParentZone(t *testing.T) {
	env := newFixture(t, registry)
	env.resolver.failOn("example.test.")
	env.startServer("127.0.0.4", newReferralServer(t, "example.test. 300 IN NS ns3.example.test.\nns3.example.test. 300 IN A 127.0.0.5\n"))
	env.startServer("127.0.0.5", codeHandler(wire.RcodeRefused))
	got := env.read("example.test")
	if got.Zone != "example.test" || got.Reason != "no_authoritative_answer" {
		t.Fatalf("got the zone %q, reason %q, want example.test and no_authoritative_answer", got.Zone, got.Reason)
	}
	if diff := cmp.Diff([]string{"ns3.example.test lame"}, serverStates(got.Servers)); diff != "" {
		t.Fatal(diff)
	}
}

func TestSilentParentIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	env := newFixture(t, delegation+registry+strings.ReplaceAll(delegation, "example.test", "second.test"))
	var queries atomic.Int64 // questions to 127.0.0.4, the silent server of the parent zone
	env.startServer("127.0.0.4", wire.HandlerFunc(func(wire.ResponseWriter, *wire.Msg) { queries.Add(1) }))
	for _, ip := range []string{"127.0.0.2", "127.0.0.3"} {
		env.startServer(ip, newServer(t, standardZone+strings.ReplaceAll(standardZone, "example.test", "second.test")))
	}
	eachTimeout(t, func(timeout time.Duration) error {
		queries.Store(0)
		env.questionTimeout = timeout
		reader := env.reader()
		for _, name := range []string{"example.test", "second.test"} {
			if got, err := reader.Read(t.Context(), "ann", name); err != nil || !got.Complete {
				return fmt.Errorf("%s: got the reason %q, %v, want a complete read", name, got.Reason, err)
			}
		}
		if n := queries.Load(); n != 1 {
			return fmt.Errorf("the silent server of the parent zone was asked %d times, want once", n)
		}
		return nil
	})
}

func TestResultOfDNSSECValidationIsReported(t *testing.T) {
	for _, tc := range []struct {
		name       string
		change     func(msg, q *wire.Msg)
		wantReason string
		wantSecure bool
	}{
		{"not signed", func(*wire.Msg, *wire.Msg) {}, "", false},
		{"signed correctly", func(msg, q *wire.Msg) { msg.AuthenticatedData = q.AuthenticatedData }, "", true},
		{"forged", func(msg, q *wire.Msg) {
			if !q.CheckingDisabled && strings.HasSuffix(q.Question[0].Name, "example.test.") && q.Question[0].Qtype == wire.TypeNS {
				msg.SetRcode(q, wire.RcodeServerFailure)
			}
		}, "dnssec_bogus", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := newFixture(t, delegation)
			env.resolver.setChange(tc.change)
			env.startServers(standardZone)
			got := env.read("example.test")
			if got.Reason != tc.wantReason || got.Complete != (tc.wantReason == "") || got.Secure != tc.wantSecure || len(got.Sets) == 0 {
				t.Fatalf("got the reason %q, complete %v, secure %v, sets %v; want the reason %q, secure %v", got.Reason, got.Complete, got.Secure, got.Sets, tc.wantReason, tc.wantSecure)
			}
		})
	}
}

// TestOneFailureIsNotDNSSECBogus uses a resolver that answers SERVFAIL to the first question for NS
// records.
func TestOneFailureIsNotDNSSECBogus(t *testing.T) {
	env := newFixture(t, delegation)
	var hasFailed atomic.Bool
	env.resolver.setChange(func(msg, q *wire.Msg) {
		if q.Question[0].Qtype == wire.TypeNS && hasFailed.CompareAndSwap(false, true) {
			msg.SetRcode(q, wire.RcodeServerFailure)
		}
	})
	env.startServers(standardZone)
	if got := env.read("example.test"); !got.Complete || !hasFailed.Load() {
		t.Fatalf("got the reason %q (the resolver failed: %v), want a complete read after one failure", got.Reason, hasFailed.Load())
	}
}
