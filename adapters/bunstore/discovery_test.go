// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// discoveryStart is the time at which a discovery of a test begins, unless the test says otherwise.
var discoveryStart = now.Add(time.Minute)

func saveDiscovery(t testing.TB, s *Store, owner access.AccountID, domains []domain.Platform, boxes []mailbox.Platform) {
	t.Helper()
	saveDiscoveryAfterMiss(t, s, owner, guid(1), ports.DiscoveryResult{Began: discoveryStart, Domains: domains, Mailboxes: boxes})
}

// saveDiscoveryAfterMiss stores a discovery. For each list that the discovery has, it first marks
// the domains or mailboxes that were stored before the discovery began as missing since an earlier
// discovery. SaveDiscovery can then remove the domains or mailboxes that the list does not contain.
func saveDiscoveryAfterMiss(t testing.TB, s *Store, owner access.AccountID, id tenant.GUID, found ports.DiscoveryResult) {
	t.Helper()
	since := storedTime(found.Began.Add(-observation.ReplicaLag))
	for observations, table := range map[string]string{"domain_observations": "domains", "mailbox_observations": "mailboxes"} {
		if table == "domains" && found.Domains == nil || table == "mailboxes" && found.Mailboxes == nil {
			continue
		}
		execSQL(t, s, "INSERT INTO "+observations+` ("account_id", id, observed, missing_since) SELECT r.account_id, r.id, '{}', ? FROM `+table+
			" AS r JOIN tenants AS t ON t.account_id = r.account_id AND t.id = r.tenant_id WHERE t.account_id = ? AND t.guid = ? AND r.stored_at <= ? "+
			"ON CONFLICT (account_id, id) DO UPDATE SET missing_since = EXCLUDED.missing_since", since, accountKey(owner), string(id), storedTime(found.Began))
	}
	must(t, "save discovery", s.SaveDiscovery(t.Context(), owner, id, withMissedNames(t, s, owner, id, found)))
}

// discoverNoMailboxes stores a discovery that began at the given time and found no mailboxes.
func discoverNoMailboxes(t testing.TB, s *Store, owner access.AccountID, id tenant.GUID, began time.Time) {
	t.Helper()
	found := ports.DiscoveryResult{Began: began, At: began, Mailboxes: []mailbox.Platform{}}
	must(t, "discover no mailboxes", s.SaveDiscovery(t.Context(), owner, id, withMissedNames(t, s, owner, id, found)))
}

// withMissedNames returns the discovery with MissedDomains and MissedMailboxes set. The two maps
// contain every name of KnownNames, with true if the list of the discovery does not contain the
// name.
func withMissedNames(t testing.TB, s *Store, owner access.AccountID, id tenant.GUID, found ports.DiscoveryResult) ports.DiscoveryResult {
	t.Helper()
	domains, mailboxes, err := s.KnownNames(t.Context(), owner, id)
	must(t, "list known names", err)
	found.MissedDomains, found.MissedMailboxes = map[string]bool{}, map[string]bool{}
	for _, name := range domains {
		found.MissedDomains[name] = !slices.ContainsFunc(found.Domains, func(p domain.Platform) bool { return p.Name == name })
	}
	for _, address := range mailboxes {
		found.MissedMailboxes[address] = !slices.ContainsFunc(found.Mailboxes, func(p mailbox.Platform) bool { return strings.EqualFold(p.Address, address) })
	}
	return found
}

func domainNamesOf(t testing.TB, s *Store, owner access.AccountID) []string {
	t.Helper()
	domains, err := s.Domains(t.Context(), owner, guid(1))
	must(t, "list domains", err)
	var names []string
	for _, d := range domains {
		names = append(names, d.Name)
	}
	return names
}

