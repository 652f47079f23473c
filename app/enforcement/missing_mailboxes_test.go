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

// partialPlatform is a platform that no longer has some of the stored mailboxes.
type partialPlatform struct {
	ports.MailPlatform

	present *[]string
}

func (p partialPlatform) For(id tenant.GUID) ports.MailTenant {
	return partialTenant{p.MailPlatform.For(id), *p.present}
}

type partialTenant struct {
	ports.MailTenant

	present []string
}

func (w partialTenant) Mailboxes(context.Context) (all []mailbox.Platform, err error) {
	for _, address := range w.present {
		all = append(all, mailbox.Platform{Address: address})
	}
	return all, nil
}

func (w partialTenant) Block(ctx context.Context, scope string, list []string) (sendlimit.Rule, error) {
	for _, address := range list {
		if !slices.Contains(w.present, address) {
			return sendlimit.Rule{}, fault.MailboxNotFound.With("a mailbox that is to be blocked is not there")
		}
	}
	return w.MailTenant.Block(ctx, scope, list)
}

// A missing mailbox does not prevent the block of others, and is not shown as blocked.
func TestAMissingMailboxDoesNotPreventOtherBlocks(t *testing.T) {
	fx := newFixture(t)
	ada, bob := fx.boxes[0].Address, fx.boxes[1].Address
	present := []string{bob}
	fx.Platform = partialPlatform{fx.fake, &present}
	fx.limit(t, sendlimit.TenantWide, 5)
	fx.fake.Send(guid, ada, 6)
	must(t, fx.run(t))
	if len(fx.storedBlocked(t)) != 0 || len(fx.blockedByRules(t)) != 0 {
		t.Fatalf("the blocked mailboxes are %q", fx.storedBlocked(t))
	}
	fx.fake.Send(guid, bob, 6)
	for range 2 {
		must(t, fx.run(t))
		if !slices.Equal(fx.storedBlocked(t), []string{bob}) || !slices.Equal(fx.blockedByRules(t), []string{bob}) {
			t.Fatalf("the blocked mailboxes are %q, by rules %q", fx.storedBlocked(t), fx.blockedByRules(t))
		}
	}
	present = nil // the blocked mailbox disappears and is unblocked once
	for range 2 {
		must(t, fx.run(t))
		fx.checkConsistent(t)
		if events := fx.events(t); len(fx.blockedByRules(t)) != 0 || len(events[bob]) != 2 || len(events[ada]) != 0 {
			t.Fatalf("rules block %q, events %+v", fx.blockedByRules(t), events)
		}
	}
	present = []string{ada, bob}
	must(t, fx.run(t))
	fx.checkConsistent(t)
	if len(fx.storedBlocked(t)) != 2 {
		t.Fatalf("the blocked mailboxes are %q", fx.storedBlocked(t))
	}
}

// A pass finds a blocked mailbox missing and crashes. The mailbox is unblocked once, even if it
// returns before the next pass.
func TestMissingMailboxAndCrash(t *testing.T) {
	store, n := newStore(t), 0
	for _, after := range []bool{false, true} {
		for step, dead := 0, true; dead; step++ {
			for _, back := range []bool{false, true} {
				fx := newNumberedFixture(t, store, n)
				n++
				ada, bob := fx.boxes[0].Address, fx.boxes[1].Address
				other := fx.boxes[2].Address
				present := []string{ada, bob, other}
				fx.Platform = partialPlatform{fx.fake, &present}
				fx.limit(t, sendlimit.TenantWide, 5)
				fx.fake.Send(fx.id, ada, 6)
				fx.fake.Send(fx.id, bob, 6)
				must(t, fx.run(t))
				present = []string{bob, other}
				fx.fake.Send(fx.id, other, 6) // so that the rule is set
				dead = fx.runCrashing(t, step, after).dead
				if back {
					present = []string{ada, bob, other}
				}
				must(t, fx.run(t))
				fx.checkConsistent(t)
				if !slices.Contains(fx.storedBlocked(t), bob) || slices.Contains(fx.storedBlocked(t), ada) != back {
					t.Fatalf("step %d: the blocked mailboxes are %q", step, fx.storedBlocked(t))
				}
			}
		}
	}
}

