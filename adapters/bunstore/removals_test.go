// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// discoverDomains stores a discovery that finds the domains in names, and misses the domain whose
// name is in missed.
func discoverDomains(t testing.TB, s *Store, owner access.AccountID, at time.Time, missed string, names ...string) {
	t.Helper()
	discovery := ports.DiscoveryResult{Began: at, At: at, Domains: []domain.Platform{}, MissedDomains: map[string]bool{missed: true}}
	for _, name := range names {
		discovery.Domains = append(discovery.Domains, domain.Platform{Name: name, Verified: true})
	}
	must(t, "discover", s.SaveDiscovery(t.Context(), owner, guid(1), discovery))
}

// TestDomainRemovalBeginsOnce checks that a second removal of a domain is reported as repeated,
// until the first removal is cancelled or the domain is reserved again.
func TestDomainRemovalBeginsOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attachTenant(t, s, ann, 1)
		addDomain(t, s, ann, guid(1), "two.test")
		d := addDomain(t, s, ann, guid(1), "one.test")
		begin := func(at time.Time, want ports.DomainRemoval) {
			t.Helper()
			got, err := s.BeginDomainRemoval(t.Context(), ann, d, at)
			if must(t, "begin", err); got != want {
				t.Fatalf("BeginDomainRemoval returned %+v, want %+v", got, want)
			}
		}
		firstRemoval, repeatedRemoval := ports.DomainRemoval{}, ports.DomainRemoval{Repeated: true}
		_, err := s.BeginDomainRemoval(t.Context(), bob, d, now)
		requireRefusal(t, "begin for another account", err, fault.DomainNotFound)
		minuteLater := now.Add(time.Minute)
		begin(now, firstRemoval)
		begin(minuteLater, repeatedRemoval)
		otherDomain, domainOfUnknownTenant := d, d
		otherDomain.Name, domainOfUnknownTenant.TenantID = "two.test", string(unknownGUID)
		must(t, "cancel a later removal", s.CancelDomainRemoval(t.Context(), ann, d, minuteLater))
		must(t, "cancel for another account", s.CancelDomainRemoval(t.Context(), bob, d, now))
		must(t, "cancel for another domain", s.CancelDomainRemoval(t.Context(), ann, otherDomain, now))
		must(t, "cancel for an unknown tenant", s.CancelDomainRemoval(t.Context(), ann, domainOfUnknownTenant, now))
		begin(minuteLater, repeatedRemoval)
		must(t, "cancel", s.CancelDomainRemoval(t.Context(), ann, d, now))
		begin(minuteLater, firstRemoval)
		_, err = s.ReserveDomain(t.Context(), ann, guid(1), "one.test", domain.MaxPerTenant, minuteLater)
		must(t, "reserve", err)
		begin(minuteLater, firstRemoval)
		must(t, "remove", s.RemoveDomain(t.Context(), ann, d, minuteLater.Add(time.Minute), nil))
		must(t, "cancel too late", s.CancelDomainRemoval(t.Context(), ann, d, minuteLater))
		discoverDomains(t, s, ann, now.Add(time.Hour), "", "one.test", "two.test")
		if got := strings.Join(domainNamesOf(t, s, ann), " "); got != "two.test" {
			t.Fatalf("after the discovery the domains are %s, want two.test", got)
		}
		_, err = s.BeginDomainRemoval(t.Context(), ann, d, minuteLater)
		requireRefusal(t, "begin after the removal", err, fault.DomainNotFound)
	})
}

