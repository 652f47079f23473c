// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/ports"
)

func connectionID(n int) string { return fmt.Sprintf("60000000-0000-7000-8000-%012d", n) }

// integrationFixture is an account with two mailboxes and two integrations.
type integrationFixture struct {
	owner                      access.AccountID
	domain                     domain.Domain
	boxes                      []mailbox.Mailbox
	integration1, integration2 integration.Integration
}

// newIntegrationFixture stores the fixture. n makes its ids unique.
func newIntegrationFixture(t testing.TB, s *Store, name string, n int) integrationFixture {
	t.Helper()
	fixture := integrationFixture{owner: newAccount(t, s, name)}
	fixture.domain = addDomain(t, s, fixture.owner, attachTenant(t, s, fixture.owner, n).GUID, name+".test")
	for _, local := range []string{"sales", "support"} {
		fixture.boxes = append(fixture.boxes, addMailbox(t, s, fixture.owner, fixture.domain, local, mailbox.Ready))
	}
	fixture.integration1, fixture.integration2 = addIntegration(t, s, fixture.owner, 10*n), addIntegration(t, s, fixture.owner, 10*n+1)
	return fixture
}

// newConnection returns a connection in which no field is empty, except that HasError is true only
// if the status is failed.
func (fixture integrationFixture) newConnection(i integration.Integration, box int, status integration.ConnectionStatus) integration.Connection {
	return integration.Connection{
		ID: connectionID(100*int(i.CreatedAt.Sub(now)/time.Second) + box), IntegrationID: i.ID, MailboxID: fixture.boxes[box].ID, Status: status,
		PlatformAccountID: "account-" + hostileText, PlatformAccountAddress: "Sales@ann.test", PlatformAccountName: hostileText,
		HasError: status == integration.ConnectionFailed, Reason: hostileText, ConnectedAt: now.Add(time.Minute), UpdatedAt: now,
	}
}

// setConnection saves the connection of a mailbox with the given status, whatever the stored status
// was.
func (fixture integrationFixture) setConnection(t testing.TB, s *Store, i integration.Integration, box int, status integration.ConnectionStatus) integration.Connection {
	t.Helper()
	want := fixture.newConnection(i, box, status)
	previous := fixture.storedConnection(t, s, i, box)
	if previous.ID != "" {
		want.ID = previous.ID
	}
	requireSaved(t, "connect", true)(s.SaveConnection(t.Context(), fixture.owner, want, previous.UpdatedAt, nil))
	return want
}

func (fixture integrationFixture) storedConnection(t testing.TB, s *Store, i integration.Integration, box int) integration.Connection {
	t.Helper()
	e, err := s.EligibleMailbox(t.Context(), fixture.owner, i.ID, fixture.boxes[box].ID)
	must(t, "find eligible mailbox", err)
	return e.Connection
}

func (fixture integrationFixture) requireConnection(t testing.TB, label string, s *Store, i integration.Integration, box int, want integration.Connection) {
	t.Helper()
	if diff := cmp.Diff(want, fixture.storedConnection(t, s, i, box)); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", label, diff)
	}
}

func requireCounts(t testing.TB, s *Store, owner access.AccountID, id string, want integration.Counts) {
	t.Helper()
	got, err := s.ConnectionCounts(t.Context(), owner, id)
	must(t, "count", err)
	if got != want {
		t.Fatalf("counted %+v, want %+v", got, want)
	}
}

var allConnectionStatuses = []integration.ConnectionStatus{
	integration.ConnectionPending, integration.ConnectionConnected, integration.ConnectionFailed,
	integration.ConnectionDisconnected, integration.ConnectionDisconnecting, integration.ConnectionOther,
}

