// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"time"

	"github.com/tenantry/tenantry/core/dns"
)

// Timetable is how patient jobs are.
type Timetable struct {
	// First is the pause after a first try; each further one is twice as long,
	// up to Longest.
	First, Longest time.Duration
	// Between lies between the two reads that prove publication.
	Between time.Duration
	// Unreliable is how long a plan waits for a reliable read.
	Unreliable time.Duration
	// Told is the longest wait that a provider, or a resolver's memory of a
	// record that was not there, can impose.
	Told time.Duration
	// Limit is how long a stage may take, not counting the time that a
	// provider was out of reach, of which Limit counts too.
	Limit time.Duration
}

// Usual is the timetable of the service.
var Usual = Timetable{
	First: 15 * time.Second, Longest: 15 * time.Minute, Between: 10 * time.Second,
	Unreliable: time.Hour, Told: time.Hour, Limit: 48 * time.Hour,
}

const (
	mostMoves  = 3  // of a zone under a plan
	mostFaults = 20 // of ours in a row
)

// Moment is when a decision is made. Chance, from 0 to below 1, spreads the
// pauses of jobs that were begun together.
type Moment struct {
	Now    time.Time
	Chance float64
}

// pause is how long to wait after some tries: up to a fifth shorter by chance.
func (t Timetable) pause(tries int, chance float64) time.Duration {
	p := t.First
	for range tries {
		if p >= t.Longest {
			break
		}
		p *= 2
	}
	p = min(p, t.Longest)
	return p - time.Duration(float64(p/5)*chance)
}

// since is how long ago something was, whichever way clocks were set meanwhile.
func since(then, now time.Time) time.Duration { return max(0, now.Sub(then)) }

// overdue reports whether a job's stage has taken too long.
func (t Timetable) overdue(j Job, now time.Time) bool {
	lost := j.Away
	if !j.AwaySince.IsZero() {
		lost += since(j.AwaySince, now)
	}
	return since(j.Since, now)-min(lost, t.Limit) >= t.Limit
}

// timeout is what is required when a stage has taken too long.
func (s Stage) timeout() dns.ActionRequired {
	switch s {
	case StagePlan, StageApply, StagePropagation:
		return PropagationTimeout
	case StageDomainVerification:
		return VerificationTimeout
	default:
		return DKIMTimeout
	}
}
