// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// platformNow is the current time of the platforms that platformThatAnswers returns.
var platformNow = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

// platformThatAnswers returns a platform whose server sends the same answer to every request.
func platformThatAnswers(t *testing.T, header http.Header, status int, body string) *platform {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range header {
			w.Header()[name] = values
		}
		reply(w, status, body)
	}))
	t.Cleanup(server.Close)
	state := newProcessState()
	state.now = func() time.Time { return platformNow }
	sendingPlatform, err := state.newPlatform(sdk.Connection{Settings: map[string]string{"base_url": server.URL}, Secrets: map[string]sdk.Secret{"api_key": sdk.NewSecret("k")}})
	if err != nil {
		t.Fatal(err)
	}
	return sendingPlatform.(*platform)
}

// TestErrorAnswersAreClassified covers the three error formats, and errors with status 200.
func TestErrorAnswersAreClassified(t *testing.T) {
	reset := http.Header{"X-Ratelimit-Reset": {strconv.FormatInt(platformNow.Add(20*time.Second).Unix(), 10)}}
	for _, tc := range []struct {
		name   string
		header http.Header
		status int
		body   string
		want   sdk.OutcomeKind
		code   string
		wait   time.Duration
	}{
		{"a bad key", nil, 401, `{"message":"Invalid API Key"}`, sdk.Refused, "access_denied", 0},
		{"a bad key as a bad request", nil, 400, `{"error":"Bad Request","message":"Invalid API key."}`, sdk.Refused, "access_denied", 0},
		{"a bad key with 200", nil, 200, `{"success":false,"error":{"code":"UNAUTHORIZED","message":"Invalid API Key"}}`, sdk.Refused, "access_denied", 0},
		{"a bad key with 400, by its code", nil, 400, `{"error":{"code":"UNAUTHORIZED","message":"x"}}`, sdk.Refused, "access_denied", 0},
		{"a code with a text about a key", nil, 422, `{"error":{"code":"VALIDATION_ERROR","message":"The API key of the SMTP relay is missing"}}`, sdk.Refused, "provider_error", 0},
		{"an errorCode with a text about a key", nil, 400, `{"ok":false,"message":"api_key of the webhook is too long","errorCode":"INVALID_FIELD"}`, sdk.Refused, "provider_error", 0},
		{"a code with 200 and a text about a key", nil, 200, `{"success":false,"error":{"code":"INTERNAL_ERROR","message":"no API key in the cache"}}`, sdk.Broken, "", 0},
		{"no plan", nil, 402, `{"error":"plan"}`, sdk.Refused, "access_denied", 0},
		{"not allowed", nil, 403, `{"message":"Forbidden"}`, sdk.Refused, "access_denied", 0},
		{"the page of a firewall", nil, 403, `<html>blocked</html>`, sdk.Broken, "", 0},
		{"an invalid field", nil, 422, `{"error":"limit must be a number"}`, sdk.Refused, "provider_error", 0},
		{"throttled, with Retry-After", http.Header{"Retry-After": {"9"}}, 429, `{"error":{"code":"RATE_LIMIT_EXCEEDED","message":"x","retry_after":30}}`, sdk.Throttled, "", 9 * time.Second},
		{"throttled, with retry_after in the body", nil, 429, `{"error":{"code":"RATE_LIMIT_EXCEEDED","message":"x","retry_after":"30"}}`, sdk.Throttled, "", 30 * time.Second},
		{"throttled, with the time of the reset", reset, 429, `{"message":"x"}`, sdk.Throttled, "", 20 * time.Second},
		{"throttled, with 200", nil, 200, `{"success":false,"error":{"code":"RATE_LIMIT_EXCEEDED","message":"x","retry_after":5}}`, sdk.Throttled, "", 5 * time.Second},
		{"broken", nil, 500, `{"success":false,"error":{"code":"INTERNAL_ERROR","message":"x"}}`, sdk.Broken, "", 0},
		{"broken with 200", nil, 200, `{"ok":false,"message":"Something went wrong"}`, sdk.Broken, "", 0},
		{"out of service", nil, 503, `{"message":"maintenance"}`, sdk.Down, "", 0},
		{"an unknown path", nil, 404, `{"message":"Not Found"}`, sdk.Broken, "", 0},
		{"an entry without id", nil, 200, `[{"from_email":"a@b.example"}]`, sdk.Broken, "", 0},
		{"null", nil, 200, `null`, sdk.Broken, "", 0},
		{"an empty body", nil, 200, ``, sdk.Broken, "", 0},
	} {
		_, err := platformThatAnswers(t, tc.header, tc.status, tc.body).Accounts(t.Context(), "")
		if result := sdk.OutcomeOf(err); result.Kind != tc.want || result.Code.Name != tc.code || result.RetryAfter != tc.wait {
			t.Errorf("%s: the outcome is %+v, want %s %s with a wait of %s", tc.name, result, tc.want, tc.code, tc.wait)
		}
	}
}

