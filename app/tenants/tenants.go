// SPDX-License-Identifier: Apache-2.0

// Package tenants connects, lists, synchronizes and deletes tenants.
package tenants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// Service holds the use cases of tenants.
type Service struct {
	Tenants     ports.Tenants
	Assignments ports.Assignments
	Discovered  ports.Discovered
	Domains     ports.Domains
	Flows       ports.ConnectFlows
	Policies    ports.SendPolicies
	Runs        ports.SendRuns
	Room        ports.SendRoom
	Accounts    ports.Keys
	// Platform is nil in an operator's command that found none. Only tenants
	// leave then.
	Platform ports.MailPlatform
	Settling *settling.Pass
	Sealer   ports.Sealer
	Random   io.Reader
	Now      func() time.Time
	// PublicURL is where browsers reach the service, without a final slash.
	PublicURL string
	// RequireSMTPAuth is false where operators let tenants provision for
	// which the platform no longer offers SMTP AUTH.
	RequireSMTPAuth bool
	// Limit bounds a sync; 110 s unless set.
	Limit time.Duration
	// Patience is how long a sign-in waits for a consent that the platform
	// has not spread yet, Pause what lies between two looks; 15 s and 1 s
	// unless set.
	Patience, Pause time.Duration
	// RunTurn is how long a deletion lets a run of enforcement go on, RunEnds
	// how long one from which the tenant was taken may still be at the platform;
	// 5 s and 20 s unless set.
	RunTurn, RunEnds time.Duration
}

// List returns the owner's tenants, most recently connected first.
func (s *Service) List(ctx context.Context, owner access.AccountID) ([]tenant.Tenant, error) {
	return s.Tenants.Tenants(ctx, owner)
}

// Get returns one tenant with its readiness.
func (s *Service) Get(ctx context.Context, acc access.Account, id tenant.GUID) (tenant.Tenant, tenant.Readiness, error) {
	t, err := s.Tenants.Tenant(ctx, acc.ID, id)
	if err != nil {
		return tenant.Tenant{}, tenant.Readiness{}, err
	}
	ready := t.Readiness(s.RequireSMTPAuth)
	sends, err := s.Room.Sending(ctx, acc.ID, t.GUID, s.Now())
	ready.Headroom = sends.Headroom()
	return t, ready, err
}

// Assign makes the account the holder of a managed tenant, on the operator's
// behalf. Refusals: invalid_request, account_closed, tenant_limit_reached,
// tenant_held_elsewhere; access_denied when the tenant's consent is missing.
func (s *Service) Assign(ctx context.Context, acc access.Account, id tenant.GUID) (tenant.Tenant, error) {
	if err := acc.Open(); err != nil {
		return tenant.Tenant{}, err
	}
	guid, ok := tenant.ParseGUID(string(id))
	if !ok || guid == tenant.NoGUID {
		return tenant.Tenant{}, fault.InvalidRequest.With("a tenant is named by its GUID")
	}
	profile, err := s.Platform.For(guid).Profile(ctx)
	if err != nil {
		return tenant.Tenant{}, fmt.Errorf("assign tenant: %w", err)
	}
	t, err := s.fresh(guid, profile)
	if err != nil {
		return tenant.Tenant{}, err
	}
	t.Managed = true
	return s.attach(ctx, acc, t)
}

// attach makes the account the tenant's holder. A consent given again gives
// back what the administrator had taken, so a bootstrap that had failed for
// want of a grant has a new chance; the next sync finds out.
func (s *Service) attach(ctx context.Context, acc access.Account, t tenant.Tenant) (tenant.Tenant, error) {
	failpoint.Hit("tenants.before-attach")
	held, err := s.Tenants.Attach(ctx, acc.ID, t, acc.Plan.TenantSlots)
	if err != nil {
		return tenant.Tenant{}, err
	}
	failpoint.Hit("tenants.after-attach")
	if held.Bootstrap != tenant.BootstrapFailed {
		return held, nil
	}
	held.Bootstrap, held.BootstrapStep = tenant.BootstrapPending, tenant.StepWait
	return held, s.Tenants.SaveTenant(ctx, acc.ID, held)
}

// fresh is a tenant as it is connected, before its first sync.
func (s *Service) fresh(id tenant.GUID, p tenant.Profile) (tenant.Tenant, error) {
	rowID, err := s.newID()
	return tenant.Tenant{
		ID: rowID, GUID: id, Name: p.Name, BuiltinDomain: p.BuiltinDomain, DefaultDomain: p.DefaultDomain,
		Consent: tenant.ConsentGranted, ConsentedAt: s.Now(), Bootstrap: tenant.BootstrapPending,
		SMTPAuth: tenant.SMTPAuthUnknown, Discovery: tenant.DiscoveryPending,
	}, err
}

func (s *Service) newID() (string, error) {
	var random [ident.Entropy]byte
	if _, err := io.ReadFull(s.Random, random[:]); err != nil {
		return "", fmt.Errorf("read randomness: %w", err)
	}
	return ident.New(s.Now(), random), nil
}

// denied reports whether the platform answered that it no longer lets us in.
func denied(err error) bool { return errors.Is(err, fault.AccessDenied) }
