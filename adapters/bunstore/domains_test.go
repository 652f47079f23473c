// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/ports"
)

// withAllFields returns d with a value in every field that describes its state at the platform or
// in the DNS.
func withAllFields(d domain.Domain) domain.Domain {
	d.Default, d.Verified, d.DKIMEnabled, d.MailReady = true, true, true, true
	d.Verification = []dns.Record{{Type: dns.TXT, Name: d.Name, Content: hostileText, TTL: 3600}}
	d.Service = []dns.Record{{Type: dns.MX, Name: d.Name, Content: "mx.contoso.test", Preference: 10, TTL: 60}}
	d.Signing = dns.Signing{
		Enabled:   true,
		Selector1: dns.Record{Type: dns.CNAME, Name: "selector1._domainkey." + d.Name, Content: "one.contoso.test", TTL: 1},
		Selector2: dns.Record{Type: dns.CNAME, Name: "selector2._domainkey." + d.Name, Content: "two.contoso.test", TTL: 2},
	}
	d.Status = dns.Status{MX: "mx.", SPF: "v=spf1 -all", DMARC: dns.Missing, DKIM: dns.DKIMPartial, VerificationSeen: true}
	d.Health = domain.Health{EverCorrect: domain.Drifts, Drifted: []domain.Drift{domain.SPFGone, domain.MXMoved}}
	d.CheckedAt = now.Add(time.Hour)
	return d
}

func TestDomainComesBackAsItWasSaved(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		want := withAllFields(addDomain(t, s, ann, attachTenant(t, s, ann, 1).GUID, "contoso.test"))
		must(t, "save", s.SaveDomain(t.Context(), ann, want, nil))
		byName, err := s.Domain(t.Context(), ann, guid(1), "contoso.test")
		must(t, "by name", err)
		byID, err := s.DomainByID(t.Context(), ann, want.ID)
		must(t, "by id", err)
		for _, got := range []domain.Domain{byName, byID} {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("the stored domain (-want +got):\n%s", diff)
			}
		}
	})
}

func TestAddedDomainsAreListedByName(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		listedBefore, err := s.Domains(t.Context(), ann, guid(1))
		must(t, "list", err)
		for _, name := range []string{"b.test", "c.test", "a.test"} {
			addDomain(t, s, ann, guid(1), name)
		}
		unfinished, err := s.ReserveDomain(t.Context(), ann, guid(1), "unfinished.test", domain.MaxPerTenant, now)
		must(t, "reserve", err)
		listed, err := s.Domains(t.Context(), ann, guid(1))
		must(t, "list", err)
		if len(listedBefore) != 0 || len(listed) != 3 || listed[0].Name != "a.test" || listed[2].Name != "c.test" {
			t.Fatalf("got %+v, want a.test, b.test and c.test; the list before was %+v, want none", listed, listedBefore)
		}
		_, err = s.Domain(t.Context(), ann, guid(1), "unfinished.test")
		requireRefusal(t, "unfinished", err, fault.DomainNotFound)
		_, err = s.DomainByID(t.Context(), ann, unfinished.ID)
		requireRefusal(t, "unfinished, by id", err, fault.DomainNotFound)
	})
}

func TestForeignDomainGetsTheSameAnswerAsUnknownOne(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		d := addDomain(t, s, ann, attachTenant(t, s, ann, 1).GUID, "contoso.test")
		attachTenant(t, s, bob, 2)
		unknownDomain := d
		unknownDomain.ID, unknownDomain.TenantGUID = string(unknownGUID), unknownGUID
		for name, tc := range map[string]struct {
			wantCode fault.Code
			call     func(owner access.AccountID, target domain.Domain) error
		}{
			"list": {fault.TenantNotFound, func(owner access.AccountID, target domain.Domain) error {
				_, err := s.Domains(t.Context(), owner, target.TenantGUID)
				return err
			}},
			"by name": {fault.TenantNotFound, func(owner access.AccountID, target domain.Domain) error {
				_, err := s.Domain(t.Context(), owner, target.TenantGUID, target.Name)
				return err
			}},
			"by id": {fault.DomainNotFound, func(owner access.AccountID, target domain.Domain) error {
				_, err := s.DomainByID(t.Context(), owner, target.ID)
				return err
			}},
			"save": {fault.DomainNotFound, func(owner access.AccountID, target domain.Domain) error {
				return s.SaveDomain(t.Context(), owner, target, nil)
			}},
			"change": {fault.DomainNotFound, func(owner access.AccountID, target domain.Domain) error {
				_, err := s.ChangeDomain(t.Context(), owner, target)
				return err
			}},
			"reserve": {fault.TenantNotFound, func(owner access.AccountID, target domain.Domain) error {
				_, err := s.ReserveDomain(t.Context(), owner, target.TenantGUID, "new.test", domain.MaxPerTenant, now)
				return err
			}},
		} {
			foreignErr := tc.call(bob, d)
			requireRefusal(t, name, foreignErr, tc.wantCode)
			requireSameError(t, name, foreignErr, tc.call(ann, unknownDomain))
		}
		_, err := s.Domain(t.Context(), bob, guid(2), d.Name)
		requireRefusal(t, "the name at bob's tenant", err, fault.DomainNotFound)
	})
}

