// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func (h *fixture) remove(t *testing.T, fromPlatform bool) (Removed, error) {
	t.Helper()
	return h.Remove(t.Context(), h.acc.ID, guid, zone, fromPlatform, nil)
}

// discover stores what the platform holds now, as a sync does.
func (h *fixture) discover(t *testing.T) {
	t.Helper()
	found, err := h.fake.For(guid).Domains(t.Context())
	must(t, err)
	now := time.Now()
	must(t, h.store.SaveDiscovery(t.Context(), h.acc.ID, guid, ports.Found{Began: now, At: now, Domains: domain.Listed(found)}))
}

func (h *fixture) isStored(t *testing.T) bool {
	t.Helper()
	list, err := h.List(t.Context(), h.acc.ID, guid)
	must(t, err)
	return len(list) > 0
}

// TestForgottenDomainStaysAway checks that a sync does not bring a removed domain back until it is
// added again.
func TestForgottenDomainStaysAway(t *testing.T) {
	h := newFixture(t)
	h.verified(t)
	removed, err := h.remove(t, false)
	must(t, err)
	if removed.FromPlatform || h.fake.Calls("RemoveDomain") != 0 {
		t.Fatalf("got %+v after %d calls", removed, h.fake.Calls("RemoveDomain"))
	}
	h.discover(t)
	if h.isStored(t) {
		t.Fatal("a sync brought the domain back")
	}
	_, err = h.remove(t, false)
	refused(t, err, fault.DomainNotFound)
	added := h.added(t)
	if !added.Exists || !added.Domain.Verified {
		t.Fatalf("added again as %+v", added)
	}
	h.discover(t)
	if !h.isStored(t) {
		t.Fatal("the domain is not stored")
	}
}

func TestRemoveFromPlatform(t *testing.T) {
	h := newFixture(t)
	h.verified(t)
	removed, err := h.remove(t, true)
	must(t, err)
	if !removed.FromPlatform || removed.MadeAnew || len(h.fake.Holds(guid).Domains) != 0 || h.isStored(t) {
		t.Fatalf("got %+v, the platform holds %v", removed, h.fake.Holds(guid).Domains)
	}
	if added := h.added(t); added.Exists || added.Domain.Verified {
		t.Fatalf("added again as %+v", added)
	}
}

func TestRemoveRefused(t *testing.T) {
	t.Run("our mailboxes", func(t *testing.T) {
		h := newFixture(t)
		d := h.verified(t)
		_, err := h.store.ReserveMailboxes(t.Context(), h.acc.ID, d.ID, []mailbox.Spec{{DisplayName: "A", Address: "a@" + zone}}, 3, time.Now())
		must(t, err)
		for _, fromPlatform := range []bool{false, true} {
			_, err := h.remove(t, fromPlatform)
			refused(t, err, fault.DomainInUse)
		}
		if h.fake.Calls("RemoveDomain") != 0 || !h.isStored(t) {
			t.Fatal("something was removed")
		}
	})
	t.Run("mailboxes at the platform", func(t *testing.T) {
		h := newFixture(t)
		h.verified(t)
		_, err := h.fake.For(guid).CreateMailbox(t.Context(), mailbox.Spec{DisplayName: "A", Address: "a@" + zone})
		must(t, err)
		_, err = h.remove(t, true)
		refused(t, err, fault.DomainInUse)
		if !h.isStored(t) {
			t.Fatal("the domain was forgotten")
		}
	})
	t.Run("consent is gone", func(t *testing.T) {
		h := newFixture(t)
		h.verified(t)
		h.fake.Revoke(guid, "consent")
		_, err := h.remove(t, true)
		refused(t, err, fault.AccessDenied)
		if h.tenant(t).Consent != tenant.ConsentRevoked {
			t.Error("the lost consent is not stored")
		}
		_, err = h.remove(t, false)
		must(t, err)
	})
}

// TestDomainMadeAnewStays checks that a repeated removal leaves a domain alone that was added again
// after the first removal lost its answer.
func TestDomainMadeAnewStays(t *testing.T) {
	h := newFixture(t)
	h.verified(t)
	must(t, h.fake.For(guid).RemoveDomain(t.Context(), zone))
	_, err := h.fake.For(guid).AddDomain(t.Context(), zone)
	must(t, err)
	removed, err := h.remove(t, true)
	must(t, err)
	if !removed.MadeAnew || len(h.fake.Holds(guid).Domains) != 1 || h.isStored(t) {
		t.Fatalf("got %+v, the platform holds %v", removed, h.fake.Holds(guid).Domains)
	}
}

// TestRemovalWithUnknownOutcome loses the answer of the platform, before and after the effect.
func TestRemovalWithUnknownOutcome(t *testing.T) {
	for _, applied := range []bool{false, true} {
		h := newFixture(t)
		h.verified(t)
		h.fake.Fail(fake.Fault{Method: "RemoveDomain", Kind: outcome.Unknown, Times: 1, AfterEffect: applied})
		_, err := h.remove(t, true)
		must(t, err)
		if n := h.fake.Effects("RemoveDomain"); n != 1 || h.isStored(t) {
			t.Errorf("applied %v: removed %d times", applied, n)
		}
	}
}

// TestEveryCrashOfARemovalConverges crashes the process at every step of a removal, and lets a sync
// miss the domain before a new process repeats the removal.
func TestEveryCrashOfARemovalConverges(t *testing.T) {
	for _, after := range []bool{false, true} {
		for steps, finished := 0, false; !finished; steps++ {
			t.Run(fmt.Sprintf("step %d, after its effect %v", steps, after), func(t *testing.T) {
				h := newFixture(t)
				h.verified(t)
				l := fake.NewCrashingProcess(steps, after)
				dying := h.service(fake.SteppedMailPlatform(h.fake, l), fake.SteppedDomains(h.store, l))
				_, err := dying.Remove(t.Context(), h.acc.ID, guid, zone, true, nil)
				if finished = !l.Dead(); finished {
					must(t, err)
					return
				}
				missed := map[string]bool{}
				if len(h.fake.Holds(guid).Domains) == 0 {
					missed[zone] = true
				}
				now := time.Now()
				must(t, h.store.SaveDiscovery(t.Context(), h.acc.ID, guid, ports.Found{Began: now, At: now, Domains: []domain.Platform{}, MissedDomains: missed}))
				_, err = h.remove(t, true)
				must(t, err)
				if n := h.fake.Effects("RemoveDomain"); n != 1 || h.isStored(t) {
					t.Errorf("removed %d times", n)
				}
			})
		}
	}
}
