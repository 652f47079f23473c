// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"slices"
	"strings"
	"time"
)

// Passed returns when a sender sent the first message beyond limit on a day. The reading must cover
// the day from its start. known is false when the sender did not exceed the limit.
func (r Reading) Passed(address string, limit int, day Day) (at time.Time, known bool) {
	first := map[string]time.Time{} // a message's rows may have different times
	for _, s := range r.Sent {
		if s.Refused || !strings.EqualFold(s.Sender, address) || !day.Has(s.At) || s.At.Before(r.From) {
			continue
		}
		if seen, has := first[s.Message]; !has || s.At.Before(seen) {
			first[s.Message] = s.At
		}
	}
	times := make([]time.Time, 0, len(first))
	for _, at := range first {
		times = append(times, at)
	}
	slices.SortFunc(times, time.Time.Compare)
	if limit >= len(times) {
		return time.Time{}, false
	}
	return times[limit], true
}