func TestConnectionsAreCountedByStatus(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		requireCounts(t, s, fixture.owner, fixture.integration1.ID, integration.Counts{})
		secondDomain := addDomain(t, s, fixture.owner, guid(1), "more.test")
		for _, local := range []string{"a", "b", "c"} {
			fixture.boxes = append(fixture.boxes, addMailbox(t, s, fixture.owner, secondDomain, local, mailbox.Ready))
		}
		fixture.boxes = append(fixture.boxes, addMailbox(t, s, fixture.owner, fixture.domain, "z", mailbox.Ready))
		for n, status := range allConnectionStatuses {
			fixture.setConnection(t, s, fixture.integration1, n, status)
		}
		fixture.setConnection(t, s, fixture.integration2, 3, integration.ConnectionConnected)
		requireCounts(t, s, fixture.owner, fixture.integration1.ID, integration.Counts{
			Total: 6, Connected: 1, Pending: 1, Failed: 1, Disconnected: 1, Other: 2, HasErrors: true,
		})
		requireCounts(t, s, fixture.owner, fixture.integration2.ID, integration.Counts{Total: 1, Connected: 1})
		requireCounts(t, s, newAccount(t, s, "bob"), fixture.integration1.ID, integration.Counts{})
	})
}

func TestConnectionThatChangedSinceItWasReadIsNotSaved(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		stored := fixture.setConnection(t, s, fixture.integration1, 0, integration.ConnectionConnected)
		fixture.requireConnection(t, "stored", s, fixture.integration1, 0, stored)
		changed := stored
		changed.ID, changed.Status, changed.UpdatedAt = connectionID(7), integration.ConnectionFailed, now.Add(time.Second)
		for _, readUpdatedAt := range []time.Time{{}, now.Add(-time.Second), changed.UpdatedAt} {
			requireSaved(t, "save after a different read", false)(s.SaveConnection(t.Context(), fixture.owner, changed, readUpdatedAt, nil))
			fixture.requireConnection(t, "not saved", s, fixture.integration1, 0, stored)
		}
		changed.PlatformAccountID, changed.PlatformAccountAddress, changed.PlatformAccountName, changed.HasError, changed.Reason = "", "", "", true, ""
		changed.ConnectedAt = time.Time{}
		requireSaved(t, "save", true)(s.SaveConnection(t.Context(), fixture.owner, changed, stored.UpdatedAt, nil))
		changed.ID = stored.ID // an integration has one connection for each mailbox
		fixture.requireConnection(t, "saved", s, fixture.integration1, 0, changed)
		requireSaved(t, "save of a connection that does not exist", false)(s.SaveConnection(t.Context(), fixture.owner, fixture.newConnection(fixture.integration1, 1, integration.ConnectionFailed), now, nil))
		requireSaved(t, "save of a foreign connection", false)(s.SaveConnection(t.Context(), newAccount(t, s, "bob"), changed, changed.UpdatedAt, nil))
	})
}

func TestOnlyOneIntegrationHoldsMailbox(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		for _, status1 := range allConnectionStatuses {
			fixture.setConnection(t, s, fixture.integration2, 0, integration.ConnectionDisconnected)
			connection1 := fixture.setConnection(t, s, fixture.integration1, 0, status1)
			connection2 := fixture.storedConnection(t, s, fixture.integration2, 0)
			for _, status2 := range allConnectionStatuses {
				label := fmt.Sprintf("%s at integration1, %s at integration2", status1, status2)
				saved, err := s.SaveConnection(t.Context(), fixture.owner, fixture.newConnection(fixture.integration2, 0, status2), connection2.UpdatedAt, nil)
				if status1.HoldsMailbox() && status2.HoldsMailbox() {
					requireRefusal(t, label, err, fault.ConnectedElsewhere)
					fixture.requireConnection(t, label, s, fixture.integration2, 0, connection2)
				} else {
					requireSaved(t, label, true)(saved, err)
					fixture.setConnection(t, s, fixture.integration2, 0, integration.ConnectionDisconnected)
				}
				fixture.requireConnection(t, label, s, fixture.integration1, 0, connection1)
			}
			fixture.setConnection(t, s, fixture.integration1, 0, integration.ConnectionDisconnected)
		}
	})
}

