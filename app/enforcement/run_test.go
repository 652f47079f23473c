// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/enforcement"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	must     = apptest.Must
	newStore = apptest.NewStore
)

const (
	guid = tenant.GUID("11111111-2222-4333-8444-555555555555")
	one  = "one.test"
	two  = "two.test"
)

// fixture is a runner over SQLite and the fake platform, with a tenant that has two domains with
// two mailboxes each.
type fixture struct {
	*enforcement.Runner
	store *bunstore.Store
	fake  *fake.Platform
	owner access.AccountID
	id    tenant.GUID
	now   time.Time
	boxes []mailbox.Mailbox
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureIn(t, newStore(t), "ann@example.com", guid)
}

// newNumberedFixture returns one of many fixtures that share a store.
func newNumberedFixture(t *testing.T, store *bunstore.Store, n int) *fixture {
	t.Helper()
	return newFixtureIn(t, store, fmt.Sprintf("ann%d@example.com", n), tenant.GUID(fmt.Sprintf("11111111-2222-4333-8444-%012d", n)))
}

// newFixtureIn returns a fixture in a store that it can share with others.
func newFixtureIn(t *testing.T, store *bunstore.Store, email string, id tenant.GUID) *fixture {
	t.Helper()
	fx := &fixture{store: store, id: id, fake: fake.New(), now: time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)} // the start time of the fake platform
	fx.Runner = &enforcement.Runner{Runs: store, Policies: store, Tenants: store, Platform: fx.fake,
		Now: func() time.Time { return fx.now }}
	acc, err := store.CreateAccount(t.Context(), email, "complete", 0, fx.now)
	must(t, err)
	fx.owner = acc.ID
	fx.fake.Connect(id, fake.Setup{TracePage: 7})
	x, err := store.Attach(t.Context(), fx.owner, tenant.Tenant{GUID: id, ConsentedAt: fx.now})
	must(t, err)
	x.Bootstrap = tenant.BootstrapReady
	must(t, store.SaveTenant(t.Context(), fx.owner, x))
	for _, zone := range []string{one, two} {
		d := fx.addDomain(t, zone)
		for _, local := range []string{"ada", "bob"} {
			made, err := store.ReserveMailboxes(t.Context(), fx.owner, d.ID, []mailbox.Spec{{Address: local + "@" + zone}}, 3, fx.now)
			must(t, err)
			made[0].Stage = mailbox.Ready
			must(t, store.SaveMailbox(t.Context(), fx.owner, made[0]))
			fx.boxes = append(fx.boxes, made[0])
		}
	}
	return fx
}

func (fx *fixture) addDomain(t *testing.T, zone string) domain.Domain {
	t.Helper()
	d, err := fx.store.ReserveDomain(t.Context(), fx.owner, fx.id, zone, 12, fx.now)
	must(t, err)
	d.Added = true
	must(t, fx.store.SaveDomain(t.Context(), fx.owner, d, nil))
	return d
}

// dropDomain stores two discoveries that miss the domain.
func (fx *fixture) dropDomain(t *testing.T, zone string) {
	t.Helper()
	f := ports.Found{Domains: []domain.Platform{}, MissedDomains: map[string]bool{zone: true}}
	for _, f.Began = range []time.Time{fx.now.Add(47 * time.Hour), fx.now.Add(48 * time.Hour)} {
		must(t, fx.store.SaveDiscovery(t.Context(), fx.owner, fx.id, f))
	}
}

func (fx *fixture) advance(by time.Duration) {
	fx.now = fx.now.Add(by)
	fx.fake.Advance(by)
}

// limit stores a policy, as app/limits does.
func (fx *fixture) limit(t *testing.T, scope string, perDay int) {
	t.Helper()
	p, err := fx.store.ReservePolicy(t.Context(), fx.owner, fx.id, scope, fx.now)
	must(t, err)
	p.PerDay = perDay
	must(t, fx.store.SavePolicy(t.Context(), fx.owner, p, nil))
}

