// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/text/unicode/norm"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/adapters/httpapi/refusal"
	"github.com/tenantry/tenantry/app/mailboxes"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

type mailboxPath struct {
	TenantID  string `path:"tenant_id"`
	MailboxID string `path:"mailbox_id"`
}

type provisionInput struct {
	TenantID string `path:"tenant_id"`
	Body     provisionMailboxes
}

type removeMailboxInput struct {
	TenantID  string `path:"tenant_id"`
	MailboxID string `path:"mailbox_id"`
	Confirm   string `query:"confirm"`
}

type updateInput struct {
	TenantID  string `path:"tenant_id"`
	MailboxID string `path:"mailbox_id"`
	Body      updateMailbox
}

func registerMailboxOperations(api huma.API, service *mailboxes.Service) {
	registerListMailboxes(api, service)
	registerProvisionMailboxes(api, service)
	registerUpdateMailbox(api, service)
	registerRemoveMailbox(api, service)
	registerMailboxUsage(api, service)
}

func registerListMailboxes(api huma.API, service *mailboxes.Service) {
	register(api, huma.Operation{
		OperationID: "list-mailboxes", Method: http.MethodGet, Path: "/v1/tenants/{tenant_id}/mailboxes", Tags: []string{tagMailboxes},
		Summary:     "List mailboxes",
		Description: "Lists the shared mailboxes of all domains of a tenant, sorted by address, including those that discovery found.",
		Metadata:    guard.OperationRules{Bucket: guard.Reads, Scope: access.MailboxesRead, AnswerExample: exampleMailboxList, Refuses: specificCodes(fault.TenantNotFound)}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, in *tenantPath) (mailboxList, error) {
		id := tenant.ParseGUIDOrNone(in.TenantID)
		mailboxes, err := service.List(ctx, caller.Account.ID, id)
		if err != nil {
			return mailboxList{}, err
		}
		list := convertAll(mailboxes, mailboxOf)
		return mailboxList{TenantID: string(id), Mailboxes: list, Count: len(list)}, nil
	})
}

func registerProvisionMailboxes(api huma.API, service *mailboxes.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "provision-mailboxes", Method: http.MethodPost, Path: "/v1/tenants/{tenant_id}/mailboxes", Tags: []string{tagMailboxes},
		Summary: "Provision mailboxes",
		Description: "Creates shared mailboxes on a verified domain. The password is used and not stored. Addresses that already " +
			"exist get the status `exists` and are not changed; they count only once toward the limit of 3 per domain. A new mailbox can " +
			"send after 2 to 5 minutes. If the mail platform does not finish in time, the response is 504: send the same request " +
			"again with the same Idempotency-Key to continue the work.",
		Metadata: guard.OperationRules{Bucket: guard.ProviderHeavy, Scope: access.MailboxesWrite, Write: true, RequestExample: exampleProvisionMailboxes, AnswerExample: exampleProvisionedMailboxes,
			Refuses: codes(platformCodes, specificCodes(fault.InvalidMailboxEmail, fault.DuplicateMailboxEmail, fault.WeakPassword, fault.DomainNotVerified,
				fault.MailboxLimitReached, fault.TenantLimitReached, fault.TenantNotFound, fault.DomainNotFound, fault.ExchangeNotReady,
				fault.SMTPAuthNotEnabled))}.Metadata(),
	}, provisionedOf, func(ctx context.Context, caller access.Caller, in *provisionInput, encoder ports.AnswerEncoder[[]mailboxes.Result]) ([]mailboxes.Result, error) {
		return service.Provision(ctx, caller.Account, tenant.ParseGUIDOrNone(in.TenantID), in.Body.request(), encoder)
	})
}