func TestDiscoveryAddsListedDomainsAndRemovesMissingOnes(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, listedDomain := newMailDomain(t, s)
		addDomain(t, s, ann, guid(1), "vanished.test")
		listedDomain = withAllFields(listedDomain)
		must(t, "save", s.SaveDomain(t.Context(), ann, listedDomain, nil))
		saveDiscovery(t, s, ann, []domain.Platform{{Name: listedDomain.Name, Verified: true, Default: true}, {Name: "new.test", Verified: true}}, nil)
		if got := domainNamesOf(t, s, ann); !slices.Equal(got, []string{"contoso.test", "new.test"}) {
			t.Fatalf("the listed domains are %v, want contoso.test and new.test", got)
		}
		got, err := s.Domain(t.Context(), ann, guid(1), listedDomain.Name)
		must(t, "known", err)
		if diff := cmp.Diff(listedDomain, got); diff != "" {
			t.Fatalf("the known domain (-want +got):\n%s", diff)
		}
		newDomain, err := s.Domain(t.Context(), ann, guid(1), "new.test")
		must(t, "new", err)
		want := domain.Domain{
			ID: newDomain.ID, TenantID: listedDomain.TenantID, TenantGUID: guid(1), Name: "new.test", Added: true, Verified: true, CreatedAt: discoveryStart,
		}
		if diff := cmp.Diff(want, newDomain); diff != "" {
			t.Fatalf("the new domain (-want +got):\n%s", diff)
		}
	})
}

func TestMissingListChangesNothingAndEmptyListRemovesAll(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		addMailbox(t, s, ann, d, "sales", mailbox.Ready)
		otherTenantDomain := addDomain(t, s, ann, attachTenant(t, s, ann, 2).GUID, "contoso.test")
		saveDiscovery(t, s, ann, nil, nil)
		if names, boxes := domainNamesOf(t, s, ann), addressesOf(t, s, ann); len(names) != 1 || len(boxes) != 1 {
			t.Fatalf("the domains %v and the mailboxes %v are left, want one of each", names, boxes)
		}
		saveDiscovery(t, s, ann, []domain.Platform{}, []mailbox.Platform{})
		if names, boxes := domainNamesOf(t, s, ann), addressesOf(t, s, ann); len(names) != 0 || len(boxes) != 0 {
			t.Fatalf("the domains %v and the mailboxes %v are left, want none", names, boxes)
		}
		_, err := s.DomainByID(t.Context(), ann, otherTenantDomain.ID)
		must(t, "find the domain of the second tenant", err)
	})
}

func TestDiscoveryKeepsDomainsThatAreBeingAdded(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, _ := newMailDomain(t, s)
		for name, at := range map[string]time.Time{"later.test": discoveryStart.Add(time.Second), "underway.test": now} {
			d, err := s.ReserveDomain(t.Context(), ann, guid(1), name, domain.MaxPerTenant, at)
			must(t, "reserve", err)
			d.Added = name == "later.test"
			must(t, "save", s.SaveDomain(t.Context(), ann, d, nil))
		}
		saveDiscovery(t, s, ann, []domain.Platform{}, nil)
		if got := domainNamesOf(t, s, ann); !slices.Equal(got, []string{"later.test"}) {
			t.Fatalf("the listed domains are %v, want later.test", got)
		}
		d, err := s.ReserveDomain(t.Context(), ann, guid(1), "underway.test", domain.MaxPerTenant, now)
		must(t, "reserve", err)
		if d.JustReserved {
			t.Fatal("the reservation of the domain was lost, want it kept")
		}
	})
}

func TestDiscoveryReleasesAbandonedReservationOfDomain(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		for _, name := range []string{"abandoned.test", "resumed.test"} {
			_, err := s.ReserveDomain(t.Context(), ann, guid(1), name, domain.MaxPerTenant, discoveryStart.Add(-24*time.Hour))
			must(t, "reserve", err)
		}
		_, err := s.ReserveDomain(t.Context(), ann, guid(1), "resumed.test", domain.MaxPerTenant, now)
		must(t, "resume", err)
		saveDiscovery(t, s, ann, []domain.Platform{}, nil)
		for name, wantNew := range map[string]bool{"abandoned.test": true, "resumed.test": false} {
			d, err := s.ReserveDomain(t.Context(), ann, guid(1), name, domain.MaxPerTenant, now)
			must(t, "reserve", err)
			if d.JustReserved != wantNew {
				t.Fatalf("%s: the reservation was released: %v, want %v", name, d.JustReserved, wantNew)
			}
		}
	})
}

