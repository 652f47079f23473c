// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"cmp"
	"time"

	"github.com/tenantry/tenantry/core/mailbox"
)

// ConnectionStatus is the state of a mailbox's connection to a sending platform.
type ConnectionStatus string

// The statuses. Only one integration at a time can hold a mailbox; see HoldsMailbox.
const (
	ConnectionPending       ConnectionStatus = "pending"   // a session is open, or the platform is setting up the account
	ConnectionConnected     ConnectionStatus = "connected" // the account exists and its grant works
	ConnectionFailed        ConnectionStatus = "failed"    // the account cannot sign in, or the last session failed or expired
	ConnectionDisconnected  ConnectionStatus = "disconnected"
	ConnectionDisconnecting ConnectionStatus = "disconnecting" // requested, outcome unknown
	ConnectionOther         ConnectionStatus = "other"         // any other state of the account
)

// HoldsMailbox reports whether this status keeps other integrations from connecting the mailbox.
func (s ConnectionStatus) HoldsMailbox() bool {
	switch s {
	case ConnectionPending, ConnectionConnected, ConnectionDisconnecting, ConnectionOther:
		return true
	default:
		return false
	}
}

// UnaffectedBySession reports whether a new session leaves a connection with this status unchanged
// until someone signs in. If the session fails or expires, the connection also stays unchanged.
func (s ConnectionStatus) UnaffectedBySession() bool {
	return s == ConnectionConnected || s == ConnectionDisconnecting
}

// Connection is a mailbox's connection to a sending platform. There is at most one for each pair of
// integration and mailbox.
type Connection struct {
	ID            string // UUIDv7
	IntegrationID string
	MailboxID     string
	Status        ConnectionStatus
	// The account at the platform, empty until it is known.
	PlatformAccountID      string
	PlatformAccountAddress string
	PlatformAccountName    string
	HasError               bool
	Reason                 string    // class of the problem, or why the connection ended; may be empty
	ConnectedAt            time.Time // zero if it was never connected
	UpdatedAt              time.Time
}

// EligibleMailbox is a mailbox that tenantry created, with its connection to one integration.
// Connection is zero if the mailbox has no connection.
type EligibleMailbox struct {
	Mailbox    mailbox.Mailbox
	Connection Connection
	// HeldElsewhere is true when a different integration holds the mailbox; see
	// ConnectionStatus.HoldsMailbox. The mailbox cannot be connected then.
	HeldElsewhere bool
}

// Address returns the address of the mailbox's account at the platform. If no account is known, it
// returns the mailbox's own address.
func (e EligibleMailbox) Address() string {
	return cmp.Or(e.Connection.PlatformAccountAddress, e.Mailbox.Address)
}

// Counts holds the numbers of an integration's connections by status. Other counts the statuses
// ConnectionDisconnecting and ConnectionOther.
type Counts struct {
	Total, Connected, Pending, Failed, Disconnected, Other int
	HasErrors                                              bool
}

// WithAccount returns the connection updated from its account at the platform.
func (c Connection) WithAccount(a Account, now time.Time) Connection {
	before := c.Status
	switch a.State {
	case AccountConnected:
		c.Status = ConnectionConnected
	case AccountPending:
		c.Status = ConnectionPending
	case AccountFailed:
		c.Status = ConnectionFailed
	default:
		c.Status = ConnectionOther
	}
	c.PlatformAccountID, c.PlatformAccountAddress = a.ID, a.Address
	if a.Name != "" {
		c.PlatformAccountName = a.Name
	}
	c.HasError, c.Reason, c.UpdatedAt = a.HasError || a.State == AccountFailed, a.Reason, now
	if c.Status == ConnectionConnected && before != ConnectionConnected {
		c.ConnectedAt = now
	}
	return c
}

// WithoutAccount returns the connection as disconnected, after its account was not found at the
// platform.
func (c Connection) WithoutAccount(reason string, now time.Time) Connection {
	c.Status, c.Reason, c.HasError, c.UpdatedAt = ConnectionDisconnected, reason, false, now
	c.PlatformAccountID, c.PlatformAccountAddress, c.PlatformAccountName = "", "", ""
	return c
}

// WithFailure returns the connection after a failed session.
func (c Connection) WithFailure(reason string, now time.Time) Connection {
	c.Status, c.Reason, c.UpdatedAt = ConnectionFailed, reason, now
	return c
}

// AfterSession returns the connection after one of its sessions has ended. a is the account at that
// time, zero if the platform had no account. A session that failed or expired changes only a
// pending connection.
func (c Connection) AfterSession(s Session, a Account, now time.Time) Connection {
	switch {
	case s.Status == SessionConnected:
		c = c.WithAccount(Account{ID: s.PlatformAccountID, Address: s.PlatformAccountAddress, Name: s.PlatformAccountName, State: AccountConnected,
			HasError: a.HasError, Reason: a.Reason}, now)
		c.ConnectedAt = s.ConnectedAt
		return c
	case c.Status != ConnectionPending:
		return c
	case s.Status == SessionExpired && a.Exists():
		return c.WithAccount(a, now)
	case s.Status == SessionExpired:
		return c.WithFailure(ReasonExpired, now)
	default:
		return c.WithFailure(s.Reason, now)
	}
}

// AfterFailedStart returns the connection to store when the platform did not start a session. If
// the mailbox has no connection yet, AfterFailedStart returns a new connection with this id.
func (e EligibleMailbox) AfterFailedStart(id, integrationID, reason string, now time.Time) Connection {
	c := e.Connection
	switch {
	case c.ID == "":
		c = Connection{ID: id, IntegrationID: integrationID, MailboxID: e.Mailbox.ID}
		return c.WithFailure(reason, now)
	case c.Status == ConnectionPending: // an earlier session left the connection pending
		return c.WithFailure(reason, now)
	}
	c.UpdatedAt = now
	return c
}
