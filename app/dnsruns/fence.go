// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"

	"github.com/tenantry/tenantry/app/domainsteps"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// fencedSteps returns a copy of s that writes only while the lease of the job is held. The only
// exception is the storing of a revoked consent. Before the copy writes at a provider, and before
// it stores or deletes the intent of a write to a zone, it renews the lease in the database. Before
// it stores a domain or confirms a write to a zone, it renews the lease only if the lease is stale
// (see app/lease).
func (c *claim) fencedSteps(s *domainsteps.Steps) *domainsteps.Steps {
	platform, domains := c.Fence.Mail(s.Platform, c.lease.GuardWrite), fencedDomains{s.Domains, c}
	reconciler, connections, copied := *s.Reconciler, *s.Connections, *s
	reconciler.Platform, reconciler.Domains = platform, domains
	connections.Providers = fencedProviders{s.Connections.Providers, c}
	copied.Platform, copied.Domains, copied.Reconciler, copied.Connections = platform, domains, &reconciler, &connections
	copied.Writes = fencedWrites{s.Writes, c}
	return &copied
}

// domainStore is an alias of ports.Domains. fencedDomains embeds the alias, because an embedded
// field named Domains would hide the method Domains of the port.
type domainStore = ports.Domains

// fencedDomains stores a changed domain only while the lease is held. The store keeps the newest
// observation of each domain, so storing a domain after the lease was lost does no harm. The steps
// of a job call no other method of ports.Domains that writes.
type fencedDomains struct {
	domainStore
	claim *claim
}

func (f fencedDomains) ChangeDomain(ctx context.Context, owner access.AccountID, changed domain.Domain) (d domain.Domain, err error) {
	err = f.claim.lease.RunHeld(ctx, func(ctx context.Context) error {
		d, err = f.domainStore.ChangeDomain(ctx, owner, changed)
		return err
	})
	return d, err
}

// fencedWrites checks the lease before it stores the progress of a write to a zone.
type fencedWrites struct {
	ports.DNSWrites
	claim *claim
}

func (f fencedWrites) IntendWrite(ctx context.Context, owner access.AccountID, w dns.Write) (id string, err error) {
	err = f.claim.lease.GuardWrite(ctx, func(ctx context.Context) error {
		id, err = f.DNSWrites.IntendWrite(ctx, owner, w)
		return err
	})
	return id, err
}

func (f fencedWrites) ConfirmWrite(ctx context.Context, owner access.AccountID, id string) error {
	return f.claim.lease.RunHeld(ctx, func(ctx context.Context) error { return f.DNSWrites.ConfirmWrite(ctx, owner, id) })
}

func (f fencedWrites) DropWrite(ctx context.Context, owner access.AccountID, id string) error {
	return f.claim.lease.GuardWrite(ctx, func(ctx context.Context) error { return f.DNSWrites.DropWrite(ctx, owner, id) })
}

// fencedProviders returns DNS providers that check the lease before they write to a zone.
type fencedProviders struct {
	ports.DNSProviders
	claim *claim
}

func (f fencedProviders) For(provider string, credential secret.Credential) ports.DNSProvider {
	return f.claim.Fence.DNS(f.DNSProviders.For(provider, credential), f.claim.lease.GuardWrite)
}