func registerUpdateMailbox(api huma.API, service *mailboxes.Service) {
	registerConverting(api, huma.Operation{
		OperationID: "update-mailbox", Method: http.MethodPatch, Path: "/v1/tenants/{tenant_id}/mailboxes/{mailbox_id}", Tags: []string{tagMailboxes},
		Summary: "Change a mailbox",
		Description: "Renames a mailbox at the mail platform, stores its daily send limit, or both. A stored limit alone does not restrict " +
			"sending. `clear_send_limit` clears it.",
		Metadata: guard.OperationRules{Bucket: guard.Reads, Scope: access.MailboxesWrite, CallsProviderIf: hasMember("display_name"), Write: true, RequestExample: exampleUpdateMailbox, AnswerExample: exampleUpdatedMailbox,
			Refuses: codes(platformCodes, specificCodes(fault.InvalidSendLimit, fault.NoUpdates, fault.TenantNotFound, fault.MailboxNotFound,
				fault.ExchangeNotReady))}.Metadata(),
		SkipValidateBody: true, // updateMailbox.change validates the body
	}, updatedMailboxOf, func(ctx context.Context, caller access.Caller, in *updateInput) (mailbox.Mailbox, error) {
		change, err := in.Body.change()
		if err != nil {
			return mailbox.Mailbox{}, err
		}
		return service.Update(ctx, caller.Account.ID, tenant.ParseGUIDOrNone(in.TenantID), ident.ParseOrZero(in.MailboxID), change)
	})
}

func registerRemoveMailbox(api huma.API, service *mailboxes.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "remove-mailbox", Method: http.MethodDelete, Path: "/v1/tenants/{tenant_id}/mailboxes/{mailbox_id}", Tags: []string{tagMailboxes},
		Summary: "Remove a mailbox",
		Description: "Removes a shared mailbox at the mail platform, with all its messages. `confirm` must be its address. First, its connections to sending " +
			"platforms end. A block by a send limit ends after the removal. The mail platform can restore the mailbox for 30 days; `restorable_until` " +
			"shows until when. Send limits of its domain and tenant stay. A new mailbox with the same address is never removed.",
		Metadata: guard.OperationRules{Bucket: guard.ProviderHeavy, Scope: access.MailboxesWrite, Write: true, AnswerExample: exampleRemovedMailbox,
			Refuses: codes(platformCodes, specificCodes(fault.ConfirmationRequired, fault.TenantNotFound, fault.MailboxNotFound, fault.ExchangeNotReady))}.Metadata(),
	}, removedMailboxOf, func(ctx context.Context, caller access.Caller, in *removeMailboxInput, encoder ports.AnswerEncoder[mailboxes.RemoveResult]) (mailboxes.RemoveResult, error) {
		return service.Remove(ctx, caller.Account.ID, tenant.ParseGUIDOrNone(in.TenantID), ident.ParseOrZero(in.MailboxID), in.Confirm, encoder)
	})
}

// hasMember returns a function that reports whether a JSON object has the member.
func hasMember(member string) func(body []byte) bool {
	return func(body []byte) bool {
		_, ok := decodeObject(body)[member]
		return ok
	}
}

func registerMailboxUsage(api huma.API, service *mailboxes.Service) {
	registerConverting(api, huma.Operation{
		OperationID: "get-mailbox-usage", Method: http.MethodGet, Path: "/v1/tenants/{tenant_id}/mailboxes/{mailbox_id}/usage", Tags: []string{tagMailboxes},
		Summary:     "Get a mailbox's usage",
		Description: "Returns how many messages a mailbox has sent on the day of the last count, and how many its effective limit allows. Without a limit the computed members are null.",
		Metadata: guard.OperationRules{Bucket: guard.Reads, Scope: access.MailboxesRead, AnswerExample: exampleUsage,
			Refuses: specificCodes(fault.TenantNotFound, fault.MailboxNotFound)}.Metadata(),
	}, usageOf, func(ctx context.Context, caller access.Caller, in *mailboxPath) (mailbox.Usage, error) {
		return service.Usage(ctx, caller.Account.ID, tenant.ParseGUIDOrNone(in.TenantID), ident.ParseOrZero(in.MailboxID))
	})
}

// provisionMailboxes is the body of provision-mailboxes. Domain, password and addresses have no
// schema rules, because the packages of core check them and return specific error codes.
type provisionMailboxes struct {
	Domain          string          `json:"domain" doc:"A verified domain of the tenant."`
	AccountPassword string          `json:"account_password" writeOnly:"true" doc:"8 to 256 characters from at least three of four classes: lower-case letters, upper-case letters, digits (each as defined by Unicode, so ö is lower case) and all other characters. It is never stored or shown."`
	Mailboxes       []wantedMailbox `json:"mailboxes" minItems:"1" doc:"The mailboxes to create. A domain can have at most 3 mailboxes, including existing ones."`
}

type wantedMailbox struct {
	Name  string `json:"name" doc:"The display name, 1 to 256 characters."`
	Email string `json:"email" doc:"The address; it ends with @ and the domain."`
}

