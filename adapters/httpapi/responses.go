// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/adapters/httpapi/refusal"
	"github.com/tenantry/tenantry/core/fault"
)

// responses documents the answers of an operation: the success, and each error status with its
// codes.
func responses(op huma.Operation, t guard.Terms) map[string]*huma.Response {
	all := t.Codes(op.Method)
	byStatus := map[int][]fault.Code{}
	for _, c := range fault.All() { // in the order of the table in core/fault
		if slices.Contains(all, c) {
			byStatus[refusal.StatusOf[c.Kind]] = append(byStatus[refusal.StatusOf[c.Kind]], c)
		}
	}
	done, about := strconv.Itoa(guard.SuccessStatus(&op)), "Done."
	if guard.SuccessStatus(&op) == http.StatusAccepted {
		about = "Queued."
	}
	documented := map[string]*huma.Response{done: {
		Description: about,
		Headers:     addRateHeaderRefs(map[string]*huma.Param{"X-Request-ID": requestIDRef()}),
		Content:     map[string]*huma.MediaType{"application/json": {Example: t.Answer}},
	}}
	for status, list := range byStatus {
		documented[strconv.Itoa(status)] = refusals(status, list)
		if name, ok := sharedResponses[status]; ok {
			documented[strconv.Itoa(status)] = &huma.Response{Ref: "#/components/responses/" + name}
		}
	}
	if t.Write {
		documentReplays(documented)
	}
	return documented
}

// documentReplays adds the headers that only writes have.
func documentReplays(documented map[string]*huma.Response) {
	for _, status := range []string{"200", "202", "400", "403", "404", "409"} {
		if r, ok := documented[status]; ok {
			r.Headers["Idempotency-Replayed"] = &huma.Param{Ref: "#/components/headers/Idempotency-Replayed"}
		}
	}
	documented["409"].Headers["Retry-After"] = retryAfter("Only with `idempotency_request_in_progress`: seconds after which to try again.", 1)
}

func replayedHeader() *huma.Header {
	return &huma.Param{Description: "Present when this response repeats the response to an earlier request with the same Idempotency-Key.",
		Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"true"}}, Example: "true"}
}

// sharedResponses are the statuses that mean the same in every operation, with their component
// names.
var sharedResponses = map[int]string{
	http.StatusUnauthorized: "Unauthorized", http.StatusNotAcceptable: "NotAcceptable", http.StatusRequestEntityTooLarge: "TooLarge",
	http.StatusUnsupportedMediaType: "UnsupportedMediaType", http.StatusTooManyRequests: "RateLimited", http.StatusInternalServerError: "InternalError",
}

// components returns the parts of the document that operations refer to.
func components() *huma.Components {
	c := &huma.Components{
		Schemas:   huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
		Responses: map[string]*huma.Response{},
		Examples:  map[string]*huma.Example{},
		Headers:   addRateHeaders(map[string]*huma.Header{"X-Request-ID": requestIDHeader(), "Idempotency-Replayed": replayedHeader()}),
		SecuritySchemes: map[string]*huma.SecurityScheme{"bearer": {
			Type: "http", Scheme: "bearer",
			Description: "An API key of the account: `Authorization: Bearer tny_live_…`. Treat it as opaque and keep it on your server.",
		}},
	}
	var anyOperation guard.Terms
	byStatus := map[int][]fault.Code{}
	for _, code := range anyOperation.Codes(http.MethodPost) {
		byStatus[refusal.StatusOf[code.Kind]] = append(byStatus[refusal.StatusOf[code.Kind]], code)
	}
	for status, name := range sharedResponses {
		c.Responses[name] = refusals(status, byStatus[status])
	}
	return c
}

// exampleComponents adds an example for each error code in used.
func exampleComponents(c *huma.Components, used map[string]*huma.Response) {
	for _, r := range used {
		for _, content := range r.Content {
			for name := range content.Examples {
				code, _ := fault.ByName(name)
				c.Examples[name] = &huma.Example{Summary: code.Title, Value: exampleProblem(code)}
			}
		}
	}
}

func exampleProblem(code fault.Code) *refusal.Problem {
	return refusal.Of(&fault.Error{Code: code, Detail: exampleDetail(code), Shows: exampleShows[code]}, exampleRequestID)
}

// refusals documents one error status. The schema lists the codes, so an answer with a different
// code does not validate.
func refusals(status int, list []fault.Code) *huma.Response {
	var about []string
	var names []any
	examples := map[string]*huma.Example{}
	for _, c := range list {
		about = append(about, fmt.Sprintf("- `%s`: %s", c.Name, c.About))
		names = append(names, c.Name)
		examples[c.Name] = &huma.Example{Ref: "#/components/examples/" + c.Name}
	}
	return &huma.Response{
		Description: http.StatusText(status) + "\n\n" + strings.Join(about, "\n"),
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

// exampleDetail returns the title of c with a lower-case first letter. Titles that begin with an
// acronym or a header name stay unchanged.
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
	least := 1.0
	return &huma.Param{Description: about, Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: &least}, Example: example}
}

func requestIDRef() *huma.Param { return &huma.Param{Ref: "#/components/headers/X-Request-ID"} }

func requestIDHeader() *huma.Param {
	return &huma.Param{Description: "The request's id: the one of the request if it has the allowed format, otherwise a new one.",
		Schema: &huma.Schema{Type: huma.TypeString, Pattern: guard.RequestIDPattern}, Example: exampleRequestID}
}

// rateHeaders returns the definitions of the rate limit headers. Every answer that was counted in a
// bucket has them.
func rateHeaders() map[string]*huma.Header {
	none := 0.0
	number := func(about string, example int) *huma.Header {
		return &huma.Header{Description: about, Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: &none}, Example: example}
	}
	return map[string]*huma.Header{
		"X-RateLimit-Bucket": {
			Description: "The rate limit that applied to the request.",
			Schema:      &huma.Schema{Type: huma.TypeString, Enum: []any{string(guard.Reads), string(guard.Expensive), string(guard.ProviderHeavy), string(guard.ProviderHeavyWrites), guard.ProviderConcurrency}},
			Example:     string(guard.Reads),
		},
		"X-RateLimit-Limit":     number("The number of requests that the limit allows in its window.", 600),
		"X-RateLimit-Remaining": number("The number of further requests that are allowed now.", 598),
		"X-RateLimit-Reset":     number("When the oldest counted request leaves the window, in Unix seconds.", 1_780_000_000),
	}
}

// addRateHeaders adds the definitions of the rate limit headers to a map of components.
func addRateHeaders(to map[string]*huma.Header) map[string]*huma.Header {
	maps.Copy(to, rateHeaders())
	return to
}

// addRateHeaderRefs adds references to the rate limit headers to the headers of a response.
func addRateHeaderRefs(to map[string]*huma.Param) map[string]*huma.Param {
	for name := range rateHeaders() {
		to[name] = &huma.Param{Ref: "#/components/headers/" + name}
	}
	return to
}
