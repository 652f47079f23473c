// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
)

type tenantRow struct {
	bun.BaseModel `bun:"table:tenants,alias:t"`

	AccountID     string `bun:",pk"`
	ID            string `bun:",pk"`
	GUID          string `bun:"guid"`
	Name          string
	BuiltinDomain string
	DefaultDomain string
	Managed       bool
	Consent       string
	ConsentedAt   time.Time
	ConnectedBy   string
	Bootstrap     string
	BootstrapStep string
	SMTPAuth      string `bun:"smtp_auth"`
	Discovery     string
	LastSyncAt    time.Time `bun:",nullzero"`
	UserMailboxes int

	DomainCount                 int `bun:",scanonly"`
	DomainsVerified             int `bun:",scanonly"`
	DomainsSigned               int `bun:",scanonly"`
	DomainsAwaitingVerification int `bun:"domains_published,scanonly"`
	MailboxCount                int `bun:",scanonly"`
}

// tenantScanner reads rows of tenantQuery without bun, because many requests read such rows. Bun is
// slower: for each row it looks up the field of each column, and allocates memory.
type tenantScanner struct {
	row        tenantRow
	lastSyncAt *time.Time
	columns    []any
}

func newTenantScanner() *tenantScanner {
	s := &tenantScanner{}
	r := &s.row
	s.columns = []any{
		&r.ID, &r.GUID, &r.Name, &r.BuiltinDomain, &r.DefaultDomain, &r.Managed, &r.Consent,
		&r.ConsentedAt, &r.ConnectedBy, &r.Bootstrap, &r.BootstrapStep, &r.SMTPAuth, &r.Discovery, &s.lastSyncAt, &r.UserMailboxes,
		&r.DomainCount, &r.DomainsVerified, &r.DomainsSigned, &r.DomainsAwaitingVerification, &r.MailboxCount,
	}
	return s
}

func (s *tenantScanner) scan(row database.Row) (tenant.Tenant, error) {
	err := row.Scan(s.columns...)
	s.row.LastSyncAt = time.Time{}
	if s.lastSyncAt != nil {
		s.row.LastSyncAt = *s.lastSyncAt
	}
	return s.row.tenant(), err
}

// holderRow records which account holds a tenant.
type holderRow struct {
	bun.BaseModel `bun:"table:tenant_holders,alias:h"`

	GUID      string `bun:"guid,pk"`
	AccountID string
}

// withdrawnRow records that an operator withdrew a managed tenant from an account.
type withdrawnRow struct {
	bun.BaseModel `bun:"table:withdrawn,alias:w"`

	AccountID   string `bun:",pk"`
	GUID        string `bun:"guid,pk"`
	WithdrawnAt time.Time
}

func newTenantRow(owner string, t tenant.Tenant) tenantRow {
	return tenantRow{
		AccountID: owner, ID: ident.ParseOrZero(t.ID), GUID: ident.ParseOrZero(string(t.GUID)), Name: storedText(t.Name),
		BuiltinDomain: storedText(t.BuiltinDomain), DefaultDomain: storedText(t.DefaultDomain), Managed: t.Managed,
		Consent:     string(cmp.Or(t.Consent, tenant.ConsentGranted)),
		ConsentedAt: storedTime(t.ConsentedAt), ConnectedBy: storedText(t.ConnectedBy),
		Bootstrap:     string(cmp.Or(t.Bootstrap, tenant.BootstrapPending)),
		BootstrapStep: string(t.BootstrapStep),
		SMTPAuth:      string(cmp.Or(t.SMTPAuth, tenant.SMTPAuthUnknown)),
		Discovery:     string(cmp.Or(t.Discovery, tenant.DiscoveryPending)),
		LastSyncAt:    storedTime(t.LastSyncAt), UserMailboxes: t.UserMailboxes,
	}
}

func (r tenantRow) tenant() tenant.Tenant {
	return tenant.Tenant{
		ID: r.ID, GUID: tenant.GUID(r.GUID), Name: r.Name, BuiltinDomain: r.BuiltinDomain, DefaultDomain: r.DefaultDomain,
		Managed: r.Managed, Consent: tenant.Consent(r.Consent), ConsentedAt: r.ConsentedAt.UTC(), ConnectedBy: r.ConnectedBy,
		Bootstrap: tenant.Bootstrap(r.Bootstrap), BootstrapStep: tenant.BootstrapStep(r.BootstrapStep),
		SMTPAuth: tenant.SMTPAuth(r.SMTPAuth), Discovery: tenant.Discovery(r.Discovery),
		LastSyncAt: r.LastSyncAt.UTC(), UserMailboxes: r.UserMailboxes, DomainCount: r.DomainCount,
		DomainsVerified: r.DomainsVerified, DomainsSigned: r.DomainsSigned, DomainsAwaitingVerification: r.DomainsAwaitingVerification,
		MailboxCount: r.MailboxCount,
	}
}