func (b provisionMailboxes) request() mailboxes.Request {
	return mailboxes.Request{Domain: b.Domain, Password: secret.New(b.AccountPassword), Mailboxes: convertAll(b.Mailboxes, func(w wantedMailbox) mailbox.Spec {
		return mailbox.Spec{DisplayName: norm.NFC.String(w.Name), Address: w.Email}
	})}
}

// updateMailbox keeps the raw members of the body, because the error code depends on the
// combination of members. A daily_send_limit of the wrong type has a specific error code.
type updateMailbox struct{ members map[string]json.RawMessage }

// UnmarshalJSON accepts any JSON value. The method change validates it.
func (b *updateMailbox) UnmarshalJSON(raw []byte) error {
	b.members = decodeObject(raw)
	return nil
}

// change returns the requested change, or invalid_request. It accepts an empty change and a send
// limit of the wrong type. The use case refuses them after it has checked that the account owns the
// mailbox.
func (b updateMailbox) change() (mailboxes.Change, error) {
	if b.members == nil {
		return mailboxes.Change{}, refusal.Invalid("the body is not an object", refusal.ProblemField{Location: "body", Message: "expected object"})
	}
	var changes mailboxes.Change
	rawName, hasName := b.members["display_name"]
	rawLimit, hasLimit := b.members["daily_send_limit"]
	rawClear, hasClear := b.members["clear_send_limit"]
	if unknown := unknownMembers(b.members, "display_name", "daily_send_limit", "clear_send_limit"); len(unknown) > 0 && (hasName || hasLimit || hasClear) {
		return changes, refusal.Invalid("the body has unknown members", unknown...)
	}
	if hasName {
		var text *string
		if !decodeNonNull(rawName, &text) {
			return changes, refusal.Invalid("a member has the wrong type", refusal.ProblemField{Location: "body.display_name", Message: "expected string"})
		}
		changes.DisplayName = pointerTo(norm.NFC.String(*text))
	}
	if hasClear {
		var clear *bool
		if !decodeNonNull(rawClear, &clear) {
			return changes, refusal.Invalid("a member has the wrong type", refusal.ProblemField{Location: "body.clear_send_limit", Message: "expected boolean"})
		}
		if hasLimit {
			return changes, refusal.Invalid("daily_send_limit and clear_send_limit exclude each other", refusal.ProblemField{Location: "body.clear_send_limit", Message: "not together with daily_send_limit"})
		}
		changes.ClearSendLimit = *clear
	}
	if hasLimit {
		perDay := wholeNumber(rawLimit)
		changes.DailySendLimit = &perDay
	}
	return changes, nil
}

// wholeNumber parses an integer literal: 5, but not 5.0, 1e1 or "5". It returns 0 for anything
// else. The use case refuses 0 with the error code of daily_send_limit.
func wholeNumber(raw json.RawMessage) int {
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		return 0
	}
	return n
}

// Schema documents the rules that change and the use case enforce.
func (updateMailbox) Schema(huma.Registry) *huma.Schema {
	minimum, maximum := float64(sendlimit.MinLimit), float64(sendlimit.MaxLimit)
	minimumOne, maxLength := 1, 256
	return &huma.Schema{
		Type: huma.TypeObject, MinProperties: &minimumOne, AdditionalProperties: false,
		Description: "The members to change, at least one.",
		Properties: map[string]*huma.Schema{
			"display_name": {Type: huma.TypeString, MinLength: &minimumOne, MaxLength: &maxLength, Description: "The new display name."},
			"daily_send_limit": {Type: huma.TypeInteger, Minimum: &minimum, Maximum: &maximum,
				Description: "The maximum number of messages per day, as an integer."},
			"clear_send_limit": {Type: huma.TypeBoolean, Description: "Whether to clear the mailbox's own limit. Not together with daily_send_limit."},
		},
	}
}

