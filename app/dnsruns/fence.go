// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// guard calls write only while the lease is held, and with a deadline at the end of the renewed
// lease. A process that was suspended after the renewal therefore does not write when it continues.
func (c *claim) guard(ctx context.Context, write func(context.Context) error) error {
	until := time.Now().Add(c.lease())
	if err := c.renewLease(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	// An earlier deadline of the context is enforced by a timer. In a process that was suspended,
	// that timer may not have fired yet.
	if !time.Now().Before(until) {
		return context.DeadlineExceeded
	}
	return write(ctx)
}

// fenced returns a copy of s in which every write goes through guard.
func (c *claim) fenced(s *domains.Service) *domains.Service {
	platform, stored := fencedPlatform{s.Platform, c}, fencedDomains{s.Domains, c}
	pass, connections, copied := *s.Settling, *s.Connections, *s
	pass.Platform, pass.Domains = platform, stored
	connections.Providers = fencedProviders{s.Connections.Providers, c}
	copied.Platform, copied.Domains, copied.Settling, copied.Connections = platform, stored, &pass, &connections
	copied.Writes = fencedWrites{s.Writes, c}
	return &copied
}

type fencedPlatform struct {
	ports.MailPlatform
	claim *claim
}

func (f fencedPlatform) For(t tenant.GUID) ports.MailTenant {
	return fencedTenant{f.MailPlatform.For(t), f.claim}
}

type fencedTenant struct {
	ports.MailTenant
	claim *claim
}

func (f fencedTenant) VerifyDomain(ctx context.Context, name string) (held domain.Platform, err error) {
	err = f.claim.guard(ctx, func(ctx context.Context) error {
		held, err = f.MailTenant.VerifyDomain(ctx, name)
		return err
	})
	return held, err
}

func (f fencedTenant) EnableMail(ctx context.Context, name string) error {
	return f.claim.guard(ctx, func(ctx context.Context) error { return f.MailTenant.EnableMail(ctx, name) })
}

func (f fencedTenant) EnsureSigning(ctx context.Context, name string) (made dns.Signing, err error) {
	err = f.claim.guard(ctx, func(ctx context.Context) error {
		made, err = f.MailTenant.EnsureSigning(ctx, name)
		return err
	})
	return made, err
}

func (f fencedTenant) EnableSigning(ctx context.Context, name string) error {
	return f.claim.guard(ctx, func(ctx context.Context) error { return f.MailTenant.EnableSigning(ctx, name) })
}

// stored is an alias of the port whose name differs from all of the port's methods. An embedded
// field must not have the name of a method.
type stored = ports.Domains

type fencedDomains struct {
	stored
	claim *claim
}

func (f fencedDomains) ChangeDomain(ctx context.Context, owner access.AccountID, was, now domain.Domain) (d domain.Domain, err error) {
	err = f.claim.guard(ctx, func(ctx context.Context) error {
		d, err = f.stored.ChangeDomain(ctx, owner, was, now)
		return err
	})
	return d, err
}

type fencedWrites struct {
	ports.DNSWrites
	claim *claim
}

func (f fencedWrites) SaveWritten(ctx context.Context, owner access.AccountID, id string, written []dns.Written) error {
	return f.claim.guard(ctx, func(ctx context.Context) error { return f.DNSWrites.SaveWritten(ctx, owner, id, written) })
}

type fencedProviders struct {
	ports.DNSProviders
	claim *claim
}

func (f fencedProviders) For(provider string, credential secret.Credential) ports.DNSProvider {
	return fencedProvider{f.DNSProviders.For(provider, credential), f.claim}
}

type fencedProvider struct {
	ports.DNSProvider
	claim *claim
}

func (f fencedProvider) Apply(ctx context.Context, z dns.Zone, changes []dns.Change) (sets []dns.RRSet, err error) {
	err = f.claim.guard(ctx, func(ctx context.Context) error {
		sets, err = f.DNSProvider.Apply(ctx, z, changes)
		return err
	})
	return sets, err
}
