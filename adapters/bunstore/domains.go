// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

type domainRow struct {
	bun.BaseModel `bun:"table:domains,alias:d"`

	AccountID        string `bun:",pk"`
	ID               string `bun:",pk"`
	TenantID         string
	Name             string
	Added            bool
	IsDefault        bool
	Verified         bool
	DKIM             bool `bun:"dkim"`
	MailReady        bool
	Records          storedRecords `bun:"type:jsonb"`
	MX               string        `bun:"mx"`
	SPF              string        `bun:"spf"`
	DMARC            string        `bun:"dmarc"`
	DKIMStatus       string        `bun:"dkim_status"`
	VerificationSeen bool
	CheckedAt        time.Time `bun:",nullzero"`
	CreatedAt        time.Time
	StoredAt         time.Time

	TenantGUID string `bun:"tenant_guid,scanonly"`
	TenantName string `bun:",scanonly"`
}

// storedRecords is the JSON form of the DNS records that the platform requires, and of their
// health. Renaming one of its fields requires a migration.
type storedRecords struct {
	Verification, Service []storedRecord
	Selector1, Selector2  storedRecord
	// Sound and Drifted hold EverCorrect and Drifted of domain.Health, with a comma between the
	// entries.
	Sound, Drifted string
}

type storedRecord struct {
	Type, Name, Content string
	Preference, TTL     int
}

func newDomainRow(owner string, d domain.Domain) domainRow {
	return domainRow{
		AccountID: owner, ID: ident.ParseOrZero(d.ID), TenantID: ident.ParseOrZero(d.TenantID), Name: storedText(d.Name),
		Added: d.Added, IsDefault: d.Default, Verified: d.Verified, DKIM: d.DKIMEnabled, MailReady: d.MailReady,
		Records: storedRecords{
			Verification: newRecords(d.Verification), Service: newRecords(d.Service),
			Selector1: newRecord(d.Signing.Selector1), Selector2: newRecord(d.Signing.Selector2),
			Sound: joinDrifts(d.Health.EverCorrect), Drifted: joinDrifts(d.Health.Drifted),
		},
		MX: storedText(d.Status.MX), SPF: storedText(d.Status.SPF), DMARC: storedText(d.Status.DMARC), DKIMStatus: d.Status.DKIM,
		VerificationSeen: d.Status.VerificationSeen, CheckedAt: storedTime(d.CheckedAt), CreatedAt: storedTime(d.CreatedAt),
	}
}

func (r domainRow) domain() domain.Domain {
	return domain.Domain{
		ID: r.ID, TenantID: r.TenantID, TenantGUID: tenant.GUID(r.TenantGUID), Name: r.Name,
		Added: r.Added, Default: r.IsDefault, Verified: r.Verified, DKIMEnabled: r.DKIM, MailReady: r.MailReady,
		Verification: dnsRecords(r.Records.Verification), Service: dnsRecords(r.Records.Service),
		Signing: dns.Signing{
			Enabled:   r.DKIM,
			Selector1: r.Records.Selector1.dns(), Selector2: r.Records.Selector2.dns(),
		},
		Status: dns.Status{
			MX: r.MX, SPF: r.SPF, DMARC: r.DMARC, DKIM: r.DKIMStatus, VerificationSeen: r.VerificationSeen,
		},
		Health:    domain.Health{EverCorrect: splitDrifts(r.Records.Sound), Drifted: splitDrifts(r.Records.Drifted)},
		CheckedAt: r.CheckedAt.UTC(), CreatedAt: r.CreatedAt.UTC(),
	}
}

func joinDrifts(drifts []domain.Drift) string {
	return strings.Join(convertAll(drifts, func(kind domain.Drift) string { return string(kind) }), ",")
}

func splitDrifts(list string) []domain.Drift {
	var drifts []domain.Drift
	for kind := range strings.SplitSeq(list, ",") {
		if kind != "" {
			drifts = append(drifts, domain.Drift(kind))
		}
	}
	return drifts
}

func newRecord(r dns.Record) storedRecord {
	return storedRecord{Type: string(r.Type), Name: storedText(r.Name), Content: storedText(r.Content), Preference: r.Preference, TTL: r.TTL}
}

func (r storedRecord) dns() dns.Record {
	return dns.Record{Type: dns.Type(r.Type), Name: r.Name, Content: r.Content, Preference: r.Preference, TTL: r.TTL}
}

func newRecords(records []dns.Record) []storedRecord {
	return convertAll(records, newRecord)
}

func dnsRecords(rows []storedRecord) []dns.Record {
	var converted []dns.Record
	for _, r := range rows {
		converted = append(converted, r.dns())
	}
	return converted
}

func domainNotFound() error {
	return fault.FromStore(fault.DomainNotFound.With("the tenant holds no such domain"))
}

