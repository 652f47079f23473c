// SPDX-License-Identifier: Apache-2.0

// Package integration decides about connections of mailboxes to sending platforms: the workspace of
// a credential, the sign-in sessions, and the state of each connection.
//
// The main types are Integration (integration.go), Connection (connection.go), Session (session.go)
// and Account (account.go). Start reading at Reconcile in reconcile.go, which applies a platform's
// list of accounts, and at the methods of Session in progress.go. after.go derives connections from
// accounts and sessions. workspace.go chooses a credential's workspace, belongs.go and address.go
// compare addresses, and authurl.go checks sign-in links.
package integration

import (
	"time"

	"github.com/tenantry/tenantry/core/access"
)

// Provider is a sending platform that has a plugin.
type Provider struct {
	ID    string // such as instantly
	Title string // display name, such as Instantly
	// AuthHosts are the hosts that its authorization URLs may use, with the port if it is not 443.
	AuthHosts []string
}

// Status is the result of an integration's last test.
type Status string

// The statuses. A credential that fails its first test is not stored, so only a later test or call
// leads to Failed.
const (
	Connected Status = "connected"
	Failed    Status = "failed"
)

// Integration is an account's access to a sending platform, without the credential.
type Integration struct {
	ID        string // UUIDv7
	AccountID access.AccountID
	Provider  string // the provider's id
	Name      string // the caller's label
	Workspace Workspace
	Status    Status
	HasError  bool // the last test or refresh failed; false after a good one
	// Given lists the credential's fields that were set, from which Capabilities are computed.
	Given        []string
	LastTestedAt time.Time
	// RefreshedAt is the end of the last complete listing of the integration's accounts, zero
	// before the first.
	RefreshedAt time.Time
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Capabilities lists what an integration can do. It depends on the provider's description, the
// fields of the credential and the operator's settings.
type Capabilities struct {
	MicrosoftOAuth    bool // microsoft_oauth
	MailboxRefresh    bool // mailbox_refresh
	MailboxDisconnect bool // mailbox_disconnect
}

// The names of the capabilities in a plugin's description.
const (
	CanOAuth      = "microsoft_oauth"
	CanRefresh    = "mailbox_refresh"
	CanDisconnect = "mailbox_disconnect"
)

// Workspace is a workspace at a sending platform. Both fields are empty if the platform has no
// workspaces or has not named one yet.
type Workspace struct {
	ID   string
	Name string
}

// Reach describes the workspaces that an accepted credential reaches.
type Reach struct {
	// Workspaces lists them. If the platform leaves no choice, it has one entry, possibly without
	// an id.
	Workspaces []Workspace
	// Roaming is true for a credential that acts in the workspace that is currently selected at the
	// platform. Such a credential is refused if it reaches several workspaces.
	Roaming bool
}
