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

// hide stores a discovery that misses the domain, because the platform's replicas lag.
func (h *fixture) hide(t *testing.T) {
	t.Helper()
	time.Sleep(time.Minute)
	now := h.Now()
	must(t, h.store.SaveDiscovery(t.Context(), h.acc.ID, guid, ports.Found{
		Began: now, At: now, Domains: []domain.Platform{}, MissedDomains: map[string]bool{zone: true},
	}))
	if left, err := h.List(t.Context(), h.acc.ID, guid); err != nil || len(left) != 0 {
		t.Fatalf("listed are %+v, %v", left, err)
	}
	time.Sleep(time.Second)
}

// TestAddKeepsADomainThatReplicasDoNotShow adds a verified domain that a discovery missed. The row
// must stay unchanged, whichever reads of the platform miss the domain, and even if the platform
// refuses to add a domain that it has.
func TestAddKeepsADomainThatReplicasDoNotShow(t *testing.T) {
	taken := fake.Fault{Method: "AddDomain", Kind: outcome.Refused, Code: fault.DomainUnavailable}
	hidden := func(method string, times int) fake.Fault {
		return fake.Fault{Method: method, Kind: outcome.Refused, Code: fault.DomainNotFound, Times: times}
	}
	for _, tt := range []struct {
		name   string
		faults []fake.Fault
		want   fault.Code // the zero Code: none
	}{
		{"all reads find it", nil, fault.Code{}},
		{"the first read misses it", []fake.Fault{hidden("Domain", 1)}, fault.Code{}},
		{"the first reads of its records miss it", []fake.Fault{hidden("Domain", 1), hidden("Records", 3)}, fault.Code{}},
		{"all reads miss it", []fake.Fault{hidden("Domain", 0), taken}, fault.ProviderTimeout},
		{"an add has no answer, and all reads miss it", []fake.Fault{hidden("Domain", 0), {Method: "AddDomain", Kind: outcome.Unknown}}, fault.ProviderTimeout},
	} {
		inFakeTime(t, tt.name, func(t *testing.T) {
			h := newFixture(t)
			h.Search = time.Second
			before := h.verified(t)
			h.hide(t)
			var lift []func()
			for _, f := range tt.faults {
				lift = append(lift, h.fake.Fail(f))
			}
			got, err := h.Add(t.Context(), h.acc, guid, zone, nil)
			if tt.want != (fault.Code{}) {
				refused(t, err, tt.want)
				for _, f := range lift {
					f()
				}
				got, err = h.Add(t.Context(), h.acc, guid, zone, nil)
			}
			must(t, err)
			if after := h.stored(t); !got.Exists || after.ID != before.ID || !after.Verified || !after.MailReady {
				t.Errorf("exists: %v, stored is %+v, before %+v", got.Exists, after, before)
			}
			_, err = h.Verify(t.Context(), h.acc.ID, guid, zone)
			must(t, err)
			h.publish(h.stored(t), before.Signing.Selector1, before.Signing.Selector2)
			d, err := h.EnableDKIM(t.Context(), h.acc.ID, guid, zone)
			must(t, err)
			if !d.DKIMEnabled {
				t.Errorf("the domain is not signed: %+v", d)
			}
			for _, write := range []string{"AddDomain", "VerifyDomain", "EnableMail", "EnsureSigning", "EnableSigning"} {
				if n := h.fake.Effects(write); n != 1 {
					t.Errorf("%s took effect %d times", write, n)
				}
			}
		})
	}
}

