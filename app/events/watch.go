// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/panics"
)

// watchEvery is how often the ends of the logs are read while a caller waits. The log can grow in
// other processes, which do not wake this one.
const watchEvery = 250 * time.Millisecond

// watch holds the callers that wait for events. One goroutine reads the ends of the logs for all of
// them. It ends when no caller waits.
type watch struct {
	mu sync.Mutex
	// waiters are the callers that the current goroutine serves. Each new goroutine gets a new map,
	// because the previous goroutine ends only when it finds its own map empty.
	waiters map[*waiter]bool
	stopped bool
}

// The results of a wait.
const (
	eventArrived      = true
	endedWithoutEvent = false
)

// waiter is a caller that waits for an event after a position.
type waiter struct {
	owner access.AccountID
	after int64
	woken chan bool // receives eventArrived or endedWithoutEvent
}

// waitForEvent returns true as soon as the account's log has an event whose position is greater
// than after. It returns false when ctx ends, the service stops or the polling panics.
func (s *Service) waitForEvent(ctx context.Context, owner access.AccountID, after int64) bool {
	self := &waiter{owner: owner, after: after, woken: make(chan bool, 1)}
	if !s.addWaiter(self) {
		return false
	}
	defer s.watch.removeWaiter(self)
	select {
	case woken := <-self.woken:
		return woken
	case <-ctx.Done():
		return false
	}
}

// addWaiter adds a waiter, and starts the goroutine for the first one. It returns false if the
// service has been stopped.
func (s *Service) addWaiter(added *waiter) bool {
	w := &s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return false
	}
	if len(w.waiters) == 0 {
		served := map[*waiter]bool{}
		w.waiters = served
		panics.Go(func() { s.pollLogs(served) }, func(e *panics.Error) {
			s.Log.Error("panic", "type", e.Type, "stack", e.Stack)
			w.endWaits()
		})
	}
	w.waiters[added] = true
	return true
}

func (w *watch) removeWaiter(ended *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiters, ended)
}

// endWaits ends the waits of all waiters without an event.
func (w *watch) endWaits() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for caller := range w.waiters {
		caller.wake(endedWithoutEvent)
	}
	clear(w.waiters) // without waiters, the goroutine ends
}

// Stop ends all waits. A later call of List does not wait.
func (s *Service) Stop() {
	s.watch.mu.Lock()
	s.watch.stopped = true
	s.watch.mu.Unlock()
	s.watch.endWaits()
}

// wake ends the wait of a waiter, unless the wait has ended already. result is eventArrived or
// endedWithoutEvent.
func (self *waiter) wake(result bool) {
	select {
	case self.woken <- result:
	default:
	}
}

// pollLogs wakes the callers whose logs have grown, until no caller waits. After an error of the
// store it tries again at the next tick.
func (s *Service) pollLogs(served map[*waiter]bool) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for ; ; <-ticker.C {
		owners := s.watch.owners(served)
		if len(owners) == 0 {
			return
		}
		last, err := s.Events.LastEvents(context.Background(), owners...)
		if err != nil {
			s.Log.Warn("the last events of the logs could not be read", "error", err)
			continue
		}
		s.watch.wakeAfter(served, last)
	}
}

// owners returns the accounts for which callers wait.
func (w *watch) owners(served map[*waiter]bool) (owners []access.AccountID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for caller := range served {
		owners = append(owners, caller.owner)
	}
	slices.Sort(owners)
	return slices.Compact(owners)
}

// wakeAfter wakes the callers whose account's log has an event after the caller's position. last
// holds the position of the last event of each account.
func (w *watch) wakeAfter(served map[*waiter]bool, last map[access.AccountID]int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for caller := range served {
		if last[caller.owner] > caller.after {
			caller.wake(eventArrived)
		}
	}
}
