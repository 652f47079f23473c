// SPDX-License-Identifier: Apache-2.0

// Package webhooks delivers the events of accounts to the endpoints that the accounts chose.
//
// Service has the use cases of the API. Worker does the background work. Its fan-out reads the
// event logs and adds a delivery for each event whose type a webhook selects. Worker also sends the
// due deliveries. Tries sends a claimed delivery once and stores the result, for Service and
// Worker.
//
//   - webhooks.go: Service, and reading webhooks and deliveries. Start here.
//   - change.go: creates, changes, deletes and tests webhooks, rotates secrets, redelivers and
//     replays.
//   - tries.go: Tries.
//   - worker.go: Worker, which decides when each delivery is sent.
//   - slots.go: the limit of simultaneous tries of a Worker.
//   - fanout.go: the fan-out, and the periodic jobs.
package webhooks

import (
	"context"
	"io"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

// Service has the use cases of webhooks.
type Service struct {
	Webhooks   ports.Webhooks
	Deliveries ports.Deliveries
	Sender     ports.WebhookSender
	Sealer     ports.Sealer
	Tries      *Tries
	Queue      ports.Queue
	Random     io.Reader
	Now        func() time.Time
}

// now returns the time in the precision of the store.
func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Microsecond) }

// List returns at most limit webhooks of the account, newest first. If beforeID is not empty, the
// list has only webhooks that are older than the webhook with this id. more is true if older
// webhooks follow.
func (s *Service) List(ctx context.Context, owner access.AccountID, beforeID string, limit int) (list []webhook.Webhook, more bool, err error) {
	list, err = s.Webhooks.Webhooks(ctx, owner, beforeID, limit+1)
	return list[:min(limit, len(list))], len(list) > limit, err
}

// Get returns a webhook. It fails with webhook_not_found.
func (s *Service) Get(ctx context.Context, owner access.AccountID, id string) (webhook.Webhook, error) {
	return s.Webhooks.Webhook(ctx, owner, id)
}

// ListDeliveries returns deliveries of a webhook, newest first, at most q.Limit. more is true if
// older deliveries follow. ListDeliveries fails with webhook_not_found, cursor_expired or
// invalid_request.
func (s *Service) ListDeliveries(ctx context.Context, owner access.AccountID, id string, q ports.DeliveryQuery) (list []webhook.Delivery, more bool, err error) {
	limit := q.Limit
	q.Limit++
	list, err = s.Deliveries.ListDeliveries(ctx, owner, id, q)
	return list[:min(limit, len(list))], len(list) > limit, err
}

// associatedData returns the associated data of a sealed secret, which binds the secret to its
// webhook and account.
func associatedData(owner access.AccountID, id string) string {
	return "webhooks/" + string(owner) + "/" + id
}
