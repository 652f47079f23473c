// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

const (
	// syncLimit leaves some of the 110 s of a sync for storing what was found.
	syncLimit = 105 * time.Second
	// passLimit bounds the waiting for a mail server that is being prepared.
	passLimit = 20 * time.Second
)

// Part is how one part of a sync ended.
type Part = tenant.Part

// Synced is the result of a sync.
type Synced struct {
	RunID     string
	Tenant    tenant.Tenant
	Partial   bool
	Bootstrap Part
	SMTPAuth  Part
	Discovery Part // Status is "completed" or "failed"
	// MailboxError says why mailboxes could not be listed, safe to show.
	MailboxError string
}

// run is one sync under way: t gathers what is found out.
type run struct {
	*Service
	owner access.AccountID
	at    ports.MailTenant
	t     tenant.Tenant
	out   Synced
	// bootstrap is what the mail server answered, zero when it did not.
	bootstrap tenant.Progress
	// learned is true once the platform answered anything at all.
	learned bool
}

// Sync prepares the mail server and discovers the tenant anew. Refusals:
// tenant_not_found; access_denied when the consent or the assignment was
// withdrawn; those of the provider when it answered nothing at all.
//
// The directory comes first, as only it tells a withdrawn consent from a
// missing grant of the mail server.
func (s *Service) Sync(ctx context.Context, owner access.AccountID, id tenant.GUID) (Synced, error) {
	t, err := s.held(ctx, owner, id)
	if err != nil {
		return Synced{}, err
	}
	r := &run{Service: s, owner: owner, at: s.Platform.For(t.GUID), t: t}
	if r.out.RunID, err = s.newID(); err != nil {
		return Synced{}, err
	}
	ctx, cancel := settling.Detach(ctx, or(s.Limit, syncLimit))
	defer cancel()
	directory := r.readProfile(ctx)
	if denied(directory) {
		return Synced{}, r.revoked(ctx, directory)
	}
	r.prepare(ctx)
	r.openSubmission(ctx)
	listing, err := r.discover(ctx)
	if denied(listing) {
		return Synced{}, r.revoked(ctx, listing)
	}
	if err != nil {
		return Synced{}, fmt.Errorf("discover: %w", err)
	}
	return r.finish(ctx, errors.Join(directory, listing))
}

// held finds the tenant. An account whose assignment was withdrawn once knew
// the tenant, so telling it why is no oracle.
func (s *Service) held(ctx context.Context, owner access.AccountID, id tenant.GUID) (tenant.Tenant, error) {
	t, err := s.Tenants.Tenant(ctx, owner, id)
	if !errors.Is(err, fault.TenantNotFound) {
		return t, err
	}
	withdrawn, lookErr := s.Assignments.Withdrawn(ctx, owner, id)
	if lookErr != nil {
		return tenant.Tenant{}, lookErr
	}
	if withdrawn {
		return tenant.Tenant{}, fault.AccessDenied.With("the assignment of this managed tenant was withdrawn")
	}
	return tenant.Tenant{}, err
}

func (r *run) readProfile(ctx context.Context) error {
	return r.ask(ctx, func(ctx context.Context) error {
		p, err := r.at.Profile(ctx)
		if err == nil {
			r.t.Name, r.t.BuiltinDomain, r.t.DefaultDomain = p.Name, p.BuiltinDomain, p.DefaultDomain
			r.t.Consent = tenant.ConsentGranted
		}
		return err
	})
}

// ask makes one call and notes whether the platform answered.
func (r *run) ask(ctx context.Context, call func(context.Context) error) error {
	err := settling.Call(ctx, call)
	r.learned = r.learned || err == nil || denied(err)
	return err
}

// revoked stores that the consent is gone, for readiness to show.
func (r *run) revoked(ctx context.Context, err error) error {
	r.t.Consent = tenant.ConsentRevoked
	if saveErr := r.save(ctx); saveErr != nil {
		return saveErr
	}
	return fmt.Errorf("sync: %w", err)
}

func (r *run) save(ctx context.Context) error {
	return settling.Store(ctx, func(ctx context.Context) error { return r.Tenants.SaveTenant(ctx, r.owner, r.t) })
}

// finish stores the sync's outcome. A platform that answered nothing gives no
// partial success: its refusal tells the caller when to come back.
func (r *run) finish(ctx context.Context, directory error) (Synced, error) {
	r.t.Discovery, r.out.Discovery = tenant.DiscoveryCompleted, Part{Status: tenant.PartCompleted}
	if directory != nil {
		r.t.Discovery = tenant.DiscoveryFailed
		r.out.Discovery = Part{Status: tenant.PartFailed, Message: "the directory could not be read: " + fault.Of(directory).Detail}
	} else {
		r.t.LastSyncAt = r.Now()
	}
	failpoint.Hit("tenants.before-save-sync")
	if err := r.save(ctx); err != nil {
		return Synced{}, err
	}
	failpoint.Hit("tenants.after-save-sync")
	if !r.learned && directory != nil {
		return Synced{}, fmt.Errorf("sync: %w", directory)
	}
	r.out.Partial = tenant.Partial(r.out.Bootstrap, r.out.SMTPAuth, r.out.Discovery, r.out.MailboxError)
	err := settling.Store(ctx, func(ctx context.Context) (err error) {
		r.out.Tenant, err = r.Tenants.Tenant(ctx, r.owner, r.t.GUID)
		return err
	})
	return r.out, err
}
