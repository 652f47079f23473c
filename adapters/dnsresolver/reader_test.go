// SPDX-License-Identifier: Apache-2.0

package dnsresolver_test

import (
	"context"
	"errors"
	"fmt"
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

func TestReadTellsWhatAllServersSay(t *testing.T) {
	w := newWorld(t, delegation)
	w.server("127.0.0.2", zone(t, standard))
	w.server("127.0.0.3", zone(t, standard))
	got := w.read("Example.test.")
	got.At = got.At.Truncate(0)
	want := dns.Sight{
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

func TestReadAsksTheListedNamesAndNoMore(t *testing.T) {
	w := newWorld(t, delegation)
	s := zone(t, standard)
	w.server("127.0.0.2", s)
	w.server("127.0.0.3", zone(t, standard))
	w.read("example.test")
	want := map[string]int{
		"example.test. SOA": 1, "example.test. NS": 1, "example.test. MX": 1, "example.test. TXT": 1,
		"_dmarc.example.test. TXT": 1, "selector1._domainkey.example.test. CNAME": 1,
		"selector2._domainkey.example.test. CNAME": 1, "selector2._domainkey.example.test. TXT": 1,
		"selector2._domainkey.example.test. A": 1, "selector2._domainkey.example.test. AAAA": 1, "_domainkey.example.test. NS": 1,
		"autodiscover.example.test. CNAME": 1, "autodiscover.example.test. TXT": 1,
		"autodiscover.example.test. A": 1, "autodiscover.example.test. AAAA": 1,
		"nobody.example.test. TXT": 1, "nobody._domainkey.example.test. TXT": 1,
	}
	if diff := cmp.Diff(want, asked(s)); diff != "" {
		t.Fatal(diff)
	}
}

// asked counts questions, those for names that nobody has under one name.
func asked(s *served) map[string]int {
	out := map[string]int{}
	for what, n := range s.counts() {
		if first, rest, _ := strings.Cut(what, "."); strings.HasPrefix(first, "tenantry-") {
			what = "nobody." + rest
		}
		out[what] += n
	}
	return out
}

func TestAFreshDomainTakesFewQuestions(t *testing.T) {
	const bare = `
example.test. 300 IN SOA ns1.example.test. hostmaster.example.test. 7 3600 600 86400 60
example.test. 300 IN NS ns1.example.test.
example.test. 300 IN NS ns2.example.test.
`
	w := newWorld(t, delegation)
	s := zone(t, bare)
	w.server("127.0.0.2", s)
	w.server("127.0.0.3", zone(t, bare))
	if got := w.read("example.test"); !got.Complete || got.Warnings != nil {
		t.Fatalf("got %q, %v", got.Reason, got.Warnings)
	}
	want := map[string]int{
		"example.test. SOA": 1, "example.test. NS": 1, "example.test. MX": 1, "example.test. TXT": 1, "_dmarc.example.test. TXT": 1,
		"selector1._domainkey.example.test. CNAME": 1, "selector2._domainkey.example.test. CNAME": 1, "autodiscover.example.test. CNAME": 1,
	}
	if diff := cmp.Diff(want, asked(s)); diff != "" {
		t.Fatal(diff)
	}
}

// A name that does not exist shows that no wildcard is there.
func TestNoWildcardIsLookedForWhereThereCanBeNone(t *testing.T) {
	w := newWorld(t, delegation)
	s := zone(t, bare+"_dmarc.example.test. 300 IN TXT here\nselector1._domainkey.example.test. 300 IN CNAME k.test.\n")
	w.server("127.0.0.2", s)
	w.server("127.0.0.3", s)
	w.read("example.test")
	for what := range asked(s) {
		if strings.HasPrefix(what, "nobody.") {
			t.Errorf("asked for %s", what)
		}
	}
}

// A server that moved is found at its new address by the next read.
func TestAddressesOfServersThatFailAreNotRemembered(t *testing.T) {
	// Outside of the zone, so that no address comes along with a name.
	named := strings.NewReplacer("ns1.example.test", "ns1.provider.test", "ns2.example.test", "ns2.provider.test")
	before := named.Replace(delegation)
	w := newWorld(t, before)
	w.server("127.0.0.2", zone(t, named.Replace(standard)))
	r := w.reader()
	if got, err := r.Read(t.Context(), "example.test"); err != nil || got.Reason != "single_server_answered" {
		t.Fatalf("got %q, %v", got.Reason, err)
	}
	w.cut.replace(zone(t, strings.ReplaceAll(before, "127.0.0.3", "127.0.0.4")).records)
	w.server("127.0.0.4", zone(t, named.Replace(standard)))
	if got, err := r.Read(t.Context(), "example.test"); err != nil || !got.Complete {
		t.Fatalf("got %q, %v", got.Reason, err)
	}
}

func TestSubdomainIsReadInItsEnclosingZone(t *testing.T) {
	w := newWorld(t, delegation)
	records := standard + "mail.example.test. 300 IN MX 0 mail.example.net.\n"
	w.server("127.0.0.2", zone(t, records))
	w.server("127.0.0.3", zone(t, records))
	got := w.read("mail.example.test")
	if got.Zone != "example.test" || !got.Complete {
		t.Fatalf("zone %q, complete %v (%s)", got.Zone, got.Complete, got.Reason)
	}
	if diff := cmp.Diff([]string{"0 mail.example.net"}, values(got, "mail.example.test", dns.MX)); diff != "" {
		t.Fatal(diff)
	}
}

func TestWhatCannotBeFound(t *testing.T) {
	root := "test. 300 IN SOA ns.test. host.test. 1 1 1 1 60\n"
	for _, tt := range []struct{ name, resolver, domain, reason string }{
		{"nobody registered it", root, "example.test", "not_delegated"},
		{"a resolver that knows nothing at all", "", "example.test", "not_delegated"},
		{"the zone lists no name servers", root + "example.test. 300 IN SOA a. b. 1 1 1 1 1\n", "example.test", "no_authoritative_answer"},
		{"name servers without an address", root + "example.test. 300 IN SOA a. b. 1 1 1 1 1\nexample.test. 300 IN NS ns.nowhere.test.\n", "example.test", "no_authoritative_answer"},
		{"no domain name", root, strings.Repeat("a", 64) + ".test", "zone_cut_unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := newWorld(t, tt.resolver).read(tt.domain)
			if got.Complete || got.Reason != tt.reason || len(got.Sets) > 0 {
				t.Fatalf("got complete %v, reason %q, sets %v; want reason %q", got.Complete, got.Reason, got.Sets, tt.reason)
			}
		})
	}
}

func TestWithoutResolversNothingIsKnown(t *testing.T) {
	got, err := dnsresolver.New(dnsresolver.Options{Resolvers: []string{"nonsense"}}).Read(t.Context(), "example.test")
	if err != nil || got.Reason != "zone_cut_unknown" {
		t.Fatalf("got %q, %v", got.Reason, err)
	}
}

func TestASecondResolverHelpsOut(t *testing.T) {
	w := newWorld(t, delegation)
	w.server("127.0.0.2", zone(t, standard))
	w.server("127.0.0.3", zone(t, standard))
	w.server("127.0.0.9", refusing(wire.RcodeServerFailure))
	r := dnsresolver.New(dnsresolver.Options{
		Resolvers: []string{fmt.Sprintf("127.0.0.9:%d", w.port), fmt.Sprintf("127.0.0.1:%d", w.port)},
		Port:      w.port, AllowPrivate: true,
	})
	got, err := r.Read(t.Context(), "example.test")
	if err != nil || !got.Complete {
		t.Fatalf("got %q, %v", got.Reason, err)
	}
}

func TestCancelledReadReturnsTheContextsError(t *testing.T) {
	w := newWorld(t, delegation)
	ctx, cancel := context.WithCancel(t.Context())
	w.server("127.0.0.2", wire.HandlerFunc(func(wire.ResponseWriter, *wire.Msg) { cancel() }))
	w.server("127.0.0.3", zone(t, standard))
	if _, err := w.reader().Read(ctx, "example.test"); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

func TestReadsAtTheSameTimeAreOne(t *testing.T) {
	w := newWorld(t, delegation)
	s, second, hold := zone(t, standard), make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.server("127.0.0.2", wire.HandlerFunc(func(rw wire.ResponseWriter, q *wire.Msg) {
		once.Do(func() { close(second); <-hold })
		s.ServeDNS(rw, q)
	}))
	w.server("127.0.0.3", zone(t, standard))
	r := dnsresolver.New(dnsresolver.Options{
		Resolvers: []string{fmt.Sprintf("127.0.0.1:%d", w.port)}, Port: w.port, AllowPrivate: true,
	})
	var wg sync.WaitGroup
	read := func() {
		if got, err := r.Read(t.Context(), "example.test"); err != nil || !got.Complete {
			t.Errorf("got %q, %v", got.Reason, err)
		}
	}
	wg.Go(read)
	<-second
	left, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Read(left, "example.test"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	joined := dnsresolver.Joined(r, "example.test")
	wg.Go(read)
	joined(2)
	close(hold)
	wg.Wait()
	if n := s.count("example.test. MX"); n != 1 {
		t.Fatalf("asked %d times", n)
	}
}

func TestDelegationIsRememberedRecordsAreNot(t *testing.T) {
	w := newWorld(t, delegation)
	s := zone(t, standard)
	w.server("127.0.0.2", s)
	w.server("127.0.0.3", zone(t, standard))
	r := w.reader()
	for range 2 {
		if got, err := r.Read(t.Context(), "example.test"); err != nil || !got.Complete {
			t.Fatalf("got %q, %v", got.Reason, err)
		}
	}
	if n := w.cut.count("example.test. NS"); n != 1 {
		t.Errorf("the resolver was asked %d times", n)
	}
	if n := s.count("example.test. MX"); n != 2 {
		t.Errorf("the server was asked %d times", n)
	}
}
