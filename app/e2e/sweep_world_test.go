// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const (
	sweepBoxes    = 36
	sweepMessages = 20 // of a mailbox on the day
	sweepLimit    = 25
	sweepAccounts = 10
)

// slowPlatform is a mail platform with the same messages in every tenant. In
// one of ten a mailbox sent too many.
type slowPlatform struct {
	ports.MailPlatform
	latency                      time.Duration
	answers, calls, most, blocks atomic.Int64 // most calls at once
	blocked                      sync.Map     // the rule of a tenant, once it blocks
}

// For implements ports.MailPlatform.
func (p *slowPlatform) For(id tenant.GUID) ports.MailTenant { return slowTenant{platform: p, id: id} }

// answer is n answers of the platform, one after the other.
func (p *slowPlatform) answer(ctx context.Context, n int) error {
	p.answers.Add(int64(n))
	now := p.calls.Add(1)
	defer p.calls.Add(-1)
	for most := p.most.Load(); now > most && !p.most.CompareAndSwap(most, now); most = p.most.Load() {
	}
	select {
	case <-time.After(time.Duration(n) * p.latency):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type slowTenant struct {
	ports.MailTenant
	platform *slowPlatform
	id       tenant.GUID
}

func (t slowTenant) greedy() bool { return strings.HasSuffix(string(t.id), "0") }

// Sent implements ports.SendTrace.
func (t slowTenant) Sent(ctx context.Context, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
	page := sendlimit.Trace{Sent: make([]sendlimit.Sent, 0, sweepBoxes*(sweepMessages+1))}
	for n := range sweepBoxes {
		messages := sweepMessages
		if n == 0 && t.greedy() {
			messages = sweepLimit + 1
		}
		for m := range messages {
			page.Sent = append(page.Sent, sendlimit.Sent{Message: fmt.Sprint(n, "-", m), Sender: sweepAddress(n),
				At: q.From.Add(q.To.Sub(q.From) * time.Duration(m) / time.Duration(messages))})
		}
	}
	return page, t.platform.answer(ctx, 1)
}

// Rules implements ports.SendRules.
func (t slowTenant) Rules(ctx context.Context) ([]sendlimit.Rule, error) {
	rule := sendlimit.Rule{ID: "rule", Name: sendlimit.RuleName(sendlimit.TenantWide)}
	if blocks, does := t.platform.blocked.Load(t.id); does {
		rule = blocks.(sendlimit.Rule)
	}
	return []sendlimit.Rule{rule}, t.platform.answer(ctx, 1)
}

// Block implements ports.SendRules: the rule is read, written and read back.
func (t slowTenant) Block(ctx context.Context, scope string, list []string) (sendlimit.Rule, error) {
	r := sendlimit.Rule{ID: "rule", Name: sendlimit.RuleName(scope), Enabled: len(list) > 0, Lists: list, Written: true}
	t.platform.blocks.Add(int64(len(list)))
	t.platform.blocked.Store(t.id, r)
	return r, t.platform.answer(ctx, 3)
}

func sweepAddress(n int) string { return fmt.Sprintf("box-%d@example.test", n) }

// limitedTenants gives accounts tenants that hold a limit and are full of
// mailboxes, past the store, which would take a minute for 10,000.
func limitedTenants(ctx context.Context, store *bunstore.Store, database string, tenants int) (err error) {
	var owners []access.AccountID
	for n := range sweepAccounts {
		a, err := store.CreateAccount(ctx, fmt.Sprintf("owner-%d@example.test", n), "complete", 0, time.Now())
		if err != nil {
			return err
		}
		owners = append(owners, a.ID)
	}
	driver, source := "pgx", database
	if path, ok := strings.CutPrefix(database, "sqlite://"); ok {
		driver, source = "sqlite", path
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for first := 0; first < tenants && err == nil; first += 100 {
		_, err = db.ExecContext(ctx, tenantRows(owners, first, min(first+100, tenants)))
	}
	return err
}

// tenantRows are the rows of tenants from one number to before another.
func tenantRows(owners []access.AccountID, first, last int) string {
	const at = "2026-01-01 00:00:00+00:00"
	var holders, all, policies, boxes []string
	for n := first; n < last; n++ {
		owner, id := owners[n%len(owners)], fmt.Sprintf("20000000-0000-4000-8000-%012d", n)
		holders = append(holders, fmt.Sprintf("('%s', '%s')", id, owner))
		all = append(all, fmt.Sprintf("('%s', '%s', '%[2]s', 'Example', 'example.onmicrosoft.com', '', TRUE, '%s', '%s', '', '%s', '', '%s', '%s', %d)",
			owner, id, tenant.ConsentGranted, at, tenant.BootstrapReady, tenant.SMTPAuthEnabled, tenant.DiscoveryCompleted, sweepBoxes))
		policies = append(policies, fmt.Sprintf("('%s', '%s', '%[2]s', '%s', '', %d, 'rule', '%s', '%s', '%[6]s')",
			owner, id, ident.Zero, sweepLimit, sendlimit.RuleName(sendlimit.TenantWide), at))
		for i := range sweepBoxes {
			boxes = append(boxes, fmt.Sprintf("('%s', '%08d-0000-4000-8000-%012d', '%s', '%s', 'example.test', '%s', TRUE, '', 'Box', '', '', TRUE, 0, '%s', '%[7]s')",
				owner, i, n, id, sweepAddress(i), mailbox.Ready, at))
		}
	}
	return "BEGIN; INSERT INTO tenant_holders (guid, account_id) VALUES " + strings.Join(holders, ", ") +
		"; INSERT INTO tenants (account_id, id, guid, name, builtin_domain, default_domain, managed, consent, consented_at, connected_by, bootstrap, bootstrap_step, smtp_auth, discovery, user_mailboxes) VALUES " + strings.Join(all, ", ") +
		"; INSERT INTO send_policies (account_id, id, tenant_id, domain_id, scope, daily_send_limit, rule_id, rule_name, created_at, updated_at) VALUES " + strings.Join(policies, ", ") +
		"; INSERT INTO mailboxes (account_id, id, tenant_id, address, domain_name, stage, provisioned, object_id, display_name, principal_name, alias, account_enabled, sends_today, created_at, stored_at) VALUES " + strings.Join(boxes, ", ") +
		"; COMMIT"
}
