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

func TestRepeatedAddReturnsTheSameDomain(t *testing.T) {
	fx := newFixture(t)
	fx.fake.DNS.Publish(zone, dns.Record{Type: dns.MX, Name: zone, Content: "mx.other.test", Preference: 10})
	created, err := fx.Add(t.Context(), fx.account, guid, "Example.TEST.", nil)
	must(t, err)
	if created.Exists || created.Domain.Name != zone || created.Domain.Verified || len(created.Domain.Verification) != 1 {
		t.Fatalf("the first Add returns %+v, want a new unverified domain with one verification record", created)
	}
	want := dns.Status{MX: "mx.other.test.", SPF: dns.Missing, DMARC: dns.Missing, DKIM: dns.Missing}
	if created.Live != want || created.DKIM.Status != domain.DKIMPending || created.DKIM.Message == "" {
		t.Fatalf("the first Add returns the status %+v, want %+v; and the DKIM state %+v, want pending with a message", created.Live, want, created.DKIM)
	}
	stored := fx.storedDomain(t)
	if !stored.Added || stored.Status != want || stored.CheckedAt.IsZero() || len(stored.Verification) != 1 {
		t.Fatalf("the new domain is stored as %+v, want it added, with the status %+v", stored, want)
	}
	calls := fx.fake.Calls("AddDomain")
	repeated := fx.addDomain(t)
	if !repeated.Exists || repeated.Domain.ID != stored.ID || fx.fake.Calls("AddDomain") != calls || repeated.Live != want {
		t.Fatalf("the repeated Add returns %+v, want the existing domain without a call of AddDomain", repeated)
	}
	byID, err := fx.ByID(t.Context(), fx.account.ID, stored.ID)
	must(t, err)
	list, err := fx.List(t.Context(), fx.account.ID, guid)
	must(t, err)
	if byID.Name != zone || len(list) != 1 || list[0].ID != stored.ID {
		t.Fatalf("ByID returns %+v and List %+v, want only the added domain", byID, list)
	}
}

func TestAddStoresADomainThatThePlatformHas(t *testing.T) {
	fx := newFixture(t)
	_, err := fx.fake.For(guid).AddDomain(t.Context(), zone)
	must(t, err)
	got := fx.addDomain(t)
	if !got.Exists || len(got.Domain.Verification) == 0 || fx.fake.Calls("AddDomain") != 1 {
		t.Fatalf("got %+v, want an existing domain with its records", got)
	}
	if !fx.storedDomain(t).Added {
		t.Fatal("the domain is not stored as added")
	}
}

func TestAddRefusesInvalidNamesAndExceededLimits(t *testing.T) {
	addTwelveDomains := func(t *testing.T, fx *fixture) {
		for n := range domain.MaxPerTenant {
			_, err := fx.Add(t.Context(), fx.account, guid, fmt.Sprintf("full-%d.test", n), nil)
			must(t, err)
		}
	}
	downgradePlan := func(_ *testing.T, fx *fixture) { fx.account.Plan.TenantSlots = 0 }
	for _, tc := range []struct {
		name    string
		domain  string
		arrange []func(*testing.T, *fixture)
		want    fault.Code
	}{
		{"no host name", "nonsense", nil, fault.InvalidDomain},
		{"a public suffix", "co.uk", nil, fault.InvalidDomain},
		{"a built-in name", "x.OnMicrosoft.com", nil, fault.BuiltinDomain},
		{"the thirteenth domain", zone, []func(*testing.T, *fixture){addTwelveDomains}, fault.DomainLimitReached},
		{"more tenants than the plan allows", zone, []func(*testing.T, *fixture){downgradePlan}, fault.TenantLimitReached},
		{"an invalid name is refused before the limit of the plan", "nonsense", []func(*testing.T, *fixture){downgradePlan}, fault.InvalidDomain},
		{"the limit of the tenant is checked before the limit of the plan", zone, []func(*testing.T, *fixture){addTwelveDomains, downgradePlan}, fault.DomainLimitReached},
		{"the limit of the plan applies to existing domains too", "full-3.test", []func(*testing.T, *fixture){addTwelveDomains, downgradePlan}, fault.TenantLimitReached},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newFixture(t)
			for _, arrange := range tc.arrange {
				arrange(t, fx)
			}
			calls := fx.fake.Calls("AddDomain")
			_, err := fx.Add(t.Context(), fx.account, guid, tc.domain, nil)
			requireRefusal(t, err, tc.want)
			if fx.fake.Calls("AddDomain") != calls {
				t.Fatal("AddDomain was called for a refused domain")
			}
		})
	}
}