func TestWithdrawnReservationIsNotReportedAsPrevious(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		reserve := func(minutes int, wantPrevious time.Time) domain.Domain {
			t.Helper()
			d, err := s.ReserveDomain(t.Context(), ann, guid(1), "contoso.test", 1, now.Add(time.Duration(minutes)*time.Minute))
			if must(t, "reserve", err); !d.PreviousReservedAt.Equal(wantPrevious) {
				t.Fatalf("the previous reservation is of %v, want %v", d.PreviousReservedAt, wantPrevious)
			}
			return d
		}
		reservation1 := reserve(0, time.Time{})
		reservation2 := reserve(1, reservation1.ReservedAt)
		reservation3 := reserve(2, reservation2.ReservedAt)
		must(t, "withdraw an earlier reservation", s.WithdrawReservation(t.Context(), ann, reservation2))
		must(t, "withdraw for a different account", s.WithdrawReservation(t.Context(), newAccount(t, s, "bob"), reservation3))
		reservation4 := reserve(3, reservation3.ReservedAt)
		must(t, "withdraw", s.WithdrawReservation(t.Context(), ann, reservation4))
		reservation5 := reserve(4, reservation3.ReservedAt)
		reservation5.Added = true
		must(t, "save", s.SaveDomain(t.Context(), ann, reservation5, nil))
		must(t, "withdraw after the domain was added", s.WithdrawReservation(t.Context(), ann, reservation5))
		if d, err := s.Domain(t.Context(), ann, guid(1), "contoso.test"); err != nil || d.ID != reservation1.ID {
			t.Fatalf("got %+v, %v, want the domain %s", d, err, reservation1.ID)
		}
	})
}

func TestDomainIsReservedOnceAndCanBeReleasedUntilItIsAdded(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		reserved, err := s.ReserveDomain(t.Context(), ann, guid(1), "contoso.test", 1, now)
		must(t, "reserve", err)
		repeated, err := s.ReserveDomain(t.Context(), ann, guid(1), "contoso.test", 1, now)
		must(t, "reserve again", err)
		if !reserved.JustReserved || repeated.JustReserved || repeated.ID != reserved.ID || repeated.Added || repeated.TenantGUID != guid(1) {
			t.Fatalf("the first reservation is %+v\nthe second is %+v\nwant the same domain, new in the first", reserved, repeated)
		}
		_, err = s.ReserveDomain(t.Context(), ann, guid(1), "other.test", 1, now)
		requireRefusal(t, "beyond the limit", err, fault.DomainLimitReached)
		must(t, "release by a different account", s.EndReservation(t.Context(), newAccount(t, s, "bob"), reserved.ID, repeated.ReservedAt))
		_, err = s.ReserveDomain(t.Context(), ann, guid(1), "other.test", 1, now)
		requireRefusal(t, "still beyond the limit", err, fault.DomainLimitReached)
		_, err = s.ReserveDomain(t.Context(), ann, attachTenant(t, s, ann, 2).GUID, "other.test", 1, now)
		must(t, "reserve at a different tenant", err)
		thirdDomain, err := s.ReserveDomain(t.Context(), ann, guid(2), "third.test", 2, now)
		must(t, "reserve a third domain", err)
		must(t, "release of the first reservation", s.EndReservation(t.Context(), ann, reserved.ID, reserved.ReservedAt))
		_, err = s.ReserveDomain(t.Context(), ann, guid(1), "other.test", 1, now)
		requireRefusal(t, "while the repeated reservation exists", err, fault.DomainLimitReached)
		must(t, "release", s.EndReservation(t.Context(), ann, reserved.ID, repeated.ReservedAt))
		renewed, err := s.ReserveDomain(t.Context(), ann, guid(2), "third.test", 2, now)
		if err != nil || renewed.ID != thirdDomain.ID {
			t.Fatalf("the reservation of third.test is %+v, want the kept %s: %v", renewed, thirdDomain.ID, err)
		}
		_, err = s.ReserveDomain(t.Context(), ann, guid(1), "other.test", 1, now)
		must(t, "reserve the free slot", err)
	})
}

