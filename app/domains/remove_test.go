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

// remove removes the domain from the service, and at the platform if fromPlatform is true.
func (fx *fixture) remove(t *testing.T, fromPlatform bool) (RemoveResult, error) {
	t.Helper()
	return fx.Remove(t.Context(), fx.account.ID, guid, zone, fromPlatform, nil)
}

// discover stores the domains that the platform has now, as a sync does.
func (fx *fixture) discover(t *testing.T) {
	t.Helper()
	found, err := fx.fake.For(guid).Domains(t.Context())
	must(t, err)
	now := time.Now()
	must(t, fx.store.SaveDiscovery(t.Context(), fx.account.ID, guid, ports.DiscoveryResult{Began: now, At: now, Domains: domain.WithCanonicalNames(found)}))
}

func (fx *fixture) isStored(t *testing.T) bool {
	t.Helper()
	list, err := fx.List(t.Context(), fx.account.ID, guid)
	must(t, err)
	return len(list) > 0
}

// TestSyncDoesNotRestoreARemovedDomain checks that a sync does not store a removed domain until the
// domain is added again.
func TestSyncDoesNotRestoreARemovedDomain(t *testing.T) {
	fx := newFixture(t)
	fx.addAndVerify(t)
	removed, err := fx.remove(t, false)
	must(t, err)
	if removed.FromPlatform || fx.fake.Calls("RemoveDomain") != 0 {
		t.Fatalf("got %+v after %d calls of RemoveDomain, want none", removed, fx.fake.Calls("RemoveDomain"))
	}
	fx.discover(t)
	if fx.isStored(t) {
		t.Fatal("a sync stored the removed domain")
	}
	_, err = fx.remove(t, false)
	requireRefusal(t, err, fault.DomainNotFound)
	added := fx.addDomain(t)
	if !added.Exists || !added.Domain.Verified {
		t.Fatalf("added again as %+v, want the existing verified domain", added)
	}
	fx.discover(t)
	if !fx.isStored(t) {
		t.Fatal("after it was added again, the domain is not stored")
	}
}

func TestRemoveFromPlatformRemovesTheDomainEverywhere(t *testing.T) {
	fx := newFixture(t)
	fx.addAndVerify(t)
	removed, err := fx.remove(t, true)
	must(t, err)
	if !removed.FromPlatform || removed.MayBeNew || len(fx.fake.SnapshotOf(guid).Domains) != 0 || fx.isStored(t) {
		t.Fatalf("got %+v, and the platform has %v; want the domain neither there nor in the store", removed, fx.fake.SnapshotOf(guid).Domains)
	}
	if added := fx.addDomain(t); added.Exists || added.Domain.Verified {
		t.Fatalf("added again as %+v, want a new unverified domain", added)
	}
}

func TestRemoveIsRefusedForADomainInUseAndWithoutConsent(t *testing.T) {
	t.Run("mailboxes of the account", func(t *testing.T) {
		fx := newFixture(t)
		d := fx.addAndVerify(t)
		_, err := fx.store.ReserveMailboxes(t.Context(), fx.account.ID, d.ID, []mailbox.Spec{{DisplayName: "A", Address: "a@" + zone}}, 3, time.Now())
		must(t, err)
		for _, fromPlatform := range []bool{false, true} {
			_, err := fx.remove(t, fromPlatform)
			requireRefusal(t, err, fault.DomainInUse)
		}
		if fx.fake.Calls("RemoveDomain") != 0 || !fx.isStored(t) {
			t.Fatal("a refused removal removed the domain")
		}
	})
	t.Run("mailboxes at the platform", func(t *testing.T) {
		fx := newFixture(t)
		fx.addAndVerify(t)
		_, err := fx.fake.For(guid).CreateMailbox(t.Context(), mailbox.Spec{DisplayName: "A", Address: "a@" + zone})
		must(t, err)
		_, err = fx.remove(t, true)
		requireRefusal(t, err, fault.DomainInUse)
		if !fx.isStored(t) {
			t.Fatal("a refused removal deleted the stored domain")
		}
	})
	t.Run("the consent was withdrawn", func(t *testing.T) {
		fx := newFixture(t)
		fx.addAndVerify(t)
		fx.fake.Revoke(guid, "consent")
		_, err := fx.remove(t, true)
		requireRefusal(t, err, fault.AccessDenied)
		if fx.storedTenant(t).Consent != tenant.ConsentRevoked {
			t.Error("the lost consent is not stored")
		}
		_, err = fx.remove(t, false)
		must(t, err)
	})
}

