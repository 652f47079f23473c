// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
)

type mailboxState struct {
	mailbox.Platform
	hasPassword, submissionOpen bool
}

// Mailboxes implements ports.Mailboxes.
func (c tenantClient) Mailboxes(ctx context.Context) ([]mailbox.Platform, error) {
	var mailboxes []mailbox.Platform
	err := c.callMailServer(ctx, "Mailboxes", "", func(t *tenantState) (bool, error) {
		for _, address := range slices.Sorted(maps.Keys(t.mailboxes)) {
			mailboxes = append(mailboxes, t.mailboxes[address].Platform)
		}
		return false, nil
	})
	return mailboxes, err
}

// UserMailboxes implements ports.Mailboxes.
func (c tenantClient) UserMailboxes(ctx context.Context) (int, error) {
	var count int
	err := c.call(ctx, "UserMailboxes", "", func(t *tenantState) (bool, error) {
		count = t.userMailboxes
		return false, nil
	})
	return count, err
}

// EmailLicenses implements ports.Mailboxes.
func (c tenantClient) EmailLicenses(ctx context.Context) (tenant.Licenses, error) {
	var licenses tenant.Licenses
	err := c.call(ctx, "EmailLicenses", "", func(t *tenantState) (bool, error) {
		licenses = t.Licenses
		return false, nil
	})
	return licenses, err
}

// Mailbox implements ports.Mailboxes.
func (c tenantClient) Mailbox(ctx context.Context, address string) (mailbox.Platform, error) {
	var found mailbox.Platform
	err := c.callMailServer(ctx, "Mailbox", address, func(t *tenantState) (bool, error) {
		m, err := t.mailbox(address)
		if err == nil {
			found = m.Platform
		}
		return false, err
	})
	return found, err
}

// CreateMailbox implements ports.Mailboxes.
func (c tenantClient) CreateMailbox(ctx context.Context, s mailbox.Spec) (mailbox.Platform, error) {
	var created mailbox.Platform
	err := c.callMailServer(ctx, "CreateMailbox", s.Address, func(t *tenantState) (bool, error) {
		address := strings.ToLower(s.Address)
		local, name, _ := strings.Cut(address, "@")
		if !t.acceptsDomain(name, c.p.now) {
			return false, notReady("the mail server does not accept the domain yet")
		}
		if t.occupiedAddresses[address] || t.mailboxes[address] != nil {
			return false, refuse(fault.InvalidMailboxEmail, "another object holds the address")
		}
		c.p.serial++
		alias := fmt.Sprintf("%s.%d", local, c.p.serial)
		created = mailbox.Platform{
			ObjectID:    fmt.Sprintf("00000000-0000-4000-8000-%012d", c.p.serial),
			DisplayName: s.DisplayName, Address: address, Alias: alias,
			PrincipalName: alias + "@" + t.builtinDomain, CreatedAt: c.p.now,
		}
		t.mailboxes[address] = &mailboxState{Platform: created}
		return true, nil
	})
	return created, err
}

// OpenSignIn implements ports.Mailboxes.
func (c tenantClient) OpenSignIn(ctx context.Context, objectID, address string, password secret.Text) error {
	return c.call(ctx, "OpenSignIn", address, func(t *tenantState) (bool, error) {
		m, err := t.mailbox(address)
		if err != nil || m.ObjectID != objectID || c.p.now.Before(m.CreatedAt.Add(t.Lag.Directory)) {
			return false, notReady("the directory does not show the account yet")
		}
		if len(password.Reveal()) < 8 {
			return false, refuse(fault.WeakPassword, "the platform does not accept this password")
		}
		m.hasPassword, m.AccountEnabled, m.PrincipalName = true, true, m.Address
		return true, nil
	})
}

// OpenSubmission implements ports.Mailboxes.
func (c tenantClient) OpenSubmission(ctx context.Context, address string) error {
	return c.callMailServer(ctx, "OpenSubmission", address, func(t *tenantState) (bool, error) {
		m, err := t.mailbox(address)
		if err != nil || c.p.now.Before(m.CreatedAt.Add(t.Lag.Submission)) {
			return false, notReady("the mail server does not show the mailbox yet")
		}
		changed := !m.submissionOpen
		m.submissionOpen = true
		return changed, nil
	})
}

// Rename implements ports.Mailboxes.
func (c tenantClient) Rename(ctx context.Context, address, displayName string) error {
	return c.callMailServer(ctx, "Rename", address, func(t *tenantState) (bool, error) {
		m, err := t.mailbox(address)
		if err != nil {
			return false, err
		}
		changed := m.DisplayName != displayName
		m.DisplayName = displayName
		return changed, nil
	})
}

// RemoveMailbox implements ports.Mailboxes.
func (c tenantClient) RemoveMailbox(ctx context.Context, objectID string) error {
	return c.call(ctx, "RemoveMailbox", objectID, func(t *tenantState) (bool, error) {
		for address, m := range t.mailboxes {
			if m.ObjectID != objectID {
				continue
			}
			if c.p.now.Before(m.CreatedAt.Add(t.Lag.Directory)) {
				return false, notReady("the directory does not show the account yet")
			}
			delete(t.mailboxes, address)
			return true, nil
		}
		return false, nil
	})
}

func (t *tenantState) mailbox(address string) (*mailboxState, error) {
	if m := t.mailboxes[strings.ToLower(address)]; m != nil {
		return m, nil
	}
	return nil, refuse(fault.MailboxNotFound, "the platform holds no such mailbox")
}
