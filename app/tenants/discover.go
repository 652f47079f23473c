// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"errors"
	"slices"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// parallelDomains is the maximum number of domains that a sync checks in parallel.
const parallelDomains = 6

// discover merges the platform's domains and mailboxes into the stored domains and mailboxes, then
// checks each domain. If the platform fails to list the domains, discover checks no domain and
// returns the platform's error as directoryErr. If the platform fails to list the mailboxes or to
// count the user mailboxes, discover sets MailboxError of the sync's result.
func (r *syncRun) discover(ctx context.Context) (directoryErr, err error) {
	r.discoveryBegan = r.Now()
	found := ports.DiscoveryResult{Began: r.discoveryBegan}
	found.Mailboxes = r.listMailboxes(ctx)
	r.countUsers(ctx)
	if err := r.readLicenses(ctx); err != nil {
		return nil, err
	}
	directoryErr = r.call(ctx, func(ctx context.Context) error {
		listed, err := r.platform.Domains(ctx)
		if err == nil {
			found.Domains = domain.WithCanonicalNames(listed)
		}
		return err
	})
	if isAccessDenied(directoryErr) {
		return directoryErr, nil
	}
	if err := r.readUnlisted(ctx, &found); err != nil {
		return directoryErr, err
	}
	found.At = r.Now()
	err = reconcile.Store(ctx, func(ctx context.Context) error {
		return r.Discoveries.SaveDiscovery(ctx, r.owner, r.tenant.GUID, found)
	})
	if err != nil || directoryErr != nil {
		return directoryErr, err
	}
	return nil, r.checkDomains(ctx)
}

// listMailboxes returns the shared mailboxes. It returns nil when they could not be listed. The
// sync then keeps the stored mailboxes.
func (r *syncRun) listMailboxes(ctx context.Context) []mailbox.Platform {
	if r.bootstrap.Step == tenant.StepNoExchange {
		r.result.MailboxError = "the tenant has no mail server"
		return nil
	}
	shared := []mailbox.Platform{}
	err := r.call(ctx, func(ctx context.Context) error {
		listed, err := r.platform.Mailboxes(ctx)
		shared = append(shared, listed...)
		return err
	})
	if err != nil {
		r.result.MailboxError = mailboxError(err)
		return nil
	}
	return shared
}

// countUsers counts the licensed user mailboxes. It reads the number from the directory, which
// answers even before the mail server is prepared.
func (r *syncRun) countUsers(ctx context.Context) {
	began := r.Now()
	err := r.call(ctx, func(ctx context.Context) error {
		users, err := r.platform.UserMailboxes(ctx)
		if err == nil {
			r.tenant.UserMailboxes, r.tenant.Observed.Users = users, began
		}
		return err
	})
	if err != nil && r.result.MailboxError == "" {
		r.result.MailboxError = "the user mailboxes could not be counted: " + fault.ErrorOf(err).Detail
	}
}

// readLicenses stores the number of email licenses. If the platform fails, readLicenses keeps the
// stored number and the sync continues. The API shows how old the number is. Only an error of the
// store is returned.
func (r *syncRun) readLicenses(ctx context.Context) error {
	var licenses tenant.Licenses
	began := r.Now()
	err := r.call(ctx, func(ctx context.Context) (err error) {
		licenses, err = r.platform.EmailLicenses(ctx)
		return err
	})
	if err != nil {
		return nil //lint:ignore nilerr a failed read keeps the earlier number
	}
	return reconcile.Store(ctx, func(ctx context.Context) error {
		return r.Capacity.SaveLicenses(ctx, r.owner, r.tenant.GUID, licenses, began)
	})
}

func mailboxError(err error) string {
	if isAccessDenied(err) {
		return "the mail server does not allow mailboxes to be listed yet"
	}
	return "the mailboxes could not be listed: " + fault.ErrorOf(err).Detail
}

// checkDomains reads the records and DNS of each domain, and continues the setup of verified
// domains. It starts with the domains whose last check is oldest. If the time ends before all
// domains are checked, the next sync starts with the unchecked domains. If the platform fails for a
// domain, checkDomains continues with the other domains. It returns only errors of the store.
func (r *syncRun) checkDomains(ctx context.Context) error {
	var stored []domain.Domain
	err := reconcile.Store(ctx, func(ctx context.Context) (err error) {
		stored, err = r.Domains.Domains(ctx, r.owner, r.tenant.GUID)
		return err
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(stored, func(a, b domain.Domain) int { return a.CheckedAt.Compare(b.CheckedAt) })
	var (
		checks panics.Group
		slots  = make(chan struct{}, parallelDomains)
		errs   = make([]error, len(stored))
	)
	for i, d := range stored {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		checks.Go(func() {
			defer func() { <-slots }()
			errs[i] = r.checkDomain(ctx, d)
		})
	}
	checks.Wait()
	return errors.Join(errs...)
}

func (r *syncRun) checkDomain(ctx context.Context, d domain.Domain) error {
	var err error
	if d.Verified {
		_, err = r.Reconciler.ReconcileDomain(ctx, r.owner, d, r.bootstrap.Status == tenant.BootstrapReady)
	} else {
		err = r.checkUnverified(ctx, d)
	}
	if outcome.KindOf(err) != 0 || errors.Is(err, fault.DomainNotFound) {
		return nil // the platform failed, or the domain was deleted in the meantime
	}
	return err
}

func (r *syncRun) checkUnverified(ctx context.Context, d domain.Domain) error {
	// If the platform does not answer, the stored records are used.
	_ = reconcile.Call(ctx, func(ctx context.Context) error {
		began := r.Now()
		records, err := r.platform.Records(ctx, d.Name)
		if err == nil {
			d = d.WithRecords(records, began)
		}
		return err
	})
	_, err := reconcile.SaveDomain(ctx, r.Domains, r.owner, r.Reconciler.WithCurrentDNS(ctx, r.owner, d))
	return err
}
