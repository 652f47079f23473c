// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"slices"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

// maxAccepted is the maximum number of webhooks in slots.accepted.
const maxAccepted = 100_000

// slots limits how many tries a Worker makes at the same time. A try to an endpoint that hangs
// occupies its slot for 15 s. Endpoints with a lower webhook.Standing therefore get fewer slots.
// slots also records how the endpoints answered, because their standing depends on the answers.
type slots struct {
	total int

	mu           sync.Mutex // guards the fields below
	idle         *sync.Cond // signalled when no slot is in use
	used         ports.Slots
	waitingTries map[string][]*startedTry // tries that wait for the endpoint's answer, by webhook id
	accepted     map[string]bool          // ids of the webhooks whose last try was accepted
	closed       bool
}

// startedTry is a try in progress.
type startedTry struct {
	standing webhook.Standing // the standing of the endpoint when the slot was taken
	began    time.Time
}

func newSlots(total int) *slots {
	s := &slots{total: total, waitingTries: map[string][]*startedTry{}, accepted: map[string]bool{}}
	s.idle = sync.NewCond(&s.mu)
	return s
}

// take takes at most n slots. After close, it takes none and returns true.
func (s *slots) take(n int) (taken ports.Slots, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return taken, true
	}
	free := func(standing webhook.Standing, used int) int { return max(0, standing.MaxSlots(s.total)-used) }
	taken.Total = min(n, free(webhook.Proven, s.used.Total))
	taken.Unproven = min(taken.Total, free(webhook.Unproven, s.used.Unproven+s.countSlowTries()))
	taken.Failing = min(taken.Unproven, free(webhook.Failing, s.used.Failing))
	taken.Responsiveness = s.responsiveness
	s.used.Total += taken.Total
	s.used.Unproven += taken.Unproven
	s.used.Failing += taken.Failing
	return taken, false
}

// countSlowTries counts the tries to proven endpoints that have waited for an answer for
// webhook.SlowAfter or longer.
func (s *slots) countSlowTries() (n int) {
	for _, tries := range s.waitingTries {
		for _, t := range tries {
			if t.standing == webhook.Proven && time.Since(t.began) >= webhook.SlowAfter {
				n++
			}
		}
	}
	return n
}

// responsiveness returns whether the endpoint of a webhook accepted the last message, and the age
// of the oldest try that waits for an answer of the endpoint.
func (s *slots) responsiveness(webhookID string) webhook.Responsiveness {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := webhook.Responsiveness{Accepted: s.accepted[webhookID]}
	for _, t := range s.waitingTries[webhookID] {
		r.OldestTry = max(r.OldestTry, time.Since(t.began))
	}
	return r
}

// release gives back slots that take returned.
func (s *slots) release(released ports.Slots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used.Total -= released.Total
	s.used.Unproven -= released.Unproven
	s.used.Failing -= released.Failing
	if s.used.Total == 0 {
		s.idle.Broadcast()
	}
}

// beginTry records that a try starts in a taken slot and waits for the endpoint's answer.
func (s *slots) beginTry(webhookID string, standing webhook.Standing) *startedTry {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &startedTry{standing: standing, began: time.Now()}
	s.waitingTries[webhookID] = append(s.waitingTries[webhookID], t)
	return t
}

// recordAnswer records that a try no longer waits, and whether the endpoint accepted the message.
func (s *slots) recordAnswer(webhookID string, t *startedTry, accepted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	remaining := slices.DeleteFunc(s.waitingTries[webhookID], func(other *startedTry) bool { return other == t })
	if s.waitingTries[webhookID] = remaining; len(remaining) == 0 {
		delete(s.waitingTries, webhookID)
	}
	if len(s.accepted) == maxAccepted {
		clear(s.accepted) // otherwise the ids of deleted webhooks would stay forever
	}
	if accepted {
		s.accepted[webhookID] = true
	} else {
		delete(s.accepted, webhookID)
	}
}

// endTry releases the slot of a try.
func (s *slots) endTry(t *startedTry) {
	free := ports.Slots{Total: 1, Unproven: 1, Failing: 1}
	free.Take(t.standing) // sets to 0 what a try with this standing uses
	s.release(ports.Slots{Total: 1 - free.Total, Unproven: 1 - free.Unproven, Failing: 1 - free.Failing})
}

// close makes later calls of take return no slots.
func (s *slots) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// waitIdle waits until no slot is in use.
func (s *slots) waitIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.used.Total > 0 {
		s.idle.Wait()
	}
}
