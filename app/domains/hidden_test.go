// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// hideDomain stores a discovery that misses the domain, as if replicas of the platform lagged. It
// is for tests in fake time.
func (fx *fixture) hideDomain(t *testing.T) {
	t.Helper()
	time.Sleep(time.Minute)
	now := fx.Now()
	must(t, fx.store.SaveDiscovery(t.Context(), fx.account.ID, guid, ports.DiscoveryResult{
		Began: now, At: now, Domains: []domain.Platform{}, MissedDomains: map[string]bool{zone: true},
	}))
	if listed, err := fx.List(t.Context(), fx.account.ID, guid); err != nil || len(listed) != 0 {
		t.Fatalf("after the miss, listed are %+v, %v, want none", listed, err)
	}
	time.Sleep(time.Second)
}

// TestAddKeepsADomainThatReplicasDoNotShow adds a verified domain that a discovery missed. The row
// must stay, whichever reads of the platform miss the domain. The row must also stay if the
// platform refuses the add because the tenant already has the domain.
func TestAddKeepsADomainThatReplicasDoNotShow(t *testing.T) {
	takenFault := fake.Fault{Method: "AddDomain", Kind: outcome.Refused, Code: fault.DomainUnavailable}
	missFault := func(method string, times int) fake.Fault {
		return fake.Fault{Method: method, Kind: outcome.Refused, Code: fault.DomainNotFound, Times: times}
	}
	for _, tc := range []struct {
		name   string
		faults []fake.Fault
		want   fault.Code // the zero Code if Add succeeds
	}{
		{"all reads find the domain", nil, fault.Code{}},
		{"the first read misses the domain", []fake.Fault{missFault("Domain", 1)}, fault.Code{}},
		{"the first reads of its records miss the domain", []fake.Fault{missFault("Domain", 1), missFault("Records", 3)}, fault.Code{}},
		{"all reads miss the domain", []fake.Fault{missFault("Domain", 0), takenFault}, fault.ProviderTimeout},
		{"an add has no answer, and all reads miss the domain", []fake.Fault{missFault("Domain", 0), {Method: "AddDomain", Kind: outcome.Unknown}}, fault.ProviderTimeout},
	} {
		inFakeTime(t, tc.name, func(t *testing.T) {
			fx := newFixture(t)
			fx.Search = time.Second
			domainBefore := fx.addAndVerify(t)
			fx.hideDomain(t)
			var endFaults []func()
			for _, f := range tc.faults {
				endFaults = append(endFaults, fx.fake.Fail(f))
			}
			got, err := fx.Add(t.Context(), fx.account, guid, zone, nil)
			if tc.want != (fault.Code{}) {
				requireRefusal(t, err, tc.want)
				for _, endFault := range endFaults {
					endFault()
				}
				got, err = fx.Add(t.Context(), fx.account, guid, zone, nil)
			}
			must(t, err)
			if domainAfter := fx.storedDomain(t); !got.Exists || domainAfter.ID != domainBefore.ID || !domainAfter.Verified || !domainAfter.MailReady {
				t.Errorf("Add reports the domain as existing: %v, and stored is %+v; want the domain as before: %+v", got.Exists, domainAfter, domainBefore)
			}
			_, err = fx.Verify(t.Context(), fx.account.ID, guid, zone)
			must(t, err)
			fx.publish(fx.storedDomain(t), domainBefore.Signing.Selector1, domainBefore.Signing.Selector2)
			d, err := fx.EnableDKIM(t.Context(), fx.account.ID, guid, zone)
			must(t, err)
			if !d.DKIMEnabled {
				t.Errorf("EnableDKIM returns %+v, want DKIM enabled", d)
			}
			for _, write := range []string{"AddDomain", "VerifyDomain", "EnableMail", "EnsureSigning", "EnableSigning"} {
				if n := fx.fake.Effects(write); n != 1 {
					t.Errorf("%s took effect %d times, want once", write, n)
				}
			}
		})
	}
}

