// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tenantry/tenantry/adapters/httpapi/strictjson"
	"github.com/tenantry/tenantry/core/fault"
)

// query refuses known parameters that are given twice, no text, or empty where
// that says nothing, and drops unknown ones.
func (g *guard) query(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		op := exchangeOf(r.Context()).route.op
		if op == nil {
			next.ServeHTTP(w, r)
			return
		}
		known := url.Values{}
		for _, p := range op.Parameters {
			if p.In != "query" {
				continue
			}
			values, ok := given(r.URL.RawQuery, p.Name)
			if !ok || len(values) > 1 || len(values) == 1 && values[0] == "" && !p.AllowEmptyValue {
				why := "given more than once, empty, or not text"
				if p.AllowEmptyValue {
					why = "given more than once, or not text"
				}
				refuse(w, r, invalid("a query parameter is not valid", fault.Field{Location: "query." + p.Name, Message: why}))
				return
			}
			if len(values) == 1 {
				known.Set(p.Name, values[0])
			}
		}
		address := *r.URL
		address.RawQuery = known.Encode()
		r.URL = &address
		next.ServeHTTP(w, r)
	})
}

// given returns the values of one parameter and whether all of them are text.
func given(raw, name string) (values []string, ok bool) {
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

// strict refuses bodies that are no strict JSON, and any content where the
// operation takes none. What the fields are is huma's and core's business.
func (g *guard) strict(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		op := exchangeOf(r.Context()).route.op
		if op == nil || !hasBody(op.Method) {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = checkBody(body, op.RequestBody != nil)
		}
		if err != nil {
			refuse(w, r, err)
			return
		}
		r.Body = held(body)
		next.ServeHTTP(w, r)
	})
}

func checkBody(body []byte, wanted bool) error {
	switch {
	case len(body) == 0 && wanted:
		return invalid("the operation needs a body", fault.Field{Location: "body", Message: "missing"})
	case len(body) == 0:
		return nil
	}
	if err := strictjson.Check(body); err != nil {
		return invalid("the body is not strict JSON", fault.Field{Location: "body", Message: err.Error()})
	}
	if wanted {
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil || len(members) > 0 {
		return invalid("the operation takes no body", fault.Field{Location: "body", Message: "not empty and not {}"})
	}
	return nil
}

func invalid(detail string, fields ...fault.Field) error {
	return fault.InvalidRequest.At(detail, fields...)
}

// deadline gives the operation its time. A write is not broken off when its
// caller goes away: half a write helps nobody.
func (g *guard) deadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route := exchangeOf(r.Context()).route
		if route.op == nil {
			next.ServeHTTP(w, r)
			return
		}
		ctx := r.Context()
		if hasBody(route.op.Method) {
			ctx = context.WithoutCancel(ctx)
		}
		ctx, cancel := context.WithTimeout(ctx, route.terms.time())
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// The time that operations get.
const (
	requestTime = 55 * time.Second
	syncTime    = 110 * time.Second
)
