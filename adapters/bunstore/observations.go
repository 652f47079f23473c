// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
)

// observationRow contains when the parts of a tenant, domain, mailbox or integration were last
// observed. For a domain or mailbox it also contains since when the object is missing at the
// platform. It is stored in one of the tables below.
type observationRow struct {
	bun.BaseModel `bun:"table:domain_observations,alias:o"`

	AccountID    string        `bun:",pk"`
	ID           string        `bun:",pk"`
	Observed     observedTimes `bun:"type:jsonb"`
	MissingSince time.Time     `bun:",nullzero"`
}

// observedTimes maps the name of a part to the time of its last observation. A part is a group of
// fields that are read together, such as a tenant's profile. The entries "change" and "missed" are
// not times of observations (see domain.Observed and mailbox.Observed). Renaming an entry requires
// a migration.
type observedTimes map[string]time.Time

// observationTable is a table of observations. canBeMissing is true if its objects can be missing
// at the platform. Only then does the table have the column missing_since.
type observationTable struct {
	name         string
	canBeMissing bool
}

var (
	tenantObservations      = observationTable{name: "tenant_observations"}
	domainObservations      = observationTable{name: "domain_observations", canBeMissing: true}
	mailboxObservations     = observationTable{name: "mailbox_observations", canBeMissing: true}
	integrationObservations = observationTable{name: "integration_observations"}
)

// presentDomain is the SQL condition that the domain with the alias d is not missing at the
// platform. presentMailbox is the same condition for the mailbox with the alias m.
const (
	presentDomain = "NOT EXISTS (SELECT 1 FROM domain_observations AS o " +
		"WHERE o.account_id = d.account_id AND o.id = d.id AND o.missing_since IS NOT NULL)"
	presentMailbox = "NOT EXISTS (SELECT 1 FROM mailbox_observations AS o " +
		"WHERE o.account_id = m.account_id AND o.id = m.id AND o.missing_since IS NOT NULL)"
)

// observations returns the stored observations of rows, keyed by their ids. The result has the zero
// value for a row that was never observed. A caller that then saves observations must have locked
// the rows or their domain.
func observations(ctx context.Context, tx bun.IDB, table observationTable, owner string, ids ...string) (map[string]observationRow, error) {
	byID := make(map[string]observationRow, len(ids))
	if len(ids) == 0 {
		return byID, nil
	}
	var rows []observationRow
	q := tx.NewSelect().Model(&rows).ModelTableExpr("? AS o", bun.Ident(table.name)).
		Where("o.account_id = ?", owner).Where("o.id IN (?)", bun.List(ids))
	if !table.canBeMissing {
		q = q.ExcludeColumn("missing_since")
	}
	err := q.Scan(ctx)
	for _, r := range rows {
		byID[r.ID] = r
	}
	return byID, err
}

func saveObservations(ctx context.Context, tx bun.IDB, table observationTable, rows ...observationRow) error {
	if len(rows) == 0 {
		return nil
	}
	q := tx.NewInsert().Model(&rows).ModelTableExpr("? AS o", bun.Ident(table.name)).
		On("CONFLICT (account_id, id) DO UPDATE").Set("observed = EXCLUDED.observed")
	if table.canBeMissing {
		q = q.Set("missing_since = EXCLUDED.missing_since")
	} else {
		q = q.ExcludeColumn("missing_since")
	}
	_, err := q.Exec(ctx)
	return err
}

// newObservation returns the row for these parts. It omits parts that were never observed.
func newObservation(owner, id string, parts observedTimes, missingSince time.Time) observationRow {
	stored := make(observedTimes, len(parts))
	for part, at := range parts {
		if !at.IsZero() {
			stored[part] = storedTime(at)
		}
	}
	return observationRow{AccountID: owner, ID: id, Observed: stored, MissingSince: storedTime(missingSince)}
}

func tenantObservation(owner string, t tenant.Tenant) observationRow {
	o := t.Observed
	return newObservation(owner, t.ID, observedTimes{
		"profile": o.Profile, "consent": o.Consent, "bootstrap": o.Bootstrap, "smtp_auth": o.SMTPAuth,
		"discovery": o.Discovery, "users": o.Users, "domains": o.Domains, "mailboxes": o.Mailboxes,
	}, time.Time{})
}

