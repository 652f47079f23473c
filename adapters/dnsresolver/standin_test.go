// SPDX-License-Identifier: Apache-2.0

package dnsresolver_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tenantry/tenantry/adapters/dnsresolver"
	"github.com/tenantry/tenantry/core/dns"

	wire "github.com/miekg/dns"
)

// TestResolversInPlaceOfServers: a resolver tells all that a server would, but
// for whether it is still so, and no server is asked.
func TestResolversInPlaceOfServers(t *testing.T) {
	w := newWorld(t, standard)
	w.cut.changing(func(m, _ *wire.Msg) { m.Authoritative, m.RecursionAvailable = false, true })
	server := zone(t, standard)
	w.server("127.0.0.2", server)
	reader := dnsresolver.New(dnsresolver.Options{
		Resolvers: []string{fmt.Sprintf("127.0.0.1:%d", w.port)}, Port: w.port, AllowPrivate: true, Recursive: true,
		UDPTimeout: hang, TCPTimeout: hang,
	})
	got, err := reader.Read(t.Context(), "example.test")
	if err != nil {
		t.Fatal(err)
	}
	if got.Complete || got.Reason != dns.ReasonRecursive || got.Zone != "example.test" {
		t.Errorf("it is %v, %q of %s", got.Complete, got.Reason, got.Zone)
	}
	if want := []dns.Server{{Name: "resolver", State: dns.ServerOK, Agrees: true}}; !slices.Equal(got.Servers, want) {
		t.Errorf("it asked %v", got.Servers)
	}
	for name, want := range map[string]dns.Type{
		"example.test": dns.MX, "_dmarc.example.test": dns.TXT, "selector1._domainkey.example.test": dns.CNAME,
	} {
		if len(values(got, name, want)) == 0 {
			t.Errorf("no %s at %s in %v", want, name, got.Sets)
		}
	}
	if len(asked(server)) > 0 {
		t.Errorf("a server was asked %v", asked(server))
	}
}