// TestRefusalOfAHiddenDomainBecomesFinal checks that the platform's refusal counts once the
// replicas had time to show the domain since the first miss. The domain is then missing as before:
// it does not count towards the tenant's limit, and only a sync deletes its row.
func TestRefusalOfAHiddenDomainBecomesFinal(t *testing.T) {
	inFakeTime(t, "a different tenant has the domain", func(t *testing.T) {
		h := newFixture(t)
		before := h.verified(t)
		h.hide(t)
		h.fake.Fail(fake.Fault{Method: "Domain", Kind: outcome.Refused, Code: fault.DomainNotFound})
		h.fake.Fail(fake.Fault{Method: "AddDomain", Kind: outcome.Refused, Code: fault.DomainUnavailable})
		add := func() error { _, err := h.Add(t.Context(), h.acc, guid, zone, nil); return err }
		refused(t, add(), fault.ProviderTimeout)
		time.Sleep(observation.ReplicaLag - 2*time.Second) // hide takes a second
		refused(t, add(), fault.ProviderTimeout)
		time.Sleep(time.Second)
		refused(t, add(), fault.DomainUnavailable)
		refused(t, add(), fault.DomainUnavailable)
		var others []domain.Domain
		for n := range domain.MaxPerTenant {
			d, err := h.store.ReserveDomain(t.Context(), h.acc.ID, guid, fmt.Sprintf("d-%d.test", n), domain.MaxPerTenant, h.Now())
			must(t, err)
			others = append(others, d)
		}
		must(t, h.store.EndReservation(t.Context(), h.acc.ID, others[0].ID, others[0].ReservedAt))
		d, err := h.store.ReserveDomain(t.Context(), h.acc.ID, guid, zone, domain.MaxPerTenant, h.Now())
		must(t, err)
		if d.ID != before.ID || d.Added {
			t.Errorf("the row is %+v, before %+v", d, before)
		}
		must(t, h.store.EndReservation(t.Context(), h.acc.ID, d.ID, d.ReservedAt))
		time.Sleep(time.Hour + time.Second) // a sync deletes no row that a request reserved in the last hour
		h.miss(t, time.Now())
		if names, _, err := h.store.KnownNames(t.Context(), h.acc.ID, guid); err != nil || slices.Contains(names, zone) {
			t.Errorf("known are %v, %v", names, err)
		}
	})
}

// TestRefusalAfterALostAnswer checks that the platform's refusal does not count while it may refuse
// the domain because an earlier request has added it.
func TestRefusalAfterALostAnswer(t *testing.T) {
	start := func(t *testing.T, lost fake.Fault) (h *fixture, add func() error, show func()) {
		h = newFixture(t)
		h.Search = time.Second
		show = h.fake.Fail(fake.Fault{Method: "Domain", Kind: outcome.Refused, Code: fault.DomainNotFound})
		h.fake.Fail(lost)
		add = func() error { _, err := h.Add(t.Context(), h.acc, guid, zone, nil); return err }
		refused(t, add(), fault.ProviderTimeout)
		return h, add, show
	}
	lost := fake.Fault{Method: "AddDomain", Kind: outcome.Unknown, Times: 1}
	taken := fake.Fault{Method: "AddDomain", Kind: outcome.Refused, Code: fault.DomainUnavailable}
	inFakeTime(t, "the tenant has it", func(t *testing.T) {
		lost.AfterEffect = true
		h, add, show := start(t, lost)
		h.fake.Fail(taken)
		time.Sleep(10 * time.Minute)
		refused(t, add(), fault.ProviderTimeout)
		show()
		must(t, add())
		if d := h.stored(t); !d.Added || h.fake.Effects("AddDomain") != 1 {
			t.Errorf("stored is %+v, added %d times", d, h.fake.Effects("AddDomain"))
		}
	})
	inFakeTime(t, "a different tenant has it", func(t *testing.T) {
		lost.AfterEffect = false
		h, add, _ := start(t, lost)
		h.fake.Fail(taken)
		time.Sleep(observation.ReplicaLag - 2*time.Second)
		refused(t, add(), fault.ProviderTimeout)
		time.Sleep(2 * time.Second)
		refused(t, add(), fault.DomainUnavailable)
		if names, _, err := h.store.KnownNames(t.Context(), h.acc.ID, guid); err != nil || len(names) != 0 {
			t.Errorf("known are %v, %v", names, err)
		}
	})
}
