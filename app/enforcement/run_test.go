// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/testserver/leaks"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/enforcement"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

var (
	must     = apptest.Must
	newStore = apptest.NewStore
)

const (
	guid      = tenant.GUID("11111111-2222-4333-8444-555555555555")
	domainOne = "one.test"
	domainTwo = "two.test"
)

// fixture is a runner over SQLite and the fake platform, with a tenant that has two domains with
// two mailboxes each.
type fixture struct {
	*enforcement.Runner
	store     *bunstore.Store
	fake      *fake.Platform
	owner     access.AccountID
	id        tenant.GUID
	now       time.Time
	mailboxes []mailbox.Mailbox
	// lastDiscovery is the time of the newest stored discovery of dropDomain.
	lastDiscovery time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureIn(t, newStore(t), "ann@example.com", guid)
}

// newNumberedFixture returns one of many fixtures that share a store.
func newNumberedFixture(t *testing.T, store *bunstore.Store, number int) *fixture {
	t.Helper()
	return newFixtureIn(t, store, fmt.Sprintf("ann%d@example.com", number), tenant.GUID(fmt.Sprintf("11111111-2222-4333-8444-%012d", number)))
}

// newFixtureIn returns a fixture in a store that several fixtures can share.
func newFixtureIn(t *testing.T, store *bunstore.Store, email string, id tenant.GUID) *fixture {
	t.Helper()
	fx := &fixture{store: store, id: id, fake: fake.New(), now: time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)} // the start time of the fake platform
	fx.Runner = &enforcement.Runner{Claims: store, Policies: store, Tenants: store, Platform: fx.fake,
		Now: func() time.Time { return fx.now }}
	account, err := store.CreateAccount(t.Context(), email, "complete", 0, fx.now)
	must(t, err)
	fx.owner = account.ID
	fx.fake.Connect(id, fake.Setup{TracePage: 7})
	attached, err := store.Attach(t.Context(), fx.owner, tenant.Tenant{GUID: id, ConsentedAt: fx.now})
	must(t, err)
	attached.Bootstrap = tenant.BootstrapReady
	must(t, store.SaveTenant(t.Context(), fx.owner, attached))
	for _, domainName := range []string{domainOne, domainTwo} {
		d := fx.addDomain(t, domainName)
		for _, local := range []string{"ada", "bob"} {
			rows, err := store.ReserveMailboxes(t.Context(), fx.owner, d.ID, []mailbox.Spec{{Address: local + "@" + domainName}}, 3, fx.now)
			must(t, err)
			rows[0].Stage = mailbox.Ready
			must(t, store.SaveMailbox(t.Context(), fx.owner, rows[0]))
			fx.mailboxes = append(fx.mailboxes, rows[0])
		}
	}
	return fx
}

func (fx *fixture) addDomain(t *testing.T, domainName string) domain.Domain {
	t.Helper()
	d, err := fx.store.ReserveDomain(t.Context(), fx.owner, fx.id, domainName, 12, fx.now)
	must(t, err)
	d.Added = true
	must(t, fx.store.SaveDomain(t.Context(), fx.owner, d, nil))
	return d
}

// dropDomain stores two discoveries that miss the domain. The second discovery deletes the domain.
// Each discovery is newer than all before, also if the clock of the service was set back.
func (fx *fixture) dropDomain(t *testing.T, domainName string) {
	t.Helper()
	for range 2 {
		fx.lastDiscovery = laterOf(fx.lastDiscovery, fx.now.Add(47*time.Hour)).Add(time.Hour) // more than observation.ReplicaLag apart
		must(t, fx.store.SaveDiscovery(t.Context(), fx.owner, fx.id, ports.DiscoveryResult{
			Began: fx.lastDiscovery, Domains: []domain.Platform{}, MissedDomains: map[string]bool{domainName: true},
		}))
	}
	if _, err := fx.store.Domain(t.Context(), fx.owner, fx.id, domainName); !errors.Is(err, fault.DomainNotFound) {
		t.Fatalf("after two discoveries that miss the domain %s: got %v, want domain_not_found", domainName, err)
	}
}

// advance moves the clocks of the service and the platform.
func (fx *fixture) advance(d time.Duration) {
	fx.now = fx.now.Add(d)
	fx.fake.Advance(d)
}

// limit stores a policy, as app/limits does.
func (fx *fixture) limit(t *testing.T, scope string, perDay int) {
	t.Helper()
	p, err := fx.store.ReservePolicy(t.Context(), fx.owner, fx.id, scope, fx.now)
	must(t, err)
	must(t, fx.store.ChangePolicy(t.Context(), fx.owner, p.ID, func(p sendlimit.Policy) (sendlimit.Policy, *ports.StoredAnswer, error) {
		p.PerDay = perDay
		return p, nil, nil
	}))
}

