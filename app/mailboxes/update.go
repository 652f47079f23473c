// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"context"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// Change holds the fields to change. A nil field stays unchanged.
type Change struct {
	DisplayName    *string
	DailySendLimit *int
	// ClearSendLimit removes the stored limit. DailySendLimit must then be nil.
	ClearSendLimit bool
}

// Update changes a mailbox's display name at the platform, its stored limit, or both, and returns
// the mailbox. It first changes the name. If this fails, Update does not store the limit.
//
// It fails with tenant_not_found, mailbox_not_found, no_updates, invalid_request or
// invalid_send_limit. If it changes the name, it can also fail with access_denied,
// exchange_bootstrap_not_ready, or an error of the platform.
func (s *Service) Update(ctx context.Context, owner access.AccountID, id tenant.GUID, mailboxID string, c Change) (mailbox.Mailbox, error) {
	c, err := normalize(c)
	if err != nil {
		return mailbox.Mailbox{}, err
	}
	m, err := s.Mailboxes.Mailbox(ctx, owner, id, mailboxID)
	if err != nil {
		return mailbox.Mailbox{}, err
	}
	if err := checkChange(c); err != nil {
		return mailbox.Mailbox{}, err
	}
	if c.DisplayName != nil {
		if m, err = s.rename(ctx, owner, m, *c.DisplayName); err != nil {
			return mailbox.Mailbox{}, err
		}
	}
	if c.DailySendLimit != nil || c.ClearSendLimit {
		m.DailySendLimit = 0
		if c.DailySendLimit != nil {
			m.DailySendLimit = *c.DailySendLimit
		}
		set := func(ctx context.Context) error {
			return s.Mailboxes.SetSendLimit(ctx, owner, m.ID, m.DailySendLimit, s.Now())
		}
		if err := reconcile.Store(ctx, set); err != nil {
			return mailbox.Mailbox{}, fmt.Errorf("set send limit: %w", err)
		}
	}
	return m, nil
}

// normalize checks the display name and returns it in its canonical form. Update calls normalize
// before it checks that the account has the mailbox.
func normalize(c Change) (Change, error) {
	if c.DisplayName == nil {
		return c, nil
	}
	name, err := mailbox.DisplayName(*c.DisplayName, "display_name")
	c.DisplayName = &name
	return c, err
}

func checkChange(c Change) error {
	if c.DisplayName == nil && c.DailySendLimit == nil && !c.ClearSendLimit {
		return fault.NoUpdates.With("the body holds no field that can be changed")
	}
	if c.DailySendLimit != nil {
		return sendlimit.CheckLimit(*c.DailySendLimit)
	}
	return nil
}

func (s *Service) rename(ctx context.Context, owner access.AccountID, m mailbox.Mailbox, name string) (mailbox.Mailbox, error) {
	t, err := s.Tenants.Tenant(ctx, owner, m.TenantGUID)
	if err != nil {
		return m, err
	}
	if err := t.CheckConsentAndMailServer(); err != nil {
		return m, err
	}
	ctx, cancel := s.detach(ctx)
	defer cancel()
	renamedAt, err := s.renameAtPlatform(ctx, owner, m, name)
	if err != nil {
		return m, s.recordLostConsent(ctx, owner, m.TenantGUID, err)
	}
	m.DisplayName, m.Observed.Name = name, observation.HeldUntil(renamedAt)
	return m, s.save(ctx, owner, m)
}

// renameAtPlatform changes the name. It resolves an unknown outcome by a read of the mailbox.
// renamedAt is a time at which the platform had the new name.
func (s *Service) renameAtPlatform(ctx context.Context, owner access.AccountID, m mailbox.Mailbox, name string) (renamedAt time.Time, err error) {
	err = reconcile.Run(ctx, reconcile.Once, func(ctx context.Context) error {
		err := s.Platform.For(m.TenantGUID).Rename(ctx, m.Address, name)
		renamedAt = s.Now()
		return err
	}, func(ctx context.Context) (bool, error) {
		renamedAt = s.Now()
		found, err := s.fetchCurrent(ctx, owner, m)
		return found != nil && found.DisplayName == name, err
	})
	return renamedAt, err
}

func (s *Service) save(ctx context.Context, owner access.AccountID, m mailbox.Mailbox) error {
	err := reconcile.Store(ctx, func(ctx context.Context) error { return s.Mailboxes.SaveMailbox(ctx, owner, m) })
	if err != nil {
		return fmt.Errorf("save mailbox: %w", err)
	}
	return nil
}
