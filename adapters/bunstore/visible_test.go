// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// contextLimitedTo returns a context in which only the tenants with these numbers are visible.
func contextLimitedTo(t testing.TB, numbers ...int) context.Context {
	t.Helper()
	tenants := []tenant.GUID{}
	for _, n := range numbers {
		tenants = append(tenants, guid(n))
	}
	return ports.WithTenants(t.Context(), tenants)
}

func TestOnlyVisibleTenantsAreListed(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		for n := range 3 {
			attachTenant(t, s, ann, n+1)
		}
		attachTenant(t, s, bob, 4)
		for label, tc := range map[string]struct {
			ctx  context.Context
			want int
		}{
			"all tenants visible": {t.Context(), 3}, "one tenant visible": {contextLimitedTo(t, 1), 1}, "two tenants visible": {contextLimitedTo(t, 1, 3), 2},
			"a foreign tenant visible": {contextLimitedTo(t, 4), 0}, "no tenant visible": {contextLimitedTo(t), 0},
		} {
			tenants, err := s.Tenants(tc.ctx, ann)
			must(t, "list", err)
			if len(tenants) != tc.want {
				t.Errorf("%s: %d tenants are listed, want %d", label, len(tenants), tc.want)
			}
			tenantCount, err := s.TenantCount(tc.ctx, ann)
			must(t, "count", err)
			if tenantCount != 3 {
				t.Errorf("%s: %d tenants are counted, want 3", label, tenantCount)
			}
		}
	})
}

// TestHiddenDomainsRunsAndJobsAreUnknown checks calls that find an object by its own id, and the
// list of runs.
func TestHiddenDomainsRunsAndJobsAreUnknown(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		for n := range 2 {
			attachTenant(t, s, ann, n+1)
		}
		d := addDomain(t, s, ann, guid(1), "one.test")
		startRun(t, s, ann, d, 1)
		visibleCtx, hiddenCtx := contextLimitedTo(t, 1), contextLimitedTo(t, 2)
		for name, tc := range map[string]struct {
			id   string
			find func(ctx context.Context, id string) error
		}{
			"domain": {d.ID, func(ctx context.Context, id string) error { _, err := s.DomainByID(ctx, ann, id); return err }},
			"run":    {runID(1), func(ctx context.Context, id string) error { _, _, err := s.Run(ctx, ann, id); return err }},
			"job":    {jobID(1), func(ctx context.Context, id string) error { _, err := s.Job(ctx, ann, id); return err }},
			"retry":  {jobID(1), func(ctx context.Context, id string) error { _, err := s.RetryJob(ctx, ann, id, now, nil); return err }},
		} {
			unknown := tc.find(t.Context(), unknownID)
			if err := tc.find(visibleCtx, tc.id); err != nil && name != "retry" { // a queued job cannot be retried
				t.Errorf("%s of a visible tenant: %v", name, err)
			}
			requireSameError(t, name, tc.find(hiddenCtx, tc.id), unknown)
			if fault.ErrorOf(unknown).Code.Kind != fault.NotFound {
				t.Errorf("%s: got %v, want an error of the kind not_found", name, unknown)
			}
		}
		for ctx, want := range map[context.Context]int{t.Context(): 1, visibleCtx: 1, hiddenCtx: 0} {
			runs, err := s.Runs(ctx, ann, ports.RunQuery{Limit: 10})
			must(t, "list runs", err)
			if len(runs) != want {
				t.Errorf("%d runs are listed, want %d", len(runs), want)
			}
		}
	})
}

// TestEventsOfVisibleTenantsMatchListOfAllEvents compares pages with pages that the test computes
// from the list of all events.
func TestEventsOfVisibleTenantsMatchListOfAllEvents(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		events := recordSampleEvents(t, s, ann)
		for _, numbers := range [][]int{{1}, {1, 3}, {9}, {}} {
			ctx := contextLimitedTo(t, numbers...)
			var visibleEvents []sendlimit.Event
			for _, e := range events {
				if isVisible(ctx, e.Tenant) {
					visibleEvents = append(visibleEvents, e)
				}
			}
			for _, query := range []ports.EventQuery{{Limit: 50}, {Limit: 7, Offset: 60}, {Limit: 50, Action: sendlimit.Unblocked}} {
				page, err := s.Events(ctx, ann, query)
				must(t, "list events", err)
				if diff := cmp.Diff(expectedPage(visibleEvents, query), page); diff != "" {
					t.Errorf("tenants %v, %+v (-want +got):\n%s", numbers, query, diff)
				}
			}
		}
	})
}

// connectedFixture stores an account with two tenants, and connections at integration1. The
// connection of boxes[0], in tenant 1, is connected. The connection of boxes[2], in tenant 2, has
// failed. boxes[1], in tenant 1, has no connection.
func connectedFixture(t testing.TB, s *Store) integrationFixture {
	t.Helper()
	fixture := newIntegrationFixture(t, s, "ann", 1)
	domainOfTenant2 := addDomain(t, s, fixture.owner, attachTenant(t, s, fixture.owner, 2).GUID, "other.test")
	fixture.boxes = append(fixture.boxes, addMailbox(t, s, fixture.owner, domainOfTenant2, "sales", "ready"))
	fixture.setConnection(t, s, fixture.integration1, 0, integration.ConnectionConnected)
	fixture.setConnection(t, s, fixture.integration1, 2, integration.ConnectionFailed)
	return fixture
}

