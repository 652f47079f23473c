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
		t.Fatalf("got %v, want 127.0.0.1:1 second, and two different errors", got)
	}
}

// TestRecursiveReadAsksOnlyResolvers checks that with Options.Recursive all records are read from
// resolvers. The read is not complete, because resolvers answer from a cache.
func TestRecursiveReadAsksOnlyResolvers(t *testing.T) {
	env := newFixture(t, standardZone)
	env.resolver.setChange(func(msg, _ *wire.Msg) { msg.Authoritative, msg.RecursionAvailable = false, true })
	server := newServer(t, standardZone)
	env.startServer("127.0.0.2", server)
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
		t.Errorf("the servers are %v, want only one named resolver", got.Servers)
	}
	for name, want := range map[string]dns.Type{
		"example.test": dns.MX, "_dmarc.example.test": dns.TXT, "selector1._domainkey.example.test": dns.CNAME,
	} {
		if len(values(got, name, want)) == 0 {
			t.Errorf("no %s at %s in %v", want, name, got.Sets)
		}
	}
	if len(askedQuestions(server)) > 0 {
		t.Errorf("a server was asked %v, want no question", askedQuestions(server))
	}
}
