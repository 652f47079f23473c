// SPDX-License-Identifier: Apache-2.0

package webhook

import "time"

// Standing says how likely an endpoint is to answer in time. A message occupies one of the
// sender's slots until its try ends, so endpoints that may not answer get fewer slots.
type Standing int

// The standings of an endpoint.
const (
	// Failing means that Webhook.IsFailing returns true.
	Failing Standing = iota
	// Unproven is the standing of all other endpoints. An endpoint that is not failing stays
	// unproven until it has accepted a message from this process.
	Unproven
	// Proven means that the endpoint is not failing, that it accepted the message of the last try
	// that ended, and that no try in progress has lasted for SlowAfter.
	Proven
)

// SlowAfter is how long a try may last before the endpoint counts as unproven.
const SlowAfter = 2 * time.Second

// Responsiveness is how an endpoint has answered the messages of one process.
type Responsiveness struct {
	// Accepted is true if the endpoint accepted the message of the last try that ended.
	Accepted bool
	// OldestTry is the age of the oldest try in progress, 0 if there is none.
	OldestTry time.Duration
}

// Standing returns the standing of the webhook's endpoint.
func (w Webhook) Standing(r Responsiveness) Standing {
	switch {
	case w.IsFailing():
		return Failing
	case !r.Accepted || r.OldestTry >= SlowAfter:
		return Unproven
	default:
		return Proven
	}
}

// MaxParallel returns how many deliveries may be sent to an endpoint at the same time. An endpoint
// that is not proven gets only one, so that an endpoint that hangs occupies only one slot.
func (s Standing) MaxParallel() int {
	if s == Proven {
		return MaxConcurrent
	}
	return 1
}

// MaxSlots returns how many of a sender's slots the endpoints with this standing or a lower
// standing can use together. Failing endpoints can use half of the slots. Failing and unproven
// endpoints together can use three quarters. The other slots stay free for endpoints that are more
// likely to answer.
func (s Standing) MaxSlots(slots int) int {
	switch s {
	case Failing:
		return slots / 2
	case Unproven:
		return slots * 3 / 4
	default:
		return slots
	}
}
