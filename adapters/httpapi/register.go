// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
)

// terms is what an operation declares beside huma's own fields.
type terms struct {
	bucket bucket
	write  bool // it takes an Idempotency-Key
	// sometimes tells from the body whether an operation calls the provider
	// of which the bucket does not say so.
	sometimes func(body []byte) bool
	within    time.Duration // requestTime unless set
	refuses   []fault.Code  // beside those that every operation has
	// request and answer are the examples in the document.
	request, answer any
}

const termsKey = "terms"

func (t terms) metadata() map[string]any { return map[string]any{termsKey: t} }

func termsOf(op *huma.Operation) terms {
	t, _ := op.Metadata[termsKey].(terms)
	return t
}

func (t terms) time() time.Duration {
	if t.within > 0 {
		return t.within
	}
	return requestTime
}

func (t terms) mayRefuse(c fault.Code) bool { return slices.Contains(t.refuses, c) }

// handler answers an authenticated caller. It returns refusals as errors and
// mentions no status.
type handler[I, O any] func(ctx context.Context, who access.Caller, in *I) (O, error)

// result is huma's form of an answer.
type result[O any] struct{ Body O }

// register is the one door through which operations enter the API.
func register[I, O any](api huma.API, op huma.Operation, h handler[I, O]) {
	t := termsOf(&op)
	op.Security = []map[string][]string{{"bearer": {}}}
	op.Responses = responses(op, t)
	if t.request != nil {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/json": {Example: t.request},
		}}
	}
	op.MaxBodyBytes = maxBody + 1 // the guard has measured it; huma refuses its own limit too
	op.BodyReadTimeout = -1       // the guard has read it
	huma.Register(api, op, func(ctx context.Context, in *I) (*result[O], error) {
		out, err := h(ctx, exchangeOf(ctx).caller, in)
		if err != nil {
			return nil, refusalOf(ctx, err)
		}
		return &result[O]{Body: out}, nil
	})
}

// operations registers all of them.
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
	finish(api.OpenAPI())
}

// success is the status of an operation that was done.
func success(op *huma.Operation) int { return cmp.Or(op.DefaultStatus, http.StatusOK) }

// operationsOf lists the operations of one path.
func operationsOf(item *huma.PathItem) []*huma.Operation {
	var ops []*huma.Operation
	for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
		if op != nil {
			ops = append(ops, op)
		}
	}
	return ops
}

// hasBody reports whether requests with the method may have a body.
func hasBody(method string) bool { return method != http.MethodGet }