// TestRepeatedRemovalReportsAChangeOfTheDomain checks that a repeated removal reports that the
// domain has changed since the first removal began.
func TestRepeatedRemovalReportsAChangeOfTheDomain(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		d := addDomain(t, s, ann, guid(1), "one.test")
		at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
		discover := func(beganMinute, storedMinute int, verified bool) {
			t.Helper()
			must(t, "discover", s.SaveDiscovery(t.Context(), ann, guid(1),
				ports.DiscoveryResult{Began: at(beganMinute), At: at(storedMinute), Domains: []domain.Platform{{Name: d.Name, Verified: verified}}}))
		}
		begin := func(minutes int, verified bool, want ports.DomainRemoval) {
			t.Helper()
			got, err := s.BeginDomainRemoval(t.Context(), ann, d.WithPlatformState(domain.Platform{Verified: verified}, at(minutes)), at(minutes))
			if must(t, "begin", err); got != want {
				t.Fatalf("BeginDomainRemoval returned %+v, want %+v", got, want)
			}
		}
		firstRemoval, repeatedRemoval, repeatedAfterChange := ports.DomainRemoval{}, ports.DomainRemoval{Repeated: true}, ports.DomainRemoval{Repeated: true, MayBeNew: true}
		discover(1, 1, false)
		discover(2, 2, true)
		begin(3, true, firstRemoval)
		discover(4, 4, true)
		begin(5, true, repeatedRemoval)
		discover(6, 6, false)
		begin(7, false, repeatedAfterChange)
		begin(8, false, repeatedAfterChange)
		must(t, "cancel", s.CancelDomainRemoval(t.Context(), ann, d, at(3)))
		begin(9, false, firstRemoval)
		begin(10, true, repeatedAfterChange) // the change was observed by the removal itself
		must(t, "cancel", s.CancelDomainRemoval(t.Context(), ann, d, at(9)))
		_, err := s.BeginDomainRemoval(t.Context(), ann, d, at(12))
		must(t, "begin", err)
		discover(11, 13, false) // this discovery began before the removal, and was stored after the removal had begun
		begin(14, false, repeatedAfterChange)
		const windowEndMinute = 12 + int(domain.RemovalRepeatWindow/time.Minute) // the removal began at minute 12
		begin(windowEndMinute-1, false, repeatedAfterChange)
		begin(windowEndMinute, false, firstRemoval)
		begin(windowEndMinute+1, false, repeatedRemoval) // the removal began again, with a new window
	})
}

func TestRemovedDomainIsLeftOutUntilItIsReserved(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attachTenant(t, s, ann, 1)
		attachTenant(t, s, bob, 2)
		d := addDomain(t, s, ann, guid(1), "one.test")
		addDomain(t, s, bob, guid(2), "one.test")
		_, foreignError := s.RemovableDomain(t.Context(), bob, guid(1), "one.test")
		_, unknownTenantError := s.RemovableDomain(t.Context(), bob, guid(9), "one.test")
		requireSameError(t, "domain", foreignError, unknownTenantError)
		_, err := s.RemovableDomain(t.Context(), ann, guid(1), "two.test")
		requireRefusal(t, "unknown domain", err, fault.DomainNotFound)
		found, err := s.RemovableDomain(t.Context(), ann, guid(1), "one.test")
		must(t, "find", err)
		if found.ID != d.ID || found.TenantGUID != guid(1) {
			t.Fatalf("found %+v, want the domain %s of the tenant %s", found, d.ID, guid(1))
		}
		requireRefusal(t, "remove a domain of another account", s.RemoveDomain(t.Context(), bob, d, now, nil), fault.DomainNotFound)
		must(t, "remove", s.RemoveDomain(t.Context(), ann, d, now, nil))
		requireRefusal(t, "remove again", s.RemoveDomain(t.Context(), ann, d, now, nil), fault.DomainNotFound)
		discoverDomains(t, s, ann, now.Add(time.Hour), "", "one.test", "two.test")
		if got := strings.Join(domainNamesOf(t, s, ann), " "); got != "two.test" {
			t.Fatalf("after a discovery the domains are %s, want two.test", got)
		}
		if list, err := s.Domains(t.Context(), bob, guid(2)); err != nil || len(list) != 1 {
			t.Fatalf("the domains of bob are %v (%v), want one", list, err)
		}
		reserved, err := s.ReserveDomain(t.Context(), ann, guid(1), "one.test", domain.MaxPerTenant, now.Add(time.Hour))
		must(t, "reserve again", err)
		if reserved.ID == d.ID || !reserved.JustReserved {
			t.Fatalf("reserved %+v, want a new domain", reserved)
		}
		must(t, "end the reservation", s.EndReservation(t.Context(), ann, reserved.ID, reserved.ReservedAt))
		discoverDomains(t, s, ann, now.Add(2*time.Hour), "", "one.test", "two.test")
		if got := strings.Join(domainNamesOf(t, s, ann), " "); got != "one.test two.test" {
			t.Fatalf("after the end of the reservation the domains are %s, want one.test and two.test", got)
		}
	})
}

