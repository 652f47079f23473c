// SPDX-License-Identifier: Apache-2.0

package settling

import (
	"context"
	"slices"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// patience is how a step is tried: Call tries once, Persist again and again.
type patience func(ctx context.Context, step func(context.Context) error) error

// Mail tries once to have a verified domain's e-mail service on and the domain
// accepted by the mail server, and stores that. It is an error, not_ready, when
// that takes the platform longer. Without a mail server nothing is known to be
// accepted.
func (p *Pass) Mail(ctx context.Context, owner access.AccountID, d domain.Domain, mailServer bool) (domain.Domain, error) {
	at := p.Platform.For(d.TenantGUID)
	if err := mail(ctx, at, &d, mailServer, Call); err != nil {
		return d, err
	}
	if err := readRecords(ctx, at, &d); err != nil {
		return d, err
	}
	return p.keep(ctx, owner, d)
}

// Signing tries once to have the DKIM configuration of a domain made, and stores
// its records.
func (p *Pass) Signing(ctx context.Context, owner access.AccountID, d domain.Domain) (domain.Domain, error) {
	if err := signing(ctx, p.Platform.For(d.TenantGUID), &d, Call); err != nil {
		return d, err
	}
	return p.keep(ctx, owner, d)
}

func mail(ctx context.Context, at ports.MailTenant, d *domain.Domain, mailServer bool, try patience) error {
	if d.MailReady {
		return nil
	}
	if err := enableMail(ctx, at, d.Name, mailServer, try); err != nil || !mailServer {
		return err
	}
	if err := try(ctx, func(ctx context.Context) error { return accepted(ctx, at, d.Name) }); err != nil {
		return err
	}
	d.MailReady = true
	return nil
}

func signing(ctx context.Context, at ports.MailTenant, d *domain.Domain, try patience) error {
	return try(ctx, func(ctx context.Context) error {
		signing, err := at.EnsureSigning(ctx, d.Name)
		failpoint.Hit("settling.after-ensure-signing")
		if err == nil {
			d.Signing, d.DKIM = signing, signing.Enabled
		}
		return err
	})
}

// enableMail looks before each try: a mail server that accepts the domain needs
// no more, also when an earlier answer got lost or its request died.
func enableMail(ctx context.Context, at ports.MailTenant, name string, mailServer bool, try patience) error {
	return try(ctx, func(ctx context.Context) error {
		if mailServer && accepted(ctx, at, name) == nil {
			return nil
		}
		err := at.EnableMail(ctx, name)
		failpoint.Hit("settling.after-enable-mail")
		return err
	})
}

// readRecords has time of its own: slow steps before it must not hide what is
// to be published.
func readRecords(ctx context.Context, at ports.MailTenant, d *domain.Domain) error {
	return Call(context.WithoutCancel(ctx), func(ctx context.Context) error {
		r, err := at.Records(ctx, d.Name)
		if err == nil {
			d.Verification, d.Service = r.Verification, r.Service
		}
		return err
	})
}

func accepted(ctx context.Context, at ports.MailTenant, name string) error {
	names, err := at.MailDomains(ctx)
	if err == nil && !slices.Contains(names, name) {
		return &outcome.Error{Kind: outcome.NotReady, Detail: "the mail server does not accept the domain yet"}
	}
	return err
}
