// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Mail wraps a mail platform: each call is a span, a point in a histogram and,
// when it brought no answer, a line in the log.
func Mail(next ports.MailPlatform, o CallOptions) (ports.MailPlatform, error) {
	c, err := newCalls(o)
	if err != nil {
		return nil, err
	}
	return &mail{next: next, calls: c}, nil
}

type mail struct {
	next  ports.MailPlatform
	calls calls
}

func (m *mail) For(t tenant.GUID) ports.MailTenant {
	return &mailTenant{next: m.next.For(t), calls: m.calls, about: m.calls.about(aboutTenant, string(t))}
}

func (m *mail) Check(ctx context.Context) error {
	return measured(ctx, m.calls, "check", nil, m.next.Check)
}

func (m *mail) ConsentURL(ctx context.Context, state, redirect string) (string, error) {
	return measure(ctx, m.calls, "consent_url", nil, func(ctx context.Context) (string, error) {
		return m.next.ConsentURL(ctx, state, redirect)
	})
}

func (m *mail) Granted(ctx context.Context, query string) (tenant.GUID, error) {
	return measure(ctx, m.calls, "granted", nil, func(ctx context.Context) (tenant.GUID, error) { return m.next.Granted(ctx, query) })
}

func (m *mail) SignInURL(ctx context.Context, s ports.SignIn) (string, error) {
	return measure(ctx, m.calls, "sign_in_url", nil, func(ctx context.Context) (string, error) { return m.next.SignInURL(ctx, s) })
}

func (m *mail) Administrator(ctx context.Context, s ports.SignIn, code secret.Text) (tenant.Administrator, error) {
	return measure(ctx, m.calls, "administrator", nil, func(ctx context.Context) (tenant.Administrator, error) {
		return m.next.Administrator(ctx, s, code)
	})
}

type mailTenant struct {
	next  ports.MailTenant
	calls calls
	about []attribute.KeyValue
}

// on is what a call about a domain names.
func (m *mailTenant) on(domain string) []attribute.KeyValue {
	return append(m.about[:len(m.about):len(m.about)], m.calls.about(aboutDomain, domain)...)
}

// to is what a call about a mailbox names.
func (m *mailTenant) to(address string) []attribute.KeyValue {
	return append(m.about[:len(m.about):len(m.about)], m.calls.about(aboutMailbox, address)...)
}

func (m *mailTenant) Profile(ctx context.Context) (tenant.Profile, error) {
	return measure(ctx, m.calls, "profile", m.about, m.next.Profile)
}

func (m *mailTenant) Domains(ctx context.Context) ([]domain.Platform, error) {
	return measure(ctx, m.calls, "domains", m.about, m.next.Domains)
}

func (m *mailTenant) Domain(ctx context.Context, name string) (domain.Platform, error) {
	return measure(ctx, m.calls, "domain", m.on(name), func(ctx context.Context) (domain.Platform, error) { return m.next.Domain(ctx, name) })
}

func (m *mailTenant) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	return measure(ctx, m.calls, "add_domain", m.on(name), func(ctx context.Context) (domain.Platform, error) { return m.next.AddDomain(ctx, name) })
}

func (m *mailTenant) Records(ctx context.Context, name string) (domain.Records, error) {
	return measure(ctx, m.calls, "records", m.on(name), func(ctx context.Context) (domain.Records, error) { return m.next.Records(ctx, name) })
}

func (m *mailTenant) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	return measure(ctx, m.calls, "verify_domain", m.on(name), func(ctx context.Context) (domain.Platform, error) { return m.next.VerifyDomain(ctx, name) })
}

func (m *mailTenant) EnableMail(ctx context.Context, name string) error {
	return measured(ctx, m.calls, "enable_mail", m.on(name), func(ctx context.Context) error { return m.next.EnableMail(ctx, name) })
}

func (m *mailTenant) Bootstrap(ctx context.Context) (tenant.Progress, error) {
	return measure(ctx, m.calls, "bootstrap", m.about, m.next.Bootstrap)
}

func (m *mailTenant) SMTPAuth(ctx context.Context) (tenant.SMTPAuth, error) {
	return measure(ctx, m.calls, "smtp_auth", m.about, m.next.SMTPAuth)
}

