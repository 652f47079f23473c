// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/ports"
)

type accountRow struct {
	bun.BaseModel `bun:"table:accounts,alias:a"`

	AccountID   string `bun:",pk"`
	Email       string
	Plan        string
	Active      bool
	TenantSlots int `bun:",nullzero"` // 0 if the plan's number of slots applies
	CreatedAt   time.Time

	PlanSlots    int       `bun:",scanonly"`
	AutomaticDNS bool      `bun:"automatic_dns,scanonly"`
	ClosedAt     time.Time `bun:",scanonly"`
	TenantsHeld  int       `bun:",scanonly"`
}

type memberRow struct {
	bun.BaseModel `bun:"table:members,alias:mb"`

	AccountID string `bun:",pk"`
	Email     string `bun:",pk"`
	CreatedAt time.Time
}

func (r accountRow) account() access.Account {
	slots := r.TenantSlots
	if slots == 0 {
		slots = r.PlanSlots
	}
	return access.Account{
		ID: access.AccountID(r.AccountID), Email: r.Email, Active: r.Active, CreatedAt: r.CreatedAt.UTC(),
		Plan:     access.Plan{Name: r.Plan, TenantSlots: slots, AutomaticDNS: r.AutomaticDNS},
		OwnSlots: r.TenantSlots, ClosedAt: r.ClosedAt.UTC(), TenantCount: r.TenantsHeld,
	}
}

// accountColumns makes a query select accounts with their plans. The alias of accounts must be a.
func accountColumns(q *bun.SelectQuery) *bun.SelectQuery {
	return q.ColumnExpr("?TableColumns").ColumnExpr("p.tenant_slots AS plan_slots, p.automatic_dns").
		Join("JOIN plans AS p ON p.name = a.plan")
}

// operatorAccountColumns works like accountColumns, and also selects the columns that only
// operators see.
func operatorAccountColumns(q *bun.SelectQuery) *bun.SelectQuery {
	return accountColumns(q).ColumnExpr("c.closed_at").
		ColumnExpr("(SELECT COUNT(*) FROM tenants AS t WHERE t.account_id = a.account_id) AS tenants_held").
		Join("LEFT JOIN closed_accounts AS c ON c.account_id = a.account_id")
}

// ofActiveAccount returns the SQL condition that the account of a row is active. alias is the alias
// of the row's table.
func ofActiveAccount(alias string) string {
	return "EXISTS (SELECT 1 FROM accounts AS a WHERE a.account_id = " + alias + ".account_id AND a.active)"
}

// CreateAccount implements ports.Accounts.
func (s *Store) CreateAccount(ctx context.Context, email, plan string, slots int, now time.Time) (access.Account, error) {
	row := accountRow{
		AccountID: newID(), Email: normalEmail(email), Plan: storedText(plan), Active: true, TenantSlots: slots, CreatedAt: storedTime(now),
	}
	err := s.inTransaction(ctx, "create account", func(ctx context.Context, tx bun.IDB) error {
		if err := s.checkEmailFree(ctx, tx, row.Email); err != nil {
			return err
		}
		if err := checkPlan(ctx, tx, plan); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		member := memberRow{AccountID: row.AccountID, Email: row.Email, CreatedAt: row.CreatedAt}
		if _, err := tx.NewInsert().Model(&member).Exec(ctx); err != nil {
			return err
		}
		if err := accountColumns(tx.NewSelect().Model(&row)).Where("a.account_id = ?", row.AccountID).Scan(ctx); err != nil {
			return err
		}
		return s.recordAudit(ctx, tx, audit.CreateAccount, row.AccountID, map[string]string{
			"email": row.Email, "plan": row.Plan, "tenant_slots": strconv.Itoa(row.account().Plan.TenantSlots),
		})
	})
	if err != nil {
		return access.Account{}, err
	}
	return row.account(), nil
}