func TestAddReturnsAnExistingDomainAtTheLimit(t *testing.T) {
	fx := newFixture(t)
	for n := range domain.MaxPerTenant {
		_, err := fx.Add(t.Context(), fx.account, guid, fmt.Sprintf("full-%d.test", n), nil)
		must(t, err)
	}
	got, err := fx.Add(t.Context(), fx.account, guid, "full-7.test", nil)
	must(t, err)
	if !got.Exists {
		t.Fatalf("got %+v, want an existing domain", got)
	}
}

func TestDomainsOfOtherAccountsAreNotFound(t *testing.T) {
	fx := newFixture(t)
	id := fx.addDomain(t).Domain.ID
	otherAccount, err := fx.store.CreateAccount(t.Context(), "other@example.com", "complete", 0, fx.Now())
	must(t, err)
	for name, foreign := range map[string]tenant.GUID{"a tenant of another account": guid, "an unknown tenant": tenant.NoGUID} {
		t.Run(name, func(t *testing.T) {
			calls := map[string]func() error{
				"list":        func() error { _, err := fx.List(t.Context(), otherAccount.ID, foreign); return err },
				"add":         func() error { _, err := fx.Add(t.Context(), otherAccount, foreign, "nonsense", nil); return err },
				"verify":      func() error { _, err := fx.Verify(t.Context(), otherAccount.ID, foreign, zone); return err },
				"enable dkim": func() error { _, err := fx.EnableDKIM(t.Context(), otherAccount.ID, foreign, zone); return err },
				"dkim status": func() error { _, err := fx.DKIMStatus(t.Context(), otherAccount.ID, foreign, zone); return err },
				"stored":      func() error { _, err := fx.StoredDomain(t.Context(), otherAccount.ID, foreign, zone); return err },
			}
			for operation, call := range calls {
				if err := call(); !errors.Is(err, fault.TenantNotFound) {
					t.Errorf("%s: got %v, want tenant_not_found", operation, err)
				}
			}
		})
	}
	_, err = fx.ByID(t.Context(), otherAccount.ID, id)
	requireRefusal(t, err, fault.DomainNotFound)
	for _, name := range []string{"other.test", "nonsense", ""} {
		_, err = fx.StoredDomain(t.Context(), fx.account.ID, guid, name)
		requireRefusal(t, err, fault.DomainNotFound)
		_, err = fx.Verify(t.Context(), fx.account.ID, guid, name)
		requireRefusal(t, err, fault.DomainNotFound)
	}
}

// TestFailedAddKeepsTheRowOfAPossibleDomain checks what a fault of the platform does to the
// reserved row. A failed Add keeps the row if the platform may have the domain, and deletes it
// otherwise.
func TestFailedAddKeepsTheRowOfAPossibleDomain(t *testing.T) {
	for _, tc := range []struct {
		name     string
		fault    fake.Fault
		want     fault.Code // the zero Code if Add succeeds
		wantKept bool
	}{
		{"the domain belongs to another tenant", fake.Fault{Method: "AddDomain", Kind: outcome.Refused, Code: fault.DomainUnavailable}, fault.DomainUnavailable, false},
		{"the platform refuses the request", fake.Fault{Method: "AddDomain", Kind: outcome.Refused, Code: fault.ProviderError}, fault.ProviderError, false},
		{"a read is refused", fake.Fault{Method: "Domain", Kind: outcome.Refused, Code: fault.ProviderError}, fault.ProviderError, false},
		{"the read of the records is refused", fake.Fault{Method: "Records", Kind: outcome.Refused, Code: fault.ProviderError}, fault.ProviderError, true},
		{"the answer is lost", fake.Fault{Method: "AddDomain", Kind: outcome.Unknown, AfterEffect: true}, fault.Code{}, true},
		{"the answer is broken, and the domain was added", fake.Fault{Method: "AddDomain", Kind: outcome.Broken, AfterEffect: true}, fault.Code{}, true},
		{"the request is lost", fake.Fault{Method: "AddDomain", Kind: outcome.Unknown}, fault.ProviderTimeout, true},
		{"the answer is broken, and the domain was not added", fake.Fault{Method: "AddDomain", Kind: outcome.Broken}, fault.ProviderError, true},
		{"adding is throttled", fake.Fault{Method: "AddDomain", Kind: outcome.Throttled}, fault.ProviderUnavailable, false},
		{"the platform is down", fake.Fault{Kind: outcome.Down}, fault.ProviderUnavailable, false},
		{"replicas do not show the records yet", fake.Fault{Method: "Records", Kind: outcome.Refused, Code: fault.DomainNotFound, Times: 3}, fault.Code{}, true},
		{"the read of the records is throttled", fake.Fault{Method: "Records", Kind: outcome.Throttled}, fault.ProviderUnavailable, true},
		{"the consent was withdrawn", fake.Fault{Kind: outcome.Refused, Code: fault.AccessDenied}, fault.AccessDenied, false},
	} {
		inFakeTime(t, tc.name, func(t *testing.T) {
			fx := newFixture(t)
			fx.Search = time.Second
			endFault := fx.fake.Fail(tc.fault)
			_, err := fx.Add(t.Context(), fx.account, guid, zone, nil)
			if tc.want == (fault.Code{}) {
				must(t, err)
			} else {
				requireRefusal(t, err, tc.want)
			}
			endFault()
			fx.changeTenant(t, func(x *tenant.Tenant) { x.Consent = tenant.ConsentGranted })
			d, err := fx.store.ReserveDomain(t.Context(), fx.account.ID, guid, zone, domain.MaxPerTenant, time.Now())
			must(t, err)
			if d.JustReserved == tc.wantKept {
				t.Fatalf("the row was kept: %v, want %v", !d.JustReserved, tc.wantKept)
			}
			got := fx.addDomain(t)
			if wantExists := tc.want == (fault.Code{}); got.Exists != wantExists {
				t.Fatalf("a later Add reports the domain as existing: %v, want %v", got.Exists, wantExists)
			}
			if n := fx.fake.Effects("AddDomain"); n != 1 {
				t.Fatalf("AddDomain took effect %d times, want once", n)
			}
		})
	}
}

