// SPDX-License-Identifier: Apache-2.0

package dnsresolver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tenantry/tenantry/adapters/dnsresolver"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/ports"

	wire "github.com/miekg/dns"
)

var _ ports.DNSReader = (*dnsresolver.Reader)(nil)

func TestReadReturnsTheRecordsOfAllServers(t *testing.T) {
	env := newFixture(t, delegation)
	env.startServers(standardZone)
	got := env.read("Example.test.")
	want := dns.ZoneRead{
		Domain: "example.test", Zone: "example.test", Complete: true, At: got.At,
		Delegation: []string{"ns1.example.test", "ns2.example.test"},
		Servers: []dns.Server{
			{Name: "ns1.example.test", State: dns.ServerOK, Agrees: true}, {Name: "ns2.example.test", State: dns.ServerOK, Agrees: true},
		},
		Sets: []dns.RRSet{
			{Name: "_dmarc.example.test", Type: "TXT", TTL: 300, Values: []string{"v=DMARC1; p=none"}},
			{Name: "autodiscover.example.test", Type: "A", TTL: 300, Values: []string{"192.0.2.7"}},
			{Name: "example.test", Type: "MX", TTL: 300, Values: []string{"5 mail.example.net", "10 backup.example.net"}},
			{Name: "example.test", Type: "NS", TTL: 300, Values: []string{"ns1.example.test", "ns2.example.test"}},
			{Name: "example.test", Type: "SOA", TTL: 300, Values: []string{"ns1.example.test hostmaster.example.test 7 3600 600 86400 60"}},
			{Name: "example.test", Type: "TXT", TTL: 300, Values: []string{"v=spf1 -all"}},
			{Name: "selector1._domainkey.example.test", Type: "CNAME", TTL: 300, Values: []string{"s1.dkim.example.net"}},
			{Name: "selector2._domainkey.example.test", Type: "TXT", TTL: 300, Values: []string{"v=DKIM1; p=abc"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

// TestReadAsksOnlyTheListedQuestions checks which questions one of two servers gets, and how often.
func TestReadAsksOnlyTheListedQuestions(t *testing.T) {
	env := newFixture(t, delegation)
	server := newServer(t, standardZone)
	env.startServer("127.0.0.2", server)
	env.startServer("127.0.0.3", newServer(t, standardZone))
	env.read("example.test")
	want := map[string]int{
		"example.test. SOA": 1, "example.test. NS": 1, "example.test. MX": 1, "example.test. TXT": 1,
		"_dmarc.example.test. TXT": 1, "selector1._domainkey.example.test. CNAME": 1,
		"selector2._domainkey.example.test. CNAME": 1, "selector2._domainkey.example.test. TXT": 1,
		"selector2._domainkey.example.test. A": 1, "selector2._domainkey.example.test. AAAA": 1, "_domainkey.example.test. NS": 1,
		"autodiscover.example.test. CNAME": 1, "autodiscover.example.test. TXT": 1,
		"autodiscover.example.test. A": 1, "autodiscover.example.test. AAAA": 1,
		"random.example.test. TXT": 1, "random._domainkey.example.test. TXT": 1,
	}
	if diff := cmp.Diff(want, askedQuestions(server)); diff != "" {
		t.Fatal(diff)
	}
}

// askedQuestions returns how often a server received each question. It replaces the random label of
// a wildcard probe by "random".
func askedQuestions(server *recordServer) map[string]int {
	counts := map[string]int{}
	for question, n := range server.counts() {
		if firstLabel, remainder, _ := strings.Cut(question, "."); strings.HasPrefix(firstLabel, "tenantry-") {
			question = "random." + remainder
		}
		counts[question] += n
	}
	return counts
}

func TestFreshDomainNeedsEightQuestions(t *testing.T) {
	env := newFixture(t, delegation)
	server := newServer(t, emptyZone)
	env.startServer("127.0.0.2", server)
	env.startServer("127.0.0.3", newServer(t, emptyZone))
	if got := env.read("example.test"); !got.Complete || got.Warnings != nil {
		t.Fatalf("got the reason %q and the warnings %v, want a complete read", got.Reason, got.Warnings)
	}
	want := map[string]int{
		"example.test. SOA": 1, "example.test. NS": 1, "example.test. MX": 1, "example.test. TXT": 1, "_dmarc.example.test. TXT": 1,
		"selector1._domainkey.example.test. CNAME": 1, "selector2._domainkey.example.test. CNAME": 1, "autodiscover.example.test. CNAME": 1,
	}
	if diff := cmp.Diff(want, askedQuestions(server)); diff != "" {
		t.Fatal(diff)
	}
}

// TestNoWildcardProbeAfterAMissingName checks that the reader sends no wildcard probe if one of the
// names that it asks for does not exist. Such a name proves that no wildcard covers it.
func TestNoWildcardProbeAfterAMissingName(t *testing.T) {
	env := newFixture(t, delegation)
	server := newServer(t, emptyZone+"_dmarc.example.test. 300 IN TXT here\nselector1._domainkey.example.test. 300 IN CNAME k.test.\n")
	env.startServer("127.0.0.2", server)
	env.startServer("127.0.0.3", server)
	env.read("example.test")
	questions := askedQuestions(server)
	if len(questions) == 0 {
		t.Error("the server was asked nothing, want the questions of a read")
	}
	for question := range questions {
		if strings.HasPrefix(question, "random.") {
			t.Errorf("the server was asked for %s, want no wildcard probe", question)
		}
	}
}

// TestAddressesOfFailedServersAreNotCached checks a server that does not answer a read and then
// gets a new address. The next read asks the new address.
func TestAddressesOfFailedServersAreNotCached(t *testing.T) {
	// The server names are outside the zone, so that no glue is used.
	renameServers := strings.NewReplacer("ns1.example.test", "ns1.provider.test", "ns2.example.test", "ns2.provider.test")
	delegationBefore := renameServers.Replace(delegation)
	env := newFixture(t, delegationBefore)
	env.startServer("127.0.0.2", newServer(t, renameServers.Replace(standardZone)))
	reader := env.reader()
	if got, err := reader.Read(t.Context(), "ann", "example.test"); err != nil || got.Reason != "single_server_answered" {
		t.Fatalf("got the reason %q, %v, want single_server_answered", got.Reason, err)
	}
	env.resolver.replace(newServer(t, strings.ReplaceAll(delegationBefore, "127.0.0.3", "127.0.0.4")).records)
	env.startServer("127.0.0.4", newServer(t, renameServers.Replace(standardZone)))
	if got, err := reader.Read(t.Context(), "ann", "example.test"); err != nil || !got.Complete {
		t.Fatalf("got the reason %q, %v, want a complete read", got.Reason, err)
	}
}

func TestSubdomainIsReadInItsEnclosingZone(t *testing.T) {
	env := newFixture(t, delegation)
	records := standardZone + "mail.example.test. 300 IN MX 0 mail.example.net.\n"
	env.startServers(records)
	got := env.read("mail.example.test")
	if got.Zone != "example.test" || !got.Complete {
		t.Fatalf("got the zone %q, complete %v, reason %q, want a complete read of example.test", got.Zone, got.Complete, got.Reason)
	}
	if diff := cmp.Diff([]string{"0 mail.example.net"}, values(got, "mail.example.test", dns.MX)); diff != "" {
		t.Fatal(diff)
	}
}

func TestReadSaysWhyAZoneWasNotFound(t *testing.T) {
	parentSOA := "test. 300 IN SOA ns.test. host.test. 1 1 1 1 60\n"
	for _, tc := range []struct{ name, resolverRecords, domain, wantReason string }{
		{"the domain is not registered", parentSOA, "example.test", "not_delegated"},
		{"the resolver has no records", "", "example.test", "not_delegated"},
		{"the zone lists no name servers", parentSOA + "example.test. 300 IN SOA a. b. 1 1 1 1 1\n", "example.test", "no_authoritative_answer"},
		{"name servers without an address", parentSOA + "example.test. 300 IN SOA a. b. 1 1 1 1 1\nexample.test. 300 IN NS ns.nowhere.test.\n", "example.test", "no_authoritative_answer"},
		{"a label of the name is too long", parentSOA, strings.Repeat("a", 64) + ".test", "zone_cut_unknown"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := newFixture(t, tc.resolverRecords).read(tc.domain)
			if got.Complete || got.Reason != tc.wantReason || len(got.Sets) > 0 {
				t.Fatalf("got complete %v, reason %q, sets %v; want an incomplete read without sets and with the reason %q", got.Complete, got.Reason, got.Sets, tc.wantReason)
			}
		})
	}
}

func TestReadWithoutResolversFindsNoZone(t *testing.T) {
	got, err := dnsresolver.New(dnsresolver.Options{Resolvers: []string{"nonsense"}}).Read(t.Context(), "ann", "example.test")
	if err != nil || got.Reason != "zone_cut_unknown" {
		t.Fatalf("got the reason %q, %v, want zone_cut_unknown", got.Reason, err)
	}
}

func TestSecondResolverIsAskedWhenTheFirstFails(t *testing.T) {
	env := newFixture(t, delegation)
	env.startServers(standardZone)
	env.startServer("127.0.0.9", codeHandler(wire.RcodeServerFailure))
	options := env.options()
	options.Resolvers = slices.Insert(options.Resolvers, 0, fmt.Sprintf("127.0.0.9:%d", env.port))
	got, err := dnsresolver.New(options).Read(t.Context(), "ann", "example.test")
	if err != nil || !got.Complete {
		t.Fatalf("got the reason %q, %v, want a complete read", got.Reason, err)
	}
}

func TestCancelledReadReturnsTheContextsError(t *testing.T) {
	env := newFixture(t, delegation)
	ctx, cancel := context.WithCancel(t.Context())
	env.startServer("127.0.0.2", wire.HandlerFunc(func(wire.ResponseWriter, *wire.Msg) { cancel() }))
	env.startServer("127.0.0.3", newServer(t, standardZone))
	if _, err := env.reader().Read(ctx, "ann", "example.test"); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
}

func TestConcurrentReadsAreShared(t *testing.T) {
	env := newFixture(t, delegation)
	server := newServer(t, standardZone)
	asked, released := make(chan struct{}), make(chan struct{})
	var firstQuestion sync.Once
	env.startServer("127.0.0.2", wire.HandlerFunc(func(w wire.ResponseWriter, q *wire.Msg) {
		firstQuestion.Do(func() { close(asked); <-released })
		server.ServeDNS(w, q)
	}))
	env.startServer("127.0.0.3", newServer(t, standardZone))
	reader := env.reader()
	var running sync.WaitGroup
	read := func() {
		if got, err := reader.Read(t.Context(), "ann", "example.test"); err != nil || !got.Complete {
			t.Errorf("got the reason %q, %v, want a complete read", got.Reason, err)
		}
	}
	running.Go(read)
	<-asked
	cancelledCtx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := reader.Read(cancelledCtx, "ann", "example.test"); !errors.Is(err, context.Canceled) {
		t.Errorf("a read with a cancelled context: got %v, want %v", err, context.Canceled)
	}
	running.Go(read)
	dnsresolver.WaitForReaders(reader, "example.test", 2)
	close(released)
	running.Wait()
	if n := server.count("example.test. MX"); n != 1 {
		t.Fatalf("the server was asked for the MX records %d times, want once", n)
	}
}

func TestDelegationIsCachedButRecordsAreNot(t *testing.T) {
	env := newFixture(t, delegation)
	server := newServer(t, standardZone)
	env.startServer("127.0.0.2", server)
	env.startServer("127.0.0.3", newServer(t, standardZone))
	reader := env.reader()
	for range 2 {
		if got, err := reader.Read(t.Context(), "ann", "example.test"); err != nil || !got.Complete {
			t.Fatalf("got the reason %q, %v, want a complete read", got.Reason, err)
		}
	}
	if n := env.resolver.count("example.test. NS"); n != 1 {
		t.Errorf("the resolver was asked for the NS records %d times, want once", n)
	}
	if n := server.count("example.test. MX"); n != 2 {
		t.Errorf("the server was asked for the MX records %d times, want twice", n)
	}
}

// TestRotatingAddressesStayInTheRead checks a name for which two servers return different
// addresses. The read must contain an address. Otherwise a plan would create a record at a name
// that is in use.
func TestRotatingAddressesStayInTheRead(t *testing.T) {
	const address = "autodiscover.example.test. 300 IN A 192.0.2.7"
	env := newFixture(t, delegation)
	env.startServer("127.0.0.2", newServer(t, standardZone))
	env.startServer("127.0.0.3", newServer(t, strings.ReplaceAll(standardZone, address, "autodiscover.example.test. 60 IN A 192.0.2.8")))
	got := env.read("example.test")
	if !got.Complete {
		t.Fatalf("got the reason %q, want a complete read", got.Reason)
	}
	want := dns.RRSet{Name: "autodiscover.example.test", Type: dns.A, TTL: 60, Values: []string{"192.0.2.7"}}
	if diff := cmp.Diff(want, dns.Find(got.Sets, want.Name, want.Type)); diff != "" {
		t.Fatal(diff)
	}
}