func TestHiddenMailboxesAreNeitherEligibleNorCounted(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := connectedFixture(t, s)
		for _, tc := range []struct {
			ctx                       context.Context
			eligible, counted, failed int
		}{{t.Context(), 3, 2, 1}, {contextLimitedTo(t, 1), 2, 1, 0}, {contextLimitedTo(t, 2), 1, 1, 1}, {contextLimitedTo(t, 3), 0, 0, 0}} {
			eligibleMailboxes, err := s.Eligible(tc.ctx, fixture.owner, fixture.integration1.ID)
			must(t, "list", err)
			counts, err := s.ConnectionCounts(tc.ctx, fixture.owner, fixture.integration1.ID)
			must(t, "count", err)
			if len(eligibleMailboxes) != tc.eligible || counts.Total != tc.counted || counts.Failed != tc.failed {
				t.Errorf("%d mailboxes are eligible, want %d; the counts are %+v, want %d in total and %d failed", len(eligibleMailboxes), tc.eligible, counts, tc.counted, tc.failed)
			}
		}
		_, hidden := s.EligibleMailbox(contextLimitedTo(t, 2), fixture.owner, fixture.integration1.ID, fixture.boxes[0].ID)
		_, unknown := s.EligibleMailbox(t.Context(), fixture.owner, fixture.integration1.ID, connectionID(1))
		requireRefusal(t, "a hidden mailbox", hidden, fault.MailboxNotFound)
		requireSameError(t, "a hidden mailbox", hidden, unknown)
		if _, err := s.EligibleMailbox(contextLimitedTo(t, 1), fixture.owner, fixture.integration1.ID, fixture.boxes[0].ID); err != nil {
			t.Errorf("a visible mailbox: %v", err)
		}
	})
}

func TestIntegrationWithHiddenConnectionsIsNotRemoved(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := connectedFixture(t, s)
		err := s.RemoveIntegration(contextLimitedTo(t, 1), fixture.owner, fixture.integration1.ID, nil)
		requireRefusal(t, "remove", err, fault.InsufficientScope)
		if fault.ErrorOf(err).Values != access.IntegrationsWrite {
			t.Errorf("the error is %+v, want the scope %s", fault.ErrorOf(err), access.IntegrationsWrite)
		}
		requireRefusal(t, "remove unknown", s.RemoveIntegration(contextLimitedTo(t, 1), fixture.owner, integrationID(99), nil), fault.IntegrationNotFound)
		must(t, "remove without connections", s.RemoveIntegration(contextLimitedTo(t, 1), fixture.owner, fixture.integration2.ID, nil))
		must(t, "remove with all tenants", s.RemoveIntegration(contextLimitedTo(t, 1, 2), fixture.owner, fixture.integration1.ID, nil))
	})
}

// TestNoHiddenConnectionIsLostInARemoval runs two concurrent transactions, in both orders. The
// removal of an integration has a context in which only tenant 1 is visible. The connection
// connects a mailbox of tenant 2 to the same integration. Whichever is first, the later one must be
// refused.
func TestNoHiddenConnectionIsLostInARemoval(t *testing.T) {
	for name, removalFirst := range map[string]bool{"removal first": true, "connection first": false} {
		t.Run(name, func(t *testing.T) {
			url := testserver.Database(t) // not shared, because the test observes all database connections
			plainStore := migratedStore(t, url)
			fixture := connectedFixture(t, plainStore)
			hook := newPausingHook(`INSERT INTO "mailbox_connections"`)
			if removalFirst {
				hook = newPausingHook(`UPDATE OF "ig"`)
			}
			pausingStore := migratedStore(t, url, hook)
			remove := func(s *Store) error {
				return s.RemoveIntegration(contextLimitedTo(t, 1), fixture.owner, fixture.integration2.ID, nil)
			}
			connect := func(s *Store) error {
				isSaved, err := s.SaveConnection(t.Context(), fixture.owner, fixture.newConnection(fixture.integration2, 2, integration.ConnectionPending), time.Time{}, nil)
				if err == nil && !isSaved {
					return errors.New("the connection was not saved")
				}
				return err
			}
			first, second := connect, remove
			if removalFirst {
				first, second = remove, connect
			}
			firstEnds, secondEnds := make(chan error, 1), make(chan error, 1)
			go func() { firstEnds <- first(pausingStore) }()
			<-hook.paused
			go func() { secondEnds <- second(plainStore) }()
			waitForLock(t, plainStore)
			close(hook.resume)
			must(t, "first", <-firstEnds)
			if err := <-secondEnds; removalFirst {
				requireRefusal(t, "connect", err, fault.IntegrationNotFound)
			} else {
				requireRefusal(t, "remove", err, fault.InsufficientScope)
				requireCounts(t, plainStore, fixture.owner, fixture.integration2.ID, integration.Counts{Total: 1, Pending: 1})
			}
		})
	}
}

// TestLimitedRefreshLeavesOtherTenantsToTheNextRefresh checks that a refresh of only some tenants
// does not delay the scheduled refresh of the integration. A complete refresh that began before the
// limited refresh can still be saved.
func TestLimitedRefreshLeavesOtherTenantsToTheNextRefresh(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := connectedFixture(t, s)
		began := now.Add(time.Hour)
		saveDisconnected := func(ctx context.Context, box int, at time.Time) {
			c := fixture.storedConnection(t, s, fixture.integration1, box)
			c.Status, c.UpdatedAt = integration.ConnectionDisconnected, at
			n, err := s.SaveRefresh(ctx, fixture.owner, fixture.integration1, at, []integration.Connection{c}, nil)
			must(t, "save refresh", err)
			if n != 1 {
				t.Fatalf("%d connections were stored, want 1", n)
			}
		}
		saveDisconnected(contextLimitedTo(t, 1), 0, began)
		due, err := s.DueRefreshes(t.Context(), began, began, 10)
		must(t, "due", err)
		if len(due) != 2 {
			t.Errorf("%d refreshes are due, want 2 (one for each integration)", len(due))
		}
		saveDisconnected(t.Context(), 2, began.Add(-time.Minute))
	})
}
