// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"strings"
	"time"
)

// model is what a person who only knows what was sent and set would say of a
// tenant.
type model struct {
	place  *time.Location
	sent   map[string][]time.Time // by address, without what was refused
	limits map[string]int         // by domain, "" for the whole tenant
	own    map[string]int         // by address
}

func newModel() *model {
	return &model{place: time.UTC, sent: map[string][]time.Time{}, limits: map[string]int{}, own: map[string]int{}}
}

// today is how many messages an address sent on the day in which now lies.
func (m *model) today(address string, now time.Time) (n int) {
	date := now.In(m.place).Format(time.DateOnly)
	for _, at := range m.sent[address] {
		if at.In(m.place).Format(time.DateOnly) == date {
			n++
		}
	}
	return n
}

// blocked reports whether an address sent more than it may.
func (m *model) blocked(address string, now time.Time) bool {
	_, name, _ := strings.Cut(address, "@")
	limit, enforced := m.limits[name]
	if !enforced {
		limit, enforced = m.limits[""]
	}
	if own := m.own[address]; own > 0 {
		limit = own
	}
	return enforced && m.today(address, now) > limit
}
