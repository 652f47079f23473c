// SPDX-License-Identifier: Apache-2.0

// Package enforcement counts the messages that each tenant's mailboxes sent, and has the mail
// platform block the mailboxes that exceed their daily limit. It also lists the recorded
// enforcement events and deletes old ones.
//
// Runner makes passes. One pass evaluates one tenant: it reads the message trace, stores the
// counts, decides which mailboxes to block, and updates the managed transport rules. Before a pass
// changes a rule, it stores the planned blocks and unblocks as intents. After a crash, the next
// pass finds out which intents took effect and records them. Limits are enforced with a delay: a
// mailbox can exceed its limit before it is blocked.
//
// Start reading at Runner.Run.
//
//   - run.go: Runner, one pass, its lease and its calls to the mail platform
//   - count.go: reads the trace and stores counts
//   - enforce.go: decides which mailboxes to block, and stores the intents and the changes
//   - rules.go: reads and sets the transport rules, and excludes missing mailboxes
//   - schedule.go: the sweep that finds due tenants, and the wake-up handler
//   - enforcement.go: Service, the use cases of enforcement events
package enforcement

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/ports"
)

// Service has the use cases of enforcement events.
type Service struct {
	Events ports.EnforcementEvents
	// Retention is how long events are kept, in whole days. Zero keeps them forever.
	Retention time.Duration
	Now       func() time.Time
}

// List returns a page of the account's events. It fails with tenant_not_found when the query names
// a tenant that the account does not have.
func (s *Service) List(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	return s.Events.Events(ctx, owner, q)
}

// DeleteOldEvents deletes the events of the UTC days that ended at least Retention ago. It fails
// only when the store fails.
func (s *Service) DeleteOldEvents(ctx context.Context) error {
	if s.Retention <= 0 {
		return nil
	}
	_, err := s.Events.DeleteEvents(ctx, s.Now().Add(-s.Retention))
	return err
}
