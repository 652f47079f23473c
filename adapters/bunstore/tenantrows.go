// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"time"

	"github.com/uptrace/bun"

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

	DomainCount      int `bun:",scanonly"`
	DomainsVerified  int `bun:",scanonly"`
	DomainsSigned    int `bun:",scanonly"`
	DomainsPublished int `bun:",scanonly"`
	MailboxCount     int `bun:",scanonly"`
}

// takeTenant reads a row of tenantQuery, column by column: asked for by most
// requests, it is worth more speed than bun's search for each column's field.
func takeTenant(from row) (tenant.Tenant, error) {
	var r tenantRow
	var synced *time.Time
	err := from.Scan(&r.AccountID, &r.ID, &r.GUID, &r.Name, &r.BuiltinDomain, &r.DefaultDomain, &r.Managed, &r.Consent,
		&r.ConsentedAt, &r.ConnectedBy, &r.Bootstrap, &r.BootstrapStep, &r.SMTPAuth, &r.Discovery, &synced, &r.UserMailboxes,
		&r.DomainCount, &r.DomainsVerified, &r.DomainsSigned, &r.DomainsPublished, &r.MailboxCount)
	if synced != nil {
		r.LastSyncAt = *synced
	}
	return r.tenant(), err
}

// holderRow says which account holds a tenant.
type holderRow struct {
	bun.BaseModel `bun:"table:tenant_holders,alias:h"`

	GUID      string `bun:"guid,pk"`
	AccountID string
}

type withdrawnRow struct {
	bun.BaseModel `bun:"table:withdrawn,alias:w"`

	AccountID   string `bun:",pk"`
	GUID        string `bun:"guid,pk"`
	WithdrawnAt time.Time
}

func newTenantRow(owner string, t tenant.Tenant) tenantRow {
	return tenantRow{
		AccountID: owner, ID: ident.Lookup(t.ID), GUID: ident.Lookup(string(t.GUID)), Name: text(t.Name),
		BuiltinDomain: text(t.BuiltinDomain), DefaultDomain: text(t.DefaultDomain), Managed: t.Managed,
		Consent:     string(cmp.Or(t.Consent, tenant.ConsentGranted)),
		ConsentedAt: micro(t.ConsentedAt), ConnectedBy: text(t.ConnectedBy),
		Bootstrap:     string(cmp.Or(t.Bootstrap, tenant.BootstrapPending)),
		BootstrapStep: string(t.BootstrapStep),
		SMTPAuth:      string(cmp.Or(t.SMTPAuth, tenant.SMTPAuthUnknown)),
		Discovery:     string(cmp.Or(t.Discovery, tenant.DiscoveryPending)),
		LastSyncAt:    micro(t.LastSyncAt), UserMailboxes: t.UserMailboxes,
	}
}

func (r tenantRow) tenant() tenant.Tenant {
	return tenant.Tenant{
		ID: r.ID, GUID: tenant.GUID(r.GUID), Name: r.Name, BuiltinDomain: r.BuiltinDomain, DefaultDomain: r.DefaultDomain,
		Managed: r.Managed, Consent: tenant.Consent(r.Consent), ConsentedAt: r.ConsentedAt.UTC(), ConnectedBy: r.ConnectedBy,
		Bootstrap: tenant.Bootstrap(r.Bootstrap), BootstrapStep: tenant.BootstrapStep(r.BootstrapStep),
		SMTPAuth: tenant.SMTPAuth(r.SMTPAuth), Discovery: tenant.Discovery(r.Discovery),
		LastSyncAt: r.LastSyncAt.UTC(), UserMailboxes: r.UserMailboxes, DomainCount: r.DomainCount,
		DomainsVerified: r.DomainsVerified, DomainsSigned: r.DomainsSigned, DomainsPublished: r.DomainsPublished,
		MailboxCount: r.MailboxCount,
	}
}
