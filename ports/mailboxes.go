// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
)

// MailboxStore stores the shared mailboxes of the owner's tenants.
type MailboxStore interface {
	// Mailboxes lists a tenant's mailboxes by address. It omits mailboxes that are marked missing,
	// because discoveries did not find them at the platform. It also omits mailboxes in the stages
	// reserved and creating. It fails with tenant_not_found.
	Mailboxes(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]mailbox.Mailbox, error)
	// Mailbox returns one of the mailboxes that Mailboxes lists. It fails with tenant_not_found or
	// mailbox_not_found.
	Mailbox(ctx context.Context, owner access.AccountID, id tenant.GUID, mailboxID string) (mailbox.Mailbox, error)
	// ReserveMailboxes stores reservations for the specs that have no row, in one transaction under
	// a lock on the domain. It returns the rows in the order of specs. New rows are in stage
	// reserved, with new ids and JustReserved set. A missing mailbox becomes a reservation again:
	// it counts towards max like a new row, but keeps its id, and JustReserved is not set. While it
	// is reserved, Observed.PreviousMissingSince and Observed.Account are set. Each time an
	// unfinished or a missing row is reserved again, its ReservedAt increases. ReserveMailboxes
	// fails with domain_not_found. It fails with mailbox_limit_reached, and stores nothing, if the
	// domain would have more than max rows that are not missing.
	ReserveMailboxes(ctx context.Context, owner access.AccountID, domainID string, specs []mailbox.Spec, max int, now time.Time) ([]mailbox.Mailbox, error)
	// SaveMailbox merges the observation m into the stored mailbox with mailbox.Mailbox.Merge. It
	// keeps each stored part that was observed later than the same part of m. It fails with
	// mailbox_not_found if the row no longer exists.
	SaveMailbox(ctx context.Context, owner access.AccountID, m mailbox.Mailbox) error
	// ConcludeMailboxes does the same as SaveMailbox for all mailboxes of a request, or for none of
	// them. It commits the stored answer with them.
	ConcludeMailboxes(ctx context.Context, owner access.AccountID, mailboxes []mailbox.Mailbox, storedAnswer *StoredAnswer) error
	// ReleaseMailbox deletes a reservation whose creation was refused by the platform or never
	// started. It does nothing if the mailbox was created, or if a different request has reserved
	// it after reservedAt. A mailbox that a discovery missed and a request reserved again can be
	// blocked. ReleaseMailbox then records the unblock, as Removals.RemoveMailbox does.
	ReleaseMailbox(ctx context.Context, owner access.AccountID, mailboxID string, reservedAt time.Time) error
	// SetSendLimit stores a mailbox's own daily limit, 0 for none. If the limit changes, the tenant
	// becomes due at once, as with SendPolicies.ChangePolicy. It fails with mailbox_not_found.
	SetSendLimit(ctx context.Context, owner access.AccountID, mailboxID string, perDay int, now time.Time) error
}
