// SPDX-License-Identifier: Apache-2.0

// Package access defines accounts, their plans and their API keys.
//
// Account in access.go is the main type. Its methods say what the plan and the status of the
// account allow. key.go creates and parses API keys, and reads them from the Authorization header.
// Bounds in bounds.go limits what a key may do; the scopes of keys are in scope.go. Settings in
// settings.go are the operator's settings for the connect pages of an account.
package access

import (
	"strings"
	"time"
	"unicode"

	"github.com/tenantry/tenantry/core/fault"
)

// AccountID is the UUID of an account.
type AccountID string

// Account is a customer. Its plan determines what it may do.
type Account struct {
	ID    AccountID
	Email string // address of the first member
	Plan  Plan
	// Active is false while the operator has suspended the account, for example because its plan
	// has lapsed, and after the account was closed.
	Active    bool
	CreatedAt time.Time
	// OwnSlots is the number of tenant slots that an operator has set for this account. It is 0 if
	// the number of the plan applies.
	OwnSlots int

	// ClosedAt and TenantCount are not set in the account of an API request. No API request can
	// reach a closed account, because its keys are revoked.
	ClosedAt    time.Time // zero if the account is open
	TenantCount int
}

// Plan holds the name and the limits of an account's plan. In an account with OwnSlots, TenantSlots
// is OwnSlots and not the number of the plan.
type Plan struct {
	Name         string
	TenantSlots  int  // the maximum number of tenants of the account
	AutomaticDNS bool // tenantry may write the DNS records of the account's domains
}

// Caller is the account and the key of an authenticated request.
type Caller struct {
	Account Account
	KeyID   string
	KeyName string
	Bounds  Bounds
	// SecretUntil is set if the request used a secret that a rotation has replaced. It is the time
	// at which that secret stops working.
	SecretUntil time.Time
}

// Status is the state of an account or of a key.
type Status string

// The statuses. An account is active, suspended or closed. A key is active or revoked. A closed
// account and a revoked key never become active again.
const (
	StatusActive    Status = "active"
	StatusSuspended Status = "suspended"
	StatusClosed    Status = "closed"
	StatusRevoked   Status = "revoked"
)

// Status returns StatusActive, StatusSuspended or StatusClosed.
func (a Account) Status() Status {
	switch {
	case !a.ClosedAt.IsZero():
		return StatusClosed
	case !a.Active:
		return StatusSuspended
	default:
		return StatusActive
	}
}

// CheckOpen fails with account_closed if the account is closed.
func (a Account) CheckOpen() error {
	if a.Status() == StatusClosed {
		return fault.AccountClosed.With("the account is closed")
	}
	return nil
}

// Plans returns the plans that accounts can have, with the limits for a new account.
func Plans() []Plan {
	return []Plan{
		{Name: "api_starter", TenantSlots: 25},
		{Name: "api_growth", TenantSlots: 50, AutomaticDNS: true},
		{Name: "api_scale", TenantSlots: 100, AutomaticDNS: true},
		{Name: "complete", TenantSlots: 100, AutomaticDNS: true},
		{Name: "legacy_trial", TenantSlots: 5},
	}
}

// UnknownPlan returns the invalid_request error for an unknown plan. It lists the known plans.
func UnknownPlan() error {
	var names []string
	for _, plan := range Plans() {
		names = append(names, plan.Name)
	}
	return fault.InvalidRequest.With("there is no such plan; the plans are %s", strings.Join(names, ", "))
}

// CheckActive fails with no_api_plan if the account is not active.
func (a Account) CheckActive() error {
	if !a.Active {
		return fault.NoAPIPlan.With("the account has no active API plan")
	}
	return nil
}

// CheckFreeSlot fails with tenant_limit_reached if the number of tenants has reached the slots of
// the plan. For a new connect link, the caller counts only the tenants with a valid consent,
// because a link that reconnects a tenant needs no new slot. For a tenant that the account does not
// have yet, the caller counts all tenants of the account.
func (a Account) CheckFreeSlot(tenants int) error {
	if tenants >= a.Plan.TenantSlots {
		return fault.TenantLimitReached.With("all %d tenant slots of the plan are taken", a.Plan.TenantSlots)
	}
	return nil
}

// CheckMayAutomateDNS fails with dns_automation_not_in_plan if the plan has no automatic DNS.
func (a Account) CheckMayAutomateDNS() error {
	if !a.Plan.AutomaticDNS {
		return fault.DNSAutomationNotInPlan.With("automatic DNS is not part of the account's plan")
	}
	return nil
}

// CheckMayGrow fails with tenant_limit_reached if the account has more tenants than its plan
// allows, for example after a downgrade. Such an account may not add domains, mailboxes or DNS
// records to its tenants, or begin sign-in sessions. tenantCount is the number of its tenants.
func (a Account) CheckMayGrow(tenantCount int) error {
	if tenantCount > a.Plan.TenantSlots {
		return fault.TenantLimitReached.With("the account has %d tenants, but its plan allows only %d", tenantCount, a.Plan.TenantSlots)
	}
	return nil
}

// maxEmailLength is the maximum length of an e-mail address, in octets.
const maxEmailLength = 254

// CheckEmail returns an error if the text cannot be a member's address. It checks only the form.
func CheckEmail(email string) error {
	local, host, _ := strings.Cut(email, "@")
	forbidden := func(r rune) bool { return r == '@' || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if local == "" || host == "" || len(email) > maxEmailLength || strings.ContainsFunc(local+host, forbidden) {
		return fault.InvalidRequest.With("an e-mail address has the form name@host")
	}
	return nil
}
