// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/webhook"
)

// Webhooks stores the webhooks of accounts. Methods for one webhook fail with webhook_not_found if
// the account has no such webhook.
type Webhooks interface {
	// AddWebhook stores a new webhook and commits the stored answer with it. The webhook gets the
	// events that are logged from now on. AddWebhook fails with account_not_found or
	// account_closed. It fails with webhook_limit_reached if the account already has
	// webhook.MaxPerAccount webhooks.
	AddWebhook(ctx context.Context, w webhook.Webhook, storedAnswer *StoredAnswer) error
	// Webhooks lists at most limit webhooks of the owner, newest first. If before is not empty, it
	// lists only webhooks that are older than the webhook with this id.
	Webhooks(ctx context.Context, owner access.AccountID, before string, limit int) ([]webhook.Webhook, error)
	Webhook(ctx context.Context, owner access.AccountID, id string) (webhook.Webhook, error)
	// ChangeWebhook applies change to the stored webhook, stores the result, and commits the stored
	// answer with it. It may call change more than once. If change enables the webhook, the webhook
	// gets the events that are logged from now on. If change disables it, its pending deliveries
	// fail, and the event webhook.disabled is logged with the reason.
	ChangeWebhook(ctx context.Context, owner access.AccountID, id string, reason webhook.Reason, storedAnswer *StoredAnswer,
		change func(*webhook.Webhook)) (webhook.Webhook, error)
	// RemoveWebhook deletes a webhook with its deliveries, and commits the stored answer with it.
	RemoveWebhook(ctx context.Context, owner access.AccountID, id string, storedAnswer *StoredAnswer) error
	// Replay moves the webhook back to the position in its account's log, so that all later events
	// are sent to the webhook again. If from.At is set, events that were deleted are skipped.
	// Otherwise Replay fails with cursor_expired if some of these events were deleted, and with
	// invalid_request if the position is after the end of the log.
	Replay(ctx context.Context, owner access.AccountID, id string, from ReplayFrom) error
	// DisableFailing disables at most limit webhooks, as ChangeWebhook does, and returns how many
	// it disabled. It selects webhooks of active accounts that have been failing at least since the
	// given time and have no pending delivery. A failing webhook with a pending delivery is
	// disabled by SaveDeliveries when the next try fails.
	DisableFailing(ctx context.Context, since time.Time, limit int) (int, error)
}

// ReplayFrom is a position in a log of events.
type ReplayFrom struct {
	// Sequence is the last event that is not repeated.
	Sequence int64
	// At is the time from which events are repeated. If At is not zero, Sequence is ignored.
	At time.Time
}

// Deliveries stores the deliveries of webhooks.
//
// Methods that claim deliveries take a lease on each of them. Leases use the database's clock. A
// claimed delivery has a new Epoch, and only its claimer can store the result.
type Deliveries interface {
	// AccountsWithNewEvents lists at most limit active accounts, in random order, whose log has
	// events after the position of an enabled webhook.
	AccountsWithNewEvents(ctx context.Context, limit int) ([]access.AccountID, error)
	// FanOut adds deliveries to the enabled webhooks of the accounts. For each webhook it reads at
	// most limit events after the position of the webhook, and adds a delivery for each event that
	// the webhook wants. It raises the positions in the same transaction. It claims the new
	// deliveries as far as Standing.MaxParallel and the slots allow.
	FanOut(ctx context.Context, owners []access.AccountID, limit int, slots Slots, lease time.Duration, now time.Time) (FanOutResult, error)

	// ClaimDeliveries claims due deliveries of the webhooks, as far as Standing.MaxParallel and the
	// slots allow, in one transaction. It skips webhooks that are disabled or deleted, and those of
	// inactive accounts.
	ClaimDeliveries(ctx context.Context, webhooks []DueWebhook, slots Slots, lease time.Duration, now time.Time) (ClaimResult, error)
	// ClaimTest adds a delivery of webhook.TestType and claims it. claimed is false, and nothing is
	// stored, if the webhook already has webhook.MaxConcurrent claimed deliveries.
	ClaimTest(ctx context.Context, owner access.AccountID, webhookID string, lease time.Duration, now time.Time) (d ClaimedDelivery, claimed bool, err error)
	// SaveDeliveries stores claimed deliveries after their tries and ends their leases, in one
	// transaction. It also updates the webhooks with the results of the messages that were sent, as
	// Webhook.AfterTry says. It returns the results in the order of tried.
	SaveDeliveries(ctx context.Context, tried []TriedDelivery, now time.Time) ([]SavedDelivery, error)
	// ReleaseDelivery ends the lease of a claimed delivery that was not tried.
	ReleaseDelivery(ctx context.Context, owner access.AccountID, d webhook.Delivery) error

	// ListDeliveries returns deliveries of a webhook. It fails with webhook_not_found, with
	// cursor_expired if the delivery q.Before was deleted, and with invalid_request if that
	// delivery belongs to a different webhook.
	ListDeliveries(ctx context.Context, owner access.AccountID, webhookID string, q DeliveryQuery) ([]webhook.Delivery, error)
	// Redeliver makes a delivery pending and due at now, with all tries left. The result of a try
	// in progress counts as one of these tries. Redeliver fails with webhook_not_found or
	// webhook_delivery_not_found.
	Redeliver(ctx context.Context, owner access.AccountID, webhookID, id string, now time.Time) (webhook.Delivery, error)

	// DueWebhooks lists at most limit enabled webhooks with a due delivery that is not claimed, of
	// all active accounts, in random order.
	DueWebhooks(ctx context.Context, now time.Time, limit int) ([]DueWebhook, error)
	// DropDeliveries deletes at most limit deliveries that were created before the given time. It
	// returns how many it deleted.
	DropDeliveries(ctx context.Context, before time.Time, limit int) (int, error)
}

