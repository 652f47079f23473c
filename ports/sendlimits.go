// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// SendPolicies stores the send limits that accounts set for their tenants. A policy is one such
// limit. It is in force only while its domain and its tenant exist. To an account, the tenants of
// other accounts do not exist.
type SendPolicies interface {
	// Policies lists the policies in force for a tenant, by scope. It fails with tenant_not_found.
	Policies(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]sendlimit.Policy, error)
	// Policy returns the policy in force for a scope. It fails with tenant_not_found or
	// policy_not_found.
	Policy(ctx context.Context, owner access.AccountID, id tenant.GUID, scope string) (sendlimit.Policy, error)
	// ReservePolicy reserves a scope for a policy, so that ScopesWithRules lists the scope. It
	// returns the policy in force, or the policy that is already reserved. If there is neither, it
	// stores and returns a policy without a limit. Policies and Policy do not return such a policy
	// until ChangePolicy puts it in force. ReservePolicy fails with tenant_not_found or
	// domain_not_found.
	ReservePolicy(ctx context.Context, owner access.AccountID, id tenant.GUID, scope string, now time.Time) (sendlimit.Policy, error)
	// ChangePolicy calls change with the stored policy, which may be only reserved. It puts the
	// policy that change returns in force, and commits the stored answer with it. All this is one
	// transaction. If the transaction is retried, ChangePolicy calls change again. Concurrent
	// changes of one policy run one after the other. If the limit changes, the tenant becomes due
	// at once. ChangePolicy fails with policy_not_found if the policy or its domain does not exist,
	// or with the error of change.
	ChangePolicy(ctx context.Context, owner access.AccountID, policyID string, change func(sendlimit.Policy) (sendlimit.Policy, *StoredAnswer, error)) error
	// ScopesWithRules lists the scopes for which the mail platform may have a managed rule. These
	// are the scopes of policies, of reserved policies, of policies whose domain was deleted, of
	// orphan rules (see TenantClaims.SaveOrphanRules), and the scopes whose rules block a mailbox.
	// ScopesWithRules fails with tenant_not_found.
	ScopesWithRules(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]string, error)
}

// TenantTimeZones stores the time zones that determine the day boundaries of tenants, for
// operators.
type TenantTimeZones interface {
	// TimeZone returns a tenant's time zone, as an IANA name, and the account that has the
	// tenant. It fails with tenant_not_found.
	TimeZone(ctx context.Context, id tenant.GUID) (timeZone string, holder access.AccountID, err error)
	// SetTimeZone changes a tenant's time zone and records the change, as described at Audit. It
	// deletes the counts and resets TenantClaim.Mark, so that messages are counted again by the new
	// days. It also invalidates the claim of a running pass. If the tenant already has the time
	// zone, it does nothing. It fails with tenant_not_found.
	SetTimeZone(ctx context.Context, id tenant.GUID, timeZone string) (holder access.AccountID, err error)
}

