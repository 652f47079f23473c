// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/ports"
)

// memoryLog holds the logs of several accounts in memory. LoggedEvents ignores the limit of a
// query, and all types in the query except the first.
type memoryLog struct {
	mu      sync.Mutex
	types   map[access.AccountID][]event.Type // the types of all events, oldest first
	polls   int                               // number of calls of LastEvents
	failing bool                              // if set, LastEvents fails
}

// add appends an event of this type to the log of an account.
func (l *memoryLog) add(owner access.AccountID, eventType event.Type) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.types[owner] = append(l.types[owner], eventType)
}

func (l *memoryLog) LoggedEvents(_ context.Context, owner access.AccountID, q ports.LogQuery) (page ports.LogPage, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	page.Next = int64(len(l.types[owner]))
	for _, eventType := range l.types[owner][q.After:] {
		if len(q.Types) == 0 || eventType == q.Types[0] {
			page.Events = append(page.Events, event.Event{Type: eventType})
		}
	}
	return page, nil
}

func (l *memoryLog) LastEvents(_ context.Context, owners ...access.AccountID) (map[access.AccountID]int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.polls++
	if l.failing {
		return nil, errors.New("the database is away")
	}
	last := map[access.AccountID]int64{}
	for _, owner := range owners {
		last[owner] = int64(len(l.types[owner]))
	}
	return last, nil
}

func (*memoryLog) DropEvents(context.Context, time.Time) (int, error) { return 0, nil }

func newService() (*Service, *memoryLog) {
	log := &memoryLog{types: map[access.AccountID][]event.Type{}}
	return &Service{Events: log, Now: time.Now, Log: slog.New(slog.DiscardHandler)}, log
}

// waitWithoutSlot is the idle argument of List for a caller that holds no slot while it waits.
func waitWithoutSlot(wait func()) error { wait(); return nil }

// TestAWaitEndsWithinASecondOfItsEvent checks that a wait ends within a second of an event of the
// requested type, or when the time of the wait is over. Three callers cause no more reads of the
// last events than one caller. Nothing is read while no caller waits.
func TestAWaitEndsWithinASecondOfItsEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := newService()
		start := time.Now()
		var callers sync.WaitGroup
		for _, owner := range []access.AccountID{"ann", "ann", "bob"} {
			callers.Go(func() {
				q := ports.LogQuery{Types: []event.Type{event.DomainVerified}, Limit: 10}
				page, err := s.List(t.Context(), owner, q, 30*time.Second, waitWithoutSlot)
				took := time.Since(start)
				switch {
				case err != nil:
					t.Error(err)
				case owner == "ann" && (len(page.Events) != 1 || took < 9*time.Second || took > 10*time.Second):
					t.Errorf("ann got %d events after %s, want 1 event after 9 to 10 seconds", len(page.Events), took)
				case owner == "bob" && (len(page.Events) != 0 || took != 30*time.Second):
					t.Errorf("bob got %d events after %s, want none after 30 seconds", len(page.Events), took)
				}
			})
		}
		time.Sleep(5 * time.Second)
		log.add("ann", event.DomainAdded) // not the requested type
		time.Sleep(4 * time.Second)
		log.add("ann", event.DomainVerified)
		callers.Wait()
		synctest.Wait()
		if limit := int(30*time.Second/watchEvery) + 2; log.polls > limit {
			t.Errorf("the last events were read %d times, want at most %d", log.polls, limit)
		}
		pollsBefore := log.polls
		time.Sleep(time.Minute)
		if log.polls != pollsBefore {
			t.Error("the last events are read although no caller waits")
		}
	})
}

func TestStopEndsAllWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newService()
		start := time.Now()
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() {
				if _, err := s.List(t.Context(), "ann", ports.LogQuery{}, 30*time.Second, waitWithoutSlot); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		s.Stop()
		callers.Wait()
		if _, err := s.List(t.Context(), "ann", ports.LogQuery{}, 30*time.Second, waitWithoutSlot); err != nil || time.Since(start) != 0 {
			t.Errorf("the waits ended after %s with the error %v, want them to end at once without an error", time.Since(start), err)
		}
		time.Sleep(watchEvery) // the goroutine that polls the logs ends
	})
}

func TestWaitContinuesWhileTheLogFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := newService()
		log.failing = true
		time.AfterFunc(time.Second, func() {
			log.add("ann", event.DomainAdded)
			log.mu.Lock()
			defer log.mu.Unlock()
			log.failing = false
		})
		page, err := s.List(t.Context(), "ann", ports.LogQuery{}, 30*time.Second, waitWithoutSlot)
		if err != nil || len(page.Events) != 1 {
			t.Errorf("got %d events and the error %v, want one event", len(page.Events), err)
		}
		time.Sleep(watchEvery) // the goroutine that polls the logs ends
	})
}

// TestListReturnsTheErrorOfIdle checks that List fails if idle fails, for example because the
// caller gets no slot again.
func TestListReturnsTheErrorOfIdle(t *testing.T) {
	s, _ := newService()
	errNoSlot := errors.New("no slot")
	if _, err := s.List(t.Context(), "ann", ports.LogQuery{}, time.Second, func(func()) error { return errNoSlot }); !errors.Is(err, errNoSlot) {
		t.Errorf("got the error %v, want %v", err, errNoSlot)
	}
}
