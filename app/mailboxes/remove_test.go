// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// connectionsRecorder implements Connections. It records the mailboxes whose connections it ended.
// If err is set, DisconnectAll fails with err.
type connectionsRecorder struct {
	ended []string
	err   error
	// during, if set, is called while the connections of a mailbox end.
	during func()
}

func (c *connectionsRecorder) DisconnectAll(_ context.Context, _ access.AccountID, mailboxID string) error {
	if c.during != nil {
		c.during()
	}
	c.ended = append(c.ended, mailboxID)
	return c.err
}

// provisionRemovable provisions the mailboxes ann and bob. It returns ann, and the new Connections
// of the service.
func (fx *fixture) provisionRemovable(t *testing.T) (mailbox.Mailbox, *connectionsRecorder) {
	t.Helper()
	_, err := fx.provision(t.Context(), "ann@"+zone, "bob@"+zone)
	must(t, err)
	connections := &connectionsRecorder{}
	fx.Connections = connections
	return fx.storedMailboxes(t)[0], connections
}

// remove removes a mailbox, with its address as the confirmation.
func (fx *fixture) remove(t *testing.T, m mailbox.Mailbox) (RemoveResult, error) {
	t.Helper()
	return fx.Remove(t.Context(), fx.account.ID, guid, m.ID, m.Address, nil)
}

// discover stores found as the mailboxes of the platform, as a sync at the given time does.
func (fx *fixture) discover(t *testing.T, at time.Time, found ...mailbox.Platform) {
	t.Helper()
	missed := map[string]bool{}
	for _, m := range fx.storedMailboxes(t) {
		if !slices.ContainsFunc(found, func(p mailbox.Platform) bool { return p.Address == m.Address }) {
			missed[m.Address] = true
		}
	}
	must(t, fx.store.SaveDiscovery(t.Context(), fx.account.ID, guid, ports.DiscoveryResult{Began: at, At: at, Mailboxes: append([]mailbox.Platform{}, found...), MissedMailboxes: missed}))
}

func (fx *fixture) platformMailboxes() (list []mailbox.Platform) {
	for _, m := range fx.fake.SnapshotOf(guid).Mailboxes {
		list = append(list, m.Platform)
	}
	return list
}

func TestRemoveEndsConnectionsBeforeItRemovesTheMailbox(t *testing.T) {
	fx := newFixture(t)
	m, connections := fx.provisionRemovable(t)
	connections.during = func() {
		if fx.fake.Calls("RemoveMailbox") != 0 {
			t.Error("the mailbox was removed before its connections ended")
		}
	}
	mailboxesBefore := fx.platformMailboxes()
	removed, err := fx.Remove(t.Context(), fx.account.ID, guid, m.ID, "ANN@"+zone, nil)
	must(t, err)
	if remaining := time.Until(removed.RestorableUntil); removed.Mailbox.ID != m.ID || remaining > mailbox.Retention || remaining < mailbox.Retention-time.Hour {
		t.Errorf("the result is %+v, want the mailbox %s, restorable for %s", removed, m.ID, mailbox.Retention)
	}
	if !slices.Equal(connections.ended, []string{m.ID}) {
		t.Errorf("the connections of %v ended, want those of %s", connections.ended, m.ID)
	}
	fx.requireComplete(t, 1)
	// A list that may come from a lagging replica does not bring the removed mailbox back. A later
	// list does, because someone must have restored the mailbox at the platform.
	fx.discover(t, time.Now(), mailboxesBefore...)
	fx.requireComplete(t, 1)
	fx.discover(t, time.Now().Add(observation.ReplicaLag+time.Minute), mailboxesBefore...)
	if stored := fx.storedMailboxes(t); len(stored) != 2 || stored[0].Provisioned {
		t.Errorf("stored are %+v, want two mailboxes, and the restored one as not provisioned", stored)
	}
}

