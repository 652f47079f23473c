// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"container/heap"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/ports"
)

// entry is a wake-up in a scheduler.
type entry struct {
	ports.Wakeup
	failures  int // the number of consecutive failures of the handler
	heapIndex int // index in scheduler.notDue, -1 after take has found the entry due
}

type jobKey struct{ kind, id string }

func (e *entry) job() jobKey { return jobKey{e.Kind, e.ID} }

// scheduler decides which wake-up of Local starts next. For each job it keeps at most one waiting
// wake-up. While the job's handler runs, it keeps at most one wake-up for the next run.
//
// Fairness groups, as returned by fairnessGroup, have the type access.AccountID.
type scheduler struct {
	maxHandlers int
	waiting     map[jobKey]*entry             // wake-ups whose job is not active, due or not
	notDue      entryHeap                     // the entries of waiting that take has not found due yet
	due         map[access.AccountID][]*entry // the other entries of waiting, by group
	rotation    []access.AccountID            // groups with due entries, in the order in which they are served
	active      map[jobKey]bool               // jobs whose handler runs
	rerun       map[jobKey]*entry             // wake-ups that arrived while their job was active
	busy        map[access.AccountID]int      // number of running handlers, by group
	running     int                           // number of running handlers
}

func newScheduler(maxHandlers int) scheduler {
	return scheduler{
		maxHandlers: maxHandlers, waiting: map[jobKey]*entry{}, due: map[access.AccountID][]*entry{},
		active: map[jobKey]bool{}, rerun: map[jobKey]*entry{}, busy: map[access.AccountID]int{},
	}
}

// add enqueues a wake-up. While the job is active, add keeps only the earliest wake-up, in rerun.
// If the job has a waiting wake-up, that wake-up stays, with the larger number of failures. Unless
// take has found it due, it also gets the due time and the trace of the added wake-up if the added
// wake-up is due earlier.
func (s *scheduler) add(added *entry) {
	if s.active[added.job()] {
		if previous := s.rerun[added.job()]; previous == nil || added.At.Before(previous.At) {
			s.rerun[added.job()] = added
		}
		return
	}
	previous := s.waiting[added.job()]
	if previous == nil {
		s.waiting[added.job()] = added
		heap.Push(&s.notDue, added)
		return
	}
	previous.failures = max(previous.failures, added.failures)
	if previous.heapIndex >= 0 && added.At.Before(previous.At) {
		previous.At, previous.Trace = added.At, added.Trace
		heap.Fix(&s.notDue, previous.heapIndex)
	}
}

// take returns the next wake-up to start and marks its job as active. It serves the groups
// round-robin and skips groups that have used their share. It returns nil if nothing can start.
func (s *scheduler) take(now time.Time) *entry {
	for len(s.notDue) > 0 && !s.notDue[0].At.After(now) {
		earliest := heap.Pop(&s.notDue).(*entry)
		group := fairnessGroup(earliest.Wakeup)
		if len(s.due[group]) == 0 {
			s.rotation = append(s.rotation, group)
		}
		s.due[group] = append(s.due[group], earliest)
	}
	if s.running >= s.maxHandlers {
		return nil
	}
	limit := handlersPerGroup(s.maxHandlers, s.groupCount())
	next := slices.IndexFunc(s.rotation, func(group access.AccountID) bool { return s.busy[group] < limit })
	if next < 0 {
		return nil
	}
	group := s.rotation[next]
	oldest := s.due[group][0]
	s.due[group] = s.due[group][1:]
	s.rotation = slices.Delete(s.rotation, next, next+1)
	if len(s.due[group]) > 0 {
		s.rotation = append(s.rotation, group)
	} else {
		delete(s.due, group)
	}
	delete(s.waiting, oldest.job())
	s.active[oldest.job()] = true
	s.busy[group]++
	s.running++
	return oldest
}

// groupCount returns the number of groups that have due wake-ups or running handlers.
func (s *scheduler) groupCount() int {
	n := len(s.rotation)
	for group := range s.busy {
		if len(s.due[group]) == 0 {
			n++
		}
	}
	return n
}

// handlerReturned records that the handler of an entry from take has returned. If the job was woken
// while the handler ran, handlerReturned enqueues the new wake-up.
func (s *scheduler) handlerReturned(ended *entry) {
	delete(s.active, ended.job())
	s.running--
	group := fairnessGroup(ended.Wakeup)
	if s.busy[group]--; s.busy[group] == 0 {
		delete(s.busy, group)
	}
	if rerun := s.rerun[ended.job()]; rerun != nil {
		delete(s.rerun, ended.job())
		s.add(rerun)
	}
}

// backlog returns the number and the lateness of the waiting wake-ups of each kind, sorted by kind.
func (s *scheduler) backlog(now time.Time) []ports.Backlog {
	kinds := map[string]ports.Backlog{}
	for _, entries := range []map[jobKey]*entry{s.waiting, s.rerun} {
		for key, waiting := range entries {
			counted := kinds[key.kind]
			kinds[key.kind] = ports.Backlog{Kind: key.kind, Waiting: counted.Waiting + 1, Lateness: max(counted.Lateness, now.Sub(waiting.At))}
		}
	}
	return slices.SortedFunc(maps.Values(kinds), func(a, b ports.Backlog) int { return strings.Compare(a.Kind, b.Kind) })
}

func (s *scheduler) nextAt() (time.Time, bool) {
	if len(s.notDue) == 0 {
		return time.Time{}, false
	}
	return s.notDue[0].At, true
}

// entryHeap is a heap of entries, the earliest first.
type entryHeap []*entry

func (h entryHeap) Len() int           { return len(h) }
func (h entryHeap) Less(i, j int) bool { return h[i].At.Before(h[j].At) }
func (h entryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

// Push implements heap.Interface.
func (h *entryHeap) Push(x any) {
	e := x.(*entry)
	e.heapIndex = len(*h)
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *entryHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.heapIndex = -1
	return e
}
