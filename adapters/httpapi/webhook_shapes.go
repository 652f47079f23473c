// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"time"

	"github.com/tenantry/tenantry/app/webhooks"
	"github.com/tenantry/tenantry/core/webhook"
)

// The names that the cursors of the webhook list and the delivery list contain.
const (
	webhookListName  = "webhooks"
	deliveryListName = "deliveries"
)

type webhookList struct {
	Webhooks   []WebhookEntry `json:"webhooks" doc:"The webhooks of the account, newest first."`
	NextCursor *string        `json:"next_cursor" doc:"The value of after for the next page, null at the end."`
}

// WebhookEntry is exported because huma documents only exported embedded types.
type WebhookEntry struct {
	ID          string    `json:"id" format:"uuid" doc:"The webhook's id; used in paths."`
	URL         string    `json:"url" format:"uri" doc:"Where the events are sent."`
	EventTypes  []string  `json:"event_types" doc:"The types of events that are sent, or [\"*\"] for all types."`
	Description *string   `json:"description" doc:"The note, null if there is none."`
	Status      string    `json:"status" enum:"enabled,disabled" doc:"disabled: no events are sent. The service disables a webhook whose endpoint answers 410, or to which deliveries have failed for five days."`
	CreatedAt   time.Time `json:"created_at" doc:"When it was added."`
}

type webhookWithSecret struct {
	WebhookEntry

	Secret string `json:"secret" doc:"The secret that signs the messages: whsec_ and 32 bytes in base64. It is shown only here."`
}

type rotatedWebhook struct {
	WebhookEntry

	Secret                  string     `json:"secret" doc:"The new secret. It is shown only here."`
	PreviousSecretExpiresAt *time.Time `json:"previous_secret_expires_at" doc:"Until when the previous secret also signs the messages, null if it does not."`
}

type deletedWebhook struct {
	Status  string `json:"status" enum:"deleted" doc:"Always deleted."`
	ID      string `json:"id" format:"uuid" doc:"The webhook."`
	Message string `json:"message" doc:"What was removed."`
}

type testedWebhook struct {
	Status     string  `json:"status" enum:"delivered,failed" doc:"delivered: the endpoint answered with a 2xx status."`
	StatusCode *int    `json:"status_code" doc:"The status of the endpoint's answer, null without an answer."`
	Error      *string `json:"error" doc:"Why the test failed, null if it was delivered."`
	DurationMS int64   `json:"duration_ms" doc:"How long the test took, in milliseconds."`
}

type deliveryList struct {
	Deliveries []delivery `json:"deliveries" doc:"The deliveries, newest first."`
	NextCursor *string    `json:"next_cursor" doc:"The value of after for the next page, null at the end."`
}

type delivery struct {
	ID            string            `json:"id" format:"uuid" doc:"The delivery's id; used in paths."`
	EventID       string            `json:"event_id" format:"uuid" doc:"The event's id, which is also the webhook-id of the message."`
	EventType     string            `json:"event_type" doc:"The event's type."`
	Status        string            `json:"status" enum:"pending,delivered,failed" doc:"pending: the delivery will be tried, or tried again. failed: it will not be tried again."`
	Attempts      []deliveryAttempt `json:"attempts" doc:"The tries, oldest first; at most the last 50."`
	NextAttemptAt *time.Time        `json:"next_attempt_at" doc:"When a pending delivery is tried again, null otherwise."`
}

type deliveryAttempt struct {
	At         time.Time `json:"at" doc:"When the try began."`
	StatusCode *int      `json:"status_code" doc:"The status of the endpoint's answer, null without an answer."`
	Error      *string   `json:"error" doc:"Why the try failed, null if it succeeded."`
	DurationMS int64     `json:"duration_ms" doc:"How long the try took, in milliseconds."`
}

type replayedWebhook struct {
	Status string `json:"status" enum:"queued" doc:"Always queued."`
	ID     string `json:"id" format:"uuid" doc:"The webhook."`
}

func webhookOf(w webhook.Webhook) WebhookEntry {
	return WebhookEntry{ID: w.ID, URL: w.URL, EventTypes: w.TypeNames(), Description: textOrNil(w.Description), Status: string(w.Status),
		CreatedAt: w.CreatedAt.UTC()}
}

func withSecretOf(w webhooks.WebhookWithSecret) webhookWithSecret {
	return webhookWithSecret{WebhookEntry: webhookOf(w.Webhook), Secret: w.Secret.Reveal()}
}

func rotatedWebhookOf(w webhooks.WebhookWithSecret) rotatedWebhook {
	return rotatedWebhook{WebhookEntry: webhookOf(w.Webhook), Secret: w.Secret.Reveal(), PreviousSecretExpiresAt: timeOrNil(w.Secrets.PreviousUntil)}
}

func deletedWebhookOf(w webhook.Webhook) deletedWebhook {
	return deletedWebhook{Status: "deleted", ID: w.ID, Message: "The webhook, its secret and its deliveries were removed."}
}

func testedWebhookOf(t webhooks.TestResult) testedWebhook {
	a := attemptOf(t.Attempt)
	return testedWebhook{Status: string(t.Status), StatusCode: a.StatusCode, Error: a.Error, DurationMS: a.DurationMS}
}

func deliveryOf(d webhook.Delivery) delivery {
	converted := delivery{ID: d.ID, EventID: d.EventID, EventType: string(d.EventType), Status: string(d.Status), Attempts: convertAll(d.Attempts, attemptOf)}
	if d.Status == webhook.Pending {
		converted.NextAttemptAt = timeOrNil(d.NextAttemptAt)
	}
	return converted
}

func attemptOf(a webhook.Attempt) deliveryAttempt {
	converted := deliveryAttempt{At: a.At.UTC(), Error: textOrNil(a.Error), DurationMS: a.Duration.Milliseconds()}
	if a.StatusCode != 0 {
		converted.StatusCode = &a.StatusCode
	}
	return converted
}
