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

// syncMailboxes stores two discoveries with exactly these mailboxes. The second discovery removes
// all other mailboxes.
func (fx *fixture) syncMailboxes(t *testing.T, present []string) {
	t.Helper()
	found := ports.DiscoveryResult{Mailboxes: []mailbox.Platform{}, MissedMailboxes: map[string]bool{}}
	for _, address := range present {
		found.Mailboxes = append(found.Mailboxes, mailbox.Platform{Address: address})
	}
	for _, m := range fx.mailboxes {
		found.MissedMailboxes[m.Address] = !slices.Contains(present, m.Address)
	}
	found.Began, found.At = fx.now, fx.now
	must(t, fx.store.SaveDiscovery(t.Context(), fx.owner, fx.id, found))
	fx.advance(observation.ReplicaLag)
	found.Began, found.At = fx.now, fx.now
	must(t, fx.store.SaveDiscovery(t.Context(), fx.owner, fx.id, found))
}

// TestMailboxThatASyncDropsIsUnblocked checks a blocked mailbox that a sync deletes. The mailbox is
// unblocked, and the events of the block and the unblock are kept.
func TestMailboxThatASyncDropsIsUnblocked(t *testing.T) {
	fx := newFixture(t)
	ada := fx.mailboxes[0].Address
	present := addresses(fx.mailboxes)
	fx.Platform = partialPlatform{fx.fake, &present}
	fx.limit(t, sendlimit.TenantWide, 5)
	fx.fake.Send(fx.id, ada, 6)
	must(t, fx.run(t))
	present = present[1:]
	fx.syncMailboxes(t, present)
	if events := fx.events(t)[ada]; len(events) != 2 || events[1].Message() != "Mailbox unblocked: sent 6, limit 5" {
		t.Fatalf("the events are %+v, want a block and an unblock", events)
	}
	must(t, fx.Run(t.Context(), fx.owner, fx.id)) // the tenant is due at once
	fx.checkConsistent(t)
	if blocks := fx.blockedByRules(t); len(blocks) != 0 {
		t.Fatalf("the rules block %q, want none", blocks)
	}
}

// TestBlockedMailboxThatIsReservedAgainStaysBlocked checks a blocked mailbox that a sync misses and
// that a request then creates again. The platform may still have the mailbox, so its rule must keep
// blocking it.
func TestBlockedMailboxThatIsReservedAgainStaysBlocked(t *testing.T) {
	fx := newFixture(t)
	ada := fx.mailboxes[0]
	fx.limit(t, sendlimit.TenantWide, 5)
	fx.fake.Send(fx.id, ada.Address, 6)
	must(t, fx.run(t))
	must(t, fx.store.SaveDiscovery(t.Context(), fx.owner, fx.id, ports.DiscoveryResult{Began: fx.now, At: fx.now,
		Mailboxes: []mailbox.Platform{}, MissedMailboxes: map[string]bool{ada.Address: true}}))
	_, err := fx.store.ReserveMailboxes(t.Context(), fx.owner, ada.DomainID, []mailbox.Spec{{Address: ada.Address}}, mailbox.MaxPerDomain, fx.now)
	must(t, err)
	must(t, fx.run(t))
	if blocked := fx.blockedByRules(t); !slices.Equal(blocked, []string{ada.Address}) {
		t.Fatalf("the rules block %q, want %s", blocked, ada.Address)
	}
	fx.checkEvents(t)
}

// TestUnblockWithoutLimitNamesTheExceededLimit checks the unblock of a mailbox that no longer has a
// limit. The event names the limit for which the mailbox was blocked.
func TestUnblockWithoutLimitNamesTheExceededLimit(t *testing.T) {
	fx := newFixture(t)
	ada := fx.mailboxes[0].Address
	fx.limit(t, domainOne, 5)
	fx.fake.Send(fx.id, ada, 6)
	must(t, fx.run(t))
	fx.dropDomain(t, domainOne)
	must(t, fx.run(t))
	fx.checkConsistent(t)
	if events := fx.events(t)[ada]; len(events) != 2 || events[1].Message() != "Mailbox unblocked: sent 6, limit 5" {
		t.Fatalf("the events are %+v, want an unblock that names the limit 5", events)
	}
}

func addresses(mailboxes []mailbox.Mailbox) (list []string) {
	for _, m := range mailboxes {
		list = append(list, m.Address)
	}
	return list
}

// TestStateMatchesTheRulesWhenMailboxesComeAndGo lets mailboxes disappear and return at the
// platform, while syncs run at random times and passes crash. The events of each mailbox alternate
// between block and unblock. In the end the stored state matches the rules.
func TestStateMatchesTheRulesWhenMailboxesComeAndGo(t *testing.T) {
	histories := 20
	if soak.Enabled() {
		histories = 2000
	}
	store, events, syncEvents := newStore(t), 0, 0
	for seed := range histories {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := newMailboxChurn(t, store, seed)
			for range 30 {
				c.playStep(t)
				c.checkAlternation(t, addresses(c.storedMailboxes(t)))
			}
			c.checkFinalState(t)
			events += c.eventCount(t)
			syncEvents += c.syncEvents
		})
	}
	if events < histories || syncEvents < histories/4 {
		t.Errorf("got %d events, %d of them by syncs, want at least %d and %d", events, syncEvents, histories, histories/4)
	}
}

