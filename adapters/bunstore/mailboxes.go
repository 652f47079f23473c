// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

type mailboxRow struct {
	bun.BaseModel `bun:"table:mailboxes,alias:m"`

	AccountID      string `bun:",pk"`
	ID             string `bun:",pk"`
	TenantID       string
	Address        string
	DomainName     string
	Stage          mailbox.Stage
	Provisioned    bool
	ObjectID       string
	DisplayName    string
	PrincipalName  string
	Alias          string
	AccountEnabled bool
	DailySendLimit int `bun:",nullzero"`
	SendsToday     int
	SendsTodayAt   time.Time `bun:",nullzero"`
	BlockedAt      time.Time `bun:",nullzero"`
	CreatedAt      time.Time
	StoredAt       time.Time // time of the last reservation, or Began of the discovery that added the row

	DomainID   string `bun:",scanonly"`
	TenantGUID string `bun:"tenant_guid,scanonly"`
	TenantName string `bun:",scanonly"`
}

func newMailboxRow(owner string, m mailbox.Mailbox) mailboxRow {
	return mailboxRow{
		AccountID: owner, ID: ident.ParseOrZero(m.ID), Stage: m.Stage, Provisioned: m.Provisioned, ObjectID: storedText(m.ObjectID),
		DisplayName: storedText(m.DisplayName), PrincipalName: storedText(m.PrincipalName), Alias: storedText(m.Alias), AccountEnabled: m.AccountEnabled,
	}
}

func (r mailboxRow) mailbox() mailbox.Mailbox {
	return mailbox.Mailbox{
		ID: r.ID, TenantGUID: tenant.GUID(r.TenantGUID), DomainID: r.DomainID, Stage: r.Stage, Provisioned: r.Provisioned,
		ObjectID: r.ObjectID, DisplayName: r.DisplayName, Address: r.Address, PrincipalName: r.PrincipalName, Alias: r.Alias,
		AccountEnabled: r.AccountEnabled, DailySendLimit: r.DailySendLimit, SendsToday: r.SendsToday,
		SendsTodayAt: r.SendsTodayAt.UTC(), BlockedAt: r.BlockedAt.UTC(), CreatedAt: r.CreatedAt.UTC(),
		ReservedAt: r.StoredAt.UTC(), DomainName: r.DomainName, TenantName: r.TenantName,
	}
}

// domainOf returns the part of an address after its last "@", or the whole address without one.
func domainOf(address string) string {
	return address[strings.LastIndexByte(address, '@')+1:]
}

var listedStages = bun.List([]mailbox.Stage{mailbox.Created, mailbox.Ready})

func mailboxNotFound() error { return fault.MailboxNotFound.With("the tenant holds no such mailbox") }

// mailboxesOfTenant selects a tenant left-joined with its mailboxes that the API lists and that
// satisfy joinCondition (see domainsOfTenant).
func mailboxesOfTenant(db bun.IDB, owner, guid, joinCondition string, args ...any) *bun.SelectQuery {
	return db.NewSelect().TableExpr("tenants AS t").ColumnExpr("m.*").
		ColumnExpr("t.guid AS tenant_guid, t.name AS tenant_name, d.id AS domain_id").
		Join("LEFT JOIN mailboxes AS m ON "+mailboxOfTenant+" AND m.stage IN (?) AND "+presentMailbox+joinCondition,
			append([]any{listedStages}, args...)...).
		Join("LEFT JOIN domains AS d ON d.account_id = m.account_id AND d.tenant_id = m.tenant_id AND d.name = m.domain_name").
		Where("t.account_id = ?", owner).Where("t.guid = ?", guid)
}

// Mailboxes implements ports.MailboxStore.
func (s *Store) Mailboxes(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]mailbox.Mailbox, error) {
	var rows []mailboxRow
	err := s.db.RunRead(ctx, "list mailboxes", func(ctx context.Context, db bun.IDB) error {
		return mailboxesOfTenant(db, accountKey(owner), ident.ParseOrZero(string(id)), "").Order("m.address").Scan(ctx, &rows)
	})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, tenantNotFound()
	}
	mailboxes := make([]mailbox.Mailbox, 0, len(rows))
	for _, r := range rows {
		if r.ID != "" {
			mailboxes = append(mailboxes, r.mailbox())
		}
	}
	return mailboxes, nil
}

// Mailbox implements ports.MailboxStore.
func (s *Store) Mailbox(ctx context.Context, owner access.AccountID, id tenant.GUID, mailboxID string) (mailbox.Mailbox, error) {
	return s.findMailbox(ctx, "find mailbox", func(db bun.IDB) *bun.SelectQuery {
		return mailboxesOfTenant(db, accountKey(owner), ident.ParseOrZero(string(id)), " AND m.id = ?", ident.ParseOrZero(mailboxID))
	})
}

