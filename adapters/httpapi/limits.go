// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/adapters/httpapi/refusal"
	"github.com/tenantry/tenantry/app/limits"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

type setLimitInput struct {
	TenantID string `path:"tenant_id"`
	Body     setLimit
}

type limitScopeInput struct {
	TenantID    string `path:"tenant_id"`
	DomainScope string `query:"domain_scope"`

	domainScope *string // nil if the parameter is missing
}

// Resolve distinguishes an empty domain_scope from a missing domain_scope.
func (in *limitScopeInput) Resolve(ctx huma.Context) []error {
	if address := ctx.URL(); address.Query().Has("domain_scope") {
		in.domainScope = &in.DomainScope
	}
	return nil
}

func registerSendLimitOperations(api huma.API, service *limits.Service) {
	registerSetMailboxLimit(api, service)
	registerGetMailboxLimit(api, service)
	registerEndMailboxLimit(api, service)
}

func registerSetMailboxLimit(api huma.API, service *limits.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "set-mailbox-limit", Method: http.MethodPost, Path: "/v1/tenants/{tenant_id}/mailbox-limits", Tags: []string{tagLimits},
		Summary: "Enforce a daily send limit",
		Description: "Sets and enforces a limit for one domain or, without `domain_scope`, for the whole tenant. It also creates or updates the " +
			"mail flow rule that blocks mailboxes above the limit. A mailbox's own stored limit takes precedence over the limit of its domain, which takes " +
			"precedence over the limit of the tenant. The request can be repeated. Counts come from the mail platform's message trace, which lags by minutes, and the " +
			"mail platform needs up to about 30 minutes to apply a rule: a mailbox can exceed its limit by the messages it sends in this time.",
		Metadata: guard.OperationRules{Bucket: guard.ProviderHeavy, Scope: access.LimitsWrite, Write: true, Creates: event.Policy, RequestExample: exampleSetLimit, AnswerExample: exampleLimitSet,
			Refuses: codes(platformCodes, specificCodes(fault.InvalidSendLimit, fault.TenantNotFound, fault.DomainNotFound, fault.ExchangeNotReady))}.Metadata(),
		SkipValidateBody: true, // setLimit.requestedLimit validates the body
	}, limitSetOf, func(ctx context.Context, caller access.Caller, in *setLimitInput, encoder ports.AnswerEncoder[limits.SetResult]) (limits.SetResult, error) {
		requested, err := in.Body.requestedLimit()
		if err != nil {
			return limits.SetResult{}, err
		}
		return service.Set(ctx, caller.Account.ID, tenant.ParseGUIDOrNone(in.TenantID), requested, encoder)
	})
}

func registerGetMailboxLimit(api huma.API, service *limits.Service) {
	registerConverting(api, huma.Operation{
		OperationID: "get-mailbox-limit", Method: http.MethodGet, Path: "/v1/tenants/{tenant_id}/mailbox-limits", Tags: []string{tagLimits},
		Summary:     "Get an enforced send limit",
		Description: "Returns the limit that is enforced in a domain or, without `domain_scope`, in the whole tenant.",
		Metadata: guard.OperationRules{Bucket: guard.Reads, Scope: access.LimitsRead, AnswerExample: exampleLimitShown,
			Refuses: specificCodes(fault.InvalidRequest, fault.TenantNotFound, fault.PolicyNotFound)}.Metadata(),
	}, limitShownOf, func(ctx context.Context, caller access.Caller, in *limitScopeInput) (limits.Limit, error) {
		return service.Get(ctx, caller.Account.ID, tenant.ParseGUIDOrNone(in.TenantID), in.domainScope)
	})
}

func registerEndMailboxLimit(api huma.API, service *limits.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "end-mailbox-limit", Method: http.MethodDelete, Path: "/v1/tenants/{tenant_id}/mailbox-limits", Tags: []string{tagLimits},
		Summary: "End an enforced send limit",
		Description: "Ends the limit of one domain or, without `domain_scope`, of the whole tenant. Mailboxes that only this limit blocks are " +
			"unblocked, and its mail flow rule is removed at the mail platform. Mailboxes that exceed a different limit stay blocked. The stored limits " +
			"of mailboxes stay.",
		Metadata: guard.OperationRules{Bucket: guard.ProviderHeavy, Scope: access.LimitsWrite, Write: true, AnswerExample: exampleLimitEnded,
			Refuses: codes(platformCodes, specificCodes(fault.TenantNotFound, fault.PolicyNotFound, fault.ExchangeNotReady))}.Metadata(),
	}, limitEndedOf, func(ctx context.Context, caller access.Caller, in *limitScopeInput, encoder ports.AnswerEncoder[limits.EndResult]) (limits.EndResult, error) {
		return service.End(ctx, caller.Account.ID, tenant.ParseGUIDOrNone(in.TenantID), in.domainScope, encoder)
	})
}

