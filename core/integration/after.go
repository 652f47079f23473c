// SPDX-License-Identifier: Apache-2.0

package integration

import "time"

// As is the connection whose account was found at the platform.
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

// Gone is the connection whose account is not at the platform.
func (c Connection) Gone(reason string, now time.Time) Connection {
	c.Status, c.Reason, c.HasError, c.UpdatedAt = ConnectionDisconnected, reason, false, now
	c.AccountID, c.AccountAddress, c.AccountName = "", "", ""
	return c
}

// Failed is the connection after a session that came to nothing.
func (c Connection) Failed(reason string, now time.Time) Connection {
	c.Status, c.Reason, c.UpdatedAt = ConnectionFailed, reason, now
	return c
}

// After is the connection once a session of it has ended. a is its account as
// it was seen then, zero when it was not looked up or is not there. One that
// was connected before stays so: whether it is, refreshes tell.
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

// Back is the connection as it was before a session that the platform did not
// begin. id names it where there was none.
func (e Eligible) Back(id, integrationID, reason string, now time.Time) Connection {
	c := e.Connection
	switch {
	case c.ID == "":
		c = Connection{ID: id, IntegrationID: integrationID, MailboxID: e.Mailbox.ID}
		return c.Failed(reason, now)
	case c.Status == ConnectionPending: // of a session that came to nothing too
		return c.Failed(reason, now)
	}
	c.UpdatedAt = now
	return c
}
