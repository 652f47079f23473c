// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
)

// AccountSettings reads the settings that the operator made for the connect pages of an account.
// The port Accounts changes these settings.
type AccountSettings interface {
	// Settings returns the settings of an account, the zero value if nothing was set.
	Settings(ctx context.Context, id access.AccountID) (access.Settings, error)
}

// SessionRetention is how long a connect session is kept after its last link has expired.
const SessionRetention = 30 * 24 * time.Hour

// ConnectSessions stores connect sessions, each with the flow of its current link. The session is
// kept when its flow is deleted.
type ConnectSessions interface {
	// StartConnectSession stores a new session and the flow of its first link, in one transaction.
	StartConnectSession(ctx context.Context, s tenant.ConnectSession, f ConnectFlow) error
	// RenewConnectSession stores the flow of a new link and deletes the flows of the earlier links,
	// so that these links stop working. The session becomes pending again, and expires with the new
	// link. If storedAnswer is not nil, RenewConnectSession stores it in the same transaction. It
	// fails with connect_session_not_found or connect_session_connected.
	RenewConnectSession(ctx context.Context, id string, f ConnectFlow, storedAnswer *StoredAnswer) error
	// ConnectSession returns a session. It fails with connect_session_not_found.
	ConnectSession(ctx context.Context, owner access.AccountID, id string) (tenant.ConnectSession, error)
	// ConnectSessionOfLink returns the account and the session of the link whose state has this
	// hash. It fails with connect_session_not_found. A link that was created by a release without
	// sessions has no session.
	ConnectSessionOfLink(ctx context.Context, stateHash [32]byte) (access.AccountID, tenant.ConnectSession, error)
	// AdvanceConnectSession sets the status of the session of a link, and the tenant unless
	// tenantID is empty. It changes nothing if the session has ended, a newer link exists, or the
	// link has no session.
	AdvanceConnectSession(ctx context.Context, owner access.AccountID, stateHash [32]byte, status tenant.SessionStatus, tenantID tenant.GUID) error
	// DeleteConnectSessions deletes sessions whose last link expired before the given time.
	DeleteConnectSessions(ctx context.Context, before time.Time) error
}