// andTenantByGUID restricts the counts of tenantQuery to one tenant of the owner.
const andTenantByGUID = " AND tenant_id = (SELECT id FROM tenants WHERE account_id = ? AND guid = ?)"

// tenantQuery selects the owner's tenants with their counts. If guid is not nil, it selects only
// the tenant with this GUID.
func tenantQuery(db bun.IDB, rows, owner, guid any) *bun.SelectQuery {
	tenantCondition, args := "", []any{owner}
	if guid != nil {
		tenantCondition, args = andTenantByGUID, []any{owner, owner, guid}
	}
	mailboxArgs := append(args[:1:1], append([]any{listedStages}, args[1:]...)...)
	q := db.NewSelect().Model(rows).ExcludeColumn("account_id").
		ColumnExpr("COALESCE(d.held, 0) AS domain_count, COALESCE(d.verified, 0) AS domains_verified").
		ColumnExpr("COALESCE(d.signed, 0) AS domains_signed, COALESCE(d.published, 0) AS domains_published").
		ColumnExpr("COALESCE(m.held, 0) AS mailbox_count").
		Join("LEFT JOIN (SELECT tenant_id, COUNT(*) AS held, COUNT(*) FILTER (WHERE verified) AS verified, "+
			"COUNT(*) FILTER (WHERE dkim) AS signed, COUNT(*) FILTER (WHERE verification_seen AND NOT verified) AS published "+
			"FROM domains AS d WHERE account_id = ? AND added AND "+presentDomain+tenantCondition+" GROUP BY tenant_id) AS d ON d.tenant_id = t.id", args...).
		Join("LEFT JOIN (SELECT tenant_id, COUNT(*) AS held FROM mailboxes AS m WHERE account_id = ? AND stage IN (?) AND "+
			presentMailbox+tenantCondition+" GROUP BY tenant_id) AS m ON m.tenant_id = t.id", mailboxArgs...).
		Where("t.account_id = ?", owner)
	if guid != nil {
		q = q.Where("t.guid = ?", guid)
	}
	return q
}

func selectTenant(ctx context.Context, db bun.IDB, owner, guid string) (tenant.Tenant, error) {
	var row tenantRow
	err := tenantQuery(db, &row, owner, guid).Scan(ctx)
	return row.tenant(), orNotFound(err, tenantNotFound())
}

func tenantNotFound() error {
	return fault.FromStore(fault.TenantNotFound.With("the account holds no such tenant"))
}

// tenantListRead selects the tenants of an owner, the latest consent first.
func tenantListRead(db *bun.DB) *database.PreparedRead {
	return database.NewPreparedRead(tenantQuery(db, (*tenantRow)(nil), database.PreparedArg, nil).OrderExpr("t.consented_at DESC, t.id DESC"))
}

func tenantRead(db *bun.DB) *database.PreparedRead {
	return database.NewPreparedRead(tenantQuery(db, (*tenantRow)(nil), database.PreparedArg, database.PreparedArg2))
}

// tenantListCapacity is the initial capacity of the list that Tenants returns.
const tenantListCapacity = 32

// Tenants implements ports.Tenants.
func (s *Store) Tenants(ctx context.Context, owner access.AccountID) ([]tenant.Tenant, error) {
	var tenants []tenant.Tenant
	err := s.db.RunRead(ctx, "list tenants", func(ctx context.Context, _ bun.IDB) error {
		tenants = make([]tenant.Tenant, 0, tenantListCapacity)
		scanner := newTenantScanner()
		return s.db.ReadPrepared(ctx, s.tenantListRead, func(r database.Row) error {
			t, err := scanner.scan(r)
			if isVisible(ctx, t.GUID) {
				tenants = append(tenants, t)
			}
			return err
		}, accountKey(owner))
	})
	return tenants, err
}

// Tenant implements ports.Tenants.
func (s *Store) Tenant(ctx context.Context, owner access.AccountID, id tenant.GUID) (tenant.Tenant, error) {
	var found tenant.Tenant
	err := s.db.RunRead(ctx, "find tenant", func(ctx context.Context, _ bun.IDB) error {
		found = tenant.Tenant{}
		err := s.db.ReadPrepared(ctx, s.tenantRead, func(r database.Row) (err error) {
			found, err = newTenantScanner().scan(r)
			return err
		}, accountKey(owner), ident.ParseOrZero(string(id)))
		if err == nil && found.ID == "" {
			return tenantNotFound()
		}
		return err
	})
	return found, err
}