// domainsOfTenant selects a tenant left-joined with its added domains that are not missing and that
// satisfy joinCondition. If there is no such tenant, the result has no rows. If there is no such
// domain, the result is one row with an empty domain.
func domainsOfTenant(db bun.IDB, owner, guid, joinCondition string, args ...any) *bun.SelectQuery {
	return db.NewSelect().TableExpr("tenants AS t").ColumnExpr("d.*").ColumnExpr("t.guid AS tenant_guid").
		Join("LEFT JOIN domains AS d ON d.account_id = t.account_id AND d.tenant_id = t.id AND d.added AND "+presentDomain+joinCondition, args...).
		Where("t.account_id = ?", owner).Where("t.guid = ?", guid)
}

// Domains implements ports.Domains.
func (s *Store) Domains(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]domain.Domain, error) {
	var rows []domainRow
	err := s.db.RunRead(ctx, "list domains", func(ctx context.Context, db bun.IDB) error {
		return domainsOfTenant(db, accountKey(owner), ident.ParseOrZero(string(id)), "").Order("d.name").Scan(ctx, &rows)
	})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, tenantNotFound()
	}
	domains := make([]domain.Domain, 0, len(rows))
	for _, r := range rows {
		if r.ID != "" {
			domains = append(domains, r.domain())
		}
	}
	return domains, nil
}

// Domain implements ports.Domains.
func (s *Store) Domain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (domain.Domain, error) {
	var row domainRow
	err := s.db.RunRead(ctx, "find domain", func(ctx context.Context, db bun.IDB) error {
		err := domainsOfTenant(db, accountKey(owner), ident.ParseOrZero(string(id)), " AND d.name = ?", storedText(name)).Scan(ctx, &row)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return tenantNotFound()
		case err == nil && row.ID == "":
			return domainNotFound()
		}
		return err
	})
	if err != nil {
		return domain.Domain{}, err
	}
	return row.domain(), nil
}

// domainRead selects an added domain by its owner and its id, unless the domain is missing. It is
// prepared, because provisioning jobs run it often.
func domainRead(db *bun.DB) *database.PreparedRead {
	return database.NewPreparedRead(db.NewSelect().Model((*domainRow)(nil)).ColumnExpr("?TableColumns").ColumnExpr("t.guid AS tenant_guid").
		Join("JOIN tenants AS t ON t.account_id = d.account_id AND t.id = d.tenant_id").
		Where("d.account_id = ?", database.PreparedArg).Where("d.id = ?", database.PreparedArg2).Where("d.added").Where(presentDomain))
}

func scanDomain(row database.Row) (domain.Domain, error) {
	var r domainRow
	var records []byte
	var checked *time.Time
	err := row.Scan(&r.AccountID, &r.ID, &r.TenantID, &r.Name, &r.Added, &r.IsDefault, &r.Verified, &r.DKIM, &r.MailReady, &records,
		&r.MX, &r.SPF, &r.DMARC, &r.DKIMStatus, &r.VerificationSeen, &checked, &r.CreatedAt, &r.StoredAt, &r.TenantGUID)
	if err == nil {
		err = json.Unmarshal(records, &r.Records)
	}
	if checked != nil {
		r.CheckedAt = *checked
	}
	return r.domain(), err
}

// DomainByID implements ports.Domains.
func (s *Store) DomainByID(ctx context.Context, owner access.AccountID, domainID string) (domain.Domain, error) {
	var found domain.Domain
	err := s.db.RunRead(ctx, "find domain by id", func(ctx context.Context, _ bun.IDB) error {
		found = domain.Domain{}
		err := s.db.ReadPrepared(ctx, s.domainRead, func(r database.Row) error {
			d, err := scanDomain(r)
			if isVisible(ctx, d.TenantGUID) {
				found = d
			}
			return err
		}, accountKey(owner), ident.ParseOrZero(domainID))
		if err == nil && found.ID == "" {
			return domainNotFound()
		}
		return err
	})
	return found, err
}

func joinTenant(q *bun.SelectQuery) *bun.SelectQuery {
	return q.ColumnExpr("d.*").ColumnExpr("t.guid AS tenant_guid, t.name AS tenant_name").
		Join("JOIN tenants AS t ON t.account_id = d.account_id AND t.id = d.tenant_id")
}

