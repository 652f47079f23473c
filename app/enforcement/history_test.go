// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

const (
	defaultHistories = 50
	soakHistories    = 10_000
	historySteps     = 40 // operations in one history
	maxTraceLag      = 4 * time.Hour
)

// TestStateRulesAndEventsAgreeAfterRandomHistories runs random sequences of sends, limit changes,
// faults, crashes and lost leases. After the faults have stopped, the stored state, the rules and
// the events agree. Each block and each unblock has one event. Exactly the mailboxes that exceed
// their limit today are blocked. A soak test runs soakHistories sequences instead of
// defaultHistories.
func TestStateRulesAndEventsAgreeAfterRandomHistories(t *testing.T) {
	histories, shards := defaultHistories, 1
	if soak.Enabled() {
		histories, shards = soakHistories, 50
	}
	for shard := range shards {
		t.Run(fmt.Sprint(shard), func(t *testing.T) {
			t.Parallel()
			store := newStore(t) // shared, because a new store takes longer than a history
			for seed := shard; seed < histories; seed += shards {
				t.Run(fmt.Sprint(seed), func(t *testing.T) { newHistory(t, store, seed).playAll(t) })
			}
		})
	}
}

// history is a fixture with a random sequence of operations.
type history struct {
	*fixture
	want *model
	*rand.Rand

	log             []string // the operations so far, for the failure message
	clearFaults     []func()
	timeZoneChanges int
	counts          map[string]int // the latest count, by number of changes of the time zone, mailbox and day
	pausing         bool           // a paused pass is in progress
	deleted         bool           // the tenant is deleted
}

