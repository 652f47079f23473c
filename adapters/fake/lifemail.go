// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// MailPlatform makes steps of what a life does to the domains of a mail
// platform.
func (l *Life) MailPlatform(p ports.MailPlatform) ports.MailPlatform { return mortalPlatform{p, l} }

type mortalPlatform struct {
	ports.MailPlatform

	life *Life
}

func (p mortalPlatform) For(id tenant.GUID) ports.MailTenant {
	return mortalTenant{p.MailPlatform.For(id), p.life}
}

type mortalTenant struct {
	ports.MailTenant

	life *Life
}

func (m mortalTenant) Domain(ctx context.Context, name string) (domain.Platform, error) {
	return Answer(m.life, func() (domain.Platform, error) { return m.MailTenant.Domain(ctx, name) })
}

func (m mortalTenant) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	return Answer(m.life, func() (domain.Platform, error) { return m.MailTenant.AddDomain(ctx, name) })
}

func (m mortalTenant) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	return Answer(m.life, func() (domain.Platform, error) { return m.MailTenant.VerifyDomain(ctx, name) })
}

func (m mortalTenant) Records(ctx context.Context, name string) (domain.Records, error) {
	return Answer(m.life, func() (domain.Records, error) { return m.MailTenant.Records(ctx, name) })
}

func (m mortalTenant) EnableMail(ctx context.Context, name string) error {
	return m.life.Step(func() error { return m.MailTenant.EnableMail(ctx, name) })
}

func (m mortalTenant) EnsureSigning(ctx context.Context, name string) (dns.Signing, error) {
	return Answer(m.life, func() (dns.Signing, error) { return m.MailTenant.EnsureSigning(ctx, name) })
}

func (m mortalTenant) EnableSigning(ctx context.Context, name string) error {
	return m.life.Step(func() error { return m.MailTenant.EnableSigning(ctx, name) })
}

func (m mortalTenant) Signing(ctx context.Context, name string) (dns.Signing, error) {
	return Answer(m.life, func() (dns.Signing, error) { return m.MailTenant.Signing(ctx, name) })
}

// Domains makes steps of what a life stores of domains.
func (l *Life) Domains(d ports.Domains) ports.Domains { return mortalDomains{d, l} }

// storedDomains is the port under a name that none of its methods has.
type storedDomains = ports.Domains

type mortalDomains struct {
	storedDomains

	life *Life
}

func (s mortalDomains) SaveDomain(ctx context.Context, owner access.AccountID, d domain.Domain) error {
	return s.life.Step(func() error { return s.storedDomains.SaveDomain(ctx, owner, d) })
}

func (s mortalDomains) ChangeDomain(ctx context.Context, owner access.AccountID, was, now domain.Domain) (d domain.Domain, err error) {
	err = s.life.Step(func() error {
		d, err = s.storedDomains.ChangeDomain(ctx, owner, was, now)
		return err
	})
	return d, err
}

func (s mortalDomains) ReleaseDomain(ctx context.Context, owner access.AccountID, id string) error {
	return s.life.Step(func() error { return s.storedDomains.ReleaseDomain(ctx, owner, id) })
}
