// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"fmt"

	"github.com/tenantry/tenantry/core/fault"
)

// The bounds of a daily limit.
const (
	Least = 1
	Most  = 25
)

// Valid refuses a limit out of bounds. Refusal: invalid_send_limit.
func Valid(perDay int) error {
	if perDay < Least || perDay > Most {
		why := fmt.Sprintf("an integer from %d to %d", Least, Most)
		return fault.InvalidSendLimit.At("the daily send limit is not "+why, fault.Field{Location: "body.daily_send_limit", Message: why})
	}
	return nil
}

// Policies are the limits of a tenant by their scope: a domain, or TenantWide.
type Policies map[string]int

// TenantWide is the scope of a policy for all of a tenant's domains.
const TenantWide = ""

// Covering is the scope whose rule blocks the mailboxes of a domain: its own,
// else the tenant-wide one. Without either nothing is enforced there.
func (p Policies) Covering(domain string) (scope string, covered bool) {
	if _, has := p[domain]; has && domain != TenantWide {
		return domain, true
	}
	_, covered = p[TenantWide]
	return TenantWide, covered
}

// Effective is the limit that applies to a mailbox of a domain: its own (0 is
// none), else that of the covering policy. 0 is no limit.
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
