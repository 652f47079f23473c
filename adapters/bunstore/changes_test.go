// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// logReader reads the event log of an account.
type logReader struct {
	store *Store
	owner access.AccountID
	after int64 // the position behind the last event that was read
}

// nextEvents returns the events that were logged since the last call.
func (r *logReader) nextEvents(t testing.TB) []event.Event {
	t.Helper()
	page, err := r.store.LoggedEvents(t.Context(), r.owner, ports.LogQuery{After: r.after, Limit: 1000})
	must(t, "read the log", err)
	if page.More {
		t.Fatal("the log has more than 1000 new events, want one page")
	}
	r.after = page.Next
	return page.Events
}

// requireTypes checks the types of the events since the last call, and returns these events.
func (r *logReader) requireTypes(t testing.TB, label string, want ...event.Type) []event.Event {
	t.Helper()
	events := r.nextEvents(t)
	var got []event.Type
	for _, e := range events {
		got = append(got, e.Type)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s: the events are %q, want %q", label, got, want)
	}
	return events
}

// readerAtEnd returns a reader that skips the events that are logged so far.
func readerAtEnd(t testing.TB, s *Store, owner access.AccountID) *logReader {
	t.Helper()
	r := &logReader{store: s, owner: owner}
	r.nextEvents(t)
	return r
}

const readinessChanged = event.TenantReadinessChanged

func TestEachChangeOfTenantIsLoggedOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		log := readerAtEnd(t, s, ann)
		attached := attachTenant(t, s, ann, 1)
		connectedEvent := log.requireTypes(t, "attach", event.TenantConnected)[0]
		if connectedEvent.Tenant != guid(1) || connectedEvent.Subject != (event.Subject{Type: event.Tenant, ID: string(guid(1))}) {
			t.Fatalf("the event is %+v, want the tenant %s as its tenant and subject", connectedEvent, guid(1))
		}
		attached.Name, attached.Observed.Profile = "Other name", now
		must(t, "save", s.SaveTenant(t.Context(), ann, attached))
		log.requireTypes(t, "a different name")
		attached.Consent, attached.Observed.Consent = tenant.ConsentRevoked, now.Add(time.Hour)
		must(t, "save", s.SaveTenant(t.Context(), ann, attached))
		log.requireTypes(t, "revoke", event.TenantAccessLost, readinessChanged)
		must(t, "save", s.SaveTenant(t.Context(), ann, attached))
		log.requireTypes(t, "revoke again")
		_, err := s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(1), ConsentedAt: now.Add(2 * time.Hour)})
		must(t, "attach again", err)
		log.requireTypes(t, "attach again", event.TenantAccessRestored, readinessChanged)
		must(t, "delete", s.DeleteTenant(t.Context(), ann, guid(1), nil))
		removedEvent := log.requireTypes(t, "delete", event.TenantRemoved)[0]
		if removedEvent.Version != 6 {
			t.Fatalf("the version is %d, want 6, because the tenant had five events before", removedEvent.Version)
		}
	})
}

func TestEachChangeOfDomainIsLoggedOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		log := readerAtEnd(t, s, ann)
		reserved, err := s.ReserveDomain(t.Context(), ann, guid(1), "released.test", domain.MaxPerTenant, now)
		must(t, "reserve", err)
		must(t, "release", s.EndReservation(t.Context(), ann, reserved.ID, reserved.ReservedAt))
		log.requireTypes(t, "a released reservation")
		d := addDomain(t, s, ann, guid(1), "a.test")
		log.requireTypes(t, "add", event.DomainAdded, readinessChanged)
		save := func(label string, want ...event.Type) {
			t.Helper()
			must(t, label, s.SaveDomain(t.Context(), ann, d, nil))
			log.requireTypes(t, label, want...)
		}
		d.Verified = true
		save("verify", event.DomainVerified, readinessChanged)
		d.DKIMEnabled = true
		save("enable DKIM", event.DomainDKIMEnabled)
		d.CheckedAt, d.Health = now, domain.Health{EverCorrect: []domain.Drift{domain.MXMoved}}
		save("a DNS check without drift")
		d.CheckedAt, d.Health.Drifted = now.Add(time.Hour), []domain.Drift{domain.MXMoved}
		save("drift", event.DomainHealthChanged)
		d.CheckedAt, d.Health.Drifted = now.Add(2*time.Hour), nil
		save("no drift any longer", event.DomainHealthChanged)
		began := now.Add(time.Hour)
		discovery := ports.DiscoveryResult{Began: began, At: began, Domains: []domain.Platform{{Name: "b.test", Verified: true}}}
		must(t, "first miss", s.SaveDiscovery(t.Context(), ann, guid(1), withMissedNames(t, s, ann, guid(1), discovery)))
		log.requireTypes(t, "one domain is missed and a new domain is found", event.DomainAdded, event.DomainVerified)
		discovery.Began = began.Add(observation.ReplicaLag)
		must(t, "second miss", s.SaveDiscovery(t.Context(), ann, guid(1), withMissedNames(t, s, ann, guid(1), discovery)))
		removedEvent := log.requireTypes(t, "a domain missed again", event.DomainRemoved)[0]
		if removedEvent.Subject.ID != d.ID || removedEvent.Tenant != guid(1) {
			t.Fatalf("the event is %+v, want the domain %s of the tenant %s", removedEvent, d.ID, guid(1))
		}
	})
}

func TestMissingDomainThatIsAddedAgainIsLoggedAsRemovedAndAdded(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		d := addDomain(t, s, ann, guid(1), "a.test")
		missed := ports.DiscoveryResult{Began: now.Add(time.Hour), Domains: []domain.Platform{}}
		must(t, "miss", s.SaveDiscovery(t.Context(), ann, guid(1), withMissedNames(t, s, ann, guid(1), missed)))
		log := readerAtEnd(t, s, ann)
		reserved, err := s.ReserveDomain(t.Context(), ann, guid(1), d.Name, domain.MaxPerTenant, now.Add(2*time.Hour))
		must(t, "reserve again", err)
		log.requireTypes(t, "reserve again", event.DomainRemoved)
		reserved.Added, reserved.Observed.State = true, now.Add(3*time.Hour)
		must(t, "add again", s.SaveDomain(t.Context(), ann, reserved, nil))
		log.requireTypes(t, "add again", event.DomainAdded, readinessChanged)
	})
}

func TestEachChangeOfMailboxIsLoggedOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		d, err := s.Domain(t.Context(), fixture.owner, fixture.guid, "a.test")
		must(t, "find domain", err)
		log := readerAtEnd(t, s, fixture.owner)
		reserved, err := s.ReserveMailboxes(t.Context(), fixture.owner, d.ID, mailboxSpecs(d, "eve"), mailbox.MaxPerDomain, now)
		must(t, "reserve", err)
		box := reserved[0]
		box.Stage, box.Provisioned = mailbox.Creating, true
		must(t, "create", s.SaveMailbox(t.Context(), fixture.owner, box))
		log.requireTypes(t, "a mailbox that is being created")
		box.Stage = mailbox.Created
		must(t, "created", s.SaveMailbox(t.Context(), fixture.owner, box))
		log.requireTypes(t, "created", event.MailboxCreated, readinessChanged)
		box.Stage, box.AccountEnabled = mailbox.Ready, true
		must(t, "ready", s.ConcludeMailboxes(t.Context(), fixture.owner, []mailbox.Mailbox{box}, nil))
		log.requireTypes(t, "ready", event.MailboxUpdated)
		must(t, "limit", s.SetSendLimit(t.Context(), fixture.owner, box.ID, 7, now))
		updatedEvent := log.requireTypes(t, "a limit", event.MailboxUpdated)[0]
		must(t, "limit", s.SetSendLimit(t.Context(), fixture.owner, box.ID, 7, now))
		log.requireTypes(t, "the same limit")
		var data event.MailboxData
		must(t, "decode", json.Unmarshal(updatedEvent.Data.(json.RawMessage), &data))
		if data.DailySendLimit == nil || *data.DailySendLimit != 7 || data.Email != box.Address || data.TenantID != string(fixture.guid) {
			t.Fatalf("the data is %+v, want the limit 7, the address %s and the tenant %s", data, box.Address, fixture.guid)
		}
		claim := fixture.claim(t, s)
		requireLeaseHeld(t, "block", true)(s.SaveChanges(t.Context(), claim, doneChanges(fixture.blockChange(0, 26))))
		log.requireTypes(t, "block", event.MailboxBlocked)
		requireLeaseHeld(t, "block", true)(s.SaveChanges(t.Context(), claim, doneChanges(fixture.blockChange(0, 26))))
		log.requireTypes(t, "block again")
		requireLeaseHeld(t, "unblock", true)(s.SaveChanges(t.Context(), claim, doneChanges(fixture.newChange(0, 1, sendlimit.Unblocked))))
		log.requireTypes(t, "unblock", event.MailboxUnblocked)
		requireLeaseHeld(t, "block", true)(s.SaveChanges(t.Context(), claim, doneChanges(fixture.blockChange(1, 26))))
		log.requireTypes(t, "block", event.MailboxBlocked)
		discovery := ports.DiscoveryResult{Began: now.Add(time.Hour), At: now.Add(time.Hour), Mailboxes: platformMailboxes(box.Address, "new@a.test")}
		saveDiscoveryAfterMiss(t, s, fixture.owner, fixture.guid, discovery)
		log.requireTypes(t, "a discovery", event.MailboxUpdated, event.MailboxUnblocked, event.MailboxVanished, event.MailboxVanished, event.MailboxCreated, readinessChanged)
	})
}

// TestReservedMailboxVanishesOnlyWithItsRow checks the log of a mailbox that a discovery misses and
// a request then reserves again. The mailbox must not be logged as vanished while its row stays. If
// a later discovery finds the same object, the mailbox must not be logged as created. A different
// object at the address is a new mailbox, and must be logged as created.
func TestReservedMailboxVanishesOnlyWithItsRow(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		must(t, "discover", s.SaveDiscovery(t.Context(), ann, guid(1), ports.DiscoveryResult{Began: now, At: now, Mailboxes: platformMailboxes("a@" + d.Name)}))
		log, at := readerAtEnd(t, s, ann), now
		later := func() time.Time {
			at = at.Add(2 * time.Hour) // two misses so far apart remove a mailbox, also a reserved one
			return at
		}
		missAndReserve := func() mailbox.Mailbox {
			t.Helper()
			discoverNoMailboxes(t, s, ann, guid(1), later())
			reserved, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "a"), mailbox.MaxPerDomain, later())
			must(t, "reserve", err)
			log.requireTypes(t, "missed and reserved again", readinessChanged)
			return reserved[0]
		}
		missAndReserve()
		foundAt := later()
		found := ports.DiscoveryResult{Began: foundAt, At: foundAt, Mailboxes: platformMailboxes("a@" + d.Name)}
		must(t, "find", s.SaveDiscovery(t.Context(), ann, guid(1), found))
		log.requireTypes(t, "found again", readinessChanged)

		box := missAndReserve()
		box.Stage, box.Observed.Stage = mailbox.Creating, later()
		must(t, "create", s.SaveMailbox(t.Context(), ann, box))
		foundAt = later()
		found.Began, found.At = foundAt, foundAt
		found.Mailboxes[0].ObjectID = "a different object"
		must(t, "find", s.SaveDiscovery(t.Context(), ann, guid(1), found))
		log.requireTypes(t, "created anew", event.MailboxCreated, readinessChanged)
		box.Stage, box.Observed.Stage = mailbox.Ready, later()
		must(t, "complete", s.SaveMailbox(t.Context(), ann, box))
		log.requireTypes(t, "completed", event.MailboxUpdated)

		missAndReserve()
		discoverNoMailboxes(t, s, ann, guid(1), later())
		log.requireTypes(t, "missed again", event.MailboxVanished)
	})
}

func TestEachResultOfProvisioningIsLoggedOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		domains := manyDomains(t, s, ann, 0, 2)
		log := readerAtEnd(t, s, ann)
		run, job1 := newRun(ann, domains[0], 1)
		run.TotalDomains = 2
		_, job2 := newRun(ann, domains[1], 2)
		must(t, "create run", s.CreateRun(t.Context(), run, []provisioning.Job{job1, job2}, nil))
		hourLater := now.Add(time.Hour)
		job1, job2 = claimJob(t, s, job1.ID, hourLater), claimJob(t, s, job2.ID, hourLater)
		log.requireTypes(t, "two jobs run")
		needsAction := job1
		needsAction.Status, needsAction.RequiredAction = provisioning.ActionRequired, "dns_conflict"
		requireLeaseHeld(t, "save", true)(s.SaveJob(t.Context(), needsAction))
		log.requireTypes(t, "a conflict", event.DNSJobActionRequired)
		_, err := s.RetryJob(t.Context(), ann, job1.ID, hourLater, nil)
		must(t, "retry", err)
		log.requireTypes(t, "a retry")
		job1 = claimJob(t, s, job1.ID, hourLater)
		saveJobStatus(t, s, job1, provisioning.Completed)
		log.requireTypes(t, "one job is completed")
		saveJobStatus(t, s, job2, provisioning.Failed)
		log.requireTypes(t, "one job is completed and one failed", event.DNSJobFailed, event.DNSRunCompleted)
		// The deletion of a domain can also complete a run.
		run3, job3 := newRun(ann, domains[0], 3)
		_, job4 := newRun(ann, domains[1], 4)
		must(t, "create run", s.CreateRun(t.Context(), run3, []provisioning.Job{job3, job4}, nil))
		saveJobStatus(t, s, claimJob(t, s, job3.ID, hourLater), provisioning.Completed)
		log.requireTypes(t, "one of two jobs is completed")
		saveDiscoveryAfterMiss(t, s, ann, guid(1), ports.DiscoveryResult{Began: hourLater, Domains: []domain.Platform{{Name: domains[0].Name}}})
		log.requireTypes(t, "the domain of a job was deleted", event.DomainRemoved, event.DNSRunCompleted, readinessChanged)
	})
}

// TestRunIsCompletedOnceByConcurrentJobs ends the last two jobs of a run at the same time. The run
// must be logged as completed once.
func TestRunIsCompletedOnceByConcurrentJobs(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		domains := manyDomains(t, s, ann, 0, 2)
		for round := range 5 { // in some rounds the jobs do not end at the same time
			run, job1 := newRun(ann, domains[0], 2*round)
			_, job2 := newRun(ann, domains[1], 2*round+1)
			must(t, "create run", s.CreateRun(t.Context(), run, []provisioning.Job{job1, job2}, nil))
			jobs := []provisioning.Job{claimJob(t, s, job1.ID, now.Add(time.Hour)), claimJob(t, s, job2.ID, now.Add(time.Hour))}
			log := readerAtEnd(t, s, ann)
			for _, err := range concurrently(2, func(i int) error {
				jobs[i].Status = provisioning.Completed
				_, err := s.SaveJob(t.Context(), jobs[i])
				return err
			}) {
				must(t, "save", err)
			}
			log.requireTypes(t, "both jobs ended", event.DNSRunCompleted)
		}
	})
}

