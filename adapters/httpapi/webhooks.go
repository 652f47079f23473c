// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/adapters/httpapi/refusal"
	"github.com/tenantry/tenantry/app/webhooks"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

type webhookPath struct {
	WebhookID string `path:"webhook_id"`
}

type deliveryPath struct {
	WebhookID  string `path:"webhook_id"`
	DeliveryID string `path:"delivery_id"`
}

func registerWebhookOperations(api huma.API, service *webhooks.Service) {
	registerCreateWebhook(api, service)
	registerListWebhooks(api, service)
	registerGetWebhook(api, service)
	registerUpdateWebhook(api, service)
	registerDeleteWebhook(api, service)
	registerRotateWebhookSecret(api, service)
	registerTestWebhook(api, service)
	registerListDeliveries(api, service)
	registerRedeliver(api, service)
	registerReplayEvents(api, service)
}

type createWebhookInput struct {
	Body createWebhook
}

// createWebhook is the body of create-webhook. The URL has no schema rules, because an invalid URL
// has its own error code.
type createWebhook struct {
	URL         string   `json:"url" doc:"Where the events are sent: an https URL without user name and password, whose host resolves to public addresses only."`
	EventTypes  []string `json:"event_types" minItems:"1" maxItems:"100" doc:"The types of events to send, or [\"*\"] for all types."`
	Description *string  `json:"description,omitempty" maxLength:"256" doc:"A note of your choice."`
}

func registerCreateWebhook(api huma.API, service *webhooks.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "create-webhook", Method: http.MethodPost, Path: "/v1/webhooks", Tags: []string{tagWebhooks},
		Summary: "Add a webhook",
		Description: "Sends the account's events to a URL from now on. The response contains the secret that signs the messages. It is stored " +
			"encrypted and never shown again. The guide about webhooks shows how to check a signature. An account can have 10 webhooks.",
		Metadata: guard.OperationRules{Bucket: guard.Writes, Scope: access.WebhooksWrite, Write: true, Creates: event.Webhook, RequestExample: exampleCreateWebhook, AnswerExample: exampleWebhookWithSecret,
			Refuses: specificCodes(fault.InvalidWebhookURL, fault.WebhookLimitReached)}.Metadata(),
	}, withSecretOf, func(ctx context.Context, caller access.Caller, in *createWebhookInput, encoder ports.AnswerEncoder[webhooks.WebhookWithSecret]) (webhooks.WebhookWithSecret, error) {
		types, err := webhook.ParseTypes(in.Body.EventTypes)
		if err != nil {
			return webhooks.WebhookWithSecret{}, err
		}
		// If the API key is limited to some tenants, the new webhook is limited to the same
		// tenants.
		requested := webhooks.NewWebhook{Account: caller.Account.ID, URL: in.Body.URL, Types: types, Tenants: caller.Bounds.Tenants}
		if in.Body.Description != nil {
			requested.Description = *in.Body.Description
		}
		return service.Create(ctx, requested, encoder)
	})
}

func registerListWebhooks(api huma.API, service *webhooks.Service) {
	register(api, huma.Operation{
		OperationID: "list-webhooks", Method: http.MethodGet, Path: "/v1/webhooks", Tags: []string{tagWebhooks},
		Summary:     "List webhooks",
		Description: "Lists the account's webhooks, newest first.",
		Metadata:    guard.OperationRules{Bucket: guard.Reads, Scope: access.WebhooksRead, AnswerExample: exampleWebhookList, Refuses: specificCodes(fault.InvalidRequest)}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, in *pageInput) (webhookList, error) {
		q, err := in.query(webhookListName)
		if err != nil {
			return webhookList{}, err
		}
		list, more, err := service.List(ctx, caller.Account.ID, string(q.After), q.Limit)
		if err != nil {
			return webhookList{}, err
		}
		return webhookList{Webhooks: convertAll(list, webhookOf), NextCursor: nextCursor(webhookListName, list, more, func(w webhook.Webhook) string { return w.ID })}, nil
	})
}

func registerGetWebhook(api huma.API, service *webhooks.Service) {
	registerConverting(api, huma.Operation{
		OperationID: "get-webhook", Method: http.MethodGet, Path: "/v1/webhooks/{webhook_id}", Tags: []string{tagWebhooks},
		Summary:     "Get a webhook",
		Description: "Returns a webhook, without its secret.",
		Metadata:    guard.OperationRules{Bucket: guard.Reads, Scope: access.WebhooksRead, AnswerExample: exampleWebhook, Refuses: specificCodes(fault.WebhookNotFound)}.Metadata(),
	}, webhookOf, func(ctx context.Context, caller access.Caller, in *webhookPath) (webhook.Webhook, error) {
		return service.Get(ctx, caller.Account.ID, ident.ParseOrZero(in.WebhookID))
	})
}

