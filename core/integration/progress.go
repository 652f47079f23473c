// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"time"

	"github.com/tenantry/tenantry/core/mailbox"
)

// The reasons of ours for which sessions and connections fail.
const (
	ReasonWrongAccount = "wrong_account_signed_in"
	ReasonSignIn       = "sign_in_failed" // the platform says no more
	ReasonElsewhere    = "connected_elsewhere"
	ReasonExpired      = "sign_in_expired"
	ReasonGone         = "account_gone" // the account was there and is not any more
	ReasonDisconnected = "disconnected" // the session's mailbox was disconnected meanwhile
)

const (
	// SessionTime is how long a session is open whose platform does not say.
	SessionTime = 10 * time.Minute
	// sessionMost bounds what a platform says.
	sessionMost = time.Hour
	// grace is how much later than we a platform may end a session.
	grace = time.Minute
)

// Mark is what changes when the account is signed in anew, empty when it is not
// there.
func (a Account) Mark() string {
	if a.There() && a.Stamp == "" {
		return string(a.State) + " " + a.ID // better than nothing: a repaired grant shows
	}
	return a.Stamp
}

// Open is the session once the platform has made its own, in which nobody has
// signed in yet.
func (s Session) Open(in SignIn, now time.Time) Session {
	s.Opened, s.PlatformID, s.ExpiresAt = true, in.ID, in.ExpiresAt.UTC().Truncate(time.Microsecond)
	switch {
	case !s.ExpiresAt.After(now):
		s.ExpiresAt = now.Add(SessionTime)
	case s.ExpiresAt.Sub(now) > sessionMost:
		s.ExpiresAt = now.Add(sessionMost)
	}
	return s
}

// Over reports whether the session has come to its end, at which an account is
// looked up once more. A platform with sessions has the last word on them for
// a while.
func (s Session) Over(p Progress, now time.Time) bool {
	if s.PlatformID == "" {
		return !now.Before(s.ExpiresAt)
	}
	return p.State == SignInExpired || !now.Before(s.ExpiresAt.Add(grace))
}

// Heard is the session after the platform told how its own stands. Somebody
// else than the mailbox signing in is a failure.
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

// Seen is the session after the mailbox's account was looked up. An account
// that was there before proves nothing until it changes.
func (s Session) Seen(a Account, now time.Time) Session {
	if a.State != AccountConnected || !s.changed(a) {
		return s
	}
	return s.connected(a, now)
}

// Ended is the session after the last look: somebody may have signed in late,
// or without telling.
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

// Failed is the session after it failed for this reason.
func (s Session) Failed(reason string) Session {
	s.Status, s.Reason = SessionFailed, reason
	return s
}

func (s Session) changed(a Account) bool { return a.There() && a.Mark() != s.Before }

func (s Session) connected(a Account, now time.Time) Session {
	s.Status, s.Reason, s.ConnectedAt = SessionConnected, "", now
	return s.With(a)
}

// With is the session of this account, as far as that is known.
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