// checkEmailFree returns fault.InvalidRequest if a member already has the address. No unique key of
// members spans accounts. On PostgreSQL, an advisory lock therefore makes creations with the same
// address run one after another.
func (s *Store) checkEmailFree(ctx context.Context, tx bun.IDB, email string) error {
	if database.IsPostgres(s.db) {
		if _, err := tx.NewRaw("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", email).Exec(ctx); err != nil {
			return err
		}
	}
	isTaken, err := tx.NewSelect().Model((*memberRow)(nil)).Where("email = ?", email).Exists(ctx)
	if err == nil && isTaken {
		return fault.InvalidRequest.With("the e-mail address has an account already")
	}
	return err
}

// Accounts implements ports.Accounts.
func (s *Store) Accounts(ctx context.Context) ([]access.Account, error) {
	var rows []accountRow
	err := s.db.RunRead(ctx, "list accounts", func(ctx context.Context, db bun.IDB) error {
		return operatorAccountColumns(db.NewSelect().Model(&rows)).Order("a.created_at", "a.account_id").Scan(ctx)
	})
	return convertAll(rows, accountRow.account), err
}

// FindAccount implements ports.Accounts.
func (s *Store) FindAccount(ctx context.Context, idOrEmail string) (access.Account, error) {
	var row accountRow
	address := normalEmail(idOrEmail)
	err := s.db.RunRead(ctx, "find account", func(ctx context.Context, db bun.IDB) error {
		return orNotFound(operatorAccountColumns(db.NewSelect().Model(&row)).
			Where("a.account_id = ? OR a.account_id IN (SELECT account_id FROM members WHERE email = ?) "+
				"OR a.email = ? AND c.closed_at IS NOT NULL", ident.ParseOrZero(idOrEmail), address, address).
			OrderExpr("c.closed_at IS NOT NULL, c.closed_at DESC").Limit(1).Scan(ctx), accountNotFound())
	})
	if err != nil {
		return access.Account{}, err
	}
	return row.account(), nil
}

func accountNotFound() error {
	return fault.AccountNotFound.With("there is no account with this id or e-mail address")
}

// normalEmail returns the form in which members' addresses are stored and compared.
func normalEmail(raw string) string { return storedText(strings.ToLower(strings.TrimSpace(raw))) }

// ChangePlan implements ports.Accounts.
func (s *Store) ChangePlan(ctx context.Context, id access.AccountID, plan string, slots int) (access.Account, error) {
	return s.changeAccount(ctx, "change plan", id, func(ctx context.Context, tx bun.IDB, before access.Account) error {
		plan := cmp.Or(plan, before.Plan.Name)
		if err := checkPlan(ctx, tx, plan); err != nil {
			return err
		}
		row := accountRow{AccountID: string(before.ID), Plan: storedText(plan), TenantSlots: slots}
		_, err := tx.NewUpdate().Model(&row).Column("plan", "tenant_slots").Where("account_id = ?", row.AccountID).Exec(ctx)
		if err != nil {
			return err
		}
		after, err := operatorAccount(ctx, tx, row.AccountID)
		if err != nil {
			return err
		}
		return s.recordAudit(ctx, tx, audit.ChangePlan, row.AccountID, map[string]string{
			"plan": after.Plan.Name, "tenant_slots": strconv.Itoa(after.Plan.TenantSlots),
			"plan_before": before.Plan.Name, "tenant_slots_before": strconv.Itoa(before.Plan.TenantSlots),
		})
	})
}

// SetActive implements ports.Accounts.
func (s *Store) SetActive(ctx context.Context, id access.AccountID, active bool) (access.Account, error) {
	return s.changeAccount(ctx, "suspend or resume account", id, func(ctx context.Context, tx bun.IDB, before access.Account) error {
		if before.Active == active {
			return nil
		}
		_, err := tx.NewUpdate().Model((*accountRow)(nil)).Set("active = ?", active).
			Where("account_id = ?", string(before.ID)).Exec(ctx)
		if err != nil {
			return err
		}
		action := audit.SuspendAccount
		if active {
			action = audit.ResumeAccount
		}
		return s.recordAudit(ctx, tx, action, string(before.ID), map[string]string{"email": before.Email})
	})
}

