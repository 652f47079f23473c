// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"hash/fnv"
	"time"

	"github.com/tenantry/tenantry/core/tenant"
)

// Soonest and Latest bound the interval between two evaluations of a tenant. The platform's trace
// lags by minutes, so more frequent queries show nothing new.
const (
	Soonest = 5 * time.Minute
	Latest  = 30 * time.Minute
)

// Next returns the time of a tenant's next evaluation. The interval shrinks as a mailbox approaches
// its limit. The end of the day comes first if a mailbox is blocked. A per-tenant offset of up to a
// tenth of the interval spreads the load.
func Next(id tenant.GUID, policies Policies, boxes []Box, day Day, now time.Time) time.Time {
	closest, anyBlocked := 0.0, false
	for _, b := range boxes {
		if _, covered := policies.Covering(b.Domain); !covered {
			continue
		}
		anyBlocked = anyBlocked || b.blocked()
		if limit := policies.Effective(b.Own, b.Domain); !b.blocked() && limit > 0 {
			closest = max(closest, min(1, float64(b.Sent)/float64(limit)))
		}
	}
	wait := Latest - time.Duration(closest*float64(Latest-Soonest))
	next := now.Add(wait - tenantOffset(id, wait/10))
	if anyBlocked && day.Has(now) && next.After(day.End) {
		return day.End
	}
	return next
}

// tenantOffset returns a fixed fraction of most for a tenant, derived from a hash of its id.
func tenantOffset(id tenant.GUID, most time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never fails
	return time.Duration(float64(h.Sum32()) / (1 << 32) * float64(most))
}
