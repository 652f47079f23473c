// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/page"
	"github.com/tenantry/tenantry/core/tenant"
)

// Keys authenticates callers.
type Keys interface {
	// Caller returns the owner and the bounds of a key by the hash of its current secret, or of a
	// replaced one. It fails with invalid_api_key. For a revoked key it returns the caller with the
	// error. It does not check the bounds or SecretUntil.
	Caller(ctx context.Context, hash [32]byte) (access.Caller, error)
	// Account returns the current state of an account, for a browser session. It fails with
	// account_not_found.
	Account(ctx context.Context, id access.AccountID) (access.Account, error)
	// Member reports whether the address is a member of the account.
	Member(ctx context.Context, owner access.AccountID, email string) (bool, error)
	// RotateKey replaces the key with this id by a new one in one transaction. Only one of several
	// concurrent calls succeeds. The new key keeps the old name and bounds. It fails with
	// invalid_api_key if the old key is no longer valid.
	RotateKey(ctx context.Context, owner access.AccountID, oldID string, newKey access.Key) error
}

// AccountKeys manages the API keys of an account for its own callers. To an account, the keys of
// other accounts do not exist. Each change is one transaction with the completion of its answer.
type AccountKeys interface {
	// KeyPage lists the keys of the account, newest first, including revoked keys, each with its
	// last use.
	KeyPage(ctx context.Context, owner access.AccountID, q page.Query) (page.Page[access.Key], error)
	// AccountKey returns a key. It fails with key_not_found.
	AccountKey(ctx context.Context, owner access.AccountID, id string) (access.Key, error)
	// IssueKey stores a new key with its bounds and its creator. It fails with account_closed.
	IssueKey(ctx context.Context, k access.Key, completion *Completion) error
	// RenewKey gives a key the hash and the hint of newKey. The replaced secret is accepted until
	// oldUntil. Secrets that were replaced earlier end at oldUntil at the latest. It fails with
	// key_revoked.
	RenewKey(ctx context.Context, owner access.AccountID, id string, newKey access.Key, oldUntil time.Time, completion *Completion) error
	// EndKey revokes a key with all its secrets. It fails with key_revoked if it is revoked
	// already.
	EndKey(ctx context.Context, owner access.AccountID, id string, now time.Time, completion *Completion) error
}

// KeyUses stores when API keys were last used.
type KeyUses interface {
	// SaveKeyUses stores the last uses of keys, by the key's id. It never replaces a later time by
	// an earlier one, so several processes can store the uses of one key.
	SaveKeyUses(ctx context.Context, lastUsed map[string]time.Time) error
}

// Tenants stores the tenants of accounts. Tenants of other accounts and unknown tenants fail with
// the same tenant_not_found after the same queries.
type Tenants interface {
	// Tenants lists the owner's tenants, most recently connected first.
	Tenants(ctx context.Context, owner access.AccountID) ([]tenant.Tenant, error)
	// Tenant returns one tenant. It fails with tenant_not_found.
	Tenant(ctx context.Context, owner access.AccountID, id tenant.GUID) (tenant.Tenant, error)
	// TenantCount returns the number of slots that the owner's tenants use.
	TenantCount(ctx context.Context, owner access.AccountID) (int, error)
	// Attach makes the account the only holder of the tenant. In one transaction under a lock on
	// the account, it reads the account's plan and takes a slot. A second consent by the current
	// holder renews ConsentedAt, ConnectedBy and the consent, and takes no slot. The consent can
	// restore a missing grant, so a failed bootstrap is pending again. Attaching a managed tenant
	// is recorded as described at Audit. Attach fails with tenant_limit_reached, account_closed or
	// tenant_held_elsewhere, and with no_api_plan for a tenant that is not managed.
	// tenant_held_elsewhere also applies to assigning a managed tenant that the account has
	// connected itself. The same transaction marks the connect sessions with these ids as
	// connected.
	Attach(ctx context.Context, owner access.AccountID, t tenant.Tenant, sessions ...string) (tenant.Tenant, error)
	// SaveTenant merges an observation into the stored tenant with tenant.Tenant.Merge: names,
	// consent, bootstrap, SMTP AUTH, discovery, counts of user mailboxes and LastSyncAt. Parts that
	// were observed later stay. It fails with tenant_not_found.
	SaveTenant(ctx context.Context, owner access.AccountID, t tenant.Tenant) error
	// DeleteTenant deletes the tenant and everything that belongs to it, or ends the assignment of
	// a managed tenant. It commits the completion with the deletion. It fails with
	// tenant_not_found.
	DeleteTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, completion *Completion) error
}

