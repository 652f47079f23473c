// SPDX-License-Identifier: Apache-2.0

// Package mailboxes lists, provisions and changes shared mailboxes.
package mailboxes

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// workLimit bounds the work of one request unless Limit is set.
const workLimit = 55 * time.Second

// Service holds the use cases of mailboxes.
type Service struct {
	Tenants   ports.Tenants
	Domains   ports.Domains
	Mailboxes ports.MailboxStore
	Policies  ports.SendPolicies
	Platform  ports.MailPlatform
	Settling  *settling.Pass
	Now       func() time.Time
	// RequireSMTPAuth is false where operators let tenants provision for
	// which the platform no longer offers SMTP AUTH.
	RequireSMTPAuth bool
	// Pause lies between two tries of a step that is not ready; Limit
	// bounds the work of one request.
	Pause, Limit time.Duration
}

// List returns a tenant's mailboxes by address.
func (s *Service) List(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]mailbox.Mailbox, error) {
	return s.Mailboxes.Mailboxes(ctx, owner, id)
}

// Usage tells what a mailbox has sent today of what it may send.
func (s *Service) Usage(ctx context.Context, owner access.AccountID, id tenant.GUID, mailboxID string) (mailbox.Usage, error) {
	m, err := s.Mailboxes.Mailbox(ctx, owner, id, mailboxID)
	if err != nil {
		return mailbox.Usage{}, err
	}
	all, err := s.Policies.Policies(ctx, owner, id)
	if err != nil {
		return mailbox.Usage{}, err
	}
	return mailbox.UsageUnder(m, sendlimit.ByScope(all).Effective(m.DailySendLimit, m.DomainName)), nil
}

func (s *Service) detach(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := s.Limit
	if limit == 0 {
		limit = workLimit
	}
	return settling.Detach(ctx, limit)
}

// noticed lets a lost consent be seen before the error goes on its way.
func (s *Service) noticed(ctx context.Context, owner access.AccountID, id tenant.GUID, err error) error {
	return settling.Consent{Tenants: s.Tenants, Platform: s.Platform}.Notice(ctx, owner, id, err)
}
