// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/webhook"
)

// Webhooks stores the webhooks of accounts. Methods that take the id of a webhook fail with
// webhook_not_found.
type Webhooks interface {
	// AddWebhook stores a new webhook and commits the completion with it. The webhook gets the
	// events that are logged from now on. It fails with webhook_limit_reached if the account has
	// webhook.MaxPerAccount.
	AddWebhook(ctx context.Context, w webhook.Webhook, completion *Completion) error
	// Webhooks lists at most limit webhooks of the owner, newest first, beginning with the one
	// before the id. An empty id begins with the newest.
	Webhooks(ctx context.Context, owner access.AccountID, before string, limit int) ([]webhook.Webhook, error)
	Webhook(ctx context.Context, owner access.AccountID, id string) (webhook.Webhook, error)
	// ChangeWebhook stores what change makes of the webhook, and commits the completion with it.
	// It may call change more than once. If the webhook gets enabled, it gets the events that are
	// logged from now on. If it gets disabled, its pending deliveries fail and the event
	// webhook.disabled is logged with the reason.
	ChangeWebhook(ctx context.Context, owner access.AccountID, id string, reason webhook.Reason, completion *Completion,
		change func(*webhook.Webhook)) (webhook.Webhook, error)
	// RemoveWebhook deletes a webhook with its deliveries, and commits the completion with it.
	RemoveWebhook(ctx context.Context, owner access.AccountID, id string, completion *Completion) error
	// Replay makes the webhook get the events of its account's log again that follow the position.
	// It fails with cursor_expired if some of them were deleted.
	Replay(ctx context.Context, owner access.AccountID, id string, from ReplayFrom) error
	// DisableFailing disables at most limit webhooks of active accounts that are failing since the
	// given time or longer and have no pending delivery, as ChangeWebhook does. It returns how many
	// it disabled. SaveDelivery disables those with pending deliveries when the next try fails.
	DisableFailing(ctx context.Context, since time.Time, limit int) (int, error)
}

// ReplayFrom is a position in a log of events.
type ReplayFrom struct {
	// Sequence is the last event that is not repeated.
	Sequence int64
	// At is the time from which on events are repeated. If it is not zero, Sequence is ignored.
	At time.Time
}

// Deliveries stores the deliveries of webhooks.
//
// Methods that claim deliveries lease them, by the database's clock. A claimed delivery has a new
// Epoch, and only its claimer can store the result.
type Deliveries interface {
	// AccountsBehind lists at most limit active accounts with an event in their log that the position
	// of an enabled webhook has not reached, in random order.
	AccountsBehind(ctx context.Context, limit int) ([]access.AccountID, error)
	// FanOut adds deliveries for at most limit events that follow the positions of the account's
	// enabled webhooks, and raises the positions, in one transaction. It returns the webhooks that
	// got deliveries, and whether more events follow.
	FanOut(ctx context.Context, owner access.AccountID, limit int, now time.Time) (webhooks []string, more bool, err error)

	// DueDeliveries tells how many deliveries of a webhook could be claimed.
	DueDeliveries(ctx context.Context, owner access.AccountID, webhookID string, now time.Time) (Due, error)
	// ClaimDeliveries claims at most limit due deliveries of an enabled webhook of an active
	// account. It claims fewer if the webhook would have more than Webhook.Concurrent claimed
	// deliveries. It claims none if there is no such webhook.
	ClaimDeliveries(ctx context.Context, owner access.AccountID, webhookID string, limit int, lease time.Duration, now time.Time) (webhook.Webhook, []ClaimedDelivery, error)
	// ClaimTest adds a delivery of webhook.TestType and claims it. claimed is false if the webhook
	// has webhook.MaxConcurrent claimed deliveries; nothing is stored then.
	ClaimTest(ctx context.Context, owner access.AccountID, webhookID string, lease time.Duration, now time.Time) (w webhook.Webhook, d ClaimedDelivery, claimed bool, err error)
	// SaveDelivery stores a claimed delivery after a try and ends its lease. The result of the try
	// also starts or ends FailingSince of the webhook. It disables the webhook if gone is true, or if
	// the webhook is failing for webhook.DisableAfter.
	// saved is false if a different claim has the delivery by now, or it is no longer pending; the
	// delivery is unchanged then.
	SaveDelivery(ctx context.Context, owner access.AccountID, d webhook.Delivery, gone bool) (saved bool, err error)
	// ReleaseDelivery ends the lease of a claimed delivery that was not tried.
	ReleaseDelivery(ctx context.Context, owner access.AccountID, d webhook.Delivery) error

	// ListDeliveries returns deliveries of a webhook. It fails with webhook_not_found.
	ListDeliveries(ctx context.Context, owner access.AccountID, webhookID string, q DeliveryQuery) ([]webhook.Delivery, error)
	// Redeliver makes a delivery pending and due at now, with all tries left. If a try is in
	// progress, its result counts. It fails with webhook_not_found and webhook_delivery_not_found.
	Redeliver(ctx context.Context, owner access.AccountID, webhookID, id string, now time.Time) (webhook.Delivery, error)

	// DueWebhooks lists at most limit webhooks with a due delivery that is not claimed, of all
	// active accounts, those that wait longest first.
	DueWebhooks(ctx context.Context, now time.Time, limit int) ([]DueWebhook, error)
	// DropDeliveries deletes at most limit deliveries that were created before the given time. It
	// returns how many it deleted.
	DropDeliveries(ctx context.Context, before time.Time, limit int) (int, error)
}

// Due describes the pending deliveries of a webhook that no claim has.
type Due struct {
	// Count is the number of due deliveries, at most webhook.MaxConcurrent.
	Count int
	// Next is the time of the first try that is not due yet, zero if none is known.
	Next time.Time
	// Failing is Webhook.Failing.
	Failing bool
}

// ClaimedDelivery is a delivery with its event.
type ClaimedDelivery struct {
	webhook.Delivery

	// Event is nil if the event was deleted.
	Event *event.Event
}

// DueWebhook is a webhook with due deliveries.
type DueWebhook struct {
	Account access.AccountID
	ID      string
}

// DeliveryQuery selects deliveries of one webhook, newest first.
type DeliveryQuery struct {
	Status webhook.DeliveryStatus // empty selects all
	Before string                 // the page begins with the delivery before this id; empty begins with the newest
	Limit  int
}

// WebhookHealth counts the webhooks of all accounts.
type WebhookHealth struct {
	Enabled, Disabled int
	// Failing is the number of enabled webhooks whose last tries failed.
	Failing int
	// Pending is the number of pending deliveries.
	Pending int
	// OldestDue is the time since which a delivery to a webhook that is not failing is due. It is
	// zero if none is due.
	OldestDue time.Time
}

// WebhookWatch returns figures for metrics.
type WebhookWatch interface {
	WebhookHealth(ctx context.Context, now time.Time) (WebhookHealth, error)
}

// WebhookSender sends messages to the endpoints of webhooks.
type WebhookSender interface {
	// CheckURL fails with invalid_webhook_url if messages may not be sent to the URL.
	CheckURL(ctx context.Context, url string) error
	// Send sends a message once. It follows no redirect and reads no answer.
	Send(ctx context.Context, m webhook.Message) webhook.Response
}
