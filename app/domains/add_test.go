// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func TestAddNewAndAgain(t *testing.T) {
	h := newFixture(t)
	h.fake.DNS.Publish(zone, dns.Record{Type: dns.MX, Name: zone, Content: "mx.other.test", Preference: 10})
	got, err := h.Add(t.Context(), h.acc, guid, "Example.TEST.", nil)
	must(t, err)
	if got.Exists || got.Domain.Name != zone || got.Domain.Verified || len(got.Domain.Verification) != 1 {
		t.Fatalf("got %+v", got)
	}
	want := dns.Status{MX: "mx.other.test.", SPF: dns.Missing, DMARC: dns.Missing, DKIM: dns.Missing}
	if got.Live != want || got.DKIM.Status != domain.DKIMPending || got.DKIM.Message == "" {
		t.Fatalf("live %+v, DKIM %+v", got.Live, got.DKIM)
	}
	stored := h.stored(t)
	if !stored.Added || stored.Status != want || stored.CheckedAt.IsZero() || len(stored.Verification) != 1 {
		t.Fatalf("stored %+v", stored)
	}
	calls := h.fake.Calls("AddDomain")
	again := h.added(t)
	if !again.Exists || again.Domain.ID != stored.ID || h.fake.Calls("AddDomain") != calls || again.Live != want {
		t.Fatalf("again: %+v", again)
	}
	byID, err := h.ByID(t.Context(), h.acc.ID, stored.ID)
	must(t, err)
	list, err := h.List(t.Context(), h.acc.ID, guid)
	must(t, err)
	if byID.Name != zone || len(list) != 1 || list[0].ID != stored.ID {
		t.Fatalf("by id %+v, listed %+v", byID, list)
	}
}

func TestAddOfADomainThatThePlatformHas(t *testing.T) {
	h := newFixture(t)
	_, err := h.fake.For(guid).AddDomain(t.Context(), zone)
	must(t, err)
	got := h.added(t)
	if !got.Exists || len(got.Domain.Verification) == 0 || h.fake.Calls("AddDomain") != 1 {
		t.Fatalf("got %+v", got)
	}
	if !h.stored(t).Added {
		t.Fatal("it is not stored as added")
	}
}

func TestAddRefusesInvalidRequests(t *testing.T) {
	full := func(t *testing.T, h *fixture) {
		for n := range domain.MaxPerTenant {
			_, err := h.Add(t.Context(), h.acc, guid, fmt.Sprintf("full-%d.test", n), nil)
			must(t, err)
		}
	}
	downgraded := func(_ *testing.T, h *fixture) { h.acc.Plan.TenantSlots = 0 }
	for _, tt := range []struct {
		name    string
		domain  string
		arrange []func(*testing.T, *fixture)
		want    fault.Code
	}{
		{"no host name", "nonsense", nil, fault.InvalidDomain},
		{"a public suffix", "co.uk", nil, fault.InvalidDomain},
		{"a built-in name", "x.OnMicrosoft.com", nil, fault.BuiltinDomain},
		{"the thirteenth", zone, []func(*testing.T, *fixture){full}, fault.DomainLimitReached},
		{"more tenants than the plan allows", zone, []func(*testing.T, *fixture){downgraded}, fault.TenantLimitReached},
		{"the rules before the ceiling", "nonsense", []func(*testing.T, *fixture){downgraded}, fault.InvalidDomain},
		{"the cap before the ceiling", zone, []func(*testing.T, *fixture){full, downgraded}, fault.DomainLimitReached},
		{"the ceiling also for what exists", "full-3.test", []func(*testing.T, *fixture){full, downgraded}, fault.TenantLimitReached},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFixture(t)
			for _, arrange := range tt.arrange {
				arrange(t, h)
			}
			calls := h.fake.Calls("AddDomain")
			_, err := h.Add(t.Context(), h.acc, guid, tt.domain, nil)
			refused(t, err, tt.want)
			if h.fake.Calls("AddDomain") != calls {
				t.Fatal("a refused domain reached the platform")
			}
		})
	}
}

