// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"time"

	"github.com/tenantry/tenantry/core/tenant"
)

// Policy is the limit that is enforced for a scope of a tenant.
type Policy struct {
	ID     string // UUIDv7
	Tenant tenant.GUID
	Scope  string // a domain, or TenantWide
	// PerDay is the limit in messages, 0 until the policy has been applied for the first time.
	PerDay int
	// RuleID is the platform's id of the scope's rule, empty until the rule exists.
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
func ByScope(all []Policy) Policies {
	limits := make(Policies, len(all))
	for _, p := range all {
		limits[p.Scope] = p.PerDay
	}
	return limits
}

// Set is the result of applying a policy.
type Set string

// The results of applying a policy.
const (
	Created   Set = "created"
	Updated   Set = "updated"
	Unchanged Set = "unchanged"
)

// With returns the policy with a new limit and the platform's rule r, and whether that created it,
// updated it or left it unchanged.
func (p Policy) With(perDay int, r Rule, now time.Time) (Policy, Set) {
	was := p
	p.PerDay = perDay
	if r.ID != "" {
		p.RuleID = r.ID
	}
	switch {
	case was.PerDay == 0 || r.Made:
		p.UpdatedAt = now
		return p, Created
	case was.PerDay != perDay || r.Written || p.RuleID != was.RuleID:
		p.UpdatedAt = now
		return p, Updated
	}
	return p, Unchanged
}
