// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Request is a request for mailboxes on one domain. Password is set for each created mailbox and
// never stored.
type Request struct {
	Domain    string
	Password  secret.Text
	Mailboxes []mailbox.Spec
}

// Result is the result for one mailbox of a request.
type Result struct {
	Status  string // created, exists or failed
	Spec    mailbox.Spec
	Mailbox mailbox.Mailbox
	// Failure is set when Status is failed.
	Failure *fault.Error
}

// Provision creates mailboxes and returns one result for each mailbox. If a mailbox is unfinished
// when the time limit ends, the whole request fails, usually with provider_timeout. A repetition of
// the request continues the work.
//
// It fails with invalid_request, tenant_not_found, domain_not_found, the codes of
// mailbox.CheckAddresses and mailbox.CheckPassword, or access_denied. It also fails with
// domain_not_verified, mailbox_limit_reached, tenant_limit_reached, exchange_bootstrap_not_ready,
// smtp_auth_not_enabled, or an error of the platform.
//
// Provision reserves a row for each mailbox before it calls the platform. After a crash, a
// repetition of the request continues from these rows. A reserved row counts towards the domain's
// limit.
func (s *Service) Provision(ctx context.Context, acc access.Account, id tenant.GUID, r Request, encoder ports.AnswerEncoder[[]Result]) ([]Result, error) {
	specs, err := mailbox.CheckNames(r.Mailboxes) // before the check that the account has the tenant
	if err != nil {
		return nil, err
	}
	t, err := s.Tenants.Tenant(ctx, acc.ID, id)
	if err != nil {
		return nil, err
	}
	d, err := s.Domains.Domain(ctx, acc.ID, id, domain.ParseNameOrNone(r.Domain))
	if err != nil {
		return nil, err
	}
	if specs, err = checkRequest(d, specs, r.Password); err != nil {
		return nil, err
	}
	if err := t.CheckConsent(); err != nil {
		return nil, err
	}
	if err := s.checkState(ctx, acc, t, d, specs); err != nil {
		return nil, err
	}
	rows, err := s.Mailboxes.ReserveMailboxes(ctx, acc.ID, d.ID, specs, mailbox.MaxPerDomain, s.Now())
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.detach(ctx)
	defer cancel()
	results, errs := s.provisionAll(ctx, acc.ID, t, d, specs, rows, r.Password)
	if err := s.storeResults(ctx, acc.ID, results, errs, encoder); err != nil {
		return nil, err
	}
	return s.combineResults(ctx, acc.ID, t.GUID, results, errs)
}

func checkRequest(d domain.Domain, specs []mailbox.Spec, password secret.Text) ([]mailbox.Spec, error) {
	specs, err := mailbox.CheckAddresses(d.Name, specs)
	if err != nil {
		return nil, err
	}
	return specs, mailbox.CheckPassword(password)
}

// checkState checks the state of domain, account and tenant. The order of the checks follows the
// published order of HTTP statuses: 400, 402 (tenant_limit_reached), 409.
func (s *Service) checkState(ctx context.Context, acc access.Account, t tenant.Tenant, d domain.Domain, specs []mailbox.Spec) error {
	if err := s.checkCapacity(ctx, acc.ID, d, specs); err != nil {
		return err
	}
	tenantCount, err := s.Tenants.TenantCount(ctx, acc.ID)
	if err != nil {
		return err
	}
	if err := acc.CheckMayGrow(tenantCount); err != nil {
		return err
	}
	if err := t.CheckMailServer(); err != nil {
		return err
	}
	if s.RequireSMTPAuth && t.SMTPAuth != tenant.SMTPAuthEnabled {
		return fault.SMTPAuthNotEnabled.With("authenticated SMTP is switched off for the tenant")
	}
	return nil
}

// checkCapacity checks that the domain is verified and has room for the mailboxes. The reservation
// enforces the limit. checkCapacity checks it earlier only to return this error before others.
func (s *Service) checkCapacity(ctx context.Context, owner access.AccountID, d domain.Domain, specs []mailbox.Spec) error {
	if !d.Verified {
		return fault.DomainNotVerified.With("the domain is not verified yet")
	}
	stored, err := s.Mailboxes.Mailboxes(ctx, owner, d.TenantGUID)
	if err != nil {
		return err
	}
	var addresses []string
	for _, m := range stored {
		if m.DomainID == d.ID {
			addresses = append(addresses, m.Address)
		}
	}
	_, err = mailbox.SelectNew(addresses, specs, mailbox.MaxPerDomain)
	return err
}

// provisionAll creates all mailboxes concurrently. It returns a result or an error for each row, in
// the order of rows. An error of markMailNotReady is joined to the error of the first row.
func (s *Service) provisionAll(ctx context.Context, owner access.AccountID, t tenant.Tenant, d domain.Domain,
	specs []mailbox.Spec, rows []mailbox.Mailbox, password secret.Text) ([]Result, []error) {
	results, errs := make([]Result, len(rows)), make([]error, len(rows))
	if err := s.prepareDomain(ctx, owner, d, rows); err != nil {
		for i, row := range rows {
			errs[i] = s.releaseIfNew(ctx, owner, row, err)
		}
		return results, errs
	}
	var workers panics.Group
	creations := make([]*creation, len(rows))
	for i, row := range rows {
		c := &creation{
			Service: s, owner: owner, platform: s.Platform.For(t.GUID), retry: reconcile.RetryPolicy{Pause: s.Pause},
			spec: specs[i], row: row, password: password,
			enableSubmission: s.RequireSMTPAuth || t.SMTPAuth == tenant.SMTPAuthEnabled,
		}
		creations[i] = c
		workers.Go(func() { results[i], errs[i] = c.run(ctx) })
	}
	workers.Wait()
	if slices.ContainsFunc(creations, func(c *creation) bool { return c.domainNotAccepted }) {
		if err := s.markMailNotReady(ctx, owner, d); err != nil {
			errs[0] = errors.Join(errs[0], err)
		}
	}
	return results, errs
}

// markMailNotReady stores that the mail server does not accept a domain, after the server refused a
// mailbox for that reason. The next request then prepares the domain again. d.MailReady can be
// wrongly true: a lagging replica of the platform may have shown an earlier domain with this name.
func (s *Service) markMailNotReady(ctx context.Context, owner access.AccountID, d domain.Domain) error {
	d.MailReady, d.Observed.Mail = false, s.Now()
	_, err := reconcile.SaveDomain(ctx, s.Domains, owner, d)
	return err
}

// prepareDomain makes the mail server accept mail for the domain, and then sets up DKIM. It does
// nothing if the domain is stored as accepted by the mail server, or if all mailboxes are ready. It
// ignores errors that occur after the mail server has accepted the domain.
func (s *Service) prepareDomain(ctx context.Context, owner access.AccountID, d domain.Domain, rows []mailbox.Mailbox) error {
	isUnfinished := func(row mailbox.Mailbox) bool { return row.Stage != mailbox.Ready }
	if d.MailReady || !slices.ContainsFunc(rows, isUnfinished) {
		return nil
	}
	if d, err := s.Reconciler.ReconcileDomain(ctx, owner, d, reconcile.MailServerReady); err != nil && !d.MailReady {
		return fmt.Errorf("reconcile domain: %w", err)
	}
	return nil
}
