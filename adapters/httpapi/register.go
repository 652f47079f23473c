// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/adapters/httpapi/openapi"
	"github.com/tenantry/tenantry/adapters/httpapi/refusal"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/ports"
)

// handler implements an operation for an authenticated caller. It returns a refusal as an error and
// sets no HTTP status.
type handler[I, O any] func(ctx context.Context, caller access.Caller, in *I) (O, error)

// result is the form of an answer that huma expects.
type result[O any] struct{ Body O }

// register adds an operation to the API. Every operation is added by register.
func register[I, O any](api huma.API, op huma.Operation, h handler[I, O]) {
	openapi.Describe(&op)
	op.MaxBodyBytes = guard.MaxBody + 1 // readBody of package guard enforces MaxBody. Huma refuses a body of exactly its limit.
	op.BodyReadTimeout = -1             // readBody of package guard has read the body
	huma.Register(api, op, func(ctx context.Context, in *I) (*result[O], error) {
		body, err := h(ctx, guard.Caller(ctx), in)
		if err != nil {
			return nil, guard.RefusalOf(ctx, err)
		}
		return &result[O]{Body: body}, nil
	})
}

// registerConverting adds an operation. shape makes the answer from the result of the use case.
func registerConverting[I, R, O any](api huma.API, op huma.Operation, shape func(R) O, h handler[I, R]) {
	register(api, op, func(ctx context.Context, caller access.Caller, in *I) (body O, err error) {
		r, err := h(ctx, caller, in)
		if err != nil {
			return body, err
		}
		return shape(r), nil
	})
}

// stream sends the parts of an answer that is too long to be kept in memory. If it returns an
// error, the caller's connection is closed.
type stream func(send func(part []byte) error) error

// registerStream adds a read whose answer is a stream. The handler must return all refusals,
// because no refusal can be sent after the stream has begun.
func registerStream[I any](api huma.API, op huma.Operation, h handler[I, stream]) {
	register(api, op, func(ctx context.Context, caller access.Caller, in *I) (func(huma.Context), error) {
		parts, err := h(ctx, caller, in)
		return func(hc huma.Context) {
			hc.SetHeader("Content-Type", guard.RulesOf(&op).MediaType)
			guard.Stream(ctx, hc.BodyWriter(), parts)
		}, err
	})
}

// platformCodes are error codes of most operations that call the mail platform. sendingCodes are
// error codes of operations that call a sending platform.
var (
	platformCodes = []fault.Code{fault.AccessDenied, fault.ProviderError, fault.ProviderUnavailable, fault.ProviderTimeout}
	sendingCodes  = []fault.Code{fault.ProviderError, fault.ProviderUnavailable, fault.ProviderTimeout}
)

func codes(lists ...[]fault.Code) []fault.Code { return slices.Concat(lists...) }

func specificCodes(list ...fault.Code) []fault.Code { return list }

// answerStoringHandler implements a write whose use case takes a ports.AnswerEncoder. It returns
// the result of the use case.
type answerStoringHandler[I, R any] func(ctx context.Context, caller access.Caller, in *I, encoder ports.AnswerEncoder[R]) (R, error)

// registerWithStoredAnswer adds a write whose use case commits the answer together with its last
// change. shape makes the answer, which is sent to the caller and stored in a ports.StoredAnswer
// for replays.
func registerWithStoredAnswer[I, R, O any](api huma.API, op huma.Operation, shape func(R) O, h answerStoringHandler[I, R]) {
	registerConverting(api, op, shape, func(ctx context.Context, caller access.Caller, in *I) (R, error) {
		return h(ctx, caller, in, func(r R) (*ports.StoredAnswer, error) { return guard.StoredAnswer(ctx, api, &op, shape(r)) })
	})
}

// registerOperations registers all operations and completes the OpenAPI document.
func registerOperations(api huma.API, options Options) {
	registerTenantOperations(api, options.Tenants)
	registerDomainOperations(api, options.Domains)
	registerDNSOperations(api, options.Domains)
	registerProvisioningOperations(api, options.DNSRuns)
	registerMailboxOperations(api, options.Mailboxes)
	registerSendLimitOperations(api, options.SendLimits)
	registerEnforcementOperations(api, options.Enforcement)
	registerIntegrationOperations(api, options.Integrations)
	registerEventOperations(api, options.Events)
	registerWebhookOperations(api, options.Webhooks)
	registerKeyOperations(api, options.Guard.Keys)
	registerDescribeCaller(api, options)
	registerAuditOperations(api, options.Audit)
	openapi.Finish(api.OpenAPI(), exampleValues)
}

