// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"context"
	"fmt"
	"sync"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// Request asks for mailboxes on one domain. Password is used and forgotten.
type Request struct {
	Domain    string
	Password  secret.Text
	Mailboxes []mailbox.Spec
}

// Result is what became of one mailbox of a request, in the request's order.
type Result struct {
	Status  string // created, exists or failed
	Spec    mailbox.Spec
	Mailbox mailbox.Mailbox
	// Failure is set when Status is failed.
	Failure *fault.Error
}

// Provision makes mailboxes. An item still unfinished when time is up makes
// the whole answer provider_timeout; the same request again goes on.
//
// Places are taken before anything is asked of the platform, so that a crash
// leaves an intent to go on from and no mailbox escapes the cap.
func (s *Service) Provision(ctx context.Context, acc access.Account, id tenant.GUID, r Request) ([]Result, error) {
	specs, err := names(r)
	if err != nil {
		return nil, err
	}
	t, err := s.Tenants.Tenant(ctx, acc.ID, id)
	if err != nil {
		return nil, err
	}
	d, err := s.Domains.Domain(ctx, acc.ID, id, domain.Lookup(r.Domain))
	if err != nil {
		return nil, err
	}
	if specs, err = rules(d, specs, r.Password); err != nil {
		return nil, err
	}
	if err := t.Reachable(); err != nil {
		return nil, err
	}
	if err := s.state(ctx, acc, t, d, specs); err != nil {
		return nil, err
	}
	rows, err := s.Mailboxes.ReserveMailboxes(ctx, acc.ID, d.ID, specs, mailbox.MaxPerDomain, s.Now())
	if err != nil {
		return nil, err
	}
	failpoint.Hit("mailboxes.after-reserve")
	ctx, cancel := s.detach(ctx)
	defer cancel()
	return s.carryOut(ctx, acc.ID, t, d, specs, rows, r.Password)
}

// names refuses what is no valid body at all, which comes before ownership.
func names(r Request) ([]mailbox.Spec, error) {
	if len(r.Mailboxes) == 0 {
		return nil, fault.InvalidRequest.At("the request names no mailbox",
			fault.Field{Location: "body.mailboxes", Message: "empty"})
	}
	return mailbox.CheckNames(r.Mailboxes)
}

// rules are what the request breaks by itself.
func rules(d domain.Domain, specs []mailbox.Spec, password secret.Text) ([]mailbox.Spec, error) {
	specs, err := mailbox.CheckAddresses(d.Name, specs)
	if err != nil {
		return nil, err
	}
	return specs, mailbox.CheckPassword(password)
}

// state is what the domain and the tenant must have come to, by the published
// order of statuses: 400, the ceiling's 402, 409.
func (s *Service) state(ctx context.Context, acc access.Account, t tenant.Tenant, d domain.Domain, specs []mailbox.Spec) error {
	if err := s.room(ctx, acc.ID, d, specs); err != nil {
		return err
	}
	held, err := s.Tenants.TenantCount(ctx, acc.ID)
	if err != nil {
		return err
	}
	if err := acc.MayGrow(held); err != nil {
		return err
	}
	if t.Bootstrap != tenant.BootstrapReady {
		return fault.ExchangeNotReady.With("the mail server of the tenant is not prepared yet")
	}
	if s.RequireSMTPAuth && t.SMTPAuth != tenant.SMTPAuthEnabled {
		return fault.SMTPAuthNotEnabled.With("authenticated SMTP is switched off for the tenant")
	}
	return nil
}

// room looks whether the domain takes the mailboxes. The cap is looked at here
// for the order of refusals alone; the reservation decides it.
func (s *Service) room(ctx context.Context, owner access.AccountID, d domain.Domain, specs []mailbox.Spec) error {
	if !d.Verified {
		return fault.DomainNotVerified.With("the domain is not verified yet")
	}
	stored, err := s.Mailboxes.Mailboxes(ctx, owner, d.TenantGUID)
	if err != nil {
		return err
	}
	var held []string
	for _, m := range stored {
		if m.DomainID == d.ID {
			held = append(held, m.Address)
		}
	}
	_, err = mailbox.Admit(held, specs, mailbox.MaxPerDomain)
	return err
}

// carryOut brings every mailbox as far as it goes, all at once.
func (s *Service) carryOut(ctx context.Context, owner access.AccountID, t tenant.Tenant, d domain.Domain,
	specs []mailbox.Spec, rows []mailbox.Mailbox, password secret.Text) ([]Result, error) {
	results, errs := make([]Result, len(rows)), make([]error, len(rows))
	if err := s.settle(ctx, owner, d, rows); err != nil {
		for i, row := range rows {
			errs[i] = s.giveBack(ctx, owner, row, err)
		}
		return s.answer(ctx, owner, t.GUID, results, errs)
	}
	var all sync.WaitGroup
	for i, row := range rows {
		c := &creation{
			Service: s, owner: owner, at: s.Platform.For(t.GUID), spec: specs[i], row: row, password: password,
			submission: s.RequireSMTPAuth || t.SMTPAuth == tenant.SMTPAuthEnabled,
		}
		all.Go(func() { results[i], errs[i] = c.run(ctx) })
	}
	all.Wait()
	if err := s.conclude(ctx, owner, results, errs); err != nil {
		return nil, err
	}
	return s.answer(ctx, owner, t.GUID, results, errs)
}

// settle pushes a domain on that the mail server does not take yet. Where all
// mailboxes are there already it is not needed, and what comes after the
// domain's acceptance, DKIM, keeps no mailbox from being made.
func (s *Service) settle(ctx context.Context, owner access.AccountID, d domain.Domain, rows []mailbox.Mailbox) error {
	if d.MailReady || !someUnfinished(rows) {
		return nil
	}
	if d, err := s.Settling.Domain(ctx, owner, d, true); err != nil && !d.MailReady {
		return fmt.Errorf("settle domain: %w", err)
	}
	return nil
}

func someUnfinished(rows []mailbox.Mailbox) bool {
	for _, row := range rows {
		if row.Stage != mailbox.Ready {
			return true
		}
	}
	return false
}
