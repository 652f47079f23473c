// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"container/heap"
	"maps"
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/ports"
)

// entry is a wake-up in Local.
type entry struct {
	ports.Wakeup
	failures int
	place    int // in later, or -1 when it is due
}

type job struct{ kind, id string }

func (e *entry) job() job { return job{e.Kind, e.ID} }

// plan says which wake-up is next. It keeps one a job beside the one that
// runs.
type plan struct {
	atOnce  int
	waiting map[job]*entry // all that may run
	later   later          // those of them that are not due
	due     map[access.AccountID][]*entry
	turns   []access.AccountID // of accounts with something due
	active  map[job]bool
	again   map[job]*entry // those whose job is active
	busy    map[access.AccountID]int
	running int
}

func newPlan(atOnce int) plan {
	return plan{
		atOnce: atOnce, waiting: map[job]*entry{}, due: map[access.AccountID][]*entry{},
		active: map[job]bool{}, again: map[job]*entry{}, busy: map[access.AccountID]int{},
	}
}

// add keeps the earlier one of a job.
func (p *plan) add(e *entry) {
	if p.active[e.job()] {
		if known := p.again[e.job()]; known == nil || e.At.Before(known.At) {
			p.again[e.job()] = e
		}
		return
	}
	known := p.waiting[e.job()]
	if known == nil {
		p.waiting[e.job()] = e
		heap.Push(&p.later, e)
		return
	}
	if known.place >= 0 && e.At.Before(known.At) {
		known.At = e.At
		heap.Fix(&p.later, known.place)
	}
}

// take is the next one to run: accounts take turns, none has more than its
// share.
func (p *plan) take(now time.Time) *entry {
	for len(p.later) > 0 && !p.later[0].At.After(now) {
		e := heap.Pop(&p.later).(*entry)
		whose := turn(e.Wakeup)
		if len(p.due[whose]) == 0 {
			p.turns = append(p.turns, whose)
		}
		p.due[whose] = append(p.due[whose], e)
	}
	if p.running >= p.atOnce {
		return nil
	}
	most := share(p.atOnce, p.accounts())
	next := slices.IndexFunc(p.turns, func(a access.AccountID) bool { return p.busy[a] < most })
	if next < 0 {
		return nil
	}
	account := p.turns[next]
	e := p.due[account][0]
	p.due[account] = p.due[account][1:]
	p.turns = slices.Delete(p.turns, next, next+1)
	if len(p.due[account]) > 0 {
		p.turns = append(p.turns, account)
	} else {
		delete(p.due, account)
	}
	delete(p.waiting, e.job())
	p.active[e.job()] = true
	p.busy[account]++
	p.running++
	return e
}

// accounts is how many have work, due or under way.
func (p *plan) accounts() int {
	n := len(p.turns)
	for account := range p.busy {
		if len(p.due[account]) == 0 {
			n++
		}
	}
	return n
}

// done is for one that take gave out.
func (p *plan) done(e *entry) {
	delete(p.active, e.job())
	p.running--
	whose := turn(e.Wakeup)
	if p.busy[whose]--; p.busy[whose] == 0 {
		delete(p.busy, whose)
	}
	if again := p.again[e.job()]; again != nil {
		delete(p.again, e.job())
		p.add(again)
	}
}

// backlog counts what waits by kind.
func (p *plan) backlog(now time.Time) []ports.Backlog {
	kinds := map[string]ports.Backlog{}
	for _, waiting := range []map[job]*entry{p.waiting, p.again} {
		for at, e := range waiting {
			b := kinds[at.kind]
			kinds[at.kind] = ports.Backlog{Kind: at.kind, Waiting: b.Waiting + 1, Late: max(b.Late, now.Sub(e.At))}
		}
	}
	return slices.SortedFunc(maps.Values(kinds), byKind)
}

// nextAt is when the next one falls due that is not.
func (p *plan) nextAt() (time.Time, bool) {
	if len(p.later) == 0 {
		return time.Time{}, false
	}
	return p.later[0].At, true
}

// later is a heap, the earliest first.
type later []*entry

func (l later) Len() int           { return len(l) }
func (l later) Less(i, j int) bool { return l[i].At.Before(l[j].At) }
func (l later) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].place, l[j].place = i, j
}

// Push is heap.Interface's.
func (l *later) Push(x any) {
	e := x.(*entry)
	e.place = len(*l)
	*l = append(*l, e)
}

// Pop is heap.Interface's.
func (l *later) Pop() any {
	last := len(*l) - 1
	e := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	e.place = -1
	return e
}
