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

// guard does a write only while the job is held, and only until the lease that
// was renewed for it ends: a process that was stopped between the two does
// not write when it continues.
func (c *claim) guard(ctx context.Context, write func(context.Context) error) error {
	until := time.Now().Add(c.lease())
	if err := c.check(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	// A context that has an earlier deadline ends by a timer, and the timers of a
	// process that continues are not the first to run.
	if !time.Now().Before(until) {
		return context.DeadlineExceeded
	}
	return write(ctx)
}

// fenced are the use cases with every write of theirs under guard.
func (c *claim) fenced(s *domains.Service) *domains.Service {
	platform, stored := fencedPlatform{s.Platform, c}, fencedDomains{s.Domains, c}
	pass, connections, all := *s.Settling, *s.Connections, *s
	pass.Platform, pass.Domains = platform, stored
	connections.Providers = fencedProviders{s.Connections.Providers, c}
	all.Platform, all.Domains, all.Settling, all.Connections = platform, stored, &pass, &connections
	all.Writes = fencedWrites{s.Writes, c}
	return &all
}

type fencedPlatform struct {
	ports.MailPlatform
	by *claim
}

func (f fencedPlatform) For(t tenant.GUID) ports.MailTenant {
	return fencedTenant{f.MailPlatform.For(t), f.by}
}

type fencedTenant struct {
	ports.MailTenant
	by *claim
}

func (f fencedTenant) VerifyDomain(ctx context.Context, name string) (held domain.Platform, err error) {
	err = f.by.guard(ctx, func(ctx context.Context) error {
		held, err = f.MailTenant.VerifyDomain(ctx, name)
		return err
	})
	return held, err
}

func (f fencedTenant) EnableMail(ctx context.Context, name string) error {
	return f.by.guard(ctx, func(ctx context.Context) error { return f.MailTenant.EnableMail(ctx, name) })
}

func (f fencedTenant) EnsureSigning(ctx context.Context, name string) (made dns.Signing, err error) {
	err = f.by.guard(ctx, func(ctx context.Context) error {
		made, err = f.MailTenant.EnsureSigning(ctx, name)
		return err
	})
	return made, err
}

func (f fencedTenant) EnableSigning(ctx context.Context, name string) error {
	return f.by.guard(ctx, func(ctx context.Context) error { return f.MailTenant.EnableSigning(ctx, name) })
}

// stored is the port under a name that none of its methods has.
type stored = ports.Domains

type fencedDomains struct {
	stored
	by *claim
}

func (f fencedDomains) ChangeDomain(ctx context.Context, owner access.AccountID, was, now domain.Domain) (d domain.Domain, err error) {
	err = f.by.guard(ctx, func(ctx context.Context) error {
		d, err = f.stored.ChangeDomain(ctx, owner, was, now)
		return err
	})
	return d, err
}

type fencedWrites struct {
	ports.DNSWrites
	by *claim
}

func (f fencedWrites) SaveWritten(ctx context.Context, owner access.AccountID, id string, written []dns.Written) error {
	return f.by.guard(ctx, func(ctx context.Context) error { return f.DNSWrites.SaveWritten(ctx, owner, id, written) })
}

type fencedProviders struct {
	ports.DNSProviders
	by *claim
}

func (f fencedProviders) For(provider string, credential secret.Credential) ports.DNSProvider {
	return fencedProvider{f.DNSProviders.For(provider, credential), f.by}
}

type fencedProvider struct {
	ports.DNSProvider
	by *claim
}

func (f fencedProvider) Apply(ctx context.Context, z dns.Zone, changes []dns.Change) (sets []dns.RRSet, err error) {
	err = f.by.guard(ctx, func(ctx context.Context) error {
		sets, err = f.DNSProvider.Apply(ctx, z, changes)
		return err
	})
	return sets, err
}