func TestRemoveOfAnUnknownAccountSucceeds(t *testing.T) {
	for body, want := range map[string]sdk.OutcomeKind{
		`{"ok":false,"message":"Email account not found!","errorCode":"ACCOUNT_NOT_FOUND","emailAccountId":"1"}`: 0,
		`<html>404</html>`: sdk.Broken,
	} {
		if err := platformThatAnswers(t, nil, 404, body).Remove(t.Context(), "1"); sdk.OutcomeOf(err).Kind != want || want == 0 && err != nil {
			t.Errorf("404 with %s: the error is %v, want the outcome %s (done means no error)", body, err, want)
		}
	}
	if err := platformThatAnswers(t, nil, 200, `{"ok":false,"message":"x"}`).Remove(t.Context(), "1"); sdk.OutcomeOf(err).Kind != sdk.Broken {
		t.Errorf("an error with 200: %v, want broken", err)
	}
}

func TestAccountStateOfEachAnswer(t *testing.T) {
	for fields, want := range map[string]sdk.Account{
		`"type":"OUTLOOK","is_smtp_success":true,"is_imap_success":true`:                                         {State: sdk.AccountConnected},
		`"type":"outlook","is_smtp_success":"true","is_imap_success":1`:                                          {State: sdk.AccountConnected},
		`"type":"OUTLOOK","is_smtp_success":true,"is_imap_success":true,"is_suspended":true`:                     {State: sdk.AccountConnected, Paused: true},
		`"type":"OUTLOOK","is_smtp_success":true,"is_imap_success":false`:                                        {State: sdk.AccountFailed, HasError: true, Reason: "imap_failure"},
		`"type":"OUTLOOK","is_smtp_success":false,"is_imap_success":null`:                                        {State: sdk.AccountFailed, HasError: true, Reason: "smtp_failure"},
		`"type":"OUTLOOK","is_smtp_success":false,"is_imap_success":false,"imap_failure_error":"AADSTS70000"`:    {State: sdk.AccountFailed, HasError: true, Reason: "connection_error"},
		`"type":"OUTLOOK","is_smtp_success":false,"is_imap_success":false,"smtp_failure_error":{"code":"EAUTH"}`: {State: sdk.AccountFailed, HasError: true, Reason: "connection_error"},
		`"type":"OUTLOOK","is_smtp_success":false,"is_imap_success":false,"smtp_failure_error":null`:             {State: sdk.AccountPending},
		`"type":"OUTLOOK","is_smtp_success":null,"is_imap_success":null`:                                         {State: sdk.AccountPending},
		`"type":"OUTLOOK"`: {State: sdk.AccountPending},
		`"type":"OUTLOOK","connection_status":"CONNECTED"`:                                                  {State: sdk.AccountConnected},
		`"type":"OUTLOOK","is_smtp_success":true,"is_imap_success":true,"connection_status":"DISCONNECTED"`: {State: sdk.AccountFailed, HasError: true, Reason: "connection_error"},
		`"type":"SMTP","is_smtp_success":true,"is_imap_success":true`:                                       {State: sdk.AccountOther},
		`"type":"GMAIL","is_smtp_success":false,"is_imap_success":false`:                                    {State: sdk.AccountOther},
	} {
		page, err := platformThatAnswers(t, nil, 200, `{"success":true,"data":[{"id":"17","from_email":"a@b.example","from_name":"A",`+fields+`}]}`).Accounts(t.Context(), "")
		if err != nil || len(page.Accounts) != 1 {
			t.Fatalf("%s: %+v, %v, want one account", fields, page, err)
		}
		got := page.Accounts[0]
		want.ID, want.Address, want.Name, want.Stamp = "17", "a@b.example", "A", got.Stamp
		if got != want {
			t.Errorf("%s: %+v, want %+v", fields, got, want)
		}
	}
}

func TestInvalidConnectionsAreRefused(t *testing.T) {
	for name, connection := range map[string]sdk.Connection{
		"no key":             {},
		"a key of two words": {Secrets: map[string]sdk.Secret{"api_key": sdk.NewSecret("a b")}},
		"a key with markup":  {Secrets: map[string]sdk.Secret{"api_key": sdk.NewSecret("<script>")}},
		"a long key":         {Secrets: map[string]sdk.Secret{"api_key": sdk.NewSecret(strings.Repeat("a", 257))}},
		"an invalid URL":     {Settings: map[string]string{"base_url": "x"}, Secrets: map[string]sdk.Secret{"api_key": sdk.NewSecret("a")}},
		"a URL with a query": {Settings: map[string]string{"base_url": "https://a.example/?x"}, Secrets: map[string]sdk.Secret{"api_key": sdk.NewSecret("a")}},
		"an invalid client":  {Settings: map[string]string{"workspace_id": "7/../8"}, Secrets: map[string]sdk.Secret{"api_key": sdk.NewSecret("a")}},
	} {
		if _, err := newProcessState().newPlatform(connection); sdk.OutcomeOf(err).Code.Name != "invalid_request" {
			t.Errorf("%s: got %v, want invalid_request", name, err)
		}
	}
}
