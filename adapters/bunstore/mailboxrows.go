// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
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
	StoredAt       time.Time

	DomainID   string `bun:",scanonly"`
	TenantGUID string `bun:"tenant_guid,scanonly"`
	TenantName string `bun:",scanonly"`
}

func newMailboxRow(owner string, m mailbox.Mailbox) mailboxRow {
	return mailboxRow{
		AccountID: owner, ID: ident.Lookup(m.ID), Stage: m.Stage, Provisioned: m.Provisioned, ObjectID: text(m.ObjectID),
		DisplayName: text(m.DisplayName), PrincipalName: text(m.PrincipalName), Alias: text(m.Alias), AccountEnabled: m.AccountEnabled,
	}
}

func (r mailboxRow) mailbox() mailbox.Mailbox {
	return mailbox.Mailbox{
		ID: r.ID, TenantGUID: tenant.GUID(r.TenantGUID), DomainID: r.DomainID, Stage: r.Stage, Provisioned: r.Provisioned,
		ObjectID: r.ObjectID, DisplayName: r.DisplayName, Address: r.Address, PrincipalName: r.PrincipalName, Alias: r.Alias,
		AccountEnabled: r.AccountEnabled, DailySendLimit: r.DailySendLimit, SendsToday: r.SendsToday,
		SendsTodayAt: r.SendsTodayAt.UTC(), BlockedAt: r.BlockedAt.UTC(), CreatedAt: r.CreatedAt.UTC(),
		DomainName: r.DomainName, TenantName: r.TenantName,
	}
}

// domainOf is the domain of an address. Provider data can be anything.
func domainOf(address string) string {
	return address[strings.LastIndexByte(address, '@')+1:]
}
