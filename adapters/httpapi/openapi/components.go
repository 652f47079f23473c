// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/adapters/httpapi/refusal"
	"github.com/tenantry/tenantry/core/fault"
)

// sharedResponses names the response components of some error statuses. Each of these statuses has
// the same error codes in all operations that can answer with it, so these operations share a
// component.
var sharedResponses = map[int]string{
	http.StatusUnauthorized: "Unauthorized", http.StatusNotAcceptable: "NotAcceptable", http.StatusRequestEntityTooLarge: "TooLarge",
	http.StatusUnsupportedMediaType: "UnsupportedMediaType", http.StatusTooManyRequests: "RateLimited", http.StatusInternalServerError: "InternalError",
}

// components returns the parts of the document to which operations refer.
func components() *huma.Components {
	headers := rateHeaders()
	headers["X-Request-ID"] = requestIDHeader()
	headers["Idempotency-Replayed"] = replayedHeader()
	c := &huma.Components{
		Schemas:   huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
		Responses: map[string]*huma.Response{},
		Examples:  map[string]*huma.Example{},
		Headers:   headers,
		SecuritySchemes: map[string]*huma.SecurityScheme{"bearer": {
			Type: "http", Scheme: "bearer",
			Description: "An API key of the account: `Authorization: Bearer tny_live_…`. Treat it as opaque and keep it on your server.",
		}},
	}
	var anyOperation guard.OperationRules
	byStatus := map[int][]fault.Code{}
	for _, code := range anyOperation.Codes(http.MethodPost) {
		byStatus[refusal.StatusOf[code.Kind]] = append(byStatus[refusal.StatusOf[code.Kind]], code)
	}
	for status, name := range sharedResponses {
		c.Responses[name] = refusals(status, byStatus[status])
	}
	return c
}

// addExamples adds to c an example for each error code of the documented responses. See Finish for
// values.
func addExamples(c *huma.Components, documented map[string]*huma.Response, values map[fault.Code]any) {
	for _, r := range documented {
		for _, content := range r.Content {
			for name := range content.Examples {
				code, _ := fault.ByName(name)
				f := &fault.Error{Code: code, Detail: exampleDetail(code), Values: values[code]}
				c.Examples[name] = &huma.Example{Summary: code.Title, Value: refusal.ProblemOf(f, exampleRequestID)}
			}
		}
	}
}

// refusals returns the documentation of one error status with its codes. The schema lists the
// codes, so that a client which validates answers detects an undocumented code.
func refusals(status int, codes []fault.Code) *huma.Response {
	var descriptions []string
	var names []any
	examples := map[string]*huma.Example{}
	for _, c := range codes {
		descriptions = append(descriptions, fmt.Sprintf("- `%s`: %s", c.Name, c.About))
		names = append(names, c.Name)
		examples[c.Name] = &huma.Example{Ref: "#/components/examples/" + c.Name}
	}
	return &huma.Response{
		Description: http.StatusText(status) + "\n\n" + strings.Join(descriptions, "\n"),
		Headers:     refusalHeaders(status),
		Content: map[string]*huma.MediaType{"application/problem+json": {
			Schema: &huma.Schema{AllOf: []*huma.Schema{
				{Ref: "#/components/schemas/Problem"},
				{Type: huma.TypeObject, Properties: map[string]*huma.Schema{"code": {Type: huma.TypeString, Enum: names}}},
			}},
			Examples: examples,
		}},
	}
}

// exampleDetail returns the title of c with a lower-case first letter. It does not change titles
// that begin with an acronym or a header name.
func exampleDetail(c fault.Code) string {
	first, _, _ := strings.Cut(c.Title, " ")
	if strings.ToLower(first[1:]) != first[1:] {
		return c.Title
	}
	return strings.ToLower(c.Title[:1]) + c.Title[1:]
}

const exampleRequestID = "req-7f3c2a"

func refusalHeaders(status int) map[string]*huma.Param {
	headers := map[string]*huma.Param{"X-Request-ID": requestIDRef()}
	if status == http.StatusUnauthorized {
		headers["WWW-Authenticate"] = &huma.Param{Description: "The scheme to use.",
			Schema: &huma.Schema{Type: huma.TypeString}, Example: "Bearer"}
	}
	if status == http.StatusTooManyRequests {
		headers["Retry-After"] = retryAfter("Seconds after which the request would be allowed.", 7)
		addRateHeaderRefs(headers)
	}
	if status == http.StatusServiceUnavailable {
		headers["Retry-After"] = retryAfter("Seconds after which to try again.", 10)
	}
	return headers
}

func retryAfter(about string, example int) *huma.Param {
	minimum := 1.0
	return &huma.Param{Description: about, Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: &minimum}, Example: example}
}

func requestIDRef() *huma.Param { return &huma.Param{Ref: "#/components/headers/X-Request-ID"} }

func requestIDHeader() *huma.Param {
	return &huma.Param{Description: "The X-Request-ID of the request if it has the allowed format, otherwise a new id.",
		Schema: &huma.Schema{Type: huma.TypeString, Pattern: guard.RequestIDPattern}, Example: exampleRequestID}
}

func replayedHeader() *huma.Header {
	return &huma.Param{Description: "Present when this response repeats the response to an earlier request with the same Idempotency-Key.",
		Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"true"}}, Example: "true"}
}

func rateHeaders() map[string]*huma.Header {
	zero := 0.0
	number := func(about string, example int) *huma.Header {
		return &huma.Header{Description: about, Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: &zero}, Example: example}
	}
	return map[string]*huma.Header{
		"X-RateLimit-Bucket": {
			Description: "The rate limit that applied to the request.",
			Schema:      &huma.Schema{Type: huma.TypeString, Enum: bucketNames()},
			Example:     string(guard.Reads),
		},
		"X-RateLimit-Limit":     number("The number of requests that the limit allows in its window, or at once.", 600),
		"X-RateLimit-Remaining": number("The number of further requests that are allowed now.", 598),
		"X-RateLimit-Reset":     number("In Unix seconds, when the oldest counted request leaves the window. If too many requests run at once, when to try again.", 1_780_000_000),
	}
}

// bucketNames returns the values of X-RateLimit-Bucket.
func bucketNames() []any {
	var names []any
	for _, b := range guard.Buckets() {
		names = append(names, string(b))
	}
	return append(names, guard.ProviderConcurrency, guard.EventWaiters, guard.DeniedRequests)
}

// addRateHeaderRefs adds references to the rate limit headers to the map, and returns the map.
func addRateHeaderRefs(headers map[string]*huma.Param) map[string]*huma.Param {
	for name := range rateHeaders() {
		headers[name] = &huma.Param{Ref: "#/components/headers/" + name}
	}
	return headers
}
