// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"hash/fnv"
	"time"

	"github.com/tenantry/tenantry/core/tenant"
)

// How long a tenant's counts may be old. The platform's own trace is minutes
// late, so asking it more often than Soonest shows nothing new.
const (
	Soonest = 5 * time.Minute
	Latest  = 30 * time.Minute
)

// Next is when a tenant is looked at again after a moment: sooner the closer
// one of its mailboxes is to its limit, and when its day turns if that lets
// one go. Tenants that need the same come spread over a tenth of the time.
func Next(id tenant.GUID, policies Policies, boxes []Box, day Day, now time.Time) time.Time {
	closest, held := 0.0, false
	for _, b := range boxes {
		if _, covered := policies.Covering(b.Domain); !covered {
			continue
		}
		held = held || b.blocked()
		if limit := policies.Effective(b.Own, b.Domain); !b.blocked() && limit > 0 {
			closest = max(closest, min(1, float64(b.Sent)/float64(limit)))
		}
	}
	wait := Latest - time.Duration(closest*float64(Latest-Soonest))
	next := now.Add(wait - spread(id, wait/10))
	if held && day.Has(now) && next.After(day.End) {
		return day.End
	}
	return next
}

// spread is a tenant's own part of a time.
func spread(id tenant.GUID, of time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never fails
	return time.Duration(float64(h.Sum32()) / (1 << 32) * float64(of))
}