type updateWebhookInput struct {
	WebhookID string `path:"webhook_id"`
	Body      updateWebhook
}

func registerUpdateWebhook(api huma.API, service *webhooks.Service) {
	registerConverting(api, huma.Operation{
		OperationID: "update-webhook", Method: http.MethodPatch, Path: "/v1/webhooks/{webhook_id}", Tags: []string{tagWebhooks},
		Summary: "Change a webhook",
		Description: "Changes the URL, the types of events or the description, or disables and enables the webhook. Disabling it ends its pending " +
			"deliveries as failed. A webhook that is enabled again gets the events from then on. Use a replay to get the earlier ones.",
		Metadata: guard.OperationRules{Bucket: guard.Writes, Scope: access.WebhooksWrite, Write: true, RequestExample: exampleUpdateWebhook, AnswerExample: exampleWebhook,
			Refuses: specificCodes(fault.NoUpdates, fault.InvalidWebhookURL, fault.WebhookNotFound)}.Metadata(),
		SkipValidateBody: true, // updateWebhook.change validates the body
	}, webhookOf, func(ctx context.Context, caller access.Caller, in *updateWebhookInput) (webhook.Webhook, error) {
		change, err := in.Body.change()
		if err != nil {
			return webhook.Webhook{}, err
		}
		return service.Update(ctx, caller.Account.ID, ident.ParseOrZero(in.WebhookID), change)
	})
}

func registerDeleteWebhook(api huma.API, service *webhooks.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "delete-webhook", Method: http.MethodDelete, Path: "/v1/webhooks/{webhook_id}", Tags: []string{tagWebhooks},
		Summary:     "Delete a webhook",
		Description: "Deletes a webhook with its secret and its deliveries. A message that is being sent may still arrive.",
		Metadata:    guard.OperationRules{Bucket: guard.Writes, Scope: access.WebhooksWrite, Write: true, AnswerExample: exampleDeletedWebhook, Refuses: specificCodes(fault.WebhookNotFound)}.Metadata(),
	}, deletedWebhookOf, func(ctx context.Context, caller access.Caller, in *webhookPath, encoder ports.AnswerEncoder[webhook.Webhook]) (webhook.Webhook, error) {
		return service.Delete(ctx, caller.Account.ID, ident.ParseOrZero(in.WebhookID), encoder)
	})
}

type rotateWebhookSecretInput struct {
	WebhookID string `path:"webhook_id"`
	Body      *rotateWebhook
}

type rotateWebhook struct {
	OverlapHours *int `json:"overlap_hours,omitempty" minimum:"0" maximum:"72" default:"24" doc:"For how many hours the previous secret also signs the messages."`
}

func registerRotateWebhookSecret(api huma.API, service *webhooks.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "rotate-webhook-secret", Method: http.MethodPost, Path: "/v1/webhooks/{webhook_id}/rotate-secret", Tags: []string{tagWebhooks},
		Summary: "Rotate a webhook's secret",
		Description: "Creates a new secret, which is shown once. Until the overlap has passed, each message has two signatures: one with the new and one with " +
			"the previous secret. Without a body the overlap is 24 hours.",
		Metadata: guard.OperationRules{Bucket: guard.Writes, Scope: access.WebhooksWrite, Write: true, RequestExample: exampleRotateWebhook, AnswerExample: exampleRotatedWebhook,
			Refuses: specificCodes(fault.WebhookNotFound)}.Metadata(),
	}, rotatedWebhookOf, func(ctx context.Context, caller access.Caller, in *rotateWebhookSecretInput, encoder ports.AnswerEncoder[webhooks.WebhookWithSecret]) (webhooks.WebhookWithSecret, error) {
		overlap := webhook.DefaultOverlap
		if in.Body != nil && in.Body.OverlapHours != nil {
			overlap = time.Duration(*in.Body.OverlapHours) * time.Hour
		}
		return service.RotateSecret(ctx, caller.Account.ID, ident.ParseOrZero(in.WebhookID), overlap, encoder)
	})
}

