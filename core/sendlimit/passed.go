// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"slices"
	"strings"
	"time"
)

// Passed is when a sender sent the message that was one too many on a day, of
// which settled came before the reading. It is not known of one whose limit was
// lowered to what it had sent before.
func (r Reading) Passed(address string, settled, limit int, day Day) (at time.Time, known bool) {
	first := map[string]time.Time{} // a message's rows may differ in when
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
	over := limit - settled
	if over < 0 || over >= len(times) {
		return time.Time{}, false
	}
	return times[over], true
}
