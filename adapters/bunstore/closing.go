// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/ports"
)

type closedRow struct {
	bun.BaseModel `bun:"table:closed_accounts,alias:c"`

	AccountID string `bun:",pk"`
	ClosedAt  time.Time
}

// CloseAccount implements ports.Accounts. Everything waits for the account's
// lock that could give it a key or a tenant meanwhile.
func (s *Store) CloseAccount(ctx context.Context, id access.AccountID, now time.Time, rulesLeft ...string) (ports.Closing, error) {
	var done ports.Closing
	err := s.atomically(ctx, "close account", func(ctx context.Context, tx bun.IDB) error {
		done = ports.Closing{At: micro(now)}
		if err := s.lockAccount(ctx, tx, account(id)); err != nil {
			return err
		}
		acc, err := operatorAccount(ctx, tx, string(id))
		if err != nil {
			return err
		}
		if acc.Status() == access.StatusClosed {
			done.At = acc.ClosedAt
			return nil
		}
		return s.closeOpen(ctx, tx, acc, rulesLeft, &done)
	})
	if err != nil {
		return done, err
	}
	// Nobody can add to it any more. It may be too long for one transaction.
	return done, s.dropLog(ctx, account(id))
}

func (s *Store) closeOpen(ctx context.Context, tx bun.IDB, acc access.Account, rulesLeft []string, done *ports.Closing) error {
	var err error
	if done.TenantsReleased, err = s.releaseAll(ctx, tx, string(acc.ID)); err != nil {
		return err
	}
	if done.KeysRevoked, err = s.revokeAll(ctx, tx, string(acc.ID), done.At); err != nil {
		return err
	}
	if done.DNSConnectionsRemoved, err = s.dropDNSConnections(ctx, tx, string(acc.ID)); err != nil {
		return err
	}
	if done.IntegrationsRemoved, err = dropIntegrations(ctx, tx, string(acc.ID)); err != nil {
		return err
	}
	if err := s.retire(ctx, tx, string(acc.ID), done.At); err != nil {
		return err
	}
	return s.record(ctx, tx, audit.CloseAccount, string(acc.ID), withRulesLeft(map[string]string{
		"email": acc.Email, "plan": acc.Plan.Name,
		"keys_revoked": strconv.Itoa(done.KeysRevoked), "tenants_released": strconv.Itoa(done.TenantsReleased),
		"dns_connections_removed": strconv.Itoa(done.DNSConnectionsRemoved),
		"integrations_removed":    strconv.Itoa(done.IntegrationsRemoved),
	}, rulesLeft))
}

// withRulesLeft adds the rules that stay at the mail platform to what the audit
// says.
func withRulesLeft(details map[string]string, names []string) map[string]string {
	if len(names) > 0 {
		details["rules_left"] = strings.Join(names, ", ")
	}
	return details
}

// releaseAll takes all tenants from an account.
func (s *Store) releaseAll(ctx context.Context, tx bun.IDB, owner string) (int, error) {
	var rows []tenantRow
	if err := tx.NewSelect().Model(&rows).Where("account_id = ?", owner).Order("guid").Scan(ctx); err != nil {
		return 0, err
	}
	for _, row := range rows {
		if _, err := release(ctx, tx, owner, row.GUID); err != nil {
			return 0, err
		}
		if err := s.record(ctx, tx, audit.ReleaseTenant, owner, tenantDetails(row)); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}

// tenantDetails is what the audit says of a tenant.
func tenantDetails(row tenantRow) map[string]string {
	return map[string]string{
		"tenant_id": row.GUID, "tenant_name": row.Name, "tenant_domain": row.BuiltinDomain, "managed": strconv.FormatBool(row.Managed),
	}
}

// revokeAll ends all live keys of an account.
func (s *Store) revokeAll(ctx context.Context, tx bun.IDB, owner string, now time.Time) (int, error) {
	var rows []keyRow
	err := tx.NewSelect().Model(&rows).Where("account_id = ?", owner).Where("revoked_at IS NULL").Order("id").Scan(ctx)
	if err != nil {
		return 0, err
	}
	for _, row := range rows {
		if err := s.revoke(ctx, tx, row, now); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}

// retire marks the account as closed and gives its address free. Links to
// connect tenants that are still under way, remembered answers and provisioning
// end here.
func (s *Store) retire(ctx context.Context, tx bun.IDB, owner string, now time.Time) error {
	mark := closedRow{AccountID: owner, ClosedAt: now}
	if _, err := tx.NewInsert().Model(&mark).Exec(ctx); err != nil {
		return err
	}
	_, err := tx.NewUpdate().Model((*accountRow)(nil)).Set("active = ?", false).Where("account_id = ?", owner).Exec(ctx)
	if err != nil {
		return err
	}
	for _, table := range []any{(*memberRow)(nil), (*flowRow)(nil), (*idempotencyRow)(nil), (*dnsRunRow)(nil)} {
		if _, err := tx.NewDelete().Model(table).Where("account_id = ?", owner).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}
