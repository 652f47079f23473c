// SPDX-License-Identifier: Apache-2.0

// Package mailboxes lists, provisions and changes shared mailboxes.
package mailboxes

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Service holds the use cases of mailboxes.
type Service struct {
	Tenants   ports.Tenants
	Domains   ports.Domains
	Mailboxes ports.MailboxStore
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

// Request asks for mailboxes on one domain. Password is used and forgotten.
type Request struct {
	Domain    string
	Password  secret.Text
	Mailboxes []mailbox.Spec
}

// Result is what became of one mailbox of a request, in the request's order.
type Result struct {
	Status  string // created, exists or failed
	Spec    mailbox.Spec
	Mailbox mailbox.Mailbox
	// Failure is set when Status is failed.
	Failure *fault.Error
}

// Change names the fields to change; nil leaves one alone. DailySendLimit is
// already known to be an integer; its range is checked here.
type Change struct {
	DisplayName    *string
	DailySendLimit *int
}

// List returns a tenant's mailboxes by address.
func (s *Service) List(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]mailbox.Mailbox, error) {
	panic("unwritten")
}

// Provision makes mailboxes. An item still unfinished when time is up makes
// the whole answer provider_timeout; the same request again goes on.
func (s *Service) Provision(ctx context.Context, acc access.Account, id tenant.GUID, r Request) ([]Result, error) {
	panic("unwritten")
}

// Update changes a mailbox's name at the platform, its stored limit, or both.
func (s *Service) Update(ctx context.Context, owner access.AccountID, id tenant.GUID, mailboxID string, c Change) (mailbox.Mailbox, error) {
	panic("unwritten")
}

// Usage tells what a mailbox has sent today of what it may send.
func (s *Service) Usage(ctx context.Context, owner access.AccountID, id tenant.GUID, mailboxID string) (mailbox.Usage, error) {
	panic("unwritten")
}