// TestRefusalOfAHiddenDomainBecomesFinal checks that Add does not return the platform's refusal
// until ReplicaLag after the first miss. Before that, a lagging replica may hide a domain of this
// tenant. After the refusal, the domain is still stored as missing. It does not count towards the
// limit of the tenant, and a later sync deletes its row.
func TestRefusalOfAHiddenDomainBecomesFinal(t *testing.T) {
	inFakeTime(t, "a different tenant has the domain", func(t *testing.T) {
		fx := newFixture(t)
		domainBefore := fx.addAndVerify(t)
		fx.hideDomain(t)
		fx.fake.Fail(fake.Fault{Method: "Domain", Kind: outcome.Refused, Code: fault.DomainNotFound})
		fx.fake.Fail(fake.Fault{Method: "AddDomain", Kind: outcome.Refused, Code: fault.DomainUnavailable})
		add := func() error { _, err := fx.Add(t.Context(), fx.account, guid, zone, nil); return err }
		requireRefusal(t, add(), fault.ProviderTimeout)
		time.Sleep(observation.ReplicaLag - 2*time.Second) // hideDomain slept for a second after the miss
		requireRefusal(t, add(), fault.ProviderTimeout)
		time.Sleep(time.Second)
		requireRefusal(t, add(), fault.DomainUnavailable)
		requireRefusal(t, add(), fault.DomainUnavailable)
		var otherDomains []domain.Domain
		for n := range domain.MaxPerTenant {
			d, err := fx.store.ReserveDomain(t.Context(), fx.account.ID, guid, fmt.Sprintf("d-%d.test", n), domain.MaxPerTenant, fx.Now())
			must(t, err)
			otherDomains = append(otherDomains, d)
		}
		must(t, fx.store.EndReservation(t.Context(), fx.account.ID, otherDomains[0].ID, otherDomains[0].ReservedAt))
		d, err := fx.store.ReserveDomain(t.Context(), fx.account.ID, guid, zone, domain.MaxPerTenant, fx.Now())
		must(t, err)
		if d.ID != domainBefore.ID || d.Added {
			t.Errorf("the row is %+v, want the same row as before, not added: %+v", d, domainBefore)
		}
		must(t, fx.store.EndReservation(t.Context(), fx.account.ID, d.ID, d.ReservedAt))
		time.Sleep(time.Hour + time.Second) // a sync deletes no row that a request reserved in the last hour
		fx.storeMissAt(t, time.Now())
		if names, _, err := fx.store.KnownNames(t.Context(), fx.account.ID, guid); err != nil || slices.Contains(names, zone) {
			t.Errorf("the stored domains are %v, %v, want no %s", names, err, zone)
		}
	})
}

// TestRefusalAfterALostAnswer checks a refusal of the platform after a lost answer. Add does not
// return the refusal while an earlier request may have added the domain.
func TestRefusalAfterALostAnswer(t *testing.T) {
	failFirstAdd := func(t *testing.T, lostAnswerFault fake.Fault) (fx *fixture, add func() error, endMisses func()) {
		fx = newFixture(t)
		fx.Search = time.Second
		endMisses = fx.fake.Fail(fake.Fault{Method: "Domain", Kind: outcome.Refused, Code: fault.DomainNotFound})
		fx.fake.Fail(lostAnswerFault)
		add = func() error { _, err := fx.Add(t.Context(), fx.account, guid, zone, nil); return err }
		requireRefusal(t, add(), fault.ProviderTimeout)
		return fx, add, endMisses
	}
	lostAnswerFault := fake.Fault{Method: "AddDomain", Kind: outcome.Unknown, Times: 1}
	takenFault := fake.Fault{Method: "AddDomain", Kind: outcome.Refused, Code: fault.DomainUnavailable}
	inFakeTime(t, "the tenant has the domain", func(t *testing.T) {
		lostAnswerFault.AfterEffect = true
		fx, add, endMisses := failFirstAdd(t, lostAnswerFault)
		fx.fake.Fail(takenFault)
		time.Sleep(10 * time.Minute)
		requireRefusal(t, add(), fault.ProviderTimeout)
		endMisses()
		must(t, add())
		if d := fx.storedDomain(t); !d.Added || fx.fake.Effects("AddDomain") != 1 {
			t.Errorf("stored is %+v, and AddDomain took effect %d times; want it added once", d, fx.fake.Effects("AddDomain"))
		}
	})
	inFakeTime(t, "a different tenant has the domain", func(t *testing.T) {
		lostAnswerFault.AfterEffect = false
		fx, add, _ := failFirstAdd(t, lostAnswerFault)
		fx.fake.Fail(takenFault)
		time.Sleep(observation.ReplicaLag - 2*time.Second)
		requireRefusal(t, add(), fault.ProviderTimeout)
		time.Sleep(2 * time.Second)
		requireRefusal(t, add(), fault.DomainUnavailable)
		if names, _, err := fx.store.KnownNames(t.Context(), fx.account.ID, guid); err != nil || len(names) != 0 {
			t.Errorf("the stored domains are %v, %v, want none", names, err)
		}
	})
}
