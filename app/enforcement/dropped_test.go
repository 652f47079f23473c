// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

// sync has the tenant's mailboxes be those that the platform has now.
func (h *house) sync(t *testing.T, there []string) {
	t.Helper()
	f := ports.Found{Began: h.now, At: h.now, Mailboxes: []mailbox.Platform{}}
	for _, address := range there {
		f.Mailboxes = append(f.Mailboxes, mailbox.Platform{Address: address})
	}
	must(t, h.store.SaveDiscovery(t.Context(), h.owner, h.id, f))
}

// A mailbox that a sync drops while it is blocked is let go, with both events on
// record, and blocked again when it is found again and sent too much.
func TestABlockedMailboxThatASyncDrops(t *testing.T) {
	h := newHouse(t)
	ada := h.boxes[0].Address
	there := addresses(h.boxes)
	h.Platform = without{h.fake, &there}
	h.limit(t, sendlimit.TenantWide, 5)
	h.fake.Send(h.id, ada, 6)
	must(t, h.run(t))
	there = there[1:]
	h.sync(t, there)
	if events := h.events(t)[ada]; len(events) != 2 || events[1].Message() != "Mailbox unblocked: sent 6, limit 5" {
		t.Fatalf("events %+v", events)
	}
	must(t, h.Run(t.Context(), h.owner, h.id)) // due at once
	h.agrees(t)
	if blocks := h.blocks(t); len(blocks) != 0 {
		t.Fatalf("the rules block %q", blocks)
	}
}

// A release where no limit is enforced any more tells the limit of its block.
func TestAReleaseWhereNoLimitIs(t *testing.T) {
	h := newHouse(t)
	ada := h.boxes[0].Address
	h.limit(t, one, 5)
	h.fake.Send(h.id, ada, 6)
	must(t, h.run(t))
	h.drop(t, one)
	must(t, h.run(t))
	h.agrees(t)
	if events := h.events(t)[ada]; len(events) != 2 || events[1].Message() != "Mailbox unblocked: sent 6, limit 5" {
		t.Fatalf("events %+v", events)
	}
}

func addresses(all []mailbox.Mailbox) (list []string) {
	for _, m := range all {
		list = append(list, m.Address)
	}
	return list
}

// TestHistoriesOfMailboxesThatGo: mailboxes go at the platform and come back,
// syncs find that out whenever they like, and runs end anywhere. Of no mailbox is
// there a block without its release, nor one without its block, and once all is
// well state and rules agree.
func TestHistoriesOfMailboxesThatGo(t *testing.T) {
	many := 20
	if os.Getenv("TENANTRY_SOAK") != "" {
		many = 2000
	}
	store, blocks, drops := newStore(t), 0, 0
	for seed := range many {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			g := newGoing(t, store, seed)
			for range 30 {
				g.one(t)
				g.alternates(t)
			}
			g.ends(t)
			for _, all := range g.events(t) {
				blocks += len(all)
			}
			drops += g.drops
		})
	}
	if blocks < many || drops < many/4 {
		t.Errorf("only %d events, and %d that a sync wrote", blocks, drops)
	}
}

// going is a house whose mailboxes come and go.
type going struct {
	*house
	*rand.Rand

	there []string
	all   []string
	drops int // events that syncs wrote
}

func newGoing(t *testing.T, store *bunstore.Store, seed int) *going {
	t.Helper()
	g := &going{house: numbered(t, store, seed), Rand: rand.New(rand.NewPCG(uint64(seed), 11))}
	g.all = addresses(g.boxes)
	g.there = slices.Clone(g.all)
	g.Platform = without{g.fake, &g.there}
	g.limit(t, sendlimit.TenantWide, 5)
	g.limit(t, one, 7)
	return g
}

func (g *going) one(t *testing.T) {
	t.Helper()
	address := g.all[g.IntN(len(g.all))]
	switch g.IntN(8) {
	case 0, 1:
		if slices.Contains(g.there, address) {
			g.fake.Send(g.id, address, 1+g.IntN(9))
		}
	case 2:
		if at := slices.Index(g.there, address); at >= 0 {
			g.there = slices.Delete(slices.Clone(g.there), at, at+1)
		} else {
			g.there = append(slices.Clone(g.there), address)
		}
	case 3, 4:
		before := g.total(t)
		g.sync(t, g.there)
		g.drops += g.total(t) - before
	case 5:
		g.diesAt(t, &life{left: g.IntN(2), after: g.IntN(2) == 0, at: []string{"SaveIntents", "Block", "SaveChanges", "Settle"}[g.IntN(4)]})
	case 6:
		g.advance(time.Duration(g.IntN(10)) * time.Hour)
	default:
		_ = g.run(t) // the platform refuses whom it does not know
	}
}

func (g *going) total(t *testing.T) (n int) {
	t.Helper()
	for _, all := range g.events(t) {
		n += len(all)
	}
	return n
}

// alternates: blocks and releases of an address take turns, in the order of
// their times, and the last one tells whether it is blocked.
func (g *going) alternates(t *testing.T) {
	t.Helper()
	blocked := g.blocked(t)
	for address, all := range g.events(t) {
		for n, e := range all {
			if (e.Action == sendlimit.Blocked) != (n%2 == 0) || n > 0 && !e.At.After(all[n-1].At) {
				t.Fatalf("events of %s: %+v", address, all)
			}
		}
		if slices.Contains(blocked, address) != (len(all)%2 == 1) {
			t.Fatalf("blocked are %q, events of %s: %+v", blocked, address, all)
		}
	}
}

// ends: syncs and runs find everything as it is.
func (g *going) ends(t *testing.T) {
	t.Helper()
	for range 3 {
		_ = g.run(t)
		g.sync(t, g.there)
	}
	must(t, g.run(t))
	g.alternates(t)
	if stored := addresses(g.stored(t)); len(stored) != len(g.there) {
		t.Fatalf("stored are %q, there are %q", stored, g.there)
	}
	if rules, blocked := g.blocks(t), g.blocked(t); !slices.Equal(rules, blocked) {
		t.Fatalf("the rules block %q, stored is %q", rules, blocked)
	}
	acts := g.acts(t)
	for address, turns := range g.turns() {
		if stopped, told := begun(turns), begun(acts[address]); stopped > told {
			t.Fatalf("the rules began to stop %s %d times, and %d are on record", address, stopped, told)
		}
	}
}

func begun(all []bool) (n int) {
	for _, one := range all {
		if one {
			n++
		}
	}
	return n
}