// run waits until the tenant is due and runs a pass.
func (fx *fixture) run(t *testing.T) error {
	t.Helper()
	fx.advance(sendlimit.MaxInterval)
	return fx.Run(t.Context(), fx.owner, fx.id)
}

func (fx *fixture) storedMailboxes(t *testing.T) []mailbox.Mailbox {
	t.Helper()
	all, err := fx.store.Mailboxes(t.Context(), fx.owner, fx.id)
	must(t, err)
	return all
}

// shownSends returns the stored number of messages that a mailbox sent today.
func (fx *fixture) shownSends(t *testing.T, address string) int {
	t.Helper()
	for _, m := range fx.storedMailboxes(t) {
		if m.Address == address {
			return m.SendsToday
		}
	}
	t.Fatalf("%s is not there", address)
	return 0
}

// blockedByRules returns the addresses that the rules at the platform block, without duplicates.
func (fx *fixture) blockedByRules(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, r := range fx.fake.SnapshotOf(fx.id).Rules {
		if r.Enabled && len(r.Lists) == 0 {
			t.Fatalf("%s blocks all mail of the tenant", r.Name)
		}
		all = append(all, r.Blocks()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ruleList returns the addresses that the rule of a scope blocks.
func (fx *fixture) ruleList(t *testing.T, scope string) []string {
	t.Helper()
	for _, r := range fx.fake.SnapshotOf(fx.id).Rules {
		if r.Name == sendlimit.RuleName(scope) {
			return r.Blocks()
		}
	}
	return nil
}

func (fx *fixture) storedBlocked(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, m := range fx.storedMailboxes(t) {
		if !m.BlockedAt.IsZero() {
			all = append(all, m.Address)
		}
	}
	slices.Sort(all)
	return all
}

// events returns the events of each address, oldest first.
func (fx *fixture) events(t *testing.T) map[string][]sendlimit.Event {
	t.Helper()
	page, err := fx.store.Events(t.Context(), fx.owner, ports.EventQuery{Limit: 10000})
	must(t, err)
	all := map[string][]sendlimit.Event{}
	for _, e := range slices.Backward(page.Events) {
		all[e.Address] = append(all[e.Address], e)
	}
	return all
}

// checkConsistent fails the test unless the stored state, rules and events agree. Each start and
// end of a block by the rules has one event, in that order.
func (fx *fixture) checkConsistent(t *testing.T) {
	t.Helper()
	if rules, blocked := fx.blockedByRules(t), fx.storedBlocked(t); !slices.Equal(rules, blocked) {
		t.Fatalf("the rules block %q, stored is %q", rules, blocked)
	}
	if diff := cmp.Diff(fx.ruleTransitions(), fx.eventTransitions(t)); diff != "" {
		t.Fatalf("events differ from what the rules did (-rules +events):\n%s", diff)
	}
}

// ruleTransitions returns, for each address, the order in which the rules began (true) and ceased
// (false) to block it.
func (fx *fixture) ruleTransitions() map[string][]bool {
	ruleChanges := map[string][]bool{}
	for _, change := range fx.fake.BlockChanges(fx.id) {
		ruleChanges[change.Address] = append(ruleChanges[change.Address], change.Blocked)
	}
	return ruleChanges
}

// eventTransitions returns what ruleTransitions returns, from the stored events.
func (fx *fixture) eventTransitions(t *testing.T) map[string][]bool {
	t.Helper()
	acts := map[string][]bool{}
	for address, all := range fx.events(t) {
		for _, e := range all {
			acts[address] = append(acts[address], e.Action == sendlimit.Blocked)
		}
	}
	return acts
}

func TestBlockAndUnblock(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	ada := fx.boxes[0].Address
	fx.fake.Send(fx.id, ada, 5)
	must(t, fx.run(t))
	fx.checkConsistent(t)
	if len(fx.storedBlocked(t)) != 0 || fx.storedMailboxes(t)[0].SendsToday != 5 {
		t.Fatalf("at its limit: %+v", fx.storedMailboxes(t)[0])
	}
	var late []time.Duration
	fx.OnBlockDelay = func(_ context.Context, lag time.Duration) { late = append(late, lag) }
	fx.fake.Send(fx.id, ada, 1)
	for range 3 { // later passes write nothing
		must(t, fx.run(t))
		fx.checkConsistent(t)
	}
	if !slices.Equal(fx.storedBlocked(t), []string{ada}) || fx.fake.Effects("Block") != 1 {
		t.Fatalf("the blocked mailboxes are %q after %d writes", fx.storedBlocked(t), fx.fake.Effects("Block"))
	}
	if !slices.Equal(late, []time.Duration{sendlimit.MaxInterval}) {
		t.Fatalf("blocked after %v", late)
	}
	if fx.fake.Send(fx.id, ada, 3) != 0 {
		t.Fatal("a blocked mailbox sends")
	}
	fx.advance(24 * time.Hour)
	must(t, fx.run(t))
	fx.checkConsistent(t)
	events := fx.events(t)[ada]
	if len(fx.storedBlocked(t)) != 0 || len(events) != 2 || events[0].Message() != "Mailbox blocked: sent 6, limit 5" ||
		events[1].Message() != "Mailbox unblocked: sent 0, limit 5" {
		t.Fatalf("the blocked mailboxes are %q, events %+v", fx.storedBlocked(t), events)
	}
}

// A rule that could not be set is not shown as a block and is tried again. If only the answer was
// lost, the next pass finds the rule as it was set.
func TestAFailedBlockIsNotShownAndIsTriedAgain(t *testing.T) {
	for name, f := range map[string]fake.Fault{
		"down": {Method: "Block", Kind: outcome.Down, Times: 1},
		"lost": {Method: "Block", Kind: outcome.Unknown, AfterEffect: true, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			fx.limit(t, sendlimit.TenantWide, 5)
			fx.fake.Send(fx.id, fx.boxes[0].Address, 6)
			fx.fake.Fail(f)
			if err := fx.run(t); err == nil {
				t.Fatal("the fault was not reported")
			}
			if blocked := fx.storedBlocked(t); len(blocked) != 0 || len(fx.events(t)) != 0 {
				t.Fatalf("the blocked mailboxes are %q, events %+v", blocked, fx.events(t))
			}
			must(t, fx.run(t))
			fx.checkConsistent(t)
			if len(fx.storedBlocked(t)) != 1 || fx.fake.Effects("Block") != 1 {
				t.Fatalf("the blocked mailboxes are %q after %d writes", fx.storedBlocked(t), fx.fake.Effects("Block"))
			}
		})
	}
}

// Without a trace no mailbox is unblocked during the day, and all are unblocked at the day
// boundary.
func TestAnUnreadableTraceUnblocksOnlyAtTheDayBoundary(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, one, 5)
	fx.fake.Send(fx.id, fx.boxes[0].Address, 6)
	must(t, fx.run(t))
	lift := fx.fake.Fail(fake.Fault{Method: "Sent", Kind: outcome.Throttled})
	if err := fx.run(t); err == nil || len(fx.storedBlocked(t)) != 1 {
		t.Fatalf("%v, the blocked mailboxes are %q", err, fx.storedBlocked(t))
	}
	fx.advance(24 * time.Hour)
	if err := fx.run(t); err == nil || len(fx.storedBlocked(t)) != 0 {
		t.Fatalf("%v, the blocked mailboxes are %q", err, fx.storedBlocked(t))
	}
	lift()
	must(t, fx.run(t))
	fx.checkConsistent(t)
}

// The rule of a deleted domain blocks no mailbox.
func TestRuleOfDeletedDomain(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, one, 5)
	fx.fake.Send(fx.id, fx.boxes[0].Address, 6)
	must(t, fx.run(t))
	fx.dropDomain(t, one)
	must(t, fx.run(t))
	fx.checkConsistent(t)
	if scopes, err := fx.store.ScopesWithRules(t.Context(), fx.owner, fx.id); err != nil || len(scopes) != 0 || len(fx.blockedByRules(t)) != 0 {
		t.Fatalf("%q, %v", scopes, err)
	}
}

