// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"slices"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// SetUpMail enables a verified domain's e-mail service, with one try of each call. It returns the
// stored domain. It fails with outcome.NotReady until the mail server accepts the domain and the
// platform specifies the domain's service records. It stores nothing while the service records are
// missing, because a lagging replica may hide them. If mailServerReady is false, SetUpMail makes no
// checks: it enables the service, and reads and stores the records.
func (r *Reconciler) SetUpMail(ctx context.Context, owner access.AccountID, d domain.Domain, mailServerReady bool) (domain.Domain, error) {
	platform := r.Platform.For(d.TenantGUID)
	if err := r.setUpMail(ctx, platform, &d, mailServerReady, Once); err != nil {
		return d, err
	}
	if err := r.readRecords(ctx, platform, &d); err != nil {
		return d, err
	}
	if mailServerReady && d.Offer(dns.PlatformHosts{}).Incomplete(d.Name) {
		// The service may be off although the mail server accepts the domain.
		if err := Call(ctx, func(ctx context.Context) error { return platform.EnableMail(ctx, d.Name) }); err != nil {
			return d, err
		}
		return d, &outcome.Error{Kind: outcome.NotReady, Detail: "the mail platform does not show the domain's records yet"}
	}
	return SaveDomain(ctx, r.Domains, owner, d)
}

// CreateSigning tries once to create the DKIM configuration of a domain. It stores the DKIM records
// with the domain, and returns the stored domain. It fails with an error of the platform or the
// store.
func (r *Reconciler) CreateSigning(ctx context.Context, owner access.AccountID, d domain.Domain) (domain.Domain, error) {
	if err := r.createSigning(ctx, r.Platform.For(d.TenantGUID), &d, Once); err != nil {
		return d, err
	}
	return SaveDomain(ctx, r.Domains, owner, d)
}

func (r *Reconciler) setUpMail(ctx context.Context, platform ports.MailTenant, d *domain.Domain, mailServerReady bool, retry RetryPolicy) error {
	if d.MailReady {
		return nil
	}
	if err := r.enableMail(ctx, platform, d, mailServerReady, retry); err != nil || !mailServerReady || d.MailReady {
		return err
	}
	return Run(ctx, retry, func(ctx context.Context) error {
		began := r.Now()
		err := checkAccepted(ctx, platform, d.Name)
		if err == nil {
			d.MailReady, d.Observed.Mail = true, began
		}
		return err
	}, nil)
}

func (r *Reconciler) createSigning(ctx context.Context, platform ports.MailTenant, d *domain.Domain, retry RetryPolicy) error {
	return Run(ctx, retry, func(ctx context.Context) error {
		began := r.Now()
		signing, err := platform.EnsureSigning(ctx, d.Name)
		if err == nil {
			*d = d.WithSigning(signing, began)
		}
		return err
	}, nil)
}

// enableMail reads the accepted domains before each try, if the mail server is ready. A domain that
// the mail server accepts needs no further call, even if the outcome of an earlier call is unknown.
func (r *Reconciler) enableMail(ctx context.Context, platform ports.MailTenant, d *domain.Domain, mailServerReady bool, retry RetryPolicy) error {
	return Run(ctx, retry, func(ctx context.Context) error {
		began := r.Now()
		if mailServerReady && checkAccepted(ctx, platform, d.Name) == nil {
			d.MailReady, d.Observed.Mail = true, began
			return nil
		}
		return platform.EnableMail(ctx, d.Name)
	}, nil)
}

// readRecords reads the DNS records that the platform requires. Unlike the steps before it, it
// continues after a cancellation of ctx, so that the result of the steps is stored. It ends at the
// deadline of ctx.
func (r *Reconciler) readRecords(ctx context.Context, platform ports.MailTenant, d *domain.Domain) error {
	ctx, cancel := Detach(ctx, callTimeout)
	defer cancel()
	return Call(ctx, func(ctx context.Context) error {
		began := r.Now()
		records, err := platform.Records(ctx, d.Name)
		if err == nil {
			*d = d.WithRecords(records, began)
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