func TestEachChangeOfIntegrationAndConnectionsIsLoggedOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		log := readerAtEnd(t, s, fixture.owner)
		newIntegration := addIntegration(t, s, fixture.owner, 30)
		log.requireTypes(t, "add", event.IntegrationConnected)
		newIntegration.Status = integration.Failed
		must(t, "save", s.SaveIntegration(t.Context(), newIntegration, nil))
		must(t, "save again", s.SaveIntegration(t.Context(), newIntegration, nil))
		log.requireTypes(t, "rejected", event.IntegrationCredentialRejected)
		fixture.setConnection(t, s, fixture.integration1, 0, integration.ConnectionPending)
		log.requireTypes(t, "pending")
		fixture.setConnection(t, s, fixture.integration1, 0, integration.ConnectionConnected)
		connectedEvent := log.requireTypes(t, "connected", event.ConnectionConnected)[0]
		if connectedEvent.Tenant != guid(1) {
			t.Fatalf("the event is %+v, want the tenant %s", connectedEvent, guid(1))
		}
		fixture.setConnection(t, s, fixture.integration1, 0, integration.ConnectionFailed)
		log.requireTypes(t, "failed", event.ConnectionExpired)
		listed := []integration.Connection{fixture.newConnection(fixture.integration1, 0, integration.ConnectionConnected), fixture.newConnection(fixture.integration1, 1, integration.ConnectionConnected)}
		for range 2 {
			_, err := s.SaveRefresh(t.Context(), fixture.owner, fixture.integration1, now.Add(time.Hour), listed, nil)
			must(t, "refresh", err)
		}
		log.requireTypes(t, "a refresh", event.ConnectionConnected, event.ConnectionConnected)
		must(t, "remove", s.RemoveIntegration(t.Context(), fixture.owner, fixture.integration1.ID, nil))
		log.requireTypes(t, "remove", event.ConnectionDisconnected, event.ConnectionDisconnected, event.IntegrationRemoved)
	})
}

func TestEachChangeOfPolicyIsLoggedOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		addDomain(t, s, ann, guid(1), "a.test")
		log := readerAtEnd(t, s, ann)
		setPolicy(t, s, ann, guid(1), "a.test", 5)
		log.requireTypes(t, "set", event.PolicySet)
		setPolicy(t, s, ann, guid(1), "a.test", 5)
		log.requireTypes(t, "set again")
		setPolicy(t, s, ann, guid(1), "a.test", 6)
		log.requireTypes(t, "a different limit", event.PolicySet)
		removeAllDomains(t, s, ann, guid(1))
		removedEvent := log.requireTypes(t, "the domain is removed", event.PolicyRemoved, event.DomainRemoved, readinessChanged)[0]
		addDomain(t, s, ann, guid(1), "a.test")
		log.requireTypes(t, "a new domain of the name", event.DomainAdded, readinessChanged)
		setPolicy(t, s, ann, guid(1), "a.test", 7)
		if setEvent := log.requireTypes(t, "a new policy", event.PolicySet)[0]; removedEvent.Subject.ID == setEvent.Subject.ID || removedEvent.Tenant != guid(1) {
			t.Fatalf("the events are %+v and %+v, want different policies, and the tenant %s", removedEvent, setEvent, guid(1))
		}
		removeAllDomains(t, s, ann, guid(1))
		log.requireTypes(t, "the new domain is removed", event.PolicyRemoved, event.DomainRemoved, readinessChanged)
		must(t, "delete tenant", s.DeleteTenant(t.Context(), ann, guid(1), nil))
		log.requireTypes(t, "the tenant without policies is removed", event.TenantRemoved)
	})
}

// TestPolicyEndsOnceIfItIsRemovedWithItsDomain removes a policy while a transaction removes the
// domain of the policy.
func TestPolicyEndsOnceIfItIsRemovedWithItsDomain(t *testing.T) {
	url := testserver.Database(t) // not shared, because the test observes all database connections
	s, hook := migratedStore(t, url), newPausingHook(`DELETE FROM "domains"`)
	pausingStore := openStore(t, url, hook)
	ann := newAccount(t, s, "ann")
	markReady(t, s, ann, attachTenant(t, s, ann, 1))
	d := addDomain(t, s, ann, guid(1), "a.test")
	policy := setPolicy(t, s, ann, guid(1), d.Name, 5)
	claim, isClaimed, err := s.SeizeTenant(t.Context(), ann, guid(1), longLease)
	if err != nil || !isClaimed {
		t.Fatalf("claimed is %v, want true (%v)", isClaimed, err)
	}
	log := readerAtEnd(t, s, ann)
	domainRemoved, policyRemoved := make(chan error, 1), make(chan error, 1)
	go func() { domainRemoved <- pausingStore.RemoveDomain(t.Context(), ann, d, now, nil) }()
	<-hook.paused
	go func() {
		_, err := s.RemovePolicy(t.Context(), claim, policy.ID, nil)
		policyRemoved <- err
	}()
	waitForLock(t, s)
	close(hook.resume)
	must(t, "remove the domain", <-domainRemoved)
	requireRefusal(t, "remove the policy", <-policyRemoved, fault.PolicyNotFound)
	log.requireTypes(t, "both removals", event.PolicyRemoved, event.DomainRemoved, readinessChanged)
}

func TestEachChangeOfKeyIsLoggedOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		log := readerAtEnd(t, s, ann)
		key := newKey(t, s, ann, 1)
		log.requireTypes(t, "add", event.KeyCreated)
		must(t, "rotate", s.RotateKey(t.Context(), ann, key.ID, apiKey(ann, 2)))
		rotationEvents := log.requireTypes(t, "rotate", event.KeyRevoked, event.KeyRotated)
		if oldID, successorID := rotationEvents[0].Subject.ID, rotationEvents[1].Subject.ID; oldID != key.ID || successorID != apiKey(ann, 2).ID {
			t.Fatalf("the events are about the keys %s and %s, want the rotated key %s and its successor", oldID, successorID, key.ID)
		}
		for range 2 {
			_, err := s.RevokeKey(t.Context(), apiKey(ann, 2).ID, now)
			must(t, "revoke", err)
		}
		log.requireTypes(t, "revoke", event.KeyRevoked)
	})
}

// TestEachObjectOfRemovedTenantHasARemovalEvent checks that each object that is removed with a
// tenant has its own event. A client that reads only the events of mailboxes, for example, then
// sees their removal. A reserved domain and a run have no removal event.
func TestEachObjectOfRemovedTenantHasARemovalEvent(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		fixture.setConnection(t, s, fixture.integration1, 0, integration.ConnectionConnected)
		setPolicy(t, s, fixture.owner, guid(1), sendlimit.TenantWide, 5)
		reserved, err := s.ReserveDomain(t.Context(), fixture.owner, guid(1), "reserved.test", domain.MaxPerTenant, now)
		must(t, "reserve", err)
		job := startRun(t, s, fixture.owner, fixture.domain, 1)
		log := readerAtEnd(t, s, fixture.owner)
		must(t, "delete", s.DeleteTenant(t.Context(), fixture.owner, guid(1), nil))
		events := log.requireTypes(t, "delete", event.ConnectionDisconnected, event.MailboxRemoved, event.MailboxRemoved,
			event.PolicyRemoved, event.DomainRemoved, event.TenantRemoved)
		for _, e := range events {
			if e.Tenant != guid(1) || e.Subject.ID == reserved.ID || e.Subject.ID == job.RunID {
				t.Errorf("got the event %+v, want the tenant %s, and neither the reserved domain nor the run as subject", e, guid(1))
			}
		}
		must(t, "delete again", errorOtherThan(s.DeleteTenant(t.Context(), fixture.owner, guid(1), nil), tenantNotFound()))
		log.requireTypes(t, "delete again")
	})
}

// errorOtherThan returns nil if err has the text of expected, and an error otherwise.
func errorOtherThan(err, expected error) error {
	if err != nil && err.Error() == expected.Error() {
		return nil
	}
	return fmt.Errorf("got %w, want %v", err, expected)
}

