// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/adapters/bunstore/maintenance"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
)

// claimRefreshes claims at most limit refreshes of integrations whose last refresh began before a
// time. It stores at as their new time, and returns the ids of the integrations.
func claimRefreshes(t testing.TB, s *Store, before, at time.Time, limit int) (ids []string) {
	t.Helper()
	dueRefreshes, err := s.DueRefreshes(t.Context(), before, at, limit)
	must(t, "due refreshes", err)
	for _, i := range dueRefreshes {
		ids = append(ids, i.ID)
	}
	return ids
}

// saveRefresh returns the number of stored connections.
func (fixture integrationFixture) saveRefresh(t testing.TB, s *Store, i integration.Integration, began time.Time, connections ...integration.Connection) int {
	t.Helper()
	stored, err := s.SaveRefresh(t.Context(), fixture.owner, i, began, connections, nil)
	must(t, "save refresh", err)
	return stored
}

func TestDueRefreshesAreClaimedOldestFirst(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		for n := 1; n <= 4; n++ {
			owner := ann
			if n%2 == 0 {
				owner = bob
			}
			addIntegration(t, s, owner, n)
		}
		hours := func(n int) time.Time { return now.Add(time.Duration(n) * time.Hour) }
		requireOrder(t, "the first two that were never refreshed", claimRefreshes(t, s, now, hours(1), 2), integrationID(1), integrationID(2))
		requireOrder(t, "the last two that were never refreshed", claimRefreshes(t, s, now, hours(2), 9), integrationID(3), integrationID(4))
		requireOrder(t, "none, because all refreshes began at the first hour or later", claimRefreshes(t, s, hours(1), hours(3), 9))
		requireOrder(t, "the oldest that began at the first hour", claimRefreshes(t, s, hours(1).Add(time.Microsecond), hours(9), 1), integrationID(1))
		requireOrder(t, "all that began before the ninth hour", claimRefreshes(t, s, hours(9), hours(9), 9), integrationID(2), integrationID(3), integrationID(4))
		got, err := s.DueRefreshes(t.Context(), hours(10), hours(10), 1)
		must(t, "due", err)
		want := newIntegration(ann, 1)
		if diff := cmp.Diff([]integration.Integration{want}, got); diff != "" {
			t.Fatalf("the due integration (-want +got):\n%s", diff)
		}
		requireIntegration(t, s, want, 1)
	})
}

func TestConcurrentClaimsOfRefreshesDoNotOverlap(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		for n := range 10 {
			addIntegration(t, s, ann, n)
			addIntegration(t, s, bob, 100+n)
		}
		claimedRefreshes := make([][]integration.Integration, concurrency)
		for _, err := range concurrently(concurrency, func(n int) (err error) {
			claimedRefreshes[n], err = s.DueRefreshes(t.Context(), now, now.Add(time.Hour), 3)
			return err
		}) {
			must(t, "due", err)
		}
		claimCounts := map[string]int{}
		for _, claimed := range claimedRefreshes {
			for _, i := range claimed {
				claimCounts[i.ID]++
			}
		}
		for id, n := range claimCounts {
			if n != 1 {
				t.Fatalf("the refresh of %s was claimed %d times, want 1", id, n)
			}
		}
		if len(claimCounts) != 20 {
			t.Fatalf("%d refreshes were claimed, want 20", len(claimCounts))
		}
	})
}

func TestSuspendedAndClosedAccountsAreNotRefreshed(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob, eve := newAccount(t, s, "ann"), newAccount(t, s, "bob"), newAccount(t, s, "eve")
		addIntegration(t, s, ann, 1)
		addIntegration(t, s, bob, 2)
		addIntegration(t, s, eve, 3)
		_, err := s.SetActive(t.Context(), ann, false)
		must(t, "suspend", err)
		closeAccount(t, s, eve)
		requireOrder(t, "due while ann is suspended", claimRefreshes(t, s, now, now, 9), integrationID(2))
		_, err = s.SetActive(t.Context(), ann, true)
		must(t, "resume", err)
		requireOrder(t, "due after ann is resumed", claimRefreshes(t, s, now, now, 9), integrationID(1))
	})
}