// TestRepeatedRemovalKeepsANewDomain adds the domain again at the platform after the answer of a
// removal was lost. The repeated removal must not remove the new domain. In each case, a read of a
// sync, of a request or of the removal itself shows that the domain has changed.
func TestRepeatedRemovalKeepsANewDomain(t *testing.T) {
	addNew, verifyNew, discover := (*fixture).addAtPlatform, (*fixture).verifyAtPlatform, (*fixture).discover
	storeMiss := func(fx *fixture, t *testing.T) { t.Helper(); fx.storeMissAt(t, time.Now()) }
	verifyByRequest := func(fx *fixture, t *testing.T) {
		t.Helper()
		_, err := fx.Verify(t.Context(), fx.account.ID, guid, zone)
		must(t, err)
	}
	for _, tc := range []struct {
		name          string
		oldUnverified bool                         // true if the removed domain was not verified
		between       []func(*fixture, *testing.T) // the steps between the two removals
	}{
		{name: "an unverified new domain", between: []func(*fixture, *testing.T){addNew}},
		{name: "an unverified new domain that a sync found", between: []func(*fixture, *testing.T){addNew, discover}},
		{name: "a new domain, verified after a sync found it", between: []func(*fixture, *testing.T){addNew, discover, verifyNew}},
		{name: "a new domain, verified between two syncs", between: []func(*fixture, *testing.T){addNew, discover, verifyNew, discover}},
		{name: "a new domain, verified by a request", between: []func(*fixture, *testing.T){addNew, verifyByRequest}},
		{name: "a sync missed the old domain", between: []func(*fixture, *testing.T){storeMiss, addNew, verifyNew}},
		{name: "a sync missed the old domain, another found the new one", between: []func(*fixture, *testing.T){storeMiss, addNew, verifyNew, discover}},
		{name: "a verified new domain and an unverified old one", oldUnverified: true, between: []func(*fixture, *testing.T){addNew, verifyNew}},
		{name: "a new domain, verified between two syncs, and an unverified old one", oldUnverified: true, between: []func(*fixture, *testing.T){addNew, discover, verifyNew, discover}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newFixture(t)
			if fx.addAndPublish(t); !tc.oldUnverified {
				fx.addAndVerify(t)
			}
			fx.loseRemoval(t)
			for _, step := range tc.between {
				step(fx, t)
			}
			removed, err := fx.remove(t, true)
			must(t, err)
			if !removed.MayBeNew || len(fx.fake.SnapshotOf(guid).Domains) != 1 || fx.isStored(t) {
				t.Fatalf("got %+v, and the platform has %v; want MayBeNew, and the domain only at the platform", removed, fx.fake.SnapshotOf(guid).Domains)
			}
			fx.addDomain(t)
			fx.requireRemoval(t)
		})
	}
}

// TestRemovalReachesADomainThatReplicasDoNotShow checks removals whose read does not find the
// domain. A first removal removes the domain. A repeated removal keeps it, because it may be new.
func TestRemovalReachesADomainThatReplicasDoNotShow(t *testing.T) {
	missFault := fake.Fault{Method: "Domain", Kind: outcome.Refused, Code: fault.DomainNotFound, Times: 1}
	t.Run("a first removal", func(t *testing.T) {
		fx := newFixture(t)
		fx.addAndPublish(t)
		fx.fake.Fail(missFault)
		fx.requireRemoval(t)
	})
	t.Run("a first removal without an answer", func(t *testing.T) {
		fx := newFixture(t)
		fx.addAndPublish(t)
		twoMisses := missFault
		twoMisses.Times = 2
		fx.fake.Fail(twoMisses)
		fx.fake.Fail(fake.Fault{Method: "RemoveDomain", Kind: outcome.Unknown, Times: 1})
		fx.requireRemoval(t)
	})
	t.Run("a first removal that the platform refuses", func(t *testing.T) {
		fx := newFixture(t)
		fx.addAndPublish(t)
		fx.fake.Fail(missFault)
		fx.fake.Fail(fake.Fault{Method: "RemoveDomain", Kind: outcome.Refused, Code: fault.DomainInUse, Times: 1})
		_, err := fx.remove(t, true)
		requireRefusal(t, err, fault.DomainInUse)
		fx.fake.Fail(missFault)
		fx.requireRemoval(t)
	})
	t.Run("a repeated removal", func(t *testing.T) {
		fx := newFixture(t)
		fx.addAndVerify(t)
		fx.loseRemoval(t)
		fx.addAtPlatform(t)
		fx.fake.Fail(missFault)
		_, err := fx.remove(t, true)
		must(t, err)
		if len(fx.fake.SnapshotOf(guid).Domains) != 1 || fx.isStored(t) {
			t.Fatalf("the platform has %v, and stored is %v; want the domain only at the platform", fx.fake.SnapshotOf(guid).Domains, fx.isStored(t))
		}
	})
}

