// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"time"

	"github.com/tenantry/tenantry/core/mailbox"
)

// The reasons that this service gives for failed sessions and connections.
const (
	ReasonWrongAccount = "wrong_account_signed_in"
	ReasonSignIn       = "sign_in_failed" // the platform gives no further reason
	ReasonElsewhere    = "connected_elsewhere"
	ReasonExpired      = "sign_in_expired"
	ReasonGone         = "account_gone" // the account existed before and no longer exists
	ReasonDisconnected = "disconnected" // the session's mailbox was disconnected in the meantime
)

const (
	// SessionTime is the lifetime of a session for which the platform does not specify one.
	SessionTime = 10 * time.Minute
	// maxSessionTime limits the lifetime that a platform specifies.
	maxSessionTime = time.Hour
	// expiryGrace is how long after ExpiresAt a platform may still complete a session.
	expiryGrace = time.Minute
)

// Mark returns a string that changes with each new sign-in of the account, empty if the account
// does not exist.
func (a Account) Mark() string {
	if a.There() && a.Stamp == "" {
		return string(a.State) + " " + a.ID // without a stamp, only a state change shows a new sign-in
	}
	return a.Stamp
}

// Open returns the session after the platform has created its own session, in which no one has
// signed in yet.
func (s Session) Open(in SignIn, now time.Time) Session {
	s.Opened, s.PlatformID, s.ExpiresAt = true, in.ID, in.ExpiresAt.UTC().Truncate(time.Microsecond)
	switch {
	case !s.ExpiresAt.After(now):
		s.ExpiresAt = now.Add(SessionTime)
	case s.ExpiresAt.Sub(now) > maxSessionTime:
		s.ExpiresAt = now.Add(maxSessionTime)
	}
	return s
}

// Over reports whether the session has ended, so that the account must be checked for the last
// time. A platform with sessions may complete one until expiryGrace after its end.
func (s Session) Over(p Progress, now time.Time) bool {
	if s.PlatformID == "" {
		return !now.Before(s.ExpiresAt)
	}
	return p.State == SignInExpired || !now.Before(s.ExpiresAt.Add(expiryGrace))
}

// Heard returns the session after the platform has reported its progress. The session fails if a
// different account than the mailbox signed in.
func (s Session) Heard(p Progress, m mailbox.Mailbox, now time.Time) Session {
	switch p.State {
	case SignInSucceeded:
		s.AccountAddress, s.AccountName = p.Address, p.Name
		if !Belongs(p.Address, m) {
			return s.Failed(ReasonWrongAccount)
		}
		return s.connected(Account{ID: p.Address, Address: p.Address, Name: p.Name}, now)
	case SignInFailed:
		if p.Reason == "" {
			return s.Failed(ReasonSignIn)
		}
		return s.Failed(p.Reason)
	default:
		return s
	}
}

// Seen returns the session after the mailbox's account was read. An account that existed before the
// session counts as signed in only once its Mark changes.
func (s Session) Seen(a Account, now time.Time) Session {
	if a.State != AccountConnected || !s.changed(a) {
		return s
	}
	return s.connected(a, now)
}

// Ended returns the session after the last check of the account, which may find a late or
// unreported sign-in.
func (s Session) Ended(a Account, now time.Time) Session {
	if seen := s.Seen(a, now); seen.Status == SessionConnected {
		return seen
	}
	if a.State == AccountFailed && s.changed(a) {
		s.AccountID, s.AccountAddress, s.AccountName = a.ID, a.Address, a.Name
		return s.Failed(a.Reason)
	}
	s.Status = SessionExpired
	return s
}

// Failed returns the session as failed for a reason.
func (s Session) Failed(reason string) Session {
	s.Status, s.Reason = SessionFailed, reason
	return s
}

func (s Session) changed(a Account) bool { return a.There() && a.Mark() != s.Before }

func (s Session) connected(a Account, now time.Time) Session {
	s.Status, s.Reason, s.ConnectedAt = SessionConnected, "", now
	return s.With(a)
}

// With returns the session with the account's data, as far as they are known.
func (s Session) With(a Account) Session {
	if !a.There() {
		return s
	}
	s.AccountID, s.AccountAddress = a.ID, a.Address
	if a.Name != "" {
		s.AccountName = a.Name
	}
	return s
}