func TestListedDomainWhoseAddCallLostItsAnswerBecomesAdded(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		reservation, err := s.ReserveDomain(t.Context(), ann, guid(1), "contoso.test", domain.MaxPerTenant, now)
		must(t, "reserve", err)
		saveDiscovery(t, s, ann, []domain.Platform{{Name: "contoso.test"}}, nil)
		got, err := s.Domain(t.Context(), ann, guid(1), "contoso.test")
		must(t, "domain", err)
		if got.ID != reservation.ID {
			t.Fatalf("got %+v, want the row %s", got, reservation.ID)
		}
	})
}

func TestDiscoveryStoresBothListsOrNeither(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		hook := &cancelBefore{}
		s := migratedStore(t, url(t), hook)
		ann, d := newMailDomain(t, s)
		discovery := ports.DiscoveryResult{Began: discoveryStart, Domains: []domain.Platform{{Name: "new.test"}}, Mailboxes: platformMailboxes("sales@new.test")}
		hook.cutOff(t, `INSERT INTO "mailboxes"`, func(ctx context.Context) error { return s.SaveDiscovery(ctx, ann, guid(1), discovery) })
		if got := domainNamesOf(t, s, ann); !slices.Equal(got, []string{d.Name}) {
			t.Fatalf("the stored domains are %v, want only %s, because the mailboxes were not stored", got, d.Name)
		}
	})
}

func TestDiscoveryDoesNotOverwriteNewerState(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		verified := d
		verified.Verified, verified.Observed.Verified = true, discoveryStart.Add(time.Second)
		must(t, "save", s.SaveDomain(t.Context(), ann, verified, nil))
		older := ports.DiscoveryResult{Began: discoveryStart, Domains: []domain.Platform{{Name: d.Name}}}
		must(t, "save discovery", s.SaveDiscovery(t.Context(), ann, guid(1), older))
		got, err := s.Domain(t.Context(), ann, guid(1), d.Name)
		must(t, "domain", err)
		if !got.Verified {
			t.Fatal("the discovery reverted the verification, want the domain verified")
		}
	})
}

func TestOnlyHolderOfTenantCanStoreDiscovery(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		bob := newAccount(t, s, "bob")
		foreignErr := s.SaveDiscovery(t.Context(), bob, guid(1), ports.DiscoveryResult{Began: discoveryStart, Domains: []domain.Platform{}})
		requireRefusal(t, "save discovery", foreignErr, fault.TenantNotFound)
		requireSameError(t, "save discovery", foreignErr, s.SaveDiscovery(t.Context(), ann, unknownGUID, ports.DiscoveryResult{Began: discoveryStart}))
		if got := domainNamesOf(t, s, ann); !slices.Equal(got, []string{d.Name}) {
			t.Fatalf("the listed domains are %v, want %s", got, d.Name)
		}
	})
}

// platformMailboxes returns mailboxes as a platform lists them.
func platformMailboxes(addresses ...string) []mailbox.Platform {
	platforms := make([]mailbox.Platform, 0, len(addresses))
	for _, a := range addresses {
		platforms = append(platforms, mailbox.Platform{
			ObjectID: "object of " + a, DisplayName: hostileText, Address: a, PrincipalName: a,
			Alias: "alias of " + a, AccountEnabled: true, CreatedAt: now.Add(-time.Hour),
		})
	}
	return platforms
}

func addressesOf(t testing.TB, s *Store, owner access.AccountID) []string {
	t.Helper()
	mailboxes, err := s.Mailboxes(t.Context(), owner, guid(1))
	must(t, "list mailboxes", err)
	var addresses []string
	for _, m := range mailboxes {
		addresses = append(addresses, m.Address)
	}
	return addresses
}

func findMailbox(t testing.TB, s *Store, owner access.AccountID, address string) mailbox.Mailbox {
	t.Helper()
	mailboxes, err := s.Mailboxes(t.Context(), owner, guid(1))
	must(t, "list mailboxes", err)
	i := slices.IndexFunc(mailboxes, func(m mailbox.Mailbox) bool { return m.Address == address })
	if i < 0 {
		t.Fatalf("the mailboxes are %+v, want one with the address %s", mailboxes, address)
	}
	return mailboxes[i]
}

