// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// without is a platform that holds only some of the mailboxes, as the service
// has not learned yet.
type without struct {
	ports.MailPlatform

	there *[]string
}

func (p without) For(id tenant.GUID) ports.MailTenant {
	return withoutTenant{p.MailPlatform.For(id), *p.there}
}

type withoutTenant struct {
	ports.MailTenant

	there []string
}

func (w withoutTenant) Mailboxes(context.Context) (all []mailbox.Platform, err error) {
	for _, address := range w.there {
		all = append(all, mailbox.Platform{Address: address})
	}
	return all, nil
}

func (w withoutTenant) Block(ctx context.Context, scope string, list []string) (sendlimit.Rule, error) {
	for _, address := range list {
		if !slices.Contains(w.there, address) {
			return sendlimit.Rule{}, fault.MailboxNotFound.With("a mailbox that is to be blocked is not there")
		}
	}
	return w.MailTenant.Block(ctx, scope, list)
}

// A mailbox that vanished at the platform keeps nobody else from being blocked,
// and is not said to be.
func TestAVanishedMailbox(t *testing.T) {
	h := newHouse(t)
	ada, bob := h.boxes[0].Address, h.boxes[1].Address
	there := []string{bob}
	h.Platform = without{h.fake, &there}
	h.limit(t, sendlimit.TenantWide, 5)
	h.fake.Send(guid, ada, 6)
	must(t, h.run(t))
	if len(h.blocked(t)) != 0 || len(h.blocks(t)) != 0 {
		t.Fatalf("blocked are %q", h.blocked(t))
	}
	h.fake.Send(guid, bob, 6)
	for range 2 {
		must(t, h.run(t))
		if !slices.Equal(h.blocked(t), []string{bob}) || !slices.Equal(h.blocks(t), []string{bob}) {
			t.Fatalf("blocked are %q, by rules %q", h.blocked(t), h.blocks(t))
		}
	}
	there = nil // it went while it was blocked, and is let go once
	for range 2 {
		must(t, h.run(t))
		h.agrees(t)
		if events := h.events(t); len(h.blocks(t)) != 0 || len(events[bob]) != 2 || len(events[ada]) != 0 {
			t.Fatalf("rules block %q, events %+v", h.blocks(t), events)
		}
	}
	there = []string{ada, bob}
	must(t, h.run(t))
	h.agrees(t)
	if len(h.blocked(t)) != 2 {
		t.Fatalf("blocked are %q", h.blocked(t))
	}
}

// However the run ends that finds a blocked mailbox gone, it is let go once, also
// when it is back before the next one.
func TestAVanishedMailboxAndARunThatEnds(t *testing.T) {
	store, n := newStore(t), 0
	for _, after := range []bool{false, true} {
		for step, dead := 0, true; dead; step++ {
			for _, back := range []bool{false, true} {
				h := numbered(t, store, n)
				n++
				ada, bob := h.boxes[0].Address, h.boxes[1].Address
				other := h.boxes[2].Address
				there := []string{ada, bob, other}
				h.Platform = without{h.fake, &there}
				h.limit(t, sendlimit.TenantWide, 5)
				h.fake.Send(h.id, ada, 6)
				h.fake.Send(h.id, bob, 6)
				must(t, h.run(t))
				there = []string{bob, other}
				h.fake.Send(h.id, other, 6) // so that the rule is set
				dead = h.dies(t, step, after).dead
				if back {
					there = []string{ada, bob, other}
				}
				must(t, h.run(t))
				h.agrees(t)
				if !slices.Contains(h.blocked(t), bob) || slices.Contains(h.blocked(t), ada) != back {
					t.Fatalf("step %d: blocked are %q", step, h.blocked(t))
				}
			}
		}
	}
}

// It is not asked for at each look, in vain.
func TestAVanishedMailboxIsRemembered(t *testing.T) {
	h := newHouse(t)
	ada, bob := h.boxes[0].Address, h.boxes[1].Address
	there := []string{bob}
	h.Platform = without{h.fake, &there}
	h.limit(t, one, 5)
	h.fake.Send(h.id, ada, 6)
	h.fake.Send(h.id, bob, 6)
	must(t, h.run(t))
	for range 3 {
		must(t, h.RunAll(t.Context()))
	}
	if h.agrees(t); h.fake.Calls("Mailboxes") != 0 || h.fake.Calls("Block") != 1 || !slices.Equal(h.blocked(t), []string{bob}) {
		t.Fatalf("%d calls, blocked are %q", h.fake.Calls("Block"), h.blocked(t))
	}
	there = []string{ada, bob}
	must(t, h.run(t))
	if h.agrees(t); len(h.blocked(t)) != 2 {
		t.Fatalf("blocked are %q", h.blocked(t))
	}
}

// One whose address is another now is not shown by the rule as it was told to,
// ever, and does not keep others from being blocked either.
func TestAMailboxWithAnotherAddress(t *testing.T) {
	h := newHouse(t)
	ada, bob := h.boxes[0].Address, h.boxes[1].Address
	there := []string{bob, "ada.k@" + one}
	h.Platform = renamed{without{h.fake, &there}}
	h.limit(t, sendlimit.TenantWide, 5)
	h.fake.Send(h.id, ada, 6)
	h.fake.Send(h.id, bob, 6)
	must(t, h.run(t))
	if h.agrees(t); !slices.Equal(h.blocked(t), []string{bob}) {
		t.Fatalf("blocked are %q", h.blocked(t))
	}
}

// renamed is a platform that knows who is not there by another address.
type renamed struct{ without }

func (p renamed) For(id tenant.GUID) ports.MailTenant {
	return renamedTenant{withoutTenant{p.MailPlatform.For(id), *p.there}}
}

type renamedTenant struct{ withoutTenant }

func (r renamedTenant) Block(ctx context.Context, scope string, list []string) (sendlimit.Rule, error) {
	out, err := r.withoutTenant.Block(ctx, scope, list)
	if errors.Is(err, fault.MailboxNotFound) {
		err = &outcome.Error{Kind: outcome.NotReady, Cause: "test"}
	}
	return out, err
}

// A platform that lists whom it does not know is trouble, which is told.
func TestAMailboxThatIsListedAndNotThere(t *testing.T) {
	h := newHouse(t)
	h.Platform = listing{h.fake, h.boxes[0].Address}
	h.limit(t, sendlimit.TenantWide, 5)
	h.fake.Send(guid, h.boxes[0].Address, 6)
	if err := h.run(t); !errors.Is(err, fault.MailboxNotFound) || len(h.blocked(t)) != 0 {
		t.Fatalf("%v, blocked are %q", err, h.blocked(t))
	}
}

type listing struct {
	ports.MailPlatform

	address string
}

func (p listing) For(id tenant.GUID) ports.MailTenant {
	return listingTenant{p.MailPlatform.For(id), p.address}
}

type listingTenant struct {
	ports.MailTenant

	address string
}

func (l listingTenant) Mailboxes(context.Context) ([]mailbox.Platform, error) {
	return []mailbox.Platform{{Address: l.address}}, nil
}

func (listingTenant) Block(context.Context, string, []string) (sendlimit.Rule, error) {
	return sendlimit.Rule{}, fault.MailboxNotFound.With("a mailbox that is to be blocked is not there")
}