func TestAddReturnsAnExistingDomainAtTheLimit(t *testing.T) {
	h := newFixture(t)
	for n := range domain.MaxPerTenant {
		_, err := h.Add(t.Context(), h.acc, guid, fmt.Sprintf("full-%d.test", n), nil)
		must(t, err)
	}
	got, err := h.Add(t.Context(), h.acc, guid, "full-7.test", nil)
	must(t, err)
	if !got.Exists {
		t.Fatalf("got %+v", got)
	}
}

func TestOthersDomainsAreNotFound(t *testing.T) {
	h := newFixture(t)
	id := h.added(t).Domain.ID
	otherAccount, err := h.store.CreateAccount(t.Context(), "other@example.com", "complete", 0, h.Now())
	must(t, err)
	for name, foreign := range map[string]tenant.GUID{"another account's": guid, "unknown": tenant.NoGUID} {
		t.Run(name, func(t *testing.T) {
			calls := map[string]func() error{
				"list":        func() error { _, err := h.List(t.Context(), otherAccount.ID, foreign); return err },
				"add":         func() error { _, err := h.Add(t.Context(), otherAccount, foreign, "nonsense", nil); return err },
				"verify":      func() error { _, err := h.Verify(t.Context(), otherAccount.ID, foreign, zone); return err },
				"enable dkim": func() error { _, err := h.EnableDKIM(t.Context(), otherAccount.ID, foreign, zone); return err },
				"dkim status": func() error { _, err := h.DKIMStatus(t.Context(), otherAccount.ID, foreign, zone); return err },
				"stored":      func() error { _, err := h.StoredDomain(t.Context(), otherAccount.ID, foreign, zone); return err },
			}
			for what, call := range calls {
				if err := call(); !errors.Is(err, fault.TenantNotFound) {
					t.Errorf("%s: got %v", what, err)
				}
			}
		})
	}
	_, err = h.ByID(t.Context(), otherAccount.ID, id)
	refused(t, err, fault.DomainNotFound)
	for _, name := range []string{"other.test", "nonsense", ""} {
		_, err = h.StoredDomain(t.Context(), h.acc.ID, guid, name)
		refused(t, err, fault.DomainNotFound)
		_, err = h.Verify(t.Context(), h.acc.ID, guid, name)
		refused(t, err, fault.DomainNotFound)
	}
}

// TestFailedAddKeepsTheRowOfAPossibleDomain checks that the reserved row is kept exactly when the
// platform may have the domain.
func TestFailedAddKeepsTheRowOfAPossibleDomain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault fake.Fault
		want  fault.Code // the zero Code: none
		kept  bool
	}{
		{"the domain belongs to another tenant", fake.Fault{Method: "AddDomain", Kind: outcome.Refused, Code: fault.DomainUnavailable}, fault.DomainUnavailable, false},
		{"the platform refuses the request", fake.Fault{Method: "AddDomain", Kind: outcome.Refused, Code: fault.ProviderError}, fault.ProviderError, false},
		{"a look is refused", fake.Fault{Method: "Domain", Kind: outcome.Refused, Code: fault.ProviderError}, fault.ProviderError, false},
		{"records are refused", fake.Fault{Method: "Records", Kind: outcome.Refused, Code: fault.ProviderError}, fault.ProviderError, true},
		{"the answer is lost", fake.Fault{Method: "AddDomain", Kind: outcome.Unknown, AfterEffect: true}, fault.Code{}, true},
		{"the answer is broken", fake.Fault{Method: "AddDomain", Kind: outcome.Broken, AfterEffect: true}, fault.Code{}, true},
		{"the request is lost", fake.Fault{Method: "AddDomain", Kind: outcome.Unknown}, fault.ProviderTimeout, true},
		{"the platform breaks", fake.Fault{Method: "AddDomain", Kind: outcome.Broken}, fault.ProviderError, true},
		{"adding is throttled", fake.Fault{Method: "AddDomain", Kind: outcome.Throttled}, fault.ProviderUnavailable, false},
		{"the platform is down", fake.Fault{Kind: outcome.Down}, fault.ProviderUnavailable, false},
		{"records lag", fake.Fault{Method: "Records", Kind: outcome.Refused, Code: fault.DomainNotFound, Times: 3}, fault.Code{}, true},
		{"records are throttled", fake.Fault{Method: "Records", Kind: outcome.Throttled}, fault.ProviderUnavailable, true},
		{"consent is gone", fake.Fault{Kind: outcome.Refused, Code: fault.AccessDenied}, fault.AccessDenied, false},
	} {
		inFakeTime(t, tt.name, func(t *testing.T) {
			h := newFixture(t)
			h.Search = time.Second
			lift := h.fake.Fail(tt.fault)
			_, err := h.Add(t.Context(), h.acc, guid, zone, nil)
			if tt.want == (fault.Code{}) {
				must(t, err)
			} else {
				refused(t, err, tt.want)
			}
			lift()
			h.changeTenant(t, func(x *tenant.Tenant) { x.Consent = tenant.ConsentGranted })
			d, err := h.store.ReserveDomain(t.Context(), h.acc.ID, guid, zone, domain.MaxPerTenant, time.Now())
			must(t, err)
			if d.JustReserved == tt.kept {
				t.Fatalf("the slot was kept: %v, want %v", !d.JustReserved, tt.kept)
			}
			got := h.added(t)
			if got.Exists != (tt.want == (fault.Code{})) {
				t.Fatalf("afterwards it is answered as existing: %v", got.Exists)
			}
			if n := h.fake.Effects("AddDomain"); n != 1 {
				t.Fatalf("added %d times", n)
			}
		})
	}
}

