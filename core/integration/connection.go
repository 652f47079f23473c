// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"time"

	"github.com/tenantry/tenantry/core/mailbox"
)

// ConnectionStatus says how a mailbox stands at a sending platform.
type ConnectionStatus string

// The statuses. A mailbox is held by one integration at a time: no other may
// connect it while it is Held there.
const (
	ConnectionPending       ConnectionStatus = "pending"   // a session is open
	ConnectionConnected     ConnectionStatus = "connected" // the account is there and its grant works
	ConnectionFailed        ConnectionStatus = "failed"    // it cannot sign in, or the last session failed
	ConnectionDisconnected  ConnectionStatus = "disconnected"
	ConnectionDisconnecting ConnectionStatus = "disconnecting" // asked for, outcome unknown
	ConnectionOther         ConnectionStatus = "other"         // the account is in a state that we do not know
)

// Held reports whether a mailbox with this status may connect nowhere else.
func (s ConnectionStatus) Held() bool {
	switch s {
	case ConnectionPending, ConnectionConnected, ConnectionDisconnecting, ConnectionOther:
		return true
	default:
		return false
	}
}

// Stays reports whether a connection with this status is left as it is while a
// session is open, and when that comes to nothing.
func (s ConnectionStatus) Stays() bool {
	return s == ConnectionConnected || s == ConnectionDisconnecting
}

// Connection is a mailbox's connection to a sending platform, one for each
// integration and mailbox.
type Connection struct {
	ID            string // UUIDv7
	IntegrationID string
	MailboxID     string
	Status        ConnectionStatus
	// AccountID, AccountAddress and AccountName are the platform's account,
	// empty until known.
	AccountID      string
	AccountAddress string
	AccountName    string
	HasError       bool
	Reason         string    // a classification for people, may be empty
	ConnectedAt    time.Time // zero: never
	UpdatedAt      time.Time
}

// Eligible is a mailbox that could be connected, and how it stands. Connection
// is the zero value where it has none.
type Eligible struct {
	Mailbox    mailbox.Mailbox
	Connection Connection
	// Elsewhere says that another integration holds the mailbox.
	Elsewhere bool
}

// Counts counts an integration's connections by status.
type Counts struct {
	Total, Connected, Pending, Failed, Disconnected, Other int
	HasErrors                                              bool
}
