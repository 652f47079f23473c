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

// Tenants stores the tenants of accounts. For an unknown tenant and for a tenant of a different
// account, Tenant, SaveTenant and DeleteTenant make the same queries and fail with the same
// tenant_not_found.
type Tenants interface {
	// Tenants lists the owner's tenants, most recently connected first.
	Tenants(ctx context.Context, owner access.AccountID) ([]tenant.Tenant, error)
	// Tenant returns one tenant. It fails with tenant_not_found.
	Tenant(ctx context.Context, owner access.AccountID, id tenant.GUID) (tenant.Tenant, error)
	// TenantCount returns how many slots of the plan the account's tenants use.
	TenantCount(ctx context.Context, owner access.AccountID) (int, error)
	// Attach makes the account the only holder of the tenant, and marks the connect sessions with
	// these ids as connected. It does both in one transaction under a lock on the account:
	//
	//   - If the account does not hold the tenant yet, Attach stores it, which takes a slot of the
	//     account's plan.
	//   - If the account already holds the tenant, Attach renews ConsentedAt, ConnectedBy and the
	//     consent, and takes no slot. A failed bootstrap becomes pending again, because the consent
	//     can restore a missing grant. If t is managed, Attach keeps ConnectedBy, and keeps
	//     ConsentedAt unless the stored consent is revoked, because an assignment is not a consent.
	//
	// Attaching a managed tenant is recorded as described at Audit. Attach fails with
	// tenant_limit_reached, account_closed, or tenant_held_elsewhere. It fails with no_api_plan if
	// t is not managed and the account is not active. It also fails with tenant_held_elsewhere if t
	// is managed, but the account has connected the tenant itself.
	Attach(ctx context.Context, owner access.AccountID, t tenant.Tenant, sessions ...string) (tenant.Tenant, error)
	// SaveTenant merges an observation into the stored tenant with tenant.Tenant.Merge: names,
	// consent, bootstrap, SMTP AUTH, discovery, counts of user mailboxes and LastSyncAt. It keeps
	// each stored part that was observed later than the same part of t. It fails with
	// tenant_not_found.
	SaveTenant(ctx context.Context, owner access.AccountID, t tenant.Tenant) error
	// DeleteTenant deletes the tenant with its domains, mailboxes, policies and jobs, but not its
	// events. It also ends the assignment of a managed tenant. DeleteTenant commits the stored
	// answer with the deletion. It fails with tenant_not_found.
	DeleteTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, storedAnswer *StoredAnswer) error
}

// Assignments stores to which account each managed tenant is assigned.
type Assignments interface {
	// AccountOfManagedTenant returns the account that holds a managed tenant. It fails with
	// tenant_not_found for an unknown tenant, and for a tenant that its account has connected
	// itself.
	AccountOfManagedTenant(ctx context.Context, id tenant.GUID) (access.AccountID, error)
	// Withdraw ends an assignment for the operator and returns the account. It records the change
	// as described at Audit, with the names of the managed rules that remain in the tenant. After
	// that, Withdrawn returns true until the account deletes the tenant or holds it again. Withdraw
	// fails with tenant_not_found.
	Withdraw(ctx context.Context, id tenant.GUID, rulesLeft ...string) (access.AccountID, error)
	// Withdrawn reports whether the owner's assignment of this tenant was withdrawn.
	Withdrawn(ctx context.Context, owner access.AccountID, id tenant.GUID) (bool, error)
}

// Discoveries stores the results of discovery.
type Discoveries interface {
	// SaveDiscovery merges the platform's lists into the stored domains and mailboxes of a tenant,
	// with the Merge methods of both. It adds a row for each new domain and mailbox. A nil list
	// means that the platform's list was not available. The stored rows stay unchanged if their
	// list is nil, or if the result of a later list is already stored.
	//
	// A missed domain or mailbox is marked as missing, and is no longer listed or counted. Its row
	// is deleted when a discovery at least observation.ReplicaLag later misses it again. Rows
	// created after Began are not marked as missing. Rows of unfinished creations are not marked
	// either, if a request reserved them in the hour before Began or later. A listed mailbox in
	// stage reserved becomes ready. It also becomes foreign, unless tenantry created it earlier. A
	// listed mailbox in stage creating becomes created.
	//
	// A blocked mailbox whose row is deleted is unblocked with an event, as in
	// TenantClaims.SaveChanges, and is not blocked when it is found again. The row of a mailbox
	// that a pass intends to block is kept until a pass knows the outcome. Domains and mailboxes
	// that Removals has removed are omitted, as described at its methods. SaveDiscovery fails with
	// tenant_not_found.
	SaveDiscovery(ctx context.Context, owner access.AccountID, id tenant.GUID, f DiscoveryResult) error
	// KnownNames returns the names of all stored domains of a tenant and the addresses of all
	// stored mailboxes, including missing and unfinished ones. It fails with tenant_not_found.
	KnownNames(ctx context.Context, owner access.AccountID, id tenant.GUID) (domains, mailboxes []string, err error)
}

// DiscoveryResult is the result of one discovery of a tenant.
type DiscoveryResult struct {
	Began time.Time
	// At is the time of storage, and not before Began. Events get this time, as with
	// SendChanges.At.
	At time.Time
	// Domains and Mailboxes are the objects that the platform lists, and those that it does not
	// list but returns by name. The names of Domains are canonical, see domain.WithCanonicalNames.
	Domains   []domain.Platform
	Mailboxes []mailbox.Platform
	// MissedDomains and MissedMailboxes are the names and addresses that the platform neither lists
	// nor returns by name.
	MissedDomains, MissedMailboxes map[string]bool
}
