// SPDX-License-Identifier: Apache-2.0

package integration

import "time"

// SessionStatus is how an OAuth session of ours stands.
type SessionStatus string

// The statuses; all but the first are final.
const (
	SessionPending   SessionStatus = "pending"
	SessionConnected SessionStatus = "connected"
	SessionFailed    SessionStatus = "failed"
	SessionExpired   SessionStatus = "expired"
)

// Session is one attempt to sign a mailbox in at a sending platform. Its row is
// there before the platform is asked for it.
type Session struct {
	ID            string // UUIDv7, the session_id of the API
	IntegrationID string
	MailboxID     string
	Status        SessionStatus
	// Opened says that the platform has made its session and the link was
	// given out. One that is not Opened belongs to a request under way, or to
	// one that died.
	Opened bool
	// PlatformID is the session's id at the platform, empty where it has none.
	PlatformID string
	// Before is the stamp of the account as it was before the session began,
	// empty when there was none: only a change shows that somebody signed in.
	Before string
	// AccountID, AccountAddress and AccountName are who signed in.
	AccountID      string
	AccountAddress string
	AccountName    string
	Reason         string // of a failure, as in wrong_account_signed_in
	CreatedAt      time.Time
	ExpiresAt      time.Time
	ConnectedAt    time.Time
	// LookedAt is when the platform was last asked, so that many who poll
	// do not multiply its calls.
	LookedAt time.Time
}