// ofTenant returns t with its stored observation. The methods below do the same for other objects.
func (r observationRow) ofTenant(t tenant.Tenant) tenant.Tenant {
	t.Observed = tenant.Observed{
		Profile: r.Observed["profile"], Consent: r.Observed["consent"], Bootstrap: r.Observed["bootstrap"],
		SMTPAuth: r.Observed["smtp_auth"], Discovery: r.Observed["discovery"], Users: r.Observed["users"],
		Domains: r.Observed["domains"], Mailboxes: r.Observed["mailboxes"],
	}
	return t
}

func domainObservation(owner string, d domain.Domain) observationRow {
	o := d.Observed
	return newObservation(owner, d.ID, observedTimes{
		"state": o.State, "verified": o.Verified, "mail": o.Mail, "signing": o.Signing, "selectors": o.Selectors, "records": o.Records, "change": o.Change,
		"missed": o.PreviousMissingSince,
	}, d.MissingSince)
}

func (r observationRow) ofDomain(d domain.Domain) domain.Domain {
	d.Observed = domain.Observed{
		State: r.Observed["state"], Verified: r.Observed["verified"], Mail: r.Observed["mail"], Signing: r.Observed["signing"],
		Selectors: r.Observed["selectors"], Records: r.Observed["records"], Change: r.Observed["change"],
		PreviousMissingSince: r.Observed["missed"],
	}
	d.MissingSince = r.MissingSince.UTC()
	return d
}

func mailboxObservation(owner string, m mailbox.Mailbox) observationRow {
	o := m.Observed
	return newObservation(owner, m.ID, observedTimes{
		"stage": o.Stage, "account": o.Account, "enabled": o.Enabled, "name": o.Name, "missed": o.PreviousMissingSince,
	}, m.MissingSince)
}

func (r observationRow) ofMailbox(m mailbox.Mailbox) mailbox.Mailbox {
	m.Observed = mailbox.Observed{
		Stage: r.Observed["stage"], Account: r.Observed["account"], Enabled: r.Observed["enabled"], Name: r.Observed["name"],
		PreviousMissingSince: r.Observed["missed"],
	}
	m.MissingSince = r.MissingSince.UTC()
	return m
}

func integrationObservation(owner string, i integration.Integration) observationRow {
	o := i.Observed
	return newObservation(owner, i.ID, observedTimes{
		"status": o.Status, "error": o.Error, "workspace": o.Workspace, "listing": o.Listing,
	}, time.Time{})
}

func (r observationRow) ofIntegration(i integration.Integration) integration.Integration {
	i.Observed = integration.Observed{
		Status: r.Observed["status"], Error: r.Observed["error"], Workspace: r.Observed["workspace"], Listing: r.Observed["listing"],
	}
	return i
}

// mergeDomain stores an observation of a domain and returns the merged domain. It locks the row, so
// that concurrent observations are merged one after another.
func (s *Store) mergeDomain(ctx context.Context, tx bun.IDB, owner access.AccountID, d domain.Domain) (domain.Domain, error) {
	var row domainRow
	query := joinTenant(tx.NewSelect().Model(&row)).Where("d.account_id = ?", accountKey(owner)).Where("d.id = ?", ident.ParseOrZero(d.ID))
	if err := s.db.LockRows(query, "d").Scan(ctx); err != nil {
		return domain.Domain{}, orNotFound(err, domainNotFound())
	}
	stored, err := observations(ctx, tx, domainObservations, row.AccountID, row.ID)
	if err != nil {
		return domain.Domain{}, err
	}
	before := stored[row.ID].ofDomain(row.domain())
	merged := before.Merge(d)
	return merged, saveDomains(ctx, tx, row.AccountID, change[domain.Domain]{before, merged})
}

func saveDomains(ctx context.Context, tx bun.IDB, owner string, changes ...change[domain.Domain]) error {
	rows := make([]observationRow, 0, len(changes))
	for _, c := range changes {
		row := newDomainRow(owner, c.after)
		_, err := tx.NewUpdate().Model(&row).
			Column("added", "is_default", "verified", "dkim", "mail_ready", "records",
				"mx", "spf", "dmarc", "dkim_status", "verification_seen", "checked_at").
			Where("account_id = ?", row.AccountID).Where("id = ?", row.ID).Exec(ctx)
		if err != nil {
			return err
		}
		// A read of the DNS alone does not change the observation of the platform.
		if c.after.Observed != c.before.Observed || !c.after.MissingSince.Equal(c.before.MissingSince) {
			rows = append(rows, domainObservation(owner, c.after))
		}
		emitDomain(ctx, owner, c)
	}
	return saveObservations(ctx, tx, domainObservations, rows...)
}