func registerTestWebhook(api huma.API, service *webhooks.Service) {
	registerConverting(api, huma.Operation{
		OperationID: "test-webhook", Method: http.MethodPost, Path: "/v1/webhooks/{webhook_id}/test", Tags: []string{tagWebhooks},
		Summary: "Test a webhook",
		Description: "Sends an event of the type `webhook.test` now, once, and waits up to 15 seconds for the result. The test is also in the list of " +
			"deliveries. If 4 deliveries of the webhook are already in progress, nothing is sent and the test fails. A disabled webhook can be tested too.",
		Metadata: guard.OperationRules{Bucket: guard.Writes, Scope: access.WebhooksWrite, Write: true, AnswerExample: exampleTestedWebhook, Refuses: specificCodes(fault.WebhookNotFound)}.Metadata(),
	}, testedWebhookOf, func(ctx context.Context, caller access.Caller, in *webhookPath) (webhooks.TestResult, error) {
		return service.Test(ctx, caller.Account.ID, ident.ParseOrZero(in.WebhookID))
	})
}

type deliveriesInput struct {
	WebhookID string `path:"webhook_id"`
	Status    string `query:"status"`
	Limit     string `query:"limit"`
	After     string `query:"after"`
}

func registerListDeliveries(api huma.API, service *webhooks.Service) {
	register(api, huma.Operation{
		OperationID: "list-webhook-deliveries", Method: http.MethodGet, Path: "/v1/webhooks/{webhook_id}/deliveries", Tags: []string{tagWebhooks},
		Summary: "List deliveries",
		Description: "Lists the deliveries of a webhook with their tries, newest first. They are kept for 30 days, unless the operator chose another time. " +
			"The answers of endpoints are not stored, only their status.",
		Metadata: guard.OperationRules{Bucket: guard.Reads, Scope: access.WebhooksRead, AnswerExample: exampleDeliveryList, Refuses: specificCodes(fault.InvalidRequest, fault.WebhookNotFound, fault.CursorExpired)}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, in *deliveriesInput) (deliveryList, error) {
		q, err := in.query()
		if err != nil {
			return deliveryList{}, err
		}
		list, more, err := service.ListDeliveries(ctx, caller.Account.ID, ident.ParseOrZero(in.WebhookID), q)
		if err != nil {
			return deliveryList{}, refusal.InQuery(err)
		}
		return deliveryList{Deliveries: convertAll(list, deliveryOf), NextCursor: nextCursor(deliveryListName, list, more, func(d webhook.Delivery) string { return d.ID })}, nil
	})
}

func (in *deliveriesInput) query() (ports.DeliveryQuery, error) {
	pageQuery, err := (&pageInput{Limit: in.Limit, After: in.After}).query(deliveryListName)
	q := ports.DeliveryQuery{Status: webhook.DeliveryStatus(in.Status), Before: string(pageQuery.After), Limit: pageQuery.Limit}
	var parser queryParser
	if in.Status != "" && !q.Status.IsKnown() {
		parser.refuse("status", "must be pending, delivered or failed")
	}
	return q, cmp.Or(err, parser.err())
}

func registerRedeliver(api huma.API, service *webhooks.Service) {
	registerConverting(api, huma.Operation{
		OperationID: "redeliver-webhook-delivery", Method: http.MethodPost, Path: "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver", Tags: []string{tagWebhooks},
		Summary: "Send a delivery again",
		Description: "Makes a delivery pending again, with the full number of tries, and sends it soon. The message has the same `webhook-id` as before. A delivery of a " +
			"disabled webhook waits until the webhook is enabled.",
		Metadata: guard.OperationRules{Bucket: guard.Writes, Scope: access.WebhooksWrite, Write: true, AnswerExample: exampleDelivery, Refuses: specificCodes(fault.WebhookNotFound, fault.DeliveryNotFound)}.Metadata(),
	}, deliveryOf, func(ctx context.Context, caller access.Caller, in *deliveryPath) (webhook.Delivery, error) {
		return service.Redeliver(ctx, caller.Account.ID, ident.ParseOrZero(in.WebhookID), ident.ParseOrZero(in.DeliveryID))
	})
}

type replayInput struct {
	WebhookID string `path:"webhook_id"`
	Body      replayWebhook
}

type replayWebhook struct {
	After string `json:"after" minLength:"1" maxLength:"256" doc:"A cursor of GET /v1/events: the events after it are sent again. Or a time as in RFC 3339: the events at this time and later are sent again."`
}

func registerReplayEvents(api huma.API, service *webhooks.Service) {
	register(api, huma.Operation{
		OperationID: "replay-webhook", Method: http.MethodPost, Path: "/v1/webhooks/{webhook_id}/replay", Tags: []string{tagWebhooks},
		Summary: "Send past events again",
		Description: "Sends the events after a cursor, or from a time on, that match the filters of the webhook. They are new deliveries with the same " +
			"`webhook-id` as before. Events are kept for 30 days, unless the operator chose another time. A disabled webhook gets them only if it is enabled first.",
		Metadata: guard.OperationRules{Bucket: guard.Writes, Scope: access.WebhooksWrite, Write: true, RequestExample: exampleReplayWebhook, AnswerExample: exampleReplayedWebhook,
			Refuses: specificCodes(fault.WebhookNotFound, fault.CursorExpired)}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, in *replayInput) (replayedWebhook, error) {
		from, err := in.Body.replayStart()
		if err != nil {
			return replayedWebhook{}, err
		}
		id := ident.ParseOrZero(in.WebhookID)
		if err := service.Replay(ctx, caller.Account.ID, id, from); err != nil {
			return replayedWebhook{}, err
		}
		return replayedWebhook{Status: "queued", ID: id}, nil
	})
}

