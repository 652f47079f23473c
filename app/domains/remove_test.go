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
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func (h *fixture) remove(t *testing.T, fromPlatform bool) (RemoveResult, error) {
	t.Helper()
	return h.Remove(t.Context(), h.acc.ID, guid, zone, fromPlatform, nil)
}

// discover stores what the platform has now, as a sync does.
func (h *fixture) discover(t *testing.T) {
	t.Helper()
	found, err := h.fake.For(guid).Domains(t.Context())
	must(t, err)
	now := time.Now()
	must(t, h.store.SaveDiscovery(t.Context(), h.acc.ID, guid, ports.Found{Began: now, At: now, Domains: domain.WithCanonicalNames(found)}))
}

func (h *fixture) isStored(t *testing.T) bool {
	t.Helper()
	list, err := h.List(t.Context(), h.acc.ID, guid)
	must(t, err)
	return len(list) > 0
}

// TestSyncDoesNotRestoreARemovedDomain checks that a sync does not store a removed domain until the
// domain is added again.
func TestSyncDoesNotRestoreARemovedDomain(t *testing.T) {
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
	if !removed.FromPlatform || removed.MayBeNew || len(h.fake.SnapshotOf(guid).Domains) != 0 || h.isStored(t) {
		t.Fatalf("got %+v, the platform has %v", removed, h.fake.SnapshotOf(guid).Domains)
	}
	if added := h.added(t); added.Exists || added.Domain.Verified {
		t.Fatalf("added again as %+v", added)
	}
}

func TestRemoveRefusesADomainInUse(t *testing.T) {
	t.Run("mailboxes of the account", func(t *testing.T) {
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
			t.Fatal("the domain was deleted")
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

// TestRepeatedRemovalKeepsANewDomain adds the domain again at the platform after a removal lost its
// answer. The repeated removal must not remove the new domain if an observation in between showed
// it.
func TestRepeatedRemovalKeepsANewDomain(t *testing.T) {
	add, verify, sync := (*fixture).addAtPlatform, (*fixture).verifyAtPlatform, (*fixture).discover
	miss := func(h *fixture, t *testing.T) { t.Helper(); h.miss(t, time.Now()) }
	verifyByRequest := func(h *fixture, t *testing.T) {
		t.Helper()
		_, err := h.Verify(t.Context(), h.acc.ID, guid, zone)
		must(t, err)
	}
	for _, tt := range []struct {
		name       string
		unverified bool // the domain that the first removal removed
		between    []func(*fixture, *testing.T)
	}{
		{name: "unverified", between: []func(*fixture, *testing.T){add}},
		{name: "unverified, a sync found it", between: []func(*fixture, *testing.T){add, sync}},
		{name: "verified after a sync found it", between: []func(*fixture, *testing.T){add, sync, verify}},
		{name: "verified between two syncs", between: []func(*fixture, *testing.T){add, sync, verify, sync}},
		{name: "verified by a request", between: []func(*fixture, *testing.T){add, verifyByRequest}},
		{name: "a sync missed the old domain", between: []func(*fixture, *testing.T){miss, add, verify}},
		{name: "a sync missed the old domain, another found the new one", between: []func(*fixture, *testing.T){miss, add, verify, sync}},
		{name: "verified, the old domain was not", unverified: true, between: []func(*fixture, *testing.T){add, verify}},
		{name: "verified between two syncs, the old domain was not", unverified: true, between: []func(*fixture, *testing.T){add, sync, verify, sync}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFixture(t)
			if h.published(t); !tt.unverified {
				h.verified(t)
			}
			h.loseRemoval(t)
			for _, step := range tt.between {
				step(h, t)
			}
			removed, err := h.remove(t, true)
			must(t, err)
			if !removed.MayBeNew || len(h.fake.SnapshotOf(guid).Domains) != 1 || h.isStored(t) {
				t.Fatalf("got %+v, the platform has %v", removed, h.fake.SnapshotOf(guid).Domains)
			}
			h.added(t)
			h.removedForGood(t)
		})
	}
}

// TestSyncDoesNotStoreANewDomainAfterALostAnswer lets two syncs delete the stored domain after a
// removal has lost its answer. A later sync must not store the new domain, because a repetition of
// the removal would then remove it.
func TestSyncDoesNotStoreANewDomainAfterALostAnswer(t *testing.T) {
	h := newFixture(t)
	h.verified(t)
	h.loseRemoval(t)
	h.miss(t, time.Now())
	h.miss(t, time.Now().Add(observation.ReplicaLag))
	h.addAtPlatform(t)
	h.discover(t)
	_, err := h.remove(t, true)
	refused(t, err, fault.DomainNotFound)
	if len(h.fake.SnapshotOf(guid).Domains) != 1 {
		t.Fatal("the new domain was removed")
	}
}

// TestNewRemovalRemovesANewDomain checks that a removal removes a domain that was added again,
// unless it repeats an earlier removal. Each case waits for ReplicaLag, because before that a read
// of the new domain can count as an old read of the verified one.
func TestNewRemovalRemovesANewDomain(t *testing.T) {
	inFakeTime(t, "no earlier removal", func(t *testing.T) {
		h := newFixture(t)
		h.verified(t)
		time.Sleep(observation.ReplicaLag)
		must(t, h.fake.For(guid).RemoveDomain(t.Context(), zone))
		h.addAtPlatform(t)
		h.discover(t)
		h.removedForGood(t)
	})
	inFakeTime(t, "added again by a request", func(t *testing.T) {
		h := newFixture(t)
		h.verified(t)
		time.Sleep(observation.ReplicaLag)
		h.loseRemoval(t)
		h.miss(t, time.Now())
		h.added(t)
		h.verifyAtPlatform(t)
		h.discover(t)
		h.removedForGood(t)
	})
	inFakeTime(t, "added at the platform, then by a request", func(t *testing.T) {
		h := newFixture(t)
		h.verified(t)
		time.Sleep(observation.ReplicaLag)
		h.loseRemoval(t)
		h.addAtPlatform(t)
		h.discover(t)
		if added := h.added(t); !added.Exists {
			t.Fatalf("added as %+v", added)
		}
		h.removedForGood(t)
	})
	inFakeTime(t, "the platform refused the earlier removal", func(t *testing.T) {
		h := newFixture(t)
		h.verified(t)
		time.Sleep(observation.ReplicaLag)
		box, err := h.fake.For(guid).CreateMailbox(t.Context(), mailbox.Spec{DisplayName: "A", Address: "a@" + zone})
		must(t, err)
		_, err = h.remove(t, true)
		refused(t, err, fault.DomainInUse)
		must(t, h.fake.For(guid).RemoveMailbox(t.Context(), box.ObjectID))
		must(t, h.fake.For(guid).RemoveDomain(t.Context(), zone))
		h.addAtPlatform(t)
		h.discover(t)
		h.removedForGood(t)
	})
}

// TestRemovalThatChangedNothingIsRepeated fails a removal without an effect, and lets a sync find
// the domain before the removal is repeated.
func TestRemovalThatChangedNothingIsRepeated(t *testing.T) {
	for _, tt := range []struct {
		name  string
		kind  outcome.Kind
		tries int
	}{
		{"unknown outcome", outcome.Unknown, removeTries},
		{"platform down", outcome.Down, 1},
	} {
		for _, verified := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, verified %v", tt.name, verified), func(t *testing.T) {
				h := newFixture(t)
				if h.published(t); verified {
					h.verified(t)
				}
				h.fake.Fail(fake.Fault{Method: "RemoveDomain", Kind: tt.kind, Times: tt.tries})
				if _, err := h.remove(t, true); err == nil || h.fake.Effects("RemoveDomain") != 0 {
					t.Fatalf("the removal did not fail: %v", err)
				}
				h.discover(t)
				h.removedForGood(t)
			})
		}
	}
}

