// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"strconv"
	"strings"
	"time"
)

// NegativeTTL returns how long resolvers cache the absence of a record of the zone: min(SOA TTL,
// SOA MINIMUM), as in RFC 2308. It returns 0 when unknown.
func (s Sight) NegativeTTL() time.Duration {
	soa := Find(s.Sets, s.Zone, SOA)
	if len(soa.Values) == 0 {
		return 0
	}
	fields := strings.Fields(soa.Values[0])
	if len(fields) != 7 {
		return 0
	}
	minimum, err := strconv.ParseUint(fields[6], 10, 31)
	if err != nil || soa.TTL < 0 {
		return 0
	}
	return time.Duration(min(soa.TTL, int(minimum))) * time.Second
}