// nullable is an object that is null in JSON if it is not set. It defines its own schema, because
// huma cannot describe an object that can be null.
type nullable[T any] struct{ object *T }

// MarshalJSON implements json.Marshaler.
func (n nullable[T]) MarshalJSON() ([]byte, error) { return json.Marshal(n.object) }

// Schema implements huma.SchemaProvider: the schema of the object, or null.
func (nullable[T]) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{r.Schema(reflect.TypeFor[T](), true, ""), {Type: "null"}}}
}

// convertAll converts the items of a list. It returns an empty list for nil, so that JSON has []
// and not null.
func convertAll[A, B any](list []A, convert func(A) B) []B {
	converted := make([]B, 0, len(list))
	for _, item := range list {
		converted = append(converted, convert(item))
	}
	return converted
}

// The error type and the strictness of huma are variables of its package. They are set here, once,
// before any operation is registered.
func init() {
	huma.ValidateStrictCasing = true
	huma.DefaultArrayNullable = false
	huma.NewError = func(int, string, ...error) huma.StatusError { return &refusal.Problem{} } // huma derives the schema of errors from the type of the result
	huma.NewErrorWithContext = func(ctx huma.Context, status int, detail string, errs ...error) huma.StatusError {
		return guard.RefusalOf(ctx.Context(), humaRefusal(status, errs))
	}
}

// newAPI returns a huma API that speaks only JSON, without huma's documentation pages and schema
// links.
func newAPI(mux *http.ServeMux) huma.API {
	config := huma.Config{
		OpenAPI:       openapi.New(tags),
		Formats:       map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
		DefaultFormat: "application/json",
	}
	config.OnAddOperation = append(config.OnAddOperation, func(_ *huma.OpenAPI, op *huma.Operation) {
		openapi.DescribeParameters(op, parameterDocs)
	})
	return humago.New(mux, config)
}

// maxFields limits how many fields one error names.
const maxFields = 10

// humaRefusal converts a validation error of huma. Package guard has already refused every other
// invalid request, so any other status is an internal error.
func humaRefusal(status int, errs []error) error {
	if status != http.StatusUnprocessableEntity && status != http.StatusBadRequest {
		return fault.InternalError
	}
	var fields []refusal.ProblemField
	for _, err := range errs {
		if detail, ok := err.(huma.ErrorDetailer); ok && len(fields) < maxFields {
			fields = append(fields, fieldOf(detail.ErrorDetail()))
		}
	}
	return refusal.Invalid("the request does not have the form that this operation takes", fields...)
}

// decodeObject returns the members of a JSON object. It returns nil if raw is not an object.
func decodeObject(raw []byte) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return nil
	}
	return members
}

// decodeNonNull decodes a member that must not be null, and reports whether its value is valid.
func decodeNonNull[T any](raw json.RawMessage, into **T) bool {
	return json.Unmarshal(raw, into) == nil && *into != nil
}

// unknownMembers returns at most maxFields members that are not allowed, in the form in which huma
// reports them for other bodies.
func unknownMembers(members map[string]json.RawMessage, allowed ...string) []refusal.ProblemField {
	var fields []refusal.ProblemField
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(allowed, name) && len(fields) < maxFields {
			fields = append(fields, fieldOf(&huma.ErrorDetail{Location: "body." + name, Message: "unexpected property"}))
		}
	}
	return fields
}

// safeLocation matches locations whose names have the form of the names in this API. A name of a
// different form comes from the caller, and may be a secret that was put in the wrong place.
var safeLocation = regexp.MustCompile(`^[a-z]+(\.[a-z0-9_]{1,40}|\[[0-9]{1,5}\])*$`)

// fieldOf returns the location and the message of a validation error. It omits the value.
func fieldOf(d *huma.ErrorDetail) refusal.ProblemField {
	f := refusal.ProblemField{Location: d.Location, Message: d.Message}
	if !safeLocation.MatchString(f.Location) {
		f.Location, _, _ = strings.Cut(f.Location, ".")
	}
	if strings.HasPrefix(f.Message, "json:") {
		f.Message = "a value does not have the type of its member"
	}
	return f
}
