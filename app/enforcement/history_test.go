// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

const (
	someHistories = 50
	allHistories  = 10_000
	historyWorks  = 40 // how many things happen in one
	latestRow     = 4 * time.Hour
)

// TestHistories: whatever was sent, set, and went wrong, and wherever processes
// ended or were overtaken, once faults stop state, rules and events agree, each
// block and each release has one event, and exactly those are blocked that sent
// more today than they may. A small part of it, unless TENANTRY_SOAK asks for
// all.
func TestHistories(t *testing.T) {
	many, shards := someHistories, 1
	if os.Getenv("TENANTRY_SOAK") != "" {
		many, shards = allHistories, 50
	}
	for shard := range shards {
		t.Run(fmt.Sprint(shard), func(t *testing.T) {
			t.Parallel()
			store := newStore(t) // shared, as making one takes longer than a history
			for seed := shard; seed < many; seed += shards {
				t.Run(fmt.Sprint(seed), func(t *testing.T) { newHistory(t, store, seed).happens(t) })
			}
		})
	}
}

// history is a house in which things happen by chance.
type history struct {
	*house
	want *model
	*rand.Rand

	log    []string // what happened, for whoever reads a failure
	lifts  []func()
	zones  int
	counts map[string]int // the largest of each mailbox and day so far
	within bool           // a run is under way, which paused
	paused ports.SendRun
	gone   bool      // the tenant is deleted
	ahead  time.Time // the furthest that the service's clock ever was
}

func newHistory(t *testing.T, store *bunstore.Store, seed int) *history {
	t.Helper()
	h := &history{house: numbered(t, store, seed), want: newModel(), Rand: rand.New(rand.NewPCG(uint64(seed), 7)), counts: map[string]int{}}
	t.Cleanup(func() {
		if t.Failed() {
			for _, line := range h.log {
				t.Log(line)
			}
		}
	})
	return h
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf("%s, %s: ", h.fake.Now().Format("02 15:04"), h.now.Format("02 15:04"))+fmt.Sprintf(format, args...))
}

func (h *history) happens(t *testing.T) {
	t.Helper()
	for range historyWorks {
		h.one(t)
		if h.gone {
			h.staysGone(t)
			return
		}
	}
	h.ends(t)
}

// one thing happens.
func (h *history) one(t *testing.T) {
	t.Helper()
	happen := []func(*testing.T){
		h.sends, h.sends, h.sends, h.sets, h.setsOwn, h.fails, h.fails, h.waits, h.crashes, h.crashes, h.runs, h.runs,
		h.moves, h.steps, h.leaps, h.drops, h.pauses, h.pauses, h.blinks,
	}
	if h.IntN(400) == 0 {
		h.deletes(t)
		return
	}
	happen[h.IntN(len(happen))](t)
}

// sends: mail goes out, unless the platform has its sender blocked. It shows in
// the trace some time later.
func (h *history) sends(t *testing.T) {
	t.Helper()
	m, n := h.boxes[h.IntN(len(h.boxes))], 1+h.IntN(9)
	blocked := slices.Contains(h.blocks(t), m.Address)
	h.fake.SetLag(h.id, fake.Lag{Trace: time.Duration(h.IntN(int(latestRow)))})
	sent := h.fake.Send(h.id, m.Address, n)
	h.note("%s sends %d of %d", m.Address, sent, n)
	if blocked != (sent == 0) {
		t.Fatalf("%s sent %d, blocked is %v", m.Address, sent, blocked)
	}
	for range sent {
		h.want.sent[m.Address] = append(h.want.sent[m.Address], h.fake.Now())
	}
}

func (h *history) sets(t *testing.T) {
	t.Helper()
	scope := []string{sendlimit.TenantWide, one, two}[h.IntN(3)]
	if _, err := h.store.Domain(t.Context(), h.owner, h.id, scope); scope != sendlimit.TenantWide && err != nil {
		h.addDomain(t, scope)
	}
	h.want.limits[scope] = 1 + h.IntN(12)
	h.note("the limit of %q is %d", scope, h.want.limits[scope])
	h.limit(t, scope, h.want.limits[scope])
	if h.IntN(3) == 0 { // its rule cannot be set at first, whoever else's can
		h.lifts = append(h.lifts, h.fake.Fail(fake.Fault{Method: "Block", About: scope, Kind: outcome.Down, Times: 1}))
	}
}

func (h *history) setsOwn(t *testing.T) {
	t.Helper()
	m := h.boxes[h.IntN(len(h.boxes))]
	h.want.own[m.Address] = 1 + h.IntN(sendlimit.Most)
	h.note("the limit of %s is %d", m.Address, h.want.own[m.Address])
	must(t, h.store.SetSendLimit(t.Context(), h.owner, m.ID, h.want.own[m.Address], h.now))
}