func (b replayWebhook) replayStart() (ports.ReplayFrom, error) {
	if at, err := parseTime(b.After); err == nil {
		return ports.ReplayFrom{At: at}, nil
	}
	sequence, err := decodeSequenceCursor(eventListName, b.After)
	if err != nil {
		return ports.ReplayFrom{}, refusal.Invalid("the position is not valid",
			refusal.ProblemField{Location: "body.after", Message: "must be a cursor of GET /v1/events or a time such as 2026-01-31T09:30:00Z"})
	}
	return ports.ReplayFrom{Sequence: sequence}, nil
}

// updateWebhook keeps the raw members of the body, because a body without a known member has its
// own error code.
type updateWebhook struct{ members map[string]json.RawMessage }

// UnmarshalJSON accepts any JSON value. The method change validates it.
func (b *updateWebhook) UnmarshalJSON(raw []byte) error {
	b.members = decodeObject(raw)
	return nil
}

// change returns the requested change, or invalid_request. It accepts an empty change. The use case
// refuses an empty change after it has checked that the account owns the webhook.
func (b updateWebhook) change() (webhooks.Change, error) {
	var changes webhooks.Change
	if b.members == nil {
		return changes, refusal.Invalid("the body is not an object", refusal.ProblemField{Location: "body", Message: "expected object"})
	}
	var types []string
	var status string
	var unknown, wrong []refusal.ProblemField
	for _, name := range slices.Sorted(maps.Keys(b.members)) {
		var ok bool
		switch raw := b.members[name]; name {
		case "url":
			ok = decodeNonNull(raw, &changes.URL)
		case "event_types":
			ok = json.Unmarshal(raw, &types) == nil
			changes.Types = new([]event.Type)
		case "description":
			changes.Description = new(string)
			ok = json.Unmarshal(raw, changes.Description) == nil && utf8.RuneCountInString(*changes.Description) <= webhook.MaxDescription
		case "status":
			ok = json.Unmarshal(raw, &status) == nil && (status == string(webhook.Enabled) || status == string(webhook.Disabled))
			changes.Status = pointerTo(webhook.Status(status))
		default:
			unknown = append(unknown, fieldOf(&huma.ErrorDetail{Location: "body." + name, Message: "unexpected property"}))
			continue
		}
		if !ok {
			wrong = append(wrong, refusal.ProblemField{Location: "body." + name, Message: invalidMemberMessages[name]})
		}
	}
	switch {
	case len(wrong) > 0:
		return changes, refusal.Invalid("a member is not valid", wrong...)
	case len(unknown) > 0 && len(unknown) < len(b.members):
		return changes, refusal.Invalid("the body has unknown members", unknown[:min(len(unknown), maxFields)]...)
	case changes.Types == nil:
		return changes, nil
	}
	var err error
	*changes.Types, err = webhook.ParseTypes(types)
	return changes, err
}

// invalidMemberMessages maps each member of updateWebhook to the message for an invalid value.
var invalidMemberMessages = map[string]string{
	"url": "expected string", "event_types": "expected array of strings",
	"description": "expected string of at most 256 characters or null", "status": "must be enabled or disabled",
}

// Schema documents the rules that change and the use case enforce.
func (updateWebhook) Schema(huma.Registry) *huma.Schema {
	minimumOne, maxLength := 1, webhook.MaxDescription
	return &huma.Schema{
		Type: huma.TypeObject, MinProperties: &minimumOne, AdditionalProperties: false,
		Description: "The members to change, at least one.",
		Properties: map[string]*huma.Schema{
			"url":         {Type: huma.TypeString, Description: "The new URL."},
			"event_types": {Type: huma.TypeArray, MinItems: &minimumOne, Items: &huma.Schema{Type: huma.TypeString}, Description: "The new types, or [\"*\"] for all types."},
			"description": {Type: huma.TypeString, Nullable: true, MaxLength: &maxLength, Description: "The new note, null to remove it."},
			"status":      {Type: huma.TypeString, Enum: []any{"enabled", "disabled"}, Description: "Whether the webhook gets events."},
		},
	}
}
