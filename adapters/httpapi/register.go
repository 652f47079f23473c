// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/ports"
)

// terms is what an operation declares in addition to huma's own fields.
type terms struct {
	bucket bucket
	write  bool // it requires an Idempotency-Key
	// callsProviderIf reports, given the body, whether the operation calls a provider. It is set
	// for operations whose bucket does not imply a provider call.
	callsProviderIf func(body []byte) bool
	timeLimit       time.Duration // the default is requestTime
	refuses         []fault.Code  // in addition to those of every operation
	// request and answer are the examples in the document.
	request, answer any
}

const termsKey = "terms"

func (t terms) metadata() map[string]any { return map[string]any{termsKey: t} }

func termsOf(op *huma.Operation) terms {
	t, _ := op.Metadata[termsKey].(terms)
	return t
}

func (t terms) timeout() time.Duration {
	if t.timeLimit > 0 {
		return t.timeLimit
	}
	return requestTime
}

func (t terms) mayRefuse(c fault.Code) bool { return slices.Contains(t.refuses, c) }

// handler implements an operation for an authenticated caller. It returns a refusal as an error and
// sets no HTTP status.
type handler[I, O any] func(ctx context.Context, who access.Caller, in *I) (O, error)

// result is the form of an answer that huma expects.
type result[O any] struct{ Body O }

// register adds an operation to the API. Every operation is added by register.
func register[I, O any](api huma.API, op huma.Operation, h handler[I, O]) {
	t := termsOf(&op)
	op.Security = []map[string][]string{{"bearer": {}}}
	op.Responses = responses(op, t)
	if t.request != nil {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/json": {Example: t.request},
		}}
	}
	op.MaxBodyBytes = maxBody + 1 // readBody enforces the limit; huma refuses a body of exactly its limit
	op.BodyReadTimeout = -1       // readBody has read the body
	huma.Register(api, op, func(ctx context.Context, in *I) (*result[O], error) {
		out, err := h(ctx, exchangeOf(ctx).caller, in)
		if err != nil {
			return nil, refusalOf(ctx, err)
		}
		return &result[O]{Body: out}, nil
	})
}

// completingHandler implements a write whose use case takes a ports.Answer. It returns the result
// of the use case.
type completingHandler[I, R any] func(ctx context.Context, who access.Caller, in *I, answer ports.Answer[R]) (R, error)

// registerCompleting adds a write whose use case commits the answer together with its last change.
// shape makes the answer from the result of the use case, both for the caller and for the
// ports.Completion from which replays are sent.
func registerCompleting[I, R, O any](api huma.API, op huma.Operation, shape func(R) O, h completingHandler[I, R]) {
	register(api, op, func(ctx context.Context, who access.Caller, in *I) (out O, err error) {
		r, err := h(ctx, who, in, func(r R) (*ports.Completion, error) {
			return exchangeOf(ctx).run.completion(api, success(&op), shape(r))
		})
		if err != nil {
			return out, err
		}
		return shape(r), nil
	})
}

// operations registers all operations and completes the document.
func operations(api huma.API, o Options) {
	tenantOperations(api, o.Tenants)
	domainOperations(api, o.Domains)
	dnsOperations(api, o.Domains)
	provisioningOperations(api, o.DNSRuns)
	mailboxOperations(api, o.Mailboxes)
	sendLimitOperations(api, o.SendLimits)
	enforcementOperations(api, o.Enforcement)
	integrationOperations(api, o.Integrations)
	keyOperations(api, o.Keys)
	finishDocument(api.OpenAPI())
}

// success returns the status of a successful answer.
func success(op *huma.Operation) int { return cmp.Or(op.DefaultStatus, http.StatusOK) }

// operationsOf returns the operations of one path.
func operationsOf(item *huma.PathItem) []*huma.Operation {
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

// nullable is an object that is null in JSON if it is not set. It documents itself, because huma
// cannot describe an object that can be null.
type nullable[T any] struct{ object *T }

// MarshalJSON implements json.Marshaler.
func (p nullable[T]) MarshalJSON() ([]byte, error) { return json.Marshal(p.object) }

// Schema implements huma.SchemaProvider: the schema of the object, or null.
func (nullable[T]) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{r.Schema(typeOf[T](), true, ""), {Type: "null"}}}
}

// each converts the items of a list. The result is never nil, so that JSON shows [] and not null.
func each[A, B any](list []A, convert func(A) B) []B {
	converted := make([]B, 0, len(list))
	for _, item := range list {
		converted = append(converted, convert(item))
	}
	return converted
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// Huma's error model and strictness are package variables. They are set here once, before any
// operation is registered.
func init() {
	huma.ValidateStrictCasing = true
	huma.DefaultArrayNullable = false
	huma.NewError = func(int, string, ...error) huma.StatusError { return &problem{} } // only the type matters
	huma.NewErrorWithContext = func(ctx huma.Context, status int, detail string, errs ...error) huma.StatusError {
		return refusalOf(ctx.Context(), humaRefusal(status, errs))
	}
}

// newAPI returns a huma API that speaks only JSON, without huma's documentation pages and schema
// links.
func newAPI(mux *http.ServeMux) huma.API {
	config := huma.Config{
		OpenAPI:       newDocument(),
		Formats:       map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
		DefaultFormat: "application/json",
	}
	config.OnAddOperation = append(config.OnAddOperation, documentParameters)
	return humago.New(mux, config)
}

// maxFields limits how many fields one error names.
const maxFields = 10

// humaRefusal converts a validation error of huma. The guard has read the body already, so any
// other status is an internal error.
func humaRefusal(status int, errs []error) error {
	if status != http.StatusUnprocessableEntity && status != http.StatusBadRequest {
		return fault.InternalError
	}
	var fields []fault.Field
	for _, err := range errs {
		if detail, ok := err.(huma.ErrorDetailer); ok && len(fields) < maxFields {
			fields = append(fields, fieldOf(detail.ErrorDetail()))
		}
	}
	return invalid("the request does not have the form that this operation takes", fields...)
}

// safeLocation matches locations that contain only names like those of the API. Other parts come
// from the caller and could be a value in the wrong place.
var safeLocation = regexp.MustCompile(`^[a-z]+(\.[a-z0-9_]{1,40}|\[[0-9]{1,5}\])*$`)

// fieldOf returns the location and the message of a finding. It drops the value.
func fieldOf(d *huma.ErrorDetail) fault.Field {
	f := fault.Field{Location: d.Location, Message: d.Message}
	if !safeLocation.MatchString(f.Location) {
		f.Location, _, _ = strings.Cut(f.Location, ".")
	}
	if strings.HasPrefix(f.Message, "json:") {
		f.Message = "a value does not fit its member"
	}
	return f
}