// addAtPlatform and verifyAtPlatform do what an administrator of the tenant can do at the platform.
func (h *fixture) addAtPlatform(t *testing.T) {
	t.Helper()
	_, err := h.fake.For(guid).AddDomain(t.Context(), zone)
	must(t, err)
}

func (h *fixture) verifyAtPlatform(t *testing.T) {
	t.Helper()
	_, err := h.fake.For(guid).VerifyDomain(t.Context(), zone)
	must(t, err)
}

// miss stores that a sync, which began at the time at, found no domain.
func (h *fixture) miss(t *testing.T, at time.Time) {
	t.Helper()
	must(t, h.store.SaveDiscovery(t.Context(), h.acc.ID, guid, ports.Found{Began: at, At: at, Domains: []domain.Platform{}, MissedDomains: map[string]bool{zone: true}}))
}

// loseRemoval removes the domain at the platform and crashes before the answer.
func (h *fixture) loseRemoval(t *testing.T) {
	t.Helper()
	h.fake.Fail(fake.Fault{Method: "RemoveDomain", Kind: outcome.Unknown, Times: 1, AfterEffect: true})
	h.fake.Fail(fake.Fault{Method: "Domain", Kind: outcome.Down, Skip: 1, Times: 1})
	if _, err := h.remove(t, true); err == nil || len(h.fake.SnapshotOf(guid).Domains) != 0 {
		t.Fatalf("got %v, the platform has %v", err, h.fake.SnapshotOf(guid).Domains)
	}
}

// removedForGood removes the domain from the service and at the platform.
func (h *fixture) removedForGood(t *testing.T) {
	t.Helper()
	removed, err := h.remove(t, true)
	must(t, err)
	if removed.MayBeNew || len(h.fake.SnapshotOf(guid).Domains) != 0 || h.isStored(t) {
		t.Fatalf("got %+v, the platform has %v", removed, h.fake.SnapshotOf(guid).Domains)
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

// TestEveryCrashOfARemovalConverges crashes the process at every step of a removal, and syncs
// before a new process repeats the removal.
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
				if len(h.fake.SnapshotOf(guid).Domains) == 0 {
					h.miss(t, time.Now())
				} else {
					h.discover(t)
				}
				_, err = h.remove(t, true)
				must(t, err)
				if n := h.fake.Effects("RemoveDomain"); n != 1 || h.isStored(t) {
					t.Errorf("removed %d times", n)
				}
			})
		}
	}
}
