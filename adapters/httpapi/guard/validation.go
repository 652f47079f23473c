// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard/strictjson"
	"github.com/tenantry/tenantry/adapters/httpapi/refusal"
)

// checkQuery answers 400 for an invalid query parameter of the operation. A parameter is invalid if
// it is repeated, is not valid text (see queryValues), or is empty without AllowEmptyValue.
// checkQuery removes unknown parameters.
func (g *guard) checkQuery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		op := exchangeOf(r.Context()).route.op
		if op == nil {
			next.ServeHTTP(w, r)
			return
		}
		knownParams := url.Values{}
		for _, param := range op.Parameters {
			if param.In != "query" {
				continue
			}
			values, ok := queryValues(r.URL.RawQuery, param.Name)
			if !ok || len(values) > 1 || len(values) == 1 && values[0] == "" && !param.AllowEmptyValue {
				problem := "must occur once, not be empty, and be valid text"
				if param.AllowEmptyValue {
					problem = "must occur once and be valid text"
				}
				Refuse(w, r, refusal.Invalid("a query parameter is not valid", refusal.ProblemField{Location: "query." + param.Name, Message: problem}))
				return
			}
			if len(values) == 1 {
				knownParams.Set(param.Name, values[0])
			}
		}
		address := *r.URL
		address.RawQuery = knownParams.Encode()
		r.URL = &address
		next.ServeHTTP(w, r)
	})
}

// queryValues returns the values of a parameter in a raw query. ok is false if a value is not
// correctly escaped, is not UTF-8, or contains U+0000.
func queryValues(raw, name string) (values []string, ok bool) {
	for pair := range strings.SplitSeq(raw, "&") {
		escapedName, escapedValue, _ := strings.Cut(pair, "=")
		if n, err := url.QueryUnescape(escapedName); err != nil || n != name {
			continue
		}
		value, err := url.QueryUnescape(escapedValue)
		if err != nil || !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
			return nil, false
		}
		values = append(values, value)
	}
	return values, true
}

// declaredValues returns the values of the query parameters that op declares, in a raw query. It
// parses the query as checkQuery does. url.ParseQuery differs: it returns no values for a query
// with too many parameters.
func declaredValues(op *huma.Operation, raw string) url.Values {
	declared := url.Values{}
	for _, param := range op.Parameters {
		if param.In != "query" {
			continue
		}
		if values, ok := queryValues(raw, param.Name); ok && len(values) > 0 {
			declared[param.Name] = values
		}
	}
	return declared
}

// validateJSON answers 400 for a body that is not strict JSON, and if the body is missing although
// the operation needs one. It also answers 400 for a body other than {} if the operation accepts no
// body, and for an optional member that is null. Huma and the use cases validate the other members.
func (g *guard) validateJSON(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route := exchangeOf(r.Context()).route
		if route.op == nil || !mayHaveBody(route.op.Method) {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = checkBody(body, route.op.RequestBody)
		}
		if err == nil {
			err = checkNonNull(body, route.nonNull)
		}
		if err != nil {
			Refuse(w, r, err)
			return
		}
		r.Body = bufferedBody(body)
		next.ServeHTTP(w, r)
	})
}

// checkBody returns invalid_request if body is not strict JSON, or if it is empty and the operation
// needs one. If declared is nil, the operation accepts no body: body must be empty or {}.
func checkBody(body []byte, declared *huma.RequestBody) error {
	switch {
	case len(body) == 0 && declared != nil && declared.Required:
		return refusal.Invalid("the operation needs a body", refusal.ProblemField{Location: "body", Message: "missing"})
	case len(body) == 0:
		return nil
	}
	if err := strictjson.Check(body); err != nil {
		return refusal.Invalid("the body is not strict JSON", refusal.ProblemField{Location: "body", Message: err.Error()})
	}
	if declared != nil {
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil || len(members) > 0 {
		return refusal.Invalid("the operation takes no body", refusal.ProblemField{Location: "body", Message: "not empty and not {}"})
	}
	return nil
}

// nonNullMembers returns the names of the optional members that must not be null in the body of the
// operation. Huma accepts null for every optional member, as if the member were missing, but
// refuses null for a required one. An operation with SkipValidateBody checks its members itself.
func nonNullMembers(op *huma.Operation, schemas huma.Registry) []string {
	if op.RequestBody == nil || op.SkipValidateBody {
		return nil
	}
	schema := op.RequestBody.Content["application/json"].Schema
	if schema.Ref != "" {
		schema = schemas.SchemaFromRef(schema.Ref)
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if !schema.Properties[name].Nullable && !slices.Contains(schema.Required, name) {
			names = append(names, name)
		}
	}
	return names
}

// checkNonNull returns invalid_request if one of the named members of body is null.
func checkNonNull(body []byte, names []string) error {
	var members map[string]json.RawMessage
	// A body that is not an object leaves members empty. Huma refuses such a body later.
	_ = json.Unmarshal(body, &members)
	var fields []refusal.ProblemField
	for _, name := range names {
		if string(members[name]) == "null" {
			fields = append(fields, refusal.ProblemField{Location: "body." + name, Message: "must not be null"})
		}
	}
	if len(fields) > 0 {
		return refusal.Invalid("an optional member is null", fields...)
	}
	return nil
}

// setDeadline sets the time limit of the operation. An operation that can have a body continues
// when its caller disconnects, so that it completes its change. claimKey has already detached a
// write with an Idempotency-Key from its caller. Such a write ends if it loses the lease of its key
// (see keepLease).
func (g *guard) setDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route := exchangeOf(r.Context()).route
		if route.op == nil {
			next.ServeHTTP(w, r)
			return
		}
		ctx := r.Context()
		if mayHaveBody(route.op.Method) && !route.rules.Write {
			ctx = context.WithoutCancel(ctx)
		}
		ctx, cancel := context.WithTimeout(ctx, route.rules.timeout())
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
