// SPDX-License-Identifier: Apache-2.0

package dnsresolver_test

import (
	"fmt"
	"testing"

	"github.com/tenantry/tenantry/adapters/dnsresolver"

	wire "github.com/miekg/dns"
)

// TestEachResolverIsAskedByItself: one that does not answer, and one that
// refuses, beside one that is well.
func TestEachResolverIsAskedByItself(t *testing.T) {
	w := newWorld(t, delegation)
	w.server("127.0.0.9", wire.HandlerFunc(func(to wire.ResponseWriter, q *wire.Msg) {
		_ = to.WriteMsg(new(wire.Msg).SetRcode(q, wire.RcodeRefused))
	}))
	reader := dnsresolver.New(dnsresolver.Options{
		Resolvers:  []string{fmt.Sprintf("127.0.0.1:%d", w.port), "127.0.0.1:1", fmt.Sprintf("127.0.0.9:%d", w.port)},
		UDPTimeout: hang, TCPTimeout: hang,
	})
	got := reader.Resolvers(t.Context(), "Example.test.")
	if len(got) != 3 || got[0].Err != nil || got[1].Err == nil || got[2].Err == nil {
		t.Fatalf("got %v", got)
	}
	if got[1].Addr.String() != "127.0.0.1:1" || got[2].Err.Error() == got[1].Err.Error() {
		t.Fatalf("got %v", got)
	}
}
