// SPDX-License-Identifier: Apache-2.0

package integration

import "time"

// As returns the connection updated from its account at the platform.
func (c Connection) As(a Account, now time.Time) Connection {
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
	c.AccountID, c.AccountAddress = a.ID, a.Address
	if a.Name != "" {
		c.AccountName = a.Name
	}
	c.HasError, c.Reason, c.UpdatedAt = a.HasError || a.State == AccountFailed, a.Reason, now
	if c.Status == ConnectionConnected && before != ConnectionConnected {
		c.ConnectedAt = now
	}
	return c
}

// Gone returns the connection after its account was not found at the platform.
func (c Connection) Gone(reason string, now time.Time) Connection {
	c.Status, c.Reason, c.HasError, c.UpdatedAt = ConnectionDisconnected, reason, false, now
	c.AccountID, c.AccountAddress, c.AccountName = "", "", ""
	return c
}

// Failed returns the connection after a failed session.
func (c Connection) Failed(reason string, now time.Time) Connection {
	c.Status, c.Reason, c.UpdatedAt = ConnectionFailed, reason, now
	return c
}

// After returns the connection after one of its sessions has ended. a is its account at that time,
// or the zero Account. A failed session does not change a connected connection; refreshes update
// that.
func (c Connection) After(s Session, a Account, now time.Time) Connection {
	switch {
	case s.Status == SessionConnected:
		c = c.As(Account{ID: s.AccountID, Address: s.AccountAddress, Name: s.AccountName, State: AccountConnected,
			HasError: a.HasError, Reason: a.Reason}, now)
		c.ConnectedAt = s.ConnectedAt
		return c
	case c.Status != ConnectionPending:
		return c
	case s.Status == SessionExpired && a.There():
		return c.As(a, now)
	case s.Status == SessionExpired:
		return c.Failed(ReasonExpired, now)
	default:
		return c.Failed(s.Reason, now)
	}
}

// Back returns the connection to store when the platform did not start a session. id is the id of a
// new connection if the mailbox had none.
func (e Eligible) Back(id, integrationID, reason string, now time.Time) Connection {
	c := e.Connection
	switch {
	case c.ID == "":
		c = Connection{ID: id, IntegrationID: integrationID, MailboxID: e.Mailbox.ID}
		return c.Failed(reason, now)
	case c.Status == ConnectionPending: // its session failed as well
		return c.Failed(reason, now)
	}
	c.UpdatedAt = now
	return c
}
