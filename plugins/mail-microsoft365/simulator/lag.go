// SPDX-License-Identifier: Apache-2.0

package simulator

import "time"

// lag is the time in which something that was done does not show yet.
type lag struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// slack is by how much a call under way may have looked at the clock before
// another one that it then sees the effect of.
const slack = 5 * time.Second

// after begins a lag by a knob's milliseconds.
func after(now time.Time, ms int) lag {
	return lag{Since: now, Until: now.Add(time.Duration(ms) * time.Millisecond)}
}

// over reports whether it shows by now. The sandbox's clock may be moved back:
// what was done at a time that is still to come has long been done, or it would
// be undone for as long as the clock was moved by.
func (l lag) over(now time.Time) bool {
	return !now.Before(l.Until) || now.Before(l.Since.Add(-slack))
}

// begun reports whether there is a lag at all.
func (l lag) begun() bool { return !l.Since.IsZero() }
