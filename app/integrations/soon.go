// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/ports"
)

var soon = fault.ServiceUnavailable.With("not built yet")

// Begin begins a session.
func (s *Service) Begin(ctx context.Context, acc access.Account, id, mailboxID string) (Begun, error) {
	return Begun{}, soon
}

// Status tells how a session stands.
func (s *Service) Status(ctx context.Context, owner access.AccountID, id, mailboxID, sessionID string) (integration.Session, error) {
	return integration.Session{}, soon
}

// Refresh reads the listing.
func (s *Service) Refresh(ctx context.Context, owner access.AccountID, id string) (Refreshed, error) {
	return Refreshed{}, soon
}

// Disconnect takes a mailbox out of the platform.
func (s *Service) Disconnect(ctx context.Context, owner access.AccountID, id, mailboxID string) (Disconnected, error) {
	return Disconnected{}, soon
}

// Handlers is the work that the queue wakes.
func (s *Service) Handlers() map[string]ports.Handler { return nil }

// Periodic is what happens by itself: every is how often sessions are swept,
// refreshed how old a refresh becomes.
func (s *Service) Periodic(every, refreshed time.Duration) []ports.Periodic { return nil }
