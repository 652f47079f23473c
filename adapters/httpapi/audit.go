// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/app/audits"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/page"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

type auditInput struct {
	Actor    string `query:"actor"`
	Action   string `query:"action"`
	TenantID string `query:"tenant_id"`
	From     string `query:"from"`
	To       string `query:"to"`
	After    string `query:"after"`
	Limit    string `query:"limit"`
}

type auditList struct {
	Entries    []auditEntry `json:"entries" doc:"Newest first."`
	NextCursor *string      `json:"next_cursor" doc:"The value of after for the next page, null at the end."`
}

// auditEntry has the JSON members of audit.Entry.Line.
type auditEntry struct {
	ID           string                 `json:"id" format:"uuid" doc:"The entry's id."`
	Sequence     int64                  `json:"sequence" minimum:"1" doc:"The position in the account's chain: 1, 2, 3 and so on without gaps."`
	At           time.Time              `json:"at" doc:"When the entry was written."`
	Actor        auditActor             `json:"actor" doc:"Who caused the entry."`
	Action       string                 `json:"action" doc:"The id of the operation. Actions that are not requests have names such as key.create (operators), connect.sign_in, connect.confirm (administrators) and audit.drop (the service)."`
	TenantID     *string                `json:"tenant_id" doc:"The GUID of the tenant that the entry concerns, null if it concerns none."`
	Subject      nullable[auditSubject] `json:"subject" doc:"The object of the action, null if there is none or more than one."`
	Outcome      auditOutcome           `json:"outcome" doc:"The result of the action."`
	RequestID    *string                `json:"request_id" doc:"The X-Request-ID of the request, null for actions of operators and of the service."`
	ClientIP     *string                `json:"client_ip" doc:"The address of the client, null for actions of operators and of the service."`
	PreviousHash string                 `json:"previous_hash" pattern:"^[0-9a-f]{64}$" doc:"The hash of the previous entry, 64 zeros for the first entry."`
	Hash         string                 `json:"hash" pattern:"^[0-9a-f]{64}$" doc:"The SHA-256 of the canonical JSON (RFC 8785) of the entry without this member."`
}

type auditActor struct {
	Type string `json:"type" enum:"key,member,operator,service" doc:"key: an API key. member: a person who signed in on the connect pages. operator: the operator of the service. service: the service itself."`
	ID   string `json:"id" doc:"The id of the key, the e-mail address of the person, the name of the operator, or the name of a task of the service."`
	Name string `json:"name" doc:"The name of the key, the e-mail address of the person, the name of the operator, or the name of the service."`
}

type auditSubject struct {
	Type string `json:"type" doc:"The kind of the object, such as domain."`
	ID   string `json:"id" doc:"The object's id. If the operation takes the name of a domain, it is that name."`
}

type auditOutcome struct {
	Status *int    `json:"status" doc:"The HTTP status of the answer; 200 for actions that are not requests. Null if the process ended before it answered."`
	Code   *string `json:"code" doc:"The error code of the answer, or outcome_unknown; null for a success."`
}

const auditPath = "/v1/audit"

// exportTimeLimit is the time limit of an export. The client must also receive each chunk of the
// export within sendTimeout of package guard.
const exportTimeLimit = 10 * time.Minute

func registerAuditOperations(api huma.API, service *audits.Service) {
	register(api, huma.Operation{
		OperationID: "list-audit-entries", Method: http.MethodGet, Path: auditPath, Tags: []string{tagAudit},
		Summary: "List audit entries",
		Description: "Lists who did what in the account, newest first: writes, requests of known keys that were answered with 401 or 403, sign-ins and " +
			"confirmations on the connect pages, and actions of the operator and of the service. Each entry contains the hash of the previous entry, so the entries form a chain.",
		Metadata: guard.OperationRules{Bucket: guard.Reads, Scope: access.AuditRead, AnswerExample: exampleAuditList, Refuses: specificCodes(fault.InvalidRequest, fault.CursorExpired)}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, in *auditInput) (auditList, error) {
		q, err := in.query(ctx)
		if err != nil {
			return auditList{}, err
		}
		found, err := service.List(ctx, caller.Account.ID, q)
		if err != nil {
			return auditList{}, err
		}
		list := auditList{Entries: convertAll(found.Entries, newAuditEntry)}
		if found.More {
			list.NextCursor = pointerTo(sequenceCursor(auditListName, found.Entries[len(found.Entries)-1].Sequence))
		}
		return list, nil
	})
	registerStream(api, huma.Operation{
		OperationID: "export-audit-entries", Method: http.MethodGet, Path: auditPath + "/export", Tags: []string{tagAudit},
		Summary: "Export the audit chain",
		Description: "Sends all stored entries, oldest first, as JSON Lines: one entry on each line, in canonical JSON (RFC 8785). " +
			"`tenantry audit verify FILE` checks offline that the chain is unbroken. If older entries were deleted, the first entry has the hash of the last " +
			"deleted entry as `previous_hash`, and a later entry with the action `audit.drop` names this hash.",
		Metadata: guard.OperationRules{Bucket: guard.Reads, Scope: access.AuditRead, AllTenants: true, TimeLimit: exportTimeLimit, MediaType: "application/jsonl", AnswerExample: exampleAuditLine}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, _ *struct{}) (stream, error) {
		first, err := service.ExportPage(ctx, caller.Account.ID, 0)
		return func(send func([]byte) error) error { return exportFrom(ctx, service, caller.Account.ID, first, send) }, err
	})
}

