// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// cancelBefore ends the context of the caller when a statement is about to run.
type cancelBefore struct {
	statement string
	cut       context.CancelFunc
}

func (c *cancelBefore) BeforeQuery(ctx context.Context, e *bun.QueryEvent) context.Context {
	if c.cut != nil && strings.HasPrefix(e.Query, c.statement) {
		c.cut()
	}
	return ctx
}

func (*cancelBefore) AfterQuery(context.Context, *bun.QueryEvent) {}

// TestChangeAndEventAreOneTransaction cuts the caller off at each statement of a change in
// turn. No mailbox is blocked without its event.
func TestChangeAndEventAreOneTransaction(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url func(testing.TB) string) {
		hook := &cancelBefore{}
		s := migrated(t, url(t), hook)
		empty := newEmptier(t, s)
		for _, statement := range []string{
			`INSERT INTO "mailbox_blocks"`, `INSERT INTO "block_grounds"`, `INSERT INTO "enforcement_events"`, `INSERT INTO "enforcement_counts"`,
		} {
			empty(t)
			hook.statement = statement
			run, m := addClaimedMailbox(t, s)
			now := time.Now()
			change := sendlimit.Change{Box: m.ID, Action: sendlimit.Blocked, At: now, Event: sendlimit.Event{
				Tenant: run.Tenant, Address: m.Address, Action: sendlimit.Blocked, Sent: 26, Limit: 25}}
			var ctx context.Context
			ctx, hook.cut = context.WithCancel(t.Context())
			if _, err := s.SaveChanges(ctx, run, ports.SendChanges{At: now, Done: []sendlimit.Change{change}}); err == nil {
				t.Fatalf("%s was not cut", statement)
			}
			hook.cut = nil
			before, err := s.Mailbox(t.Context(), run.Account, run.Tenant, m.ID)
			must(t, err)
			page, err := s.Events(t.Context(), run.Account, ports.EventQuery{Limit: 9})
			must(t, err)
			if !before.BlockedAt.IsZero() || page.Total != 0 {
				t.Fatalf("cut at %s: blocked at %s, %d events", statement, before.BlockedAt, page.Total)
			}
			held, err := s.SaveChanges(t.Context(), run, ports.SendChanges{At: now, Done: []sendlimit.Change{change}})
			must(t, err)
			if page, err = s.Events(t.Context(), run.Account, ports.EventQuery{Limit: 9}); err != nil || !held || page.Total != 1 {
				t.Fatalf("after %s: held %v, %d events, %v", statement, held, page.Total, err)
			}
		}
	})
}

// addClaimedMailbox adds a mailbox, and claims its tenant for a pass.
func addClaimedMailbox(t *testing.T, s *Store) (ports.SendRun, mailbox.Mailbox) {
	t.Helper()
	ctx, now := t.Context(), time.Now()
	a, err := s.CreateAccount(ctx, "ann@example.test", "complete", 0, now)
	must(t, err)
	made, err := s.Attach(ctx, a.ID, tenant.Tenant{GUID: "10000000-0000-4000-8000-000000000001", ConsentedAt: now}, 9)
	must(t, err)
	made.Bootstrap = tenant.BootstrapReady
	must(t, s.SaveTenant(ctx, a.ID, made))
	must(t, s.SaveDiscovery(ctx, a.ID, made.GUID, ports.Found{Began: now, Mailboxes: []mailbox.Platform{{Address: "ada@a.test"}}}))
	boxes, err := s.Mailboxes(ctx, a.ID, made.GUID)
	must(t, err)
	run, won, err := s.ClaimTenant(ctx, a.ID, made.GUID, time.Minute, now)
	must(t, err)
	if !won {
		t.Fatal("not claimed")
	}
	return run, boxes[0]
}
