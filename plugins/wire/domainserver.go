// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

func (s *mailServer) Profile(ctx context.Context, q *proto.TenantRequest) (*proto.TenantProfile, error) {
	return within(s, q, func(t ports.MailTenant) (tenant.Profile, error) { return t.Profile(ctx) }, profileOut)
}

func (s *mailServer) Domains(ctx context.Context, q *proto.TenantRequest) (*proto.DomainsAnswer, error) {
	return within(s, q, func(t ports.MailTenant) ([]domain.Platform, error) { return t.Domains(ctx) },
		func(list []domain.Platform) *proto.DomainsAnswer {
			return &proto.DomainsAnswer{Domains: each(list, domainOut)}
		})
}

func (s *mailServer) Domain(ctx context.Context, q *proto.DomainRequest) (*proto.PlatformDomain, error) {
	return within(s, q, func(t ports.MailTenant) (domain.Platform, error) { return t.Domain(ctx, q.GetName()) }, domainOut)
}

func (s *mailServer) AddDomain(ctx context.Context, q *proto.DomainRequest) (*proto.PlatformDomain, error) {
	return within(s, q, func(t ports.MailTenant) (domain.Platform, error) { return t.AddDomain(ctx, q.GetName()) }, domainOut)
}

func (s *mailServer) Records(ctx context.Context, q *proto.DomainRequest) (*proto.RecordsAnswer, error) {
	return within(s, q, func(t ports.MailTenant) (domain.Records, error) { return t.Records(ctx, q.GetName()) }, recordsOut)
}

func (s *mailServer) VerifyDomain(ctx context.Context, q *proto.DomainRequest) (*proto.PlatformDomain, error) {
	return within(s, q, func(t ports.MailTenant) (domain.Platform, error) { return t.VerifyDomain(ctx, q.GetName()) }, domainOut)
}

func (s *mailServer) EnableMail(ctx context.Context, q *proto.DomainRequest) (*proto.Done, error) {
	return carryOut(s, q, func(t ports.MailTenant) error { return t.EnableMail(ctx, q.GetName()) })
}

func (s *mailServer) Bootstrap(ctx context.Context, q *proto.TenantRequest) (*proto.Progress, error) {
	return within(s, q, func(t ports.MailTenant) (tenant.Progress, error) { return t.Bootstrap(ctx) }, progressOut)
}

func (s *mailServer) SMTPAuth(ctx context.Context, q *proto.TenantRequest) (*proto.SMTPAuthAnswer, error) {
	return within(s, q, func(t ports.MailTenant) (tenant.SMTPAuth, error) { return t.SMTPAuth(ctx) },
		func(a tenant.SMTPAuth) *proto.SMTPAuthAnswer { return &proto.SMTPAuthAnswer{State: string(a)} })
}

func (s *mailServer) EnableSMTPAuth(ctx context.Context, q *proto.TenantRequest) (*proto.Done, error) {
	return carryOut(s, q, func(t ports.MailTenant) error { return t.EnableSMTPAuth(ctx) })
}

func (s *mailServer) MailDomains(ctx context.Context, q *proto.TenantRequest) (*proto.MailDomainsAnswer, error) {
	return within(s, q, func(t ports.MailTenant) ([]string, error) { return t.MailDomains(ctx) },
		func(list []string) *proto.MailDomainsAnswer { return &proto.MailDomainsAnswer{Domains: list} })
}

func (s *mailServer) Signing(ctx context.Context, q *proto.DomainRequest) (*proto.DomainSigning, error) {
	return within(s, q, func(t ports.MailTenant) (dns.Signing, error) { return t.Signing(ctx, q.GetName()) }, signingOut)
}

func (s *mailServer) EnsureSigning(ctx context.Context, q *proto.DomainRequest) (*proto.DomainSigning, error) {
	return within(s, q, func(t ports.MailTenant) (dns.Signing, error) { return t.EnsureSigning(ctx, q.GetName()) }, signingOut)
}

func (s *mailServer) EnableSigning(ctx context.Context, q *proto.DomainRequest) (*proto.Done, error) {
	return carryOut(s, q, func(t ports.MailTenant) error { return t.EnableSigning(ctx, q.GetName()) })
}