func TestMissingDomainCanBeRemoved(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		d := addDomain(t, s, ann, guid(1), "one.test")
		discoverDomains(t, s, ann, now.Add(time.Hour), "one.test")
		if got := strings.Join(domainNamesOf(t, s, ann), " "); got != "" {
			t.Fatalf("the listed domains are %s, want none", got)
		}
		found, err := s.RemovableDomain(t.Context(), ann, guid(1), "one.test")
		must(t, "find", err)
		must(t, "remove", s.RemoveDomain(t.Context(), ann, found, now, nil))
		if found.ID != d.ID {
			t.Fatalf("found %+v, want the domain %s", found, d.ID)
		}
	})
}

func TestDomainWithMailboxesIsNotRemoved(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		d := addDomain(t, s, ann, guid(1), "one.test")
		m := addMailbox(t, s, ann, d, "a", mailbox.Ready)
		_, err := s.RemovableDomain(t.Context(), ann, guid(1), "one.test")
		requireRefusal(t, "find", err, fault.DomainInUse)
		requireRefusal(t, "remove", s.RemoveDomain(t.Context(), ann, d, now, nil), fault.DomainInUse)
		m.TenantGUID = guid(1)
		must(t, "remove the mailbox", s.RemoveMailbox(t.Context(), ann, m, now, nil))
		must(t, "remove", s.RemoveDomain(t.Context(), ann, d, now, nil))
	})
}

// TestEitherDomainIsRemovedOrMailboxIsReserved removes a domain and reserves a mailbox in it at the
// same time. Exactly one of the two calls must succeed.
func TestEitherDomainIsRemovedOrMailboxIsReserved(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		for n := range 10 {
			d := addDomain(t, s, ann, guid(1), "d"+string(rune('a'+n))+".test")
			errs := concurrently(2, func(i int) error {
				if i == 0 {
					return s.RemoveDomain(t.Context(), ann, d, now, nil)
				}
				_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "a"), mailbox.MaxPerDomain, now)
				return err
			})
			if (errs[0] == nil) == (errs[1] == nil) {
				t.Fatalf("the removal returned %v and the reservation %v, want exactly one error", errs[0], errs[1])
			}
		}
	})
}

func TestRemovedMailboxIsLeftOutOfLaggingLists(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attachTenant(t, s, ann, 1)
		d := addDomain(t, s, ann, guid(1), "one.test")
		m := addMailbox(t, s, ann, d, "a", mailbox.Ready)
		m.ObjectID, m.Observed.Account = "object-1", now
		must(t, "save", s.SaveMailbox(t.Context(), ann, m))
		_, foreignError := s.RemovableMailbox(t.Context(), bob, guid(1), m.ID)
		_, unknownTenantError := s.RemovableMailbox(t.Context(), bob, guid(9), m.ID)
		requireSameError(t, "mailbox", foreignError, unknownTenantError)
		_, err := s.RemovableMailbox(t.Context(), ann, guid(1), newID())
		requireRefusal(t, "unknown mailbox", err, fault.MailboxNotFound)
		found, err := s.RemovableMailbox(t.Context(), ann, guid(1), m.ID)
		must(t, "find", err)
		if found.ObjectID != "object-1" || found.TenantGUID != guid(1) {
			t.Fatalf("found %+v, want object-1 of the tenant %s", found, guid(1))
		}
		requireRefusal(t, "remove a mailbox of another account", s.RemoveMailbox(t.Context(), bob, found, now, nil), fault.TenantNotFound)
		must(t, "remove", s.RemoveMailbox(t.Context(), ann, found, now, nil))
		requireRefusal(t, "remove again", s.RemoveMailbox(t.Context(), ann, found, now, nil), fault.MailboxNotFound)
		for _, tc := range []struct {
			after    time.Duration
			objectID string
			want     int
		}{
			{time.Minute, "object-1", 0},                        // a lagging replica still lists the mailbox
			{2 * time.Minute, "object-2", 1},                    // created again
			{observation.ReplicaLag + time.Hour, "object-1", 1}, // restored
		} {
			at := now.Add(tc.after)
			must(t, "discover", s.SaveDiscovery(t.Context(), ann, guid(1), ports.DiscoveryResult{Began: at, At: at,
				Mailboxes: []mailbox.Platform{{ObjectID: tc.objectID, Address: m.Address}}}))
			list, err := s.Mailboxes(t.Context(), ann, guid(1))
			must(t, "list", err)
			if len(list) != tc.want {
				t.Fatalf("after %v the mailboxes are %+v, want %d", tc.after, list, tc.want)
			}
		}
	})
}