// run advances the clocks until the tenant is due, and runs a pass.
func (fx *fixture) run(t *testing.T) error {
	t.Helper()
	fx.advance(sendlimit.MaxInterval)
	return fx.Run(t.Context(), fx.owner, fx.id)
}

func (fx *fixture) storedMailboxes(t *testing.T) []mailbox.Mailbox {
	t.Helper()
	mailboxes, err := fx.store.Mailboxes(t.Context(), fx.owner, fx.id)
	must(t, err)
	return mailboxes
}

// storedSends returns the stored number of messages that a mailbox sent today.
func (fx *fixture) storedSends(t *testing.T, address string) int {
	t.Helper()
	for _, m := range fx.storedMailboxes(t) {
		if m.Address == address {
			return m.SendsToday
		}
	}
	t.Fatalf("%s is not stored", address)
	return 0
}

// blockedByRules returns the addresses that the rules at the platform block, without duplicates.
func (fx *fixture) blockedByRules(t *testing.T) []string {
	t.Helper()
	var blocked []string
	for _, r := range fx.fake.SnapshotOf(fx.id).Rules {
		if r.Enabled && len(r.Lists) == 0 {
			t.Fatalf("%s blocks all mail of the tenant", r.Name)
		}
		blocked = append(blocked, r.Blocks()...)
	}
	slices.Sort(blocked)
	return slices.Compact(blocked)
}

func (fx *fixture) blockedByRule(t *testing.T, scope string) []string {
	t.Helper()
	for _, r := range fx.fake.SnapshotOf(fx.id).Rules {
		if r.Name == sendlimit.RuleName(scope) {
			return r.Blocks()
		}
	}
	return nil
}

// storedBlocked returns the addresses of the mailboxes that are stored as blocked, sorted.
func (fx *fixture) storedBlocked(t *testing.T) []string {
	t.Helper()
	var blocked []string
	for _, m := range fx.storedMailboxes(t) {
		if !m.BlockedAt.IsZero() {
			blocked = append(blocked, m.Address)
		}
	}
	slices.Sort(blocked)
	return blocked
}

// events returns the events of each address, oldest first.
func (fx *fixture) events(t *testing.T) map[string][]sendlimit.Event {
	t.Helper()
	page, err := fx.store.Events(t.Context(), fx.owner, ports.EventQuery{Limit: 10000})
	must(t, err)
	byAddress := map[string][]sendlimit.Event{}
	for _, e := range slices.Backward(page.Events) {
		byAddress[e.Address] = append(byAddress[e.Address], e)
	}
	return byAddress
}

// checkConsistent fails the test unless the stored state, the rules and the events agree. For each
// block and each unblock by the rules there must be one event, in the same order.
func (fx *fixture) checkConsistent(t *testing.T) {
	t.Helper()
	if rules, blocked := fx.blockedByRules(t), fx.storedBlocked(t); !slices.Equal(rules, blocked) {
		t.Fatalf("the rules block %q, and the store has the blocked mailboxes %q; want the same", rules, blocked)
	}
	if diff := cmp.Diff(fx.ruleTransitions(), fx.eventTransitions(t)); diff != "" {
		t.Fatalf("events differ from the changes of the rules (-rules +events):\n%s", diff)
	}
}

// ruleTransitions returns, for each address, the blocks (true) and unblocks (false) by the rules,
// oldest first.
func (fx *fixture) ruleTransitions() map[string][]bool {
	ruleChanges := map[string][]bool{}
	for _, change := range fx.fake.BlockChanges(fx.id) {
		ruleChanges[change.Address] = append(ruleChanges[change.Address], change.Blocked)
	}
	return ruleChanges
}

// eventTransitions returns the same as ruleTransitions, computed from the stored events.
func (fx *fixture) eventTransitions(t *testing.T) map[string][]bool {
	t.Helper()
	eventChanges := map[string][]bool{}
	for address, events := range fx.events(t) {
		for _, e := range events {
			eventChanges[address] = append(eventChanges[address], e.Action == sendlimit.Blocked)
		}
	}
	return eventChanges
}

