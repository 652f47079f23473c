// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/ports"
)

// TestObjectMissedForLessThanReplicaLagIsHiddenAndKept checks a domain and a mailbox that two
// discoveries do not find. The second discovery begins less than observation.ReplicaLag after the
// first. The objects are not listed and not counted, but their rows are kept. The objects are
// listed again when a discovery finds them.
func TestObjectMissedForLessThanReplicaLagIsHiddenAndKept(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		missingDomain := addDomain(t, s, ann, guid(1), "other.test")
		missingBox := addMailbox(t, s, ann, missingDomain, "sales", mailbox.Ready)
		must(t, "limit", s.SetSendLimit(t.Context(), ann, missingBox.ID, 9, now))
		listedDomains := []domain.Platform{{Name: d.Name}}
		unlisted := ports.DiscoveryResult{Began: discoveryStart, Domains: listedDomains, Mailboxes: []mailbox.Platform{}}
		miss := func(after time.Duration) {
			t.Helper()
			discovery := withMissedNames(t, s, ann, guid(1), unlisted)
			discovery.Began = discoveryStart.Add(after)
			must(t, "save discovery", s.SaveDiscovery(t.Context(), ann, guid(1), discovery))
		}
		miss(0)
		miss(observation.ReplicaLag - time.Second)
		if got := domainNamesOf(t, s, ann); !slices.Equal(got, []string{d.Name}) {
			t.Fatalf("the listed domains are %v, want only %s", got, d.Name)
		}
		_, err := s.DomainByID(t.Context(), ann, missingDomain.ID)
		requireRefusal(t, "missing domain", err, fault.DomainNotFound)
		_, err = s.Mailbox(t.Context(), ann, guid(1), missingBox.ID)
		requireRefusal(t, "missing mailbox", err, fault.MailboxNotFound)
		stored, err := s.Tenant(t.Context(), ann, guid(1))
		must(t, "tenant", err)
		if stored.DomainCount != 1 || stored.MailboxCount != 0 {
			t.Fatalf("the tenant counts %d domains, want 1, and %d mailboxes, want 0", stored.DomainCount, stored.MailboxCount)
		}
		foundAgain := ports.DiscoveryResult{Began: discoveryStart.Add(observation.ReplicaLag), Mailboxes: platformMailboxes(missingBox.Address),
			Domains: append(listedDomains, domain.Platform{Name: missingDomain.Name, Verified: true})}
		must(t, "find again", s.SaveDiscovery(t.Context(), ann, guid(1), foundAgain))
		if got := findMailbox(t, s, ann, missingBox.Address); got.ID != missingBox.ID || got.DailySendLimit != 9 || got.Stage != mailbox.Ready || !got.Provisioned {
			t.Fatalf("the mailbox is %+v, want the ready mailbox %s with its limit of 9", got, missingBox.ID)
		}
		if got := findDomain(t, s, ann, missingDomain); got.ID != missingDomain.ID || !got.Verified {
			t.Fatalf("the domain is %+v, want the verified domain %s", got, missingDomain.ID)
		}
	})
}

func TestObjectMissedForReplicaLagIsRemoved(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		addMailbox(t, s, ann, d, "sales", mailbox.Ready)
		for _, at := range []time.Time{discoveryStart, discoveryStart.Add(observation.ReplicaLag)} {
			discovery := withMissedNames(t, s, ann, guid(1), ports.DiscoveryResult{Began: at, Domains: []domain.Platform{}, Mailboxes: []mailbox.Platform{}})
			must(t, "save discovery", s.SaveDiscovery(t.Context(), ann, guid(1), discovery))
		}
		domains, mailboxes, err := s.KnownNames(t.Context(), ann, guid(1))
		must(t, "list known names", err)
		if len(domains)+len(mailboxes) != 0 {
			t.Fatalf("the domains %v and the mailboxes %v are left, want none", domains, mailboxes)
		}
	})
}