func TestAddedDomainIsNotReleased(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		d := addDomain(t, s, ann, attachTenant(t, s, ann, 1).GUID, "contoso.test")
		reserved, err := s.ReserveDomain(t.Context(), ann, guid(1), "contoso.test", 1, now)
		must(t, "reserve an added domain", err)
		must(t, "release", s.EndReservation(t.Context(), ann, d.ID, reserved.ReservedAt))
		repeated, err := s.ReserveDomain(t.Context(), ann, guid(1), "contoso.test", 1, now)
		must(t, "reserve", err)
		if repeated.ID != d.ID || !repeated.Added {
			t.Fatalf("got %+v, want the added domain %s", repeated, d.ID)
		}
	})
}

func TestConcurrentReservationsOfDomainsNeverExceedLimit(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		errs := concurrently(concurrency, func(i int) error {
			d, err := s.ReserveDomain(t.Context(), ann, guid(1), fmt.Sprintf("d%d.test", i), domain.MaxPerTenant, now)
			if err != nil {
				return err
			}
			d.Added = true
			return s.SaveDomain(t.Context(), ann, d, nil)
		})
		listed, err := s.Domains(t.Context(), ann, guid(1))
		must(t, "list", err)
		if n := countWinners(t, errs, fault.DomainLimitReached); n != domain.MaxPerTenant || len(listed) != n {
			t.Fatalf("%d calls succeeded and %d domains are stored, want %d", n, len(listed), domain.MaxPerTenant)
		}
	})
}

func TestConcurrentReservationsOfOneDomainCreateOneDomain(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		isNew := make([]bool, concurrency)
		errs := concurrently(concurrency, func(i int) error {
			d, err := s.ReserveDomain(t.Context(), ann, guid(1), "contoso.test", 1, now)
			isNew[i] = d.JustReserved
			return err
		})
		if n := countWinners(t, errs, nil); n != concurrency || countTrue(isNew) != 1 {
			t.Fatalf("%d calls got the domain, want %d; %d created it, want 1", n, concurrency, countTrue(isNew))
		}
	})
}

func TestTwoTenantsCanHaveSameDomainName(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		domain1 := addDomain(t, s, ann, attachTenant(t, s, ann, 1).GUID, "contoso.test")
		domain2 := addDomain(t, s, ann, attachTenant(t, s, ann, 2).GUID, "contoso.test")
		got, err := s.Domain(t.Context(), ann, guid(2), "contoso.test")
		must(t, "find the second domain", err)
		if domain1.ID == domain2.ID || got.ID != domain2.ID || got.TenantGUID != guid(2) {
			t.Fatalf("got %+v, want the domain %s of the second tenant", got, domain2.ID)
		}
	})
}

func findDomain(t testing.TB, s *Store, owner access.AccountID, d domain.Domain) domain.Domain {
	t.Helper()
	got, err := s.Domain(t.Context(), owner, d.TenantGUID, d.Name)
	must(t, "domain", err)
	return got
}

func TestObservationOfDomainDoesNotOverwriteOtherParts(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		loaded := addDomain(t, s, ann, attachTenant(t, s, ann, 1).GUID, "contoso.test")
		at := now.Add(time.Hour)
		verified := loaded.WithPlatformState(domain.Platform{Verified: true}, at)
		_, err := s.ChangeDomain(t.Context(), ann, verified)
		must(t, "verified", err)
		got, err := s.ChangeDomain(t.Context(), ann, loaded.WithRecords(domain.Records{Service: withAllFields(loaded).Service}, at))
		must(t, "records", err)
		got.Observed = domain.Observed{}
		want := loaded
		want.Verified, want.Service = true, withAllFields(loaded).Service
		for label, d := range map[string]domain.Domain{"returned": got, "stored": findDomain(t, s, ann, loaded)} {
			if diff := cmp.Diff(want, d); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", label, diff)
			}
		}
	})
}

