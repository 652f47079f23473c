// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/adapters/httpapi/refusal"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
)

// Describe documents an operation from its guard.OperationRules: the API key and its scope, the
// example of the request body, and the answers.
func Describe(op *huma.Operation) {
	rules := guard.RulesOf(op)
	scopes := []string{}
	if rules.Scope != access.NoScope {
		scopes = append(scopes, string(rules.Scope))
		op.Extensions = map[string]any{"x-required-scope": string(rules.Scope)}
	}
	op.Security = []map[string][]string{{"bearer": scopes}}
	op.Responses = responses(op, rules)
	if rules.RequestExample != nil {
		op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{
			"application/json": {Example: rules.RequestExample},
		}}
	}
}

// responses returns the documentation of an operation's answers: the success, and each error status
// with its codes.
func responses(op *huma.Operation, rules guard.OperationRules) map[string]*huma.Response {
	codes := rules.Codes(op.Method)
	byStatus := map[int][]fault.Code{}
	for _, c := range fault.All() {
		if slices.Contains(codes, c) {
			byStatus[refusal.StatusOf[c.Kind]] = append(byStatus[refusal.StatusOf[c.Kind]], c)
		}
	}
	success, description := strconv.Itoa(guard.SuccessStatus(op)), "Done."
	if guard.SuccessStatus(op) == http.StatusAccepted {
		description = "Queued."
	}
	documented := map[string]*huma.Response{success: {
		Description: description,
		Headers:     addRateHeaderRefs(map[string]*huma.Param{"X-Request-ID": requestIDRef()}),
		Content:     map[string]*huma.MediaType{"application/json": {Example: rules.AnswerExample}},
	}}
	if rules.MediaType != "" {
		// The media type is JSON Lines. It gets no schema, because OpenAPI 3.1 would apply a schema
		// to the whole answer and not to each line.
		documented[success].Content = map[string]*huma.MediaType{rules.MediaType: {Example: rules.AnswerExample}}
	}
	for status, list := range byStatus {
		documented[strconv.Itoa(status)] = refusals(status, list)
		if name, ok := sharedResponses[status]; ok {
			documented[strconv.Itoa(status)] = &huma.Response{Ref: "#/components/responses/" + name}
		}
	}
	if rules.Write {
		documentReplays(documented)
	}
	return documented
}

// documentReplays adds the headers that only answers to writes have.
func documentReplays(documented map[string]*huma.Response) {
	for _, status := range []string{"200", "202", "400", "403", "404", "409"} {
		if r, ok := documented[status]; ok {
			r.Headers["Idempotency-Replayed"] = &huma.Param{Ref: "#/components/headers/Idempotency-Replayed"}
		}
	}
	documented["409"].Headers["Retry-After"] = retryAfter("Only with `idempotency_request_in_progress`: seconds after which to try again.", 1)
}

// DescribeParameters replaces the parameters that huma derived from an input type with the
// parameters in docs. A key of docs is a parameter's name, or "operation-id.name" for one
// operation. DescribeParameters also adds the header parameters.
func DescribeParameters(operation *huma.Operation, docs map[string]huma.Param) {
	for i, p := range operation.Parameters {
		param, specific := docs[operation.OperationID+"."+p.Name]
		if !specific {
			param = docs[p.Name]
		}
		param.Name, param.In, param.Required = p.Name, p.In, p.Required
		operation.Parameters[i] = &param
	}
	if guard.RulesOf(operation).Write {
		minLength, maxLength := 1, 255
		operation.Parameters = append(operation.Parameters, &huma.Param{
			Name: "Idempotency-Key", In: "header", Required: true,
			Description: "A string of your choice, new for each new operation. After a success, and after most refusals by a provider, " +
				"the same request with the same key gets the same response for 24 hours, and the operation is not executed again. " +
				"After a 5xx, send the same request with the same key again.",
			Schema:  &huma.Schema{Type: huma.TypeString, MinLength: &minLength, MaxLength: &maxLength, Pattern: "^[!-~]+$"},
			Example: "3f1c9c1e-add-domain",
		})
	}
	operation.Parameters = append(operation.Parameters, &huma.Param{
		Name: "X-Request-ID", In: "header",
		Description: "An id of your choice for this request. The response contains the id if it has this format, and otherwise a new id.",
		Schema:      &huma.Schema{Type: huma.TypeString, Pattern: guard.RequestIDPattern},
		Example:     exampleRequestID,
	})
}
