// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/integration"
)

// Integrations stores the integrations of accounts with sending platforms. Credentials are
// encrypted and bound to the integration's row. To an account, the integrations of other accounts
// do not exist.
type Integrations interface {
	// AddIntegration stores a new integration with its sealed credential, and commits the stored
	// answer with it. It fails with account_not_found or account_closed.
	AddIntegration(ctx context.Context, i integration.Integration, credential []byte, storedAnswer *StoredAnswer) error
	// Integrations lists an account's integrations, newest first.
	Integrations(ctx context.Context, owner access.AccountID) ([]integration.Integration, error)
	// Integration returns an integration with its sealed credential. It fails with
	// integration_not_found.
	Integration(ctx context.Context, owner access.AccountID, id string) (integration.Integration, []byte, error)
	// SaveIntegration merges an observation of an integration into the stored integration (see
	// integration.Integration.Merge), and commits the stored answer with it. It fails with
	// integration_not_found.
	SaveIntegration(ctx context.Context, i integration.Integration, storedAnswer *StoredAnswer) error
	// RemoveIntegration deletes an integration with its credential, connections and sessions, and
	// commits the stored answer with it. It fails with integration_not_found. It fails with
	// insufficient_scope if the integration has a connection of a mailbox that is not visible in
	// ctx (see WithTenants).
	RemoveIntegration(ctx context.Context, owner access.AccountID, id string, storedAnswer *StoredAnswer) error
	// DueRefreshes lists at most limit integrations whose last refresh began before the given time,
	// oldest first. A refresh by a key that is limited to some tenants does not count. It stores
	// now as the start of their next refresh, so that no concurrent caller gets the same
	// integrations. Integrations of inactive accounts are excluded.
	DueRefreshes(ctx context.Context, before, now time.Time, limit int) ([]integration.Integration, error)
}

// Connections stores connections and the sessions that create them. All rows belong to an account
// and are visible to it alone.
type Connections interface {
	// Eligible lists the mailboxes that this service created in the account's tenants, by address,
	// with their connection to the integration. It omits mailboxes that are marked as missing. It
	// fails with integration_not_found.
	Eligible(ctx context.Context, owner access.AccountID, integrationID string) ([]integration.EligibleMailbox, error)
	// EligibleMailbox returns one of the mailboxes that Eligible lists. It fails with
	// integration_not_found or, after that check, with mailbox_not_found. A mailbox that discovery
	// found is not eligible and also fails with mailbox_not_found.
	EligibleMailbox(ctx context.Context, owner access.AccountID, integrationID, mailboxID string) (integration.EligibleMailbox, error)
	// RemovableConnection returns the same as EligibleMailbox, but the mailbox may be marked as
	// missing.
	RemovableConnection(ctx context.Context, owner access.AccountID, integrationID, mailboxID string) (integration.EligibleMailbox, error)
	// ConnectionCounts counts an integration's connections.
	ConnectionCounts(ctx context.Context, owner access.AccountID, integrationID string) (integration.Counts, error)
	// BeginSession stores a new pending session before the platform is called. In the same
	// transaction, it changes the stored connection and the earlier session of the mailbox:
	//
	//   - A missing connection is stored as pending, with the id connectionID. A stored connection
	//     becomes pending without an error, unless it is connected or disconnecting.
	//   - An earlier pending session that is not Opened expires if it began before staleBefore or
	//     has reached its ExpiresAt. An earlier session that is Opened has a link. The caller
	//     checks such a session at the platform and ends it before this call.
	//
	// Only one of several concurrent calls succeeds. BeginSession can fail like EligibleMailbox.
	// After that check it fails with mailbox_already_connected_elsewhere if a different integration
	// has the mailbox (see integration.ConnectionStatus.HoldsMailbox), or with
	// oauth_session_pending.
	BeginSession(ctx context.Context, owner access.AccountID, s integration.Session, connectionID string, staleBefore time.Time) error
	// PendingSession returns the pending session of a mailbox at an integration. found is false if
	// there is none.
	PendingSession(ctx context.Context, owner access.AccountID, integrationID, mailboxID string) (s integration.Session, found bool, err error)
	// Session returns a session of exactly this integration and mailbox. It fails with
	// oauth_session_not_found.
	Session(ctx context.Context, owner access.AccountID, integrationID, mailboxID, id string) (integration.Session, error)
	// SaveSession stores a session, and c if it is not nil, and commits the stored answer with
	// them. It stores the session without c in two cases:
	//
	//   - The session is not connected, and the stored connection is not pending.
	//   - The stored connection is disconnecting, and the session began before the connection's
	//     UpdatedAt. The disconnect may have removed the session's account.
	//
	// Only a pending session can change, with one exception: a connected session replaces an
	// expired session, because the platform may report a success late. The exception does not apply
	// if the mailbox's connection is disconnecting or disconnected. If the session cannot change,
	// SaveSession stores nothing and saved is false. If c holds the mailbox, but a different
	// integration already holds it, SaveSession fails with mailbox_already_connected_elsewhere.
	SaveSession(ctx context.Context, owner access.AccountID, s integration.Session, c *integration.Connection, storedAnswer *StoredAnswer) (saved bool, err error)
	// ClaimSessionCheck records that the caller checks a pending session at the platform at now.
	// claimed is false if the session has ended or was already checked after the time since. Only
	// one of several concurrent calls succeeds.
	ClaimSessionCheck(ctx context.Context, owner access.AccountID, sessionID string, since, now time.Time) (claimed bool, err error)
	// PendingSessions lists at most limit pending sessions of all accounts that expired before the
	// given time, oldest first.
	PendingSessions(ctx context.Context, before time.Time, limit int) ([]OwnedSession, error)
	// SaveConnection stores a connection and commits the stored answer with it. readUpdatedAt is
	// the UpdatedAt of the row that the caller read, zero if there was no row. If the stored row
	// has a different UpdatedAt, SaveConnection stores nothing and saved is false. If it stores a
	// disconnected connection, it ends a pending session of the mailbox as failed, with the reason
	// disconnected. SaveConnection fails with mailbox_already_connected_elsewhere. For a new
	// connection it can also fail like EligibleMailbox.
	SaveConnection(ctx context.Context, owner access.AccountID, c integration.Connection, readUpdatedAt time.Time, storedAnswer *StoredAnswer) (saved bool, err error)
	// SaveRefresh stores the result of a complete listing in one transaction and commits the stored
	// answer with it. It merges i as SaveIntegration does. If the result of a listing that began
	// later is already stored, SaveRefresh stores no connection. It also skips these connections:
	//
	//   - a connection that changed after the time began
	//   - a connection whose mailbox was deleted or was not created by this service
	//   - a connection whose mailbox a different integration has, unless it is disconnected
	//
	// If a mailbox occurs several times, its last connection counts. SaveRefresh returns the number
	// of stored connections. It fails with integration_not_found, or with service_unavailable if
	// concurrent requests keep connecting the same mailboxes.
	SaveRefresh(ctx context.Context, owner access.AccountID, i integration.Integration, began time.Time, connections []integration.Connection, storedAnswer *StoredAnswer) (stored int, err error)
}

// OwnedSession is a session with the account that owns it.
type OwnedSession struct {
	Account access.AccountID
	Session integration.Session
}
