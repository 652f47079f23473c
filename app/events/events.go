// SPDX-License-Identifier: Apache-2.0

// Package events reads the accounts' logs of events, waits for new events, and deletes old ones.
//
// Start reading at Service.List. watch.go wakes the callers that wait.
package events

import (
	"context"
	"log/slog"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/ports"
)

// Service has the use cases of the logs of events.
type Service struct {
	Events ports.EventLogs
	// Retention is the minimum time for which events are kept. Zero keeps them forever.
	Retention time.Duration
	Now       func() time.Time
	Log       *slog.Logger

	watch watch
}

// List returns a page of the account's log. If the page is empty, List waits until the log has an
// event for the page. After the duration wait, or when the service stops, List returns the empty
// page. List passes each wait to idle as a function, which idle must call. Before this call, idle
// can release resources that other requests need. After it, idle can acquire the resources again,
// and check that the caller may still read the log. List fails with cursor_expired, invalid_request
// or the error of idle.
func (s *Service) List(ctx context.Context, owner access.AccountID, q ports.LogQuery, wait time.Duration, idle func(wait func()) error) (ports.LogPage, error) {
	page, err := s.Events.LoggedEvents(ctx, owner, q)
	if err != nil || wait == 0 {
		return page, err
	}
	waitCtx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for woken := true; len(page.Events) == 0 && woken; {
		if err := idle(func() { woken = s.waitForEvent(waitCtx, owner, page.Next) }); err != nil {
			return ports.LogPage{}, err
		}
		q.After = page.Next
		if page, err = s.Events.LoggedEvents(ctx, owner, q); err != nil {
			return ports.LogPage{}, err
		}
	}
	return page, nil
}

// LastPosition returns the position of the last event of the account's log, or 0 if the log is
// empty.
func (s *Service) LastPosition(ctx context.Context, owner access.AccountID) (int64, error) {
	last, err := s.Events.LastEvents(ctx, owner)
	return last[owner], err
}

// DeleteOldEvents deletes the events of the UTC days that ended at least Retention ago.
func (s *Service) DeleteOldEvents(ctx context.Context) error {
	if s.Retention <= 0 {
		return nil
	}
	_, err := s.Events.DropEvents(ctx, s.Now().Add(-s.Retention))
	return err
}
