// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/core/fault"
)

// Terms holds what an operation declares in addition to huma's own fields. The middleware enforces
// the terms, and the OpenAPI document describes them.
type Terms struct {
	Bucket Bucket
	Write  bool // the operation requires an Idempotency-Key
	// CallsProviderIf reports whether a request with this body calls a provider. It is set for
	// operations whose bucket does not imply a provider call.
	CallsProviderIf func(body []byte) bool
	TimeLimit       time.Duration // the default is requestTime
	Refuses         []fault.Code  // the error codes of this operation, see Codes
	// OptionalBody is true if a request may have no body.
	OptionalBody bool
	// Request and Answer are the examples in the OpenAPI document.
	Request, Answer any
}

const termsKey = "terms"

// Metadata returns the huma metadata of an operation with these terms.
func (t Terms) Metadata() map[string]any { return map[string]any{termsKey: t} }

// TermsOf returns the terms of an operation, or zero Terms for an operation without terms.
func TermsOf(op *huma.Operation) Terms {
	t, _ := op.Metadata[termsKey].(Terms)
	return t
}

// requestTime is the default time limit of an operation.
const requestTime = 55 * time.Second

func (t Terms) timeout() time.Duration { return cmp.Or(t.TimeLimit, requestTime) }

func (t Terms) mayRefuse(c fault.Code) bool { return slices.Contains(t.Refuses, c) }

// commonCodes are the error codes of every operation. Writes also have writeCodes. Operations whose
// requests can have a body also have bodyCodes.
var (
	commonCodes = []fault.Code{fault.InvalidAuthHeader, fault.MissingAPIKey, fault.InvalidAPIKey, fault.NoAPIPlan,
		fault.WrongAccept, fault.RateLimitExceeded, fault.InternalError, fault.ServiceUnavailable}
	writeCodes = []fault.Code{fault.KeyRequired, fault.InvalidKey, fault.KeyInProgress, fault.KeyConflict}
	bodyCodes  = []fault.Code{fault.InvalidRequest, fault.WrongMedia, fault.BodyTooLarge}
)

// Codes returns all error codes of an operation with these terms and this method. The codes of the
// middleware are included.
func (t Terms) Codes(method string) []fault.Code {
	all := slices.Concat(t.Refuses, commonCodes)
	if hasBody(method) {
		all = append(all, bodyCodes...)
	}
	if t.Write {
		all = append(all, writeCodes...)
	}
	return all
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

// hasBody reports whether requests with the method can have a body.
func hasBody(method string) bool { return method != http.MethodGet }