// changeAccount runs a change of an open account while it holds the account's lock. It returns the
// account after the change.
func (s *Store) changeAccount(ctx context.Context, operation string, id access.AccountID,
	change func(ctx context.Context, tx bun.IDB, before access.Account) error,
) (access.Account, error) {
	var changed access.Account
	err := s.inTransaction(ctx, operation, func(ctx context.Context, tx bun.IDB) error {
		before, err := s.lockOpenAccount(ctx, tx, accountKey(id))
		if err != nil {
			return err
		}
		if err := change(ctx, tx, before); err != nil {
			return err
		}
		changed, err = operatorAccount(ctx, tx, string(before.ID))
		return err
	})
	if err != nil {
		return access.Account{}, err
	}
	return changed, nil
}

// lockOpenAccount locks the account and returns an error if the account is closed. It reads the
// account in a second statement. The locking statement can wait for a transaction that closes the
// account, and would not see the row that this transaction adds to closed_accounts.
func (s *Store) lockOpenAccount(ctx context.Context, tx bun.IDB, owner string) (access.Account, error) {
	if err := s.lockAccount(ctx, tx, owner); err != nil {
		return access.Account{}, err
	}
	acc, err := operatorAccount(ctx, tx, owner)
	if err != nil {
		return access.Account{}, err
	}
	return acc, acc.CheckOpen()
}

// lockAccount locks an account until the transaction ends. Transactions that change the account, or
// that add or change its keys, hold this lock, so they run one after another. Transactions that add
// tenants, DNS connections, integrations or webhooks hold it too, so that a closed account gets
// none of these.
func (s *Store) lockAccount(ctx context.Context, tx bun.IDB, owner string) error {
	var id string
	err := s.db.LockRows(tx.NewSelect().Model((*accountRow)(nil)).Column("account_id").
		Where("account_id = ?", owner), "a").Scan(ctx, &id)
	return orNotFound(err, accountNotFound())
}

func operatorAccount(ctx context.Context, tx bun.IDB, owner string) (access.Account, error) {
	var row accountRow
	err := operatorAccountColumns(tx.NewSelect().Model(&row)).Where("a.account_id = ?", ident.ParseOrZero(owner)).Scan(ctx)
	return row.account(), orNotFound(err, accountNotFound())
}

func checkPlan(ctx context.Context, tx bun.IDB, plan string) error {
	exists, err := tx.NewSelect().TableExpr("plans").Where("name = ?", storedText(plan)).Exists(ctx)
	if err == nil && !exists {
		return access.UnknownPlan()
	}
	return err
}

type closedRow struct {
	bun.BaseModel `bun:"table:closed_accounts,alias:c"`

	AccountID string `bun:",pk"`
	ClosedAt  time.Time
}

// CloseAccount implements ports.Accounts.
func (s *Store) CloseAccount(ctx context.Context, id access.AccountID, now time.Time, rulesLeft ...string) (ports.Closing, error) {
	var closing ports.Closing
	err := s.inTransaction(ctx, "close account", func(ctx context.Context, tx bun.IDB) error {
		closing = ports.Closing{At: storedTime(now)}
		if err := s.lockAccount(ctx, tx, accountKey(id)); err != nil {
			return err
		}
		acc, err := operatorAccount(ctx, tx, string(id))
		if err != nil {
			return err
		}
		if acc.Status() == access.StatusClosed {
			closing.At = acc.ClosedAt
			return nil
		}
		return s.closeLockedAccount(ctx, tx, acc, rulesLeft, &closing)
	})
	if err != nil {
		return ports.Closing{}, err
	}
	// The events are deleted after the commit, because their log may be too long for one
	// transaction. A closed account gets no new events.
	if err := s.dropEnforcementEvents(ctx, accountKey(id)); err != nil {
		return closing, err
	}
	_, err = s.dropLog(ctx, accountKey(id), afterAllEvents)
	return closing, err
}

