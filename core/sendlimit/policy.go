// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"fmt"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
)

// MinLimit and MaxLimit bound a daily limit, in messages.
const (
	MinLimit = 1
	MaxLimit = 25
)

// CheckLimit fails with invalid_send_limit unless the limit is between MinLimit and MaxLimit.
func CheckLimit(perDay int) error {
	if perDay < MinLimit || perDay > MaxLimit {
		requirement := fmt.Sprintf("an integer from %d to %d", MinLimit, MaxLimit)
		return fault.InvalidSendLimit.At("the daily send limit is not "+requirement, fault.Field{Name: "daily_send_limit", Message: requirement})
	}
	return nil
}

// Policies maps the scopes of a tenant's policies to their limits. A scope is a domain or
// TenantWide.
type Policies map[string]int

// TenantWide is the scope of a policy for all of a tenant's domains.
const TenantWide = ""

// Covering returns the scope whose policy applies to the mailboxes of a domain: the domain itself
// if it has a policy, otherwise TenantWide. covered is false when neither has a policy.
func (p Policies) Covering(domain string) (scope string, covered bool) {
	if _, hasPolicy := p[domain]; hasPolicy {
		return domain, true
	}
	_, covered = p[TenantWide]
	return TenantWide, covered
}

// Effective returns the limit that applies to a mailbox of a domain. It is the mailbox's own limit,
// or the limit of the covering policy if ownLimit is 0. Without a limit it returns 0.
func (p Policies) Effective(ownLimit int, domain string) int {
	if ownLimit > 0 {
		return ownLimit
	}
	scope, covered := p.Covering(domain)
	if !covered {
		return 0
	}
	return p[scope]
}

// Policy is the limit that is enforced for a scope of a tenant.
type Policy struct {
	ID     string // UUIDv7
	Tenant tenant.GUID
	Scope  string // a domain, or TenantWide
	// PerDay is the limit in messages, 0 until the policy has been applied for the first time.
	PerDay int
	// RuleID is the platform's id of the scope's rule. It is empty until a call of Set has found the
	// rule. A pass of enforcement that creates the rule does not store the id.
	RuleID, RuleName     string
	CreatedAt, UpdatedAt time.Time
}

// Covers reports whether the policy's scope contains a domain.
func (p Policy) Covers(domain string) bool { return p.Scope == TenantWide || p.Scope == domain }

// Label returns the scope's name in the API: "tenant" or the domain.
func (p Policy) Label() string {
	if p.Scope == TenantWide {
		return "tenant"
	}
	return p.Scope
}

// ByScope returns the limits of policies, keyed by scope.
func ByScope(policies []Policy) Policies {
	limits := make(Policies, len(policies))
	for _, p := range policies {
		limits[p.Scope] = p.PerDay
	}
	return limits
}

// PolicyResult is the result of applying a policy.
type PolicyResult string

// The results of applying a policy.
const (
	Created   PolicyResult = "created"
	Updated   PolicyResult = "updated"
	Unchanged PolicyResult = "unchanged"
)

// With returns the policy with a new limit and the platform's rule r. The result says whether the
// call created the policy or its rule, updated one of them, or left both unchanged. A concurrent
// call may find the rule that this call created, and store and report it first. This call then does
// not report the rule as created.
func (p Policy) With(perDay int, r Rule, now time.Time) (Policy, PolicyResult) {
	before := p
	p.PerDay = perDay
	if r.ID != "" {
		p.RuleID = r.ID
	}
	switch {
	case before.PerDay == 0 || r.Created && p.RuleID != before.RuleID:
		p.UpdatedAt = now
		return p, Created
	case before.PerDay != perDay || r.Written && !r.Created || p.RuleID != before.RuleID:
		p.UpdatedAt = now
		return p, Updated
	}
	return p, Unchanged
}