// Assignments stores to which account each managed tenant is assigned.
type Assignments interface {
	// Assigned returns the account that holds a managed tenant. It fails with tenant_not_found for
	// an unknown tenant, and for a tenant that its account has connected itself.
	Assigned(ctx context.Context, id tenant.GUID) (access.AccountID, error)
	// Withdraw ends an assignment for the operator and returns the account. It records the change
	// as described at Audit, with rulesLeft, the managed rules that remain in the tenant. Withdrawn
	// returns true from then on, until the account deletes the tenant or holds it again. It fails
	// with tenant_not_found.
	Withdraw(ctx context.Context, id tenant.GUID, rulesLeft ...string) (access.AccountID, error)
	// Withdrawn reports whether the owner's assignment of this tenant was withdrawn.
	Withdrawn(ctx context.Context, owner access.AccountID, id tenant.GUID) (bool, error)
}

// Discoveries stores the results of discovery.
type Discoveries interface {
	// SaveDiscovery merges the platform's lists into the stored domains and mailboxes of a tenant,
	// with the Merge methods of both. It adds a row for each new domain and mailbox. A nil list
	// means that the platform's list was not available, and the stored rows stay unchanged. They
	// also stay unchanged if the result of a later list is already stored.
	//
	// A missed domain or mailbox is marked as missing, and is no longer listed and counted. It is
	// removed when a discovery at least observation.ReplicaLag later misses it again. Rows created
	// after Began are not marked, nor are rows whose creation a request claimed within the last
	// hour. A listed mailbox in stage reserved becomes ready and foreign. One in stage creating
	// becomes created. The listed sign-in name of a managed mailbox is stored once it equals the
	// address.
	//
	// A blocked mailbox that is removed is unblocked with an event, as in SendRuns.SaveChanges, and
	// is not blocked when it is found again. A mailbox that a pass intends to block is kept until a
	// pass knows the outcome. Domains and mailboxes that Removals has removed are omitted, as
	// described there. It fails with tenant_not_found.
	SaveDiscovery(ctx context.Context, owner access.AccountID, id tenant.GUID, f Found) error
	// KnownNames returns the names of all stored domains of a tenant and the addresses of all
	// stored mailboxes, including missing and unfinished ones. It fails with tenant_not_found.
	KnownNames(ctx context.Context, owner access.AccountID, id tenant.GUID) (domains, mailboxes []string, err error)
}

// Found is the result of one discovery of a tenant.
type Found struct {
	Began time.Time
	// At is the time of storage, and not before Began. Events get this time, as with
	// SendChanges.At.
	At time.Time
	// Domains and Mailboxes are the objects that the platform lists, and those that it does not
	// list but returns by name. The names of Domains are canonical, see domain.Listed.
	Domains   []domain.Platform
	Mailboxes []mailbox.Platform
	// MissedDomains and MissedMailboxes are the names and addresses that the platform neither lists
	// nor returns by name.
	MissedDomains, MissedMailboxes map[string]bool
}

// Domains stores the custom domains of the owner's tenants.
type Domains interface {
	// Domains lists the added domains of a tenant by name. For all methods except ReserveDomain,
	// missing domains do not exist. It fails with tenant_not_found.
	Domains(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]domain.Domain, error)
	// Domain returns an added domain by its name. It fails with tenant_not_found or
	// domain_not_found.
	Domain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (domain.Domain, error)
	// DomainByID returns an added domain by its row id. It fails with domain_not_found.
	DomainByID(ctx context.Context, owner access.AccountID, domainID string) (domain.Domain, error)
	// ReserveDomain stores a reservation for a domain and returns it with JustReserved set. If the
	// domain has a row already, it returns that row, in which Added says whether the domain was
	// added. A missing domain becomes a reservation again. If the row is a reservation already, it
	// renews it and sets ReservedBefore. ReservedAt is later than that of every earlier reservation of
	// the row that counts. If Removals has removed the domain, discoveries may find it
	// again, and if a removal has begun, a later one is not its repetition. It runs in one
	// transaction under a lock on the tenant. It fails with tenant_not_found, or with
	// domain_limit_reached if the domain needs a new reservation and the tenant has max rows.
	// Reservations count, missing domains do not.
	ReserveDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string, max int, now time.Time) (domain.Domain, error)
	// WithdrawReservation takes back a reservation that renewed an earlier one, which then counts
	// again. It does nothing if a different request has reserved the domain since.
	WithdrawReservation(ctx context.Context, owner access.AccountID, d domain.Domain) error
	// ReleaseDomain deletes an unfinished reservation. If the domain was missing before, it is missing
	// again, since the same time. It does nothing if a different request has reserved the domain after
	// reservedAt.
	ReleaseDomain(ctx context.Context, owner access.AccountID, domainID string, reservedAt time.Time) error
	// SaveDomain does the same as ChangeDomain and commits the completion with it.
	SaveDomain(ctx context.Context, owner access.AccountID, d domain.Domain, completion *Completion) error
	// ChangeDomain merges an observation into the stored domain with domain.Domain.Merge. Parts
	// that were observed later stay. It returns the stored domain. It fails with domain_not_found.
	ChangeDomain(ctx context.Context, owner access.AccountID, d domain.Domain) (domain.Domain, error)
}

