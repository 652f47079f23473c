// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/adapters/httpapi/openapi"
	"github.com/tenantry/tenantry/adapters/httpapi/refusal"
	"github.com/tenantry/tenantry/app/events"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/page"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const maxWaitSeconds = 30

// eventListName is the name that the cursors of the event list contain. endOfEvents is the cursor
// of the end of the event log.
const (
	eventListName = "events"
	endOfEvents   = "now"
)

type eventLogInput struct {
	Types       string `query:"types"`
	TenantID    string `query:"tenant_id"`
	After       string `query:"after"`
	Limit       string `query:"limit"`
	WaitSeconds string `query:"wait_seconds"`
}

type eventLog struct {
	Events     []loggedEvent `json:"events" doc:"In the order in which they happened, which is the same for every reader."`
	NextCursor string        `json:"next_cursor" doc:"The value of after for the next request. It is never null, because the log has no end."`
	HasMore    bool          `json:"has_more" doc:"Whether there were more events when the page was read."`
}

// loggedEvent is an event of the event log. Its schema lists the schemas of all event types as
// alternatives.
type loggedEvent struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	At       time.Time    `json:"at"`
	TenantID *string      `json:"tenant_id"`
	Subject  eventSubject `json:"subject"`
	Version  int64        `json:"version"`
	Data     any          `json:"data"`
}

type eventSubject struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

// Schema implements huma.SchemaProvider.
func (loggedEvent) Schema(r huma.Registry) *huma.Schema { return openapi.Event(r) }

func registerEventOperations(api huma.API, service *events.Service) {
	register(api, huma.Operation{
		OperationID: "list-events", Method: http.MethodGet, Path: "/v1/events", Tags: []string{tagEvents},
		Summary: "List events",
		Description: "Lists what changed, in the order in which it happened. Begin without `after` at the oldest event that is kept, " +
			"or with `after=now` at the end, and continue with `next_cursor`. A cursor never skips an event: each reader gets each event once, in the same order. " +
			"With `wait_seconds` the response waits until there is an event to return. You may change the filters at any cursor. The events of an object stay when the object is removed.",
		Metadata: guard.OperationRules{Bucket: guard.Reads, Scope: access.EventsRead, AnswerExample: exampleEventLog, Refuses: specificCodes(fault.InvalidRequest, fault.CursorExpired),
			WaitsIf: func(query url.Values) bool {
				wait, err := strconv.Atoi(query.Get("wait_seconds"))
				return err == nil && wait > 0
			}}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, in *eventLogInput) (eventLog, error) {
		q, wait, err := in.query(ctx)
		if err != nil {
			return eventLog{}, err
		}
		if in.After == endOfEvents {
			if q.After, err = service.LastPosition(ctx, caller.Account.ID); err != nil {
				return eventLog{}, err
			}
		}
		logPage, err := service.List(ctx, caller.Account.ID, q, wait, func(wait func()) error { return guard.WaitWithoutSlot(ctx, wait) })
		if err != nil {
			return eventLog{}, refusal.InQuery(err)
		}
		return eventLog{Events: convertAll(logPage.Events, loggedEventOf), NextCursor: sequenceCursor(eventListName, logPage.Next), HasMore: logPage.More}, nil
	})
}

// query converts the parameters to a query of the store, and returns the time to wait. A key that
// is limited to some tenants gets only the events of these tenants.
func (in *eventLogInput) query(ctx context.Context) (query ports.LogQuery, wait time.Duration, err error) {
	query = ports.LogQuery{After: ports.FromOldest, Limit: page.DefaultLimit}
	var parser queryParser
	if in.TenantID != "" {
		query.Tenants = []tenant.GUID{tenant.ParseGUIDOrNone(in.TenantID)}
	} else if visible, limited := ports.VisibleTenants(ctx); limited {
		query.Tenants = visible
	}
	if in.Types != "" {
		for name := range strings.SplitSeq(in.Types, ",") {
			query.Types = append(query.Types, event.Type(name))
		}
		slices.Sort(query.Types)
		query.Types = slices.Compact(query.Types)
		knownTypes := event.Types()
		if slices.ContainsFunc(query.Types, func(t event.Type) bool { return !slices.Contains(knownTypes, t) }) {
			parser.refuse("types", "must be types of events, separated by commas")
		}
	}
	if in.After != "" && in.After != endOfEvents {
		if query.After, err = decodeSequenceCursor(eventListName, in.After); err != nil {
			parser.refuse("after", "must be now, or the next_cursor of an earlier response")
		}
	}
	parser.integer("limit", in.Limit, 1, page.MaxLimit, &query.Limit)
	seconds := 0
	parser.integer("wait_seconds", in.WaitSeconds, 0, maxWaitSeconds, &seconds)
	return query, time.Duration(seconds) * time.Second, parser.err()
}

func loggedEventOf(e event.Event) loggedEvent {
	return loggedEvent{ID: e.ID, Type: string(e.Type), At: e.At.UTC(), TenantID: textOrNil(string(e.Tenant)),
		Subject: eventSubject{Type: string(e.Subject.Type), ID: e.Subject.ID}, Version: e.Version, Data: e.Data}
}

var exampleEventLog = eventLog{Events: []loggedEvent{{
	ID: "019a52d0-04e1-7e11-8a52-6d1f0b7c9008", Type: string(event.DomainVerified), At: exampleTime, TenantID: pointerTo(exampleTenantID),
	Subject: eventSubject{Type: string(event.Domain), ID: exampleDomainID}, Version: 2,
	Data: event.DomainData{TenantID: exampleTenantID, DomainID: exampleDomainID, Domain: exampleDomain, IsVerified: true, Drifted: []string{}},
}}, NextCursor: sequenceCursor(eventListName, 41)}
