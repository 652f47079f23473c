// SPDX-License-Identifier: Apache-2.0

// Package enforcement shows what the enforcement of send limits did, and
// forgets it when its time is over.
package enforcement

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/ports"
)

// Service holds the use cases of enforcement.
type Service struct {
	Events ports.EnforcementEvents
	// Keep is how long events are kept, in whole days; 0 is for ever.
	Keep time.Duration
	Now  func() time.Time
}

// List is a page of an account's events. Refusal: tenant_not_found.
func (s *Service) List(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	return s.Events.Events(ctx, owner, q)
}

// Forget drops the events that are older than is kept.
func (s *Service) Forget(ctx context.Context) error {
	if s.Keep == 0 {
		return nil
	}
	_, err := s.Events.DropEvents(ctx, s.Now().Add(-s.Keep))
	return err
}