// MailboxStore stores the shared mailboxes of the owner's tenants.
type MailboxStore interface {
	// Mailboxes lists a tenant's mailboxes by address. It omits missing mailboxes, and mailboxes
	// whose creation has not reached the platform. It fails with tenant_not_found.
	Mailboxes(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]mailbox.Mailbox, error)
	// Mailbox returns one of the mailboxes that Mailboxes lists. It fails with tenant_not_found or
	// mailbox_not_found.
	Mailbox(ctx context.Context, owner access.AccountID, id tenant.GUID, mailboxID string) (mailbox.Mailbox, error)
	// ReserveMailboxes stores reservations for the specs that have no row, in one transaction under
	// a lock on the domain. It returns the rows in the order of specs. New rows are in stage
	// reserved, with new ids and JustReserved set. A missing mailbox becomes a reservation again,
	// and counts as new. ReservedAt of an unfinished row is later than that of every earlier
	// reservation of the row. It fails with domain_not_found. It fails with mailbox_limit_reached,
	// and stores nothing, if the domain would have more than max rows that are not missing.
	ReserveMailboxes(ctx context.Context, owner access.AccountID, domainID string, specs []mailbox.Spec, max int, now time.Time) ([]mailbox.Mailbox, error)
	// SaveMailbox merges an observation into the stored mailbox with mailbox.Mailbox.Merge. Parts
	// that were observed later stay. It fails with mailbox_not_found if the row no longer exists.
	SaveMailbox(ctx context.Context, owner access.AccountID, m mailbox.Mailbox) error
	// ConcludeMailboxes does the same as SaveMailbox for all mailboxes of a request, or for none of
	// them. It commits the completion with them.
	ConcludeMailboxes(ctx context.Context, owner access.AccountID, all []mailbox.Mailbox, completion *Completion) error
	// ReleaseMailbox deletes a reservation whose creation was refused by the platform or never
	// started. It does nothing if a different request has reserved the mailbox after reservedAt.
	ReleaseMailbox(ctx context.Context, owner access.AccountID, mailboxID string, reservedAt time.Time) error
	// SetSendLimit stores a mailbox's own daily limit, 0 for none. If the limit changes, the tenant
	// becomes due at once, as with SendPolicies.SavePolicy. It fails with mailbox_not_found.
	SetSendLimit(ctx context.Context, owner access.AccountID, mailboxID string, perDay int, now time.Time) error
}

// ConnectFlows stores the flows in which a browser connects a tenant. ConnectSessions starts the
// flows. A flow is found by the hash of its state. Only one of several concurrent calls can take
// the same step.
type ConnectFlows interface {
	// TakeFlow moves the flow from one step to the next and returns its previous state. It fails
	// with connect_link_invalid if the flow is at a different step or expired at now.
	TakeFlow(ctx context.Context, stateHash [32]byte, from, to ConnectStep, now time.Time) (ConnectFlow, error)
	// SaveFlow stores the fields that a step has set. f.Step is the flow's current step. It fails
	// with connect_link_invalid if there is no such flow.
	SaveFlow(ctx context.Context, f ConnectFlow) error
	// DeleteFlows deletes flows that expired before the given time.
	DeleteFlows(ctx context.Context, before time.Time) error
}

// ConnectStep is the current step of a flow.
type ConnectStep string

// The steps of a flow, in order.
const (
	FlowStarted   ConnectStep = "started"    // the link was created
	FlowSigningIn ConnectStep = "signing_in" // the consent was given; the administrator signs in
	FlowProving   ConnectStep = "proving"    // tenantry redeems the code of the sign-in
	FlowConfirm   ConnectStep = "confirm"    // the sign-in is proved; the page asks for confirmation
	FlowDone      ConnectStep = "done"       // the tenant was connected, or the flow was cancelled or refused
)

// ConnectFlow is one attempt of an administrator to connect a tenant in a browser.
type ConnectFlow struct {
	StateHash [32]byte // of the link's state; the flow's id
	Account   access.AccountID
	Step      ConnectStep
	ExpiresAt time.Time
	// Browser is the hash of the cookie that binds the flow to one browser.
	Browser [32]byte
	Claimed tenant.GUID
	// SignInHash is the hash of the state of the sign-in.
	SignInHash [32]byte
	Nonce      string
	// Verifier is the encrypted PKCE verifier of the sign-in.
	Verifier      []byte
	Administrator tenant.Administrator
	Profile       tenant.Profile
}