// closeLockedAccount closes an account whose lock the transaction holds, and fills in closing.
func (s *Store) closeLockedAccount(ctx context.Context, tx bun.IDB, acc access.Account, rulesLeft []string, closing *ports.Closing) error {
	integrations, err := s.lockIntegrations(ctx, tx, string(acc.ID)) // integrations are locked first (see lockToConnect)
	if err != nil {
		return err
	}
	if closing.TenantsReleased, err = s.releaseTenants(ctx, tx, string(acc.ID)); err != nil {
		return err
	}
	if closing.KeysRevoked, err = s.revokeKeys(ctx, tx, string(acc.ID), closing.At); err != nil {
		return err
	}
	if closing.DNSConnectionsRemoved, err = s.dropDNSConnections(ctx, tx, string(acc.ID)); err != nil {
		return err
	}
	if err := s.removeIntegrations(ctx, tx, string(acc.ID), integrations); err != nil {
		return err
	}
	closing.IntegrationsRemoved = len(integrations)
	if err := dropWebhooks(ctx, tx, string(acc.ID)); err != nil {
		return err
	}
	if err := s.markClosed(ctx, tx, string(acc.ID), closing.At); err != nil {
		return err
	}
	return s.recordAudit(ctx, tx, audit.CloseAccount, string(acc.ID), withRulesLeft(map[string]string{
		"email": acc.Email, "plan": acc.Plan.Name,
		"keys_revoked": strconv.Itoa(closing.KeysRevoked), "tenants_released": strconv.Itoa(closing.TenantsReleased),
		"dns_connections_removed": strconv.Itoa(closing.DNSConnectionsRemoved),
		"integrations_removed":    strconv.Itoa(closing.IntegrationsRemoved),
	}, rulesLeft))
}

// withRulesLeft adds to the details of an audit entry the names of the transport rules that remain
// at the mail platform.
func withRulesLeft(details map[string]string, names []string) map[string]string {
	if len(names) > 0 {
		details["rules_left"] = strings.Join(names, ", ")
	}
	return details
}

