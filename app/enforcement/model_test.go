// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"strings"
	"time"
)

// model computes the expected state of a tenant, without the code under test.
type model struct {
	location  *time.Location
	sent      map[string][]time.Time // times of the accepted messages, by address
	limits    map[string]int         // limits by domain; "" is the whole tenant
	ownLimits map[string]int         // limits of single mailboxes, by address
}

func newModel() *model {
	return &model{location: time.UTC, sent: map[string][]time.Time{}, limits: map[string]int{}, ownLimits: map[string]int{}}
}

// today returns how many messages an address sent on the day of now.
func (m *model) today(address string, now time.Time) (n int) {
	date := now.In(m.location).Format(time.DateOnly)
	for _, at := range m.sent[address] {
		if at.In(m.location).Format(time.DateOnly) == date {
			n++
		}
	}
	return n
}

// blocked reports whether an address sent more than its limit on the day of now.
func (m *model) blocked(address string, now time.Time) bool {
	_, domainName, _ := strings.Cut(address, "@")
	limit, enforced := m.limits[domainName]
	if !enforced {
		limit, enforced = m.limits[""]
	}
	if ownLimit := m.ownLimits[address]; ownLimit > 0 {
		limit = ownLimit
	}
	return enforced && m.today(address, now) > limit
}