// TestAMailboxAboveItsLimitIsBlockedUntilTheNextDay checks one block and one unblock, with their
// events and the delay of the block.
func TestAMailboxAboveItsLimitIsBlockedUntilTheNextDay(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	ada := fx.mailboxes[0].Address
	fx.fake.Send(fx.id, ada, 5)
	must(t, fx.run(t))
	fx.checkConsistent(t)
	if len(fx.storedBlocked(t)) != 0 || fx.storedMailboxes(t)[0].SendsToday != 5 {
		t.Fatalf("a mailbox at its limit of 5 is %+v, want 5 messages and no block", fx.storedMailboxes(t)[0])
	}
	var delays []time.Duration
	fx.OnBlockDelay = func(_ context.Context, delay time.Duration) { delays = append(delays, delay) }
	fx.fake.Send(fx.id, ada, 1)
	for range 3 { // later passes write nothing
		must(t, fx.run(t))
		fx.checkConsistent(t)
	}
	if !slices.Equal(fx.storedBlocked(t), []string{ada}) || fx.fake.Effects("Block") != 1 {
		t.Fatalf("the blocked mailboxes are %q after %d writes, want only ada after 1 write", fx.storedBlocked(t), fx.fake.Effects("Block"))
	}
	if !slices.Equal(delays, []time.Duration{sendlimit.MaxInterval}) {
		t.Fatalf("the delays of the blocks are %v, want one of %s", delays, sendlimit.MaxInterval)
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
		t.Fatalf("the blocked mailboxes are %q and the events are %+v, want none, and a block and an unblock", fx.storedBlocked(t), events)
	}
}

// TestAFailedBlockIsNotShownAndIsTriedAgain checks that a mailbox is not shown as blocked if its
// rule could not be set. The next pass sets the rule. If only the answer was lost, the next pass
// finds the rule.
func TestAFailedBlockIsNotShownAndIsTriedAgain(t *testing.T) {
	for name, f := range map[string]fake.Fault{
		"the platform is down": {Method: "Block", Kind: outcome.Down, Times: 1},
		"the answer is lost":   {Method: "Block", Kind: outcome.Unknown, AfterEffect: true, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			fx.limit(t, sendlimit.TenantWide, 5)
			fx.fake.Send(fx.id, fx.mailboxes[0].Address, 6)
			fx.fake.Fail(f)
			if err := fx.run(t); err == nil {
				t.Fatal("the fault was not reported")
			}
			if blocked := fx.storedBlocked(t); len(blocked) != 0 || len(fx.events(t)) != 0 {
				t.Fatalf("the blocked mailboxes are %q and the events are %+v, want none", blocked, fx.events(t))
			}
			must(t, fx.run(t))
			fx.checkConsistent(t)
			if len(fx.storedBlocked(t)) != 1 || fx.fake.Effects("Block") != 1 {
				t.Fatalf("the blocked mailboxes are %q after %d writes, want one after 1 write", fx.storedBlocked(t), fx.fake.Effects("Block"))
			}
		})
	}
}

// TestAnUnreadableTraceUnblocksOnlyAtTheDayBoundary checks passes that cannot read the trace. Such
// passes unblock no mailbox during the day, and all mailboxes at the day boundary.
func TestAnUnreadableTraceUnblocksOnlyAtTheDayBoundary(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, domainOne, 5)
	fx.fake.Send(fx.id, fx.mailboxes[0].Address, 6)
	must(t, fx.run(t))
	endFault := fx.fake.Fail(fake.Fault{Method: "Sent", Kind: outcome.Throttled})
	if err := fx.run(t); err == nil || len(fx.storedBlocked(t)) != 1 {
		t.Fatalf("during the day: got the error %v and the blocked mailboxes %q, want an error and one mailbox", err, fx.storedBlocked(t))
	}
	fx.advance(24 * time.Hour)
	if err := fx.run(t); err == nil || len(fx.storedBlocked(t)) != 0 {
		t.Fatalf("on the next day: got the error %v and the blocked mailboxes %q, want an error and none", err, fx.storedBlocked(t))
	}
	endFault()
	must(t, fx.run(t))
	fx.checkConsistent(t)
}

func TestRuleOfADeletedDomainBlocksNoMailbox(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, domainOne, 5)
	fx.fake.Send(fx.id, fx.mailboxes[0].Address, 6)
	must(t, fx.run(t))
	fx.dropDomain(t, domainOne)
	must(t, fx.run(t))
	fx.checkConsistent(t)
	if scopes, err := fx.store.ScopesWithRules(t.Context(), fx.owner, fx.id); err != nil || len(scopes) != 0 || len(fx.blockedByRules(t)) != 0 {
		t.Fatalf("the scopes with rules are %q, %v, and the rules block %q; want none", scopes, err, fx.blockedByRules(t))
	}
}

