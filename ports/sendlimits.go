// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// SendPolicies keeps the limits that accounts have set for their tenants. A
// policy goes with its domain or its tenant. A foreign tenant and an unknown
// one are one answer.
type SendPolicies interface {
	// Policies lists the policies of a tenant that are in force, by scope.
	// Refusal: tenant_not_found.
	Policies(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]sendlimit.Policy, error)
	// Policy returns the one that is in force in a scope. Refusals:
	// tenant_not_found, policy_not_found.
	Policy(ctx context.Context, owner access.AccountID, id tenant.GUID, scope string) (sendlimit.Policy, error)
	// ReservePolicy says that a scope's policy is meant to be. It returns the
	// one that is in force, or one without a limit, which is not there for
	// anybody until SavePolicy. Refusals: tenant_not_found, domain_not_found.
	ReservePolicy(ctx context.Context, owner access.AccountID, id tenant.GUID, scope string, now time.Time) (sendlimit.Policy, error)
	// SavePolicy puts a reserved policy in force, or changes one, and commits a
	// Completion. With another limit the tenant is due at once, for a look at
	// what it means. Refusal: policy_not_found when it went meanwhile.
	SavePolicy(ctx context.Context, owner access.AccountID, p sendlimit.Policy) error
	// RuledScopes lists the scopes for which the mail platform may hold a rule
	// of ours: those of policies, reserved ones too, and such whose policy went
	// with its domain. Refusal: tenant_not_found.
	RuledScopes(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]string, error)
}

// SendDays keeps where a tenant's days begin and end, for operators.
type SendDays interface {
	// Day returns the time zone of a tenant's days, by its IANA name, and who
	// holds the tenant. Refusal: tenant_not_found.
	Day(ctx context.Context, id tenant.GUID) (place string, holder access.AccountID, err error)
	// SetDay changes it, if it is another, on the operator's behalf, which is
	// recorded as ports.Audit says. What was counted by the days before is
	// counted anew: the mark goes, and a run under way has lost the tenant.
	// Refusal: tenant_not_found.
	SetDay(ctx context.Context, id tenant.GUID, place string) (holder access.AccountID, err error)
}

// SendRuns are the tenants for those who count what they send and enforce their
// limits. A run takes a tenant by raising its epoch and may write while that is
// its own. Leases are measured by the database's clock, when a tenant is due by
// the caller's.
type SendRuns interface {
	// DueTenants lists tenants that are due at now and that nobody works on, at
	// most that many. Accounts take turns: the one with the fewest at work
	// comes first, within an account the tenant that is due for longest. Left
	// out are tenants whose consent is revoked or whose mail server is not
	// prepared. Those of suspended accounts are not: their mailboxes are let go.
	// A tenant is due too when its time is further ahead than any look sets it:
	// that was a clock that was ahead.
	DueTenants(ctx context.Context, now time.Time, most int) ([]DueTenant, error)
	// ClaimTenant takes a tenant of the list, if it still is in it, for as long
	// as the lease lasts. When it is due does not change by that.
	ClaimTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration, now time.Time) (r SendRun, won bool, err error)
	// SeizeTenant takes a tenant for as long as the lease lasts, due or not and
	// whoever has it: a run that is under way has lost it, and whatever call of
	// the platform it is at ends by itself. Not won is one that runs leave out.
	SeizeTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration) (r SendRun, won bool, err error)
	// HoldTenant renews the lease. held is false when another has the tenant or
	// it is gone, here and in all that follow: then nothing is written, and
	// nothing more may be done for it.
	HoldTenant(ctx context.Context, r SendRun, lease time.Duration) (held bool, err error)
	// SendBoxes lists the tenant's mailboxes by address, with what was counted
	// of each on days that began at since or later. Sent is not filled in.
	SendBoxes(ctx context.Context, r SendRun, since time.Time) ([]SendBox, error)
	// SaveCounts stores what was counted, and up to when the trace was read for
	// good. It may be repeated.
	SaveCounts(ctx context.Context, r SendRun, c SendCounts) (held bool, err error)
	// SaveIntents stores what a run is about to have the platform do, instead of
	// all that was stored so of the tenant before. Mailboxes that are gone are
	// passed over, and an intent goes with its mailbox.
	SaveIntents(ctx context.Context, r SendRun, changes []sendlimit.Change) (held bool, err error)
	// Intents lists by address what is stored of them: that of a run which did
	// not end, or could not find out what became of it.
	Intents(ctx context.Context, r SendRun) ([]sendlimit.Change, error)
	// SaveChanges stores what became of a run's intents, in one step.
	SaveChanges(ctx context.Context, r SendRun, c SendChanges) (held bool, err error)
	// ReleaseTenant ends a run. The tenant is due again then, or at once if a
	// limit changed meanwhile.
	ReleaseTenant(ctx context.Context, r SendRun, due time.Time) (held bool, err error)
}

// DueTenant names a tenant that is due.
type DueTenant struct {
	Account access.AccountID
	Tenant  tenant.GUID
	// At is when it became due.
	At time.Time
}

// SendRun is a tenant that a run has taken.
type SendRun struct {
	Account access.AccountID
	Tenant  tenant.GUID
	Epoch   int64
	// Place is the IANA name of the time zone of its days.
	Place string
	// Due is when it became due.
	Due time.Time
	// Mark is up to when its trace was read for good, zero when it never was.
	Mark time.Time
}

// SendBox is a mailbox with its counts, oldest first.
type SendBox struct {
	sendlimit.Box

	Counts []sendlimit.Count
}

// On is the mailbox with what was counted on a day, if it was.
func (b SendBox) On(day sendlimit.Day) sendlimit.Box {
	for _, c := range b.Counts {
		if c.Day.Equal(day.Start) {
			b.Sent, b.Counted = c.Total(), !c.Part
		}
	}
	return b.Box
}

// SendCounts is what a reading of a tenant's trace came to.
type SendCounts struct {
	// Today is the start of the day whose count is shown as today's, zero where
	// that was not counted.
	Today time.Time
	At    time.Time // when it was counted
	Mark  time.Time // zero leaves it where it is
	// Boxes are the counts by the mailbox's id. Mailboxes that are gone are
	// passed over.
	Boxes map[string][]sendlimit.Count
}

// SendChanges is what a run did.
type SendChanges struct {
	// At is when they are stored. Events are of then, or of a millisecond after
	// the tenant's newest one where that is later: they are in order also when
	// a clock stepped back.
	At time.Time
	// Done are the mailboxes that are blocked now, or let go. Each that was not
	// so before gets its event, so it may be repeated.
	Done []sendlimit.Change
	// Open names the mailboxes of which it is not known what became: their
	// intents stay, all others of the tenant go.
	Open []string
	// Emptied are scopes whose rules block nobody. Those that have no policy
	// are forgotten.
	Emptied []string
}
