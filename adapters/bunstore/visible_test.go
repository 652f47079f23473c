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
		for _, tt := range []struct {
			ctx  context.Context
			want int
		}{{t.Context(), 3}, {contextLimitedTo(t, 1), 1}, {contextLimitedTo(t, 1, 3), 2}, {contextLimitedTo(t, 4), 0}, {contextLimitedTo(t), 0}} {
			list, err := s.Tenants(tt.ctx, ann)
			must(t, "list", err)
			if len(list) != tt.want {
				t.Errorf("%d tenants are listed, want %d", len(list), tt.want)
			}
			tenantCount, err := s.TenantCount(tt.ctx, ann)
			must(t, "count", err)
			if tenantCount != 3 {
				t.Errorf("%d slots are used, want 3", tenantCount)
			}
		}
	})
}

// TestHiddenDomainsRunsAndJobsAreUnknown checks reads of an object by its own id, and lists.
func TestHiddenDomainsRunsAndJobsAreUnknown(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		for n := range 2 {
			attachTenant(t, s, ann, n+1)
		}
		d := addDomain(t, s, ann, guid(1), "one.test")
		startRun(t, s, ann, d, 1)
		visibleCtx, hiddenCtx := contextLimitedTo(t, 1), contextLimitedTo(t, 2)
		for name, find := range map[string]func(context.Context) error{
			"domain": func(ctx context.Context) error { _, err := s.DomainByID(ctx, ann, d.ID); return err },
			"run":    func(ctx context.Context) error { _, _, err := s.Run(ctx, ann, runID(1)); return err },
			"job":    func(ctx context.Context) error { _, err := s.Job(ctx, ann, jobID(1)); return err },
			"retry":  func(ctx context.Context) error { _, err := s.RetryJob(ctx, ann, jobID(1), now, nil); return err },
		} {
			unknown := find(ports.WithTenants(t.Context(), nil))
			if err := find(visibleCtx); err != nil && name != "retry" { // a queued job cannot be retried
				t.Errorf("%s of a visible tenant: %v", name, err)
			}
			requireSameError(t, name, find(hiddenCtx), unknown)
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

// TestEventsOfVisibleTenantsMatchListOfAllEvents compares pages with the list of all events of the
// visible tenants.
func TestEventsOfVisibleTenantsMatchListOfAllEvents(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		events := recordSampleEvents(t, s, ann)
		for _, numbers := range [][]int{{1}, {1, 3}, {9}, {}} {
			ctx := contextLimitedTo(t, numbers...)
			var shown []sendlimit.Event
			for _, e := range events {
				if isVisible(ctx, e.Tenant) {
					shown = append(shown, e)
				}
			}
			for _, query := range []ports.EventQuery{{Limit: 50}, {Limit: 7, Offset: 60}, {Limit: 50, Action: sendlimit.Unblocked}} {
				page, err := s.Events(ctx, ann, query)
				must(t, "list events", err)
				if diff := cmp.Diff(expectedPage(shown, query), page); diff != "" {
					t.Errorf("tenants %v, %+v (-want +got):\n%s", numbers, query, diff)
				}
			}
		}
	})
}

// connectedFixture creates an account with two tenants. Each tenant has a mailbox with a
// connection. One connection is connected, and the other connection has failed.
func connectedFixture(t testing.TB, s *Store) integrationFixture {
	t.Helper()
	fixture := newIntegrationFixture(t, s, "ann", 1)
	other := addDomain(t, s, fixture.owner, attachTenant(t, s, fixture.owner, 2).GUID, "other.test")
	fixture.boxes = append(fixture.boxes, addMailbox(t, s, fixture.owner, other, "sales", "ready"))
	fixture.setConnection(t, s, fixture.integration1, 0, integration.ConnectionConnected)
	fixture.setConnection(t, s, fixture.integration1, 2, integration.ConnectionFailed)
	return fixture
}

func TestHiddenMailboxesAreNeitherEligibleNorCounted(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := connectedFixture(t, s)
		for _, tt := range []struct {
			ctx                       context.Context
			eligible, counted, failed int
		}{{t.Context(), 3, 2, 1}, {contextLimitedTo(t, 1), 2, 1, 0}, {contextLimitedTo(t, 2), 1, 1, 1}, {contextLimitedTo(t, 3), 0, 0, 0}} {
			list, err := s.Eligible(tt.ctx, fixture.owner, fixture.integration1.ID)
			must(t, "list", err)
			counts, err := s.ConnectionCounts(tt.ctx, fixture.owner, fixture.integration1.ID)
			must(t, "count", err)
			if len(list) != tt.eligible || counts.Total != tt.counted || counts.Failed != tt.failed {
				t.Errorf("%d mailboxes are eligible, want %d; the counts are %+v, want %d in total and %d failed", len(list), tt.eligible, counts, tt.counted, tt.failed)
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

// TestNoHiddenConnectionIsLostInARemoval runs two transactions in both orders. One removes an
// integration, with a key that is limited to some tenants. The other connects a mailbox of a
// different tenant to this integration.
func TestNoHiddenConnectionIsLostInARemoval(t *testing.T) {
	for name, removalFirst := range map[string]bool{"removal first": true, "connection first": false} {
		t.Run(name, func(t *testing.T) {
			url := testserver.Database(t) // not shared, because the test observes all database connections
			setup := migratedStore(t, url)
			fixture := connectedFixture(t, setup)
			hook := newPausingHook(`INSERT INTO "mailbox_connections"`)
			if removalFirst {
				hook = newPausingHook(`UPDATE OF "ig"`)
			}
			pausing := migratedStore(t, url, hook)
			remove := func(s *Store) error {
				return s.RemoveIntegration(contextLimitedTo(t, 1), fixture.owner, fixture.integration2.ID, nil)
			}
			connect := func(s *Store) error {
				saved, err := s.SaveConnection(t.Context(), fixture.owner, fixture.newConnection(fixture.integration2, 2, integration.ConnectionPending), time.Time{}, nil)
				if err == nil && !saved {
					return errors.New("the connection is not saved")
				}
				return err
			}
			first, second := connect, remove
			if removalFirst {
				first, second = remove, connect
			}
			firstEnds, secondEnds := make(chan error, 1), make(chan error, 1)
			go func() { firstEnds <- first(pausing) }()
			<-hook.paused
			go func() { secondEnds <- second(setup) }()
			waitForLock(t, setup)
			close(hook.resume)
			must(t, "first", <-firstEnds)
			if err := <-secondEnds; removalFirst {
				requireRefusal(t, "connect", err, fault.IntegrationNotFound)
			} else {
				requireRefusal(t, "remove", err, fault.InsufficientScope)
				requireCounts(t, setup, fixture.owner, fixture.integration2.ID, integration.Counts{Total: 1, Pending: 1})
			}
		})
	}
}

// TestLimitedRefreshLeavesOtherTenantsToTheNextRefresh checks that a refresh of only some tenants
// does not delay a scheduled refresh. A complete refresh that began earlier can still be saved.
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
			t.Errorf("%d refreshes are due, want 2", len(due))
		}
		saveDisconnected(t.Context(), 2, began.Add(-time.Minute))
	})
}