func TestOneOfConcurrentConnectionsAtTwoIntegrationsSucceeds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		isSaved := make([]bool, concurrency)
		countWinners(t, concurrently(concurrency, func(n int) (err error) {
			i := []integration.Integration{fixture.integration1, fixture.integration2}[n%2]
			isSaved[n], err = s.SaveConnection(t.Context(), fixture.owner, fixture.newConnection(i, 0, allConnectionStatuses[n%2]), time.Time{}, nil)
			return err
		}), fault.ConnectedElsewhere)
		if n := countTrue(isSaved); n != 1 {
			t.Fatalf("%d connections were saved, want 1", n)
		}
	})
}

func TestDisconnectedMailboxHasNoPendingSession(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		session, otherBoxSession := fixture.beginSession(t, s, fixture.integration1, 0, 1), fixture.beginSession(t, s, fixture.integration1, 1, 2)
		for _, status := range []integration.ConnectionStatus{integration.ConnectionDisconnecting, integration.ConnectionFailed} {
			fixture.setConnection(t, s, fixture.integration1, 0, status)
			fixture.requireSession(t, string(status), s, session)
		}
		fixture.setConnection(t, s, fixture.integration1, 0, integration.ConnectionDisconnected)
		session.Status, session.Reason = integration.SessionFailed, "disconnected"
		fixture.requireSession(t, "session of the disconnected mailbox", s, session)
		fixture.requireSession(t, "session of the second mailbox", s, otherBoxSession)
		fixture.beginSession(t, s, fixture.integration2, 0, 3)
	})
}

func TestConnectionsAreDeletedWithTheirMailboxAndTenant(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		for box := range fixture.boxes {
			fixture.beginSession(t, s, fixture.integration1, box, box+1)
			fixture.setConnection(t, s, fixture.integration2, box, integration.ConnectionDisconnected)
		}
		discoverAndFind(t, s, fixture, "found@ann.test", fixture.boxes[1].Address)
		requireCounts(t, s, fixture.owner, fixture.integration1.ID, integration.Counts{Total: 1, Pending: 1})
		requireCounts(t, s, fixture.owner, fixture.integration2.ID, integration.Counts{Total: 1, Disconnected: 1})
		_, err := s.Session(t.Context(), fixture.owner, fixture.integration1.ID, fixture.boxes[0].ID, sessionID(1))
		requireRefusal(t, "session of a deleted mailbox", err, fault.SessionNotFound)
		must(t, "delete tenant", s.DeleteTenant(t.Context(), fixture.owner, guid(1), nil))
		requireCounts(t, s, fixture.owner, fixture.integration1.ID, integration.Counts{})
		requireIntegrations(t, s, fixture.owner, fixture.integration2, fixture.integration1)
	})
}

func TestConnectionAndItsAnswerAreCommittedTogether(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		connected := fixture.setConnection(t, s, fixture.integration1, 0, integration.ConnectionConnected)
		disconnecting := connected
		disconnecting.Status, disconnecting.UpdatedAt = integration.ConnectionDisconnecting, now.Add(time.Second)
		requireCommitted(t, s, fixture.owner, map[string]func(storedAnswer *ports.StoredAnswer) error{
			"a changed connection": func(storedAnswer *ports.StoredAnswer) error {
				_, err := s.SaveConnection(t.Context(), fixture.owner, disconnecting, connected.UpdatedAt, storedAnswer)
				return err
			},
			"a new connection": func(storedAnswer *ports.StoredAnswer) error {
				_, err := s.SaveConnection(t.Context(), fixture.owner, fixture.newConnection(fixture.integration2, 1, integration.ConnectionFailed), time.Time{}, storedAnswer)
				return err
			},
		}, func() {
			fixture.requireConnection(t, "the changed connection", s, fixture.integration1, 0, connected)
			fixture.requireConnection(t, "the new connection", s, fixture.integration2, 1, integration.Connection{})
		})
		claim := newClaim(fixture.owner, 99)
		storedAnswer := newStoredAnswer(claim, mustClaim(t, s, claim))
		requireSaved(t, "save after an outdated read", false)(s.SaveConnection(t.Context(), fixture.owner, connected, connected.UpdatedAt, storedAnswer))
		if r := requireRecord(t, s, claim.Key); r.Answer != nil {
			t.Fatalf("the record of the key is %+v, want no answer, because nothing was changed", r)
		}
	})
}

