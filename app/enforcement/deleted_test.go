// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// deleter is what deletes the house's tenant, and waits for no run.
func (h *house) deleter() *tenants.Service {
	return &tenants.Service{Tenants: h.store, Policies: h.store, Runs: h.store, Platform: h.fake, Now: h.Now,
		Pause: time.Millisecond, RunTurn: time.Millisecond, RunEnds: time.Millisecond}
}

func (h *house) deleted(t *testing.T, s *tenants.Service) {
	t.Helper()
	gone, err := s.Delete(t.Context(), h.owner, h.id)
	if err != nil || !gone.Removed || len(h.fake.Holds(h.id).Rules) != 0 {
		t.Errorf("%+v, %v: left are %v", gone.Unruled, err, h.fake.Holds(h.id).Rules)
	}
}

// seizing tells when a tenant was taken from a run, and goes on when that run
// has ended.
type seizing struct {
	ports.SendRuns
	seized, ended chan struct{}
}

func (s seizing) SeizeTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration) (ports.SendRun, bool, error) {
	r, won, err := s.SendRuns.SeizeTenant(ctx, owner, id, lease)
	close(s.seized)
	<-s.ended
	return r, won, err
}

// A deletion takes the tenant from a run that is at a call for too long. Whether
// the call has its effect before or after that, no rule stays, and who was
// blocked has an event for that and one for the release.
func TestATenantThatIsDeletedDuringACall(t *testing.T) {
	for name, late := range map[string]bool{"its effect came before": false, "its effect comes after": true} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.limit(t, sendlimit.TenantWide, 5)
			must(t, h.run(t))
			h.fake.Send(h.id, h.boxes[0].Address, 6)
			h.advance(sendlimit.Latest)
			s, runs := h.deleter(), seizing{h.store, make(chan struct{}), make(chan struct{})}
			s.Runs = runs
			done := make(chan struct{})
			l := &life{at: "Block", after: !late, pause: func() bool {
				go func() { defer close(done); h.deleted(t, s) }()
				select {
				case <-runs.seized:
				case <-done: // which told why
				}
				return false // the call is on its way
			}}
			must(t, h.lives(t, l))
			close(runs.ended)
			<-done
			if acts := h.acts(t)[h.boxes[0].Address]; len(acts) != 2 || !acts[0] || acts[1] {
				t.Fatalf("events %+v", h.events(t))
			}
			h.staysRight(t)
		})
	}
}

// staysRight: events say what the rules did, also of a tenant that is gone.
func (h *house) staysRight(t *testing.T) {
	t.Helper()
	turns, acts := h.turns(), h.acts(t)
	for address, all := range turns {
		if len(acts[address]) != len(all) {
			t.Errorf("%s: the rules did %v, events say %v", address, all, acts[address])
		}
	}
}

// Who is blocked in a tenant that is deleted is let go, on record.
func TestATenantThatIsDeletedWithBlockedMailboxes(t *testing.T) {
	h := newHouse(t)
	h.limit(t, one, 5)
	ada := h.boxes[0].Address
	h.fake.Send(h.id, ada, 6)
	must(t, h.run(t))
	h.deleted(t, h.deleter())
	events := h.events(t)
	if len(events) != 1 || len(events[ada]) != 2 || events[ada][1].Message() != "Mailbox unblocked: sent 6, limit 5" || events[ada][1].Tenant != h.id {
		t.Fatalf("events %+v", events)
	}
	h.staysRight(t)
}

type failingTenants struct{ *bunstore.Store }

var errAway = errors.New("away")

func (failingTenants) DeleteTenant(context.Context, access.AccountID, tenant.GUID) error {
	return errAway
}

// A tenant whose deletion fails after its rules were taken out is enforced as
// before, at once, also one that never had a run.
func TestATenantWhoseDeletionFails(t *testing.T) {
	for name, looked := range map[string]bool{"after a look": true, "before the first": false} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.limit(t, one, 5)
			ada := h.boxes[0].Address
			h.fake.Send(h.id, ada, 6)
			if h.advance(time.Hour); looked {
				must(t, h.Run(t.Context(), h.owner, h.id))
			}
			s := h.deleter()
			s.Tenants = failingTenants{h.store}
			if _, err := s.Delete(t.Context(), h.owner, h.id); !errors.Is(err, errAway) || len(h.blocks(t)) != 0 || len(h.blocked(t)) != 0 {
				t.Fatalf("%v, blocked are %q", err, h.blocked(t))
			}
			if due, err := h.store.DueTenants(t.Context(), h.now, 9); err != nil || len(due) != 1 {
				t.Fatalf("due are %v, %v", due, err)
			}
			h.advance(sendlimit.Soonest)
			must(t, h.Run(t.Context(), h.owner, h.id))
			if h.agrees(t); len(h.blocked(t)) != 1 {
				t.Fatalf("blocked are %q", h.blocked(t))
			}
		})
	}
}
