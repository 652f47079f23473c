// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

// syncMailboxes stores two discoveries with exactly these mailboxes. All other mailboxes are
// removed by the second discovery.
func (fx *fixture) syncMailboxes(t *testing.T, present []string) {
	t.Helper()
	f := ports.Found{Mailboxes: []mailbox.Platform{}, MissedMailboxes: map[string]bool{}}
	for _, address := range present {
		f.Mailboxes = append(f.Mailboxes, mailbox.Platform{Address: address})
	}
	for _, m := range fx.boxes {
		f.MissedMailboxes[m.Address] = !slices.Contains(present, m.Address)
	}
	f.Began, f.At = fx.now, fx.now
	must(t, fx.store.SaveDiscovery(t.Context(), fx.owner, fx.id, f))
	fx.advance(observation.ReplicaLag)
	f.Began, f.At = fx.now, fx.now
	must(t, fx.store.SaveDiscovery(t.Context(), fx.owner, fx.id, f))
}

// A blocked mailbox that a sync drops is unblocked, and both events are kept. If it is found again
// and sends too much, it is blocked again.
func TestSyncDropsBlockedMailbox(t *testing.T) {
	fx := newFixture(t)
	ada := fx.boxes[0].Address
	present := addresses(fx.boxes)
	fx.Platform = partialPlatform{fx.fake, &present}
	fx.limit(t, sendlimit.TenantWide, 5)
	fx.fake.Send(fx.id, ada, 6)
	must(t, fx.run(t))
	present = present[1:]
	fx.syncMailboxes(t, present)
	if events := fx.events(t)[ada]; len(events) != 2 || events[1].Message() != "Mailbox unblocked: sent 6, limit 5" {
		t.Fatalf("events %+v", events)
	}
	must(t, fx.Run(t.Context(), fx.owner, fx.id)) // due at once
	fx.checkConsistent(t)
	if blocks := fx.blockedByRules(t); len(blocks) != 0 {
		t.Fatalf("the rules block %q", blocks)
	}
}

// The event of an unblock without a limit names the limit of its block.
func TestUnblockWithoutLimit(t *testing.T) {
	fx := newFixture(t)
	ada := fx.boxes[0].Address
	fx.limit(t, one, 5)
	fx.fake.Send(fx.id, ada, 6)
	must(t, fx.run(t))
	fx.dropDomain(t, one)
	must(t, fx.run(t))
	fx.checkConsistent(t)
	if events := fx.events(t)[ada]; len(events) != 2 || events[1].Message() != "Mailbox unblocked: sent 6, limit 5" {
		t.Fatalf("events %+v", events)
	}
}

func addresses(all []mailbox.Mailbox) (list []string) {
	for _, m := range all {
		list = append(list, m.Address)
	}
	return list
}

// Mailboxes disappear and return at the platform, syncs run at random times, and passes crash. The
// events of each mailbox alternate between block and unblock. In the end the stored state matches
// the rules.
func TestStateMatchesTheRulesWhenMailboxesComeAndGo(t *testing.T) {
	histories := 20
	if soak.On() {
		histories = 2000
	}
	store, blocks, drops := newStore(t), 0, 0
	for seed := range histories {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			g := newMailboxChurn(t, store, seed)
			for range 30 {
				g.playStep(t)
				g.checkAlternation(t, addresses(g.storedMailboxes(t)))
			}
			g.checkFinalState(t)
			for _, all := range g.events(t) {
				blocks += len(all)
			}
			drops += g.drops
		})
	}
	if blocks < histories || drops < histories/4 {
		t.Errorf("only %d events, and %d that a sync wrote", blocks, drops)
	}
}

// mailboxChurn is a fixture whose mailboxes disappear and return.
type mailboxChurn struct {
	*fixture
	*rand.Rand

	present []string
	all     []string
	drops   int // number of events that syncs wrote
}

func newMailboxChurn(t *testing.T, store *bunstore.Store, seed int) *mailboxChurn {
	t.Helper()
	g := &mailboxChurn{fixture: newNumberedFixture(t, store, seed), Rand: rand.New(rand.NewPCG(uint64(seed), 11))}
	g.all = addresses(g.boxes)
	g.present = slices.Clone(g.all)
	g.Platform = partialPlatform{g.fake, &g.present}
	g.limit(t, sendlimit.TenantWide, 5)
	g.limit(t, one, 7)
	return g
}

func (g *mailboxChurn) playStep(t *testing.T) {
	t.Helper()
	address := g.all[g.IntN(len(g.all))]
	switch g.IntN(8) {
	case 0, 1:
		if slices.Contains(g.present, address) {
			g.fake.Send(g.id, address, 1+g.IntN(9))
		}
	case 2:
		if at := slices.Index(g.present, address); at >= 0 {
			g.present = slices.Delete(slices.Clone(g.present), at, at+1)
		} else {
			g.present = append(slices.Clone(g.present), address)
		}
	case 3, 4:
		before := g.total(t)
		g.syncMailboxes(t, g.present)
		g.drops += g.total(t) - before
	case 5:
		g.runCrashingAt(t, &crashPlan{left: g.IntN(2), after: g.IntN(2) == 0, at: []string{"SaveIntents", "Block", "SaveChanges", "Settle"}[g.IntN(4)]})
	case 6:
		g.advance(time.Duration(g.IntN(10)) * time.Hour)
	default:
		_ = g.run(t) // the platform refuses missing mailboxes
	}
}

func (g *mailboxChurn) total(t *testing.T) (n int) {
	t.Helper()
	for _, all := range g.events(t) {
		n += len(all)
	}
	return n
}

// checkAlternation fails the test unless the blocks and unblocks of each address alternate in time
// order. The last event of each known address must match the stored state. A mailbox that the store
// does not list can still be blocked, so it is not known.
func (g *mailboxChurn) checkAlternation(t *testing.T, known []string) {
	t.Helper()
	blocked := g.storedBlocked(t)
	for address, all := range g.events(t) {
		for n, e := range all {
			if (e.Action == sendlimit.Blocked) != (n%2 == 0) || n > 0 && !e.At.After(all[n-1].At) {
				t.Fatalf("events of %s: %+v", address, all)
			}
		}
		if slices.Contains(known, address) && slices.Contains(blocked, address) != (len(all)%2 == 1) {
			t.Fatalf("the blocked mailboxes are %q, events of %s: %+v", blocked, address, all)
		}
	}
}

// checkFinalState runs syncs and passes until the state is stable, and checks it.
func (g *mailboxChurn) checkFinalState(t *testing.T) {
	t.Helper()
	for range 3 {
		_ = g.run(t)
		g.syncMailboxes(t, g.present)
	}
	must(t, g.run(t))
	g.checkAlternation(t, g.all)
	if stored := addresses(g.storedMailboxes(t)); len(stored) != len(g.present) {
		t.Fatalf("stored are %q, there are %q", stored, g.present)
	}
	if rules, blocked := g.blockedByRules(t), g.storedBlocked(t); !slices.Equal(rules, blocked) {
		t.Fatalf("the rules block %q, stored is %q", rules, blocked)
	}
	eventChanges := g.eventTransitions(t)
	for address, ruleChanges := range g.ruleTransitions() {
		if blocks, recorded := countBlocks(ruleChanges), countBlocks(eventChanges[address]); blocks > recorded {
			t.Fatalf("the rules blocked %s %d times, and %d blocks are recorded", address, blocks, recorded)
		}
	}
}

func countBlocks(all []bool) (n int) {
	for _, isBlock := range all {
		if isBlock {
			n++
		}
	}
	return n
}