// mailboxChurn is a fixture whose mailboxes disappear and return.
type mailboxChurn struct {
	*fixture
	*rand.Rand

	present      []string
	everyAddress []string
	syncEvents   int // number of events that syncs wrote
}

func newMailboxChurn(t *testing.T, store *bunstore.Store, seed int) *mailboxChurn {
	t.Helper()
	c := &mailboxChurn{fixture: newNumberedFixture(t, store, seed), Rand: rand.New(rand.NewPCG(uint64(seed), 11))}
	c.everyAddress = addresses(c.mailboxes)
	c.present = slices.Clone(c.everyAddress)
	c.Platform = partialPlatform{c.fake, &c.present}
	c.limit(t, sendlimit.TenantWide, 5)
	c.limit(t, domainOne, 7)
	return c
}

func (c *mailboxChurn) playStep(t *testing.T) {
	t.Helper()
	address := c.everyAddress[c.IntN(len(c.everyAddress))]
	switch c.IntN(8) {
	case 0, 1:
		if slices.Contains(c.present, address) {
			c.fake.Send(c.id, address, 1+c.IntN(9))
		}
	case 2:
		if index := slices.Index(c.present, address); index >= 0 {
			c.present = slices.Delete(slices.Clone(c.present), index, index+1)
		} else {
			c.present = append(slices.Clone(c.present), address)
		}
	case 3, 4:
		countBefore := c.eventCount(t)
		c.syncMailboxes(t, c.present)
		c.syncEvents += c.eventCount(t) - countBefore
	case 5:
		c.runCrashingAt(t, &crashPlan{stepsLeft: c.IntN(2), afterEffect: c.IntN(2) == 0, stepName: []string{"SaveIntents", "Block", "SaveChanges", "ReconcileIntents"}[c.IntN(4)]})
	case 6:
		c.advance(time.Duration(c.IntN(10)) * time.Hour)
	default:
		_ = c.run(t) // can fail, because the platform refuses missing mailboxes
	}
}

func (c *mailboxChurn) eventCount(t *testing.T) (n int) {
	t.Helper()
	for _, events := range c.events(t) {
		n += len(events)
	}
	return n
}

// checkAlternation fails the test unless the blocks and unblocks of each address alternate in time
// order. For the addresses in listed, the last event must also match the stored state. listed must
// not contain a blocked mailbox that a sync hides. The last event of a hidden mailbox can be a
// block, but the store does not list the mailbox.
func (c *mailboxChurn) checkAlternation(t *testing.T, listed []string) {
	t.Helper()
	blocked := c.storedBlocked(t)
	for address, events := range c.events(t) {
		for n, e := range events {
			if (e.Action == sendlimit.Blocked) != (n%2 == 0) || n > 0 && !e.At.After(events[n-1].At) {
				t.Fatalf("blocks and unblocks of %s do not alternate: %+v", address, events)
			}
		}
		if slices.Contains(listed, address) && slices.Contains(blocked, address) != (len(events)%2 == 1) {
			t.Fatalf("the blocked mailboxes are %q, which contradicts the events of %s: %+v", blocked, address, events)
		}
	}
}

// checkFinalState runs enough syncs and passes to reach a stable state, and checks this state.
func (c *mailboxChurn) checkFinalState(t *testing.T) {
	t.Helper()
	for range 3 {
		_ = c.run(t)
		c.syncMailboxes(t, c.present)
	}
	must(t, c.run(t))
	c.checkAlternation(t, c.everyAddress)
	if stored := addresses(c.storedMailboxes(t)); len(stored) != len(c.present) {
		t.Fatalf("the store has the mailboxes %q, want those of the platform: %q", stored, c.present)
	}
	if rules, blocked := c.blockedByRules(t), c.storedBlocked(t); !slices.Equal(rules, blocked) {
		t.Fatalf("the rules block %q, and the store has the blocked mailboxes %q; want the same", rules, blocked)
	}
	eventChanges := c.eventTransitions(t)
	for address, ruleChanges := range c.ruleTransitions() {
		if blocks, recorded := countBlocks(ruleChanges), countBlocks(eventChanges[address]); blocks > recorded {
			t.Fatalf("the rules blocked %s %d times, but only %d blocks are recorded", address, blocks, recorded)
		}
	}
}

func countBlocks(changes []bool) (n int) {
	for _, isBlock := range changes {
		if isBlock {
			n++
		}
	}
	return n
}
