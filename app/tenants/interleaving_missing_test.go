// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver/interleaving"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/observation"
)

const (
	annaIntegrationID = "01890000-0000-7000-8000-000000000001"
	annaConnectionID  = "01890000-0000-7000-8000-000000000002"
)

// storeAndRecordRows stores the objects of the platform, and keeps the ids of their rows in
// r.before. It gives the mailbox anna a send limit and a connection. From then on the replica lags
// for observation.ReplicaLag.
func storeAndRecordRows(r *race) {
	storeObjects(r)
	anna := r.mailbox("anna@one.test")
	anna.Provisioned, anna.Observed.Stage = true, r.now // only a mailbox that the service created can have connections
	must(r.t, r.store.SaveMailbox(r.t.Context(), r.ann.ID, anna))
	must(r.t, r.store.SetSendLimit(r.t.Context(), r.ann.ID, anna.ID, 9, r.now))
	must(r.t, r.store.AddIntegration(r.t.Context(), integration.Integration{
		ID: annaIntegrationID, AccountID: r.ann.ID, Provider: "instantly", Name: "x", Status: integration.Connected, CreatedAt: r.now, UpdatedAt: r.now,
	}, []byte("sealed"), nil))
	must(r.t, r.store.BeginSession(r.t.Context(), r.ann.ID, integration.Session{
		ID: annaConnectionID, IntegrationID: annaIntegrationID, MailboxID: anna.ID, Status: integration.SessionPending, CreatedAt: r.now, ExpiresAt: r.now.Add(time.Hour),
	}, annaConnectionID, r.now))
	r.before = r.rows()
	r.now = r.now.Add(time.Minute)
	r.lagUntil = r.now.Add(observation.ReplicaLag)
}

// missObjectsOnce stores the objects as storeAndRecordRows does. Then a discovery misses all
// objects once.
func missObjectsOnce(r *race) {
	storeAndRecordRows(r)
	must(r.t, onReplica(r.sync)(r.t.Context()))
	if domains, mailboxes := r.storedObjects(r.t); len(domains)+len(mailboxes) != 0 {
		r.t.Fatalf("the missed objects are still listed: %+v and %+v", domains, mailboxes)
	}
}

// tolerateHidden returns a use case that runs use. If use does not find its object, because a sync
// has hidden the object, the use case sets r.hidden and returns no error.
func (r *race) tolerateHidden(use useCase) useCase {
	return func(ctx context.Context) error {
		err := use(ctx)
		if errors.Is(err, fault.DomainNotFound) || errors.Is(err, fault.MailboxNotFound) {
			r.hidden, err = true, nil
		}
		return err
	}
}

// endLag moves the clock to a time at which the replica no longer lags behind the platform.
func (r *race) endLag(ctx context.Context) error {
	interleaving.Step(ctx)
	r.now = r.now.Add(observation.ReplicaLag)
	return nil
}

// removeAnna removes the mailbox anna at the platform, as its owner does.
func (r *race) removeAnna(ctx context.Context) error {
	interleaving.Step(ctx)
	platform := r.platform.For(guid)
	anna, err := platform.Mailbox(ctx, "anna@one.test")
	if err != nil {
		return err
	}
	return platform.RemoveMailbox(ctx, anna.ObjectID)
}

// checkSameRows returns an error unless the listed objects have the rows of r.before, and the
// mailbox anna has the limit and the connection of storeAndRecordRows.
func checkSameRows(r *race) error {
	if rows := r.rows(); !maps.Equal(rows, r.before) {
		return fmt.Errorf("the rows are %v, want %v", rows, r.before)
	}
	anna := r.mailbox("anna@one.test")
	if anna.DailySendLimit != 9 {
		return fmt.Errorf("the mailbox anna is %+v, want the send limit 9", anna)
	}
	eligible, err := r.store.EligibleMailbox(r.t.Context(), r.ann.ID, annaIntegrationID, anna.ID)
	if err != nil || eligible.Connection.ID != annaConnectionID {
		return fmt.Errorf("the connection of anna is %+v, %v, want %s", eligible.Connection, err, annaConnectionID)
	}
	return nil
}

// rows returns the ids of the listed objects by name.
func (r *race) rows() map[string]string {
	domains, mailboxes := r.storedObjects(r.t)
	rows := map[string]string{}
	for _, d := range domains {
		rows[d.Name] = d.ID
	}
	for _, m := range mailboxes {
		rows[m.Address] = m.ID
	}
	return rows
}

