// SPDX-License-Identifier: Apache-2.0

package integration

import "time"

// SessionStatus is the state of an OAuth session of this service.
type SessionStatus string

// The statuses. All but SessionPending are final.
const (
	SessionPending   SessionStatus = "pending"
	SessionConnected SessionStatus = "connected"
	SessionFailed    SessionStatus = "failed"
	SessionExpired   SessionStatus = "expired"
)

// Session is one attempt to sign a mailbox in at a sending platform. It is stored before the
// platform is called.
type Session struct {
	ID            string // UUIDv7, the session_id of the API
	IntegrationID string
	MailboxID     string
	Status        SessionStatus
	// Opened is true once the platform has created its session and the link was returned. Otherwise
	// the request is still running or has crashed.
	Opened bool
	// PlatformID is the session's id at the platform, empty if the platform has none.
	PlatformID string
	// Before is the Mark of the account before the session began, empty if there was no account.
	// Only a change of it proves a sign-in.
	Before string
	// AccountID, AccountAddress and AccountName identify the account that signed in.
	AccountID      string
	AccountAddress string
	AccountName    string
	Reason         string // class of the failure, such as wrong_account_signed_in
	CreatedAt      time.Time
	ExpiresAt      time.Time
	ConnectedAt    time.Time
	// LookedAt is when the platform was last asked. It limits the platform calls of clients that
	// poll.
	LookedAt time.Time
}
