// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/app/enforcement"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// The bounds of the parameters. Even a JSON parser that reads numbers as floating-point numbers
// represents maxOffset exactly.
const (
	defaultEventLimit = 50
	maxEventLimit     = 200
	maxOffset         = 1<<53 - 1
)

type enforcementEventsInput struct {
	TenantID string `query:"tenant_id"`
	Action   string `query:"action"`
	Limit    string `query:"limit"`
	Offset   string `query:"offset"`
}

type eventList struct {
	Events  []enforcementEvent `json:"events" doc:"Newest first."`
	Count   int                `json:"count" doc:"The number of events in this response."`
	Total   int                `json:"total" doc:"The number of events on all pages. A caller that has collected this many events has read the last page."`
	Limit   int                `json:"limit" doc:"The maximum number of events in the response."`
	Offset  int                `json:"offset" doc:"The number of newer events that were skipped."`
	Filters eventFilters       `json:"filters" doc:"The filters of the request."`
}

type eventFilters struct {
	TenantID *string `json:"tenant_id" doc:"The tenant's GUID, null for all."`
	Action   *string `json:"action" enum:"blocked,unblocked" doc:"The action, null for both."`
}

type enforcementEvent struct {
	ID             string    `json:"id" format:"uuid" doc:"The event's id."`
	TenantID       string    `json:"tenant_id" format:"uuid" doc:"The tenant's GUID. Events stay when the tenant is deleted."`
	MailboxAddress string    `json:"mailbox_address" doc:"The mailbox."`
	ActionTaken    string    `json:"action_taken" enum:"blocked,unblocked" doc:"What was done."`
	SentCount      int       `json:"sent_count" doc:"How many messages were counted when it was done."`
	LimitValue     int       `json:"limit_value" doc:"The limit that applied."`
	Message        string    `json:"message" doc:"The event as a sentence."`
	CreatedAt      time.Time `json:"created_at" doc:"When it was done."`
}

func registerEnforcementOperations(api huma.API, service *enforcement.Service) {
	register(api, huma.Operation{
		OperationID: "list-enforcement-events", Method: http.MethodGet, Path: "/v1/enforcement/events", Tags: []string{tagLimits},
		Summary: "List enforcement events",
		Description: "Lists what the enforcement of send limits did, newest first: which mailbox was blocked, and when it was unblocked. " +
			"`total` is exact, and any offset takes the same time.",
		Metadata: guard.OperationRules{Bucket: guard.Reads, Scope: access.LimitsRead, AnswerExample: exampleEventList, Refuses: specificCodes(fault.InvalidRequest, fault.TenantNotFound)}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, in *enforcementEventsInput) (eventList, error) {
		q, err := in.query()
		if err != nil {
			return eventList{}, err
		}
		page, err := service.List(ctx, caller.Account.ID, q)
		if err != nil {
			return eventList{}, err
		}
		events := convertAll(page.Events, enforcementEventOf)
		return eventList{Events: events, Count: len(events), Total: page.Total, Limit: q.Limit, Offset: q.Offset,
			Filters: eventFilters{TenantID: textOrNil(string(q.Tenant)), Action: textOrNil(string(q.Action))}}, nil
	})
}

func (in *enforcementEventsInput) query() (ports.EventQuery, error) {
	query := ports.EventQuery{Action: sendlimit.Action(in.Action), Limit: defaultEventLimit}
	if in.TenantID != "" {
		query.Tenant = tenant.GUID(ident.ParseOrZero(in.TenantID))
	}
	var parser queryParser
	if in.Action != "" && !query.Action.IsKnown() {
		parser.refuse("action", "must be blocked or unblocked")
	}
	parser.integer("limit", in.Limit, 1, maxEventLimit, &query.Limit)
	parser.integer("offset", in.Offset, 0, maxOffset, &query.Offset)
	return query, parser.err()
}

func enforcementEventOf(e sendlimit.Event) enforcementEvent {
	return enforcementEvent{ID: e.ID, TenantID: string(e.Tenant), MailboxAddress: e.Address, ActionTaken: string(e.Action),
		SentCount: e.Sent, LimitValue: e.Limit, Message: e.Message(), CreatedAt: e.At.UTC()}
}

var exampleEventList = eventList{Events: []enforcementEvent{{ID: "019a52d0-04e1-7e11-8a52-6d1f0b7c9007", TenantID: exampleTenantID,
	MailboxAddress: "ada@" + exampleDomain, ActionTaken: "blocked", SentCount: 26, LimitValue: 25, Message: "Mailbox blocked: sent 26, limit 25",
	CreatedAt: exampleTime}}, Count: 1, Total: 1, Limit: defaultEventLimit, Filters: eventFilters{Action: pointerTo("blocked")}}
