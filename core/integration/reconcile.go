// SPDX-License-Identifier: Apache-2.0

package integration

import "time"

// Tally holds the counters of a refresh.
type Tally struct {
	Checked        int // all eligible mailboxes, including those of ErrorCount
	Connected      int // mailboxes that are connected now, by the stored state if they were not read
	NewlyConnected int // connected mailboxes that were not connected before
	Unchanged      int // mailboxes that were read and whose connection stays as stored
	ErrorCount     int // mailboxes that were not read (see CountUnread)
}

// Reconcile returns the connection of a mailbox after a complete listing. account is the mailbox's
// account in the listing, zero if it is not listed. changed is false if the stored connection stays
// as it is. While a different integration holds the mailbox, the connection can only end, because
// its account is gone. While a session is open, only a connected account changes the connection.
// ID, IntegrationID and MailboxID of a new connection are empty.
func Reconcile(eligible EligibleMailbox, account Account, now time.Time) (c Connection, changed bool) {
	c = eligible.Connection
	if eligible.HeldElsewhere && account.Exists() {
		return c, false
	}
	next := c
	switch {
	case account.Exists():
		next = c.WithAccount(account, now)
	case c.Status == ConnectionFailed && c.PlatformAccountID == "" || c.Status == "" || c.Status == ConnectionDisconnected:
		return c, false // the stored connection has no account either
	case c.Status == ConnectionDisconnecting:
		next = c.WithoutAccount("", now)
	default:
		next = c.WithoutAccount(ReasonGone, now)
	}
	if c.hasOpenSession(now) && next.Status != ConnectionConnected || c.sameState(next) {
		return c, false
	}
	return next, true
}

// hasOpenSession reports whether a session may be open. A connection that has been pending for
// longer than any session lasts has no open session.
func (c Connection) hasOpenSession(now time.Time) bool {
	return c.Status == ConnectionPending && now.Sub(c.UpdatedAt) < maxSessionTime+2*expiryGrace
}

// lateTime is the time after a sign-in during which a platform may not list the new account yet.
// Platforms need a few seconds.
const lateTime = time.Minute

// MayShowLate reports whether the platform may not list the connection's account yet, because the
// mailbox became connected less than lateTime ago.
func (c Connection) MayShowLate(now time.Time) bool {
	return c.Status == ConnectionConnected && now.Sub(c.ConnectedAt) < lateTime
}

func (c Connection) sameState(other Connection) bool {
	other.ConnectedAt, other.UpdatedAt = c.ConnectedAt, c.UpdatedAt
	return c == other
}

// Count counts a mailbox that was read.
func (t *Tally) Count(before, after Connection, changed bool) {
	t.Checked++
	if after.Status == ConnectionConnected {
		t.Connected++
		if before.Status != ConnectionConnected {
			t.NewlyConnected++
		}
	}
	if !changed {
		t.Unchanged++
	}
}

// CountUnread counts a mailbox that an interrupted listing did not reach, or whose new account was
// neither listed nor found by a read of this account.
func (t *Tally) CountUnread(stored Connection) {
	t.Checked++
	t.ErrorCount++
	if stored.Status == ConnectionConnected {
		t.Connected++
	}
}

// Drift is an unexpected state at a platform that a refresh finds.
type Drift string

// The kinds of drift.
const (
	DriftGrantLost Drift = "grant_lost"         // an account cannot sign in any more
	DriftGone      Drift = "account_gone"       // a connected account no longer exists
	DriftAppeared  Drift = "account_appeared"   // an account became connected without a session
	DriftStays     Drift = "account_stays"      // an account still exists after a disconnect with unknown outcome
	DriftRefused   Drift = "credential_refused" // the platform refuses the integration's credential during a refresh
)

// DriftBetween returns the drift between two states of a connection, false if there is none.
func DriftBetween(before, after Connection) (Drift, bool) {
	switch {
	case before.Status == ConnectionConnected && after.Status == ConnectionFailed:
		return DriftGrantLost, true
	case before.Status == ConnectionConnected && after.Status == ConnectionDisconnected:
		return DriftGone, true
	case before.Status == ConnectionDisconnecting && after.Status != ConnectionDisconnected:
		return DriftStays, true
	case before.Status != ConnectionConnected && before.Status != ConnectionPending && after.Status == ConnectionConnected:
		return DriftAppeared, true
	default:
		return "", false
	}
}