// SaveDomain implements ports.Domains.
func (s *Store) SaveDomain(ctx context.Context, owner access.AccountID, d domain.Domain, storedAnswer *ports.StoredAnswer) error {
	return s.inTransaction(ctx, "save domain", func(ctx context.Context, tx bun.IDB) error {
		if _, err := s.mergeDomain(ctx, tx, owner, d); err != nil {
			return err
		}
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
}

// ChangeDomain implements ports.Domains.
func (s *Store) ChangeDomain(ctx context.Context, owner access.AccountID, d domain.Domain) (domain.Domain, error) {
	var merged domain.Domain
	err := s.inTransaction(ctx, "change domain", func(ctx context.Context, tx bun.IDB) (err error) {
		merged, err = s.mergeDomain(ctx, tx, owner, d)
		return err
	})
	return merged, err
}

// ReserveDomain implements ports.Domains.
func (s *Store) ReserveDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string, limit int, now time.Time) (domain.Domain, error) {
	var d domain.Domain
	now = storedTime(now)
	err := s.inTransaction(ctx, "reserve domain", func(ctx context.Context, tx bun.IDB) error {
		t, err := s.lockTenant(ctx, tx, accountKey(owner), ident.ParseOrZero(string(id)))
		if err != nil {
			return err
		}
		rows, err := s.lockDomains(ctx, tx, t)
		if err != nil {
			return err
		}
		if d, err = reserveDomain(ctx, tx, t, rows, name, limit, now); err != nil {
			return err
		}
		_, err = tx.NewDelete().Model((*domainRemovalRow)(nil)).Where("account_id = ?", t.AccountID).
			Where("tenant_id = ?", t.ID).Where("name = ?", storedText(name)).Exec(ctx)
		d.TenantGUID = tenant.GUID(t.GUID)
		return err
	})
	if err != nil {
		return domain.Domain{}, err
	}
	return d, nil
}

// reserveDomain returns the domain of this name among the tenant's rows, or a new reservation. If
// the domain is not added yet, reserveDomain renews its reservation. A domain that counts as
// missing becomes a reservation again. It keeps its row, because the platform may still have the
// domain.
func reserveDomain(ctx context.Context, tx bun.IDB, t tenantRow, rows []domainRow, name string, limit int, now time.Time) (domain.Domain, error) {
	stored, err := domainsWithObservations(ctx, tx, t.AccountID, rows)
	if err != nil {
		return domain.Domain{}, err
	}
	count, index := 0, -1
	for i, found := range stored {
		if found.MissingSince.IsZero() {
			count++
		}
		if found.Name == storedText(name) {
			index = i
		}
	}
	isMissing := index >= 0 && !stored[index].MissingSince.IsZero()
	if index < 0 || isMissing {
		if err := domain.CheckDomainLimit(count, limit); err != nil {
			return domain.Domain{}, err
		}
	}
	if index < 0 {
		row := domainRow{AccountID: t.AccountID, ID: newID(), TenantID: t.ID, Name: storedText(name), CreatedAt: now, StoredAt: now}
		_, err := tx.NewInsert().Model(&row).Exec(ctx)
		reserved := row.domain()
		reserved.JustReserved, reserved.ReservedAt = true, row.StoredAt.UTC()
		return reserved, err
	}
	found := stored[index]
	if isMissing {
		before := found
		found = found.ReservedAgain(now)
		if err := saveDomains(ctx, tx, t.AccountID, change[domain.Domain]{before, found}); err != nil {
			return found, err
		}
	}
	if found.Added {
		return found, nil
	}
	if !isMissing {
		found.PreviousReservedAt = rows[index].StoredAt.UTC()
	}
	found.ReservedAt = nextReservation(rows[index].StoredAt, now).UTC()
	return found, renewDomainReservation(ctx, tx, t.AccountID, found)
}

// nextReservation returns the time of a new reservation of a domain or mailbox. The time identifies
// the reservation, so it is later than the time of the last reservation even if the clock was set
// back.
func nextReservation(last, now time.Time) time.Time {
	if now = storedTime(now); now.After(last) {
		return now
	}
	return storedTime(last).Add(time.Microsecond)
}

// renewDomainReservation stores d.ReservedAt, the time of a new reservation of a domain that is not
// added yet. The grace period of the domain (unfinishedGrace) begins again at this time.
func renewDomainReservation(ctx context.Context, tx bun.IDB, owner string, d domain.Domain) error {
	_, err := tx.NewUpdate().Model((*domainRow)(nil)).Set("stored_at = ?", d.ReservedAt).
		Where("account_id = ?", owner).Where("id = ?", d.ID).Exec(ctx)
	return err
}

// WithdrawReservation implements ports.Domains.
func (s *Store) WithdrawReservation(ctx context.Context, owner access.AccountID, d domain.Domain) error {
	return s.db.RunWrite(ctx, "withdraw reservation of domain", func(ctx context.Context, db bun.IDB) error {
		_, err := db.NewUpdate().Model((*domainRow)(nil)).Set("stored_at = ?", storedTime(d.PreviousReservedAt)).
			Where("account_id = ?", accountKey(owner)).Where("id = ?", ident.ParseOrZero(d.ID)).
			Where("NOT added").Where("stored_at = ?", storedTime(d.ReservedAt)).Exec(ctx)
		return err
	})
}

// EndReservation implements ports.Domains.
func (s *Store) EndReservation(ctx context.Context, owner access.AccountID, domainID string, reservedAt time.Time) error {
	return s.inTransaction(ctx, "release domain", func(ctx context.Context, tx bun.IDB) error {
		var row domainRow
		q := joinTenant(tx.NewSelect().Model(&row)).Where("d.account_id = ?", accountKey(owner)).
			Where("d.id = ?", ident.ParseOrZero(domainID)).Where("NOT d.added").Where("d.stored_at = ?", storedTime(reservedAt))
		err := s.db.LockRows(q, "d").Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		stored, err := domainsWithObservations(ctx, tx, row.AccountID, []domainRow{row})
		if err != nil {
			return err
		}
		if d := stored[0]; !d.Observed.PreviousMissingSince.IsZero() {
			return saveDomains(ctx, tx, row.AccountID, change[domain.Domain]{d, d.MissingAgain()})
		}
		_, err = tx.NewDelete().Model(&row).WherePK().Exec(ctx)
		return err
	})
}

// dnsCheckCondition and lastDNSRead equal the condition and the first expression of the index
// domains_checked, so that queries can use the index. The queries also exclude missing domains, and
// the domains of suspended and closed accounts.
const (
	dnsCheckCondition = "d.verified AND d.added"
	lastDNSRead       = "COALESCE(d.checked_at, d.created_at)"
)

// StaleDomains implements ports.DomainChecks. A domain whose DNS was never read counts with the
// time when its row was created.
func (s *Store) StaleDomains(ctx context.Context, before time.Time, limit int) ([]ports.StaleDomain, error) {
	var rows []struct{ AccountID, ID string }
	err := s.db.RunRead(ctx, "list stale domains", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().TableExpr("domains AS d").ColumnExpr("d.account_id, d.id").Where(dnsCheckCondition).
			Where(presentDomain).Where(ofActiveAccount("d")).Where(lastDNSRead+" <= ?", storedTime(before)).OrderExpr(lastDNSRead+", d.id").Limit(int64(limit)).Scan(ctx, &rows)
	})
	return convertAll(rows, func(r struct{ AccountID, ID string }) ports.StaleDomain {
		return ports.StaleDomain{ID: r.ID, Account: access.AccountID(r.AccountID)}
	}), err
}

