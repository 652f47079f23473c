// SPDX-License-Identifier: Apache-2.0

// Package refusal converts the errors of core/fault to HTTP error answers.
//
// ProblemOf returns a Problem, the body of an error answer (RFC 9457). StatusOf maps the kinds of
// errors to HTTP statuses. A Problem can contain actions of a DNS plan and workspaces of a sending
// platform. Therefore this package also defines the JSON types of these actions and workspaces.
package refusal

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
)

// StatusOf maps the kinds of errors to HTTP statuses.
var StatusOf = map[fault.Kind]int{
	fault.Invalid:          http.StatusBadRequest,
	fault.Unauthenticated:  http.StatusUnauthorized,
	fault.PaymentRequired:  http.StatusPaymentRequired,
	fault.Forbidden:        http.StatusForbidden,
	fault.NotFound:         http.StatusNotFound,
	fault.MethodNotAllowed: http.StatusMethodNotAllowed,
	fault.NotAcceptable:    http.StatusNotAcceptable,
	fault.Conflict:         http.StatusConflict,
	fault.Gone:             http.StatusGone,
	fault.TooLarge:         http.StatusRequestEntityTooLarge,
	fault.UnsupportedMedia: http.StatusUnsupportedMediaType,
	fault.RateLimited:      http.StatusTooManyRequests,
	fault.Internal:         http.StatusInternalServerError,
	fault.BadGateway:       http.StatusBadGateway,
	fault.Unavailable:      http.StatusServiceUnavailable,
	fault.Timeout:          http.StatusGatewayTimeout,
}

// Problem is the body of an error answer of the API (RFC 9457).
type Problem struct {
	Type       string         `json:"type" format:"uri-reference" doc:"The page about this code, relative to this service's address." example:"/docs/errors/tenant_not_found"`
	Title      string         `json:"title" doc:"The human-readable name of the code. It does not change." example:"Tenant not found"`
	Status     int            `json:"status" doc:"The HTTP status." example:"404"`
	Detail     string         `json:"detail" doc:"What happened in this request." example:"the account holds no such tenant"`
	Code       string         `json:"code" doc:"The error code, for use by programs. It does not change." example:"tenant_not_found"`
	RequestID  string         `json:"request_id" doc:"The value of X-Request-ID, for support." example:"req-7f3c2a"`
	Errors     []ProblemField `json:"errors,omitempty" doc:"The invalid parts of the request. Rejected values are never repeated."`
	Conflicts  []PlanAction   `json:"conflicts,omitempty" doc:"With dns_conflict: the actions that block the plan."`
	Workspaces []workspace    `json:"workspaces,omitempty" doc:"With the codes that end in workspace_required, and with invalid_request at workspace_id: the workspaces that the credential has access to."`

	// RequiredScope is the scope that the request needs. A key that has this scope can still be
	// refused, because it is limited to some tenants or has another bound.
	RequiredScope string `json:"required_scope,omitempty" doc:"With insufficient_scope: the scope that the request needs."`

	retryAfter time.Duration
}

// ProblemField is one invalid part of a request.
type ProblemField struct {
	Location string `json:"location" doc:"The location in the request." example:"body.domain"`
	Message  string `json:"message" doc:"The problem at this location." example:"expected string"`
}

// Invalid returns an invalid_request error with the locations of the invalid parts of the request.
func Invalid(detail string, fields ...ProblemField) error {
	return fault.InvalidRequest.WithValues(fields, "%s", detail)
}

// InQuery converts an invalid_request error that names members of the body to an error that names
// query parameters. It returns any other error unchanged. It is for operations that pass query
// parameters to a use case.
func InQuery(err error) error {
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.InvalidRequest || f.Fields == nil {
		return err
	}
	parameters := make([]ProblemField, 0, len(f.Fields))
	for _, field := range f.Fields {
		parameters = append(parameters, ProblemField{Location: "query." + field.Name, Message: field.Message})
	}
	return Invalid(f.Detail, parameters...)
}

