// SPDX-License-Identifier: Apache-2.0

package dnsresolver_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/adapters/dnsresolver"
)

// TestSilentServersOfOneAccountDoNotDelayAnother checks that a read completes while a different
// account has sent as many questions as it may to servers that never answer.
func TestSilentServersOfOneAccountDoNotDelayAnother(t *testing.T) {
	const domains = dnsresolver.AccountShare + 8
	var records strings.Builder
	records.WriteString(delegation)
	for n := range domains {
		_, _ = fmt.Fprintf(&records, "eve%[1]d.test. 300 IN SOA ns.eve%[1]d.test. hostmaster.eve%[1]d.test. 7 3600 600 86400 60\n"+
			"eve%[1]d.test. 300 IN NS ns.eve%[1]d.test.\nns.eve%[1]d.test. 300 IN A 127.0.0.%[2]d\n", n, 10+n)
	}
	env := newFixture(t, records.String())
	env.startServers(standardZone)
	queried := make(chan struct{}, domains)
	for n := range domains {
		env.startServer(fmt.Sprintf("127.0.0.%d", 10+n), wire.HandlerFunc(func(wire.ResponseWriter, *wire.Msg) { queried <- struct{}{} }))
	}
	r := env.reader()
	ctx, cancel := context.WithCancel(t.Context())
	var reads sync.WaitGroup
	for n := range domains {
		reads.Go(func() { _, _ = r.Read(ctx, "eve", fmt.Sprintf("eve%d.test", n)) })
	}
	for range dnsresolver.AccountShare {
		<-queried
	}
	if got, err := r.Read(t.Context(), "ann", "example.test"); err != nil || !got.Complete {
		t.Errorf("the read of a different account: %+v, %v", got, err)
	}
	if len(queried) != 0 {
		t.Errorf("%d questions more than the account's share were sent", len(queried))
	}
	cancel()
	reads.Wait()
}