func TestDiscoveryAddsListedMailboxesAndRemovesMissingOnes(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		addMailbox(t, s, ann, d, "vanished", mailbox.Ready)
		_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "vanished"), mailbox.MaxPerDomain, discoveryStart.Add(time.Second))
		must(t, "reserve an existing mailbox", err)
		addMailbox(t, s, ann, d, "unfinished", mailbox.Created)
		saveDiscovery(t, s, ann, nil, platformMailboxes("New@contoso.test", "shared@contoso.onmicrosoft.test"))
		if got := addressesOf(t, s, ann); !slices.Equal(got, []string{"new@contoso.test", "shared@contoso.onmicrosoft.test"}) {
			t.Fatalf("the listed mailboxes are %v, want the two of the discovery", got)
		}
		got := findMailbox(t, s, ann, "new@contoso.test")
		want := mailbox.Mailbox{
			ID: got.ID, TenantGUID: guid(1), DomainID: d.ID, Stage: mailbox.Ready, ObjectID: "object of New@contoso.test",
			DisplayName: hostileText, Address: "new@contoso.test", PrincipalName: "New@contoso.test", Alias: "alias of New@contoso.test",
			AccountEnabled: true, CreatedAt: now.Add(-time.Hour), ReservedAt: discoveryStart, DomainName: d.Name, TenantName: "Contoso",
		}
		if got != want {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
		if builtin := findMailbox(t, s, ann, "shared@contoso.onmicrosoft.test"); builtin.DomainID != "" || builtin.DomainName != "contoso.onmicrosoft.test" {
			t.Fatalf("the built-in domain's mailbox is %+v, want the domain contoso.onmicrosoft.test without an id", builtin)
		}
	})
}

func TestKnownMailboxKeepsItsIDOriginAndLimit(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		managed := addMailbox(t, s, ann, d, "managed", mailbox.Ready)
		must(t, "limit", s.SetSendLimit(t.Context(), ann, managed.ID, 9, now))
		for range 2 {
			saveDiscovery(t, s, ann, nil, platformMailboxes("MANAGED@contoso.test"))
		}
		got := findMailbox(t, s, ann, "managed@contoso.test")
		if got.ID != managed.ID || !got.Provisioned || got.DailySendLimit != 9 || got.DisplayName != hostileText || !got.AccountEnabled {
			t.Fatalf("got %+v, want the mailbox %s, provisioned, with its limit and the listed name", got, managed.ID)
		}
	})
}

func TestOutdatedListDoesNotOverwriteSignInNameThatTenantrySet(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		managed := addMailbox(t, s, ann, d, "managed", mailbox.Ready)
		managed.PrincipalName = managed.Address
		must(t, "save", s.SaveMailbox(t.Context(), ann, managed))
		outdated := platformMailboxes("managed@contoso.test", "foreign@contoso.test")
		outdated[0].PrincipalName, outdated[1].PrincipalName = "managed.1@contoso.onmicrosoft.test", "foreign.1@contoso.onmicrosoft.test"
		for range 2 {
			saveDiscovery(t, s, ann, nil, outdated)
		}
		if got := findMailbox(t, s, ann, "managed@contoso.test").PrincipalName; got != managed.Address {
			t.Fatalf("the sign-in name that tenantry set became %s, want %s", got, managed.Address)
		}
		if got := findMailbox(t, s, ann, "foreign@contoso.test").PrincipalName; got != outdated[1].PrincipalName {
			t.Fatalf("the sign-in name of the foreign mailbox is %s, want %s", got, outdated[1].PrincipalName)
		}
	})
}

func TestDiscoveryKeepsMailboxesThatAreBeingCreated(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		addMailbox(t, s, ann, d, "creating", mailbox.Creating)
		addMailbox(t, s, ann, d, "reserved", mailbox.Reserved)
		reservedLater, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "later"), mailbox.MaxPerDomain, discoveryStart.Add(time.Second))
		must(t, "reserve", err)
		reservedLater[0].Stage = mailbox.Ready
		must(t, "save", s.SaveMailbox(t.Context(), ann, reservedLater[0]))
		saveDiscovery(t, s, ann, nil, []mailbox.Platform{})
		got, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "creating", "reserved", "later"), mailbox.MaxPerDomain, now)
		must(t, "reserve", err)
		for _, m := range got {
			if m.JustReserved {
				t.Fatalf("the reservation of %s was lost, want it kept", m.Address)
			}
		}
	})
}

