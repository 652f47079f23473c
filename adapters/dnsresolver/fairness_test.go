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

// TestSilentServersOfOneAccountDoNotDelayAnother checks that a read of the account ann completes
// while the account eve waits for AccountShare answers of servers that never answer.
func TestSilentServersOfOneAccountDoNotDelayAnother(t *testing.T) {
	const domains = dnsresolver.AccountShare + 8 // so that 8 reads of eve wait for a slot
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
	reader := env.reader()
	ctx, cancel := context.WithCancel(t.Context())
	var reads sync.WaitGroup
	for n := range domains {
		reads.Go(func() { _, _ = reader.Read(ctx, "eve", fmt.Sprintf("eve%d.test", n)) })
	}
	for range dnsresolver.AccountShare {
		<-queried
	}
	if got, err := reader.Read(t.Context(), "ann", "example.test"); err != nil || !got.Complete {
		t.Errorf("the read of ann: got %+v, %v, want a complete read", got, err)
	}
	if len(queried) != 0 {
		t.Errorf("eve sent %d questions more than AccountShare, want none", len(queried))
	}
	cancel()
	reads.Wait()
}