// TestSyncDoesNotStoreANewDomainAfterALostAnswer lets two syncs delete the stored domain after a
// removal has lost its answer. A later sync must not store the new domain, because a repetition of
// the removal would then remove it.
func TestSyncDoesNotStoreANewDomainAfterALostAnswer(t *testing.T) {
	fx := newFixture(t)
	fx.addAndVerify(t)
	fx.loseRemoval(t)
	fx.storeMissAt(t, time.Now())
	fx.storeMissAt(t, time.Now().Add(observation.ReplicaLag))
	fx.addAtPlatform(t)
	fx.discover(t)
	_, err := fx.remove(t, true)
	requireRefusal(t, err, fault.DomainNotFound)
	if len(fx.fake.SnapshotOf(guid).Domains) != 1 {
		t.Fatal("the new domain was removed")
	}
}

// TestNewRemovalRemovesANewDomain checks that a removal removes a domain that was added again, if
// this removal does not repeat an earlier one. Each case first waits for ReplicaLag after the
// verification. Until then, a read that shows the domain as unverified could come from a lagging
// replica.
func TestNewRemovalRemovesANewDomain(t *testing.T) {
	inFakeTime(t, "no earlier removal", func(t *testing.T) {
		fx := newFixture(t)
		fx.addAndVerify(t)
		time.Sleep(observation.ReplicaLag)
		must(t, fx.fake.For(guid).RemoveDomain(t.Context(), zone))
		fx.addAtPlatform(t)
		fx.discover(t)
		fx.requireRemoval(t)
	})
	inFakeTime(t, "added again by a request", func(t *testing.T) {
		fx := newFixture(t)
		fx.addAndVerify(t)
		time.Sleep(observation.ReplicaLag)
		fx.loseRemoval(t)
		fx.storeMissAt(t, time.Now())
		fx.addDomain(t)
		fx.verifyAtPlatform(t)
		fx.discover(t)
		fx.requireRemoval(t)
	})
	inFakeTime(t, "added at the platform, then by a request", func(t *testing.T) {
		fx := newFixture(t)
		fx.addAndVerify(t)
		time.Sleep(observation.ReplicaLag)
		fx.loseRemoval(t)
		fx.addAtPlatform(t)
		fx.discover(t)
		if added := fx.addDomain(t); !added.Exists {
			t.Fatalf("added as %+v, want the existing domain", added)
		}
		fx.requireRemoval(t)
	})
	inFakeTime(t, "the platform refused the earlier removal", func(t *testing.T) {
		fx := newFixture(t)
		fx.addAndVerify(t)
		time.Sleep(observation.ReplicaLag)
		created, err := fx.fake.For(guid).CreateMailbox(t.Context(), mailbox.Spec{DisplayName: "A", Address: "a@" + zone})
		must(t, err)
		_, err = fx.remove(t, true)
		requireRefusal(t, err, fault.DomainInUse)
		must(t, fx.fake.For(guid).RemoveMailbox(t.Context(), created.ObjectID))
		must(t, fx.fake.For(guid).RemoveDomain(t.Context(), zone))
		fx.addAtPlatform(t)
		fx.discover(t)
		fx.requireRemoval(t)
	})
}

// TestRemovalThatChangedNothingIsRepeated checks a removal that failed without an effect. A sync
// then finds the domain. The repeated removal removes the domain.
func TestRemovalThatChangedNothingIsRepeated(t *testing.T) {
	for _, tc := range []struct {
		name  string
		kind  outcome.Kind // the outcome of the failing calls of RemoveDomain
		tries int          // how many calls fail
	}{
		{"unknown outcome", outcome.Unknown, removeTries},
		{"platform down", outcome.Down, 1},
	} {
		for _, verified := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, verified %v", tc.name, verified), func(t *testing.T) {
				fx := newFixture(t)
				if fx.addAndPublish(t); verified {
					fx.addAndVerify(t)
				}
				fx.fake.Fail(fake.Fault{Method: "RemoveDomain", Kind: tc.kind, Times: tc.tries})
				if _, err := fx.remove(t, true); err == nil || fx.fake.Effects("RemoveDomain") != 0 {
					t.Fatalf("got %v after %d effects of RemoveDomain, want an error and no effect", err, fx.fake.Effects("RemoveDomain"))
				}
				fx.discover(t)
				fx.requireRemoval(t)
			})
		}
	}
}

