// SPDX-License-Identifier: Apache-2.0

package graph_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/graph"
)

// TestErrorResponsesBecomeOutcomes covers errors of Graph, and answers that are not from Graph.
func TestErrorResponsesBecomeOutcomes(t *testing.T) {
	for name, tc := range map[string]struct {
		status   int
		body     string
		kind     outcome.Kind
		code     fault.Code
		cause    string
		requests int // number of requests for one read
	}{
		"bad request":                {400, `{"error":{"code":"Request_BadRequest","message":"m"}}`, outcome.Refused, fault.ProviderError, "graph BadRequest Request_BadRequest", 1},
		"bad filter":                 {400, `{"error":{"code":"Request_UnsupportedQuery"}}`, outcome.Refused, fault.ProviderError, "graph BadRequest Request_UnsupportedQuery", 1},
		"token":                      {401, `{"error":{"code":"InvalidAuthenticationToken"}}`, outcome.Refused, fault.AccessDenied, "graph Unauthorized InvalidAuthenticationToken", 2},
		"permission":                 {403, `{"error":{"code":"Authorization_RequestDenied"}}`, outcome.Refused, fault.AccessDenied, "graph Forbidden Authorization_RequestDenied", 2},
		"not found":                  {404, `{"error":{"code":"Request_ResourceNotFound"}}`, outcome.Refused, fault.ProviderError, "graph NotFound Request_ResourceNotFound", 1},
		"conflict":                   {409, `{"error":{"code":"Request_MultipleObjectsWithSameKeyValue"}}`, outcome.Refused, fault.ProviderError, "graph Conflict Request_MultipleObjectsWithSameKeyValue", 1},
		"gone":                       {410, `{"error":{"code":"Gone"}}`, outcome.Refused, fault.ProviderError, "graph Gone Gone", 1},
		"404 that is not from Graph": {404, `<html>`, outcome.Broken, fault.ProviderError, "graph NotFound", 1},
		"409 without JSON":           {409, `<html>`, outcome.Refused, fault.ProviderError, "graph Conflict", 1},
		"request timeout":            {408, `{"error":{"code":"RequestTimeout"}}`, outcome.Unknown, fault.ProviderTimeout, "408 graph RequestTimeout", 3},
		"throttled":                  {429, `{"error":{"code":"TooManyRequests","innerError":{"code":"429"}}}`, outcome.Throttled, fault.ProviderUnavailable, "429 graph TooManyRequests", 3},
		"internal":                   {500, `{"error":{"code":"InternalServerError"}}`, outcome.Broken, fault.ProviderError, "500 graph InternalServerError", 3},
		"gateway":                    {502, `{"error":{"code":"BadGateway"}}`, outcome.Broken, fault.ProviderError, "502 graph BadGateway", 3},
		"unavailable":                {503, `{"error":{"code":"serviceUnavailable"}}`, outcome.Down, fault.ProviderUnavailable, "503 graph serviceUnavailable", 3},
		"timeout":                    {504, `{"error":{"code":"UnknownError"}}`, outcome.Unknown, fault.ProviderTimeout, "504 graph UnknownError", 3},
		"a proxy's page":             {502, `<html>anna@customer.example`, outcome.Broken, fault.ProviderError, "502 graph", 3},
		"OAuth form":                 {400, `{"error":"invalid_grant","error_description":"AADSTS1 customer.example"}`, outcome.Refused, fault.ProviderError, "graph BadRequest invalid_grant", 1},
		"no code":                    {400, `{"error":{"message":"customer.example"}}`, outcome.Refused, fault.ProviderError, "graph BadRequest", 1},
		"empty":                      {403, ``, outcome.Refused, fault.AccessDenied, "graph Forbidden", 2},
		"a redirect":                 {302, ``, outcome.Broken, fault.ProviderError, "graph Found", 1},
		"an address as code":         {400, `{"error":{"code":"anna@customer.example"}}`, outcome.Refused, fault.ProviderError, "graph BadRequest", 1},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			c := newFakeGraph(t, func(w http.ResponseWriter, _ *http.Request) {
				requests++
				w.WriteHeader(tc.status)
				_, _ = w.Write([]byte(tc.body))
			})
			// A token must be cached, because only a cached token is replaced after a 401 or 403.
			if _, err := c.Tokens.Token(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, err := graph.Get[thing](t.Context(), c, things, "")
			var result *outcome.Error
			if !errors.As(err, &result) || result.Kind != tc.kind || !errors.Is(err, tc.code) || result.Cause != tc.cause {
				t.Fatalf("got %v (cause %q), want %s %s (cause %q)", err, result.Cause, tc.kind, tc.code.Name, tc.cause)
			}
			if requests != tc.requests {
				t.Fatalf("%d requests, want %d", requests, tc.requests)
			}
		})
	}
}

func TestMessageContainsSearchesTextCodesAndTargets(t *testing.T) {
	body := `{"error":{"code":"Request_BadRequest","message":"A Conflicting object is present",
		"details":[{"code":"ConflictingObjects","target":"PasswordProfile","message":"Weak"}]}}`
	c := newFakeGraph(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(body))
	})
	_, err := graph.Get[thing](t.Context(), c, things, "")
	for words, want := range map[string]bool{
		"conflicting object": true, "passwordprofile": true, "conflictingobjects": true, "weak": true, "request_badrequest": true, "verified": false,
	} {
		if graph.MessageContains(fmt.Errorf("wrapped: %w", err), words) != want {
			t.Errorf("MessageContains(%q) is %v, want %v", words, !want, want)
		}
	}
	if graph.MessageContains(context.Canceled, "") || graph.Status(context.Canceled) != 0 || graph.Status(err) != 400 {
		t.Error("context.Canceled counts as an error of Graph, or the error of Graph does not have the status 400")
	}
}
