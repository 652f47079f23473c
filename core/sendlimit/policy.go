// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"time"

	"github.com/tenantry/tenantry/core/tenant"
)

// Policy is the limit that is enforced in a scope of a tenant.
type Policy struct {
	ID     string // UUIDv7
	Tenant tenant.GUID
	Scope  string // a domain, or TenantWide
	// PerDay is the limit; 0 as long as the policy is only meant to be.
	PerDay int
	// RuleID is the mail platform's of the scope's rule, empty until it is there.
	RuleID, RuleName     string
	CreatedAt, UpdatedAt time.Time
}

// Covers reports whether a mailbox of a domain lies in the policy's scope.
func (p Policy) Covers(domain string) bool { return p.Scope == TenantWide || p.Scope == domain }

// Label names the scope to callers.
func (p Policy) Label() string {
	if p.Scope == TenantWide {
		return "tenant"
	}
	return p.Scope
}

// ByScope are the limits of policies.
func ByScope(all []Policy) Policies {
	limits := make(Policies, len(all))
	for _, p := range all {
		limits[p.Scope] = p.PerDay
	}
	return limits
}

// Set is what became of a policy and its rule when it was set.
type Set string

// What can become of it.
const (
	Created   Set = "created"
	Updated   Set = "updated"
	Unchanged Set = "unchanged"
)

// With is the policy with a limit and the rule that the platform has for it.
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