// releaseTenants deletes the tenants of an account, records each in the audit log, and returns
// their number.
func (s *Store) releaseTenants(ctx context.Context, tx bun.IDB, owner string) (int, error) {
	var rows []tenantRow
	if err := tx.NewSelect().Model(&rows).Where("account_id = ?", owner).Order("guid").Scan(ctx); err != nil {
		return 0, err
	}
	for _, row := range rows {
		if _, err := s.deleteTenant(ctx, tx, owner, row.GUID); err != nil {
			return 0, err
		}
		if err := s.recordAudit(ctx, tx, audit.ReleaseTenant, owner, tenantDetails(row)); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}

func tenantDetails(row tenantRow) map[string]string {
	return map[string]string{
		"tenant_id": row.GUID, "tenant_name": row.Name, "tenant_domain": row.BuiltinDomain, "managed": strconv.FormatBool(row.Managed),
	}
}

func (s *Store) revokeKeys(ctx context.Context, tx bun.IDB, owner string, now time.Time) (int, error) {
	var rows []keyRow
	err := tx.NewSelect().Model(&rows).Where("account_id = ?", owner).Where("revoked_at IS NULL").Order("id").Scan(ctx)
	if err != nil {
		return 0, err
	}
	for _, row := range rows {
		if err := s.revokeKeyRow(ctx, tx, row, now); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}

// markClosed marks the account as closed and deletes its members, so that a new account can use
// their e-mail addresses. It also deletes rows that only an open account needs.
func (s *Store) markClosed(ctx context.Context, tx bun.IDB, owner string, now time.Time) error {
	closed := closedRow{AccountID: owner, ClosedAt: now}
	if _, err := tx.NewInsert().Model(&closed).Exec(ctx); err != nil {
		return err
	}
	_, err := tx.NewUpdate().Model((*accountRow)(nil)).Set("active = ?", false).Where("account_id = ?", owner).Exec(ctx)
	if err != nil {
		return err
	}
	for _, table := range []any{(*memberRow)(nil), (*flowRow)(nil), (*connectSessionRow)(nil), (*settingsRow)(nil), (*idempotencyRow)(nil), (*dnsRunRow)(nil)} {
		if _, err := tx.NewDelete().Model(table).Where("account_id = ?", owner).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Account implements ports.Keys.
func (s *Store) Account(ctx context.Context, id access.AccountID) (access.Account, error) {
	var row accountRow
	err := s.db.RunRead(ctx, "load account", func(ctx context.Context, db bun.IDB) error {
		err := accountColumns(db.NewSelect().Model(&row)).Where("a.account_id = ?", accountKey(id)).Scan(ctx)
		return orNotFound(err, accountNotFound())
	})
	if err != nil {
		return access.Account{}, err
	}
	return row.account(), nil
}

// Member implements ports.Keys.
func (s *Store) Member(ctx context.Context, owner access.AccountID, email string) (bool, error) {
	var isMember bool
	err := s.db.RunRead(ctx, "find member", func(ctx context.Context, db bun.IDB) (err error) {
		isMember, err = db.NewSelect().Model((*memberRow)(nil)).
			Where("account_id = ?", accountKey(owner)).Where("email = ?", normalEmail(email)).Exists(ctx)
		return err
	})
	return isMember, err
}

type settingsRow struct {
	bun.BaseModel `bun:"table:account_settings,alias:ast"`

	AccountID   string `bun:",pk"`
	DisplayName string
	SupportURL  string `bun:"support_url"`
	ReturnHosts string // separated by commas
}

func (r settingsRow) settings() access.Settings {
	return access.Settings{DisplayName: r.DisplayName, SupportURL: r.SupportURL, ReturnHosts: strings.FieldsFunc(r.ReturnHosts, func(c rune) bool { return c == ',' })}
}

// Settings implements ports.AccountSettings.
func (s *Store) Settings(ctx context.Context, id access.AccountID) (access.Settings, error) {
	var settings access.Settings
	err := s.db.RunRead(ctx, "load account settings", func(ctx context.Context, db bun.IDB) (err error) {
		settings, err = settingsOf(ctx, db, accountKey(id))
		return err
	})
	return settings, err
}

func settingsOf(ctx context.Context, db bun.IDB, owner string) (access.Settings, error) {
	var row settingsRow
	err := db.NewSelect().Model(&row).Where("account_id = ?", owner).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return row.settings(), err
}

// ChangeSettings implements ports.Accounts.
func (s *Store) ChangeSettings(ctx context.Context, id access.AccountID, change func(access.Settings) (access.Settings, error)) (access.Settings, error) {
	var changed access.Settings
	err := s.inTransaction(ctx, "change account settings", func(ctx context.Context, tx bun.IDB) error {
		acc, err := s.lockOpenAccount(ctx, tx, accountKey(id))
		if err != nil {
			return err
		}
		before, err := settingsOf(ctx, tx, string(acc.ID))
		if err != nil {
			return err
		}
		if changed, err = change(before); err != nil {
			return err
		}
		row := settingsRow{AccountID: string(acc.ID), DisplayName: storedText(changed.DisplayName), SupportURL: storedText(changed.SupportURL), ReturnHosts: storedText(strings.Join(changed.ReturnHosts, ","))}
		if slices.Equal(before.ReturnHosts, changed.ReturnHosts) && before.DisplayName == row.DisplayName && before.SupportURL == row.SupportURL {
			return nil
		}
		_, err = tx.NewInsert().Model(&row).On("CONFLICT (account_id) DO UPDATE").Set("display_name = EXCLUDED.display_name").
			Set("support_url = EXCLUDED.support_url").Set("return_hosts = EXCLUDED.return_hosts").Exec(ctx)
		if err != nil {
			return err
		}
		return s.recordAudit(ctx, tx, audit.SetAccount, row.AccountID, map[string]string{
			"display_name": row.DisplayName, "support_url": row.SupportURL, "return_hosts": row.ReturnHosts,
		})
	})
	return changed, err
}
