// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/proto"
)

// ofTenant and ofDomain run the methods that take no more than that.
func ofTenant[A any](ctx context.Context, t tenantClient, method rpc[proto.TenantRequest, A]) (*A, error) {
	return call(ctx, t.open, method, func(c *proto.Connection) *proto.TenantRequest {
		return &proto.TenantRequest{Connection: c, Tenant: t.tenant}
	})
}

func ofDomain[A any](ctx context.Context, t tenantClient, name string, method rpc[proto.DomainRequest, A]) (*A, error) {
	return call(ctx, t.open, method, func(c *proto.Connection) *proto.DomainRequest {
		return &proto.DomainRequest{Connection: c, Tenant: t.tenant, Name: name}
	})
}

func (t tenantClient) Profile(ctx context.Context) (tenant.Profile, error) {
	a, err := ofTenant(ctx, t, proto.MailPlatformClient.Profile)
	return profileIn(a), err
}

func (t tenantClient) Domains(ctx context.Context) ([]domain.Platform, error) {
	a, err := ofTenant(ctx, t, proto.MailPlatformClient.Domains)
	return each(a.GetDomains(), domainIn), err
}

func (t tenantClient) Domain(ctx context.Context, name string) (domain.Platform, error) {
	a, err := ofDomain(ctx, t, name, proto.MailPlatformClient.Domain)
	return domainIn(a), err
}

func (t tenantClient) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	a, err := ofDomain(ctx, t, name, proto.MailPlatformClient.AddDomain)
	return domainIn(a), err
}

func (t tenantClient) Records(ctx context.Context, name string) (domain.Records, error) {
	a, err := ofDomain(ctx, t, name, proto.MailPlatformClient.Records)
	return recordsIn(a), err
}

func (t tenantClient) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	a, err := ofDomain(ctx, t, name, proto.MailPlatformClient.VerifyDomain)
	return domainIn(a), err
}

func (t tenantClient) EnableMail(ctx context.Context, name string) error {
	_, err := ofDomain(ctx, t, name, proto.MailPlatformClient.EnableMail)
	return err
}

func (t tenantClient) Bootstrap(ctx context.Context) (tenant.Progress, error) {
	a, err := ofTenant(ctx, t, proto.MailPlatformClient.Bootstrap)
	return progressIn(a), err
}

func (t tenantClient) SMTPAuth(ctx context.Context) (tenant.SMTPAuth, error) {
	a, err := ofTenant(ctx, t, proto.MailPlatformClient.SMTPAuth)
	return tenant.SMTPAuth(a.GetState()), err
}

func (t tenantClient) EnableSMTPAuth(ctx context.Context) error {
	_, err := ofTenant(ctx, t, proto.MailPlatformClient.EnableSMTPAuth)
	return err
}

func (t tenantClient) MailDomains(ctx context.Context) ([]string, error) {
	a, err := ofTenant(ctx, t, proto.MailPlatformClient.MailDomains)
	return a.GetDomains(), err
}

func (t tenantClient) Signing(ctx context.Context, name string) (dns.Signing, error) {
	a, err := ofDomain(ctx, t, name, proto.MailPlatformClient.Signing)
	return signingIn(a), err
}

func (t tenantClient) EnsureSigning(ctx context.Context, name string) (dns.Signing, error) {
	a, err := ofDomain(ctx, t, name, proto.MailPlatformClient.EnsureSigning)
	return signingIn(a), err
}

func (t tenantClient) EnableSigning(ctx context.Context, name string) error {
	_, err := ofDomain(ctx, t, name, proto.MailPlatformClient.EnableSigning)
	return err
}
