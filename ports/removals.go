// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
)

// Removals removes domains, mailboxes and send limits at the request of their account. Each removal
// is one transaction, which also commits the stored answer.
type Removals interface {
	// RemovableDomain returns an added domain by its name, even if the domain is marked as missing.
	// A removal whose answer was lost can therefore be repeated. RemovableDomain fails with
	// tenant_not_found or domain_not_found, and with domain_in_use while the domain has mailboxes
	// that are not missing.
	RemovableDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (domain.Domain, error)
	// BeginDomainRemoval merges d as Domains.ChangeDomain does. It also stores that a removal of
	// the domain at the platform begins at the time at, unless DomainRemoval.Repeated is true. If
	// the row of the domain is deleted after that, discoveries do not store the domain again.
	// BeginDomainRemoval fails with domain_not_found.
	BeginDomainRemoval(ctx context.Context, owner access.AccountID, d domain.Domain, at time.Time) (DomainRemoval, error)
	// CancelDomainRemoval deletes the record of the removal that began at the time at. It does
	// nothing if the domain was removed or reserved since.
	CancelDomainRemoval(ctx context.Context, owner access.AccountID, d domain.Domain, at time.Time) error
	// RemoveDomain deletes a domain with its provisioning jobs. The policy of the domain is no
	// longer in force. Discoveries ignore the domain until Domains.ReserveDomain reserves it again.
	// RemoveDomain fails with domain_not_found or domain_in_use.
	RemoveDomain(ctx context.Context, owner access.AccountID, d domain.Domain, now time.Time, storedAnswer *StoredAnswer) error
	// RemovableMailbox returns a mailbox in the stage created or ready, even if it is marked as
	// missing. RemovableMailbox fails with tenant_not_found or mailbox_not_found.
	RemovableMailbox(ctx context.Context, owner access.AccountID, id tenant.GUID, mailboxID string) (mailbox.Mailbox, error)
	// RemoveMailbox deletes a mailbox with its limit and connections. A blocked mailbox is
	// unblocked with an event, as in TenantClaims.SaveChanges, and the tenant becomes due. A
	// mailbox that an enforcement pass is about to block (see TenantClaims.SaveIntents) is only
	// hidden, and a later discovery deletes it. Discoveries that began up to observation.ReplicaLag
	// after now ignore the mailbox. RemoveMailbox fails with tenant_not_found or mailbox_not_found.
	RemoveMailbox(ctx context.Context, owner access.AccountID, m mailbox.Mailbox, now time.Time, storedAnswer *StoredAnswer) error
	// MailboxRemoved reports whether RemoveMailbox removed the mailbox with this object id less
	// than observation.ReplicaLag before now. The platform's replicas may still show such a
	// mailbox.
	MailboxRemoved(ctx context.Context, owner access.AccountID, id tenant.GUID, objectID string, now time.Time) (bool, error)
	// RemovePolicy deletes a policy. It changes nothing, and held is false, if the claim no longer
	// holds the tenant. RemovePolicy fails with policy_not_found.
	RemovePolicy(ctx context.Context, claim TenantClaim, policyID string, storedAnswer *StoredAnswer) (held bool, err error)
}

// DomainRemoval tells what was known about a domain when its removal began.
type DomainRemoval struct {
	// Repeated is true if an earlier removal began less than domain.RemovalRepeatWindow before this
	// one. An earlier removal does not count if it was cancelled, or if Domains.ReserveDomain
	// reserved the domain after it.
	Repeated bool
	// MayBeNew is true if the platform has shown a change of the domain since the earlier removal
	// began (see domain.Observed.Change). The earlier removal may then have removed the domain, and
	// the platform may now have a new domain with the same name.
	MayBeNew bool
}