// exportFrom sends the entries of one page, and then the entries of all later pages.
func exportFrom(ctx context.Context, service *audits.Service, owner access.AccountID, entries []audit.Entry, send func([]byte) error) error {
	for len(entries) > 0 {
		var lines []byte
		for _, e := range entries {
			line, err := e.Line()
			if err != nil {
				return err
			}
			lines = append(append(lines, line...), '\n')
		}
		if err := send(lines); err != nil {
			return err
		}
		var err error
		if entries, err = service.ExportPage(ctx, owner, entries[len(entries)-1].Sequence); err != nil {
			return err
		}
	}
	return nil
}

// auditListName is the name that the cursors of the audit list contain.
const auditListName = "audit"

// query converts the parameters to a query of the store. A key that is limited to some tenants gets
// only the entries of these tenants.
func (in *auditInput) query(ctx context.Context) (ports.EntryQuery, error) {
	query := ports.EntryQuery{Actor: in.Actor, Action: in.Action, Limit: page.DefaultLimit}
	if in.TenantID != "" {
		query.Tenants = []tenant.GUID{tenant.ParseGUIDOrNone(in.TenantID)}
	} else if visible, limited := ports.VisibleTenants(ctx); limited {
		query.Tenants = visible
	}
	var parser queryParser
	for _, bound := range []struct {
		name, raw string
		into      *time.Time
	}{{"from", in.From, &query.From}, {"to", in.To, &query.To}} {
		if bound.raw == "" {
			continue
		}
		var err error
		if *bound.into, err = parseTime(bound.raw); err != nil {
			parser.refuse(bound.name, "must be a time such as 2026-11-21T08:00:00Z")
		}
	}
	parser.integer("limit", in.Limit, 1, page.MaxLimit, &query.Limit)
	if in.After != "" {
		var err error
		if query.Before, err = decodeSequenceCursor(auditListName, in.After); err != nil {
			parser.refuse("after", "must be a next_cursor of this list")
		}
	}
	return query, parser.err()
}

func newAuditEntry(stored audit.Entry) auditEntry {
	converted := auditEntry{
		ID: stored.ID, Sequence: stored.Sequence, At: stored.At.UTC(), Actor: auditActor{Type: string(stored.Actor.Type), ID: stored.Actor.ID, Name: stored.Actor.Name},
		Action: string(stored.Action), TenantID: textOrNil(string(stored.Tenant)), Outcome: auditOutcome{Code: textOrNil(stored.Outcome.Code)},
		RequestID: textOrNil(stored.RequestID), ClientIP: textOrNil(stored.ClientIP), PreviousHash: stored.PreviousHash, Hash: stored.Hash,
	}
	if stored.Outcome.Status != 0 {
		converted.Outcome.Status = &stored.Outcome.Status
	}
	if stored.Subject != (audit.Subject{}) {
		converted.Subject.object = &auditSubject{Type: stored.Subject.Type, ID: stored.Subject.ID}
	}
	return converted
}

// exampleAuditEntry is the first entry of an audit chain. Its hash is correct.
var exampleAuditEntry = func() audit.Entry {
	e, err := audit.Entry{
		ID: "019a52d0-04e1-7e11-8a52-6d1f0b7c9010", At: exampleTime, Actor: audit.Actor{Type: audit.Key, ID: exampleKeyID, Name: "production"},
		Action: "add-domain", Tenant: exampleTenantID, Subject: audit.Subject{Type: "domain", ID: exampleDomain},
		Outcome: audit.Outcome{Status: http.StatusOK}, RequestID: "req-7f3c2a", ClientIP: "203.0.113.7",
	}.Link(0, audit.Anchor)
	if err != nil {
		panic(err)
	}
	return e
}()

var exampleAuditList = auditList{Entries: []auditEntry{newAuditEntry(exampleAuditEntry)}}

var exampleAuditLine = func() string {
	line, err := exampleAuditEntry.Line()
	if err != nil {
		panic(err)
	}
	return string(line) + "\n"
}()