// findMailbox returns the mailbox that query selects. query selects a tenant left-joined with the
// mailbox (see mailboxesOfTenant).
func (s *Store) findMailbox(ctx context.Context, operation string, query func(bun.IDB) *bun.SelectQuery) (mailbox.Mailbox, error) {
	var row mailboxRow
	err := s.db.RunRead(ctx, operation, func(ctx context.Context, db bun.IDB) error {
		err := query(db).Scan(ctx, &row)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return tenantNotFound()
		case err == nil && row.ID == "":
			return mailboxNotFound()
		}
		return err
	})
	if err != nil {
		return mailbox.Mailbox{}, err
	}
	return row.mailbox(), nil
}

// SaveMailbox implements ports.MailboxStore.
func (s *Store) SaveMailbox(ctx context.Context, owner access.AccountID, m mailbox.Mailbox) error {
	return s.inTransaction(ctx, "save mailbox", func(ctx context.Context, tx bun.IDB) error {
		return s.mergeMailbox(ctx, tx, owner, m)
	})
}

// ConcludeMailboxes implements ports.MailboxStore. It locks the mailboxes in the order of their
// ids, as SaveChanges does.
func (s *Store) ConcludeMailboxes(ctx context.Context, owner access.AccountID, mailboxes []mailbox.Mailbox, storedAnswer *ports.StoredAnswer) error {
	byID := slices.SortedFunc(slices.Values(mailboxes), func(a, b mailbox.Mailbox) int { return cmp.Compare(a.ID, b.ID) })
	return s.inTransaction(ctx, "conclude mailboxes", func(ctx context.Context, tx bun.IDB) error {
		for _, m := range byID {
			if err := s.mergeMailbox(ctx, tx, owner, m); err != nil {
				return err
			}
		}
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
}

// ReleaseMailbox implements ports.MailboxStore. It uses deleteOrMarkMissing, because a missing
// mailbox that was reserved again can be blocked.
func (s *Store) ReleaseMailbox(ctx context.Context, owner access.AccountID, mailboxID string, reservedAt time.Time) error {
	return s.inTransaction(ctx, "release mailbox", func(ctx context.Context, tx bun.IDB) error {
		row, state, err := s.lockMailboxAndSendState(ctx, tx, accountKey(owner), ident.ParseOrZero(mailboxID))
		if errors.Is(err, fault.MailboxNotFound) {
			return nil
		}
		if err != nil || row.Stage.IsListed() || !row.StoredAt.Equal(storedTime(reservedAt)) {
			return err
		}
		t := tenantRow{AccountID: row.AccountID, ID: row.TenantID, GUID: row.TenantGUID}
		return s.deleteOrMarkMissing(ctx, tx, t, state, row, event.MailboxVanished, storedTime(s.now()))
	})
}

// SetSendLimit implements ports.MailboxStore.
func (s *Store) SetSendLimit(ctx context.Context, owner access.AccountID, mailboxID string, perDay int, now time.Time) error {
	return s.inTransaction(ctx, "set send limit", func(ctx context.Context, tx bun.IDB) error {
		row, state, err := s.lockMailboxAndSendState(ctx, tx, accountKey(owner), ident.ParseOrZero(mailboxID))
		if err != nil {
			return err
		}
		_, err = tx.NewUpdate().Model((*mailboxRow)(nil)).Set("daily_send_limit = NULLIF(?, 0)", perDay).
			Where("account_id = ?", row.AccountID).Where("id = ?", row.ID).Exec(ctx)
		if err != nil || row.DailySendLimit == perDay {
			return err
		}
		before := row.mailbox()
		after := before
		after.DailySendLimit = perDay
		emitMailbox(ctx, row.AccountID, change[mailbox.Mailbox]{before, after}, event.MailboxRemoved)
		return makeDue(ctx, tx, state, now)
	})
}

// lockMailboxAndSendState locks the enforcement state of a mailbox's tenant, and then the mailbox.
func (s *Store) lockMailboxAndSendState(ctx context.Context, tx bun.IDB, owner, id string) (row mailboxRow, state sendTenantRow, err error) {
	tenantIDs := tx.NewSelect().Model((*mailboxRow)(nil)).Where("m.account_id = ?", owner).Where("m.id = ?", id).Column("tenant_id")
	if state, err = s.lockSendState(ctx, tx, owner, tenantIDs); err != nil {
		return row, state, err
	}
	row, err = s.lockMailbox(ctx, tx, owner, id)
	return row, state, err
}

// ReserveMailboxes implements ports.MailboxStore. It locks the mailboxes in the order of their ids,
// as ConcludeMailboxes does.
func (s *Store) ReserveMailboxes(ctx context.Context, owner access.AccountID, domainID string, specs []mailbox.Spec, limit int, now time.Time) ([]mailbox.Mailbox, error) {
	var reserved []mailbox.Mailbox
	err := s.inTransaction(ctx, "reserve mailboxes", func(ctx context.Context, tx bun.IDB) error {
		d, err := s.lockDomain(ctx, tx, accountKey(owner), ident.ParseOrZero(domainID))
		if err != nil {
			return err
		}
		if err := s.lockRequested(ctx, tx, d, specs); err != nil {
			return err
		}
		rows, missing, err := mailboxesOfDomain(ctx, tx, d)
		if err != nil {
			return err
		}
		newSpecs, err := mailbox.SelectNew(mailboxAddresses(rows), specs, limit)
		if err != nil {
			return err
		}
		reReserved, newSpecs, err := reserveMissing(ctx, tx, d, missing, newSpecs, storedTime(now))
		if err != nil {
			return err
		}
		if err := renewReservations(ctx, tx, rows, specs, now); err != nil {
			return err
		}
		rows = append(rows, reReserved...)
		inserted, err := insertReservations(ctx, tx, d, newSpecs, storedTime(now))
		if err != nil {
			return err
		}
		reserved = inSpecOrder(specs, append(rows, inserted...), len(rows), d)
		return readEarlierMisses(ctx, tx, d.AccountID, reserved)
	})
	return reserved, err
}

// lockDomain locks a domain. On PostgreSQL it locks the domain's tenant first, like the deletion of
// a tenant. Otherwise an insert by the caller would lock the tenant after the domain, and could
// deadlock with a deletion.
func (s *Store) lockDomain(ctx context.Context, tx bun.IDB, owner, id string) (domainRow, error) {
	var d domainRow
	if database.IsPostgres(s.db) {
		tenantOfDomain := tx.NewSelect().Model((*domainRow)(nil)).Column("tenant_id").Where("d.account_id = ?", owner).Where("d.id = ?", id)
		_, err := tx.NewSelect().Model((*tenantRow)(nil)).Column("id").Where("t.account_id = ?", owner).Where("t.id = (?)", tenantOfDomain).
			For("KEY SHARE").Exec(ctx)
		if err != nil {
			return d, err
		}
	}
	q := joinTenant(tx.NewSelect().Model(&d)).Where("d.account_id = ?", owner).Where("d.id = ?", id).Where("d.added")
	err := s.db.LockRows(q, "d").Scan(ctx)
	return d, orNotFound(err, domainNotFound())
}

// lockRequested locks the stored mailboxes with the addresses of specs in the order of their ids.
func (s *Store) lockRequested(ctx context.Context, tx bun.IDB, d domainRow, specs []mailbox.Spec) error {
	addresses := convertAll(specs, func(spec mailbox.Spec) string { return spec.Address })
	q := tx.NewSelect().Model((*mailboxRow)(nil)).Column("id").Where("m.account_id = ?", d.AccountID).
		Where("m.tenant_id = ?", d.TenantID).Where("m.address IN (?)", bun.List(addresses)).Order("m.id")
	_, err := s.db.LockRows(q, "m").Exec(ctx)
	return err
}

// mailboxesOfDomain returns the mailboxes of a domain in all stages. missing holds the mailboxes
// that are marked as missing.
func mailboxesOfDomain(ctx context.Context, tx bun.IDB, d domainRow) (present, missing []mailboxRow, err error) {
	selectOfDomain := func(rows *[]mailboxRow) *bun.SelectQuery {
		return tx.NewSelect().Model(rows).Where("m.account_id = ?", d.AccountID).
			Where("m.tenant_id = ?", d.TenantID).Where("m.domain_name = ?", d.Name)
	}
	if err := selectOfDomain(&present).Where(presentMailbox).Scan(ctx); err != nil {
		return nil, nil, err
	}
	err = selectOfDomain(&missing).Where("NOT " + presentMailbox).Scan(ctx)
	for i := range missing {
		missing[i].TenantGUID = d.TenantGUID
	}
	return present, missing, err
}

// reserveMissing reserves each missing mailbox whose address is in newSpecs, and returns the rows
// of these mailboxes and the other specs. The rows keep their ids, because the platform may still
// have the mailboxes.
func reserveMissing(ctx context.Context, tx bun.IDB, d domainRow, missing []mailboxRow, newSpecs []mailbox.Spec, now time.Time) (rows []mailboxRow, unmatched []mailbox.Spec, err error) {
	stored, err := observations(ctx, tx, mailboxObservations, d.AccountID, convertAll(missing, func(r mailboxRow) string { return r.ID })...)
	if err != nil {
		return nil, nil, err
	}
	for _, spec := range newSpecs {
		i := slices.IndexFunc(missing, func(r mailboxRow) bool { return r.Address == spec.Address })
		if i < 0 {
			unmatched = append(unmatched, spec)
			continue
		}
		missed := stored[missing[i].ID].ofMailbox(missing[i].mailbox())
		m := missed.ReservedAgain(now)
		if err := saveMailboxes(ctx, tx, missing[i].AccountID, change[mailbox.Mailbox]{missed, m}); err != nil {
			return nil, nil, err
		}
		missing[i].Stage = m.Stage
		if err := renewReservation(ctx, tx, &missing[i], now); err != nil {
			return nil, nil, err
		}
		rows = append(rows, missing[i])
	}
	return rows, unmatched, nil
}

// readEarlierMisses sets Observed.PreviousMissingSince and Observed.Account in the mailboxes in the
// stage reserved that were missing before.
func readEarlierMisses(ctx context.Context, tx bun.IDB, owner string, reserved []mailbox.Mailbox) error {
	ids := convertAll(reserved, func(m mailbox.Mailbox) string { return m.ID })
	stored, err := observations(ctx, tx, mailboxObservations, owner, ids...)
	for i, m := range reserved {
		if o := stored[m.ID].ofMailbox(m).Observed; m.Stage == mailbox.Reserved && !o.PreviousMissingSince.IsZero() {
			reserved[i].Observed.Account, reserved[i].Observed.PreviousMissingSince = o.Account, o.PreviousMissingSince
		}
	}
	return err
}

func mailboxAddresses(rows []mailboxRow) []string {
	return convertAll(rows, func(r mailboxRow) string { return r.Address })
}

func insertReservations(ctx context.Context, tx bun.IDB, d domainRow, newSpecs []mailbox.Spec, now time.Time) ([]mailboxRow, error) {
	if len(newSpecs) == 0 {
		return nil, nil
	}
	rows := make([]mailboxRow, 0, len(newSpecs))
	for _, spec := range newSpecs {
		rows = append(rows, mailboxRow{
			AccountID: d.AccountID, ID: newID(), TenantID: d.TenantID, Address: spec.Address, DomainName: d.Name,
			Stage: mailbox.Reserved, DisplayName: storedText(spec.DisplayName), CreatedAt: now, StoredAt: now,
		})
	}
	_, err := tx.NewInsert().Model(&rows).Exec(ctx)
	return rows, err
}

// renewReservations stores a new time of reservation for each requested mailbox in the stage
// reserved or creating. The grace period of the creation (unfinishedGrace) begins again at this
// time.
func renewReservations(ctx context.Context, tx bun.IDB, rows []mailboxRow, specs []mailbox.Spec, now time.Time) error {
	for i := range rows {
		row := &rows[i]
		isRequested := slices.ContainsFunc(specs, func(spec mailbox.Spec) bool { return spec.Address == row.Address })
		if !isRequested || row.Stage.IsListed() {
			continue
		}
		if err := renewReservation(ctx, tx, row, now); err != nil {
			return err
		}
	}
	return nil
}

func renewReservation(ctx context.Context, tx bun.IDB, row *mailboxRow, now time.Time) error {
	row.StoredAt = nextReservation(row.StoredAt, now)
	_, err := tx.NewUpdate().Model((*mailboxRow)(nil)).Set("stored_at = ?", row.StoredAt).
		Where("account_id = ?", row.AccountID).Where("id = ?", row.ID).Exec(ctx)
	return err
}

// inSpecOrder returns the mailboxes of rows in the order of specs. The first storedCount elements
// of rows were stored before this request.
func inSpecOrder(specs []mailbox.Spec, rows []mailboxRow, storedCount int, d domainRow) []mailbox.Mailbox {
	boxes := make([]mailbox.Mailbox, 0, len(specs))
	for _, spec := range specs {
		i := slices.IndexFunc(rows, func(r mailboxRow) bool { return r.Address == spec.Address })
		row := rows[i]
		row.DomainID, row.TenantGUID, row.TenantName = d.ID, d.TenantGUID, d.TenantName
		box := row.mailbox()
		box.JustReserved = i >= storedCount
		boxes = append(boxes, box)
	}
	return boxes
}