func TestRefusedRemovalKeepsTheMailbox(t *testing.T) {
	fx := newFixture(t)
	m, connections := fx.provisionRemovable(t)
	for _, confirm := range []string{"", "bob@" + zone, m.ID, " " + m.Address} {
		_, err := fx.Remove(t.Context(), fx.account.ID, guid, m.ID, confirm, nil)
		requireRefusal(t, err, fault.ConfirmationRequired)
	}
	_, err := fx.Remove(t.Context(), fx.account.ID, guid, "0e9d7c1a-4b52-4f60-8a3e-9d2f1c7b6a55", "", nil)
	requireRefusal(t, err, fault.MailboxNotFound)
	connections.err = errors.New("the sending platform is down")
	if _, err := fx.remove(t, m); !errors.Is(err, connections.err) || fx.fake.Calls("RemoveMailbox") != 0 {
		t.Fatalf("got %v after %d calls of RemoveMailbox, want the error of the sending platform after none", err, fx.fake.Calls("RemoveMailbox"))
	}
	fx.changeTenant(t, func(stored *tenant.Tenant) { stored.Bootstrap = tenant.BootstrapPending })
	_, err = fx.remove(t, m)
	requireRefusal(t, err, fault.ExchangeNotReady)
	fx.requireComplete(t, 2)
}

// TestRepeatedRemovalKeepsANewMailbox makes a removal fail after its effect. Before the removal is
// repeated, a sync misses the mailbox, and someone creates a new mailbox with the same address.
func TestRepeatedRemovalKeepsANewMailbox(t *testing.T) {
	fx := newFixture(t)
	m, _ := fx.provisionRemovable(t)
	fx.fake.Fail(fake.Fault{Method: "RemoveMailbox", Kind: outcome.Down, Times: 1, AfterEffect: true})
	_, err := fx.remove(t, m)
	requireRefusal(t, err, fault.ProviderUnavailable)
	fx.discover(t, time.Now(), fx.platformMailboxes()...)
	newMailbox, err := fx.fake.For(guid).CreateMailbox(t.Context(), mailbox.Spec{DisplayName: "New", Address: m.Address})
	must(t, err)
	_, err = fx.remove(t, m)
	must(t, err)
	if !slices.ContainsFunc(fx.platformMailboxes(), func(p mailbox.Platform) bool { return p.ObjectID == newMailbox.ObjectID }) {
		t.Fatal("the repeated removal removed the new mailbox")
	}
	fx.discover(t, time.Now(), fx.platformMailboxes()...)
	if stored := fx.storedMailboxes(t); len(stored) != 2 || stored[0].ObjectID != newMailbox.ObjectID {
		t.Errorf("stored are %+v, want two mailboxes with the new mailbox first", stored)
	}
}

// TestMailboxRemovalResolvesALostAnswer loses the answer of the platform, with and without an
// effect of the removal.
func TestMailboxRemovalResolvesALostAnswer(t *testing.T) {
	for _, hasEffect := range []bool{false, true} {
		fx := newFixture(t)
		m, _ := fx.provisionRemovable(t)
		fx.fake.Fail(fake.Fault{Method: "RemoveMailbox", Kind: outcome.Unknown, Times: 1, AfterEffect: hasEffect})
		_, err := fx.remove(t, m)
		must(t, err)
		if removals := fx.fake.Effects("RemoveMailbox"); removals != 1 {
			t.Errorf("effect %t: the mailbox was removed %d times, want 1", hasEffect, removals)
		}
		fx.requireComplete(t, 1)
	}
}

// laggingPlatform is a platform whose replicas still show a removed mailbox.
type laggingPlatform struct {
	ports.MailPlatform
	removed mailbox.Platform
	// currentReads is the number of reads that do not show the removed mailbox. The next staleReads
	// reads show it.
	currentReads, staleReads int
	// staleCreations is the number of CreateMailbox calls that return the removed mailbox.
	staleCreations int
}

func (p *laggingPlatform) For(id tenant.GUID) ports.MailTenant {
	return laggingTenant{p.MailPlatform.For(id), p}
}

type laggingTenant struct {
	ports.MailTenant
	platform *laggingPlatform
}

func (m laggingTenant) Mailbox(ctx context.Context, address string) (mailbox.Platform, error) {
	switch p := m.platform; {
	case p.currentReads > 0:
		p.currentReads--
	case p.staleReads > 0:
		p.staleReads--
		return p.removed, nil
	}
	return m.MailTenant.Mailbox(ctx, address)
}

func (m laggingTenant) CreateMailbox(ctx context.Context, spec mailbox.Spec) (mailbox.Platform, error) {
	if p := m.platform; p.staleCreations > 0 {
		p.staleCreations--
		return p.removed, nil
	}
	return m.MailTenant.CreateMailbox(ctx, spec)
}

func (fx *fixture) platformMailbox(t *testing.T, address string) mailbox.Platform {
	t.Helper()
	found, err := fx.fake.For(guid).Mailbox(t.Context(), address)
	must(t, err)
	return found
}

