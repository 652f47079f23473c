// SPDX-License-Identifier: Apache-2.0

package breaker

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/ports"
)

// Operations of a DNS provider, as budgets name them.
const (
	OpCheck   = "check"
	OpZone    = "zone"
	OpRecords = "records"
	OpApply   = "apply"
)

// dnsCallLimit bounds each call of a DNS provider: a customer may name a server
// that accepts and says nothing.
const dnsCallLimit = 20 * time.Second

// DNS has a circuit for each credential of a DNS provider, so that one
// customer's dead name server is that customer's alone.
type DNS struct{ circuits *registry }

// NewDNS makes the circuits of one DNS provider.
func NewDNS(o Options) *DNS { return &DNS{newRegistry(o.orDefaults())} }

// Guard puts the circuit of a credential around the provider as that
// credential reaches it. The fingerprint tells credentials apart.
func (d *DNS) Guard(next ports.DNSProvider, fingerprint string) ports.DNSProvider {
	return guardedDNS{next: next, circuits: d.circuits, domain: callerDomain + fingerprint}
}

// Circuits lists the credentials that have a circuit, as Platform.Circuits.
func (d *DNS) Circuits() []Circuit { return d.circuits.list() }

type guardedDNS struct {
	next     ports.DNSProvider
	circuits *registry
	domain   string
}

func (g guardedDNS) Check(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, dnsCallLimit)
	defer cancel()
	return run(ctx, g.circuit(), traits{operation: OpCheck}, func() (int, error) { return g.next.Check(ctx) })
}

func (g guardedDNS) Zone(ctx context.Context, name string) (dns.Zone, error) {
	ctx, cancel := context.WithTimeout(ctx, dnsCallLimit)
	defer cancel()
	return run(ctx, g.circuit(), traits{operation: OpZone}, func() (dns.Zone, error) { return g.next.Zone(ctx, name) })
}

func (g guardedDNS) Records(ctx context.Context, zone dns.Zone) ([]dns.RRSet, error) {
	ctx, cancel := context.WithTimeout(ctx, dnsCallLimit)
	defer cancel()
	return run(ctx, g.circuit(), traits{operation: OpRecords}, func() ([]dns.RRSet, error) { return g.next.Records(ctx, zone) })
}

// Apply looks for the zone first while the circuit is half open.
func (g guardedDNS) Apply(ctx context.Context, zone dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	ctx, cancel := context.WithTimeout(ctx, dnsCallLimit)
	defer cancel()
	return afterProbe(ctx, g.circuit(),
		traits{operation: OpApply, write: true}, func() ([]dns.RRSet, error) { return g.next.Apply(ctx, zone, changes) },
		traits{operation: OpZone}, func() (dns.Zone, error) { return g.next.Zone(ctx, zone.Name) })
}

func (g guardedDNS) circuit() *circuit { return g.circuits.circuit(g.domain) }
