// SPDX-License-Identifier: Apache-2.0

// Package integration holds what the connections of accounts to sending
// platforms know and decide: the workspace that a credential is for, the
// sessions in which mailboxes are signed in there, and what is connected where.
package integration

import (
	"time"

	"github.com/tenantry/tenantry/core/access"
)

// Provider is a sending platform that there is a plugin for.
type Provider struct {
	ID    string // as in instantly
	Title string // for people, as in Instantly
	// AuthHosts are the hosts (with a port where it is not 443) that an
	// authorization URL of it may lead to.
	AuthHosts []string
}

// Status is how an integration's last test ended.
type Status string

// The statuses. A credential that fails when it is given is not stored, so only
// a later test or call leads to Failed.
const (
	Connected Status = "connected"
	Failed    Status = "failed"
)

// Integration is an account's access to a sending platform, without its
// credential.
type Integration struct {
	ID        string // UUIDv7
	AccountID access.AccountID
	Provider  string // the provider's id
	Name      string // the caller's label
	Workspace Workspace
	Status    Status
	HasError  bool // the last test or refresh failed; false after a good one
	// Given are the names of the credential's fields that were given, which
	// Capabilities are computed from.
	Given        []string
	LastTestedAt time.Time
	// RefreshedAt is the end of the last complete listing of its accounts,
	// zero before the first.
	RefreshedAt time.Time
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Capabilities is what an integration can do, computed from what the provider
// describes, which of its fields the credential has and what the operator set.
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

// Workspace is a workspace at a sending platform. Both are empty where the
// platform has none, or has not said yet.
type Workspace struct {
	ID   string
	Name string
}

// Reach is what a credential that the platform takes gets to.
type Reach struct {
	// Workspaces are all that it reaches: one, and that one perhaps without
	// an id, where the platform leaves no choice.
	Workspaces []Workspace
	// Roaming credentials act in whichever workspace is selected at the
	// platform at that moment. One that reaches several is refused whatever
	// workspace is asked for.
	Roaming bool
}