// domainStore is an alias under which a type can embed ports.Domains. A field with the name
// Domains would hide the method Domains.
type domainStore = ports.Domains

// contestedDomains is a store in which a later request reserves a domain again, right after the
// first request has reserved the domain. This happens only for the first reservation.
type contestedDomains struct {
	domainStore
	// onReservation is called with the reservation of the later request.
	onReservation func(domain.Domain)
}

func (s *contestedDomains) ReserveDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string, limit int, now time.Time) (domain.Domain, error) {
	d, err := s.domainStore.ReserveDomain(ctx, owner, id, name, limit, now)
	if onReservation := s.onReservation; onReservation != nil && err == nil {
		s.onReservation = nil
		reserved, err := s.domainStore.ReserveDomain(ctx, owner, id, name, limit, now)
		if err != nil {
			return d, err
		}
		onReservation(reserved)
	}
	return d, err
}

// TestFailedAddLeavesALaterReservation checks that a failing request does not delete the row if a
// later request for the same domain is still running.
func TestFailedAddLeavesALaterReservation(t *testing.T) {
	fx := newFixture(t)
	fx.fake.Fail(fake.Fault{Method: "AddDomain", Kind: outcome.Throttled, Times: 1})
	var laterDomain domain.Domain
	s := fx.service(fx.fake, &contestedDomains{fx.store, func(d domain.Domain) { laterDomain = d }})
	_, err := s.Add(t.Context(), fx.account, guid, zone, nil)
	requireRefusal(t, err, fault.ProviderUnavailable)
	laterDomain.Added = true
	must(t, fx.store.SaveDomain(t.Context(), fx.account.ID, laterDomain, nil))
}

// TestAddSurvivesTheReleaseOfALaterRequest checks that an added domain is stored even if a later
// request for the same domain was refused and released the row.
func TestAddSurvivesTheReleaseOfALaterRequest(t *testing.T) {
	fx := newFixture(t)
	s := fx.service(fx.fake, &contestedDomains{fx.store, func(later domain.Domain) {
		must(t, fx.store.EndReservation(t.Context(), fx.account.ID, later.ID, later.ReservedAt))
	}})
	got, err := s.Add(t.Context(), fx.account, guid, zone, nil)
	must(t, err)
	if stored := fx.storedDomain(t); got.Exists || stored.ID != got.Domain.ID || len(stored.Verification) != 1 {
		t.Fatalf("Add returns %+v, and stored is %+v, want the same new domain", got, stored)
	}
}

// TestAddFindsADomainThatThePlatformShowsLate checks that Add finds the domain after an unknown
// outcome, even if lagging replicas of the platform do not show the domain at first.
func TestAddFindsADomainThatThePlatformShowsLate(t *testing.T) {
	fx := newFixture(t)
	fx.fake.Fail(fake.Fault{Method: "AddDomain", Kind: outcome.Unknown, AfterEffect: true, Times: 1})
	fx.fake.Fail(fake.Fault{Method: "Domain", Kind: outcome.Refused, Code: fault.DomainNotFound, Times: 4})
	got := fx.addDomain(t)
	if got.Exists || len(got.Domain.Verification) == 0 || fx.fake.Effects("AddDomain") != 1 || fx.fake.Calls("AddDomain") != 1 {
		t.Fatalf("got %+v, want a new domain that was added once", got)
	}
}

func TestAddStoresALostConsent(t *testing.T) {
	fx := newFixture(t)
	fx.fake.Revoke(guid, "consent")
	_, err := fx.Add(t.Context(), fx.account, guid, zone, nil)
	requireRefusal(t, err, fault.AccessDenied)
	if got := fx.storedTenant(t).Consent; got != tenant.ConsentRevoked {
		t.Fatalf("the consent is stored as %s, want revoked", got)
	}
}