func TestNewerDNSCheckIsKept(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		loaded := addDomain(t, s, ann, attachTenant(t, s, ann, 1).GUID, "contoso.test")
		olderCheck, newerCheck := loaded, loaded
		olderCheck.CheckedAt, olderCheck.Status.SPF = now.Add(time.Hour), "early"
		newerCheck.CheckedAt, newerCheck.Status.SPF = now.Add(2*time.Hour), "late"
		for _, observed := range []domain.Domain{newerCheck, olderCheck} {
			_, err := s.ChangeDomain(t.Context(), ann, observed)
			must(t, "change", err)
		}
		if got := findDomain(t, s, ann, loaded); got.Status.SPF != "late" || !got.CheckedAt.Equal(newerCheck.CheckedAt) {
			t.Fatalf("the stored domain is %+v, want the newer check", got)
		}
	})
}

func TestConcurrentObservationsOfDomainAreAllStored(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		loaded := addDomain(t, s, ann, attachTenant(t, s, ann, 1).GUID, "contoso.test")
		observed, at := withAllFields(loaded), now.Add(time.Hour)
		observations := []func(*domain.Domain){
			func(d *domain.Domain) { d.Verified, d.Default, d.Observed.Verified = true, true, at },
			func(d *domain.Domain) { d.DKIMEnabled, d.Signing.Enabled, d.Observed.Signing = true, true, at },
			func(d *domain.Domain) { d.MailReady, d.Observed.Mail = true, at },
			func(d *domain.Domain) {
				*d = d.WithRecords(domain.Records{Verification: observed.Verification, Service: observed.Service}, at)
			},
			func(d *domain.Domain) {
				d.Signing.Selector1, d.Signing.Selector2 = observed.Signing.Selector1, observed.Signing.Selector2
				d.Observed.Selectors = at
			},
			func(d *domain.Domain) {
				d.CheckedAt, d.Status, d.Health = observed.CheckedAt, observed.Status, observed.Health
			},
		}
		for _, err := range concurrently(concurrency, func(i int) error {
			update := loaded
			observations[i%len(observations)](&update)
			_, err := s.ChangeDomain(t.Context(), ann, update)
			return err
		}) {
			must(t, "change", err)
		}
		if diff := cmp.Diff(observed, findDomain(t, s, ann, loaded)); diff != "" {
			t.Fatalf("stored (-want +got):\n%s", diff)
		}
	})
}

// addCheckedDomain adds a verified domain whose DNS was last read at now plus after. If after is 0,
// the DNS was never read.
func addCheckedDomain(t testing.TB, s *Store, owner access.AccountID, tenantNumber int, name string, after time.Duration, drifted ...domain.Drift) domain.Domain {
	t.Helper()
	d := addDomain(t, s, owner, guid(tenantNumber), name)
	d.Verified = true
	d.Health = domain.Health{EverCorrect: drifted, Drifted: drifted}
	if after > 0 {
		d.CheckedAt = now.Add(after)
	}
	_, err := s.ChangeDomain(t.Context(), owner, d)
	must(t, "change", err)
	return d
}

func staleDomainIDs(t testing.TB, s *Store, before time.Duration, limit int) (ids []string) {
	t.Helper()
	staleDomains, err := s.StaleDomains(t.Context(), now.Add(before), limit)
	must(t, "list stale domains", err)
	for _, d := range staleDomains {
		ids = append(ids, d.ID)
	}
	return ids
}

func domainHealth(t testing.TB, s *Store) ports.DomainHealth {
	t.Helper()
	health, err := s.DomainHealth(t.Context())
	must(t, "health", err)
	return health
}

