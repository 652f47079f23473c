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

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
)

// The size of an account with 100 full tenants.
const (
	manyTenants   = 100
	manyMailboxes = manyTenants * 12 * mailbox.MaxPerDomain
)

// addLargeAccount stores an account of that size and one integration.
func addLargeAccount(t *testing.T, s *Store, name string) (access.AccountID, integration.Integration) {
	t.Helper()
	a, err := s.CreateAccount(t.Context(), name+"@example.test", "complete", 0, began)
	must(t, err)
	var tenants []tenantRow
	var domains []domainRow
	var boxes []mailboxRow
	for n := range manyTenants {
		guid := newID()
		x := tenantRow{AccountID: string(a.ID), ID: newID(), GUID: guid, Name: fmt.Sprint("Tenant ", n), Consent: "granted", ConsentedAt: began}
		tenants = append(tenants, x)
		for k := range manyMailboxes / manyTenants {
			domain := fmt.Sprintf("d%d-%d.test", n, k/mailbox.MaxPerDomain)
			if k%mailbox.MaxPerDomain == 0 {
				domains = append(domains, domainRow{AccountID: x.AccountID, ID: newID(), TenantID: x.ID, Name: domain, Added: true, CreatedAt: began, StoredAt: began})
			}
			boxes = append(boxes, mailboxRow{
				AccountID: x.AccountID, ID: newID(), TenantID: x.ID, Address: fmt.Sprintf("m%d@%s", k, domain), DomainName: domain,
				Stage: mailbox.Ready, Provisioned: true, CreatedAt: began, StoredAt: began,
			})
		}
	}
	for at := 0; at < manyMailboxes; at += 600 {
		part := boxes[at:min(at+600, manyMailboxes)]
		for _, rows := range []any{&tenants, &domains, &part} {
			if at > 0 && rows != any(&part) {
				continue
			}
			_, err := s.db.NewInsert().Model(rows).Exec(t.Context())
			must(t, err)
		}
	}
	i := integration.Integration{ID: newID(), AccountID: a.ID, Provider: "instantly", Status: integration.Connected, CreatedAt: began, UpdatedAt: began}
	must(t, s.AddIntegration(t.Context(), i, []byte("sealed"), nil))
	return a.ID, i
}

// statementCounter is a hook that counts statements.
type statementCounter struct{ n int }

func (*statementCounter) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context {
	return ctx
}

func (c *statementCounter) AfterQuery(context.Context, *bun.QueryEvent) { c.n++ }

// TestRefreshOfLargeAccountUsesFewStatements refreshes 3,600 mailboxes on PostgreSQL. They are read
// in two statements, by indexes among the rows of other accounts, and stored in a few. The log
// shows the duration.
func TestRefreshOfLargeAccountUsesFewStatements(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		var seen statementCounter
		s := migrated(t, newSchema(t), &seen)
		owner, i := addLargeAccount(t, s, "ann")
		for round := range 2 {
			now := began.Add(time.Duration(round+1) * time.Hour)
			seen.n = 0
			asked := time.Now()
			all, err := s.Eligible(t.Context(), owner, i.ID)
			must(t, err)
			read, statements := time.Since(asked), seen.n
			connections := make([]integration.Connection, 0, len(all))
			for _, e := range all {
				connections = append(connections, connectedAt(e, now))
			}
			seen.n = 0
			asked = time.Now()
			stored, err := s.SaveRefresh(t.Context(), owner, i, now, connections, nil)
			must(t, err)
			t.Logf("round %d: read in %s, stored in %s", round, read, time.Since(asked))
			if len(all) != manyMailboxes || statements != 2 || stored != manyMailboxes || seen.n > manyMailboxes/batchSize+6 {
				t.Errorf("%d were read in %d statements, %d stored in %d", len(all), statements, stored, seen.n)
			}
		}
		copyToOtherAccounts(t, s)
		for _, query := range []*bun.SelectQuery{
			eligibleMailboxes(s.db, string(owner), i.ID, "").Order("m.address", "m.id"), selectConnections(s.db, &[]connectionRow{}, string(owner), i.ID),
		} {
			var plan []string
			must(t, s.db.NewRaw("EXPLAIN "+query.String()).Scan(t.Context(), &plan))
			if whole := strings.Join(plan, "\n"); regexp.MustCompile(`Seq Scan on (mailboxes|tenants|mailbox_connections)\b`).MatchString(whole) {
				t.Errorf("all rows of a table are read:\n%s", whole)
			}
		}
	})
}

// connectedAt returns a connected connection of the mailbox.
func connectedAt(e integration.Eligible, now time.Time) integration.Connection {
	c := e.Connection
	if c.ID == "" {
		c = integration.Connection{ID: newID(), MailboxID: e.Mailbox.ID}
	}
	c.Status, c.AccountID, c.AccountAddress = integration.ConnectionConnected, e.Mailbox.Address, e.Mailbox.Address
	c.ConnectedAt, c.UpdatedAt = now, now
	return c
}

// copyToOtherAccounts copies the rows of an account to nine other accounts.
func copyToOtherAccounts(t *testing.T, s *Store) {
	t.Helper()
	tables, err := s.Tables(t.Context())
	must(t, err)
	for _, table := range tables {
		if !slices.Contains([]string{"accounts", "tenants", "integrations", "mailboxes", "mailbox_connections"}, table.Name) {
			continue
		}
		var columns []bun.Ident // besides account_id, which comes first
		for _, c := range table.Columns[1:] {
			columns = append(columns, bun.Ident(c.Name))
		}
		exec(t, s, "INSERT INTO ? (account_id, ?) SELECT ('00000000-0000-4000-8000-00000000000' || n)::uuid, ? FROM ?, generate_series(1, 9) AS n",
			bun.Ident(table.Name), bun.List(columns), bun.List(columns), bun.Ident(table.Name))
	}
	exec(t, s, "ANALYZE tenants, mailboxes, mailbox_connections")
}
