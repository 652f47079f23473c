// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"slices"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

// maxAccepted is of how many webhooks a process knows that their endpoint accepts messages.
const maxAccepted = 100_000

// slots are the slots of a process for tries, with what the process has seen of the endpoints. An
// endpoint that hangs keeps a slot for 15 s, so the standing of an endpoint limits its slots.
type slots struct {
	all int

	mu       sync.Mutex // guards the fields below
	idle     *sync.Cond // signalled when no slot is in use
	used     ports.Slots
	waiting  map[string][]*startedTry // tries without an answer so far, by webhook
	accepted map[string]bool          // webhooks whose last try was accepted
	closed   bool
}

// startedTry is a try in progress.
type startedTry struct {
	standing webhook.Standing // of its slot
	began    time.Time
}

func newSlots(all int) *slots {
	s := &slots{all: all, waiting: map[string][]*startedTry{}, accepted: map[string]bool{}}
	s.idle = sync.NewCond(&s.mu)
	return s
}

// take takes at most n slots. closed is true if no tries may begin any more.
func (s *slots) take(n int) (taken ports.Slots, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return taken, true
	}
	free := func(standing webhook.Standing, used int) int { return max(0, standing.Share(s.all)-used) }
	taken.All = min(n, free(webhook.Proven, s.used.All))
	taken.Unproven = min(taken.All, free(webhook.Unproven, s.used.Unproven+s.slow()))
	taken.Failing = min(taken.Unproven, free(webhook.Failing, s.used.Failing))
	taken.Conduct = s.conduct
	s.used.All += taken.All
	s.used.Unproven += taken.Unproven
	s.used.Failing += taken.Failing
	return taken, false
}

// slow counts the tries that began at a proven endpoint and have waited too long for its answer.
func (s *slots) slow() (n int) {
	for _, tries := range s.waiting {
		for _, t := range tries {
			if t.standing == webhook.Proven && time.Since(t.began) >= webhook.SlowAfter {
				n++
			}
		}
	}
	return n
}

func (s *slots) conduct(webhookID string) webhook.Conduct {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := webhook.Conduct{Accepted: s.accepted[webhookID]}
	for _, t := range s.waiting[webhookID] {
		c.Waiting = max(c.Waiting, time.Since(t.began))
	}
	return c
}

// giveBack gives back slots.
func (s *slots) giveBack(unused ports.Slots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used.All -= unused.All
	s.used.Unproven -= unused.Unproven
	s.used.Failing -= unused.Failing
	if s.used.All == 0 {
		s.idle.Broadcast()
	}
}

// begin notes that a try waits for the answer of an endpoint, in a slot that was taken.
func (s *slots) begin(webhookID string, standing webhook.Standing) *startedTry {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &startedTry{standing: standing, began: time.Now()}
	s.waiting[webhookID] = append(s.waiting[webhookID], t)
	return t
}

// answered notes that a try waits no longer, and whether the endpoint accepted the message.
func (s *slots) answered(webhookID string, t *startedTry, accepted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := slices.DeleteFunc(s.waiting[webhookID], func(other *startedTry) bool { return other == t })
	if s.waiting[webhookID] = left; len(left) == 0 {
		delete(s.waiting, webhookID)
	}
	if len(s.accepted) == maxAccepted {
		clear(s.accepted) // webhooks that were deleted would stay forever
	}
	if accepted {
		s.accepted[webhookID] = true
	} else {
		delete(s.accepted, webhookID)
	}
}

// end gives back the slot of a try.
func (s *slots) end(t *startedTry) {
	taken := ports.Slots{All: 1, Unproven: 1, Failing: 1}
	taken.Take(t.standing)
	s.giveBack(ports.Slots{All: 1 - taken.All, Unproven: 1 - taken.Unproven, Failing: 1 - taken.Failing})
}

// close makes take take no more slots.
func (s *slots) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// waitIdle waits until no slot is in use.
func (s *slots) waitIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.used.All > 0 {
		s.idle.Wait()
	}
}
