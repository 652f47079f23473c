// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// vanished remembers, of each tenant, mailboxes that the platform did not know
// when it was to block them, so that not each look asks in vain. A sync forgets
// them, or the platform knows them again: hence not for long.
type vanished struct {
	mu sync.Mutex
	of map[tenant.GUID]missing
}

// missing are the ids of mailboxes that were not there.
type missing struct {
	boxes []string
	until time.Time
}

// add remembers more of a tenant's, and forgets all whose time is over.
func (v *vanished) add(id tenant.GUID, boxes []string, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.of == nil {
		v.of = map[tenant.GUID]missing{}
	}
	maps.DeleteFunc(v.of, func(_ tenant.GUID, m missing) bool { return !now.Before(m.until) })
	v.of[id] = missing{append(v.of[id].boxes, boxes...), now.Add(sendlimit.Latest)}
}

// among are the mailboxes of a tenant without those that were not there, of
// which none is blocked.
func (v *vanished) among(id tenant.GUID, boxes []sendlimit.Box, now time.Time) []sendlimit.Box {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := v.of[id]
	if !now.Before(m.until) || m.until.Sub(now) > sendlimit.Latest {
		return boxes
	}
	return slices.DeleteFunc(boxes, func(b sendlimit.Box) bool { return b.BlockedAt.IsZero() && slices.Contains(m.boxes, b.ID) })
}