func (m *mailTenant) EnableSMTPAuth(ctx context.Context) error {
	return measured(ctx, m.calls, "enable_smtp_auth", m.about, m.next.EnableSMTPAuth)
}

func (m *mailTenant) MailDomains(ctx context.Context) ([]string, error) {
	return measure(ctx, m.calls, "mail_domains", m.about, m.next.MailDomains)
}

func (m *mailTenant) Signing(ctx context.Context, name string) (dns.Signing, error) {
	return measure(ctx, m.calls, "signing", m.on(name), func(ctx context.Context) (dns.Signing, error) { return m.next.Signing(ctx, name) })
}

func (m *mailTenant) EnsureSigning(ctx context.Context, name string) (dns.Signing, error) {
	return measure(ctx, m.calls, "ensure_signing", m.on(name), func(ctx context.Context) (dns.Signing, error) { return m.next.EnsureSigning(ctx, name) })
}

func (m *mailTenant) EnableSigning(ctx context.Context, name string) error {
	return measured(ctx, m.calls, "enable_signing", m.on(name), func(ctx context.Context) error { return m.next.EnableSigning(ctx, name) })
}

func (m *mailTenant) Mailboxes(ctx context.Context) ([]mailbox.Platform, error) {
	return measure(ctx, m.calls, "mailboxes", m.about, m.next.Mailboxes)
}

func (m *mailTenant) UserMailboxes(ctx context.Context) (int, error) {
	return measure(ctx, m.calls, "user_mailboxes", m.about, m.next.UserMailboxes)
}

func (m *mailTenant) EmailLicenses(ctx context.Context) (tenant.Licenses, error) {
	return measure(ctx, m.calls, "email_licenses", m.about, m.next.EmailLicenses)
}

func (m *mailTenant) Mailbox(ctx context.Context, address string) (mailbox.Platform, error) {
	return measure(ctx, m.calls, "mailbox", m.to(address), func(ctx context.Context) (mailbox.Platform, error) { return m.next.Mailbox(ctx, address) })
}

func (m *mailTenant) CreateMailbox(ctx context.Context, spec mailbox.Spec) (mailbox.Platform, error) {
	return measure(ctx, m.calls, "create_mailbox", m.to(spec.Address), func(ctx context.Context) (mailbox.Platform, error) { return m.next.CreateMailbox(ctx, spec) })
}

func (m *mailTenant) OpenSignIn(ctx context.Context, objectID, address string, password secret.Text) error {
	return measured(ctx, m.calls, "open_sign_in", m.to(address), func(ctx context.Context) error {
		return m.next.OpenSignIn(ctx, objectID, address, password)
	})
}

func (m *mailTenant) OpenSubmission(ctx context.Context, address string) error {
	return measured(ctx, m.calls, "open_submission", m.to(address), func(ctx context.Context) error { return m.next.OpenSubmission(ctx, address) })
}

func (m *mailTenant) Rename(ctx context.Context, address, displayName string) error {
	return measured(ctx, m.calls, "rename", m.to(address), func(ctx context.Context) error { return m.next.Rename(ctx, address, displayName) })
}

func (m *mailTenant) EnsureRule(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	return measure(ctx, m.calls, "ensure_rule", m.on(scope), func(ctx context.Context) (sendlimit.Rule, error) {
		return m.next.EnsureRule(ctx, scope, mailboxes)
	})
}

func (m *mailTenant) Block(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	return measure(ctx, m.calls, "block", m.on(scope), func(ctx context.Context) (sendlimit.Rule, error) {
		return m.next.Block(ctx, scope, mailboxes)
	})
}

func (m *mailTenant) Rules(ctx context.Context) ([]sendlimit.Rule, error) {
	return measure(ctx, m.calls, "rules", m.about, m.next.Rules)
}

func (m *mailTenant) RemoveRules(ctx context.Context) error {
	return measured(ctx, m.calls, "remove_rules", m.about, m.next.RemoveRules)
}

func (m *mailTenant) Sent(ctx context.Context, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
	return measure(ctx, m.calls, "sent", m.about, func(ctx context.Context) (sendlimit.Trace, error) {
		return m.next.Sent(ctx, q)
	})
}