func TestRemovedMailboxIsKnownWhileReplicasLag(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attachTenant(t, s, ann, 1)
		attachTenant(t, s, ann, 2)
		d := addDomain(t, s, ann, guid(1), "one.test")
		m := addMailbox(t, s, ann, d, "a", mailbox.Ready)
		m.TenantGUID, m.ObjectID = guid(1), "object-1"
		must(t, "remove", s.RemoveMailbox(t.Context(), ann, m, now, nil))
		for _, tc := range []struct {
			name     string
			owner    access.AccountID
			tenant   tenant.GUID
			objectID string
			after    time.Duration
			want     bool
		}{
			{"just removed", ann, guid(1), "object-1", 0, true},
			{"removed a moment less than ReplicaLag ago", ann, guid(1), "object-1", observation.ReplicaLag - time.Millisecond, true},
			{"removed ReplicaLag ago", ann, guid(1), "object-1", observation.ReplicaLag, false},
			{"a different mailbox", ann, guid(1), "object-2", 0, false},
			{"a mailbox without an object id", ann, guid(1), "", 0, false},
			{"a different tenant", ann, guid(2), "object-1", 0, false},
			{"a different account", bob, guid(1), "object-1", 0, false},
		} {
			removed, err := s.MailboxRemoved(t.Context(), tc.owner, tc.tenant, tc.objectID, now.Add(tc.after))
			if must(t, tc.name, err); removed != tc.want {
				t.Errorf("%s: removed is %v, want %v", tc.name, removed, tc.want)
			}
		}
	})
}

func TestRemovedMailboxIsUnblocked(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		d := addDomain(t, s, ann, guid(1), "one.test")
		m := addMailbox(t, s, ann, d, "a", mailbox.Ready)
		_, err := s.db.NewUpdate().Model((*mailboxRow)(nil)).Set("blocked_at = ?", now).Where("account_id = ?", string(ann)).Where("id = ?", m.ID).Exec(t.Context())
		must(t, "block", err)
		state := sendTenantRow{AccountID: string(ann), TenantID: d.TenantID, TimeZone: sendlimit.DefaultTimeZone, DueAt: now}
		_, err = s.db.NewInsert().Model(&state).Exec(t.Context())
		must(t, "add enforcement", err)
		m.TenantGUID = guid(1)
		must(t, "remove", s.RemoveMailbox(t.Context(), ann, m, now.Add(time.Hour), nil))
		log, err := s.Events(t.Context(), ann, ports.EventQuery{Limit: 10})
		must(t, "events", err)
		if len(log.Events) != 1 || log.Events[0].Address != m.Address || log.Events[0].Action != sendlimit.Unblocked || log.Events[0].Tenant != guid(1) {
			t.Fatalf("the events are %+v, want one unblock event of %s", log.Events, m.Address)
		}
	})
}

// TestRemovalOfMailboxWithIntendedBlockIsLoggedOnce removes a mailbox while the outcome of its
// block is unknown. The row stays, but the log must show the removal at once. The later deletion of
// the row must record the unblock, without a second removal. If a discovery finds a new mailbox
// with the address, the log must show its creation.
func TestRemovalOfMailboxWithIntendedBlockIsLoggedOnce(t *testing.T) {
	for name, recreated := range map[string]bool{"the row is deleted": false, "the mailbox is created again": true} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, s *Store) {
				fixture := newSendLimitFixture(t, s, "ann", 1)
				claim := fixture.claim(t, s)
				ada := fixture.boxes[0]
				ada.TenantGUID, ada.ObjectID = fixture.guid, "object of ada"
				must(t, "save", s.SaveMailbox(t.Context(), fixture.owner, ada))
				fixture.saveIntents(t, s, claim, fixture.blockChange(0, 26))
				log := readerAtEnd(t, s, fixture.owner)
				removedAt := now.Add(time.Hour)
				must(t, "remove", s.RemoveMailbox(t.Context(), fixture.owner, ada, removedAt, nil))
				log.requireTypes(t, "removed", event.MailboxRemoved, readinessChanged)
				_, err := s.RemovableMailbox(t.Context(), fixture.owner, fixture.guid, ada.ID)
				requireRefusal(t, "find the removed mailbox", err, fault.MailboxNotFound)
				requireLeaseHeld(t, "block", true)(s.SaveChanges(t.Context(), claim, doneChanges(fixture.blockChange(0, 26))))
				log.requireTypes(t, "the block had taken effect", event.MailboxBlocked)
				if countedBoxes := fixture.listBoxes(t, s, claim); len(countedBoxes) != 2 {
					t.Fatalf("the counted mailboxes are %+v, want 2 with the removed mailbox", countedBoxes)
				}
				discoveredAt := removedAt.Add(observation.ReplicaLag)
				discovery := ports.DiscoveryResult{Began: discoveredAt, At: discoveredAt, Mailboxes: []mailbox.Platform{}, MissedMailboxes: map[string]bool{ada.Address: true}}
				want := []event.Type{event.MailboxUnblocked}
				if recreated {
					discovery.Mailboxes, discovery.MissedMailboxes = []mailbox.Platform{{ObjectID: "a new object", Address: ada.Address}}, nil
					want = []event.Type{event.MailboxCreated, readinessChanged}
				}
				must(t, "discover", s.SaveDiscovery(t.Context(), fixture.owner, fixture.guid, discovery))
				log.requireTypes(t, "discovered", want...)
			})
		})
	}
}

