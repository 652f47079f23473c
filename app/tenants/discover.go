// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// atOnce is how many domains a sync looks at side by side.
const atOnce = 6

// discover makes the stored domains and mailboxes those of the platform, then
// looks closer at each domain. directory is the platform's answer when it did
// not list the domains; mailboxes that it did not list are told apart.
func (r *run) discover(ctx context.Context) (directory, err error) {
	found := ports.Found{Began: r.Now()}
	found.Mailboxes = r.listMailboxes(ctx)
	r.countUsers(ctx)
	if err := r.readLicenses(ctx); err != nil {
		return nil, err
	}
	stored, err := r.Domains.Domains(ctx, r.owner, r.t.GUID)
	if err != nil {
		return nil, err
	}
	directory = r.ask(ctx, func(ctx context.Context) error {
		listed, err := r.at.Domains(ctx)
		if err == nil {
			found.Domains = domain.Discovered(stored, listed)
		}
		return err
	})
	if denied(directory) {
		return directory, nil
	}
	failpoint.Hit("tenants.before-save-discovery")
	found.At = r.Now()
	err = settling.Store(ctx, func(ctx context.Context) error {
		return r.Discovered.SaveDiscovery(ctx, r.owner, r.t.GUID, found)
	})
	failpoint.Hit("tenants.after-save-discovery")
	if err != nil || directory != nil {
		return directory, err
	}
	return nil, r.lookAtDomains(ctx)
}

// listMailboxes returns nil when they could not be listed, which leaves the
// stored ones alone.
func (r *run) listMailboxes(ctx context.Context) []mailbox.Platform {
	if r.bootstrap.Step == tenant.StepNoExchange {
		r.out.MailboxError = "the tenant has no mail server"
		return nil
	}
	shared := []mailbox.Platform{}
	err := r.ask(ctx, func(ctx context.Context) error {
		listed, err := r.at.Mailboxes(ctx)
		shared = append(shared, listed...)
		return err
	})
	if err != nil {
		r.out.MailboxError = mailboxError(err)
		return nil
	}
	return shared
}

// countUsers asks the directory, which knows the licensed users of a tenant
// whose mail server is not prepared, too.
func (r *run) countUsers(ctx context.Context) {
	err := r.ask(ctx, func(ctx context.Context) error {
		users, err := r.at.UserMailboxes(ctx)
		if err == nil {
			r.t.UserMailboxes = users
		}
		return err
	})
	if err != nil && r.out.MailboxError == "" {
		r.out.MailboxError = "the user mailboxes could not be counted: " + fault.Of(err).Detail
	}
}

func mailboxError(err error) string {
	if denied(err) {
		return "the mail server does not let us list mailboxes yet"
	}
	return "the mailboxes could not be listed: " + fault.Of(err).Detail
}

// lookAtDomains reads each domain's records and DNS and pushes the verified
// ones on, those first whose last look is longest ago: a tenant may have more
// domains than there is time for, and the next sync goes on with the others.
// What the platform does not answer for one domain stays as it was; only the
// store's own trouble is an error.
func (r *run) lookAtDomains(ctx context.Context) error {
	stored, err := r.Domains.Domains(ctx, r.owner, r.t.GUID)
	if err != nil {
		return err
	}
	slices.SortStableFunc(stored, func(a, b domain.Domain) int { return a.CheckedAt.Compare(b.CheckedAt) })
	var (
		wait    sync.WaitGroup
		slots   = make(chan struct{}, atOnce)
		trouble = make([]error, len(stored))
	)
	for i, d := range stored {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wait.Go(func() {
			defer func() { <-slots }()
			trouble[i] = r.lookAt(ctx, d)
		})
	}
	wait.Wait()
	return errors.Join(trouble...)
}

func (r *run) lookAt(ctx context.Context, d domain.Domain) error {
	var err error
	if d.Verified {
		_, err = r.Settling.Domain(ctx, r.owner, d, r.bootstrap.Status == tenant.BootstrapReady)
	} else {
		err = r.lookAtUnverified(ctx, d)
	}
	if outcome.Of(err) != 0 || errors.Is(err, fault.DomainNotFound) {
		return nil // the platform's trouble, or deleted meanwhile
	}
	return err
}

func (r *run) lookAtUnverified(ctx context.Context, d domain.Domain) error {
	// When the platform does not answer, the stored records still hold.
	_ = settling.Call(ctx, func(ctx context.Context) error {
		records, err := r.at.Records(ctx, d.Name)
		if err == nil {
			d.Verification, d.Service = records.Verification, records.Service
		}
		return err
	})
	looked := r.Settling.Look(ctx, d)
	_, err := settling.Change(ctx, r.Domains, r.owner, looked, func(stored *domain.Domain) {
		if !stored.Verified { // a verify that came in between knows better
			stored.Verification, stored.Service = looked.Verification, looked.Service
		}
	})
	return err
}