func TestSavedRefreshDelaysTheNextScheduledRefresh(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		fixture.saveRefresh(t, s, fixture.integration1, now.Add(time.Hour))
		requireOrder(t, "due before the requested refresh", claimRefreshes(t, s, now.Add(time.Hour), now.Add(2*time.Hour), 9), fixture.integration2.ID)
		fixture.saveRefresh(t, s, fixture.integration2, now) // began before the claim, so the integration does not become due again
		requireOrder(t, "due after both refreshes", claimRefreshes(t, s, now.Add(2*time.Hour), now.Add(2*time.Hour), 9), fixture.integration1.ID)
	})
}

func TestRefreshStoresIntegrationAndItsConnections(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		previous := fixture.setConnection(t, s, fixture.integration1, 0, integration.ConnectionConnected)
		changed := fixture.newConnection(fixture.integration1, 0, integration.ConnectionFailed)
		changed.ID, changed.PlatformAccountID, changed.PlatformAccountAddress, changed.PlatformAccountName, changed.Reason = connectionID(7), "other", "o@b.test", "", "other"
		changed.ConnectedAt, changed.UpdatedAt = time.Time{}, now.Add(time.Minute)
		newlyListed := fixture.newConnection(fixture.integration1, 1, integration.ConnectionConnected)
		refreshed := withAllFieldsChanged(fixture.integration1)
		if n := fixture.saveRefresh(t, s, refreshed, previous.UpdatedAt, changed, newlyListed); n != 2 {
			t.Fatalf("%d connections were stored, want 2", n)
		}
		changed.ID = previous.ID
		fixture.requireConnection(t, "the changed connection", s, fixture.integration1, 0, changed)
		fixture.requireConnection(t, "the newly listed connection", s, fixture.integration1, 1, newlyListed)
		refreshed.Provider, refreshed.Name, refreshed.CredentialFields, refreshed.CreatedAt = fixture.integration1.Provider, fixture.integration1.Name, fixture.integration1.CredentialFields, fixture.integration1.CreatedAt
		requireIntegration(t, s, refreshed, 10)
	})
}

func TestRefreshStoresOnlyConnectionsThatItMaySave(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		secondDomain := addDomain(t, s, fixture.owner, guid(1), "more.test")
		for _, local := range []string{"a", "b", "c"} {
			fixture.boxes = append(fixture.boxes, addMailbox(t, s, fixture.owner, secondDomain, local, mailbox.Ready))
		}
		disconnecting := fixture.setConnection(t, s, fixture.integration1, 0, integration.ConnectionDisconnecting)
		pending := fixture.setConnection(t, s, fixture.integration2, 1, integration.ConnectionPending)
		ended := fixture.setConnection(t, s, fixture.integration2, 2, integration.ConnectionDisconnected)
		otherConnection := fixture.setConnection(t, s, fixture.integration2, 3, integration.ConnectionOther)
		ofUnknownMailbox := fixture.newConnection(fixture.integration1, 0, integration.ConnectionConnected)
		ofUnknownMailbox.MailboxID = unknownMailboxID
		ofForeignMailbox := ofUnknownMailbox
		ofForeignMailbox.MailboxID = newIntegrationFixture(t, s, "bob", 2).boxes[0].ID
		saveDiscovery(t, s, fixture.owner, nil, platformMailboxes("sales@ann.test", "support@ann.test", "a@more.test", "b@more.test", "c@more.test", "found@ann.test"))
		ofDiscoveredMailbox := ofUnknownMailbox
		ofDiscoveredMailbox.MailboxID = findMailbox(t, s, fixture.owner, "found@ann.test").ID
		storedCount := fixture.saveRefresh(t, s, fixture.integration1, disconnecting.UpdatedAt.Add(-time.Microsecond), ofUnknownMailbox, ofForeignMailbox, ofDiscoveredMailbox,
			fixture.newConnection(fixture.integration1, 0, integration.ConnectionConnected), fixture.newConnection(fixture.integration1, 1, integration.ConnectionConnected),
			fixture.newConnection(fixture.integration1, 2, integration.ConnectionConnected), fixture.newConnection(fixture.integration1, 3, integration.ConnectionFailed),
			fixture.newConnection(fixture.integration1, 4, integration.ConnectionFailed), fixture.newConnection(fixture.integration1, 4, integration.ConnectionConnected))
		if storedCount != 2 {
			t.Fatalf("%d connections were stored, want 2", storedCount)
		}
		fixture.requireConnection(t, "not saved, because the connection has changed since the refresh began", s, fixture.integration1, 0, disconnecting)
		fixture.requireConnection(t, "not saved, because a different integration holds the mailbox", s, fixture.integration1, 1, integration.Connection{})
		fixture.requireConnection(t, "the pending connection stays", s, fixture.integration2, 1, pending)
		fixture.requireConnection(t, "saved, because the connection of the different integration has ended", s, fixture.integration1, 2, fixture.newConnection(fixture.integration1, 2, integration.ConnectionConnected))
		fixture.requireConnection(t, "the ended connection stays", s, fixture.integration2, 2, ended)
		fixture.requireConnection(t, "not saved, because a connection with the status other holds the mailbox", s, fixture.integration1, 3, integration.Connection{})
		fixture.requireConnection(t, "the connection with the status other stays", s, fixture.integration2, 3, otherConnection)
		fixture.requireConnection(t, "listed twice, so the last of the two is saved", s, fixture.integration1, 4, fixture.newConnection(fixture.integration1, 4, integration.ConnectionConnected))
	})
}