// TestRequestsAreRefusedAfterTheConsentWasLost checks which errors requests get once the stored
// consent is revoked. The platform is down, so a request that called the platform would get a
// different error.
func TestRequestsAreRefusedAfterTheConsentWasLost(t *testing.T) {
	fx := newFixture(t)
	fx.addDomain(t)
	fx.changeTenant(t, func(x *tenant.Tenant) { x.Consent, x.Bootstrap = tenant.ConsentRevoked, tenant.BootstrapPending })
	fx.fake.Fail(fake.Fault{Kind: outcome.Down})
	fx.account.Plan.TenantSlots = 0
	add := func(name string) error { _, err := fx.Add(t.Context(), fx.account, guid, name, nil); return err }
	verify := func(name string) error { _, err := fx.Verify(t.Context(), fx.account.ID, guid, name); return err }
	enable := func(name string) error { _, err := fx.EnableDKIM(t.Context(), fx.account.ID, guid, name); return err }
	status := func(name string) error { _, err := fx.DKIMStatus(t.Context(), fx.account.ID, guid, name); return err }
	for _, tc := range []struct {
		name string
		err  error
		want fault.Code
	}{
		{"add", add("new.test"), fault.AccessDenied},
		{"add a stored domain", add(zone), fault.AccessDenied},
		{"add an invalid name", add("nonsense"), fault.InvalidDomain},
		{"verify", verify(zone), fault.AccessDenied},
		{"verify an unknown domain", verify("other.test"), fault.DomainNotFound},
		{"enable dkim", enable(zone), fault.AccessDenied},
	} {
		t.Run(tc.name, func(t *testing.T) { requireRefusal(t, tc.err, tc.want) })
	}
	must(t, status(zone)) // for an unverified domain, DKIMStatus reads only the DNS
}

func TestDKIMStatusNeedsConsentOnlyToReadTargets(t *testing.T) {
	fx := newFixture(t)
	d := fx.addAndVerify(t)
	fx.changeTenant(t, func(x *tenant.Tenant) { x.Consent = tenant.ConsentRevoked })
	_, err := fx.DKIMStatus(t.Context(), fx.account.ID, guid, zone)
	must(t, err)
	d.Signing = dns.Signing{}
	must(t, fx.store.SaveDomain(t.Context(), fx.account.ID, d, nil))
	calls := fx.fake.Calls("Signing")
	_, err = fx.DKIMStatus(t.Context(), fx.account.ID, guid, zone)
	requireRefusal(t, err, fault.AccessDenied)
	if fx.fake.Calls("Signing") != calls {
		t.Fatal("Signing was called, although the consent is revoked")
	}
}

// addWhileBusy adds a domain. It repeats a request that the busy store refused.
func (fx *fixture) addWhileBusy(t *testing.T, name string) error {
	_, err := fx.Add(t.Context(), fx.account, guid, name, nil)
	for errors.Is(err, fault.ServiceUnavailable) {
		_, err = fx.Add(t.Context(), fx.account, guid, name, nil)
	}
	return err
}

func TestTheDomainLimitHoldsUnderManyConcurrentRequests(t *testing.T) {
	fx := newFixture(t)
	const requestCount = 50
	errs := make([]error, requestCount)
	var requests sync.WaitGroup
	for n := range requestCount {
		requests.Go(func() { errs[n] = fx.addWhileBusy(t, fmt.Sprintf("d-%d.test", n)) })
	}
	requests.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, fault.DomainLimitReached) {
			t.Fatal(err)
		}
	}
	list, err := fx.List(t.Context(), fx.account.ID, guid)
	must(t, err)
	if atPlatform := len(fx.fake.SnapshotOf(guid).Domains); atPlatform != domain.MaxPerTenant || len(list) != atPlatform {
		t.Fatalf("the platform has %d domains and the store %d, want %d", atPlatform, len(list), domain.MaxPerTenant)
	}
}

func TestManyConcurrentRequestsAddADomainOnce(t *testing.T) {
	fx := newFixture(t)
	errs := make([]error, 50)
	var requests sync.WaitGroup
	for n := range errs {
		requests.Go(func() { errs[n] = fx.addWhileBusy(t, zone) })
	}
	requests.Wait()
	must(t, errors.Join(errs...))
	list, err := fx.List(t.Context(), fx.account.ID, guid)
	must(t, err)
	if len(list) != 1 || fx.fake.Effects("AddDomain") != 1 {
		t.Fatalf("%d domains are listed and AddDomain took effect %d times, want 1 and 1", len(list), fx.fake.Effects("AddDomain"))
	}
}
