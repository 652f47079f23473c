// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"time"

	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/core/integration"
)

type integrationList struct {
	Integrations []IntegrationEntry `json:"integrations" doc:"The integrations of the account, newest first."`
	Count        int                `json:"count" doc:"How many are listed."`
}

// IntegrationEntry is exported because huma documents only exported embedded types.
type IntegrationEntry struct {
	ID                    string               `json:"id" format:"uuid" doc:"The integration's id; used in paths."`
	Provider              string               `json:"provider" doc:"The sending platform: instantly, plusvibe, smartlead, salesblink, or one that the operator added."`
	Name                  string               `json:"name" doc:"The label that you gave it."`
	ProviderWorkspaceID   *string              `json:"provider_workspace_id" doc:"The workspace at the platform, null where it has none or has not told yet."`
	ProviderWorkspaceName *string              `json:"provider_workspace_name" doc:"The workspace's name, null where it has none."`
	Status                string               `json:"status" enum:"connected,failed" doc:"failed: the platform does not take the credential any more."`
	LastTestedAt          time.Time            `json:"last_tested_at" doc:"When the credential was last tested."`
	HasError              bool                 `json:"has_error" doc:"Whether the last test or refresh failed."`
	CreatedAt             time.Time            `json:"created_at" doc:"When it was added."`
	UpdatedAt             time.Time            `json:"updated_at" doc:"When it last changed."`
	Capabilities          platformCapabilities `json:"capabilities" doc:"What this integration can do. It follows from the platform, from the credential and from the operator's settings."`
}

type platformCapabilities struct {
	MicrosoftOAuth    bool `json:"microsoft_oauth" doc:"Whether mailboxes can be signed in by a link."`
	MailboxRefresh    bool `json:"mailbox_refresh" doc:"Whether it can be looked up which mailboxes are connected."`
	MailboxDisconnect bool `json:"mailbox_disconnect" doc:"Whether a mailbox can be taken out of the platform."`
}

type integrationDetail struct {
	IntegrationEntry

	MailboxConnections connectionCounts `json:"mailbox_connections" doc:"The connections of its mailboxes as they are stored; the platform is not asked."`
}

type connectionCounts struct {
	Total        int  `json:"total" doc:"Mailboxes that have, or had, a connection here: the sum of the others."`
	Connected    int  `json:"connected" doc:"The platform can send with them."`
	Pending      int  `json:"pending" doc:"A sign-in is open."`
	Failed       int  `json:"failed" doc:"The platform cannot sign in, or the last sign-in failed."`
	Disconnected int  `json:"disconnected" doc:"They are not at the platform any more."`
	Other        int  `json:"other" doc:"The outcome of a disconnect is not known yet, or the platform says something that is not known here."`
	HasErrors    bool `json:"has_errors" doc:"Whether one of them has an error."`
}

type testedIntegration struct {
	Status        string    `json:"status" enum:"connected,failed" doc:"failed: the platform does not take the credential any more."`
	IntegrationID string    `json:"integration_id" format:"uuid" doc:"The integration."`
	Provider      string    `json:"provider" doc:"Its platform."`
	Message       string    `json:"message" doc:"The same in words, with what to do."`
	TestedAt      time.Time `json:"tested_at" doc:"When it was tested."`
}

type eligibleList struct {
	IntegrationID string            `json:"integration_id" format:"uuid" doc:"The integration."`
	Mailboxes     []eligibleMailbox `json:"mailboxes" doc:"All mailboxes that this service made in tenants of the account, by address."`
	Count         int               `json:"count" doc:"How many are listed."`
}

