// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const scope = "github.com/tenantry/tenantry/adapters/telemetry"

// Mail wraps a mail platform: each call is a span and a point in the histogram
// tenantry.provider.call.duration, by provider, operation and outcome. Names of
// customers, their domains and addresses stay out of both.
func Mail(next ports.MailPlatform, provider string) (ports.MailPlatform, error) {
	duration, err := otel.Meter(scope).Float64Histogram("tenantry.provider.call.duration",
		metric.WithUnit("s"), metric.WithDescription("Time a provider call took, by provider, operation and outcome."))
	if err != nil {
		return nil, err
	}
	return &mail{MailPlatform: next, calls: calls{otel.Tracer(scope), duration, provider}}, nil
}

// calls measures calls of one provider.
type calls struct {
	tracer   trace.Tracer
	duration metric.Float64Histogram
	provider string
}

func measure[T any](ctx context.Context, c calls, operation string, call func(context.Context) (T, error)) (T, error) {
	began := time.Now()
	ctx, span := c.tracer.Start(ctx, c.provider+" "+operation, trace.WithAttributes(
		attribute.String("tenantry.provider", c.provider), attribute.String("tenantry.operation", operation)))
	defer span.End()
	answer, err := call(ctx)
	result := resultOf(err)
	span.SetAttributes(attribute.String("tenantry.outcome", result))
	var failure *outcome.Error
	if errors.As(err, &failure) {
		span.SetAttributes(attribute.String("tenantry.cause", failure.Cause))
	}
	if err != nil && result != outcome.Refused.String() && result != outcome.NotReady.String() {
		span.SetStatus(codes.Error, result)
	}
	c.duration.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(
		attribute.String("provider", c.provider), attribute.String("operation", operation), attribute.String("outcome", result)))
	return answer, err
}

func resultOf(err error) string {
	if err != nil && outcome.Of(err) == 0 {
		return "cancelled"
	}
	return outcome.Of(err).String()
}

func measured(ctx context.Context, c calls, operation string, call func(context.Context) error) error {
	_, err := measure(ctx, c, operation, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

type mail struct {
	ports.MailPlatform
	calls calls
}

func (m *mail) For(t tenant.GUID) ports.MailTenant {
	return &mailTenant{next: m.MailPlatform.For(t), calls: m.calls}
}

func (m *mail) Administrator(ctx context.Context, s ports.SignIn, code secret.Text) (tenant.Administrator, error) {
	return measure(ctx, m.calls, "administrator", func(ctx context.Context) (tenant.Administrator, error) {
		return m.MailPlatform.Administrator(ctx, s, code)
	})
}

type mailTenant struct {
	next  ports.MailTenant
	calls calls
}

func (m *mailTenant) Profile(ctx context.Context) (tenant.Profile, error) {
	return measure(ctx, m.calls, "profile", m.next.Profile)
}

func (m *mailTenant) Domains(ctx context.Context) ([]domain.Platform, error) {
	return measure(ctx, m.calls, "domains", m.next.Domains)
}

func (m *mailTenant) Domain(ctx context.Context, name string) (domain.Platform, error) {
	return measure(ctx, m.calls, "domain", func(ctx context.Context) (domain.Platform, error) { return m.next.Domain(ctx, name) })
}

func (m *mailTenant) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	return measure(ctx, m.calls, "add_domain", func(ctx context.Context) (domain.Platform, error) { return m.next.AddDomain(ctx, name) })
}

func (m *mailTenant) Records(ctx context.Context, name string) (domain.Records, error) {
	return measure(ctx, m.calls, "records", func(ctx context.Context) (domain.Records, error) { return m.next.Records(ctx, name) })
}

func (m *mailTenant) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	return measure(ctx, m.calls, "verify_domain", func(ctx context.Context) (domain.Platform, error) { return m.next.VerifyDomain(ctx, name) })
}

func (m *mailTenant) EnableMail(ctx context.Context, name string) error {
	return measured(ctx, m.calls, "enable_mail", func(ctx context.Context) error { return m.next.EnableMail(ctx, name) })
}

func (m *mailTenant) Bootstrap(ctx context.Context) (tenant.Progress, error) {
	return measure(ctx, m.calls, "bootstrap", m.next.Bootstrap)
}

func (m *mailTenant) SMTPAuth(ctx context.Context) (tenant.SMTPAuth, error) {
	return measure(ctx, m.calls, "smtp_auth", m.next.SMTPAuth)
}

func (m *mailTenant) EnableSMTPAuth(ctx context.Context) error {
	return measured(ctx, m.calls, "enable_smtp_auth", m.next.EnableSMTPAuth)
}

func (m *mailTenant) MailDomains(ctx context.Context) ([]string, error) {
	return measure(ctx, m.calls, "mail_domains", m.next.MailDomains)
}

func (m *mailTenant) Signing(ctx context.Context, name string) (dns.Signing, error) {
	return measure(ctx, m.calls, "signing", func(ctx context.Context) (dns.Signing, error) { return m.next.Signing(ctx, name) })
}

func (m *mailTenant) EnsureSigning(ctx context.Context, name string) (dns.Signing, error) {
	return measure(ctx, m.calls, "ensure_signing", func(ctx context.Context) (dns.Signing, error) { return m.next.EnsureSigning(ctx, name) })
}

func (m *mailTenant) EnableSigning(ctx context.Context, name string) error {
	return measured(ctx, m.calls, "enable_signing", func(ctx context.Context) error { return m.next.EnableSigning(ctx, name) })
}

func (m *mailTenant) Mailboxes(ctx context.Context) ([]mailbox.Platform, error) {
	return measure(ctx, m.calls, "mailboxes", m.next.Mailboxes)
}

func (m *mailTenant) UserMailboxes(ctx context.Context) (int, error) {
	return measure(ctx, m.calls, "user_mailboxes", m.next.UserMailboxes)
}

func (m *mailTenant) Mailbox(ctx context.Context, address string) (mailbox.Platform, error) {
	return measure(ctx, m.calls, "mailbox", func(ctx context.Context) (mailbox.Platform, error) { return m.next.Mailbox(ctx, address) })
}

func (m *mailTenant) CreateMailbox(ctx context.Context, spec mailbox.Spec) (mailbox.Platform, error) {
	return measure(ctx, m.calls, "create_mailbox", func(ctx context.Context) (mailbox.Platform, error) { return m.next.CreateMailbox(ctx, spec) })
}

func (m *mailTenant) OpenSignIn(ctx context.Context, objectID, address string, password secret.Text) error {
	return measured(ctx, m.calls, "open_sign_in", func(ctx context.Context) error {
		return m.next.OpenSignIn(ctx, objectID, address, password)
	})
}

func (m *mailTenant) OpenSubmission(ctx context.Context, address string) error {
	return measured(ctx, m.calls, "open_submission", func(ctx context.Context) error { return m.next.OpenSubmission(ctx, address) })
}

func (m *mailTenant) Rename(ctx context.Context, address, displayName string) error {
	return measured(ctx, m.calls, "rename", func(ctx context.Context) error { return m.next.Rename(ctx, address, displayName) })
}