func TestConcurrentRunsMakeOnePass(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	for _, m := range fx.boxes {
		fx.fake.Send(fx.id, m.Address, 6)
	}
	fx.advance(sendlimit.MaxInterval)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := fx.Run(t.Context(), fx.owner, fx.id); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	fx.checkConsistent(t)
	if fx.fake.Effects("Block") != 1 || len(fx.storedBlocked(t)) != len(fx.boxes) {
		t.Fatalf("%d writes, the blocked mailboxes are %q", fx.fake.Effects("Block"), fx.storedBlocked(t))
	}
}

// A pass that was paused and lost its lease changes nothing when it resumes.
func TestPausedPassLosesLease(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	fx.fake.Send(fx.id, fx.boxes[0].Address, 6)
	fx.advance(sendlimit.MaxInterval)
	gate := fx.fake.Hold("Sent")
	done := make(chan error)
	go func() { done <- fx.Run(t.Context(), fx.owner, fx.id) }()
	<-gate.Arrived()
	_, err := fx.store.SetTimeZone(t.Context(), guid, "Europe/Berlin") // revokes the lease of the pass
	must(t, err)
	gate.Release()
	must(t, <-done)
	if fx.fake.Calls("Block") != 0 || len(fx.storedBlocked(t)) != 0 || fx.storedMailboxes(t)[0].SendsToday != 0 {
		t.Fatalf("written: %+v", fx.storedMailboxes(t)[0])
	}
	must(t, fx.run(t))
	fx.checkConsistent(t)
}