// TestLastEventHasTheReadinessAfterConcurrentChanges changes the domains of a tenant in concurrent
// transactions. The last event must have the readiness after all changes.
func TestLastEventHasTheReadinessAfterConcurrentChanges(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		domains := manyDomains(t, s, ann, 0, 8)
		log := readerAtEnd(t, s, ann)
		for _, err := range concurrently(len(domains), func(i int) error {
			domains[i].Verified = true
			return s.SaveDomain(t.Context(), ann, domains[i], nil)
		}) {
			must(t, "verify", err)
		}
		events := log.nextEvents(t)
		var lastReadiness event.ReadinessData
		must(t, "decode", json.Unmarshal(events[len(events)-1].Data.(json.RawMessage), &lastReadiness))
		if len(events) != 2*len(domains) || lastReadiness.DomainsVerified != len(domains) {
			t.Fatalf("%d events, want %d; the last event has %d verified domains, want %d", len(events), 2*len(domains), lastReadiness.DomainsVerified, len(domains))
		}
	})
}

// TestReadinessFollowsDomains changes values of a domain that the readiness of a tenant counts.
// After each change, the stored readinessRow must have the readiness of the stored tenant.
func TestReadinessFollowsDomains(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attached := attachTenant(t, s, ann, 1)
		attached.Bootstrap, attached.SMTPAuth, attached.Discovery = tenant.BootstrapReady, tenant.SMTPAuthEnabled, tenant.DiscoveryCompleted
		attached.Observed = tenant.Observed{Bootstrap: now, SMTPAuth: now, Discovery: now}
		must(t, "save tenant", s.SaveTenant(t.Context(), ann, attached))
		d := addDomain(t, s, ann, guid(1), "a.test")
		readinessTexts := map[string]bool{}
		for i := range 32 {
			flags, at := i^i>>1, now.Add(time.Duration(i+1)*time.Minute) // flags is a Gray code: each step changes one bit
			d.Verified, d.DKIMEnabled, d.Status.VerificationSeen, d.Added, d.MissingSince = flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0, time.Time{}
			if flags&16 != 0 {
				d.MissingSince = at
			}
			d.CheckedAt, d.Observed = at, domain.Observed{State: at, Signing: at}
			must(t, "save domain", s.SaveDomain(t.Context(), ann, d, nil))
			stored, err := s.Tenant(t.Context(), ann, guid(1))
			must(t, "find tenant", err)
			var row readinessRow
			must(t, "find readiness", s.db.NewSelect().Model(&row).Where("tr.account_id = ?", accountKey(ann)).Scan(t.Context()))
			var got event.ReadinessData
			must(t, "decode", json.Unmarshal(row.Readiness, &got))
			if diff := cmp.Diff(event.OfReadiness(guid(1), stored.Readiness(true)).Data, any(got)); diff != "" {
				t.Fatalf("the readiness with the flags %05b (-want +got):\n%s", flags, diff)
			}
			readinessTexts[string(row.Readiness)] = true
		}
		if len(readinessTexts) < 5 { // fewer values would prove little
			t.Errorf("the readiness had %d different values, want at least 5", len(readinessTexts))
		}
	})
}

// TestSavesOfDomainsAndJobsTakeFewStatements counts the statements of two frequent changes during
// provisioning. One change saves a domain after its DNS was read. The other change saves a job
// after a step.
func TestSavesOfDomainsAndJobsTakeFewStatements(t *testing.T) {
	var counter statementCounter
	s := migratedStore(t, MemoryURL, &counter)
	ann := newAccount(t, s, "ann")
	d := newOwnedDomain(t, s, ann, 1)
	job := startRun(t, s, ann, d, 1)
	job = claimJob(t, s, job.ID, dueTime)
	for range 2 {
		counter.count = 0
		d.CheckedAt, d.Status.MX = d.CheckedAt.Add(time.Minute), "ok"
		must(t, "save domain", s.SaveDomain(t.Context(), ann, d, nil))
		if counter.count > 5 { // begin, two reads, the change and commit
			t.Errorf("saving a domain takes %d statements, want at most 5", counter.count)
		}
	}
	for _, status := range []provisioning.Status{provisioning.Running, provisioning.Waiting} {
		counter.count = 0
		job.Status = status
		requireLeaseHeld(t, "save", true)(s.SaveJob(t.Context(), job))
		if counter.count != 1 {
			t.Errorf("saving a job that is %s takes %d statements, want 1", status, counter.count)
		}
	}
}