// TestRefreshEndsTheConnectionOfAMailboxHeldElsewhere checks that a refresh stores the end of a
// connection although a different integration holds the mailbox.
func TestRefreshEndsTheConnectionOfAMailboxHeldElsewhere(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		previous := fixture.setConnection(t, s, fixture.integration1, 0, integration.ConnectionFailed)
		holder := fixture.setConnection(t, s, fixture.integration2, 0, integration.ConnectionConnected)
		ended := previous.WithoutAccount(integration.ReasonGone, previous.UpdatedAt.Add(time.Minute))
		if n := fixture.saveRefresh(t, s, fixture.integration1, previous.UpdatedAt, ended); n != 1 {
			t.Fatalf("%d connections were stored, want 1", n)
		}
		fixture.requireConnection(t, "the ended connection", s, fixture.integration1, 0, ended)
		fixture.requireConnection(t, "the connection that holds the mailbox", s, fixture.integration2, 0, holder)
	})
}

func TestConcurrentRefreshesAndSessionsHoldEachMailboxOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		for n := range 4 {
			d := addDomain(t, s, fixture.owner, guid(1), []string{"a.test", "b.test", "c.test", "e.test"}[n])
			for _, local := range []string{"a", "b", "c"} {
				fixture.boxes = append(fixture.boxes, addMailbox(t, s, fixture.owner, d, local, mailbox.Ready))
			}
		}
		var listed []integration.Connection
		for box := range fixture.boxes {
			listed = append(listed, fixture.newConnection(fixture.integration1, box, integration.ConnectionConnected))
		}
		errs := concurrently(len(fixture.boxes)+2, func(n int) error {
			if n >= len(fixture.boxes) {
				_, err := s.SaveRefresh(t.Context(), fixture.owner, fixture.integration1, now, listed, nil)
				return err
			}
			return s.BeginSession(t.Context(), fixture.owner, newSession(fixture.integration2, fixture.boxes[n], n), connectionID(5000+n), now)
		})
		must(t, "refresh 1", errs[len(fixture.boxes)])
		must(t, "refresh 2", errs[len(fixture.boxes)+1])
		sessions := countWinners(t, errs[:len(fixture.boxes)], fault.ConnectedElsewhere)
		requireCounts(t, s, fixture.owner, fixture.integration2.ID, integration.Counts{Total: sessions, Pending: sessions})
		requireCounts(t, s, fixture.owner, fixture.integration1.ID, integration.Counts{Total: len(fixture.boxes) - sessions, Connected: len(fixture.boxes) - sessions})
	})
}

// manyTenants and manyMailboxes are the size of an account with 100 tenants that have the maximum
// number of domains and mailboxes.
const (
	manyTenants   = 100
	manyMailboxes = manyTenants * domain.MaxPerTenant * mailbox.MaxPerDomain
)