// setLimit keeps the raw members of the body, because a daily_send_limit of the wrong type has a
// specific error code.
type setLimit struct{ members map[string]json.RawMessage }

// UnmarshalJSON accepts any JSON value. The method requestedLimit validates it.
func (b *setLimit) UnmarshalJSON(raw []byte) error {
	b.members = decodeObject(raw)
	return nil
}

// requestedLimit returns the requested limit, or invalid_request. It accepts a missing limit and a
// limit of the wrong type. The use case refuses them after it has checked that the account owns the
// tenant.
func (b setLimit) requestedLimit() (limit limits.SetRequest, err error) {
	if b.members == nil {
		return limit, refusal.Invalid("the body is not an object", refusal.ProblemField{Location: "body", Message: "expected object"})
	}
	if unknown := unknownMembers(b.members, "daily_send_limit", "domain_scope"); len(unknown) > 0 {
		return limit, refusal.Invalid("the body has unknown members", unknown...)
	}
	if scope, scoped := b.members["domain_scope"]; scoped && !decodeNonNull(scope, &limit.DomainScope) {
		return limit, refusal.Invalid("a member has the wrong type", refusal.ProblemField{Location: "body.domain_scope", Message: "expected string"})
	}
	limit.PerDay = wholeNumber(b.members["daily_send_limit"])
	return limit, nil
}

// Schema documents the rules that requestedLimit and the use case enforce.
func (setLimit) Schema(huma.Registry) *huma.Schema {
	minimum, maximum := float64(sendlimit.MinLimit), float64(sendlimit.MaxLimit)
	return &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: false, Required: []string{"daily_send_limit"},
		Properties: map[string]*huma.Schema{
			"daily_send_limit": {Type: huma.TypeInteger, Minimum: &minimum, Maximum: &maximum,
				Description: "The maximum number of messages per day, as an integer."},
			"domain_scope": {Type: huma.TypeString, Description: "A domain of the tenant. Without it the limit applies to the whole tenant."},
		},
	}
}

type limitShown struct {
	TenantID       string     `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	DailySendLimit int        `json:"daily_send_limit" minimum:"1" maximum:"25" doc:"The maximum number of messages per day."`
	DomainScope    *string    `json:"domain_scope" doc:"The domain, null for the whole tenant."`
	ScopeLabel     string     `json:"scope_label" doc:"The domain, or tenant."`
	Policy         sendPolicy `json:"policy" doc:"The policy that is in force."`
}

type limitSet struct {
	Status         string     `json:"status" enum:"provisioned" doc:"Always provisioned."`
	TenantID       string     `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	DailySendLimit int        `json:"daily_send_limit" minimum:"1" maximum:"25" doc:"The maximum number of messages per day."`
	DomainScope    *string    `json:"domain_scope" doc:"The domain, null for the whole tenant."`
	ScopeLabel     string     `json:"scope_label" doc:"The domain, or tenant."`
	Policy         sendPolicy `json:"policy" doc:"The policy that is in force now."`
	Provisioning   limitWork  `json:"provisioning" doc:"What was done to enforce the limit."`
}

type sendPolicy struct {
	ID               string    `json:"id" format:"uuid" doc:"The policy's id."`
	DailySendLimit   int       `json:"daily_send_limit" minimum:"1" maximum:"25" doc:"The maximum number of messages per day."`
	DomainScope      *string   `json:"domain_scope" doc:"The domain, null for the whole tenant."`
	State            string    `json:"state" enum:"active" doc:"Always active."`
	MailboxesInScope int       `json:"mailboxes_in_scope" doc:"The number of mailboxes in the domain or the tenant."`
	CreatedAt        time.Time `json:"created_at" doc:"When it was first set."`
	UpdatedAt        time.Time `json:"updated_at" doc:"When it last changed."`
}

type limitWork struct {
	Status   string  `json:"status" enum:"created,updated,unchanged" doc:"created: this request created the policy or its rule. If the scope had no mailboxes when the policy was created, a later request can create the rule. updated: this request changed the policy or its rule. unchanged: it changed neither."`
	RuleName string  `json:"rule_name" doc:"The name of the mail flow rule in the tenant."`
	RuleID   *string `json:"rule_id" doc:"The mail platform's id of the rule, null if the rule does not exist yet."`
	Message  string  `json:"message" doc:"The outcome as a sentence."`
}