func TestDiscoveryReleasesAbandonedReservationOfMailbox(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "abandoned", "resumed"), mailbox.MaxPerDomain, discoveryStart.Add(-24*time.Hour))
		must(t, "reserve", err)
		_, err = s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "resumed"), mailbox.MaxPerDomain, now)
		must(t, "resume", err)
		otherTenantDomain := addDomain(t, s, ann, attachTenant(t, s, ann, 2).GUID, "contoso.test")
		_, err = s.ReserveMailboxes(t.Context(), ann, otherTenantDomain.ID, mailboxSpecs(otherTenantDomain, "abandoned"), mailbox.MaxPerDomain, now)
		must(t, "reserve at the second tenant", err)
		saveDiscovery(t, s, ann, nil, []mailbox.Platform{})
		got, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "abandoned", "resumed"), mailbox.MaxPerDomain, now)
		must(t, "reserve", err)
		if !got[0].JustReserved || got[1].JustReserved {
			t.Fatalf("got %+v, want a new reservation of the abandoned mailbox only", got)
		}
	})
}

func TestStageOfCreationDecidesWhetherListedMailboxIsProvisioned(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		addMailbox(t, s, ann, d, "reserved", mailbox.Reserved)
		addMailbox(t, s, ann, d, "creating", mailbox.Creating)
		saveDiscovery(t, s, ann, nil, platformMailboxes("reserved@contoso.test", "creating@contoso.test"))
		if m := findMailbox(t, s, ann, "reserved@contoso.test"); m.Stage != mailbox.Ready || m.Provisioned {
			t.Fatalf("the reserved mailbox is %+v, want it ready and not provisioned", m)
		}
		if m := findMailbox(t, s, ann, "creating@contoso.test"); m.Stage != mailbox.Created || !m.Provisioned {
			t.Fatalf("the mailbox that was being created is %+v, want it created and provisioned", m)
		}
	})
}

func TestConcurrentDiscoveriesAndReservationsStoreEachMailboxOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		const calls = 20
		errs := concurrently(calls, func(i int) error {
			if i%2 == 0 {
				_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "a", "b", "c"), mailbox.MaxPerDomain, now)
				return err
			}
			return s.SaveDiscovery(t.Context(), ann, guid(1), ports.DiscoveryResult{Began: discoveryStart, Mailboxes: platformMailboxes("a@contoso.test", "b@contoso.test", "c@contoso.test")})
		})
		if n := countWinners(t, errs, nil); n != calls || len(addressesOf(t, s, ann)) != 3 {
			t.Fatalf("%d calls succeeded, want %d; listed are %v, want 3 mailboxes", n, calls, addressesOf(t, s, ann))
		}
	})
}

func TestOutdatedDiscoveryChangesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		newer := ports.DiscoveryResult{Began: discoveryStart.Add(time.Minute), Domains: []domain.Platform{{Name: d.Name, Verified: true}}, Mailboxes: platformMailboxes("a@contoso.test")}
		must(t, "newer", s.SaveDiscovery(t.Context(), ann, guid(1), newer))
		older := ports.DiscoveryResult{Began: discoveryStart, Domains: []domain.Platform{{Name: d.Name}, {Name: "removed.test"}}, Mailboxes: platformMailboxes("removed@contoso.test")}
		must(t, "older", s.SaveDiscovery(t.Context(), ann, guid(1), withMissedNames(t, s, ann, guid(1), older)))
		if names, boxes := domainNamesOf(t, s, ann), addressesOf(t, s, ann); !slices.Equal(names, []string{d.Name}) || !slices.Equal(boxes, []string{"a@contoso.test"}) {
			t.Fatalf("listed are the domains %v and the mailboxes %v, want only those of the newer discovery", names, boxes)
		}
		if got := findDomain(t, s, ann, d); !got.Verified {
			t.Fatal("the older discovery reverted the verification, want the domain verified")
		}
	})
}