// addAtPlatform adds the domain at the platform, as an administrator of the tenant can do.
func (fx *fixture) addAtPlatform(t *testing.T) {
	t.Helper()
	_, err := fx.fake.For(guid).AddDomain(t.Context(), zone)
	must(t, err)
}

// verifyAtPlatform verifies the domain at the platform, as an administrator of the tenant can do.
func (fx *fixture) verifyAtPlatform(t *testing.T) {
	t.Helper()
	_, err := fx.fake.For(guid).VerifyDomain(t.Context(), zone)
	must(t, err)
}

// storeMissAt stores the discovery of a sync that began at the given time and found no domain.
func (fx *fixture) storeMissAt(t *testing.T, at time.Time) {
	t.Helper()
	must(t, fx.store.SaveDiscovery(t.Context(), fx.account.ID, guid, ports.DiscoveryResult{Began: at, At: at, Domains: []domain.Platform{}, MissedDomains: map[string]bool{zone: true}}))
}

// loseRemoval sends a removal that takes effect at the platform. The answer of the platform is
// lost, and the read that follows fails, so the removal fails.
func (fx *fixture) loseRemoval(t *testing.T) {
	t.Helper()
	fx.fake.Fail(fake.Fault{Method: "RemoveDomain", Kind: outcome.Unknown, Times: 1, AfterEffect: true})
	fx.fake.Fail(fake.Fault{Method: "Domain", Kind: outcome.Down, Skip: 1, Times: 1})
	if _, err := fx.remove(t, true); err == nil || len(fx.fake.SnapshotOf(guid).Domains) != 0 {
		t.Fatalf("got %v, and the platform has %v; want an error, and no domain", err, fx.fake.SnapshotOf(guid).Domains)
	}
}

func (fx *fixture) requireRemoval(t *testing.T) {
	t.Helper()
	removed, err := fx.remove(t, true)
	must(t, err)
	if removed.MayBeNew || len(fx.fake.SnapshotOf(guid).Domains) != 0 || fx.isStored(t) {
		t.Fatalf("got %+v, and the platform has %v; want the domain neither there nor in the store", removed, fx.fake.SnapshotOf(guid).Domains)
	}
}

// TestRemovalResolvesALostAnswer loses the answer of the platform to RemoveDomain, once before and
// once after the call takes effect.
func TestRemovalResolvesALostAnswer(t *testing.T) {
	for _, afterEffect := range []bool{false, true} {
		fx := newFixture(t)
		fx.addAndVerify(t)
		fx.fake.Fail(fake.Fault{Method: "RemoveDomain", Kind: outcome.Unknown, Times: 1, AfterEffect: afterEffect})
		_, err := fx.remove(t, true)
		must(t, err)
		if n := fx.fake.Effects("RemoveDomain"); n != 1 || fx.isStored(t) {
			t.Errorf("after its effect %v: the domain was removed %d times, want 1, or it is still stored", afterEffect, n)
		}
	}
}

// TestEveryCrashOfARemovalConverges crashes the process once at each platform call of a removal. A
// sync runs before a new process repeats the removal.
func TestEveryCrashOfARemovalConverges(t *testing.T) {
	for _, afterEffect := range []bool{false, true} {
		step := 0
		for finished := false; !finished; step++ {
			t.Run(fmt.Sprintf("step %d, after its effect %v", step, afterEffect), func(t *testing.T) {
				fx := newFixture(t)
				fx.addAndVerify(t)
				process := fake.NewCrashingProcess(step, afterEffect)
				crashing := fx.service(fake.SteppedMailPlatform(fx.fake, process), fake.SteppedDomains(fx.store, process))
				_, err := crashing.Remove(t.Context(), fx.account.ID, guid, zone, true, nil)
				if finished = !process.Dead(); finished {
					must(t, err)
					return
				}
				if len(fx.fake.SnapshotOf(guid).Domains) == 0 {
					fx.storeMissAt(t, time.Now())
				} else {
					fx.discover(t)
				}
				_, err = fx.remove(t, true)
				must(t, err)
				if n := fx.fake.Effects("RemoveDomain"); n != 1 || fx.isStored(t) {
					t.Errorf("the domain was removed %d times, want 1, or it is still stored", n)
				}
			})
		}
		if step <= 2 { // the read of the domain and its removal are steps
			t.Fatalf("the process crashed at only %d steps, want at least 2", step-1)
		}
	}
}
