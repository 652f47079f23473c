// SPDX-License-Identifier: Apache-2.0

package webhook

import "time"

// Standing says how likely a message to an endpoint occupies a sender for long.
type Standing int

// The standings of an endpoint.
const (
	// Failing means that the last tries failed.
	Failing Standing = iota
	// Unproven means that nothing is known of the endpoint, or that it leaves a message without an
	// answer.
	Unproven
	// Proven means that the endpoint accepted its last message and answers in time.
	Proven
)

// SlowAfter is how long a try may last before its endpoint is unproven again.
const SlowAfter = 2 * time.Second

// Conduct is what a process has seen of an endpoint.
type Conduct struct {
	// Accepted is true if the endpoint accepted the message of the last try that ended.
	Accepted bool
	// Waiting is how long the oldest try in progress lasts, 0 if there is none.
	Waiting time.Duration
}

// Standing returns the standing of the webhook's endpoint.
func (w Webhook) Standing(c Conduct) Standing {
	switch {
	case w.Failing():
		return Failing
	case !c.Accepted || c.Waiting >= SlowAfter:
		return Unproven
	default:
		return Proven
	}
}

// Concurrent returns how many deliveries may be sent to an endpoint at the same time. An endpoint
// that is not proven gets one, so that an endpoint that hangs needs few connections.
func (s Standing) Concurrent() int {
	if s == Proven {
		return MaxConcurrent
	}
	return 1
}

// Share returns how many of a sender's slots the endpoints with this standing and with lower ones get
// together. Failing endpoints get at most half of the slots, and those that are not proven three
// quarters. The others therefore stay free for endpoints that are more likely to answer.
func (s Standing) Share(slots int) int {
	switch s {
	case Failing:
		return slots / 2
	case Unproven:
		return slots * 3 / 4
	default:
		return slots
	}
}