// TestRemovedMailboxIsCreatedAgain removes a mailbox and creates it again while replicas of the
// platform still show the removed mailbox.
func TestRemovedMailboxIsCreatedAgain(t *testing.T) {
	takenFault := fake.Fault{Method: "CreateMailbox", Kind: outcome.Refused, Code: fault.InvalidMailboxEmail, Times: 1}
	for _, tc := range []struct {
		name     string
		platform laggingPlatform
		faults   []fake.Fault
	}{
		{"the first reads show the removed mailbox", laggingPlatform{staleReads: 3}, nil},
		{"the platform reports the address of the removed mailbox as taken", laggingPlatform{currentReads: 1, staleReads: 3}, []fake.Fault{takenFault}},
		{"the creation returns the removed mailbox", laggingPlatform{currentReads: 1, staleReads: 3, staleCreations: 1}, nil},
	} {
		inFakeTime(t, tc.name, func(t *testing.T) {
			fx := newFixture(t)
			m, _ := fx.provisionRemovable(t)
			tc.platform.MailPlatform, tc.platform.removed = fx.fake, fx.platformMailbox(t, m.Address)
			_, err := fx.remove(t, m)
			must(t, err)
			fx.Platform = &tc.platform
			for _, f := range tc.faults {
				fx.fake.Fail(f)
			}
			got, err := fx.provision(t.Context(), m.Address)
			must(t, err)
			if got[0].Status != mailbox.ResultCreated || got[0].Mailbox.ObjectID == m.ObjectID {
				t.Errorf("got %+v, want a new mailbox instead of %s", got[0], m.ObjectID)
			}
			fx.requireComplete(t, 2)
		})
	}
	inFakeTime(t, "the reads show the removed mailbox until the request ends", func(t *testing.T) {
		fx := newFixture(t)
		fx.Pause, fx.Timeout = time.Second, 10*time.Second
		m, _ := fx.provisionRemovable(t)
		platform := &laggingPlatform{MailPlatform: fx.fake, removed: fx.platformMailbox(t, m.Address), staleReads: 1000}
		_, err := fx.remove(t, m)
		must(t, err)
		fx.Platform = platform
		_, err = fx.provision(t.Context(), m.Address)
		requireRefusal(t, err, fault.ProviderTimeout)
		fx.requireComplete(t, 1)
		platform.staleReads = 0
		_, err = fx.provision(t.Context(), m.Address)
		must(t, err)
		fx.requireComplete(t, 2)
	})
}

// forgetObjectID stores the mailbox without its object id, as after a read that did not return the
// id yet. It returns the stored mailbox.
func (fx *fixture) forgetObjectID(t *testing.T, m mailbox.Mailbox) mailbox.Mailbox {
	t.Helper()
	m.ObjectID, m.Observed.Account = "", fx.Now()
	must(t, fx.store.SaveMailbox(t.Context(), fx.account.ID, m))
	return m
}

// TestRemovalWithoutAnObjectIDNeedsACurrentRead removes a new mailbox whose object id is not stored
// yet. Replicas of the platform may hide this mailbox, or still show a removed mailbox with the
// same address.
func TestRemovalWithoutAnObjectIDNeedsACurrentRead(t *testing.T) {
	missFault := fake.Fault{Method: "Mailbox", Kind: outcome.Refused, Code: fault.MailboxNotFound}
	inFakeTime(t, "the first read finds no mailbox", func(t *testing.T) {
		fx := newFixture(t)
		m, _ := fx.provisionRemovable(t)
		fx.forgetObjectID(t, m)
		firstMiss := missFault
		firstMiss.Times = 1
		fx.fake.Fail(firstMiss)
		_, err := fx.remove(t, m)
		must(t, err)
		fx.requireComplete(t, 1)
	})
	inFakeTime(t, "no read of the request finds a mailbox", func(t *testing.T) {
		fx := newFixture(t)
		m, _ := fx.provisionRemovable(t)
		fx.forgetObjectID(t, m)
		fx.Pause, fx.Timeout = time.Second, 10*time.Second
		endMisses := fx.fake.Fail(missFault)
		_, err := fx.remove(t, m)
		requireRefusal(t, err, fault.ProviderTimeout)
		endMisses()
		_, err = fx.remove(t, m)
		must(t, err)
		fx.requireComplete(t, 1)
	})
	inFakeTime(t, "the mailbox does not exist any more", func(t *testing.T) {
		fx := newFixture(t)
		m, _ := fx.provisionRemovable(t)
		fx.forgetObjectID(t, m)
		must(t, fx.fake.For(guid).RemoveMailbox(t.Context(), m.ObjectID))
		time.Sleep(observation.ReplicaLag)
		_, err := fx.remove(t, m)
		must(t, err)
		fx.requireComplete(t, 1)
	})
	inFakeTime(t, "the first read shows a removed mailbox", func(t *testing.T) {
		fx := newFixture(t)
		removed, _ := fx.provisionRemovable(t)
		platform := &laggingPlatform{MailPlatform: fx.fake, removed: fx.platformMailbox(t, removed.Address)}
		_, err := fx.remove(t, removed)
		must(t, err)
		_, err = fx.provision(t.Context(), removed.Address)
		must(t, err)
		m := fx.forgetObjectID(t, fx.storedMailboxes(t)[0])
		platform.staleReads = 1
		fx.Platform = platform
		_, err = fx.remove(t, m)
		must(t, err)
		fx.requireComplete(t, 1)
	})
}

