// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"time"

	"github.com/tenantry/tenantry/core/mailbox"
)

// ConnectionStatus is the state of a mailbox's connection to a sending platform.
type ConnectionStatus string

// The statuses. Only one integration at a time can hold a mailbox; see Held.
const (
	ConnectionPending       ConnectionStatus = "pending"   // a session is open
	ConnectionConnected     ConnectionStatus = "connected" // the account exists and its grant works
	ConnectionFailed        ConnectionStatus = "failed"    // it cannot sign in, or the last session failed
	ConnectionDisconnected  ConnectionStatus = "disconnected"
	ConnectionDisconnecting ConnectionStatus = "disconnecting" // requested, outcome unknown
	ConnectionOther         ConnectionStatus = "other"         // the account is in a state that tenantry does not know
)

// Held reports whether this status keeps other integrations from connecting the mailbox.
func (s ConnectionStatus) Held() bool {
	switch s {
	case ConnectionPending, ConnectionConnected, ConnectionDisconnecting, ConnectionOther:
		return true
	default:
		return false
	}
}

// Stays reports whether a connection with this status remains unchanged while a session is open and
// after it fails.
func (s ConnectionStatus) Stays() bool {
	return s == ConnectionConnected || s == ConnectionDisconnecting
}

// Connection is a mailbox's connection to a sending platform. There is one for each pair of
// integration and mailbox.
type Connection struct {
	ID            string // UUIDv7
	IntegrationID string
	MailboxID     string
	Status        ConnectionStatus
	// AccountID, AccountAddress and AccountName describe the platform's account, empty until known.
	AccountID      string
	AccountAddress string
	AccountName    string
	HasError       bool
	Reason         string    // a class of failures, may be empty
	ConnectedAt    time.Time // zero if it was never connected
	UpdatedAt      time.Time
}

// Eligible is a mailbox that can be connected, with its Connection, the zero value if it has none.
type Eligible struct {
	Mailbox    mailbox.Mailbox
	Connection Connection
	// Elsewhere is true when a different integration holds the mailbox.
	Elsewhere bool
}

// Counts holds the numbers of an integration's connections by status.
type Counts struct {
	Total, Connected, Pending, Failed, Disconnected, Other int
	HasErrors                                              bool
}