func limitShownOf(l limits.Limit) limitShown {
	p := policyOf(l)
	return limitShown{TenantID: string(l.Policy.Tenant), DailySendLimit: p.DailySendLimit, DomainScope: p.DomainScope,
		ScopeLabel: l.Policy.Label(), Policy: p}
}

func limitSetOf(o limits.SetResult) limitSet {
	p := policyOf(o.Limit)
	return limitSet{Status: "provisioned", TenantID: string(o.Policy.Tenant), DailySendLimit: p.DailySendLimit, DomainScope: p.DomainScope,
		ScopeLabel: o.Policy.Label(), Policy: p, Provisioning: limitWork{
			Status: string(o.PolicyResult), RuleName: o.Policy.RuleName, RuleID: textOrNil(o.Policy.RuleID), Message: limitMessage(o)}}
}

func policyOf(l limits.Limit) sendPolicy {
	return sendPolicy{ID: l.Policy.ID, DailySendLimit: l.Policy.PerDay, DomainScope: textOrNil(l.Policy.Scope), State: "active",
		MailboxesInScope: l.Mailboxes, CreatedAt: l.Policy.CreatedAt.UTC(), UpdatedAt: l.Policy.UpdatedAt.UTC()}
}

func limitMessage(o limits.SetResult) string {
	switch {
	case o.Policy.RuleID == "":
		return "The limit is in force. The mail platform has no mailbox in the scope yet: the mail flow rule is created when a mailbox is first blocked."
	case o.PolicyResult == sendlimit.Unchanged:
		return "The limit was already in force, and the mail flow rule exists."
	}
	return "The limit is in force. The mail flow rule blocks a mailbox once its count exceeds the limit."
}

var (
	exampleSetLimit = json.RawMessage(`{"daily_send_limit": 25, "domain_scope": "` + exampleDomain + `"}`)
	examplePolicy   = sendPolicy{ID: "019a52d0-04e1-7e11-8a52-6d1f0b7c9008", DailySendLimit: 25, DomainScope: pointerTo(exampleDomain), State: "active",
		MailboxesInScope: 3, CreatedAt: exampleTime, UpdatedAt: exampleTime}
	exampleLimitShown = limitShown{TenantID: exampleTenantID, DailySendLimit: 25, DomainScope: pointerTo(exampleDomain), ScopeLabel: exampleDomain,
		Policy: examplePolicy}
	exampleLimitSet = limitSet{Status: "provisioned", TenantID: exampleTenantID, DailySendLimit: 25, DomainScope: pointerTo(exampleDomain),
		ScopeLabel: exampleDomain, Policy: examplePolicy, Provisioning: limitWork{Status: "created",
			RuleName: sendlimit.RuleName(exampleDomain), RuleID: pointerTo("5f1c7c3e-2a86-4d0c-9d5e-1b6f3a7e2c41"),
			Message: "The limit is in force. The mail flow rule blocks a mailbox once its count exceeds the limit."}}
)

type limitEnded struct {
	Status             string  `json:"status" enum:"removed" doc:"Always removed."`
	TenantID           string  `json:"tenant_id" format:"uuid" doc:"The tenant's GUID."`
	DailySendLimit     int     `json:"daily_send_limit" minimum:"1" maximum:"25" doc:"The limit that was in force."`
	DomainScope        *string `json:"domain_scope" doc:"The domain, null for the whole tenant."`
	ScopeLabel         string  `json:"scope_label" doc:"The domain, or tenant."`
	MailboxesUnblocked int     `json:"mailboxes_unblocked" doc:"How many mailboxes were blocked by this limit alone and are unblocked now."`
	Message            string  `json:"message" doc:"What was removed."`
}

func limitEndedOf(e limits.EndResult) limitEnded {
	message := "The limit is no longer enforced, and its mail flow rule was removed from the tenant. The mail platform can apply the old rule for up to 30 minutes."
	if !e.HadRule {
		message = "The limit is no longer enforced. It had no mail flow rule yet."
	}
	return limitEnded{
		Status: "removed", TenantID: string(e.Policy.Tenant), DailySendLimit: e.Policy.PerDay, DomainScope: textOrNil(e.Policy.Scope), ScopeLabel: e.Policy.Label(),
		MailboxesUnblocked: e.Unblocked,
		Message:            message,
	}
}