type eligibleMailbox struct {
	MailboxID      string                      `json:"mailbox_id" format:"uuid" doc:"The mailbox's id; used in paths."`
	TenantID       string                      `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	TenantName     string                      `json:"tenant_name" doc:"The tenant's name."`
	DomainName     string                      `json:"domain_name" doc:"The mailbox's domain."`
	DisplayName    string                      `json:"display_name" doc:"The mailbox's display name."`
	PrimarySMTP    string                      `json:"primary_smtp" doc:"The mailbox's address."`
	AccountEnabled bool                        `json:"account_enabled" doc:"Whether it may sign in."`
	Managed        bool                        `json:"managed_by_tenantcore" doc:"Always true: only mailboxes that this service made are listed."`
	Connection     nullable[mailboxConnection] `json:"connection" doc:"Its connection through this integration, null when it never had one."`
}

type mailboxConnection struct {
	ID                   string     `json:"id" format:"uuid" doc:"The connection's id."`
	Status               string     `json:"status" enum:"pending,connected,failed,disconnected,disconnecting,other" doc:"disconnecting: a disconnect whose outcome is not known; a refresh decides. other: the platform says something that is not known here."`
	ProviderAccountID    *string    `json:"provider_account_id" doc:"The platform's id of the mail account, null until known."`
	ProviderAccountEmail *string    `json:"provider_account_email" doc:"The mail account's address as the platform has it, null until known."`
	HasError             bool       `json:"has_error" doc:"Whether the platform has a problem with it, also one that leaves it connected."`
	ConnectedAt          *time.Time `json:"connected_at" doc:"Since when it is connected, or when it last was; null for never."`
	UpdatedAt            time.Time  `json:"updated_at" doc:"When it last changed."`
}

type begunSession struct {
	Status        string    `json:"status" enum:"pending" doc:"Always pending."`
	IntegrationID string    `json:"integration_id" format:"uuid" doc:"The integration."`
	Provider      string    `json:"provider" doc:"Its platform."`
	MailboxID     string    `json:"mailbox_id" format:"uuid" doc:"The mailbox."`
	Mailbox       string    `json:"mailbox" doc:"The mailbox's address: with this one, and no other, a person signs in."`
	SessionID     string    `json:"session_id" format:"uuid" doc:"The session; a query parameter of its status."`
	AuthURL       string    `json:"auth_url" format:"uri" doc:"Where a person signs in. Open it in a browser and do not read or build it; whoever has it can use it."`
	ExpiresAt     time.Time `json:"expires_at" doc:"Until when the link works."`
}

type sessionState struct {
	Status              string     `json:"status" enum:"pending,connected,failed,expired" doc:"connected, failed and expired are final. failed: declined, or another account than the mailbox signed in; nothing was connected."`
	IntegrationID       string     `json:"integration_id" format:"uuid" doc:"The integration."`
	MailboxID           string     `json:"mailbox_id" format:"uuid" doc:"The mailbox."`
	SessionID           string     `json:"session_id" format:"uuid" doc:"The session."`
	ProviderAccountID   *string    `json:"provider_account_id" doc:"The platform's id of the mail account, null until known."`
	ProviderAccountName *string    `json:"provider_account_name" doc:"The name that the platform has for it, null until known."`
	ConnectedAt         *time.Time `json:"connected_at" doc:"When it was connected, null until then."`
	ExpiresAt           time.Time  `json:"expires_at" doc:"Until when the link works."`
}

type refreshedMailboxes struct {
	IntegrationID  string `json:"integration_id" format:"uuid" doc:"The integration."`
	Provider       string `json:"provider" doc:"Its platform."`
	Checked        int    `json:"checked" doc:"How many mailboxes were compared with the platform's list."`
	Connected      int    `json:"connected" doc:"How many of them are connected now."`
	NewlyConnected int    `json:"newly_connected" doc:"How many of these were not before."`
	Unchanged      int    `json:"unchanged" doc:"How many stand as they did."`
	ErrorCount     int    `json:"error_count" doc:"How many could not be read."`
	Status         string `json:"status" enum:"completed,partial" doc:"partial: the list broke off, and nothing was changed."`
}

type disconnectedMailbox struct {
	Status        string `json:"status" enum:"disconnected" doc:"Always disconnected."`
	IntegrationID string `json:"integration_id" format:"uuid" doc:"The integration."`
	MailboxID     string `json:"mailbox_id" format:"uuid" doc:"The mailbox."`
	Message       string `json:"message" doc:"What was done."`
}

type deletedIntegration struct {
	Status        string `json:"status" enum:"deleted" doc:"Always deleted."`
	IntegrationID string `json:"integration_id" format:"uuid" doc:"The integration."`
	Message       string `json:"message" doc:"What was done, and what was left."`
}

// workspace is a workspace that the caller can choose, listed in a *_workspace_required error.
type workspace struct {
	ID   string `json:"id" doc:"The workspace's id at the platform." example:"65f31c0a9b2e4d7781aa0c11"`
	Name string `json:"name" doc:"Its name." example:"Outbound"`
}

func workspaceOf(w integration.Workspace) workspace { return workspace{ID: w.ID, Name: w.Name} }

func capabilitiesOf(c integration.Capabilities) platformCapabilities {
	return platformCapabilities{MicrosoftOAuth: c.MicrosoftOAuth, MailboxRefresh: c.MailboxRefresh, MailboxDisconnect: c.MailboxDisconnect}
}

func countsOf(c integration.Counts) connectionCounts {
	return connectionCounts{Total: c.Total, Connected: c.Connected, Pending: c.Pending, Failed: c.Failed, Disconnected: c.Disconnected,
		Other: c.Other, HasErrors: c.HasErrors}
}

func integrationOf(v integrations.View) IntegrationEntry {
	i := v.Integration
	return IntegrationEntry{ID: i.ID, Provider: i.Provider, Name: i.Name, ProviderWorkspaceID: textOrNil(i.Workspace.ID),
		ProviderWorkspaceName: textOrNil(i.Workspace.Name), Status: string(i.Status), LastTestedAt: i.LastTestedAt.UTC(), HasError: i.HasError,
		CreatedAt: i.CreatedAt.UTC(), UpdatedAt: i.UpdatedAt.UTC(), Capabilities: capabilitiesOf(v.Capabilities)}
}

func testedOf(t integrations.Tested) testedIntegration {
	return testedIntegration{Status: string(t.Status), IntegrationID: t.ID, Provider: t.Provider, Message: t.Message,
		TestedAt: t.LastTestedAt.UTC()}
}

func begunSessionOf(b integrations.Begun) begunSession {
	return begunSession{Status: string(b.Session.Status), IntegrationID: b.Integration.ID, Provider: b.Integration.Provider,
		MailboxID: b.Session.MailboxID, Mailbox: b.Mailbox, SessionID: b.Session.ID, AuthURL: b.AuthURL.Reveal(),
		ExpiresAt: b.Session.ExpiresAt.UTC()}
}

func refreshedOf(r integrations.Refreshed) refreshedMailboxes {
	return refreshedMailboxes{IntegrationID: r.IntegrationID, Provider: r.Provider, Checked: r.Checked, Connected: r.Connected,
		NewlyConnected: r.NewlyConnected, Unchanged: r.Unchanged, ErrorCount: r.ErrorCount, Status: r.Status}
}

func disconnectedOf(d integrations.Disconnected) disconnectedMailbox {
	message := "The mailbox was taken out of the sending platform."
	if !d.Removed {
		message = "The mailbox was not connected: there was nothing to take out."
	}
	return disconnectedMailbox{Status: "disconnected", IntegrationID: d.IntegrationID, MailboxID: d.MailboxID, Message: message}
}

func deletedIntegrationOf(i integration.Integration) deletedIntegration {
	return deletedIntegration{Status: "deleted", IntegrationID: i.ID,
		Message: "The credential and the connections of the integration were removed. The sending platform was not called: what is connected there stays."}
}

func eligibleOf(e integration.Eligible) eligibleMailbox {
	m := e.Mailbox
	return eligibleMailbox{MailboxID: m.ID, TenantID: string(m.TenantGUID), TenantName: m.TenantName, DomainName: m.DomainName,
		DisplayName: m.DisplayName, PrimarySMTP: m.Address, AccountEnabled: m.AccountEnabled, Managed: m.Provisioned,
		Connection: connectionOf(e.Connection)}
}

func connectionOf(c integration.Connection) nullable[mailboxConnection] {
	if c.ID == "" {
		return nullable[mailboxConnection]{}
	}
	return nullable[mailboxConnection]{&mailboxConnection{ID: c.ID, Status: string(c.Status), ProviderAccountID: textOrNil(c.AccountID),
		ProviderAccountEmail: textOrNil(c.AccountAddress), HasError: c.HasError, ConnectedAt: timeOrNil(c.ConnectedAt), UpdatedAt: c.UpdatedAt.UTC()}}
}

func sessionOf(s integration.Session) sessionState {
	return sessionState{Status: string(s.Status), IntegrationID: s.IntegrationID, MailboxID: s.MailboxID, SessionID: s.ID,
		ProviderAccountID: textOrNil(s.AccountID), ProviderAccountName: textOrNil(s.AccountName), ConnectedAt: timeOrNil(s.ConnectedAt),
		ExpiresAt: s.ExpiresAt.UTC()}
}
