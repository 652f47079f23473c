// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/integration"
)

// Integrations stores how accounts reach sending platforms. Credentials go in
// sealed, bound to the integration's row. An unknown integration and another
// account's are one answer.
type Integrations interface {
	// AddIntegration stores a new integration with its sealed credential, and
	// commits a Completion.
	AddIntegration(ctx context.Context, i integration.Integration, credential []byte) error
	// Integrations lists an account's integrations, newest first.
	Integrations(ctx context.Context, owner access.AccountID) ([]integration.Integration, error)
	// Integration finds one with its sealed credential. Refusal:
	// integration_not_found.
	Integration(ctx context.Context, owner access.AccountID, id string) (integration.Integration, []byte, error)
	// SaveIntegration stores Status, HasError, Workspace, LastTestedAt,
	// RefreshedAt and UpdatedAt, and commits a Completion. Refusal:
	// integration_not_found.
	SaveIntegration(ctx context.Context, i integration.Integration) error
	// RemoveIntegration deletes an integration with its credential,
	// connections and sessions, and commits a Completion. Refusal:
	// integration_not_found.
	RemoveIntegration(ctx context.Context, owner access.AccountID, id string) error
	// DueRefreshes lists integrations of all accounts whose last refresh
	// began before, the longest ago first, at most that many, and notes now
	// as the begin of theirs: no other caller gets them again before that is
	// over. Integrations of accounts without an active plan are left out.
	DueRefreshes(ctx context.Context, before, now time.Time, most int) ([]integration.Integration, error)
}

// Connections stores what is connected where, and the sessions that lead there.
// All rows belong to an account and are found under it alone.
type Connections interface {
	// Eligible lists the mailboxes that this service made in tenants of the
	// account, by address, with their connection to this integration. Refusal:
	// integration_not_found.
	Eligible(ctx context.Context, owner access.AccountID, integrationID string) ([]integration.Eligible, error)
	// EligibleMailbox finds one of them. Refusals, in this order:
	// integration_not_found, mailbox_not_found, also for a mailbox that
	// discovery found.
	EligibleMailbox(ctx context.Context, owner access.AccountID, integrationID, mailboxID string) (integration.Eligible, error)
	// ConnectionCounts counts an integration's connections.
	ConnectionCounts(ctx context.Context, owner access.AccountID, integrationID string) (integration.Counts, error)
	// BeginSession stores a new pending session, before the platform is asked
	// for it, and makes the connection pending, without the error of before,
	// unless it is connected, or disconnecting, which no failed session may
	// settle. In the same transaction a pending session of the mailbox here that
	// is past its end, or not Opened and begun before stale, ends as expired. Of
	// several at once one wins. Refusals, in this order:
	// those of EligibleMailbox; mailbox_already_connected_elsewhere when another
	// integration holds the mailbox (see integration.ConnectionStatus.Held);
	// oauth_session_pending when a session is pending here.
	BeginSession(ctx context.Context, owner access.AccountID, s integration.Session, connectionID string, stale time.Time) error
	// Session finds a session of exactly this integration and mailbox.
	// Refusal: oauth_session_not_found.
	Session(ctx context.Context, owner access.AccountID, integrationID, mailboxID, id string) (integration.Session, error)
	// SaveSession stores a session, and c with it unless that is nil, and
	// commits a Completion. Only a pending session changes: saved is false
	// when it had ended already, and nothing is stored.
	// It is refused as BeginSession when another integration holds the mailbox.
	SaveSession(ctx context.Context, owner access.AccountID, s integration.Session, c *integration.Connection) (saved bool, err error)
	// TakeLook notes now as the moment in which the platform is asked about a
	// pending session. taken is false when somebody asked after since, or when
	// the session has ended: of several at once one asks.
	TakeLook(ctx context.Context, owner access.AccountID, sessionID string, since, now time.Time) (taken bool, err error)
	// PendingSessions lists sessions of all accounts that are still pending
	// and were over before, the oldest first, at most that many.
	PendingSessions(ctx context.Context, before time.Time, most int) ([]OwnedSession, error)
	// SaveConnection stores a connection whose row is as it was at before
	// (UpdatedAt; zero: there was none), and commits a Completion. saved is
	// false when it has changed since. Stored as disconnected it ends a pending
	// session of the mailbox here as failed, for the reason disconnected.
	// Refusals: mailbox_already_connected_elsewhere; those of EligibleMailbox
	// for a first one.
	SaveConnection(ctx context.Context, owner access.AccountID, c integration.Connection, before time.Time) (saved bool, err error)
	// SaveRefresh stores what a complete listing showed, in one transaction:
	// each connection unless its row has changed since began or another
	// integration holds its mailbox or the mailbox went. Of several for one
	// mailbox the last counts. It returns how many it stored, and commits
	// a Completion. Refusal: integration_not_found.
	SaveRefresh(ctx context.Context, owner access.AccountID, i integration.Integration, began time.Time, connections []integration.Connection) (stored int, err error)
}

// OwnedSession is a session and whose it is.
type OwnedSession struct {
	Account access.AccountID
	Session integration.Session
}
