// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"slices"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// Mail tries once to enable a verified domain's e-mail service and to have the mail server accept
// the domain. It returns the stored domain. It fails with NotReady while the platform needs more
// time. Without a mail server it only enables the service.
func (p *Pass) Mail(ctx context.Context, owner access.AccountID, d domain.Domain, mailServer bool) (domain.Domain, error) {
	platform := p.Platform.For(d.TenantGUID)
	if err := mail(ctx, platform, &d, mailServer, Once); err != nil {
		return d, err
	}
	if err := readRecords(ctx, platform, &d); err != nil {
		return d, err
	}
	return p.storeState(ctx, owner, d)
}

// Signing tries once to create the DKIM configuration of a domain, and stores and returns its
// records. It fails with an error of the platform or the store.
func (p *Pass) Signing(ctx context.Context, owner access.AccountID, d domain.Domain) (domain.Domain, error) {
	if err := signing(ctx, p.Platform.For(d.TenantGUID), &d, Once); err != nil {
		return d, err
	}
	return p.storeState(ctx, owner, d)
}

func mail(ctx context.Context, platform ports.MailTenant, d *domain.Domain, mailServer bool, retry RetryPolicy) error {
	if d.MailReady {
		return nil
	}
	if err := enableMail(ctx, platform, d.Name, mailServer, retry); err != nil || !mailServer {
		return err
	}
	err := Run(ctx, retry, func(ctx context.Context) error { return checkAccepted(ctx, platform, d.Name) }, nil)
	if err != nil {
		return err
	}
	d.MailReady = true
	return nil
}

func signing(ctx context.Context, platform ports.MailTenant, d *domain.Domain, retry RetryPolicy) error {
	return Run(ctx, retry, func(ctx context.Context) error {
		signing, err := platform.EnsureSigning(ctx, d.Name)
		if err == nil {
			d.Signing, d.DKIM = signing, signing.Enabled
		}
		return err
	}, nil)
}

// enableMail reads the accepted domains before each try. A domain that the mail server accepts
// needs no further call, even if an earlier outcome is unknown.
func enableMail(ctx context.Context, platform ports.MailTenant, name string, mailServer bool, retry RetryPolicy) error {
	return Run(ctx, retry, func(ctx context.Context) error {
		if mailServer && checkAccepted(ctx, platform, name) == nil {
			return nil
		}
		err := platform.EnableMail(ctx, name)
		return err
	}, nil)
}

// readRecords has its own timeout, so that slow earlier steps do not prevent reading the records.
func readRecords(ctx context.Context, platform ports.MailTenant, d *domain.Domain) error {
	return Call(context.WithoutCancel(ctx), func(ctx context.Context) error {
		r, err := platform.Records(ctx, d.Name)
		if err == nil {
			d.Verification, d.Service = r.Verification, r.Service
		}
		return err
	})
}

func checkAccepted(ctx context.Context, platform ports.MailTenant, name string) error {
	names, err := platform.MailDomains(ctx)
	if err == nil && !slices.Contains(names, name) {
		return &outcome.Error{Kind: outcome.NotReady, Detail: "the mail server does not accept the domain yet"}
	}
	return err
}
