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

// partialPlatform is a platform that has only the mailboxes whose addresses are in present.
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

func (p partialTenant) Mailboxes(context.Context) (mailboxes []mailbox.Platform, err error) {
	for _, address := range p.present {
		mailboxes = append(mailboxes, mailbox.Platform{Address: address})
	}
	return mailboxes, nil
}

func (p partialTenant) Block(ctx context.Context, scope string, list []string) (sendlimit.Rule, error) {
	for _, address := range list {
		if !slices.Contains(p.present, address) {
			return sendlimit.Rule{}, fault.MailboxNotFound.With("a mailbox that is to be blocked is not there")
		}
	}
	return p.MailTenant.Block(ctx, scope, list)
}

// TestAMissingMailboxDoesNotPreventOtherBlocks checks that a mailbox that is missing at the
// platform does not prevent the blocks of other mailboxes. The missing mailbox is not shown as
// blocked. When it returns, it is blocked too.
func TestAMissingMailboxDoesNotPreventOtherBlocks(t *testing.T) {
	fx := newFixture(t)
	ada, bob := fx.mailboxes[0].Address, fx.mailboxes[1].Address
	present := []string{bob}
	fx.Platform = partialPlatform{fx.fake, &present}
	fx.limit(t, sendlimit.TenantWide, 5)
	fx.fake.Send(guid, ada, 6)
	must(t, fx.run(t))
	if len(fx.storedBlocked(t)) != 0 || len(fx.blockedByRules(t)) != 0 {
		t.Fatalf("the blocked mailboxes are %q, by rules %q, want none", fx.storedBlocked(t), fx.blockedByRules(t))
	}
	fx.fake.Send(guid, bob, 6)
	for range 2 {
		must(t, fx.run(t))
		if !slices.Equal(fx.storedBlocked(t), []string{bob}) || !slices.Equal(fx.blockedByRules(t), []string{bob}) {
			t.Fatalf("the blocked mailboxes are %q, by rules %q, want only bob", fx.storedBlocked(t), fx.blockedByRules(t))
		}
	}
	present = nil // bob is missing too, and is unblocked once
	for range 2 {
		must(t, fx.run(t))
		fx.checkConsistent(t)
		if events := fx.events(t); len(fx.blockedByRules(t)) != 0 || len(events[bob]) != 2 || len(events[ada]) != 0 {
			t.Fatalf("the rules block %q and the events are %+v, want no block, 2 events of bob and none of ada", fx.blockedByRules(t), events)
		}
	}
	present = []string{ada, bob}
	must(t, fx.run(t))
	fx.checkConsistent(t)
	if len(fx.storedBlocked(t)) != 2 {
		t.Fatalf("the blocked mailboxes are %q, want ada and bob", fx.storedBlocked(t))
	}
}

// TestCrashWithAMissingMailboxConverges crashes a pass that finds a blocked mailbox missing. The
// state, the rules and the events agree after the next pass, even if the mailbox returns before
// that pass.
func TestCrashWithAMissingMailboxConverges(t *testing.T) {
	store, fixtures := newStore(t), 0
	for _, afterEffect := range []bool{false, true} {
		for step, crashed := 0, true; crashed; step++ {
			for _, returns := range []bool{false, true} {
				fx := newNumberedFixture(t, store, fixtures)
				fixtures++
				ada, bob := fx.mailboxes[0].Address, fx.mailboxes[1].Address
				carol := fx.mailboxes[2].Address
				present := []string{ada, bob, carol}
				fx.Platform = partialPlatform{fx.fake, &present}
				fx.limit(t, sendlimit.TenantWide, 5)
				fx.fake.Send(fx.id, ada, 6)
				fx.fake.Send(fx.id, bob, 6)
				must(t, fx.run(t))
				present = []string{bob, carol}
				fx.fake.Send(fx.id, carol, 6) // so that a pass sets the rule
				crashed = fx.runCrashing(t, step, afterEffect).crashed
				if returns {
					present = []string{ada, bob, carol}
				}
				must(t, fx.run(t))
				fx.checkConsistent(t)
				if !slices.Contains(fx.storedBlocked(t), bob) || slices.Contains(fx.storedBlocked(t), ada) != returns {
					t.Fatalf("step %d, after its effect %v: the blocked mailboxes are %q, want bob, and ada: %v", step, afterEffect, fx.storedBlocked(t), returns)
				}
			}
		}
	}
}