var missingRaces = []struct {
	name     string
	prepare  func(*race)
	useCases func(*race) []useCase
	// check is called after a sync that does not read from a lagging replica.
	check func(*race) error
}{
	{
		"two lists without the objects, while the replica catches up",
		storeAndRecordRows,
		func(r *race) []useCase { return []useCase{onReplica(r.sync), onReplica(r.sync), r.endLag} },
		checkSameRows,
	},
	{
		"a list without the objects and a list with the objects, while the replica catches up",
		missObjectsOnce,
		func(r *race) []useCase { return []useCase{onReplica(r.sync), r.sync, r.endLag} },
		checkSameRows,
	},
	{
		"a list without the objects and a rename, while the replica catches up",
		storeAndRecordRows,
		func(r *race) []useCase {
			return []useCase{onReplica(r.sync), r.tolerateHidden(r.rename(r.before["anna@one.test"], "New")), r.endLag}
		},
		func(r *race) error {
			if m := r.mailbox("anna@one.test"); !r.hidden && m.DisplayName != "New" {
				return fmt.Errorf("the mailbox is %+v, want the name New", m)
			}
			return checkSameRows(r)
		},
	},
	{
		"a list without the objects and the creation of a mailbox, while the replica catches up",
		storeAndRecordRows,
		func(r *race) []useCase {
			return []useCase{onReplica(r.sync), r.tolerateHidden(r.provision("bea@one.test")), r.endLag}
		},
		func(r *race) error {
			if r.hidden {
				return checkSameRows(r)
			}
			bea := r.mailbox("bea@one.test")
			if effects := r.platform.Effects("CreateMailbox"); bea.Stage != mailbox.Ready || !bea.Provisioned || effects != 2 {
				return fmt.Errorf("the mailbox is %+v and the platform created %d mailboxes, want a ready mailbox and 2, with anna", bea, effects)
			}
			r.before[bea.Address] = bea.ID
			return checkSameRows(r)
		},
	},
	{
		"a list without the objects and the verification of a domain, while the replica catches up",
		func(r *race) {
			storeAndRecordRows(r)
			records, err := r.platform.For(guid).Records(r.t.Context(), "two.test")
			must(r.t, err)
			r.platform.DNS.Publish("two.test", records.Verification...)
		},
		func(r *race) []useCase {
			return []useCase{onReplica(r.sync), r.tolerateHidden(r.verify("two.test")), r.endLag}
		},
		func(r *race) error {
			if d := r.domain("two.test"); !r.hidden && !d.Verified {
				return fmt.Errorf("the domain is %+v, want it verified", d)
			}
			return checkSameRows(r)
		},
	},
	{
		"a removal by the owner, a list, and a creation of the same mailbox",
		storeAndRecordRows,
		func(r *race) []useCase { return []useCase{r.removeAnna, r.sync, r.provision("anna@one.test")} },
		checkRowOfExistingMailbox,
	},
	{
		"a removal by the owner and two lists, while the replica catches up",
		storeAndRecordRows,
		func(r *race) []useCase { return []useCase{r.removeAnna, onReplica(r.sync), r.endLag} },
		checkRowOfExistingMailbox,
	},
}

// checkRowOfExistingMailbox syncs again, ReplicaLag after the sync that followed the race. It
// returns an error if only one of the platform and the store has the mailbox anna.
func checkRowOfExistingMailbox(r *race) error {
	r.now = r.now.Add(observation.ReplicaLag)
	r.fixture.sync(r.t)
	_, err := r.platform.For(guid).Mailbox(r.t.Context(), "anna@one.test")
	_, storedAddresses, readErr := r.store.KnownNames(r.t.Context(), r.ann.ID, guid)
	must(r.t, readErr)
	if exists, stored := err == nil, slices.Contains(storedAddresses, "anna@one.test"); exists != stored {
		return fmt.Errorf("the platform has the mailbox: %v, the store has a row: %v, want both or neither", exists, stored)
	}
	return nil
}

// TestObjectsThatReplicasLackKeepTheirRowsInEveryOrder checks that a row is removed only if its
// object no longer exists. The limit and the connection of a mailbox stay until then. A soak test
// enumerates only orders with at most one interruption, because a sync has many steps.
func TestObjectsThatReplicasLackKeepTheirRowsInEveryOrder(t *testing.T) {
	for _, tc := range missingRaces {
		t.Run(tc.name, func(t *testing.T) {
			interleaving.Explore(t, 1, func(t *testing.T, order *interleaving.Order) {
				synctest.Test(t, func(t *testing.T) {
					r := newRace(t)
					tc.prepare(r)
					r.runInOrder(order, tc.useCases(r)...)
					r.fixture.sync(r.t)
					if err := tc.check(r); err != nil {
						t.Error(err)
					}
				})
			})
		})
	}
}