func newHistory(t *testing.T, store *bunstore.Store, seed int) *history {
	t.Helper()
	h := &history{fixture: newNumberedFixture(t, store, seed), want: newModel(), Rand: rand.New(rand.NewPCG(uint64(seed), 7)), counts: map[string]int{}}
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

func (h *history) playAll(t *testing.T) {
	t.Helper()
	for range historySteps {
		h.playStep(t)
		if h.deleted {
			h.checkDeleted(t)
			return
		}
	}
	h.checkFinalState(t)
}

func (h *history) playStep(t *testing.T) {
	t.Helper()
	operations := []func(*testing.T){
		h.sendMail, h.sendMail, h.sendMail, h.setLimit, h.setMailboxLimit, h.failCall, h.failCall, h.wait, h.crashRun, h.crashRun, h.runOnce, h.runOnce,
		h.changeTimeZone, h.stepClock, h.runWithFastClock, h.dropRandomDomain, h.pauseRun, h.pauseRun, h.runOnTruncatedTrace,
	}
	if h.IntN(400) == 0 {
		h.removeTenant(t)
		return
	}
	operations[h.IntN(len(operations))](t)
}

// sendMail sends messages, unless the platform blocks the sender. The trace shows them some time
// later.
func (h *history) sendMail(t *testing.T) {
	t.Helper()
	sender, count := h.mailboxes[h.IntN(len(h.mailboxes))].Address, 1+h.IntN(9)
	blocked := slices.Contains(h.blockedByRules(t), sender)
	h.fake.SetLag(h.id, fake.Lag{Trace: time.Duration(h.IntN(int(maxTraceLag)))})
	accepted := h.fake.Send(h.id, sender, count)
	h.note("%s sends %d messages, and %d are accepted", sender, count, accepted)
	if blocked != (accepted == 0) {
		t.Fatalf("the platform accepted %d messages of %s, and a rule blocks the sender: %v; want none if a rule blocks it, otherwise more", accepted, sender, blocked)
	}
	for range accepted {
		h.want.sent[sender] = append(h.want.sent[sender], h.fake.Now())
	}
}

// setLimit sets the limit of a random scope. If the domain of the scope was deleted, setLimit first
// adds the domain again.
func (h *history) setLimit(t *testing.T) {
	t.Helper()
	scope := []string{sendlimit.TenantWide, domainOne, domainTwo}[h.IntN(3)]
	if _, err := h.store.Domain(t.Context(), h.owner, h.id, scope); scope != sendlimit.TenantWide && err != nil {
		h.addDomain(t, scope)
	}
	h.want.limits[scope] = 1 + h.IntN(12)
	h.note("the limit of %q is %d", scope, h.want.limits[scope])
	h.limit(t, scope, h.want.limits[scope])
	if h.IntN(3) == 0 { // the next call that sets the rule of the scope fails
		h.clearFaults = append(h.clearFaults, h.fake.Fail(fake.Fault{Method: "Block", Object: scope, Kind: outcome.Down, Times: 1}))
	}
}

func (h *history) setMailboxLimit(t *testing.T) {
	t.Helper()
	m := h.mailboxes[h.IntN(len(h.mailboxes))]
	h.want.ownLimits[m.Address] = 1 + h.IntN(sendlimit.MaxLimit)
	h.note("the limit of %s is %d", m.Address, h.want.ownLimits[m.Address])
	must(t, h.store.SetSendLimit(t.Context(), h.owner, m.ID, h.want.ownLimits[m.Address], h.now))
}

func (h *history) dropRandomDomain(t *testing.T) {
	t.Helper()
	scope := []string{domainOne, domainTwo}[h.IntN(2)]
	h.note("the domain %s is deleted", scope)
	delete(h.want.limits, scope)
	h.dropDomain(t, scope)
}

// failCall lets some of the next calls to the platform fail.
func (h *history) failCall(*testing.T) {
	injected := fake.Fault{Method: []string{"Block", "Block", "Sent", "Rules"}[h.IntN(4)], Skip: h.IntN(3), Times: 1 + h.IntN(2), AfterEffect: h.IntN(2) == 0,
		Kind: []outcome.Kind{outcome.Down, outcome.Unknown, outcome.Throttled, outcome.Broken}[h.IntN(4)]}
	if injected.Kind != outcome.Unknown {
		injected.AfterEffect = false
	}
	h.note("%s fails: %+v", injected.Method, injected)
	h.clearFaults = append(h.clearFaults, h.fake.Fail(injected))
}

// wait lets up to 20 hours elapse.
func (h *history) wait(*testing.T) {
	waited := time.Duration(h.IntN(20*60)) * time.Minute
	h.note("%s elapse", waited)
	h.advance(waited)
}

// stepClock sets the clock of the service back, or to the right time. In half of the cases it also
// changes the time zone, so that the tenant becomes due.
func (h *history) stepClock(t *testing.T) {
	t.Helper()
	h.now = h.fake.Now()
	if hours := []int{0, 3, 30}[h.IntN(3)]; hours > 0 {
		h.now = h.now.Add(-time.Duration(h.IntN(hours*60)) * time.Minute)
	}
	h.note("the clock steps to %s", h.now)
	if h.IntN(2) == 0 {
		h.changeTimeZone(t)
	}
}

// runWithFastClock runs one pass with a clock far ahead. It does nothing while the time of a stored
// count is in the future because of an earlier call.
func (h *history) runWithFastClock(t *testing.T) {
	t.Helper()
	for _, m := range h.storedMailboxes(t) {
		if m.SendsTodayAt.After(h.fake.Now()) {
			return
		}
	}
	clockBefore := h.now
	h.now = clockBefore.Add([]time.Duration{5 * time.Hour, 5 * time.Hour, 24 * time.Hour, 24 * time.Hour, 24 * time.Hour, 30 * 24 * time.Hour}[h.IntN(6)])
	h.note("a pass with a fast clock")
	plan := &crashPlan{stepsLeft: -1}
	if h.IntN(2) == 0 {
		plan = h.randomCrash()
	}
	_ = h.runWithPlan(t, plan)
	if plan.crashed {
		h.expireLease(t, plan.claimed)
	}
	h.now = clockBefore
	h.checkCountsDoNotFall(t)
}

func (h *history) changeTimeZone(t *testing.T) {
	t.Helper()
	zone := []string{"UTC", "Europe/Berlin", "America/St_Johns", "Asia/Tokyo", "Pacific/Kiritimati"}[h.IntN(5)]
	h.note("the time zone is %s", zone)
	var err error
	h.want.location, err = sendlimit.TimeZone(zone)
	must(t, err)
	_, err = h.store.SetTimeZone(t.Context(), h.id, zone)
	must(t, err)
	h.timeZoneChanges++
}

// runOnce advances the clocks until the tenant is due, and runs a pass.
func (h *history) runOnce(t *testing.T) {
	t.Helper()
	h.advance(sendlimit.MaxInterval)
	h.note("a pass")
	_ = h.Run(t.Context(), h.owner, h.id) // injected faults are expected
	h.checkCountsDoNotFall(t)
}

// runOnTruncatedTrace advances the clocks and runs a pass. The trace of the pass ends one hour
// before the clocks advance.
func (h *history) runOnTruncatedTrace(t *testing.T) {
	t.Helper()
	platform := h.Platform
	defer func() { h.Platform = platform }()
	h.Platform = truncatedTrace{platform, h.fake.Now()}
	h.note("the trace ends one hour before this time")
	h.runOnce(t)
}

func (h *history) crashRun(t *testing.T) {
	t.Helper()
	plan := h.randomCrash()
	h.note("a pass is planned to crash at step %q, after %d earlier ones, after its effect: %v", plan.stepName, plan.stepsLeft, plan.afterEffect)
	h.runCrashingAt(t, plan)
	h.note("the pass crashed: %v", plan.crashed)
	h.checkCountsDoNotFall(t)
}

// randomCrash returns a plan that crashes at a random step. If the caller sets pause, the plan
// pauses at the step instead.
func (h *history) randomCrash() *crashPlan {
	return &crashPlan{stepsLeft: max(0, h.IntN(6)-3), afterEffect: h.IntN(2) == 0,
		stepName: []string{"Sent", "SaveCounts", "Rules", "ReconcileIntents", "SaveIntents", "Block", "Block", "SaveChanges", "ReleaseTenant"}[h.IntN(9)]}
}

// pauseRun pauses a pass at a random step and runs other operations meanwhile. The lease can
// expire, and another pass can claim the tenant.
func (h *history) pauseRun(t *testing.T) {
	t.Helper()
	if h.pausing {
		return
	}
	h.pausing = true
	defer func() { h.pausing = false }()
	h.advance(sendlimit.MaxInterval)
	plan := h.randomCrash()
	plan.pause = func() (lost bool) {
		lost = h.IntN(3) > 0
		h.note("a pass pauses at %s, loses its lease: %v", plan.crashPoint(), lost)
		claims, platform := h.Claims, h.Platform
		h.Claims, h.Platform = h.store, h.fake
		defer func() { h.Claims, h.Platform = claims, platform }()
		if lost {
			h.expireLease(t, plan.claimed)
			h.runOnce(t)
		}
		for range h.IntN(4) {
			if !h.deleted {
				h.playStep(t)
			}
		}
		h.note("the paused pass continues")
		held, err := h.store.RenewTenantLease(t.Context(), plan.claimed, time.Hour)
		must(t, err)
		return !held
	}
	_ = h.runWithPlan(t, plan)
	h.checkCountsDoNotFall(t)
}

// removeTenant deletes the tenant. A pass in progress loses its lease.
func (h *history) removeTenant(t *testing.T) {
	t.Helper()
	h.note("the tenant is deleted")
	for _, clearFault := range h.clearFaults {
		clearFault()
	}
	deletion, err := h.deletionService().Delete(t.Context(), h.owner, h.id, nil)
	must(t, err)
	if !deletion.RulesRemoved && len(deletion.RemainingRules) > 0 {
		t.Fatalf("the rules %q remain after the deletion: %v, want none", deletion.RemainingRules, deletion.Err)
	}
	h.deleted = true
}

// checkDeleted fails the test if a deleted tenant has a blocked mailbox, or if a block or an
// unblock has no event. An unblock by the deletion itself needs no event.
func (h *history) checkDeleted(t *testing.T) {
	t.Helper()
	must(t, h.Run(t.Context(), h.owner, h.id))
	if blocked := h.blockedByRules(t); len(blocked) != 0 {
		t.Fatalf("the rules of a deleted tenant block %q, want none", blocked)
	}
	ruleChanges, eventChanges := h.ruleTransitions(), h.eventTransitions(t)
	for address, changes := range ruleChanges {
		if lastIndex := len(changes) - 1; len(eventChanges[address]) == lastIndex && !changes[lastIndex] {
			ruleChanges[address] = changes[:lastIndex] // the deletion ended this block
		}
	}
	if diff := cmp.Diff(ruleChanges, eventChanges); diff != "" {
		t.Fatalf("events differ from the changes of the rules (-rules +events):\n%s", diff)
	}
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// runFourTimes runs four passes, after which the state is stable. Fewer passes are not enough,
// because an earlier pass with a fast clock can postpone the next pass.
func (h *history) runFourTimes(t *testing.T) {
	t.Helper()
	for range 4 {
		h.advance(sendlimit.MaxInterval)
		if err := h.Run(t.Context(), h.owner, h.id); err != nil && !errors.Is(err, fault.TenantNotFound) {
			t.Fatal(err)
		}
	}
}

// lastBlockTime returns the latest BlockedAt of the mailboxes. It can be in the future, because a
// pass with a fast clock may have set it.
func (h *history) lastBlockTime(t *testing.T) (last time.Time) {
	t.Helper()
	mailboxes, err := h.store.CountedMailboxes(t.Context(), ports.TenantClaim{Account: h.owner, Tenant: h.id}, time.Time{})
	must(t, err)
	for _, m := range mailboxes {
		last = laterOf(last, m.MailboxState.BlockedAt)
	}
	return last
}

// checkCountsDoNotFall fails the test if a stored count is lower than at the last check.
func (h *history) checkCountsDoNotFall(t *testing.T) {
	t.Helper()
	mailboxes, err := h.store.CountedMailboxes(t.Context(), ports.TenantClaim{Account: h.owner, Tenant: h.id}, time.Time{})
	must(t, err)
	for _, m := range mailboxes {
		for _, c := range m.Counts {
			key := fmt.Sprint(h.timeZoneChanges, m.Address, c.Day)
			if c.Total() < h.counts[key] {
				t.Fatalf("the count of %s on %s fell from %d to %d", m.Address, c.Day, h.counts[key], c.Total())
			}
			h.counts[key] = c.Total()
		}
	}
}

// checkFinalState clears all faults, corrects the clock, runs passes, and checks the state.
func (h *history) checkFinalState(t *testing.T) {
	t.Helper()
	for _, clearFault := range h.clearFaults {
		clearFault()
	}
	h.now = h.fake.Now()
	h.advance(maxTraceLag)
	h.note("no more faults")
	h.runFourTimes(t)
	if day, lastBlock := sendlimit.DayOf(h.now, h.want.location), h.lastBlockTime(t); !lastBlock.Before(day.End) {
		h.note("the clock reaches the time of the last block")
		h.advance(lastBlock.Sub(h.now))
		h.runFourTimes(t)
	}
	h.checkConsistent(t)
	writesBefore := h.fake.Effects("Block")
	for _, m := range h.storedMailboxes(t) {
		if n := h.want.today(m.Address, h.now); m.SendsToday != n || h.want.blocked(m.Address, h.now) == m.BlockedAt.IsZero() {
			t.Fatalf("%s sent %d messages today by %s; the limits are %v and its own limit is %d; the stored mailbox does not match: %+v", m.Address, n, h.now, h.want.limits, h.want.ownLimits[m.Address], m)
		}
	}
	day := sendlimit.DayOf(h.now, h.want.location)
	must(t, h.run(t))
	if h.checkConsistent(t); day.Contains(h.now) && h.fake.Effects("Block") != writesBefore {
		t.Fatal("the last pass set a rule although nothing had changed")
	}
	intents, err := h.store.Intents(t.Context(), ports.TenantClaim{Account: h.owner, Tenant: h.id})
	if must(t, err); len(intents) != 0 {
		t.Fatalf("the store has the open intents %+v, want none", intents)
	}
}