// addLargeAccount stores an account with manyMailboxes mailboxes and one integration.
func addLargeAccount(t *testing.T, s *Store, name string) (access.AccountID, integration.Integration) {
	t.Helper()
	owner := newAccount(t, s, name)
	var tenants []tenantRow
	var domains []domainRow
	var boxes []mailboxRow
	for n := range manyTenants {
		row := tenantRow{AccountID: string(owner), ID: newID(), GUID: newID(), Name: fmt.Sprint("Tenant ", n), Consent: "granted", ConsentedAt: now}
		tenants = append(tenants, row)
		for k := range manyMailboxes / manyTenants {
			domainName := fmt.Sprintf("d%d-%d.test", n, k/mailbox.MaxPerDomain)
			if k%mailbox.MaxPerDomain == 0 {
				domains = append(domains, domainRow{AccountID: row.AccountID, ID: newID(), TenantID: row.ID, Name: domainName, Added: true, CreatedAt: now, StoredAt: now})
			}
			boxes = append(boxes, mailboxRow{
				AccountID: row.AccountID, ID: newID(), TenantID: row.ID, Address: fmt.Sprintf("m%d@%s", k, domainName), DomainName: domainName,
				Stage: mailbox.Ready, Provisioned: true, CreatedAt: now, StoredAt: now,
			})
		}
	}
	for _, rows := range []any{&tenants, &domains} {
		_, err := s.db.NewInsert().Model(rows).Exec(t.Context())
		must(t, "insert", err)
	}
	for chunk := range slices.Chunk(boxes, batchSize) {
		_, err := s.db.NewInsert().Model(&chunk).Exec(t.Context())
		must(t, "insert mailboxes", err)
	}
	return owner, addIntegration(t, s, owner, 1)
}

type statementCounter struct{ count int }

func (*statementCounter) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context {
	return ctx
}

func (c *statementCounter) AfterQuery(context.Context, *bun.QueryEvent) { c.count++ }

// TestRefreshOfLargeAccountUsesFewStatements refreshes 3,600 mailboxes on PostgreSQL. Two
// statements must read the mailboxes and the connections. They must use indexes, because the tables
// also have rows of other accounts. A refresh may store each batch of connections, with its events,
// in at most eight statements on average. The test logs the duration.
func TestRefreshOfLargeAccountUsesFewStatements(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		const maxWriteStatements = 8 * (manyMailboxes/batchSize + 1)
		var counter statementCounter
		s := migratedStore(t, databasetest.NewSchema(t), &counter)
		owner, i := addLargeAccount(t, s, "ann")
		for round := range 2 {
			at := now.Add(time.Duration(round+1) * time.Hour)
			counter.count = 0
			started := time.Now()
			eligible, err := s.Eligible(t.Context(), owner, i.ID)
			must(t, "list eligible", err)
			readDuration, readStatements := time.Since(started), counter.count
			connections := make([]integration.Connection, 0, len(eligible))
			for _, e := range eligible {
				connections = append(connections, newConnected(e, at))
			}
			counter.count = 0
			started = time.Now()
			stored, err := s.SaveRefresh(t.Context(), owner, i, at, connections, nil)
			must(t, "save refresh", err)
			t.Logf("round %d: read in %s, stored in %s", round, readDuration, time.Since(started))
			if len(eligible) != manyMailboxes || readStatements != 2 || stored != manyMailboxes || counter.count > maxWriteStatements {
				t.Errorf("%d mailboxes were read in %d statements, want %d in 2; %d connections were stored in %d statements, want %d in at most %d",
					len(eligible), readStatements, manyMailboxes, stored, counter.count, manyMailboxes, maxWriteStatements)
			}
		}
		copyToOtherAccounts(t, s)
		for _, query := range []*bun.SelectQuery{
			eligibleMailboxes(t.Context(), s.db, string(owner), i.ID, "").Order("m.address", "m.id"), selectConnections(s.db, &[]connectionRow{}, string(owner), i.ID),
		} {
			var plan []string
			must(t, "explain", s.db.NewRaw("EXPLAIN "+query.String()).Scan(t.Context(), &plan))
			if text := strings.Join(plan, "\n"); regexp.MustCompile(`Seq Scan on (mailboxes|tenants|mailbox_connections)\b`).MatchString(text) {
				t.Errorf("the query reads all rows of a table, want an index:\n%s", text)
			}
		}
	})
}

func newConnected(e integration.EligibleMailbox, at time.Time) integration.Connection {
	c := e.Connection
	if c.ID == "" {
		c = integration.Connection{ID: newID(), MailboxID: e.Mailbox.ID}
	}
	c.Status, c.PlatformAccountID, c.PlatformAccountAddress = integration.ConnectionConnected, e.Mailbox.Address, e.Mailbox.Address
	c.ConnectedAt, c.UpdatedAt = at, at
	return c
}

