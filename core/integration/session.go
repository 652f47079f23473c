// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"cmp"
	"time"

	"github.com/tenantry/tenantry/core/mailbox"
)

// SessionStatus is the state of an OAuth session of this service.
type SessionStatus string

// The statuses. SessionConnected and SessionFailed are final. An expired session becomes connected
// if a concurrent check finds the sign-in.
const (
	SessionPending   SessionStatus = "pending"
	SessionConnected SessionStatus = "connected"
	SessionFailed    SessionStatus = "failed"
	SessionExpired   SessionStatus = "expired"
)

// Session is one attempt of a person to sign a mailbox in at a sending platform. It is stored
// before the platform is called.
type Session struct {
	ID            string // UUIDv7, the session_id of the API
	IntegrationID string
	MailboxID     string
	Status        SessionStatus
	// Opened is true once the platform has returned the link. If a pending session is not opened,
	// the request that began the session is still running, or its process has crashed.
	Opened bool
	// PlatformID is the session's id at the platform, empty if the platform has none.
	PlatformID string
	// PreviousMark is Account.Mark of the account before the session began, empty if there was no
	// account. AfterCheck and AfterLastCheck take a different mark as the sign of a sign-in.
	PreviousMark string
	// The account at the platform that signed in.
	PlatformAccountID      string
	PlatformAccountAddress string
	PlatformAccountName    string
	Reason                 string // class of the failure, such as wrong_account_signed_in
	CreatedAt              time.Time
	ExpiresAt              time.Time
	ConnectedAt            time.Time
	// CheckedAt is when a request of a client last asked the platform. It limits how often a client
	// that polls can cause a call of the platform.
	CheckedAt time.Time
}

// SignIn is a session at the platform in which a person signs a mailbox in.
type SignIn struct {
	// ID is the session's id at the platform. It is empty for a platform without sessions. At such
	// a platform, the account shows whether the sign-in succeeded.
	ID string
	// URL is the page on which a person signs in. Anyone with the URL can use the page. The URL is
	// never logged, and is stored only in the encrypted answer of the request (ports.StoredAnswer).
	URL       string
	ExpiresAt time.Time
}

// SignInState is the state of a session at the platform.
type SignInState string

// The states of a session at the platform.
const (
	SignInPending   SignInState = "pending"
	SignInSucceeded SignInState = "succeeded"
	SignInFailed    SignInState = "failed"
	SignInExpired   SignInState = "expired"
)

// Progress is the state of a session as reported by the platform.
type Progress struct {
	State SignInState
	// Address and Name identify the person who signed in, empty before that.
	Address string
	Name    string
	// Reason is a class of failures, such as access_denied.
	Reason string
}

// The reasons for failed sessions and connections that tenantry itself sets. A session that could
// not be started has start_failed or start_<kind of the outcome> instead.
const (
	ReasonWrongAccount = "wrong_account_signed_in"
	ReasonSignIn       = "sign_in_failed" // the platform gives no further reason
	ReasonElsewhere    = "connected_elsewhere"
	ReasonExpired      = "sign_in_expired"
	ReasonGone         = "account_gone" // the account existed before and no longer exists
	ReasonDisconnected = "disconnected" // the session's mailbox was disconnected in the meantime
)

const (
	// SessionTime is the lifetime of a session for which the platform does not specify a lifetime.
	SessionTime = 10 * time.Minute
	// maxSessionTime limits the lifetime that a platform specifies.
	maxSessionTime = time.Hour
	// expiryGrace is how long after ExpiresAt a platform may still complete a session.
	expiryGrace = time.Minute
)

// WithSignIn returns the session after the platform has returned a link, and before anyone has
// signed in.
func (s Session) WithSignIn(signIn SignIn, now time.Time) Session {
	s.Opened, s.PlatformID, s.ExpiresAt = true, signIn.ID, signIn.ExpiresAt.UTC().Truncate(time.Microsecond)
	switch {
	case !s.ExpiresAt.After(now):
		s.ExpiresAt = now.Add(SessionTime)
	case s.ExpiresAt.Sub(now) > maxSessionTime:
		s.ExpiresAt = now.Add(maxSessionTime)
	}
	return s
}

// HasEnded reports whether the session has ended, so that the account must be checked for the last
// time. A platform with sessions may complete a session until expiryGrace after ExpiresAt.
func (s Session) HasEnded(p Progress, now time.Time) bool {
	if s.PlatformID == "" {
		return !now.Before(s.ExpiresAt)
	}
	return p.State == SignInExpired || !now.Before(s.ExpiresAt.Add(expiryGrace))
}

// WithProgress returns the session after the platform has reported its progress. The session fails
// if a different account than the mailbox signed in.
func (s Session) WithProgress(p Progress, m mailbox.Mailbox, now time.Time) Session {
	switch p.State {
	case SignInSucceeded:
		s.PlatformAccountAddress, s.PlatformAccountName = p.Address, p.Name
		if !IsMailboxAddress(p.Address, m) {
			return s.WithFailure(ReasonWrongAccount)
		}
		return s.asConnected(Account{ID: p.Address, Address: p.Address, Name: p.Name}, now)
	case SignInFailed:
		return s.WithFailure(cmp.Or(p.Reason, ReasonSignIn))
	default:
		return s
	}
}

// AfterCheck returns the session after the mailbox's account was read. An account that existed
// before the session counts as signed in only once its Mark changes.
func (s Session) AfterCheck(a Account, now time.Time) Session {
	if a.State != AccountConnected || !s.hasNewMark(a) {
		return s
	}
	return s.asConnected(a, now)
}

// AfterLastCheck returns the session after the last check of the account: connected, failed or
// expired. The check may find a sign-in that was late or that the platform did not report.
func (s Session) AfterLastCheck(a Account, now time.Time) Session {
	if checked := s.AfterCheck(a, now); checked.Status == SessionConnected {
		return checked
	}
	if a.State == AccountFailed && s.hasNewMark(a) {
		s.PlatformAccountID, s.PlatformAccountAddress, s.PlatformAccountName = a.ID, a.Address, a.Name
		return s.WithFailure(cmp.Or(a.Reason, ReasonSignIn))
	}
	s.Status = SessionExpired
	return s
}

// WithFailure returns the session as failed for a reason.
func (s Session) WithFailure(reason string) Session {
	s.Status, s.Reason = SessionFailed, reason
	return s
}

func (s Session) hasNewMark(a Account) bool { return a.Exists() && a.Mark() != s.PreviousMark }

func (s Session) asConnected(a Account, now time.Time) Session {
	s.Status, s.Reason, s.ConnectedAt = SessionConnected, "", now
	return s.WithAccount(a)
}

// WithAccount returns the session with the known data of the account.
func (s Session) WithAccount(a Account) Session {
	if !a.Exists() {
		return s
	}
	s.PlatformAccountID, s.PlatformAccountAddress = a.ID, a.Address
	if a.Name != "" {
		s.PlatformAccountName = a.Name
	}
	return s
}