type mailboxList struct {
	TenantID  string         `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	Mailboxes []mailboxEntry `json:"mailboxes"`
	Count     int            `json:"count" doc:"The number of mailboxes."`
}

type mailboxEntry struct {
	ID                string     `json:"id" format:"uuid" doc:"The mailbox's id; used in paths."`
	DisplayName       string     `json:"display_name" doc:"The name that recipients see."`
	PrimarySMTP       string     `json:"primary_smtp" doc:"The address."`
	UserPrincipalName string     `json:"user_principal_name" doc:"The sign-in name."`
	MailNickname      string     `json:"mail_nickname" doc:"The alias at the mail platform."`
	AccountEnabled    bool       `json:"account_enabled" doc:"Whether the mailbox's user account is enabled."`
	DailySendLimit    *int       `json:"daily_send_limit" doc:"The stored limit, null if there is none."`
	SendsToday        int        `json:"sends_today" doc:"The number of messages sent on the day of sends_today_at, 0 until the first count."`
	SendsTodayAt      *time.Time `json:"sends_today_at" doc:"When the messages were counted, null until the first count."`
	BlockedAt         *time.Time `json:"blocked_at" doc:"When enforcement blocked the mailbox, null if it is not blocked."`
	CreatedAt         time.Time  `json:"created_at" doc:"When it was created."`
	DomainName        string     `json:"domain_name" doc:"The mailbox's domain."`
	TenantName        string     `json:"tenant_name" doc:"The mailbox's tenant."`
}

type provisioned struct {
	CreatedCount int               `json:"created_count" doc:"The number of mailboxes that were created."`
	ExistsCount  int               `json:"exists_count" doc:"The number of mailboxes that already existed."`
	FailedCount  int               `json:"failed_count" doc:"The number of mailboxes that the mail platform rejected."`
	Results      []provisionResult `json:"results" doc:"One result for each mailbox of the request, in the order of the request."`
}

type provisionResult struct {
	Status  string           `json:"status" enum:"created,exists,failed" doc:"The outcome for this mailbox."`
	Name    string           `json:"name" doc:"The requested name."`
	Email   string           `json:"email" doc:"The requested address."`
	Details provisionDetails `json:"details" doc:"The mailbox, or the requested values if it failed."`
	Error   *provisionError  `json:"error,omitempty" doc:"The reason for the failure."`
}

type provisionDetails struct {
	DisplayName       string `json:"display_name" doc:"The name that recipients see."`
	PrimarySMTP       string `json:"primary_smtp" doc:"The address."`
	UserPrincipalName string `json:"user_principal_name" doc:"The sign-in name."`
	Alias             string `json:"alias" doc:"The alias at the mail platform."`
}

type provisionError struct {
	Code    string `json:"code" doc:"One of the codes under /docs/errors."`
	Message string `json:"message" doc:"The reason as a sentence."`
}

type updatedMailbox struct {
	Status  string         `json:"status" enum:"updated" doc:"Always updated."`
	Mailbox changedMailbox `json:"mailbox" doc:"The mailbox as it is now."`
}

type changedMailbox struct {
	ID             string     `json:"id" format:"uuid" doc:"The mailbox's id."`
	DisplayName    string     `json:"display_name" doc:"The name that recipients see."`
	PrimarySMTP    string     `json:"primary_smtp" doc:"The address."`
	DailySendLimit *int       `json:"daily_send_limit" doc:"The stored limit, null if there is none."`
	SendsToday     int        `json:"sends_today" doc:"The number of messages sent on the day of sends_today_at, 0 until the first count."`
	SendsTodayAt   *time.Time `json:"sends_today_at" doc:"When the messages were counted, null until the first count."`
	AccountEnabled bool       `json:"account_enabled" doc:"Whether the mailbox's user account is enabled."`
}

type mailboxUsage struct {
	MailboxID      string     `json:"mailbox_id" format:"uuid" doc:"The mailbox's id."`
	PrimarySMTP    string     `json:"primary_smtp" doc:"The address."`
	DisplayName    string     `json:"display_name" doc:"The name that recipients see."`
	AccountEnabled bool       `json:"account_enabled" doc:"Whether the mailbox's user account is enabled."`
	DailySendLimit *int       `json:"daily_send_limit" doc:"The effective limit, null if there is none."`
	SendsToday     int        `json:"sends_today" doc:"The number of messages sent on the day of sends_today_at, 0 until the first count."`
	SendsTodayAt   *time.Time `json:"sends_today_at" doc:"When the messages were counted, null until the first count."`
	RemainingSends *int       `json:"remaining_sends" doc:"The limit minus sends_today, but at least 0. Null without a limit."`
	IsBlocked      bool       `json:"is_blocked" doc:"Whether enforcement blocks the mailbox."`
	BlockedAt      *time.Time `json:"blocked_at" doc:"When the mailbox was blocked, null if it is not blocked."`
	UtilizationPct *float64   `json:"utilization_pct" doc:"The used part of the limit, in percent with one decimal. Null without a limit."`
}

func mailboxOf(m mailbox.Mailbox) mailboxEntry {
	return mailboxEntry{
		ID: m.ID, DisplayName: m.DisplayName, PrimarySMTP: m.Address, UserPrincipalName: m.PrincipalName, MailNickname: m.Alias,
		AccountEnabled: m.AccountEnabled, DailySendLimit: limitOrNil(m.DailySendLimit), SendsToday: m.SendsToday,
		SendsTodayAt: timeOrNil(m.SendsTodayAt), BlockedAt: timeOrNil(m.BlockedAt), CreatedAt: m.CreatedAt.UTC(),
		DomainName: m.DomainName, TenantName: m.TenantName,
	}
}

func provisionedOf(results []mailboxes.Result) provisioned {
	p := provisioned{Results: convertAll(results, provisionResultOf)}
	for _, r := range results {
		switch r.Status {
		case mailbox.ResultCreated:
			p.CreatedCount++
		case mailbox.ResultExists:
			p.ExistsCount++
		default:
			p.FailedCount++
		}
	}
	return p
}

func provisionResultOf(r mailboxes.Result) provisionResult {
	result := provisionResult{Status: r.Status, Name: r.Spec.DisplayName, Email: r.Spec.Address}
	if r.Failure != nil {
		result.Error = &provisionError{Code: r.Failure.Code.Name, Message: r.Failure.Detail}
		result.Details = provisionDetails{DisplayName: r.Spec.DisplayName, PrimarySMTP: r.Spec.Address,
			UserPrincipalName: r.Spec.Address, Alias: mailbox.Alias(r.Spec.Address)}
		return result
	}
	result.Details = provisionDetails{DisplayName: r.Mailbox.DisplayName, PrimarySMTP: r.Mailbox.Address,
		UserPrincipalName: r.Mailbox.PrincipalName, Alias: r.Mailbox.Alias}
	return result
}

func updatedMailboxOf(m mailbox.Mailbox) updatedMailbox {
	return updatedMailbox{Status: "updated", Mailbox: changedMailbox{ID: m.ID, DisplayName: m.DisplayName, PrimarySMTP: m.Address,
		DailySendLimit: limitOrNil(m.DailySendLimit), SendsToday: m.SendsToday, SendsTodayAt: timeOrNil(m.SendsTodayAt),
		AccountEnabled: m.AccountEnabled}}
}

func usageOf(usage mailbox.Usage) mailboxUsage {
	answer := mailboxUsage{MailboxID: usage.Mailbox.ID, PrimarySMTP: usage.Mailbox.Address, DisplayName: usage.Mailbox.DisplayName,
		AccountEnabled: usage.Mailbox.AccountEnabled, DailySendLimit: limitOrNil(usage.Limit), SendsToday: usage.Mailbox.SendsToday,
		SendsTodayAt: timeOrNil(usage.Mailbox.SendsTodayAt), IsBlocked: usage.Blocked, BlockedAt: timeOrNil(usage.Mailbox.BlockedAt)}
	if usage.Limit > 0 {
		answer.RemainingSends, answer.UtilizationPct = &usage.Remaining, &usage.Percent
	}
	return answer
}

// limitOrNil returns nil for 0, which means no limit.
func limitOrNil(perDay int) *int {
	if perDay == 0 {
		return nil
	}
	return &perDay
}

type removedMailbox struct {
	Status          string    `json:"status" enum:"removed" doc:"Always removed."`
	TenantID        string    `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	MailboxID       string    `json:"mailbox_id" format:"uuid" doc:"The id of the removed mailbox."`
	PrimarySMTP     string    `json:"primary_smtp" doc:"The address of the removed mailbox."`
	RestorableUntil time.Time `json:"restorable_until" doc:"Until when the mail platform can restore the mailbox."`
	Message         string    `json:"message" doc:"What was removed, and how to restore it."`
}

func removedMailboxOf(r mailboxes.RemoveResult) removedMailbox {
	return removedMailbox{
		Status: "removed", TenantID: string(r.Mailbox.TenantGUID), MailboxID: r.Mailbox.ID, PrimarySMTP: r.Mailbox.Address,
		RestorableUntil: r.RestorableUntil,
		Message:         "The mailbox was removed. An administrator of the tenant can restore it among the deleted users of the mail platform for 30 days.",
	}
}