// Passes do not retry a missing mailbox each time.
func TestMissingMailboxIsRemembered(t *testing.T) {
	fx := newFixture(t)
	ada, bob := fx.boxes[0].Address, fx.boxes[1].Address
	present := []string{bob}
	fx.Platform = partialPlatform{fx.fake, &present}
	fx.limit(t, one, 5)
	fx.fake.Send(fx.id, ada, 6)
	fx.fake.Send(fx.id, bob, 6)
	must(t, fx.run(t))
	for range 3 {
		must(t, fx.RunAll(t.Context()))
	}
	if fx.checkConsistent(t); fx.fake.Calls("Mailboxes") != 0 || fx.fake.Calls("Block") != 1 || !slices.Equal(fx.storedBlocked(t), []string{bob}) {
		t.Fatalf("%d calls, the blocked mailboxes are %q", fx.fake.Calls("Block"), fx.storedBlocked(t))
	}
	present = []string{ada, bob}
	must(t, fx.run(t))
	if fx.checkConsistent(t); len(fx.storedBlocked(t)) != 2 {
		t.Fatalf("the blocked mailboxes are %q", fx.storedBlocked(t))
	}
}

// A mailbox whose address changed does not prevent the block of others.
func TestMailboxWithChangedAddress(t *testing.T) {
	fx := newFixture(t)
	ada, bob := fx.boxes[0].Address, fx.boxes[1].Address
	present := []string{bob, "ada.k@" + one}
	fx.Platform = renamedPlatform{partialPlatform{fx.fake, &present}}
	fx.limit(t, sendlimit.TenantWide, 5)
	fx.fake.Send(fx.id, ada, 6)
	fx.fake.Send(fx.id, bob, 6)
	must(t, fx.run(t))
	if fx.checkConsistent(t); !slices.Equal(fx.storedBlocked(t), []string{bob}) {
		t.Fatalf("the blocked mailboxes are %q", fx.storedBlocked(t))
	}
}

// renamedPlatform lists the missing mailboxes under a different address.
type renamedPlatform struct{ partialPlatform }

func (p renamedPlatform) For(id tenant.GUID) ports.MailTenant {
	return renamedTenant{partialTenant{p.MailPlatform.For(id), *p.present}}
}

type renamedTenant struct{ partialTenant }

func (r renamedTenant) Block(ctx context.Context, scope string, list []string) (sendlimit.Rule, error) {
	out, err := r.partialTenant.Block(ctx, scope, list)
	if errors.Is(err, fault.MailboxNotFound) {
		err = &outcome.Error{Kind: outcome.NotReady, Cause: "test"}
	}
	return out, err
}

// If the platform lists a mailbox but refuses to block it, the pass returns the error.
func TestListedMailboxIsRefused(t *testing.T) {
	fx := newFixture(t)
	fx.Platform = refusingPlatform{fx.fake, fx.boxes[0].Address}
	fx.limit(t, sendlimit.TenantWide, 5)
	fx.fake.Send(guid, fx.boxes[0].Address, 6)
	if err := fx.run(t); !errors.Is(err, fault.MailboxNotFound) || len(fx.storedBlocked(t)) != 0 {
		t.Fatalf("%v, the blocked mailboxes are %q", err, fx.storedBlocked(t))
	}
}

type refusingPlatform struct {
	ports.MailPlatform

	address string
}

func (p refusingPlatform) For(id tenant.GUID) ports.MailTenant {
	return refusingTenant{p.MailPlatform.For(id), p.address}
}

type refusingTenant struct {
	ports.MailTenant

	address string
}

func (l refusingTenant) Mailboxes(context.Context) ([]mailbox.Platform, error) {
	return []mailbox.Platform{{Address: l.address}}, nil
}

func (refusingTenant) Block(context.Context, string, []string) (sendlimit.Rule, error) {
	return sendlimit.Rule{}, fault.MailboxNotFound.With("a mailbox that is to be blocked is not there")
}
