// SPDX-License-Identifier: Apache-2.0

package breaker

import (
	"context"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// OpSent is the one operation of a mail platform that has a budget of its own.
const OpSent = "sent"

// guarded is one tenant behind its circuit.
type guarded struct {
	next     ports.MailTenant
	circuits *registry
	domain   string
}

// read runs a call that changes nothing.
func read[T any](ctx context.Context, g guarded, call func() (T, error)) (T, error) {
	return run(ctx, g.circuits.circuit(g.domain), traits{}, call)
}

func (g guarded) Profile(ctx context.Context) (tenant.Profile, error) {
	return read(ctx, g, func() (tenant.Profile, error) { return g.next.Profile(ctx) })
}

func (g guarded) Domains(ctx context.Context) ([]domain.Platform, error) {
	return read(ctx, g, func() ([]domain.Platform, error) { return g.next.Domains(ctx) })
}

func (g guarded) Domain(ctx context.Context, name string) (domain.Platform, error) {
	return read(ctx, g, func() (domain.Platform, error) { return g.next.Domain(ctx, name) })
}

func (g guarded) Records(ctx context.Context, name string) (domain.Records, error) {
	return read(ctx, g, func() (domain.Records, error) { return g.next.Records(ctx, name) })
}

func (g guarded) SMTPAuth(ctx context.Context) (tenant.SMTPAuth, error) {
	return read(ctx, g, func() (tenant.SMTPAuth, error) { return g.next.SMTPAuth(ctx) })
}

func (g guarded) MailDomains(ctx context.Context) ([]string, error) {
	return read(ctx, g, func() ([]string, error) { return g.next.MailDomains(ctx) })
}

func (g guarded) Signing(ctx context.Context, name string) (dns.Signing, error) {
	return read(ctx, g, func() (dns.Signing, error) { return g.next.Signing(ctx, name) })
}

func (g guarded) Mailboxes(ctx context.Context) ([]mailbox.Platform, error) {
	return read(ctx, g, func() ([]mailbox.Platform, error) { return g.next.Mailboxes(ctx) })
}

func (g guarded) UserMailboxes(ctx context.Context) (int, error) {
	return read(ctx, g, func() (int, error) { return g.next.UserMailboxes(ctx) })
}

func (g guarded) EmailLicenses(ctx context.Context) (tenant.Licenses, error) {
	return read(ctx, g, func() (tenant.Licenses, error) { return g.next.EmailLicenses(ctx) })
}

func (g guarded) Rules(ctx context.Context) ([]sendlimit.Rule, error) {
	return read(ctx, g, func() ([]sendlimit.Rule, error) { return g.next.Rules(ctx) })
}

func (g guarded) Mailbox(ctx context.Context, address string) (mailbox.Platform, error) {
	return read(ctx, g, func() (mailbox.Platform, error) { return g.next.Mailbox(ctx, address) })
}

func (g guarded) Sent(ctx context.Context, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
	return run(ctx, g.circuits.circuit(g.domain), traits{operation: OpSent}, func() (sendlimit.Trace, error) {
		return g.next.Sent(ctx, q)
	})
}