// TestMissingMailboxIsRemembered checks that a pass does not try to block a mailbox that an earlier
// pass found missing.
func TestMissingMailboxIsRemembered(t *testing.T) {
	fx := newFixture(t)
	ada, bob := fx.mailboxes[0].Address, fx.mailboxes[1].Address
	present := []string{bob}
	fx.Platform = partialPlatform{fx.fake, &present}
	fx.limit(t, domainOne, 5)
	fx.fake.Send(fx.id, ada, 6)
	fx.fake.Send(fx.id, bob, 6)
	must(t, fx.run(t))
	for range 3 {
		must(t, fx.runAll(t.Context()))
	}
	if fx.checkConsistent(t); fx.fake.Calls("Block") != 1 || !slices.Equal(fx.storedBlocked(t), []string{bob}) {
		t.Fatalf("the platform got %d block calls and the blocked mailboxes are %q, want 1 call and only bob", fx.fake.Calls("Block"), fx.storedBlocked(t))
	}
	present = []string{ada, bob}
	must(t, fx.run(t))
	if fx.checkConsistent(t); len(fx.storedBlocked(t)) != 2 {
		t.Fatalf("the blocked mailboxes are %q, want ada and bob", fx.storedBlocked(t))
	}
}

// TestAChangedAddressDoesNotPreventOtherBlocks checks that a mailbox whose address changed at the
// platform does not prevent the blocks of other mailboxes.
func TestAChangedAddressDoesNotPreventOtherBlocks(t *testing.T) {
	fx := newFixture(t)
	ada, bob := fx.mailboxes[0].Address, fx.mailboxes[1].Address
	present := []string{bob, "ada.k@" + domainOne}
	fx.Platform = renamedPlatform{partialPlatform{fx.fake, &present}}
	fx.limit(t, sendlimit.TenantWide, 5)
	fx.fake.Send(fx.id, ada, 6)
	fx.fake.Send(fx.id, bob, 6)
	must(t, fx.run(t))
	if fx.checkConsistent(t); !slices.Equal(fx.storedBlocked(t), []string{bob}) {
		t.Fatalf("the blocked mailboxes are %q, want only bob", fx.storedBlocked(t))
	}
}

// renamedPlatform is a partialPlatform that reports a missing mailbox as not ready.
type renamedPlatform struct{ partialPlatform }

func (p renamedPlatform) For(id tenant.GUID) ports.MailTenant {
	return renamedTenant{partialTenant{p.MailPlatform.For(id), *p.present}}
}

type renamedTenant struct{ partialTenant }

func (r renamedTenant) Block(ctx context.Context, scope string, list []string) (sendlimit.Rule, error) {
	rule, err := r.partialTenant.Block(ctx, scope, list)
	if errors.Is(err, fault.MailboxNotFound) {
		err = &outcome.Error{Kind: outcome.NotReady, Cause: "test"}
	}
	return rule, err
}

// TestRefusalToBlockAListedMailboxIsReturned checks that a pass returns the error if the platform
// lists a mailbox but refuses to block it.
func TestRefusalToBlockAListedMailboxIsReturned(t *testing.T) {
	fx := newFixture(t)
	fx.Platform = refusingPlatform{fx.fake, fx.mailboxes[0].Address}
	fx.limit(t, sendlimit.TenantWide, 5)
	fx.fake.Send(guid, fx.mailboxes[0].Address, 6)
	if err := fx.run(t); !errors.Is(err, fault.MailboxNotFound) || len(fx.storedBlocked(t)) != 0 {
		t.Fatalf("got the error %v and the blocked mailboxes %q, want mailbox_not_found and none", err, fx.storedBlocked(t))
	}
}

// refusingPlatform lists one mailbox and refuses to block it.
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

func (r refusingTenant) Mailboxes(context.Context) ([]mailbox.Platform, error) {
	return []mailbox.Platform{{Address: r.address}}, nil
}

func (refusingTenant) Block(context.Context, string, []string) (sendlimit.Rule, error) {
	return sendlimit.Rule{}, fault.MailboxNotFound.With("a mailbox that is to be blocked is not there")
}