func TestDomainThatWasCheckedLongestAgoComesFirst(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attachTenant(t, s, ann, 1)
		attachTenant(t, s, bob, 2)
		checkedThird := addCheckedDomain(t, s, ann, 1, "three.test", 3*time.Hour)
		checkedSecond := addCheckedDomain(t, s, bob, 2, "two.test", 2*time.Hour)
		checkedFourth := addCheckedDomain(t, s, ann, 1, "four.test", 4*time.Hour)
		neverChecked := addCheckedDomain(t, s, bob, 2, "never.test", 0)
		requireOrder(t, "all", staleDomainIDs(t, s, 9*time.Hour, 9), neverChecked.ID, checkedSecond.ID, checkedThird.ID, checkedFourth.ID)
		requireOrder(t, "at the time of the third check", staleDomainIDs(t, s, 3*time.Hour, 9), neverChecked.ID, checkedSecond.ID, checkedThird.ID)
		requireOrder(t, "two", staleDomainIDs(t, s, 9*time.Hour, 2), neverChecked.ID, checkedSecond.ID)
		staleDomains, err := s.StaleDomains(t.Context(), now.Add(time.Hour), 1)
		must(t, "list", err)
		if staleDomains[0].Account != bob {
			t.Fatalf("the domain belongs to %s, want %s", staleDomains[0].Account, bob)
		}
	})
}

func TestOnlyVerifiedDomainsAreCheckedAgain(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		addDomain(t, s, ann, guid(1), "unverified.test")
		_, err := s.ReserveDomain(t.Context(), ann, guid(1), "unfinished.test", domain.MaxPerTenant, now)
		must(t, "reserve", err)
		if ids := staleDomainIDs(t, s, 9*time.Hour, 9); len(ids) != 0 {
			t.Fatalf("the stale domains are %v, want none", ids)
		}
		if health := domainHealth(t, s); health.Verified != 0 || !health.OldestRead.IsZero() || len(health.Drifted) != 0 {
			t.Fatalf("the health is %+v, want no verified and no drifted domain", health)
		}
	})
}

// TestMissingDomainIsNotCheckedAgain checks a verified domain that one discovery missed. Domain and
// DomainByID do not find a missing domain. A check of such a domain would do nothing, but would
// count against the limit of each sweep.
func TestMissingDomainIsNotCheckedAgain(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		missing := addCheckedDomain(t, s, ann, 1, "missing.test", time.Hour, domain.SPFGone)
		present := addCheckedDomain(t, s, ann, 1, "present.test", 2*time.Hour)
		presentOnly := []domain.Platform{{Name: present.Name, Verified: true}}
		discover := func(at time.Time, found []domain.Platform) {
			t.Helper()
			discovery := withMissedNames(t, s, ann, guid(1), ports.DiscoveryResult{Began: at, Domains: found})
			must(t, "save discovery", s.SaveDiscovery(t.Context(), ann, guid(1), discovery))
		}

		discover(discoveryStart, presentOnly)
		requireOrder(t, "missing", staleDomainIDs(t, s, 9*time.Hour, 1), present.ID)
		want := ports.DomainHealth{Verified: 1, OldestRead: now.Add(2 * time.Hour), Drifted: map[domain.Drift]int{}}
		if diff := cmp.Diff(want, domainHealth(t, s)); diff != "" {
			t.Errorf("the health while the domain is missing (-want +got):\n%s", diff)
		}

		discover(discoveryStart.Add(time.Minute), append(presentOnly, domain.Platform{Name: missing.Name, Verified: true}))
		requireOrder(t, "found again", staleDomainIDs(t, s, 9*time.Hour, 9), missing.ID, present.ID)
		want = ports.DomainHealth{Verified: 2, OldestRead: now.Add(time.Hour), Drifted: map[domain.Drift]int{domain.SPFGone: 1}}
		if diff := cmp.Diff(want, domainHealth(t, s)); diff != "" {
			t.Errorf("the health after the domain was found again (-want +got):\n%s", diff)
		}
	})
}

func TestHealthCountsDomainsOfAllAccountsByDrift(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attachTenant(t, s, ann, 1)
		attachTenant(t, s, bob, 2)
		addCheckedDomain(t, s, ann, 1, "well.test", 2*time.Hour)
		addCheckedDomain(t, s, ann, 1, "gone.test", 3*time.Hour, domain.SPFGone)
		addCheckedDomain(t, s, bob, 2, "both.test", time.Hour, domain.SPFGone, domain.MXMoved)
		want := ports.DomainHealth{
			Verified: 3, OldestRead: now.Add(time.Hour), Drifted: map[domain.Drift]int{domain.SPFGone: 2, domain.MXMoved: 1},
		}
		if diff := cmp.Diff(want, domainHealth(t, s)); diff != "" {
			t.Fatalf("the health (-want +got):\n%s", diff)
		}
	})
}