// TenantClaims lets enforcement passes claim tenants and store their results. A pass claims a
// tenant by incrementing its epoch, and may write only while the epoch is unchanged. Leases use the
// database's clock. Due times use the caller's clock.
type TenantClaims interface {
	// DueTenants lists at most limit tenants that are due at now and not leased. Accounts are
	// served round-robin, beginning with the account that has the fewest running passes. Within an
	// account, the tenant that has been due for the longest time comes first. Tenants with a
	// revoked consent or an unprepared mail server are excluded. Tenants of suspended accounts are
	// included, so that their mailboxes are unblocked. A due time that is too far ahead can only
	// come from clock skew and counts as due now.
	DueTenants(ctx context.Context, now time.Time, limit int) ([]DueTenant, error)
	// TenantsDueBy lists all tenants that are due at a time. Unlike DueTenants, it has no limit and
	// includes leased tenants. The tenant that has been due for the longest time comes first.
	TenantsDueBy(ctx context.Context, at time.Time) ([]DueTenant, error)
	// ClaimTenant claims a tenant for the duration of the lease, if DueTenants would still list it.
	// It does not change the due time.
	ClaimTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration, now time.Time) (claim TenantClaim, won bool, err error)
	// ClaimUnleasedTenant claims a tenant that has no valid lease, due or not. Unlike ClaimTenant,
	// it also claims a tenant with an unprepared mail server. won is false for a leased tenant, for
	// an unknown tenant, and for a tenant with a revoked consent.
	ClaimUnleasedTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration) (claim TenantClaim, won bool, err error)
	// SeizeTenant works like ClaimUnleasedTenant, but revokes a valid lease. If a pass held this
	// lease, the pass can write nothing after its current call to the platform.
	SeizeTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration) (claim TenantClaim, won bool, err error)
	// RenewTenantLease renews the lease. held is false if the claim is invalid or was released, or
	// if the tenant was deleted. The caller must then stop. The methods below that return held
	// write nothing if held is false.
	RenewTenantLease(ctx context.Context, claim TenantClaim, lease time.Duration) (held bool, err error)
	// CountedMailboxes lists the tenant's mailboxes in the stages created and ready by address,
	// with their counts of the days that began at the time since or later. It also lists a mailbox
	// in a different stage that has an object id or is blocked, because the platform may have the
	// mailbox. CountedMailboxes sets neither MailboxState.Sent nor Counted.
	CountedMailboxes(ctx context.Context, claim TenantClaim, since time.Time) ([]CountedMailbox, error)
	// SaveCounts stores counts and the new TenantClaim.Mark. It may be repeated.
	SaveCounts(ctx context.Context, claim TenantClaim, c SendCounts) (held bool, err error)
	// SaveOrphanRules stores the names of orphan rules. These are managed rules that a pass found
	// and whose scopes ScopesWithRules did not list. They remain from an earlier connection of the
	// tenant, or were created while their policy was being deleted. After this call,
	// ScopesWithRules lists their scopes, until SaveChanges is called with them in EmptyScopes.
	// SaveOrphanRules may be repeated.
	SaveOrphanRules(ctx context.Context, claim TenantClaim, ruleNames []string) (held bool, err error)
	// SaveIntents replaces the stored intents of the tenant with the changes that a pass is about
	// to make at the platform. Deleted mailboxes are ignored. An intent is deleted with its
	// mailbox.
	SaveIntents(ctx context.Context, claim TenantClaim, changes []sendlimit.Change) (held bool, err error)
	// Intents lists the stored intents by address. They come from a pass that was interrupted or
	// whose outcome is unknown.
	Intents(ctx context.Context, claim TenantClaim) ([]sendlimit.Change, error)
	// SaveChanges stores the outcome of a pass's intents in one transaction.
	SaveChanges(ctx context.Context, claim TenantClaim, c SendChanges) (held bool, err error)
	// ReleaseTenant ends a pass. The tenant becomes due at the time due, or at once if a change
	// since the claim requires it, for example of a limit.
	ReleaseTenant(ctx context.Context, claim TenantClaim, due time.Time) (held bool, err error)
}

// DueTenant names a tenant that is due.
type DueTenant struct {
	Account access.AccountID
	Tenant  tenant.GUID
	// At is when the tenant became due.
	At time.Time
}

// TenantClaim is a tenant that a pass has claimed. The claim is valid while the epoch of the tenant
// is unchanged.
type TenantClaim struct {
	Account access.AccountID
	Tenant  tenant.GUID
	Epoch   int64
	// TimeZone is the tenant's time zone, as an IANA name.
	TimeZone string
	// Due is when the tenant became due.
	Due time.Time
	// Mark is the time up to which the tenant's trace (see SendTrace) is final, zero if there is no
	// such time.
	Mark time.Time
}

// CountedMailbox is a mailbox with its counts, oldest first.
type CountedMailbox struct {
	sendlimit.MailboxState

	Counts []sendlimit.Count
}

// StateOn returns the state of the mailbox, with Sent and Counted from its count of the day, if
// there is one.
func (m CountedMailbox) StateOn(day sendlimit.Day) sendlimit.MailboxState {
	for _, c := range m.Counts {
		if c.Day.Equal(day.Start) {
			m.Sent, m.Counted = c.Total(), !c.Partial
		}
	}
	return m.MailboxState
}

// SendCounts is the result of reading a tenant's trace.
type SendCounts struct {
	// Today is the start of the current day, zero if the current day was not counted. The counts of
	// that day become the mailboxes' counts of today.
	Today time.Time
	At    time.Time // time of the count
	Mark  time.Time // zero leaves the mark unchanged
	// ByMailbox has the counts by mailbox id. Deleted mailboxes are ignored.
	ByMailbox map[string][]sendlimit.Count
}

// SendChanges is the outcome of a pass.
type SendChanges struct {
	// At is the time of storage. Events get this time, or one millisecond after the tenant's newest
	// event if that is later. Events therefore stay ordered if a clock goes back.
	At time.Time
	// Done are the changes that the platform has applied. A change of a mailbox that is already in
	// the new state gets no event, so SaveChanges may be repeated.
	Done []sendlimit.Change
	// Unresolved lists the ids of the mailboxes whose change has an unknown outcome. Their intents
	// are kept, and all other intents of the tenant are deleted.
	Unresolved []string
	// EmptyScopes lists scopes that have no policy in force and whose rules block no mailbox.
	// SaveChanges deletes the stored names of their orphan rules. If the domain of such a scope no
	// longer exists, SaveChanges also deletes the stored policy.
	EmptyScopes []string
}