// TestUnlistedObjectIsNotMissedUntilReadByName checks that an object that a list does not contain
// is not yet missing. The object is missing if MissedDomains or MissedMailboxes is also true for
// its name.
func TestUnlistedObjectIsNotMissedUntilReadByName(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		addMailbox(t, s, ann, d, "sales", mailbox.Ready)
		for _, at := range []time.Time{discoveryStart, discoveryStart.Add(observation.ReplicaLag)} {
			discovery := ports.DiscoveryResult{Began: at, Domains: []domain.Platform{}, Mailboxes: []mailbox.Platform{}}
			must(t, "save discovery", s.SaveDiscovery(t.Context(), ann, guid(1), discovery))
		}
		if names, boxes := domainNamesOf(t, s, ann), addressesOf(t, s, ann); len(names) != 1 || len(boxes) != 1 {
			t.Fatalf("listed are the domains %v and the mailboxes %v, want one of each", names, boxes)
		}
	})
}

// TestMissingObjectIsReservedAgain reserves a missing domain and a missing mailbox. Each stored row
// must become a reservation again, and count against the limit.
func TestMissingObjectIsReservedAgain(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		missingDomain := addDomain(t, s, ann, guid(1), "other.test")
		missingBox := addMailbox(t, s, ann, d, "lost", mailbox.Ready)
		discovery := ports.DiscoveryResult{Began: discoveryStart, Domains: []domain.Platform{{Name: d.Name}}, Mailboxes: []mailbox.Platform{}}
		must(t, "miss", s.SaveDiscovery(t.Context(), ann, guid(1), withMissedNames(t, s, ann, guid(1), discovery)))
		_, err := s.ReserveDomain(t.Context(), ann, guid(1), missingDomain.Name, 1, discoveryStart)
		requireRefusal(t, "reserve over the limit", err, fault.DomainLimitReached)
		reserved, err := s.ReserveDomain(t.Context(), ann, guid(1), missingDomain.Name, 2, discoveryStart)
		must(t, "reserve", err)
		if reserved.ID != missingDomain.ID || reserved.Added || reserved.JustReserved {
			t.Fatalf("got %+v, want the row %s as a reservation", reserved, missingDomain.ID)
		}
		must(t, "release", s.EndReservation(t.Context(), ann, reserved.ID, reserved.ReservedAt))
		freeDomain, err := s.ReserveDomain(t.Context(), ann, guid(1), "free.test", 2, discoveryStart)
		must(t, "reserve a different domain", err)
		must(t, "release", s.EndReservation(t.Context(), ann, freeDomain.ID, freeDomain.ReservedAt))
		reservedLater, err := s.ReserveDomain(t.Context(), ann, guid(1), missingDomain.Name, 2, discoveryStart.Add(time.Hour))
		must(t, "reserve", err)
		if reservedLater.ID != missingDomain.ID || !reservedLater.Observed.PreviousMissingSince.Equal(discoveryStart) {
			t.Fatalf("the domain was missing since %v, want %v: %+v", reservedLater.Observed.PreviousMissingSince, discoveryStart, reservedLater)
		}
		_, err = s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "a", "b", "lost"), 2, discoveryStart)
		requireRefusal(t, "reserve over the limit", err, fault.MailboxLimitReached)
		boxes, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "a", "b", "lost"), 3, discoveryStart)
		must(t, "reserve", err)
		if got := boxes[2]; got.ID != missingBox.ID || got.Stage != mailbox.Reserved || !got.Provisioned || got.JustReserved {
			t.Fatalf("got %+v, want the row %s as a reservation", got, missingBox.ID)
		}
		for range 2 { // the second request finds the reservation of the first
			if got := boxes[2]; !got.Observed.PreviousMissingSince.Equal(discoveryStart) {
				t.Fatalf("the mailbox was missing since %v, want %v", got.Observed.PreviousMissingSince, discoveryStart)
			}
			boxes, err = s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "a", "b", "lost"), 3, discoveryStart.Add(time.Hour))
			must(t, "reserve again", err)
		}
		must(t, "miss again", s.SaveMailbox(t.Context(), ann, boxes[2].MissingAgain()))
		_, err = s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "a", "b", "c"), 3, discoveryStart)
		must(t, "reserve the slot of the missing mailbox", err)
	})
}