func domainsWithObservations(ctx context.Context, tx bun.IDB, owner string, rows []domainRow) ([]domain.Domain, error) {
	ids := convertAll(rows, func(r domainRow) string { return r.ID })
	stored, err := observations(ctx, tx, domainObservations, owner, ids...)
	return convertAll(rows, func(r domainRow) domain.Domain { return stored[r.ID].ofDomain(r.domain()) }), err
}

func (s *Store) mergeTenant(ctx context.Context, tx bun.IDB, owner string, t tenant.Tenant) error {
	var row tenantRow
	err := s.db.LockRows(tx.NewSelect().Model(&row).Where("t.account_id = ?", owner).
		Where("t.id = ?", ident.ParseOrZero(t.ID)), "t").Scan(ctx)
	if err != nil {
		return orNotFound(err, tenantNotFound())
	}
	stored, err := observations(ctx, tx, tenantObservations, row.AccountID, row.ID)
	if err != nil {
		return err
	}
	before := stored[row.ID].ofTenant(row.tenant())
	merged := before.Merge(t)
	emitTenant(ctx, row.AccountID, change[tenant.Tenant]{before, merged})
	row = newTenantRow(row.AccountID, merged)
	_, err = tx.NewUpdate().Model(&row).
		Column("name", "builtin_domain", "default_domain", "consent", "bootstrap", "bootstrap_step",
			"smtp_auth", "discovery", "last_sync_at", "user_mailboxes").
		Where("account_id = ?", row.AccountID).Where("id = ?", row.ID).Exec(ctx)
	if err != nil {
		return err
	}
	return saveObservations(ctx, tx, tenantObservations, tenantObservation(row.AccountID, merged))
}

// mergeMailbox stores an observation of a mailbox. It locks the row, so that concurrent
// observations are merged one after another.
func (s *Store) mergeMailbox(ctx context.Context, tx bun.IDB, owner access.AccountID, m mailbox.Mailbox) error {
	row, err := s.lockMailbox(ctx, tx, accountKey(owner), ident.ParseOrZero(m.ID))
	if err != nil {
		return err
	}
	stored, err := observations(ctx, tx, mailboxObservations, row.AccountID, row.ID)
	if err != nil {
		return err
	}
	before := stored[row.ID].ofMailbox(row.mailbox())
	return saveMailboxes(ctx, tx, row.AccountID, change[mailbox.Mailbox]{before, before.Merge(m)})
}

func (s *Store) lockMailbox(ctx context.Context, tx bun.IDB, owner, id string) (mailboxRow, error) {
	var row mailboxRow
	err := s.db.LockRows(tx.NewSelect().Model(&row).ColumnExpr("m.*").ColumnExpr("t.guid AS tenant_guid").Join("JOIN "+tenantOfMailbox).
		Where("m.account_id = ?", owner).Where("m.id = ?", id), "m").Scan(ctx)
	return row, orNotFound(err, mailboxNotFound())
}

// saveMailboxes stores the stage of changed mailboxes, the columns that come from the platform, and
// the observations. It emits the events of the changes.
func saveMailboxes(ctx context.Context, tx bun.IDB, owner string, changes ...change[mailbox.Mailbox]) error {
	rows := make([]observationRow, 0, len(changes))
	for _, c := range changes {
		row := newMailboxRow(owner, c.after)
		_, err := tx.NewUpdate().Model(&row).
			Column("stage", "provisioned", "object_id", "display_name", "principal_name", "alias", "account_enabled").
			Where("account_id = ?", row.AccountID).Where("id = ?", row.ID).Exec(ctx)
		if err != nil {
			return err
		}
		rows = append(rows, mailboxObservation(owner, c.after))
		emitMailbox(ctx, owner, c, event.MailboxVanished)
	}
	return saveObservations(ctx, tx, mailboxObservations, rows...)
}