// drops: a domain leaves the tenant, and its policy with it.
func (h *history) drops(t *testing.T) {
	t.Helper()
	scope := []string{one, two}[h.IntN(2)]
	h.note("%s is dropped", scope)
	delete(h.want.limits, scope)
	h.drop(t, scope)
}

func (h *history) fails(*testing.T) {
	f := fake.Fault{Method: []string{"Block", "Block", "Sent", "Rules"}[h.IntN(4)], Skip: h.IntN(3), Times: 1 + h.IntN(2), AfterEffect: h.IntN(2) == 0,
		Kind: []outcome.Kind{outcome.Down, outcome.Unknown, outcome.Throttled, outcome.Broken}[h.IntN(4)]}
	if f.Kind != outcome.Unknown {
		f.AfterEffect = false
	}
	h.note("%s fails: %+v", f.Method, f)
	h.lifts = append(h.lifts, h.fake.Fail(f))
}

func (h *history) waits(*testing.T) {
	by := time.Duration(h.IntN(20*60)) * time.Minute
	h.note("%s pass", by)
	h.advance(by)
}

// steps: the service's clock steps back or, another time, to where it belongs.
// A tenant whose days were moved is due all the same.
func (h *history) steps(t *testing.T) {
	t.Helper()
	h.ahead = latest(h.ahead, h.now)
	h.now = h.fake.Now()
	if hours := []int{0, 3, 30}[h.IntN(3)]; hours > 0 {
		h.now = h.now.Add(-time.Duration(h.IntN(hours*60)) * time.Minute)
	}
	h.note("the clock steps")
	if h.IntN(2) == 0 {
		h.moves(t)
	}
}

// leaps: one run has a clock that is far ahead, unless one before it had and
// nothing was counted by a right one since.
func (h *history) leaps(t *testing.T) {
	t.Helper()
	for _, m := range h.stored(t) {
		if m.SendsTodayAt.After(h.fake.Now()) {
			return
		}
	}
	now := h.now
	h.now = now.Add([]time.Duration{5 * time.Hour, 5 * time.Hour, 24 * time.Hour, 24 * time.Hour, 24 * time.Hour, 30 * 24 * time.Hour}[h.IntN(6)])
	h.note("a run by a clock that is ahead")
	l := &life{left: -1}
	if h.IntN(2) == 0 {
		l = h.life()
	}
	_ = h.lives(t, l)
	if l.dead {
		h.leaseEnds(t, l.has)
	}
	h.now = now
	h.neverFalls(t)
}

// moves: the tenant's days are those of another place.
func (h *history) moves(t *testing.T) {
	t.Helper()
	place := []string{"UTC", "Europe/Berlin", "America/St_Johns", "Asia/Tokyo", "Pacific/Kiritimati"}[h.IntN(5)]
	h.note("its days are those of %s", place)
	var err error
	h.want.place, err = sendlimit.Place(place)
	must(t, err)
	_, err = h.store.SetDay(t.Context(), h.id, place)
	must(t, err)
	h.zones++
}

func (h *history) runs(t *testing.T) {
	t.Helper()
	h.advance(sendlimit.Latest)
	h.note("a run")
	_ = h.Run(t.Context(), h.owner, h.id) // a fault is none of the test's
	h.neverFalls(t)
}

// blinks: a run finds some of the latest messages gone from the trace.
func (h *history) blinks(t *testing.T) {
	t.Helper()
	platform := h.Platform
	defer func() { h.Platform = platform }()
	h.Platform = blinking{platform, h.fake.Now()}
	h.note("the trace blinks")
	h.runs(t)
}

func (h *history) crashes(t *testing.T) {
	t.Helper()
	l := h.life()
	h.note("a run that ends at %q %d, after it %v", l.at, l.left, l.after)
	h.diesAt(t, l)
	h.note("it ended: %v", l.dead)
	h.neverFalls(t)
}

// life is one that ends somewhere, or pauses.
func (h *history) life() *life {
	return &life{left: max(0, h.IntN(6)-3), after: h.IntN(2) == 0,
		at: []string{"Sent", "SaveCounts", "Rules", "Settle", "SaveIntents", "Block", "Block", "SaveChanges", "ReleaseTenant"}[h.IntN(9)]}
}

// pauses: a run stands still at one of its steps, and meanwhile other things
// happen; its lease may end, and another run take its place.
func (h *history) pauses(t *testing.T) {
	t.Helper()
	if h.within {
		return
	}
	h.within = true
	defer func() { h.within = false }()
	h.advance(sendlimit.Latest)
	l := h.life()
	l.pause = func() (lost bool) {
		lost, h.paused = h.IntN(3) > 0, l.has
		h.note("a run pauses at %s, loses its tenant: %v", l.place(), lost)
		runs, platform := h.Runs, h.Platform
		h.Runs, h.Platform = h.store, h.fake
		defer func() { h.Runs, h.Platform = runs, platform }()
		if lost {
			h.leaseEnds(t, l.has)
			h.runs(t)
		}
		for range h.IntN(4) {
			if !h.gone {
				h.one(t)
			}
		}
		h.note("it goes on")
		held, err := h.store.HoldTenant(t.Context(), l.has, time.Hour)
		must(t, err)
		return !held
	}
	_ = h.lives(t, l)
	h.neverFalls(t)
}