// ProblemOf returns the body of the answer that reports f. requestID is the id of the request.
// f.Fields names members of the request's body. Errors of the HTTP layer have locations in f.Values
// instead (see Invalid).
func ProblemOf(f *fault.Error, requestID string) *Problem {
	problem := &Problem{
		Type: "/docs/errors/" + f.Code.Name, Title: f.Code.Title, Status: StatusOf[f.Code.Kind],
		Detail: f.Detail, Code: f.Code.Name, RequestID: requestID, retryAfter: f.RetryAfter,
	}
	for _, field := range f.Fields {
		problem.Errors = append(problem.Errors, ProblemField{Location: "body." + field.Name, Message: field.Message})
	}
	switch values := f.Values.(type) {
	case []ProblemField:
		problem.Errors = values
	case access.Scope:
		problem.RequiredScope = string(values)
	case []dns.Item:
		for _, item := range values {
			problem.Conflicts = append(problem.Conflicts, ActionOf(item))
		}
	case []integration.Workspace:
		for _, w := range values {
			problem.Workspaces = append(problem.Workspaces, workspace{ID: w.ID, Name: w.Name})
		}
	}
	return problem
}

// Error returns the code. With the methods Error, GetStatus, ContentType and GetHeaders, a Problem
// is an error that huma writes unchanged.
func (p *Problem) Error() string { return p.Code }

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the media type of a problem. It ignores the media type that huma proposes.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders returns WWW-Authenticate for the status 401. It returns Retry-After for the status 503
// and for every error that has a RetryAfter.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	wait := p.retryAfter
	if p.Status == http.StatusServiceUnavailable && wait <= 0 {
		wait = defaultRetryAfter
	}
	if wait > 0 {
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(wait.Seconds())))))
	}
	return h
}

// defaultRetryAfter is the Retry-After of a 503 answer whose error has no RetryAfter.
const defaultRetryAfter = 10 * time.Second

// workspace is a workspace that the caller can choose (see Problem.Workspaces).
type workspace struct {
	ID   string `json:"id" doc:"The workspace's id at the platform." example:"65f31c0a9b2e4d7781aa0c11"`
	Name string `json:"name" doc:"Its name." example:"Outbound"`
}

// PlanAction is one action of a DNS plan. Plans and dns_conflict errors contain it.
type PlanAction struct {
	Action     string       `json:"action" enum:"create,update,preserve,conflict" doc:"create: no such record exists. update: existing records at this name are changed. preserve: the existing record stays unchanged. conflict: a person must decide."`
	RecordType string       `json:"record_type" enum:"TXT,MX,CNAME" doc:"The type of the record."`
	Name       string       `json:"name" doc:"Its name, fully qualified, without the final dot."`
	Desired    *string      `json:"desired" doc:"The content that the mail platform asks for, or the DMARC record that the service would add. For the update of an SPF record, it is the whole merged record. Null while the mail platform has not provided it."`
	Observed   []string     `json:"observed" doc:"The contents of the existing records that led to the action. They can be at a parent name. Empty if the DMARC record of a parent domain applies."`
	Reason     planReason   `json:"reason"`
	Notes      []planRemark `json:"notes" doc:"Additional remarks, as words that do not change."`
	Message    string       `json:"message" doc:"The reason and the notes as sentences, with what to do."`
	Blocking   bool         `json:"blocking" doc:"Whether this action must be resolved before anything is written."`
}

// planReason and planRemark are dns.Reason and dns.Note with a JSON schema.
type (
	planReason dns.Reason
	planRemark dns.Note
)

// Schema documents the reasons.
func (planReason) Schema(huma.Registry) *huma.Schema {
	return enumSchema("The reason for the action, as a word that does not change.", dns.Reasons())
}

// Schema documents the remarks.
func (planRemark) Schema(huma.Registry) *huma.Schema {
	return enumSchema("An additional remark, as a word that does not change.", dns.Notes())
}

// enumSchema returns the schema of a string that has one of these words as its value. It describes
// each word.
func enumSchema[W interface {
	~string
	Explain() string
}](about string, words []W) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Description: about + "\n"}
	for _, w := range words {
		s.Enum = append(s.Enum, string(w))
		s.Description += "\n- `" + string(w) + "`: " + w.Explain()
	}
	return s
}

// ActionOf converts an item of a DNS plan to its JSON type.
func ActionOf(item dns.Item) PlanAction {
	action := PlanAction{
		Action: string(item.Action), RecordType: string(item.Type), Name: item.Name, Observed: []string{},
		Reason: planReason(item.Reason), Notes: []planRemark{}, Message: item.Explain(), Blocking: item.Blocking,
	}
	if desired := dns.EscapeText(item.Desired); desired != "" {
		action.Desired = &desired
	}
	for _, content := range item.Observed {
		action.Observed = append(action.Observed, dns.EscapeText(content))
	}
	for _, n := range item.Notes {
		action.Notes = append(action.Notes, planRemark(n))
	}
	return action
}
