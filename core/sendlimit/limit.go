// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"fmt"

	"github.com/tenantry/tenantry/core/fault"
)

// Least and Most bound a daily limit, in messages.
const (
	Least = 1
	Most  = 25
)

// Valid returns nil for a limit between Least and Most, else an invalid_send_limit error.
func Valid(perDay int) error {
	if perDay < Least || perDay > Most {
		why := fmt.Sprintf("an integer from %d to %d", Least, Most)
		return fault.InvalidSendLimit.At("the daily send limit is not "+why, fault.Field{Location: "body.daily_send_limit", Message: why})
	}
	return nil
}

// Policies maps the scope of each policy of a tenant, a domain or TenantWide, to its limit.
type Policies map[string]int

// TenantWide is the scope of a policy for all of a tenant's domains.
const TenantWide = ""

// Covering returns the scope whose rule blocks the mailboxes of a domain: the domain's own, else
// TenantWide. covered is false when neither has a policy, so that no limit is enforced.
func (p Policies) Covering(domain string) (scope string, covered bool) {
	if _, has := p[domain]; has && domain != TenantWide {
		return domain, true
	}
	_, covered = p[TenantWide]
	return TenantWide, covered
}

// Effective returns the limit that applies to a mailbox of a domain. It is the mailbox's own limit,
// or that of the covering policy if own is 0. It returns 0 when there is no limit.
func (p Policies) Effective(own int, domain string) int {
	if own > 0 {
		return own
	}
	scope, covered := p.Covering(domain)
	if !covered {
		return 0
	}
	return p[scope]
}
