// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
)

// What an account of 100 full tenants has.
const (
	manyTenants   = 100
	manyMailboxes = manyTenants * 12 * mailbox.MaxPerDomain
)

// withMailboxes stores such an account and an integration of it.
func withMailboxes(t *testing.T, s *Store, name string) (access.AccountID, integration.Integration) {
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
	must(t, s.AddIntegration(t.Context(), i, []byte("sealed")))
	return a.ID, i
}

// counting counts statements.
type counting struct{ n int }

func (*counting) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

func (c *counting) AfterQuery(context.Context, *bun.QueryEvent) { c.n++ }

// TestARefreshOfAWholeAccount: 3,600 mailboxes are read in two statements and
// stored in a few, and both take a part of the 2 s that a refresh may.
func TestARefreshOfAWholeAccount(t *testing.T) {
	eachShared(t, func(t *testing.T, url string) {
		var seen counting
		s := migrated(t, url, &seen)
		owner, i := withMailboxes(t, s, "ann")
		for round := range 2 {
			now := began.Add(time.Duration(round+1) * time.Hour)
			seen.n = 0
			asked := time.Now()
			all, err := s.Eligible(t.Context(), owner, i.ID)
			must(t, err)
			read := time.Since(asked)
			if len(all) != manyMailboxes || seen.n != 2 {
				t.Fatalf("%d were read in %d statements", len(all), seen.n)
			}
			connections := make([]integration.Connection, 0, len(all))
			for _, e := range all {
				c := e.Connection
				if c.ID == "" {
					c = integration.Connection{ID: newID(), MailboxID: e.Mailbox.ID}
				}
				c.Status, c.AccountID, c.AccountAddress = integration.ConnectionConnected, e.Mailbox.Address, e.Mailbox.Address
				c.ConnectedAt, c.UpdatedAt = now, now
				connections = append(connections, c)
			}
			seen.n = 0
			asked = time.Now()
			stored, err := s.SaveRefresh(t.Context(), owner, i, now, connections)
			must(t, err)
			wrote := time.Since(asked)
			t.Logf("round %d: read in %s, stored in %s and %d statements", round, read, wrote, seen.n)
			if stored != manyMailboxes || seen.n > manyMailboxes/batch+6 {
				t.Errorf("%d were stored in %d statements", stored, seen.n)
			}
			if read+wrote > 2*time.Second {
				t.Errorf("reading took %s, storing %s", read, wrote)
			}
		}
	})
}

// TestEligibleReadsOneAccountsMailboxes: among many accounts, PostgreSQL finds
// the rows of one by indexes.
func TestEligibleReadsOneAccountsMailboxes(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		s := migrated(t, schemas(t, testserver.Database(t))(t))
		owner, i := withMailboxes(t, s, "ann")
		for n := range 20 {
			other := fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
			exec(t, s, "INSERT INTO accounts SELECT ?::uuid, ?, plan, active, tenant_slots, created_at FROM accounts WHERE account_id = ?", other, other, string(owner))
			exec(t, s, "INSERT INTO tenants SELECT ?::uuid, id, guid, name, builtin_domain, default_domain, managed, consent, consented_at, connected_by, "+
				"bootstrap, bootstrap_step, smtp_auth, discovery, last_sync_at, user_mailboxes FROM tenants WHERE account_id = ?", other, string(owner))
			exec(t, s, "INSERT INTO mailboxes SELECT ?::uuid, id, tenant_id, address, domain_name, stage, provisioned, object_id, display_name, principal_name, "+
				"alias, account_enabled, daily_send_limit, sends_today, sends_today_at, blocked_at, created_at, stored_at FROM mailboxes WHERE account_id = ?", other, string(owner))
		}
		exec(t, s, "ANALYZE")
		var plan []string
		query := eligibleBelow(s.db, string(owner), i.ID, "").Order("m.address", "m.id").String()
		must(t, s.db.NewRaw("EXPLAIN "+query).Scan(t.Context(), &plan))
		for _, line := range plan {
			if strings.Contains(line, "Seq Scan on mailboxes") || strings.Contains(line, "Seq Scan on tenants") {
				t.Errorf("all rows of a table are read:\n%s", strings.Join(plan, "\n"))
			}
		}
	})
}