// deletes: the tenant goes. A run that is under way has lost it by then.
func (h *history) deletes(t *testing.T) {
	t.Helper()
	h.note("the tenant is deleted")
	for _, lift := range h.lifts {
		lift()
	}
	gone, err := h.deleter().Delete(t.Context(), h.owner, h.id)
	must(t, err)
	if !gone.Removed && len(gone.Left) > 0 {
		t.Fatalf("left are %q: %v", gone.Left, gone.Why)
	}
	h.gone = true
}

// staysGone: whatever was under way, nobody is blocked any more in a tenant that
// was deleted, and all that was blocked or let go before has its event. A rule
// that was switched off when its domain went may be left.
func (h *history) staysGone(t *testing.T) {
	t.Helper()
	must(t, h.Run(t.Context(), h.owner, h.id))
	if left := h.blocks(t); len(left) != 0 {
		t.Fatalf("blocked are still %q", left)
	}
	turns, acts := h.turns(), h.acts(t)
	for address, all := range turns {
		if last := len(all) - 1; len(acts[address]) == last && !all[last] {
			turns[address] = all[:last] // by the deletion
		}
	}
	if diff := cmp.Diff(turns, acts); diff != "" {
		t.Fatalf("events differ from what the rules did (-rules +events):\n%s", diff)
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// looksAgain: runs see what became of the tenant. One by a clock that was ahead
// may have put the next one off by as much as lies between two, and some minutes.
func (h *history) looksAgain(t *testing.T) {
	t.Helper()
	for range 4 {
		h.advance(sendlimit.Latest)
		if err := h.Run(t.Context(), h.owner, h.id); err != nil && !errors.Is(err, fault.TenantNotFound) {
			t.Fatal(err)
		}
	}
}

// decided is when the last decision fell to block a mailbox that is blocked, by
// the clock of whoever decided.
func (h *history) decided(t *testing.T) (last time.Time) {
	t.Helper()
	boxes, err := h.store.SendBoxes(t.Context(), ports.SendRun{Account: h.owner, Tenant: h.id}, time.Time{})
	must(t, err)
	for _, b := range boxes {
		last = latest(last, b.Box.BlockedAt)
	}
	return last
}

// neverFalls: no count of a day is ever smaller than it was.
func (h *history) neverFalls(t *testing.T) {
	t.Helper()
	boxes, err := h.store.SendBoxes(t.Context(), ports.SendRun{Account: h.owner, Tenant: h.id}, time.Time{})
	must(t, err)
	for _, b := range boxes {
		for _, c := range b.Counts {
			key := fmt.Sprint(h.zones, b.Address, c.Day)
			if c.Total() < h.counts[key] {
				t.Fatalf("%s on %s: %d after %d", b.Address, c.Day, c.Total(), h.counts[key])
			}
			h.counts[key] = c.Total()
		}
	}
}

// ends: faults stop, clocks are right, and what is late has come.
func (h *history) ends(t *testing.T) {
	t.Helper()
	for _, lift := range h.lifts {
		lift()
	}
	h.now = h.fake.Now()
	h.advance(max(0, h.ahead.Sub(h.now)) + latestRow)
	h.note("all is well again")
	h.looksAgain(t)
	if day, decided := sendlimit.DayOf(h.now, h.want.place), h.decided(t); !decided.Before(day.End) {
		h.note("a block of a day that has not come waits for it")
		h.advance(decided.Sub(h.now))
		h.looksAgain(t)
	}
	h.agrees(t)
	writes := h.fake.Effects("Block")
	for _, m := range h.stored(t) {
		if n := h.want.today(m.Address, h.now); m.SendsToday != n || h.want.blocked(m.Address, h.now) == m.BlockedAt.IsZero() {
			t.Fatalf("%s sent %d by %s, with the limits %v and its own %d: %+v", m.Address, n, h.now, h.want.limits, h.want.own[m.Address], m)
		}
	}
	day := sendlimit.DayOf(h.now, h.want.place)
	must(t, h.run(t))
	if h.agrees(t); day.Has(h.now) && h.fake.Effects("Block") != writes {
		t.Fatal("what is so was written again")
	}
	left, err := h.store.Intents(t.Context(), ports.SendRun{Account: h.owner, Tenant: h.id})
	if must(t, err); len(left) != 0 {
		t.Fatalf("intents are left: %+v", left)
	}
}