// storedDomains is an alias under which a type can embed ports.Domains. A field with the name
// Domains would hide the method Domains.
type storedDomains = ports.Domains

// contestedDomains is a store in which a later request reserves each domain again, right after the
// first request has reserved it.
type contestedDomains struct {
	storedDomains
	// later is called with the reservation of the later request.
	later func(domain.Domain)
}

func (s *contestedDomains) ReserveDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string, limit int, now time.Time) (domain.Domain, error) {
	d, err := s.storedDomains.ReserveDomain(ctx, owner, id, name, limit, now)
	if later := s.later; later != nil && err == nil {
		s.later = nil
		reserved, err := s.storedDomains.ReserveDomain(ctx, owner, id, name, limit, now)
		if err != nil {
			return d, err
		}
		later(reserved)
	}
	return d, err
}

// TestFailedAddLeavesALaterReservation checks that a failing request does not delete the row if a
// later request for the same domain is still running.
func TestFailedAddLeavesALaterReservation(t *testing.T) {
	h := newFixture(t)
	h.fake.Fail(fake.Fault{Method: "AddDomain", Kind: outcome.Throttled, Times: 1})
	var later domain.Domain
	s := h.service(h.fake, &contestedDomains{h.store, func(d domain.Domain) { later = d }})
	_, err := s.Add(t.Context(), h.acc, guid, zone, nil)
	refused(t, err, fault.ProviderUnavailable)
	later.Added = true
	must(t, h.store.SaveDomain(t.Context(), h.acc.ID, later, nil))
}

// TestAddSurvivesTheReleaseOfALaterRequest checks that an added domain is stored even if a later
// request for the same domain was refused and released the row.
func TestAddSurvivesTheReleaseOfALaterRequest(t *testing.T) {
	h := newFixture(t)
	s := h.service(h.fake, &contestedDomains{h.store, func(later domain.Domain) {
		must(t, h.store.EndReservation(t.Context(), h.acc.ID, later.ID, later.ReservedAt))
	}})
	got, err := s.Add(t.Context(), h.acc, guid, zone, nil)
	must(t, err)
	if stored := h.stored(t); got.Exists || stored.ID != got.Domain.ID || len(stored.Verification) != 1 {
		t.Fatalf("got %+v, stored %+v", got, stored)
	}
}

// TestAddFindsWhatThePlatformShowsLate checks that Add waits for lagging replicas of the platform
// after an unknown outcome.
func TestAddFindsWhatThePlatformShowsLate(t *testing.T) {
	h := newFixture(t)
	h.fake.Fail(fake.Fault{Method: "AddDomain", Kind: outcome.Unknown, AfterEffect: true, Times: 1})
	h.fake.Fail(fake.Fault{Method: "Domain", Kind: outcome.Refused, Code: fault.DomainNotFound, Times: 4})
	got := h.added(t)
	if got.Exists || len(got.Domain.Verification) == 0 || h.fake.Effects("AddDomain") != 1 || h.fake.Calls("AddDomain") != 1 {
		t.Fatalf("got %+v", got)
	}
}

