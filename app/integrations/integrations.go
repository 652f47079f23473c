// SPDX-License-Identifier: Apache-2.0

// Package integrations connects mailboxes to sending platforms. It stores the credentials of
// accounts, starts the sign-ins of mailboxes, and records through which integration each mailbox is
// connected.
//
// An integration is an account's credential for one platform. A connection is the state of one
// mailbox at one integration. The accounts of a platform are mail accounts (integration.Account),
// not accounts of tenantry. A session is one attempt of a person to sign a mailbox in.
//
// Start reading at Service.
//
//   - integrations.go: Service, List, Get, Mailboxes, Delete
//   - create.go: Create
//   - test.go: Test, which tests a stored credential
//   - credential.go: encrypts and decrypts credentials
//   - rejection.go: the errors of rejected credentials
//   - session_begin.go: BeginSignIn, which starts a session
//   - session_status.go: SessionStatus, which checks a session and stores its end
//   - refresh.go: Refresh, which compares a platform's accounts with the stored connections
//   - listing.go: reads the paged list of accounts
//   - schedule.go: scheduled refreshes, and the ends of expired sessions
//   - disconnect.go: Disconnect and DisconnectAll
package integrations

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// workTimeout is the default of Service.Timeout.
const workTimeout = 55 * time.Second

// Service has the use cases of integrations.
type Service struct {
	Integrations ports.Integrations
	Connections  ports.Connections
	Tenants      ports.Tenants
	Platforms    ports.SendingPlatforms
	Sealer       ports.Sealer
	Queue        ports.Queue
	Random       io.Reader
	Now          func() time.Time
	// OnDrift, if set, is called for each drift that a refresh finds. It is for metrics: the
	// arguments contain no customer data.
	OnDrift func(provider string, kind integration.Drift)
	// Timeout is the maximum duration of one Refresh, BeginSignIn or Disconnect, by default 55 s.
	Timeout time.Duration

	partialReads partialReads // lists of accounts that scheduled refreshes have read in part
	reservations sync.Map     // the mailboxes for which reserve runs; the key is [2]string{integration id, mailbox id}
}

// NewIntegration is the input of Create.
type NewIntegration struct {
	Account  access.AccountID
	Provider string
	Name     string
	// APIKey is the credential as one text, see ports.SendingPlatforms.ParseCredential.
	APIKey secret.Text
	// WorkspaceID is empty when the caller names no workspace.
	WorkspaceID string
}

// View is an integration with its capabilities.
type View struct {
	integration.Integration

	Capabilities integration.Capabilities
}

// TestResult is the result of Test: the integration with the new Status and LastTestedAt.
type TestResult struct {
	integration.Integration

	// Message describes the result in words that a user may see.
	Message string
}

// StartedSession is a session that waits for a person to sign in.
type StartedSession struct {
	Integration integration.Integration
	Mailbox     string // address of the mailbox
	Session     integration.Session
	// AuthURL is a bearer secret: anyone with the URL can sign in.
	AuthURL secret.Text
}

// The statuses of a refresh.
const (
	RefreshCompleted = "completed"
	RefreshPartial   = "partial" // some mailboxes were not read; if the listing was interrupted, no connection was changed
)

// RefreshResult is the result of Refresh.
type RefreshResult struct {
	IntegrationID string
	Provider      string
	integration.Tally

	Status string
}

// DisconnectResult is the result of Disconnect.
type DisconnectResult struct {
	IntegrationID string
	MailboxID     string
	// Removed is false if Disconnect found no account to remove.
	Removed bool
}

// now returns the time in the precision of the store.
func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Microsecond) }

// newView returns the view of an integration. The view has no capabilities if they are unknown,
// because the platform's plugin has not described itself yet and does not start in time.
func (s *Service) newView(ctx context.Context, i integration.Integration) View {
	capabilities, err := s.capabilities(ctx, i)
	if err != nil {
		return View{Integration: i}
	}
	return View{i, capabilities}
}

func (s *Service) capabilities(ctx context.Context, i integration.Integration) (integration.Capabilities, error) {
	return s.Platforms.Capabilities(ctx, i.Provider, i.CredentialFields)
}

// List returns the account's integrations, newest first.
func (s *Service) List(ctx context.Context, owner access.AccountID) ([]View, error) {
	stored, err := s.Integrations.Integrations(ctx, owner)
	if err != nil {
		return nil, err
	}
	views := make([]View, 0, len(stored))
	for _, i := range stored {
		views = append(views, s.newView(ctx, i))
	}
	return views, nil
}

// Get returns a stored integration and the counts of its connections. It fails with
// integration_not_found.
func (s *Service) Get(ctx context.Context, owner access.AccountID, id string) (View, integration.Counts, error) {
	i, _, err := s.Integrations.Integration(ctx, owner, id)
	if err != nil {
		return View{}, integration.Counts{}, err
	}
	counts, err := s.Connections.ConnectionCounts(ctx, owner, id)
	return s.newView(ctx, i), counts, err
}

// Mailboxes returns the mailboxes that tenantry created, with their connections through the
// integration. It fails with integration_not_found.
func (s *Service) Mailboxes(ctx context.Context, owner access.AccountID, id string) ([]integration.EligibleMailbox, error) {
	return s.Connections.Eligible(ctx, owner, id)
}

// Delete deletes an integration with its credential and connections, so that its mailboxes can
// connect through other integrations. It does not call the platform. It returns the integration as
// it was before the deletion. It fails with integration_not_found or insufficient_scope.
func (s *Service) Delete(ctx context.Context, owner access.AccountID, id string, encoder ports.AnswerEncoder[integration.Integration]) (integration.Integration, error) {
	i, _, err := s.Integrations.Integration(ctx, owner, id)
	if err != nil {
		return integration.Integration{}, err
	}
	storedAnswer, err := encoder.Encode(i)
	if err != nil {
		return integration.Integration{}, err
	}
	if err := s.Integrations.RemoveIntegration(ctx, owner, id, storedAnswer); err != nil {
		return integration.Integration{}, err
	}
	return i, nil
}