// copyToOtherAccounts copies the stored account, with its tenants, integrations, mailboxes and
// connections, nine times.
func copyToOtherAccounts(t *testing.T, s *Store) {
	t.Helper()
	tables, err := maintenance.Tables(t.Context(), s.db)
	must(t, "list tables", err)
	for _, table := range tables {
		if !slices.Contains([]string{"accounts", "tenants", "integrations", "mailboxes", "mailbox_connections"}, table.Name) {
			continue
		}
		var columns []bun.Ident // without account_id, which is the first column
		for _, column := range table.Columns[1:] {
			columns = append(columns, bun.Ident(column.Name))
		}
		execSQL(t, s, "INSERT INTO ? (account_id, ?) SELECT ('00000000-0000-4000-8000-00000000000' || n)::uuid, ? FROM ?, generate_series(1, 9) AS n",
			bun.Ident(table.Name), bun.List(columns), bun.List(columns), bun.Ident(table.Name))
	}
	execSQL(t, s, "ANALYZE tenants, mailboxes, mailbox_connections")
}

// TestOlderListingDoesNotOverwriteNewerOne saves a refresh after a refresh that began later. The
// older listing must not be stored.
func TestOlderListingDoesNotOverwriteNewerOne(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		listedConnection := func(status integration.ConnectionStatus, at time.Time) integration.Connection {
			c := fixture.newConnection(fixture.integration1, 0, status)
			c.UpdatedAt = at
			return c
		}
		earlier, later := now.Add(time.Minute), now.Add(2*time.Minute)
		if n := fixture.saveRefresh(t, s, fixture.integration1, later, listedConnection(integration.ConnectionConnected, later)); n != 1 {
			t.Fatalf("the newer listing stored %d connections, want 1", n)
		}
		if n := fixture.saveRefresh(t, s, fixture.integration1, earlier, listedConnection(integration.ConnectionDisconnected, earlier)); n != 0 {
			t.Fatalf("the older listing stored %d connections, want 0", n)
		}
		latest := later.Add(time.Minute)
		if n := fixture.saveRefresh(t, s, fixture.integration1, latest, listedConnection(integration.ConnectionFailed, latest)); n != 1 {
			t.Fatalf("the next listing stored %d connections, want 1", n)
		}
	})
}

// TestRefreshSkipsConnectionOfConcurrentSession stores a refresh while a session begins for one of
// its mailboxes. The refresh must neither count nor log the connection that it did not store.
func TestRefreshSkipsConnectionOfConcurrentSession(t *testing.T) {
	url := testserver.Database(t) // not shared, because the test observes all database connections
	s := migratedStore(t, url)
	fixture := newIntegrationFixture(t, s, "ann", 1)
	log := readerAtEnd(t, s, fixture.owner)
	hook := newPausingHook(`INSERT INTO "mailbox_connections"`)
	pausingStore := openStore(t, url, hook)
	sessionErr := make(chan error, 1)
	go func() {
		sessionErr <- pausingStore.BeginSession(t.Context(), fixture.owner, newSession(fixture.integration1, fixture.boxes[0], 1), connectionID(1), now)
	}()
	<-hook.paused
	var stored int
	refreshErr := make(chan error, 1)
	go func() {
		var err error
		stored, err = s.SaveRefresh(t.Context(), fixture.owner, fixture.integration1, now, []integration.Connection{
			fixture.newConnection(fixture.integration1, 0, integration.ConnectionConnected), fixture.newConnection(fixture.integration1, 1, integration.ConnectionConnected),
		}, nil)
		refreshErr <- err
	}()
	waitForLock(t, s)
	close(hook.resume)
	must(t, "begin session", <-sessionErr)
	must(t, "save refresh", <-refreshErr)
	if c := fixture.storedConnection(t, s, fixture.integration1, 0); c.Status != integration.ConnectionPending || stored != 1 {
		t.Errorf("%d connections were stored, want 1; the connection of the session is %+v, want it pending", stored, c)
	}
	var connected []string
	for _, e := range log.nextEvents(t) {
		if e.Type == event.ConnectionConnected {
			connected = append(connected, e.Subject.ID)
		}
	}
	if want := fixture.storedConnection(t, s, fixture.integration1, 1).ID; !slices.Equal(connected, []string{want}) {
		t.Errorf("the log has connected events of the connections %q, want only of %s", connected, want)
	}
}
