// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"time"

	"github.com/tenantry/tenantry/core/dns"
)

// RetryPolicy holds the retry delays and timeouts of jobs.
type RetryPolicy struct {
	// FirstPause is the pause after the first try of a step. The pause doubles with each further
	// try, up to LongestPause.
	FirstPause, LongestPause time.Duration
	// BetweenReads is the minimum time between the two reads that confirm publication.
	BetweenReads time.Duration
	// UnreliableLimit is how long a job waits for a reliable read of the DNS, and for the plugin of
	// a DNS provider.
	UnreliableLimit time.Duration
	// MaxWait is the longest wait that a provider or a cached negative answer can impose.
	MaxWait time.Duration
	// StageLimit is the time limit of a stage. The time during which a provider was unavailable
	// does not count, up to a total of StageLimit.
	StageLimit time.Duration
	// CountIdle makes the time for which a due job was not attempted count towards the limits. The
	// sandbox sets it, because its clock moves in jumps, and a jump stands for time that has
	// passed.
	CountIdle bool
}

// DefaultRetryPolicy is the policy that the service uses outside the sandbox.
var DefaultRetryPolicy = RetryPolicy{
	FirstPause: 15 * time.Second, LongestPause: 15 * time.Minute, BetweenReads: 10 * time.Second,
	UnreliableLimit: time.Hour, MaxWait: time.Hour, StageLimit: 48 * time.Hour,
}

const (
	maxZoneChanges = 3  // changes of the zone after it was planned
	maxFaults      = 20 // consecutive faults
)

// Moment holds the time of a decision and Chance, a random number in [0, 1). Chance shortens
// pauses, so that jobs that started together do not try again together.
type Moment struct {
	Now    time.Time
	Chance float64
}

// pause returns the wait after a try, shortened at random by up to a fifth. tries is the number of
// earlier tries of the step.
func (p RetryPolicy) pause(tries int, chance float64) time.Duration {
	pause := p.FirstPause
	for range tries {
		if pause >= p.LongestPause {
			break
		}
		pause *= 2
	}
	pause = min(pause, p.LongestPause)
	return pause - time.Duration(float64(pause/5)*chance)
}

// elapsed returns the time from then to now, 0 if the clock stepped back.
func elapsed(then, now time.Time) time.Duration { return max(0, now.Sub(then)) }

func (p RetryPolicy) isOverdue(j Job, now time.Time) bool {
	outage := j.OutageTime
	if !j.OutageSince.IsZero() {
		outage += elapsed(j.OutageSince, now)
	}
	return elapsed(j.StageSince, now)-min(outage, p.StageLimit) >= p.StageLimit
}

func (s Stage) timeoutAction() dns.ActionRequired {
	switch s {
	case StagePlan, StageApply, StagePropagation:
		return PropagationTimeout
	case StageDomainVerification:
		return VerificationTimeout
	default:
		return DKIMTimeout
	}
}
