// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/integration"
)

type integrationRow struct {
	bun.BaseModel `bun:"table:integrations,alias:ig"`

	AccountID     string `bun:",pk"`
	ID            string `bun:",pk"`
	Provider      string
	Name          string
	WorkspaceID   string
	WorkspaceName string
	Credential    []byte   // sealed
	Given         []string `bun:"type:jsonb"`
	Status        string
	HasError      bool
	LastTestedAt  time.Time `bun:",nullzero"`
	RefreshedAt   time.Time `bun:",nullzero"`
	BeganAt       time.Time // the last refresh
	CreatedAt     time.Time
	UpdatedAt     time.Time
}

func newIntegrationRow(i integration.Integration) integrationRow {
	given := make([]string, 0, len(i.Given))
	for _, name := range i.Given {
		given = append(given, text(name))
	}
	return integrationRow{
		AccountID: account(i.AccountID), ID: ident.Lookup(i.ID), Provider: text(i.Provider), Name: text(i.Name),
		WorkspaceID: text(i.Workspace.ID), WorkspaceName: text(i.Workspace.Name), Given: given,
		Status: text(string(i.Status)), HasError: i.HasError, LastTestedAt: micro(i.LastTestedAt), RefreshedAt: micro(i.RefreshedAt),
		CreatedAt: micro(i.CreatedAt), UpdatedAt: micro(i.UpdatedAt),
	}
}

func (r integrationRow) integration() integration.Integration {
	return integration.Integration{
		ID: r.ID, AccountID: access.AccountID(r.AccountID), Provider: r.Provider, Name: r.Name,
		Workspace: integration.Workspace{ID: r.WorkspaceID, Name: r.WorkspaceName},
		Status:    integration.Status(r.Status), HasError: r.HasError, Given: slices.Clip(r.Given),
		LastTestedAt: r.LastTestedAt.UTC(), RefreshedAt: r.RefreshedAt.UTC(), CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
}

type connectionRow struct {
	bun.BaseModel `bun:"table:mailbox_connections,alias:mc"`

	AccountID       string `bun:",pk"`
	ID              string `bun:",pk"`
	IntegrationID   string
	MailboxID       string
	Status          string
	PlatformAccount string
	PlatformAddress string
	PlatformName    string
	HasError        bool
	Reason          string
	ConnectedAt     time.Time `bun:",nullzero"`
	UpdatedAt       time.Time
}

func newConnectionRow(owner string, c integration.Connection) connectionRow {
	return connectionRow{
		AccountID: owner, ID: ident.Lookup(c.ID), IntegrationID: ident.Lookup(c.IntegrationID), MailboxID: ident.Lookup(c.MailboxID),
		Status: text(string(c.Status)), PlatformAccount: text(c.AccountID), PlatformAddress: text(c.AccountAddress),
		PlatformName: text(c.AccountName), HasError: c.HasError, Reason: text(c.Reason),
		ConnectedAt: micro(c.ConnectedAt), UpdatedAt: micro(c.UpdatedAt),
	}
}

func (r connectionRow) connection() integration.Connection {
	return integration.Connection{
		ID: r.ID, IntegrationID: r.IntegrationID, MailboxID: r.MailboxID, Status: integration.ConnectionStatus(r.Status),
		AccountID: r.PlatformAccount, AccountAddress: r.PlatformAddress, AccountName: r.PlatformName,
		HasError: r.HasError, Reason: r.Reason, ConnectedAt: r.ConnectedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
}

type sessionRow struct {
	bun.BaseModel `bun:"table:oauth_sessions,alias:os"`

	AccountID       string `bun:",pk"`
	ID              string `bun:",pk"`
	IntegrationID   string
	MailboxID       string
	Status          string
	Opened          bool
	PlatformID      string
	StampBefore     string
	PlatformAccount string
	PlatformAddress string
	PlatformName    string
	Reason          string
	CreatedAt       time.Time
	ExpiresAt       time.Time
	ConnectedAt     time.Time `bun:",nullzero"`
	LookedAt        time.Time `bun:",nullzero"`
}

func newSessionRow(owner string, s integration.Session) sessionRow {
	return sessionRow{
		AccountID: owner, ID: ident.Lookup(s.ID), IntegrationID: ident.Lookup(s.IntegrationID), MailboxID: ident.Lookup(s.MailboxID),
		Status: text(string(s.Status)), Opened: s.Opened, PlatformID: text(s.PlatformID), StampBefore: text(s.Before),
		PlatformAccount: text(s.AccountID), PlatformAddress: text(s.AccountAddress), PlatformName: text(s.AccountName),
		Reason: text(s.Reason), CreatedAt: micro(s.CreatedAt), ExpiresAt: micro(s.ExpiresAt),
		ConnectedAt: micro(s.ConnectedAt), LookedAt: micro(s.LookedAt),
	}
}

func (r sessionRow) session() integration.Session {
	return integration.Session{
		ID: r.ID, IntegrationID: r.IntegrationID, MailboxID: r.MailboxID, Status: integration.SessionStatus(r.Status),
		Opened: r.Opened, PlatformID: r.PlatformID, Before: r.StampBefore,
		AccountID: r.PlatformAccount, AccountAddress: r.PlatformAddress, AccountName: r.PlatformName, Reason: r.Reason,
		CreatedAt: r.CreatedAt.UTC(), ExpiresAt: r.ExpiresAt.UTC(), ConnectedAt: r.ConnectedAt.UTC(), LookedAt: r.LookedAt.UTC(),
	}
}