const unknownMailboxID = "70000000-0000-4000-8000-000000000000"

func TestProvisionedMailboxesAreEligibleInOrderOfAddress(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		newIntegrationFixture(t, s, "bob", 2)
		secondDomain := addDomain(t, s, fixture.owner, attachTenant(t, s, fixture.owner, 3).GUID, "more.test")
		addMailbox(t, s, fixture.owner, secondDomain, "a", mailbox.Created)
		addMailbox(t, s, fixture.owner, secondDomain, "unfinished", mailbox.Creating)
		discoverAndFind(t, s, fixture, "found@ann.test", fixture.boxes[0].Address, fixture.boxes[1].Address)
		failedConnection := fixture.setConnection(t, s, fixture.integration1, 0, integration.ConnectionFailed)
		fixture.setConnection(t, s, fixture.integration2, 1, integration.ConnectionConnected)
		got, err := s.Eligible(t.Context(), fixture.owner, fixture.integration1.ID)
		must(t, "eligible", err)
		if len(got) != 3 || got[0].Mailbox.Address != "a@more.test" || got[0].Mailbox.TenantGUID != guid(3) {
			t.Fatalf("got %+v, want three mailboxes, of which a@more.test is the first", got)
		}
		stored, err := s.Mailbox(t.Context(), fixture.owner, guid(1), fixture.boxes[0].ID)
		must(t, "mailbox", err)
		if diff := cmp.Diff([]integration.EligibleMailbox{{Mailbox: stored, Connection: failedConnection}}, got[1:2]); diff != "" ||
			stored.TenantName != "Contoso" || stored.DomainName != "ann.test" {
			t.Fatalf("the mailbox is %+v; in the list (-want +got):\n%s", stored, diff)
		}
		if got[0].Connection != (integration.Connection{}) || got[2].Connection != (integration.Connection{}) {
			t.Fatalf("got %+v, want no connection at the first and the third mailbox", got)
		}
		eligible, err := s.EligibleMailbox(t.Context(), fixture.owner, fixture.integration1.ID, stored.ID)
		must(t, "find eligible mailbox", err)
		if diff := cmp.Diff(got[1], eligible); diff != "" {
			t.Fatalf("a single read differs from the list (-list +single):\n%s", diff)
		}
	})
}

func TestEligibleMailboxShowsWhetherDifferentIntegrationHoldsIt(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		for _, status2 := range allConnectionStatuses {
			fixture.setConnection(t, s, fixture.integration2, 0, status2)
			eligible, err := s.Eligible(t.Context(), fixture.owner, fixture.integration1.ID)
			must(t, "eligible", err)
			if len(eligible) != 2 || eligible[0].HeldElsewhere != status2.HoldsMailbox() || eligible[1].HeldElsewhere {
				t.Fatalf("%s at integration2: eligible at integration1 are %+v, want two mailboxes; the first is held elsewhere: want %v, the second: want false", status2, eligible, status2.HoldsMailbox())
			}
			atIntegration1, err := s.EligibleMailbox(t.Context(), fixture.owner, fixture.integration1.ID, fixture.boxes[0].ID)
			must(t, "find eligible mailbox of integration1", err)
			atIntegration2, err := s.EligibleMailbox(t.Context(), fixture.owner, fixture.integration2.ID, fixture.boxes[0].ID)
			must(t, "find eligible mailbox of integration2", err)
			if atIntegration1.HeldElsewhere != status2.HoldsMailbox() || atIntegration2.HeldElsewhere {
				t.Fatalf("%s at integration2: the mailbox is %+v at integration1, want held elsewhere %v, and %+v at integration2, want false", status2, atIntegration1, status2.HoldsMailbox(), atIntegration2)
			}
		}
	})
}

