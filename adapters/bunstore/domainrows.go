// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
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
	Records          records `bun:"type:jsonb"`
	MX               string  `bun:"mx"`
	SPF              string  `bun:"spf"`
	DMARC            string  `bun:"dmarc"`
	DKIMStatus       string  `bun:"dkim_status"`
	VerificationSeen bool
	CheckedAt        time.Time `bun:",nullzero"`
	CreatedAt        time.Time
	StoredAt         time.Time

	TenantGUID string `bun:"tenant_guid,scanonly"`
	TenantName string `bun:",scanonly"`
}

// records is how the records that the platform asks for stand in the
// database, and what became of them. Its field names are the stored ones: a new
// name is a migration.
type records struct {
	Verification, Service []record
	Selector1, Selector2  record
	// Sound and Drifted are kinds with commas between them.
	Sound, Drifted string
}

type record struct {
	Type, Name, Content string
	Preference, TTL     int
}

func newDomainRow(owner string, d domain.Domain) domainRow {
	return domainRow{
		AccountID: owner, ID: ident.Lookup(d.ID), TenantID: ident.Lookup(d.TenantID), Name: text(d.Name),
		Added: d.Added, IsDefault: d.Default, Verified: d.Verified, DKIM: d.DKIM, MailReady: d.MailReady,
		Records: records{
			Verification: newRecords(d.Verification), Service: newRecords(d.Service),
			Selector1: newRecord(d.Signing.Selector1), Selector2: newRecord(d.Signing.Selector2),
			Sound: joined(d.Health.Sound), Drifted: joined(d.Health.Drifted),
		},
		MX: text(d.Status.MX), SPF: text(d.Status.SPF), DMARC: text(d.Status.DMARC), DKIMStatus: d.Status.DKIM,
		VerificationSeen: d.Status.VerificationSeen, CheckedAt: micro(d.CheckedAt), CreatedAt: micro(d.CreatedAt),
	}
}

func (r domainRow) domain() domain.Domain {
	return domain.Domain{
		ID: r.ID, TenantID: r.TenantID, TenantGUID: tenant.GUID(r.TenantGUID), Name: r.Name,
		Added: r.Added, Default: r.IsDefault, Verified: r.Verified, DKIM: r.DKIM, MailReady: r.MailReady,
		Verification: dnsRecords(r.Records.Verification), Service: dnsRecords(r.Records.Service),
		Signing: dns.Signing{
			Enabled:   r.DKIM,
			Selector1: r.Records.Selector1.dns(), Selector2: r.Records.Selector2.dns(),
		},
		Status: dns.Status{
			MX: r.MX, SPF: r.SPF, DMARC: r.DMARC, DKIM: r.DKIMStatus, VerificationSeen: r.VerificationSeen,
		},
		Health:    domain.Health{Sound: drifts(r.Records.Sound), Drifted: drifts(r.Records.Drifted)},
		CheckedAt: r.CheckedAt.UTC(), CreatedAt: r.CreatedAt.UTC(),
	}
}

func joined(all []domain.Drift) string {
	texts := make([]string, 0, len(all))
	for _, kind := range all {
		texts = append(texts, string(kind))
	}
	return strings.Join(texts, ",")
}

func drifts(list string) []domain.Drift {
	var all []domain.Drift
	for kind := range strings.SplitSeq(list, ",") {
		if kind != "" {
			all = append(all, domain.Drift(kind))
		}
	}
	return all
}

func newRecord(r dns.Record) record {
	return record{Type: string(r.Type), Name: text(r.Name), Content: text(r.Content), Preference: r.Preference, TTL: r.TTL}
}

func (r record) dns() dns.Record {
	return dns.Record{Type: dns.Type(r.Type), Name: r.Name, Content: r.Content, Preference: r.Preference, TTL: r.TTL}
}

func newRecords(all []dns.Record) []record {
	rows := make([]record, 0, len(all))
	for _, r := range all {
		rows = append(rows, newRecord(r))
	}
	return rows
}

func dnsRecords(rows []record) []dns.Record {
	var all []dns.Record
	for _, r := range rows {
		all = append(all, r.dns())
	}
	return all
}