func TestConcurrentRunsMakeOnePass(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	for _, m := range fx.mailboxes {
		fx.fake.Send(fx.id, m.Address, 6)
	}
	fx.advance(sendlimit.MaxInterval)
	var runs sync.WaitGroup
	for range 20 {
		runs.Go(func() {
			if err := fx.Run(t.Context(), fx.owner, fx.id); err != nil {
				t.Error(err)
			}
		})
	}
	runs.Wait()
	fx.checkConsistent(t)
	if fx.fake.Effects("Block") != 1 || len(fx.storedBlocked(t)) != len(fx.mailboxes) {
		t.Fatalf("got %d writes and the blocked mailboxes %q, want 1 write and all mailboxes", fx.fake.Effects("Block"), fx.storedBlocked(t))
	}
}

// TestAPausedPassThatLostItsLeaseChangesNothing pauses a pass while it reads the trace. Meanwhile
// the pass loses its lease.
func TestAPausedPassThatLostItsLeaseChangesNothing(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, sendlimit.TenantWide, 5)
	fx.fake.Send(fx.id, fx.mailboxes[0].Address, 6)
	fx.advance(sendlimit.MaxInterval)
	gate := fx.fake.Hold("Sent")
	passEnded := make(chan error)
	go func() { passEnded <- fx.Run(t.Context(), fx.owner, fx.id) }()
	<-gate.Arrived()
	_, err := fx.store.SetTimeZone(t.Context(), guid, "Europe/Berlin") // revokes the lease of the pass
	must(t, err)
	gate.Release()
	must(t, <-passEnded)
	if fx.fake.Calls("Block") != 0 || len(fx.storedBlocked(t)) != 0 || fx.storedMailboxes(t)[0].SendsToday != 0 {
		t.Fatalf("the pass changed the mailbox to %+v or set a rule, want no change", fx.storedMailboxes(t)[0])
	}
	must(t, fx.run(t))
	fx.checkConsistent(t)
}

// TestEventTimesIncreaseWhenTheClockStepsBack checks a clock that steps back after a block. The
// times of the events still increase. The limit is then raised. After a step back of an hour, the
// next pass unblocks the mailbox. After a step back of a day, only a pass with the right clock
// does.
func TestEventTimesIncreaseWhenTheClockStepsBack(t *testing.T) {
	for name, tc := range map[string]struct {
		stepBack   time.Duration // of the clock, after the block
		crashes    bool          // the pass that blocks crashes
		wantEvents int
	}{"a day": {24 * time.Hour, false, 1}, "an hour": {time.Hour, false, 2}, "an hour, after a pass that crashed": {time.Hour, true, 2}} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			ada := fx.mailboxes[0].Address
			fx.limit(t, sendlimit.TenantWide, 5)
			fx.fake.Send(fx.id, ada, 6)
			if tc.crashes {
				fx.runCrashingAt(t, &crashPlan{stepName: "Block", afterEffect: true})
			} else {
				must(t, fx.run(t))
			}
			rightTime := fx.now
			fx.now = fx.now.Add(-tc.stepBack)
			_, err := fx.store.SetTimeZone(t.Context(), fx.id, "Europe/London") // makes the tenant due
			must(t, err)
			fx.limit(t, sendlimit.TenantWide, 9)
			must(t, fx.Run(t.Context(), fx.owner, fx.id))
			fx.checkConsistent(t)
			events := fx.events(t)[ada]
			if len(events) != tc.wantEvents || tc.wantEvents == 2 && !events[1].At.After(events[0].At) {
				t.Fatalf("the events are %+v, want %d at increasing times", events, tc.wantEvents)
			}
			fx.now = rightTime
			must(t, fx.run(t))
			if fx.checkConsistent(t); len(fx.storedBlocked(t)) != 0 {
				t.Fatalf("with the right clock the blocked mailboxes are %q, want none", fx.storedBlocked(t))
			}
		})
	}
}

// TestAFailedUnblockIsNotShown checks that a mailbox stays blocked in the store while its rule
// cannot be set. The next pass unblocks it.
func TestAFailedUnblockIsNotShown(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, domainOne, 5)
	fx.limit(t, domainTwo, 5)
	fx.fake.Send(fx.id, fx.mailboxes[0].Address, 6)
	must(t, fx.run(t))
	fx.limit(t, domainOne, 6)
	fx.fake.Fail(fake.Fault{Method: "Block", Object: domainOne, Kind: outcome.Down, Times: 1})
	if err := fx.run(t); err == nil {
		t.Fatal("the fault was not reported")
	}
	fx.checkConsistent(t)
	must(t, fx.run(t))
	fx.checkConsistent(t)
	if blocked := fx.storedBlocked(t); len(blocked) != 0 {
		t.Fatalf("the blocked mailboxes are %q, want none", blocked)
	}
}