// DomainHealth implements ports.DomainChecks.
func (s *Store) DomainHealth(ctx context.Context) (ports.DomainHealth, error) {
	health := ports.DomainHealth{Drifted: map[domain.Drift]int{}}
	var groups []struct {
		Drifted string
		Domains int
	}
	err := s.db.RunRead(ctx, "count drifted domains", func(ctx context.Context, db bun.IDB) error {
		groups = nil
		return db.NewSelect().TableExpr("domains AS d").ColumnExpr("d.records->>'Drifted' AS drifted, count(*) AS domains").
			Where(dnsCheckCondition).Where(presentDomain).Where(ofActiveAccount("d")).Where("d.records->>'Drifted' <> ''").GroupExpr("d.records->>'Drifted'").Scan(ctx, &groups)
	})
	if err != nil {
		return health, err
	}
	for _, g := range groups {
		for _, kind := range splitDrifts(g.Drifted) {
			health.Drifted[kind] += g.Domains
		}
	}
	err = s.readCheckProgress(ctx, &health)
	return health, err
}

// readCheckProgress reads the number of domains whose DNS is checked, and the earliest time of
// their last DNS reads. A domain whose DNS was never read counts with the time when its row was
// created. The query uses the index domains_checked.
func (s *Store) readCheckProgress(ctx context.Context, h *ports.DomainHealth) error {
	var row struct {
		Domains int
		Oldest  time.Time `bun:",nullzero"`
	}
	err := s.db.RunRead(ctx, "count verified domains", func(ctx context.Context, db bun.IDB) error {
		oldest := db.NewSelect().TableExpr("domains AS d").ColumnExpr(lastDNSRead).Where(dnsCheckCondition).
			Where(presentDomain).Where(ofActiveAccount("d")).OrderExpr(lastDNSRead + ", d.id").Limit(1)
		return db.NewSelect().TableExpr("domains AS d").ColumnExpr("count(*) AS domains").ColumnExpr("(?) AS oldest", oldest).
			Where(dnsCheckCondition).Where(presentDomain).Where(ofActiveAccount("d")).Scan(ctx, &row)
	})
	if h.Verified = row.Domains; !row.Oldest.IsZero() {
		h.OldestRead = row.Oldest.UTC()
	}
	return err
}