// TestLaterMailboxDoesNotInheritTheLimitOfARemovedOne removes a mailbox while the outcome of its
// block is unknown, so that its row stays. A mailbox that is reserved again without a removal keeps
// its limit, because it may still exist.
func TestLaterMailboxDoesNotInheritTheLimitOfARemovedOne(t *testing.T) {
	for name, removed := range map[string]bool{"the mailbox was removed": true, "the reservation was released": false} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, s *Store) {
				fixture := newSendLimitFixture(t, s, "ann", 1)
				ada := fixture.boxes[0]
				ada.TenantGUID = fixture.guid
				must(t, "set limit", s.SetSendLimit(t.Context(), fixture.owner, ada.ID, 5, now))
				fixture.saveIntents(t, s, fixture.claim(t, s), fixture.blockChange(0, 6))
				d, err := s.Domain(t.Context(), fixture.owner, fixture.guid, "a.test")
				must(t, "find domain", err)
				reserve := func(at time.Time) mailbox.Mailbox {
					boxes, err := s.ReserveMailboxes(t.Context(), fixture.owner, d.ID, mailboxSpecs(d, "ada"), 3, at)
					must(t, "reserve", err)
					return boxes[0]
				}
				want := 0
				if removed {
					must(t, "remove", s.RemoveMailbox(t.Context(), fixture.owner, ada, now.Add(time.Hour), nil))
				} else {
					saveDiscoveryAfterMiss(t, s, fixture.owner, fixture.guid, ports.DiscoveryResult{Began: now.Add(time.Hour), Mailboxes: []mailbox.Platform{}})
					missed := reserve(now.Add(2 * time.Hour))
					must(t, "release", s.ReleaseMailbox(t.Context(), fixture.owner, missed.ID, missed.ReservedAt))
					want = 5
				}
				if m := reserve(now.Add(3 * time.Hour)); m.ID != ada.ID || m.DailySendLimit != want {
					t.Fatalf("got %+v, want the stored row with the limit %d", m, want)
				}
			})
		})
	}
}

// TestRemovedBlockedMailboxWithIntendedBlockIsUnblockedAtOnce removes a mailbox that is stored as
// blocked, while an intended block of it is stored too. The mailbox is known to be blocked, so its
// removal unblocks it and leaves no row.
func TestRemovedBlockedMailboxWithIntendedBlockIsUnblockedAtOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim, ada, block := fixture.claim(t, s), fixture.boxes[0], fixture.blockChange(0, 26)
		ada.TenantGUID = fixture.guid
		requireLeaseHeld(t, "block", true)(s.SaveChanges(t.Context(), claim, doneChanges(block)))
		fixture.saveIntents(t, s, claim, block)
		log := readerAtEnd(t, s, fixture.owner)
		must(t, "remove", s.RemoveMailbox(t.Context(), fixture.owner, ada, now.Add(time.Hour), nil))
		log.requireTypes(t, "removed", event.MailboxUnblocked, event.MailboxRemoved, readinessChanged)
		fixture.requireIntents(t, s, claim)
		if boxes := fixture.listBoxes(t, s, claim); len(boxes) != 1 {
			t.Fatalf("the counted mailboxes are %+v, want only the mailbox that was not removed", boxes)
		}
	})
}