// A clock that steps back unblocks no mailbox. Later events still follow the earlier ones.
func TestClockStepsBack(t *testing.T) {
	for name, tt := range map[string]struct {
		by     time.Duration
		dies   bool
		events int
	}{"a day": {24 * time.Hour, false, 1}, "an hour": {time.Hour, false, 2}, "an hour, after a run that did not end": {time.Hour, true, 2}} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			ada := fx.boxes[0].Address
			fx.limit(t, sendlimit.TenantWide, 5)
			fx.fake.Send(fx.id, ada, 6)
			if tt.dies {
				fx.runCrashingAt(t, &crashPlan{at: "Block", after: true})
			} else {
				must(t, fx.run(t))
			}
			right := fx.now
			fx.now = fx.now.Add(-tt.by)
			_, err := fx.store.SetTimeZone(t.Context(), fx.id, "Europe/London") // makes the tenant due
			must(t, err)
			fx.limit(t, sendlimit.TenantWide, 9)
			must(t, fx.Run(t.Context(), fx.owner, fx.id))
			fx.checkConsistent(t)
			events := fx.events(t)[ada]
			if len(events) != tt.events || tt.events == 2 && !events[1].At.After(events[0].At) {
				t.Fatalf("events %+v", events)
			}
			fx.now = right
			must(t, fx.run(t))
			if fx.checkConsistent(t); len(fx.storedBlocked(t)) != 0 {
				t.Fatalf("the blocked mailboxes are %q", fx.storedBlocked(t))
			}
		})
	}
}

// A mailbox whose unblock failed is not shown as unblocked.
func TestAFailedUnblockIsNotShown(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, one, 5)
	fx.limit(t, two, 5)
	fx.fake.Send(fx.id, fx.boxes[0].Address, 6)
	must(t, fx.run(t))
	fx.limit(t, one, 6)
	fx.fake.Fail(fake.Fault{Method: "Block", About: one, Kind: outcome.Down, Times: 1})
	if err := fx.run(t); err == nil {
		t.Fatal("the fault was not reported")
	}
	fx.checkConsistent(t)
	must(t, fx.run(t))
	fx.checkConsistent(t)
	if blocked := fx.storedBlocked(t); len(blocked) != 0 {
		t.Fatalf("the blocked mailboxes are %q", blocked)
	}
}
