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

const (
	guid = tenant.GUID("11111111-2222-4333-8444-555555555555")
	one  = "one.test"
	two  = "two.test"
)

// house is a runner over SQLite and the fake platform, with a tenant that has
// two domains with two mailboxes each.
type house struct {
	*enforcement.Runner
	store *bunstore.Store
	fake  *fake.Platform
	owner access.AccountID
	id    tenant.GUID
	now   time.Time
	boxes []mailbox.Mailbox
}

func newHouse(t *testing.T) *house {
	t.Helper()
	return houseIn(t, newStore(t), "ann@example.com", guid)
}

// numbered is one of many houses in a store.
func numbered(t *testing.T, store *bunstore.Store, n int) *house {
	t.Helper()
	return houseIn(t, store, fmt.Sprintf("ann%d@example.com", n), tenant.GUID(fmt.Sprintf("11111111-2222-4333-8444-%012d", n)))
}

func newStore(t *testing.T) *bunstore.Store {
	t.Helper()
	store, err := bunstore.Open(t.Context(), bunstore.Memory, bunstore.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	must(t, store.Migrate(t.Context()))
	return store
}

// houseIn is a house in a store that it may share with others.
func houseIn(t *testing.T, store *bunstore.Store, email string, id tenant.GUID) *house {
	t.Helper()
	h := &house{store: store, id: id, fake: fake.New(), now: time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)} // as the fake's
	h.Runner = &enforcement.Runner{Runs: store, Policies: store, Tenants: store, Platform: h.fake,
		Now: func() time.Time { return h.now }}
	acc, err := store.CreateAccount(t.Context(), email, "complete", 0, h.now)
	must(t, err)
	h.owner = acc.ID
	h.fake.Connect(id, fake.Setup{TracePage: 7})
	x, err := store.Attach(t.Context(), h.owner, tenant.Tenant{GUID: id, ConsentedAt: h.now}, 10)
	must(t, err)
	x.Bootstrap = tenant.BootstrapReady
	must(t, store.SaveTenant(t.Context(), h.owner, x))
	for _, zone := range []string{one, two} {
		d := h.addDomain(t, zone)
		for _, local := range []string{"ada", "bob"} {
			made, err := store.ReserveMailboxes(t.Context(), h.owner, d.ID, []mailbox.Spec{{Address: local + "@" + zone}}, 3, h.now)
			must(t, err)
			made[0].Stage = mailbox.Ready
			must(t, store.SaveMailbox(t.Context(), h.owner, made[0]))
			h.boxes = append(h.boxes, made[0])
		}
	}
	return h
}

func (h *house) addDomain(t *testing.T, zone string) domain.Domain {
	t.Helper()
	d, err := h.store.ReserveDomain(t.Context(), h.owner, h.id, zone, 12, h.now)
	must(t, err)
	d.Added = true
	must(t, h.store.SaveDomain(t.Context(), h.owner, d))
	return d
}

// drop has a domain be gone, as a sync finds it.
func (h *house) drop(t *testing.T, zone string) {
	t.Helper()
	all, err := h.store.Domains(t.Context(), h.owner, h.id)
	must(t, err)
	all = slices.DeleteFunc(all, func(d domain.Domain) bool { return d.Name == zone })
	must(t, h.store.SaveDiscovery(t.Context(), h.owner, h.id, ports.Found{Began: h.now.Add(48 * time.Hour), Domains: append([]domain.Domain{}, all...)}))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *house) advance(by time.Duration) {
	h.now = h.now.Add(by)
	h.fake.Advance(by)
}

// limit puts a policy in force, as app/limits does.
func (h *house) limit(t *testing.T, scope string, perDay int) {
	t.Helper()
	p, err := h.store.ReservePolicy(t.Context(), h.owner, h.id, scope, h.now)
	must(t, err)
	p.PerDay = perDay
	must(t, h.store.SavePolicy(t.Context(), h.owner, p))
}

// run is one when the tenant is due again.
func (h *house) run(t *testing.T) error {
	t.Helper()
	h.advance(sendlimit.Latest)
	return h.Run(t.Context(), h.owner, h.id)
}

func (h *house) stored(t *testing.T) []mailbox.Mailbox {
	t.Helper()
	all, err := h.store.Mailboxes(t.Context(), h.owner, h.id)
	must(t, err)
	return all
}

// sent is how many messages a mailbox is shown to have sent.
func (h *house) sent(t *testing.T, address string) int {
	t.Helper()
	for _, m := range h.stored(t) {
		if m.Address == address {
			return m.SendsToday
		}
	}
	t.Fatalf("%s is not there", address)
	return 0
}