// TestRemovalFindsAMailboxThatALaterRequestCreated removes a mailbox without a stored object id.
// The mailbox is new, but its row is older than observation.ReplicaLag. Replicas of the platform
// hide the mailbox.
func TestRemovalFindsAMailboxThatALaterRequestCreated(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(*testing.T, *fixture) // leaves a row without a mailbox at the platform
	}{
		{"the first creation failed", func(t *testing.T, fx *fixture) {
			endFault := fx.fake.Fail(fake.Fault{Method: "CreateMailbox", Kind: outcome.Unknown})
			_, err := fx.provision(t.Context(), "ann@"+zone)
			requireRefusal(t, err, fault.ProviderTimeout)
			endFault()
		}},
		{"a sync missed the unfinished mailbox", func(t *testing.T, fx *fixture) {
			endFault := fx.fake.Fail(fake.Fault{Method: "OpenSignIn", Kind: outcome.Throttled})
			_, err := fx.provision(t.Context(), "ann@"+zone)
			requireRefusal(t, err, fault.ProviderUnavailable)
			endFault()
			must(t, fx.fake.For(guid).RemoveMailbox(t.Context(), fx.storedMailboxes(t)[0].ObjectID))
			fx.discover(t, fx.Now())
		}},
	} {
		inFakeTime(t, tc.name, func(t *testing.T) {
			fx := newFixture(t)
			fx.Pause, fx.Timeout, fx.Connections = time.Second, 10*time.Second, &connectionsRecorder{}
			tc.prepare(t, fx)
			time.Sleep(observation.ReplicaLag)
			_, err := fx.provision(t.Context(), "ann@"+zone)
			must(t, err)
			m := fx.forgetObjectID(t, fx.storedMailboxes(t)[0])
			endMisses := fx.fake.Fail(fake.Fault{Method: "Mailbox", Kind: outcome.Refused, Code: fault.MailboxNotFound})
			_, err = fx.remove(t, m)
			requireRefusal(t, err, fault.ProviderTimeout)
			endMisses()
			_, err = fx.remove(t, m)
			must(t, err)
			fx.requireComplete(t, 0)
		})
	}
}

// TestLostRenameDoesNotTrustARemovedMailbox checks a rename whose outcome is unknown, because the
// platform did not answer. The read that follows shows a removed mailbox, which has the wanted
// name. The rename must not count as done.
func TestLostRenameDoesNotTrustARemovedMailbox(t *testing.T) {
	fx := newFixture(t)
	removed, _ := fx.provisionRemovable(t)
	name := "New"
	_, err := fx.Update(t.Context(), fx.account.ID, guid, removed.ID, Change{DisplayName: &name})
	must(t, err)
	platform := &laggingPlatform{MailPlatform: fx.fake, removed: fx.platformMailbox(t, removed.Address)}
	_, err = fx.remove(t, removed)
	must(t, err)
	_, err = fx.provision(t.Context(), removed.Address)
	must(t, err)
	platform.staleReads = 1
	fx.Platform = platform
	fx.fake.Fail(fake.Fault{Method: "Rename", Kind: outcome.Unknown, Times: 1})
	_, err = fx.Update(t.Context(), fx.account.ID, guid, fx.storedMailboxes(t)[0].ID, Change{DisplayName: &name})
	requireRefusal(t, err, fault.ProviderTimeout)
}
