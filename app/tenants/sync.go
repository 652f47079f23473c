// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const (
	// syncTimeout is the default of Service.Timeout. The API's timeout of a sync is 5 s longer, so
	// that the sync can store its results.
	syncTimeout = 105 * time.Second
	// bootstrapTimeout is how long a sync waits for a mail server that is being prepared, unless
	// Reconciler.Timeout is set.
	bootstrapTimeout = 20 * time.Second
)

// Part is the result of one part of a sync.
type Part = tenant.Part

// SyncResult is the result of a sync.
type SyncResult struct {
	RunID     string
	Tenant    tenant.Tenant
	Partial   bool
	Bootstrap Part
	SMTPAuth  Part
	Discovery Part // Status is "completed" or "failed"
	// MailboxError tells the user why the mailboxes could not be listed or the user mailboxes could
	// not be counted. It is empty if both succeeded.
	MailboxError string
}

// syncRun is one sync in progress. tenant has the changes that the sync has found so far.
type syncRun struct {
	*Service
	owner    access.AccountID
	platform ports.MailTenant
	tenant   tenant.Tenant
	result   SyncResult
	// bootstrap is the state of the mail server. It is zero when it could not be read.
	bootstrap tenant.Progress
	// answered is true once a platform call has succeeded or was denied.
	answered bool
	// deniedAt is the start time of the last call that the platform denied.
	deniedAt time.Time
	// discoveryBegan is a time before the reads of the lists of domains and mailboxes.
	discoveryBegan time.Time
}

// Sync prepares the mail server, reads the tenant's domains and mailboxes, and returns the result.
// It fails with tenant_not_found. It fails with access_denied when the consent or the assignment
// was withdrawn. It returns the platform's error when the platform answered no call.
//
// Sync reads the directory first, because a denial of the directory proves that the consent was
// withdrawn. A denial of the mail server does not: the mail server denies access until tenantry has
// a grant there.
func (s *Service) Sync(ctx context.Context, owner access.AccountID, id tenant.GUID) (SyncResult, error) {
	t, err := s.ownedTenant(ctx, owner, id)
	if err != nil {
		return SyncResult{}, err
	}
	r := &syncRun{Service: s, owner: owner, platform: s.Platform.For(t.GUID), tenant: t}
	if r.result.RunID, err = ident.NewFrom(s.Random, s.Now()); err != nil {
		return SyncResult{}, err
	}
	ctx, cancel := reconcile.Detach(ctx, cmp.Or(s.Timeout, syncTimeout))
	defer cancel()
	profileErr := r.readProfile(ctx)
	if isAccessDenied(profileErr) {
		return SyncResult{}, r.saveRevoked(ctx, profileErr)
	}
	r.prepareMailServer(ctx)
	r.syncSMTPAuth(ctx)
	listErr, err := r.discover(ctx)
	if isAccessDenied(listErr) {
		return SyncResult{}, r.saveRevoked(ctx, listErr)
	}
	if err != nil {
		return SyncResult{}, fmt.Errorf("discover: %w", err)
	}
	return r.finish(ctx, errors.Join(profileErr, listErr))
}

// ownedTenant returns the tenant. For a managed tenant whose assignment was withdrawn, ownedTenant
// fails with access_denied. This error reveals nothing new to the account, because the account had
// the tenant before. For any other tenant that the account does not have, ownedTenant fails with
// tenant_not_found.
func (s *Service) ownedTenant(ctx context.Context, owner access.AccountID, id tenant.GUID) (tenant.Tenant, error) {
	t, err := s.Tenants.Tenant(ctx, owner, id)
	if !errors.Is(err, fault.TenantNotFound) {
		return t, err
	}
	withdrawn, readErr := s.Assignments.Withdrawn(ctx, owner, id)
	if readErr != nil {
		return tenant.Tenant{}, readErr
	}
	if withdrawn {
		return tenant.Tenant{}, fault.AccessDenied.With("the assignment of this managed tenant was withdrawn")
	}
	return tenant.Tenant{}, err
}

func (r *syncRun) readProfile(ctx context.Context) error {
	began := r.Now()
	return r.call(ctx, func(ctx context.Context) error {
		p, err := r.platform.Profile(ctx)
		if err == nil {
			r.tenant.Name, r.tenant.BuiltinDomain, r.tenant.DefaultDomain = p.Name, p.BuiltinDomain, p.DefaultDomain
			r.tenant.Consent = tenant.ConsentGranted
			r.tenant.Observed.Profile, r.tenant.Observed.Consent = began, began
		}
		return err
	})
}

// call makes one platform call and updates answered and deniedAt.
func (r *syncRun) call(ctx context.Context, call func(context.Context) error) error {
	began := r.Now()
	err := reconcile.Call(ctx, call)
	if isAccessDenied(err) {
		r.deniedAt = began
	}
	r.answered = r.answered || err == nil || isAccessDenied(err)
	return err
}

// saveRevoked stores that the consent was revoked, so that the tenant's readiness shows the
// revocation. It always returns an error: err, or the error of the store.
func (r *syncRun) saveRevoked(ctx context.Context, err error) error {
	r.tenant.Consent, r.tenant.Observed.Consent = tenant.ConsentRevoked, r.deniedAt
	if saveErr := r.save(ctx); saveErr != nil {
		return saveErr
	}
	return fmt.Errorf("sync: %w", err)
}

func (r *syncRun) save(ctx context.Context) error {
	return reconcile.Store(ctx, func(ctx context.Context) error { return r.Tenants.SaveTenant(ctx, r.owner, r.tenant) })
}

// finish stores the result of the sync and returns it. When the platform answered no call, the sync
// fails with the platform's error, which may tell the caller when to retry.
func (r *syncRun) finish(ctx context.Context, directoryErr error) (SyncResult, error) {
	r.tenant.Discovery, r.tenant.Observed.Discovery = tenant.DiscoveryCompleted, r.discoveryBegan
	r.result.Discovery = Part{Status: tenant.PartCompleted}
	if directoryErr != nil {
		r.tenant.Discovery = tenant.DiscoveryFailed
		r.result.Discovery = Part{Status: tenant.PartFailed, Message: "the directory could not be read: " + fault.ErrorOf(directoryErr).Detail}
	} else {
		r.tenant.LastSyncAt = r.Now()
	}
	if err := r.save(ctx); err != nil {
		return SyncResult{}, err
	}
	if !r.answered && directoryErr != nil {
		return SyncResult{}, fmt.Errorf("sync: %w", directoryErr)
	}
	r.result.Partial = tenant.IsPartial(r.result.Bootstrap, r.result.SMTPAuth, r.result.Discovery, r.result.MailboxError)
	err := reconcile.Store(ctx, func(ctx context.Context) (err error) {
		r.result.Tenant, err = r.Tenants.Tenant(ctx, r.owner, r.tenant.GUID)
		return err
	})
	return r.result, err
}
