// SPDX-License-Identifier: Apache-2.0

package dnsresolver_test

import (
	"fmt"
	"slices"
	"testing"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/adapters/dnsresolver"
	"github.com/tenantry/tenantry/core/dns"
)

// TestResolversAreCheckedSeparately uses three resolvers: one works, one does not answer, and one
// refuses.
func TestResolversAreCheckedSeparately(t *testing.T) {
	env := newFixture(t, delegation)
	env.startServer("127.0.0.9", codeHandler(wire.RcodeRefused))
	options := env.options()
	options.Resolvers = append(options.Resolvers, "127.0.0.1:1", fmt.Sprintf("127.0.0.9:%d", env.port))
	got := dnsresolver.New(options).CheckResolvers(t.Context(), "Example.test.")
	if len(got) != 3 || got[0].Err != nil || got[1].Err == nil || got[2].Err == nil {
		t.Fatalf("got %v, want a success and two errors", got)
	}
	if got[1].Addr.String() != "127.0.0.1:1" || got[2].Err.Error() == got[1].Err.Error() {
		t.Fatalf("got %v, want 127.0.0.1:1 as the second resolver, and two different errors", got)
	}
}

// TestRecursiveReadAsksOnlyResolvers checks that a Reader with Options.Recursive reads all records
// from the resolvers. Its reads are not complete, because resolvers answer from a cache.
func TestRecursiveReadAsksOnlyResolvers(t *testing.T) {
	env := newFixture(t, standardZone+"ns1.example.test. 300 IN A 127.0.0.2\nns2.example.test. 300 IN A 127.0.0.3\n")
	env.resolver.setChange(func(msg, _ *wire.Msg) { msg.Authoritative, msg.RecursionAvailable = false, true })
	nameServer := newServer(t, standardZone)
	env.startServer("127.0.0.2", nameServer)
	options := env.options()
	options.Recursive = true
	got, err := dnsresolver.New(options).Read(t.Context(), "ann", "example.test")
	if err != nil {
		t.Fatal(err)
	}
	if got.Complete || got.Reason != dns.ReasonRecursive || got.Zone != "example.test" {
		t.Errorf("got complete %v, reason %q, zone %s, want an incomplete read of example.test with the reason %q", got.Complete, got.Reason, got.Zone, dns.ReasonRecursive)
	}
	if want := []dns.Server{{Name: "resolver", State: dns.ServerOK, Agrees: true}}; !slices.Equal(got.Servers, want) {
		t.Errorf("the servers are %v, want %v", got.Servers, want)
	}
	for name, wantType := range map[string]dns.Type{
		"example.test": dns.MX, "_dmarc.example.test": dns.TXT, "selector1._domainkey.example.test": dns.CNAME,
	} {
		if len(values(got, name, wantType)) == 0 {
			t.Errorf("the read has no %s at %s: %v", wantType, name, got.Sets)
		}
	}
	if questions := askedQuestions(nameServer); len(questions) > 0 {
		t.Errorf("the name server was asked %v, want no question", questions)
	}
}
