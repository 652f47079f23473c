// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// get makes the API call of all reads of a mail or sending platform.
func (p provider) get(ctx context.Context) error {
	return p.call(ctx, http.MethodGet, "/zones", nil, &answerDoc{})
}

type mailPlatform struct {
	sdk.MailPlatform // nil, because the tests run no check that calls the other methods
	provider         provider
}

func (m mailPlatform) Check(ctx context.Context) error { return m.provider.get(ctx) }

func (m mailPlatform) For(tenant.GUID) sdk.MailTenant { return mailTenant{provider: m.provider} }

type mailTenant struct {
	sdk.MailTenant
	provider provider
}

func (m mailTenant) Profile(ctx context.Context) (tenant.Profile, error) {
	return tenant.Profile{BuiltinDomain: "contoso.mail.test"}, m.provider.get(ctx)
}

func (m mailTenant) Domains(ctx context.Context) ([]domain.Platform, error) {
	return nil, m.provider.get(ctx)
}

func (m mailTenant) Domain(ctx context.Context, _ string) (domain.Platform, error) {
	return domain.Platform{}, m.provider.get(ctx)
}

func (m mailTenant) Records(ctx context.Context, _ string) (domain.Records, error) {
	return domain.Records{}, m.provider.get(ctx)
}

func (m mailTenant) SMTPAuth(ctx context.Context) (tenant.SMTPAuth, error) {
	var state tenant.SMTPAuth
	return state, m.provider.get(ctx)
}

func (m mailTenant) MailDomains(ctx context.Context) ([]string, error) {
	return nil, m.provider.get(ctx)
}

func (m mailTenant) Signing(ctx context.Context, _ string) (dns.Signing, error) {
	return dns.Signing{}, m.provider.get(ctx)
}

func (m mailTenant) Mailboxes(ctx context.Context) ([]mailbox.Platform, error) {
	return nil, m.provider.get(ctx)
}

func (m mailTenant) UserMailboxes(ctx context.Context) (int, error) { return 0, m.provider.get(ctx) }

func (m mailTenant) EmailLicenses(ctx context.Context) (tenant.Licenses, error) {
	return tenant.Licenses{}, m.provider.get(ctx)
}

func (m mailTenant) Mailbox(ctx context.Context, _ string) (mailbox.Platform, error) {
	return mailbox.Platform{}, m.provider.get(ctx)
}

func (m mailTenant) Rules(ctx context.Context) ([]sendlimit.Rule, error) {
	return nil, m.provider.get(ctx)
}

func (m mailTenant) Sent(ctx context.Context, _ sendlimit.TraceQuery) (sendlimit.Trace, error) {
	return sendlimit.Trace{}, m.provider.get(ctx)
}
