// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

// NewWebhook is the input of Create.
type NewWebhook struct {
	Account     access.AccountID
	URL         string
	Types       []event.Type  // empty for all types
	Tenants     []tenant.GUID // empty for all tenants
	Description string
}

// WebhookWithSecret is a webhook with its new secret, which is shown once.
type WebhookWithSecret struct {
	webhook.Webhook

	Secret secret.Text
}

// Create adds a webhook with a new secret. It fails with invalid_webhook_url,
// webhook_limit_reached, account_not_found or account_closed.
func (s *Service) Create(ctx context.Context, input NewWebhook, encoder ports.AnswerEncoder[WebhookWithSecret]) (WebhookWithSecret, error) {
	if err := s.Sender.CheckURL(ctx, input.URL); err != nil {
		return WebhookWithSecret{}, err
	}
	now := s.now()
	id, err := ident.NewFrom(s.Random, now)
	if err != nil {
		return WebhookWithSecret{}, err
	}
	text, sealedSecret, err := s.newSecret(input.Account, id)
	if err != nil {
		return WebhookWithSecret{}, err
	}
	created := WebhookWithSecret{webhook.Webhook{
		ID: id, Account: input.Account, URL: input.URL, Types: input.Types, Tenants: input.Tenants, Description: input.Description, Status: webhook.Enabled,
		Secrets: webhook.Secrets{Current: sealedSecret}, CreatedAt: now,
	}, text}
	storedAnswer, err := encoder.Encode(created)
	if err != nil {
		return WebhookWithSecret{}, err
	}
	return created, s.Webhooks.AddWebhook(ctx, created.Webhook, storedAnswer)
}

func (s *Service) newSecret(owner access.AccountID, id string) (text secret.Text, sealedSecret []byte, err error) {
	if text, err = webhook.NewSecret(s.Random); err != nil {
		return text, nil, err
	}
	sealedSecret, err = s.Sealer.Seal(text, associatedData(owner, id))
	return text, sealedSecret, err
}

// Change is the input of Update. A nil field does not change the webhook.
type Change struct {
	URL         *string
	Types       *[]event.Type
	Description *string
	Status      *webhook.Status
}

// Update changes a webhook. It fails with webhook_not_found, no_updates or invalid_webhook_url.
func (s *Service) Update(ctx context.Context, owner access.AccountID, id string, c Change) (webhook.Webhook, error) {
	if _, err := s.Webhooks.Webhook(ctx, owner, id); err != nil {
		return webhook.Webhook{}, err
	}
	if c == (Change{}) {
		return webhook.Webhook{}, fault.NoUpdates.With("the body names no member that can be changed")
	}
	if c.URL != nil {
		if err := s.Sender.CheckURL(ctx, *c.URL); err != nil {
			return webhook.Webhook{}, err
		}
	}
	return s.Webhooks.ChangeWebhook(ctx, owner, id, webhook.ReasonRequested, nil, func(w *webhook.Webhook) {
		set(&w.URL, c.URL)
		set(&w.Types, c.Types)
		set(&w.Description, c.Description)
		set(&w.Status, c.Status)
	})
}

// set sets *field to *newValue, if newValue is not nil.
func set[T any](field *T, newValue *T) {
	if newValue != nil {
		*field = *newValue
	}
}

// Delete deletes a webhook with its deliveries, and returns the deleted webhook. It fails with
// webhook_not_found.
func (s *Service) Delete(ctx context.Context, owner access.AccountID, id string, encoder ports.AnswerEncoder[webhook.Webhook]) (webhook.Webhook, error) {
	w, err := s.Webhooks.Webhook(ctx, owner, id)
	if err != nil {
		return w, err
	}
	storedAnswer, err := encoder.Encode(w)
	if err != nil {
		return w, err
	}
	return w, s.Webhooks.RemoveWebhook(ctx, owner, id, storedAnswer)
}

// RotateSecret replaces the secret of a webhook. Until the overlap has passed, messages are signed
// with both secrets. RotateSecret fails with webhook_not_found.
func (s *Service) RotateSecret(ctx context.Context, owner access.AccountID, id string, overlap time.Duration, encoder ports.AnswerEncoder[WebhookWithSecret]) (WebhookWithSecret, error) {
	w, err := s.Webhooks.Webhook(ctx, owner, id)
	if err != nil {
		return WebhookWithSecret{}, err
	}
	text, sealedSecret, err := s.newSecret(owner, id)
	if err != nil {
		return WebhookWithSecret{}, err
	}
	now := s.now()
	rotate := func(w *webhook.Webhook) { w.Secrets = w.Secrets.Rotate(sealedSecret, overlap, now) }
	rotate(&w)
	rotated := WebhookWithSecret{w, text}
	storedAnswer, err := encoder.Encode(rotated)
	if err != nil {
		return WebhookWithSecret{}, err
	}
	// ChangeWebhook returns the stored webhook, in which a concurrent request may have changed
	// other fields. RotateSecret must return what storedAnswer contains.
	_, err = s.Webhooks.ChangeWebhook(ctx, owner, id, webhook.ReasonRequested, storedAnswer, rotate)
	return rotated, err
}

// TestResult is the result of Test.
type TestResult struct {
	Status  webhook.DeliveryStatus
	Attempt webhook.Attempt
}

// Test sends an event of webhook.TestType once and waits for the result. The status of the result
// is webhook.Failed if the endpoint does not accept the event. It is also webhook.Failed, and
// nothing is sent, if webhook.MaxConcurrent deliveries to the endpoint are in progress. Test fails
// with webhook_not_found.
func (s *Service) Test(ctx context.Context, owner access.AccountID, id string) (TestResult, error) {
	now := s.now()
	d, claimed, err := s.Deliveries.ClaimTest(ctx, owner, id, deliveryLease, now)
	if err != nil {
		return TestResult{}, err
	}
	if !claimed {
		busyMessage := "other deliveries to this endpoint are in progress; test again when they have ended"
		return TestResult{webhook.Failed, webhook.Attempt{At: now, Error: busyMessage}}, nil
	}
	// The try has its own deadline and continues if the caller closes the connection.
	tried, err := s.Tries.Try(context.WithoutCancel(ctx), d)
	if err != nil {
		return TestResult{}, err
	}
	if tried.HasDue { // deliveries could not be claimed during the test, which used a try of the endpoint
		if err := s.Queue.Wake(context.WithoutCancel(ctx), wakeup(owner, id)); err != nil {
			return TestResult{}, err
		}
	}
	attempts := tried.Delivery.Attempts
	return TestResult{tried.Delivery.Status, attempts[len(attempts)-1]}, nil
}

// Redeliver makes a delivery due at once, and allows the full number of tries again. It fails with
// webhook_not_found or webhook_delivery_not_found.
func (s *Service) Redeliver(ctx context.Context, owner access.AccountID, id, deliveryID string) (webhook.Delivery, error) {
	d, err := s.Deliveries.Redeliver(ctx, owner, id, deliveryID, s.now())
	if err != nil {
		return d, err
	}
	return d, s.Queue.Wake(ctx, wakeup(owner, id))
}

// Replay makes the worker send the events of the log to a webhook again: the events after a cursor,
// or the events from a time on. Replay fails with webhook_not_found, cursor_expired or
// invalid_request.
func (s *Service) Replay(ctx context.Context, owner access.AccountID, id string, from ports.ReplayFrom) error {
	return s.Webhooks.Replay(ctx, owner, id, from)
}
