// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
)

// OperationRules are the properties that an operation declares in addition to huma's own fields.
// The middleware enforces them, and the OpenAPI document describes them.
type OperationRules struct {
	Bucket Bucket
	// Scope is the scope that the API key must have, or access.NoScope.
	Scope access.Scope
	// AllTenants is true for an operation that a key which is limited to some tenants may not call.
	AllTenants bool
	// ManagesKeys is true for a write whose answer depends on all bounds of the caller's key. The
	// stored answer is replayed only to keys with the same bounds.
	ManagesKeys bool
	Write       bool // the operation requires an Idempotency-Key
	// CallsProviderIf reports whether a request with this body calls a provider. Such a request
	// counts towards Limits.MaxProviderOperations. Operations in the buckets ProviderHeavy and
	// ProviderHeavyWrites do not set it, because all their requests count.
	CallsProviderIf func(body []byte) bool
	// WaitsIf reports whether a request with this query waits for an event. Such a request counts
	// towards Limits.MaxEventWaiters.
	WaitsIf   func(query url.Values) bool
	TimeLimit time.Duration // the default is defaultTimeLimit
	Refuses   []fault.Code  // the specific error codes of this operation (see Codes)
	// Creates is the type of the object that the operation creates. The answer contains the object
	// in a member with this name, or the answer is the object. The object's id, or the name of a
	// domain, is the subject of the audit entry.
	Creates event.SubjectType
	// MediaType is the media type of a successful answer that is not JSON (see Stream).
	MediaType string
	// RequestExample and AnswerExample are the examples in the OpenAPI document.
	RequestExample, AnswerExample any
}

const rulesKey = "rules"

// Metadata returns the huma metadata of an operation with these rules.
func (r OperationRules) Metadata() map[string]any { return map[string]any{rulesKey: r} }

// RulesOf returns the rules of an operation, or zero rules for an operation without rules.
func RulesOf(op *huma.Operation) OperationRules {
	r, _ := op.Metadata[rulesKey].(OperationRules)
	return r
}

// defaultTimeLimit is the time limit of an operation that sets no TimeLimit.
const defaultTimeLimit = 55 * time.Second

func (r OperationRules) timeout() time.Duration { return cmp.Or(r.TimeLimit, defaultTimeLimit) }

func (r OperationRules) mayRefuse(c fault.Code) bool { return slices.Contains(r.Refuses, c) }

// commonCodes are the error codes of every operation. Operations with a scope also have
// insufficient_scope, writes also have writeCodes, and operations whose requests can have a body
// also have bodyCodes.
var (
	commonCodes = []fault.Code{fault.InvalidAuthHeader, fault.MissingAPIKey, fault.InvalidAPIKey, fault.NoAPIPlan,
		fault.WrongAccept, fault.RateLimitExceeded, fault.InternalError, fault.ServiceUnavailable}
	writeCodes = []fault.Code{fault.KeyRequired, fault.InvalidKey, fault.KeyInProgress, fault.KeyConflict}
	bodyCodes  = []fault.Code{fault.InvalidRequest, fault.WrongMedia, fault.BodyTooLarge}
)

// Codes returns all error codes of an operation with these rules and this method. The codes of the
// middleware are included.
func (r OperationRules) Codes(method string) []fault.Code {
	codes := slices.Concat(r.Refuses, commonCodes)
	if r.Scope != access.NoScope {
		codes = append(codes, fault.InsufficientScope)
	}
	if mayHaveBody(method) {
		codes = append(codes, bodyCodes...)
	}
	if r.Write {
		codes = append(codes, writeCodes...)
	}
	return codes
}

// SuccessStatus returns the status of a successful answer.
func SuccessStatus(op *huma.Operation) int { return cmp.Or(op.DefaultStatus, http.StatusOK) }

// OperationsOf returns the operations of one path.
func OperationsOf(item *huma.PathItem) []*huma.Operation {
	var ops []*huma.Operation
	for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
		if op != nil {
			ops = append(ops, op)
		}
	}
	return ops
}

func mayHaveBody(method string) bool { return method != http.MethodGet }