// TenantCount implements ports.Tenants.
func (s *Store) TenantCount(ctx context.Context, owner access.AccountID) (int, error) {
	var count int64
	err := s.db.RunRead(ctx, "count tenants", func(ctx context.Context, db bun.IDB) (err error) {
		count, err = db.NewSelect().Model((*tenantRow)(nil)).Where("account_id = ?", accountKey(owner)).Count(ctx)
		return err
	})
	return int(count), err
}

// SaveTenant implements ports.Tenants.
func (s *Store) SaveTenant(ctx context.Context, owner access.AccountID, t tenant.Tenant) error {
	return s.inTransaction(ctx, "save tenant", func(ctx context.Context, tx bun.IDB) error {
		return s.mergeTenant(ctx, tx, accountKey(owner), t)
	})
}

func (s *Store) lockTenant(ctx context.Context, tx bun.IDB, owner, guid string) (tenantRow, error) {
	var t tenantRow
	err := s.db.LockRows(tx.NewSelect().Model(&t).Where("t.account_id = ?", owner).Where("t.guid = ?", guid), "t").Scan(ctx)
	return t, orNotFound(err, tenantNotFound())
}

// Attach implements ports.Tenants. It holds the account's lock while it reads the plan, counts the
// tenants and stores the tenant. If several accounts attach the same tenant, the primary key of
// tenant_holders admits one of them. sessionIDs are the connect sessions that Attach marks as
// connected.
func (s *Store) Attach(ctx context.Context, owner access.AccountID, t tenant.Tenant, sessionIDs ...string) (tenant.Tenant, error) {
	row := newTenantRow(accountKey(owner), t)
	row.ID, row.Consent = newID(), string(tenant.ConsentGranted)
	var attached tenant.Tenant
	err := s.inTransaction(ctx, "attach tenant", func(ctx context.Context, tx bun.IDB) error {
		account, err := s.lockOpenAccount(ctx, tx, row.AccountID)
		if err != nil {
			return err
		}
		if !row.Managed {
			if err := account.CheckActive(); err != nil {
				return err
			}
		}
		renewed, err := s.renewConsent(ctx, tx, row)
		if err != nil {
			return err
		}
		if !renewed {
			if err := insertTenant(ctx, tx, row, account); err != nil {
				return err
			}
		}
		if err := markSessionsConnected(ctx, tx, row.AccountID, row.GUID, sessionIDs); err != nil {
			return err
		}
		if attached, err = selectTenant(ctx, tx, row.AccountID, row.GUID); err != nil {
			return err
		}
		if !row.Managed {
			addEntry(ctx, row.AccountID, administratorEntry(audit.ConnectTenant, row.ConnectedBy, row.GUID))
			return nil
		}
		return s.recordAssignment(ctx, tx, row, attached)
	})
	return attached, err
}

// recordAssignment records that an operator assigned the tenant. It returns fault.TenantHeld if the
// account connected the tenant itself.
func (s *Store) recordAssignment(ctx context.Context, tx bun.IDB, row tenantRow, attached tenant.Tenant) error {
	if !attached.Managed {
		return fault.TenantHeld.With("the account connected this tenant itself")
	}
	return s.recordAudit(ctx, tx, audit.AssignTenant, row.AccountID, tenantDetails(row))
}

