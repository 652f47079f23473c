// SPDX-License-Identifier: Apache-2.0

// Package mailboxes lists, provisions, changes and removes shared mailboxes.
//
// Start reading at Service.Provision.
//
//   - mailboxes.go: Service, List and Usage
//   - provision.go: Provision, which checks a request, reserves a row for each mailbox, and
//     creates all mailboxes concurrently
//   - creation.go: the creation of one mailbox
//   - results.go: the results of a request, their combined error, and the release of rows
//   - update.go: Update
//   - remove.go: Remove
package mailboxes

import (
	"cmp"
	"context"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// workTimeout is the default of Service.Timeout.
const workTimeout = 55 * time.Second

// Service has the use cases of mailboxes.
type Service struct {
	Tenants   ports.Tenants
	Domains   ports.Domains
	Mailboxes ports.MailboxStore
	Policies  ports.SendPolicies
	Removals  ports.Removals
	// Connections ends the connections of a mailbox before the mailbox is removed.
	Connections Connections
	Platform    ports.MailPlatform
	Reconciler  *reconcile.Reconciler
	Now         func() time.Time
	// RequireSMTPAuth makes Provision refuse tenants whose SMTP AUTH is not enabled. Operators set
	// it to false where the platform no longer offers SMTP AUTH.
	RequireSMTPAuth bool
	// Pause is the time between two tries of a platform call. Timeout is the maximum duration of
	// one request, without its first checks. They default to 1 s and 55 s.
	Pause, Timeout time.Duration
}

// List returns a tenant's mailboxes, sorted by address. It fails with tenant_not_found.
func (s *Service) List(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]mailbox.Mailbox, error) {
	return s.Mailboxes.Mailboxes(ctx, owner, id)
}

// Usage returns how much a mailbox has sent today and its effective limit. It fails with
// tenant_not_found or mailbox_not_found.
func (s *Service) Usage(ctx context.Context, owner access.AccountID, id tenant.GUID, mailboxID string) (mailbox.Usage, error) {
	m, err := s.Mailboxes.Mailbox(ctx, owner, id, mailboxID)
	if err != nil {
		return mailbox.Usage{}, err
	}
	policies, err := s.Policies.Policies(ctx, owner, id)
	if err != nil {
		return mailbox.Usage{}, err
	}
	return mailbox.UsageUnder(m, sendlimit.ByScope(policies).Effective(m.DailySendLimit, m.DomainName)), nil
}

func (s *Service) detach(ctx context.Context) (context.Context, context.CancelFunc) {
	return reconcile.Detach(ctx, cmp.Or(s.Timeout, workTimeout))
}

// recordLostConsent returns err, joined with the store's error if storing fails. If err is
// access_denied because the tenant's consent was revoked, recordLostConsent first stores the
// revocation.
func (s *Service) recordLostConsent(ctx context.Context, owner access.AccountID, id tenant.GUID, err error) error {
	return reconcile.Consent{Tenants: s.Tenants, Platform: s.Platform, Now: s.Now}.RecordIfRevoked(ctx, owner, id, err)
}