// Slots limit how many deliveries are claimed. Total is the number of free slots.
type Slots struct {
	Total int
	// Unproven is how many of the free slots unproven and failing webhooks together can take.
	// Failing is how many of the free slots failing webhooks can take.
	Unproven, Failing int
	// Responsiveness returns what the claimer has seen of a webhook's endpoint.
	Responsiveness func(webhookID string) webhook.Responsiveness
}

// Standing returns the standing of a webhook, from what the claimer has seen of its endpoint.
func (s *Slots) Standing(w webhook.Webhook) webhook.Standing {
	return w.Standing(s.Responsiveness(w.ID))
}

// Take takes a slot for a delivery of a webhook with this standing. It returns false if no slot is
// free for this standing.
func (s *Slots) Take(standing webhook.Standing) bool {
	if s.Total == 0 || standing != webhook.Proven && s.Unproven == 0 || standing == webhook.Failing && s.Failing == 0 {
		return false
	}
	s.Total--
	if standing != webhook.Proven {
		s.Unproven--
	}
	if standing == webhook.Failing {
		s.Failing--
	}
	return true
}

// FanOutResult is what FanOut did.
type FanOutResult struct {
	Claimed []ClaimedDelivery
	// Waiting are the webhooks with new deliveries that must be claimed later: no slot was free, or
	// the webhook had claimed deliveries, whose end may already have been stored.
	Waiting []DueWebhook
	// More is true if the log has events after the new position of a webhook.
	More bool
}

// ClaimResult is what ClaimDeliveries did.
type ClaimResult struct {
	Deliveries []ClaimedDelivery
	// Waiting are the webhooks with due deliveries for which no slot was free, and the webhooks
	// that another transaction has locked.
	Waiting []DueWebhook
	// Next has the time of the next try of each webhook with a delivery that is not due yet.
	Next map[DueWebhook]time.Time
}

// ClaimedDelivery is a delivery with its webhook and its event.
type ClaimedDelivery struct {
	webhook.Delivery

	Webhook webhook.Webhook
	// Standing is the standing for which the claim took a slot.
	Standing webhook.Standing
	// Event is nil if the event was deleted.
	Event *event.Event
}

// TriedDelivery is a claimed delivery after a try.
type TriedDelivery struct {
	webhook.Delivery

	Account access.AccountID
	// Gone is true if the endpoint wants no more messages.
	Gone bool
	// NotSent is true if no message was sent, so the try says nothing about the endpoint.
	NotSent bool
}

// SavedDelivery is the result of storing a TriedDelivery.
type SavedDelivery struct {
	// Saved is false, and the delivery is unchanged, if the claim has ended in the meantime.
	Saved bool
	// HasDue is true if the webhook has due deliveries that are not claimed.
	HasDue bool
}

// DueWebhook identifies a webhook with pending deliveries.
type DueWebhook struct {
	Account access.AccountID
	ID      string
}

// DeliveryQuery selects deliveries of one webhook, newest first.
type DeliveryQuery struct {
	Status webhook.DeliveryStatus // empty selects all
	Before string                 // only deliveries older than the one with this id; empty selects all
	Limit  int
}

// WebhookHealth counts the webhooks of all accounts.
type WebhookHealth struct {
	Enabled, Disabled int
	// Failing is the number of enabled webhooks for which Webhook.IsFailing returns true.
	Failing int
	// Pending is the number of pending deliveries to the enabled webhooks of active accounts.
	Pending int
	// OldestDue is when the first of the due deliveries in Pending became due. It ignores
	// deliveries to failing webhooks. It is zero if no delivery is due.
	OldestDue time.Time
}

// WebhookHealthReader returns figures for metrics.
type WebhookHealthReader interface {
	WebhookHealth(ctx context.Context, now time.Time) (WebhookHealth, error)
}

// WebhookSender sends messages to the endpoints of webhooks.
type WebhookSender interface {
	// CheckURL fails with invalid_webhook_url if messages may not be sent to the URL.
	CheckURL(ctx context.Context, url string) error
	// Send sends a message once. It follows no redirect and ignores the body of the answer.
	Send(ctx context.Context, m webhook.Message) webhook.Response
}