func TestAccountWithoutMailboxesHasNoneEligible(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		got, err := s.Eligible(t.Context(), ann, addIntegration(t, s, ann, 1).ID)
		must(t, "eligible", err)
		if len(got) != 0 {
			t.Fatalf("got %+v, want no mailbox", got)
		}
	})
}

func TestForeignAndDiscoveredMailboxesAreNotEligible(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newIntegrationFixture(t, s, "ann", 1), newIntegrationFixture(t, s, "bob", 2)
		discovered := discoverAndFind(t, s, bob, "found@bob.test", bob.boxes[0].Address, bob.boxes[1].Address)
		for label, use := range map[string]func(integrationID, mailboxID string) error{
			"find": func(integrationID, mailboxID string) error {
				_, err := s.EligibleMailbox(t.Context(), bob.owner, integrationID, mailboxID)
				return err
			},
			"begin": func(integrationID, mailboxID string) error {
				bobSession := newSession(bob.integration1, bob.boxes[0], 1)
				bobSession.IntegrationID, bobSession.MailboxID = integrationID, mailboxID
				return s.BeginSession(t.Context(), bob.owner, bobSession, connectionID(1), now)
			},
			"save": func(integrationID, mailboxID string) error {
				c := bob.newConnection(bob.integration1, 0, integration.ConnectionConnected)
				c.IntegrationID, c.MailboxID = integrationID, mailboxID
				_, err := s.SaveConnection(t.Context(), bob.owner, c, time.Time{}, nil)
				return err
			},
		} {
			foreignMailboxErr := use(bob.integration1.ID, ann.boxes[0].ID)
			requireRefusal(t, label, foreignMailboxErr, fault.MailboxNotFound)
			for name, id := range map[string]string{"unknown": unknownMailboxID, "nonsense": "x", "discovered": discovered.ID} {
				requireSameError(t, label+" "+name, foreignMailboxErr, use(bob.integration1.ID, id))
			}
			foreignIntegrationErr := use(ann.integration1.ID, ann.boxes[0].ID)
			requireRefusal(t, label+" by a foreign integration", foreignIntegrationErr, fault.IntegrationNotFound)
			requireSameError(t, label+" by an unknown integration", foreignIntegrationErr, use(integrationID(99), "x"))
		}
		requireCounts(t, s, ann.owner, ann.integration1.ID, integration.Counts{})
		requireCounts(t, s, bob.owner, bob.integration1.ID, integration.Counts{})
	})
}

// discoverAndFind stores a discovery that lists exactly the given addresses, and returns the
// mailbox with the first address.
func discoverAndFind(t testing.TB, s *Store, fixture integrationFixture, addresses ...string) mailbox.Mailbox {
	t.Helper()
	discovery := ports.DiscoveryResult{Mailboxes: []mailbox.Platform{}, Began: time.Now().Add(time.Hour)}
	for _, address := range addresses {
		discovery.Mailboxes = append(discovery.Mailboxes, mailbox.Platform{Address: address})
	}
	saveDiscoveryAfterMiss(t, s, fixture.owner, fixture.domain.TenantGUID, discovery)
	mailboxes, err := s.Mailboxes(t.Context(), fixture.owner, fixture.domain.TenantGUID)
	must(t, "list mailboxes", err)
	for _, m := range mailboxes {
		if m.Address == addresses[0] {
			return m
		}
	}
	t.Fatalf("the mailboxes are %+v, want one with the address %s", mailboxes, addresses[0])
	return mailbox.Mailbox{}
}