// blocks are whom the rules at the platform block, each once.
func (h *house) blocks(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, r := range h.fake.Holds(h.id).Rules {
		if r.Enabled && len(r.Lists) == 0 {
			t.Fatalf("%s stops everybody's mail", r.Name)
		}
		all = append(all, r.Blocks()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// lists is whom the rule of a scope blocks.
func (h *house) lists(t *testing.T, scope string) []string {
	t.Helper()
	for _, r := range h.fake.Holds(h.id).Rules {
		if r.Name == sendlimit.RuleName(scope) {
			return r.Blocks()
		}
	}
	return nil
}

func (h *house) blocked(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, m := range h.stored(t) {
		if !m.BlockedAt.IsZero() {
			all = append(all, m.Address)
		}
	}
	slices.Sort(all)
	return all
}

// events are an address's, oldest first.
func (h *house) events(t *testing.T) map[string][]sendlimit.Event {
	t.Helper()
	page, err := h.store.Events(t.Context(), h.owner, ports.EventQuery{Limit: 10000})
	must(t, err)
	all := map[string][]sendlimit.Event{}
	for _, e := range slices.Backward(page.Events) {
		all[e.Address] = append(all[e.Address], e)
	}
	return all
}

// agrees holds state, rules and events to each other: whoever is blocked is so
// by the rules, and each time that they began or ceased to stop an address has
// one event, in that order.
func (h *house) agrees(t *testing.T) {
	t.Helper()
	if rules, blocked := h.blocks(t), h.blocked(t); !slices.Equal(rules, blocked) {
		t.Fatalf("the rules block %q, stored is %q", rules, blocked)
	}
	if diff := cmp.Diff(h.turns(), h.acts(t)); diff != "" {
		t.Fatalf("events differ from what the rules did (-rules +events):\n%s", diff)
	}
}

// turns are, of each address, whether the rules began or ceased to stop it, and
// acts whether the events say that it was blocked or let go.
func (h *house) turns() map[string][]bool {
	turns := map[string][]bool{}
	for _, turn := range h.fake.Turns(h.id) {
		turns[turn.Address] = append(turns[turn.Address], turn.Blocked)
	}
	return turns
}

func (h *house) acts(t *testing.T) map[string][]bool {
	t.Helper()
	acts := map[string][]bool{}
	for address, all := range h.events(t) {
		for _, e := range all {
			acts[address] = append(acts[address], e.Action == sendlimit.Blocked)
		}
	}
	return acts
}

func TestAMailboxIsBlockedAndLetGo(t *testing.T) {
	h := newHouse(t)
	h.limit(t, sendlimit.TenantWide, 5)
	ada := h.boxes[0].Address
	h.fake.Send(h.id, ada, 5)
	must(t, h.run(t))
	h.agrees(t)
	if len(h.blocked(t)) != 0 || h.stored(t)[0].SendsToday != 5 {
		t.Fatalf("at its limit: %+v", h.stored(t)[0])
	}
	var late []time.Duration
	h.Late = func(_ context.Context, lag time.Duration) { late = append(late, lag) }
	h.fake.Send(h.id, ada, 1)
	for range 3 { // what is so is not written again
		must(t, h.run(t))
		h.agrees(t)
	}
	if !slices.Equal(h.blocked(t), []string{ada}) || h.fake.Effects("Block") != 1 {
		t.Fatalf("blocked are %q after %d writes", h.blocked(t), h.fake.Effects("Block"))
	}
	if !slices.Equal(late, []time.Duration{sendlimit.Latest}) {
		t.Fatalf("blocked after %v", late)
	}
	if h.fake.Send(h.id, ada, 3) != 0 {
		t.Fatal("a blocked mailbox sends")
	}
	h.advance(24 * time.Hour)
	must(t, h.run(t))
	h.agrees(t)
	events := h.events(t)[ada]
	if len(h.blocked(t)) != 0 || len(events) != 2 || events[0].Message() != "Mailbox blocked: sent 6, limit 5" ||
		events[1].Message() != "Mailbox unblocked: sent 0, limit 5" {
		t.Fatalf("blocked are %q, events %+v", h.blocked(t), events)
	}
}

// A rule that could not be set is no block, and is tried again; one whose
// answer was lost is found as it was set.
func TestARuleThatCannotBeSet(t *testing.T) {
	for name, f := range map[string]fake.Fault{
		"down": {Method: "Block", Kind: outcome.Down, Times: 1},
		"lost": {Method: "Block", Kind: outcome.Unknown, AfterEffect: true, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.limit(t, sendlimit.TenantWide, 5)
			h.fake.Send(h.id, h.boxes[0].Address, 6)
			h.fake.Fail(f)
			if err := h.run(t); err == nil {
				t.Fatal("the fault was not told")
			}
			if blocked := h.blocked(t); len(blocked) != 0 || len(h.events(t)) != 0 {
				t.Fatalf("blocked are %q, events %+v", blocked, h.events(t))
			}
			must(t, h.run(t))
			h.agrees(t)
			if len(h.blocked(t)) != 1 || h.fake.Effects("Block") != 1 {
				t.Fatalf("blocked are %q after %d writes", h.blocked(t), h.fake.Effects("Block"))
			}
		})
	}
}

// Without a trace nobody is let go within the day, and all are when it turns.
func TestATraceThatCannotBeRead(t *testing.T) {
	h := newHouse(t)
	h.limit(t, one, 5)
	h.fake.Send(h.id, h.boxes[0].Address, 6)
	must(t, h.run(t))
	lift := h.fake.Fail(fake.Fault{Method: "Sent", Kind: outcome.Throttled})
	if err := h.run(t); err == nil || len(h.blocked(t)) != 1 {
		t.Fatalf("%v, blocked are %q", err, h.blocked(t))
	}
	h.advance(24 * time.Hour)
	if err := h.run(t); err == nil || len(h.blocked(t)) != 0 {
		t.Fatalf("%v, blocked are %q", err, h.blocked(t))
	}
	lift()
	must(t, h.run(t))
	h.agrees(t)
}

// The rule of a domain that is gone blocks nobody any more.
func TestARuleWhosePolicyWent(t *testing.T) {
	h := newHouse(t)
	h.limit(t, one, 5)
	h.fake.Send(h.id, h.boxes[0].Address, 6)
	must(t, h.run(t))
	h.drop(t, one)
	must(t, h.run(t))
	h.agrees(t)
	if scopes, err := h.store.RuledScopes(t.Context(), h.owner, h.id); err != nil || len(scopes) != 0 || len(h.blocks(t)) != 0 {
		t.Fatalf("%q, %v", scopes, err)
	}
}

func TestOfRunsAtOnceOneWorks(t *testing.T) {
	h := newHouse(t)
	h.limit(t, sendlimit.TenantWide, 5)
	for _, m := range h.boxes {
		h.fake.Send(h.id, m.Address, 6)
	}
	h.advance(sendlimit.Latest)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := h.Run(t.Context(), h.owner, h.id); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	h.agrees(t)
	if h.fake.Effects("Block") != 1 || len(h.blocked(t)) != len(h.boxes) {
		t.Fatalf("%d writes, blocked are %q", h.fake.Effects("Block"), h.blocked(t))
	}
}

// A run that was paused and lost its tenant changes nothing when it wakes.
func TestARunThatWakesLate(t *testing.T) {
	h := newHouse(t)
	h.limit(t, sendlimit.TenantWide, 5)
	h.fake.Send(h.id, h.boxes[0].Address, 6)
	h.advance(sendlimit.Latest)
	gate := h.fake.Hold("Sent")
	done := make(chan error)
	go func() { done <- h.Run(t.Context(), h.owner, h.id) }()
	<-gate.Arrived()
	_, err := h.store.SetDay(t.Context(), guid, "Europe/Berlin") // which takes the tenant from the run
	must(t, err)
	gate.Release()
	must(t, <-done)
	if h.fake.Calls("Block") != 0 || len(h.blocked(t)) != 0 || h.stored(t)[0].SendsToday != 0 {
		t.Fatalf("written: %+v", h.stored(t)[0])
	}
	must(t, h.run(t))
	h.agrees(t)
}

// A clock that steps back lets nobody go, and what happens then is on record
// after what happened before.
func TestAClockThatStepsBack(t *testing.T) {
	for name, tt := range map[string]struct {
		by     time.Duration
		dies   bool
		events int
	}{"a day": {24 * time.Hour, false, 1}, "an hour": {time.Hour, false, 2}, "an hour, after a run that did not end": {time.Hour, true, 2}} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			ada := h.boxes[0].Address
			h.limit(t, sendlimit.TenantWide, 5)
			h.fake.Send(h.id, ada, 6)
			if tt.dies {
				h.diesAt(t, &life{at: "Block", after: true})
			} else {
				must(t, h.run(t))
			}
			right := h.now
			h.now = h.now.Add(-tt.by)
			_, err := h.store.SetDay(t.Context(), h.id, "Europe/London") // which makes it due
			must(t, err)
			h.limit(t, sendlimit.TenantWide, 9)
			must(t, h.Run(t.Context(), h.owner, h.id))
			h.agrees(t)
			events := h.events(t)[ada]
			if len(events) != tt.events || tt.events == 2 && !events[1].At.After(events[0].At) {
				t.Fatalf("events %+v", events)
			}
			h.now = right
			must(t, h.run(t))
			if h.agrees(t); len(h.blocked(t)) != 0 {
				t.Fatalf("blocked are %q", h.blocked(t))
			}
		})
	}
}

// Who could not be let go is not shown as let go.
func TestARuleThatCannotBeTakenBack(t *testing.T) {
	h := newHouse(t)
	h.limit(t, one, 5)
	h.limit(t, two, 5)
	h.fake.Send(h.id, h.boxes[0].Address, 6)
	must(t, h.run(t))
	h.limit(t, one, 6)
	h.fake.Fail(fake.Fault{Method: "Block", About: one, Kind: outcome.Down, Times: 1})
	if err := h.run(t); err == nil {
		t.Fatal("the fault was not told")
	}
	h.agrees(t)
	must(t, h.run(t))
	h.agrees(t)
	if blocked := h.blocked(t); len(blocked) != 0 {
		t.Fatalf("blocked are %q", blocked)
	}
}
