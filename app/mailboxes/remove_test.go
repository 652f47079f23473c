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
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// endedConnections implements Connections. It records the mailboxes whose connections it ended. If
// err is set, DisconnectAll fails with err.
type endedConnections struct {
	ended []string
	err   error
	// during, if set, is called while the connections of a mailbox end.
	during func()
}

func (c *endedConnections) DisconnectAll(_ context.Context, _ access.AccountID, mailboxID string) error {
	if c.during != nil {
		c.during()
	}
	c.ended = append(c.ended, mailboxID)
	return c.err
}

// provisionRemovable provisions two mailboxes. It returns the first one, and the recorder of the
// connections that its removal ends.
func (fx *fixture) provisionRemovable(t *testing.T) (mailbox.Mailbox, *endedConnections) {
	t.Helper()
	_, err := fx.provision(t.Context(), "ann@"+zone, "bob@"+zone)
	must(t, err)
	connections := &endedConnections{}
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

// platformMailboxes returns the mailboxes at the platform.
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
		t.Errorf("removed as %+v", removed)
	}
	if !slices.Equal(connections.ended, []string{m.ID}) {
		t.Errorf("ended the connections of %v", connections.ended)
	}
	fx.requireComplete(t, 1)
	// A list that may come from a lagging replica does not bring the removed mailbox back. A later
	// list does, because someone must have restored the mailbox at the platform.
	fx.discover(t, time.Now(), mailboxesBefore...)
	fx.requireComplete(t, 1)
	fx.discover(t, time.Now().Add(16*time.Minute), mailboxesBefore...)
	if stored := fx.storedMailboxes(t); len(stored) != 2 || stored[0].Provisioned {
		t.Errorf("the restored mailbox is stored as %+v", stored)
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
		t.Fatalf("got %v after %d calls", err, fx.fake.Calls("RemoveMailbox"))
	}
	fx.changeTenant(t, func(x *tenant.Tenant) { x.Bootstrap = tenant.BootstrapPending })
	_, err = fx.remove(t, m)
	requireRefusal(t, err, fault.ExchangeNotReady)
	fx.requireComplete(t, 2)
}

// TestRepeatedRemovalKeepsANewMailbox makes a removal fail after its effect. Before the removal is
// repeated, a sync misses the mailbox, and someone creates a new mailbox with the same address.
func TestRepeatedRemovalKeepsANewMailbox(t *testing.T) {
	fx := newFixture(t)
	m, _ := fx.provisionRemovable(t)
	ctx, cancel := context.WithCancel(t.Context())
	fx.fake.Fail(fake.Fault{Method: "RemoveMailbox", Kind: outcome.Down, Times: 1, AfterEffect: true})
	_, err := fx.Remove(ctx, fx.account.ID, guid, m.ID, m.Address, nil)
	cancel()
	requireRefusal(t, err, fault.ProviderUnavailable)
	fx.discover(t, time.Now(), fx.platformMailboxes()...)
	newMailbox, err := fx.fake.For(guid).CreateMailbox(t.Context(), mailbox.Spec{DisplayName: "New", Address: m.Address})
	must(t, err)
	_, err = fx.remove(t, m)
	must(t, err)
	if !slices.ContainsFunc(fx.platformMailboxes(), func(p mailbox.Platform) bool { return p.ObjectID == newMailbox.ObjectID }) {
		t.Fatal("the new mailbox was removed")
	}
	fx.discover(t, time.Now(), fx.platformMailboxes()...)
	if stored := fx.storedMailboxes(t); len(stored) != 2 || stored[0].ObjectID != newMailbox.ObjectID {
		t.Errorf("the new mailbox is missing in %+v", stored)
	}
}

// TestMailboxRemovalResolvesALostAnswer loses the answer of the platform. The removal has taken
// effect in one case, and has not in the other.
func TestMailboxRemovalResolvesALostAnswer(t *testing.T) {
	for _, applied := range []bool{false, true} {
		fx := newFixture(t)
		m, _ := fx.provisionRemovable(t)
		fx.fake.Fail(fake.Fault{Method: "RemoveMailbox", Kind: outcome.Unknown, Times: 1, AfterEffect: applied})
		_, err := fx.remove(t, m)
		must(t, err)
		if n := fx.fake.Effects("RemoveMailbox"); n != 1 {
			t.Errorf("applied %v: removed %d times", applied, n)
		}
		fx.requireComplete(t, 1)
	}
}