func TestConsentGoneIsStored(t *testing.T) {
	h := newFixture(t)
	h.fake.Revoke(guid, "consent")
	_, err := h.Add(t.Context(), h.acc, guid, zone, nil)
	refused(t, err, fault.AccessDenied)
	if got := h.tenant(t).Consent; got != tenant.ConsentRevoked {
		t.Fatalf("the consent is stored as %s", got)
	}
}

// TestAfterTheConsentWasLost checks that no call reaches the platform once the stored consent is
// revoked. The error names the consent, not the state of the tenant or the domain.
func TestAfterTheConsentWasLost(t *testing.T) {
	h := newFixture(t)
	h.added(t)
	h.changeTenant(t, func(x *tenant.Tenant) { x.Consent, x.Bootstrap = tenant.ConsentRevoked, tenant.BootstrapPending })
	h.fake.Fail(fake.Fault{Kind: outcome.Down})
	h.acc.Plan.TenantSlots = 0
	add := func(name string) error { _, err := h.Add(t.Context(), h.acc, guid, name, nil); return err }
	verify := func(name string) error { _, err := h.Verify(t.Context(), h.acc.ID, guid, name); return err }
	enable := func(name string) error { _, err := h.EnableDKIM(t.Context(), h.acc.ID, guid, name); return err }
	status := func(name string) error { _, err := h.DKIMStatus(t.Context(), h.acc.ID, guid, name); return err }
	for _, tt := range []struct {
		name string
		err  error
		want fault.Code
	}{
		{"add", add("new.test"), fault.AccessDenied},
		{"add what is stored", add(zone), fault.AccessDenied},
		{"add: the body comes before", add("nonsense"), fault.InvalidDomain},
		{"verify", verify(zone), fault.AccessDenied},
		{"verify: ownership comes before", verify("other.test"), fault.DomainNotFound},
		{"enable dkim", enable(zone), fault.AccessDenied},
	} {
		t.Run(tt.name, func(t *testing.T) { refused(t, tt.err, tt.want) })
	}
	must(t, status(zone)) // it reads the DNS alone
}

func TestDKIMStatusWithoutConsent(t *testing.T) {
	h := newFixture(t)
	d := h.verified(t)
	h.changeTenant(t, func(x *tenant.Tenant) { x.Consent = tenant.ConsentRevoked })
	_, err := h.DKIMStatus(t.Context(), h.acc.ID, guid, zone)
	must(t, err)
	d.Signing = dns.Signing{}
	must(t, h.store.SaveDomain(t.Context(), h.acc.ID, d, nil))
	calls := h.fake.Calls("Signing")
	_, err = h.DKIMStatus(t.Context(), h.acc.ID, guid, zone)
	refused(t, err, fault.AccessDenied)
	if h.fake.Calls("Signing") != calls {
		t.Fatal("the platform was called")
	}
}

func TestTheLimitHoldsUnderManyRequests(t *testing.T) {
	h := newFixture(t)
	const many = 50
	errs := make([]error, many)
	var all sync.WaitGroup
	for n := range many {
		all.Go(func() { _, errs[n] = h.Add(t.Context(), h.acc, guid, fmt.Sprintf("d-%d.test", n), nil) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, fault.DomainLimitReached) {
			t.Fatal(err)
		}
	}
	list, err := h.List(t.Context(), h.acc.ID, guid)
	must(t, err)
	if held := len(h.fake.SnapshotOf(guid).Domains); held != domain.MaxPerTenant || len(list) != held {
		t.Fatalf("the platform has %d, the store %d", held, len(list))
	}
}

func TestTheSameDomainManyTimesAtOnce(t *testing.T) {
	h := newFixture(t)
	errs := make([]error, 50)
	var all sync.WaitGroup
	for n := range errs {
		all.Go(func() { _, errs[n] = h.Add(t.Context(), h.acc, guid, zone, nil) })
	}
	all.Wait()
	must(t, errors.Join(errs...))
	list, err := h.List(t.Context(), h.acc.ID, guid)
	must(t, err)
	if len(list) != 1 || h.fake.Effects("AddDomain") != 1 {
		t.Fatalf("listed %d, added %d times", len(list), h.fake.Effects("AddDomain"))
	}
}
