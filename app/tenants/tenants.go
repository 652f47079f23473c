// SPDX-License-Identifier: Apache-2.0

// Package tenants connects, lists, synchronizes and deletes tenants. A tenant is one customer
// organization at the mail platform.
//
// Service has the use cases. An administrator connects a tenant in four steps: ConnectURL creates
// the link, Callback receives the consent, FinishSignIn proves the administrator, and Confirm
// attaches the tenant. A managed tenant is not connected: the operator assigns it to an account
// with Assign. Sync then prepares the mail server and reads domains and mailboxes. Delete and
// Withdraw first remove the transport rules that tenantry manages in the tenant.
//
// Start reading at ConnectURL for the connect flow, at Sync, or at Delete.
//
//   - tenants.go: Service, List, Get, Assign
//   - connect.go: the connect link and the consent callback
//   - sign_in.go: the sign-in, the confirmation page and Confirm
//   - connect_sessions.go: the status and the renewal of a connect link, and the account that its
//     pages show
//   - connect_tokens.go: state, cookie and CSRF token of a connect flow
//   - sync.go: Sync and its result
//   - bootstrap.go: mail server preparation and SMTP AUTH during a sync
//   - discover.go: domains, mailboxes and licenses during a sync
//   - unlisted.go: reads, by name, the stored domains and mailboxes that the platform did not list
//   - delete.go: Delete and Withdraw
//   - remove_rules.go: removal of the managed transport rules, while enforcement is paused
package tenants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Service has the use cases of tenants.
type Service struct {
	Tenants     ports.Tenants
	Assignments ports.Assignments
	Discoveries ports.Discoveries
	Domains     ports.Domains
	Flows       ports.ConnectFlows
	Sessions    ports.ConnectSessions
	Settings    ports.AccountSettings
	Policies    ports.SendPolicies
	Claims      ports.TenantClaims
	Capacity    ports.SendCapacity
	Accounts    ports.Keys
	// Platform is nil in an operator's command that runs without a mail platform. Of the methods
	// that call the platform, only Withdraw, RemoveAllRules and Delete work then. They leave the
	// managed rules in the tenant.
	Platform   ports.MailPlatform
	Reconciler *reconcile.Reconciler
	Sealer     ports.Sealer
	Random     io.Reader
	Now        func() time.Time
	// PublicURL is the base URL of the service, without a final slash.
	PublicURL string
	// PlatformName is the name of the mail platform's plugin. It is part of the paths of the
	// connect pages.
	PlatformName string
	// RequireSMTPAuth makes SMTP AUTH a condition of readiness. Operators set it to false where the
	// platform no longer offers SMTP AUTH.
	RequireSMTPAuth bool
	// Timeout is the timeout of a sync. It defaults to 105 s.
	Timeout time.Duration
	// ConsentTimeout is how long FinishSignIn waits for a new consent to take effect at the
	// platform. Pause is the time between two tries of a platform call or of a claim of a tenant.
	// They default to 15 s and 1 s.
	ConsentTimeout, Pause time.Duration
	// PassWait and CallWait are the fields of reconcile.EnforcementPause. They apply to the removal
	// of managed rules.
	PassWait, CallWait time.Duration
}

// List returns the owner's tenants, most recently connected first.
func (s *Service) List(ctx context.Context, owner access.AccountID) ([]tenant.Tenant, error) {
	return s.Tenants.Tenants(ctx, owner)
}

// Get returns one tenant with its readiness. It fails with tenant_not_found.
func (s *Service) Get(ctx context.Context, acc access.Account, id tenant.GUID) (tenant.Tenant, tenant.Readiness, error) {
	t, err := s.Tenants.Tenant(ctx, acc.ID, id)
	if err != nil {
		return tenant.Tenant{}, tenant.Readiness{}, err
	}
	ready := t.Readiness(s.RequireSMTPAuth)
	capacity, err := s.Capacity.Sending(ctx, acc.ID, t.GUID, s.Now())
	ready.Headroom = capacity.Headroom()
	return t, ready, err
}

// Assign attaches a managed tenant to the account, on behalf of the operator, and returns it. It
// fails with invalid_request, account_closed, tenant_limit_reached or tenant_held_elsewhere. It
// also fails with the errors of the platform, such as access_denied when the tenant's consent is
// missing.
func (s *Service) Assign(ctx context.Context, acc access.Account, id tenant.GUID) (tenant.Tenant, error) {
	if err := acc.CheckOpen(); err != nil {
		return tenant.Tenant{}, err
	}
	guid, err := tenant.CheckGUID(string(id))
	if err != nil {
		return tenant.Tenant{}, err
	}
	profile, err := s.Platform.For(guid).Profile(ctx)
	if err != nil {
		return tenant.Tenant{}, fmt.Errorf("assign tenant: %w", err)
	}
	t, err := s.newTenant(guid, profile)
	if err != nil {
		return tenant.Tenant{}, err
	}
	t.Managed = true
	return s.Tenants.Attach(ctx, acc.ID, t)
}

// newTenant returns a tenant in its state before the first sync. It fails when it cannot read
// random bytes for the id.
func (s *Service) newTenant(id tenant.GUID, p tenant.Profile) (tenant.Tenant, error) {
	rowID, err := ident.NewFrom(s.Random, s.Now())
	return tenant.Tenant{
		ID: rowID, GUID: id, Name: p.Name, BuiltinDomain: p.BuiltinDomain, DefaultDomain: p.DefaultDomain,
		Consent: tenant.ConsentGranted, ConsentedAt: s.Now(), Bootstrap: tenant.BootstrapPending,
		SMTPAuth: tenant.SMTPAuthUnknown, Discovery: tenant.DiscoveryPending,
	}, err
}

func isAccessDenied(err error) bool { return errors.Is(err, fault.AccessDenied) }