// renewConsent updates the consent of a tenant that the account already holds, and sets a failed
// bootstrap back to pending. It returns false if the account does not hold the tenant.
//
// A repeated assignment is not a new consent: it keeps connected_by, and keeps consented_at while
// the consent is granted. But the assignment proves that the consent is valid, because the caller
// has read the tenant at the platform. renewConsent therefore stores the consent, and the pending
// bootstrap, as observed at row.ConsentedAt.
func (s *Store) renewConsent(ctx context.Context, tx bun.IDB, row tenantRow) (bool, error) {
	before, err := s.lockTenant(ctx, tx, row.AccountID, row.GUID)
	if errors.Is(err, fault.TenantNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	observedAt := row.ConsentedAt
	if row.Managed {
		row.ConnectedBy = before.ConnectedBy
		if before.Consent == string(tenant.ConsentGranted) {
			row.ConsentedAt = before.ConsentedAt
		}
	}
	if _, err := tx.NewUpdate().Model(&row).Column("consent", "consented_at", "connected_by").
		Where("account_id = ?", row.AccountID).Where("guid = ?", row.GUID).Exec(ctx); err != nil {
		return false, err
	}
	after := before.tenant()
	after.Consent, after.ConsentedAt, after.ConnectedBy = tenant.ConsentGranted, row.ConsentedAt, row.ConnectedBy
	emitTenant(ctx, row.AccountID, change[tenant.Tenant]{before.tenant(), after})
	stored, err := selectTenant(ctx, tx, row.AccountID, row.GUID)
	if err != nil {
		return false, err
	}
	stored.Observed.Consent = observedAt
	if stored.Bootstrap == tenant.BootstrapFailed {
		stored.Bootstrap, stored.BootstrapStep, stored.Observed.Bootstrap = tenant.BootstrapPending, tenant.StepWait, observedAt
	}
	return true, s.mergeTenant(ctx, tx, row.AccountID, stored)
}

// insertTenant stores a new tenant of an account. It fails if the account has no free tenant slot,
// or if an account already holds the tenant. The caller must have read account while it held the
// account's lock.
func insertTenant(ctx context.Context, tx bun.IDB, row tenantRow, account access.Account) error {
	if err := account.CheckFreeSlot(account.TenantCount); err != nil {
		return err
	}
	holder := holderRow{GUID: row.GUID, AccountID: row.AccountID}
	res, err := tx.NewInsert().Model(&holder).On("CONFLICT DO NOTHING").Exec(ctx)
	if err := requireRow(res, err, fault.TenantHeld.With("this tenant is connected already")); err != nil {
		return err
	}
	if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
		return err
	}
	emitTenant(ctx, row.AccountID, change[tenant.Tenant]{after: row.tenant()})
	_, err = tx.NewDelete().Model((*withdrawnRow)(nil)).
		Where("account_id = ?", row.AccountID).Where("guid = ?", row.GUID).Exec(ctx)
	return err
}

// AccountOfManagedTenant implements ports.Assignments.
func (s *Store) AccountOfManagedTenant(ctx context.Context, id tenant.GUID) (access.AccountID, error) {
	var row tenantRow
	err := s.db.RunRead(ctx, "find assigned tenant", func(ctx context.Context, db bun.IDB) error {
		return orNotFound(assignedTenant(db, &row, id).Scan(ctx), notAssigned())
	})
	return access.AccountID(row.AccountID), err
}

func assignedTenant(db bun.IDB, row *tenantRow, id tenant.GUID) *bun.SelectQuery {
	return db.NewSelect().Model(row).Join("JOIN tenant_holders AS h ON h.account_id = t.account_id AND h.guid = t.guid").
		Where("h.guid = ?", ident.ParseOrZero(string(id))).Where("t.managed")
}

func notAssigned() error {
	return fault.TenantNotFound.With("no account holds this tenant as a managed one")
}

// Withdraw implements ports.Assignments. It refuses a tenant that its account connected itself.
func (s *Store) Withdraw(ctx context.Context, id tenant.GUID, rulesLeft ...string) (access.AccountID, error) {
	var row tenantRow
	err := s.inTransaction(ctx, "withdraw tenant", func(ctx context.Context, tx bun.IDB) error {
		row = tenantRow{}
		if err := s.db.LockRowsToDelete(assignedTenant(tx, &row, id), "t").Scan(ctx); err != nil {
			return orNotFound(err, notAssigned())
		}
		guid := ident.ParseOrZero(string(id))
		if _, err := s.deleteTenant(ctx, tx, row.AccountID, guid); err != nil {
			return err
		}
		withdrawn := withdrawnRow{AccountID: row.AccountID, GUID: guid, WithdrawnAt: storedTime(time.Now())}
		if _, err := tx.NewInsert().Model(&withdrawn).On("CONFLICT DO NOTHING").Exec(ctx); err != nil {
			return err
		}
		return s.recordAudit(ctx, tx, audit.WithdrawTenant, row.AccountID, withRulesLeft(tenantDetails(row), rulesLeft))
	})
	return access.AccountID(row.AccountID), err
}

// Withdrawn implements ports.Assignments.
func (s *Store) Withdrawn(ctx context.Context, owner access.AccountID, id tenant.GUID) (bool, error) {
	var wasWithdrawn bool
	err := s.db.RunRead(ctx, "find withdrawn tenant", func(ctx context.Context, db bun.IDB) (err error) {
		wasWithdrawn, err = db.NewSelect().Model((*withdrawnRow)(nil)).
			Where("account_id = ?", accountKey(owner)).Where("guid = ?", ident.ParseOrZero(string(id))).Exists(ctx)
		return err
	})
	return wasWithdrawn, err
}
