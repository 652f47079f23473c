// SPDX-License-Identifier: Apache-2.0

package call_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
)

var quickRetry = call.RetryPolicy{MaxAttempts: 3, BaseDelay: time.Millisecond}

// response returns a response with headers, which are names and values in turn.
func response(status int, headers ...string) call.Response {
	header := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		header.Set(headers[i], headers[i+1])
	}
	return call.Response{Status: status, Header: header}
}

func TestRetryRepeatsOnlyWhatTheEffectAllows(t *testing.T) {
	unreachable := &outcome.Error{Kind: outcome.Down, Cause: call.CauseUnreachable}
	for name, tc := range map[string]struct {
		err                      error
		read, repeatable, create int // number of attempts, by effect
	}{
		"throttled":           {call.StatusError(response(429), "x"), 3, 3, 3},
		"out of service":      {call.StatusError(response(503), "x"), 3, 3, 1},
		"not sent":            {unreachable, 3, 3, 3},
		"server error":        {call.StatusError(response(500), "x"), 3, 1, 1},
		"bad gateway":         {call.StatusError(response(502), "x"), 3, 1, 1},
		"gateway too slow":    {call.StatusError(response(504), "x"), 3, 1, 1},
		"request too slow":    {call.StatusError(response(408), "x"), 3, 1, 1},
		"no answer":           {&outcome.Error{Kind: outcome.Unknown}, 1, 1, 1},
		"unreadable response": {call.Broken("x"), 1, 1, 1},
		"refused":             {call.Refuse(fault.AccessDenied, "no"), 1, 1, 1},
		"not ready":           {call.NotReady("wait"), 1, 1, 1},
		"permanent error":     {call.Permanent(&outcome.Error{Kind: outcome.Down}), 1, 1, 1},
		"cancelled":           {context.Canceled, 1, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			for effect, want := range map[call.Effect]int{
				call.Read: tc.read, call.Repeatable: tc.repeatable, call.Create: tc.create,
			} {
				attempts := 0
				_, err := call.Retry(t.Context(), quickRetry, effect, func() (int, error) {
					attempts++
					return 0, tc.err
				})
				if !errors.Is(err, tc.err) || attempts != want {
					t.Fatalf("effect %d: %d attempts end with %v, want %d attempts and the error %v", effect, attempts, err, want, tc.err)
				}
			}
		})
	}
}

func TestRetryReturnsAWaitBeyondTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began, attempts := time.Now(), 0
		_, err := call.Retry(ctx, quickRetry, call.Read, func() (int, error) {
			attempts++
			return 0, call.StatusError(response(429, "Retry-After", "60"), "x")
		})
		if attempts != 1 || time.Since(began) != 0 || outcome.KindOf(err) != outcome.Throttled {
			t.Fatalf("%d attempts in %s end with %v, want one attempt that is throttled at once", attempts, time.Since(began), err)
		}
		if outcome.RetryAfter(err) != time.Minute {
			t.Fatalf("the retry delay is %s, want 1m0s", outcome.RetryAfter(err))
		}
	})
}

func TestRetryWaitsAsLongAsTheProviderAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		began := time.Now()
		got, err := call.Retry(t.Context(), quickRetry, call.Create, func() (string, error) {
			if attempts++; attempts == 1 {
				return "", call.StatusError(response(429, "Retry-After", "1"), "x")
			}
			return "answer", nil
		})
		if err != nil || got != "answer" || time.Since(began) != time.Second {
			t.Fatalf("got %q, %v after %s, want \"answer\" after one second", got, err, time.Since(began))
		}
	})
}

func TestStatusesBecomeOutcomes(t *testing.T) {
	for status, want := range map[int]outcome.Kind{
		200: 0, 400: 0, 403: 0, 404: 0, 408: outcome.Unknown, 409: 0, 429: outcome.Throttled,
		500: outcome.Broken, 502: outcome.Broken, 503: outcome.Down, 504: outcome.Unknown,
	} {
		if got := outcome.KindOf(call.StatusError(response(status), "x")); got != want {
			t.Errorf("status %d: got the kind %s, want %s", status, got, want)
		}
	}
}

func TestCauseKeepsOnlyCodes(t *testing.T) {
	for _, tc := range []struct {
		parts []string
		want  string
	}{
		{[]string{"graph", "400", "Request_BadRequest"}, "graph 400 Request_BadRequest"},
		{[]string{"graph", "", "anna@customer.example"}, "graph"},
		{[]string{"graph", "The object x was not found"}, "graph"},
	} {
		if got := call.Cause(tc.parts...); got != tc.want {
			t.Errorf("Cause(%q) is %q, want %q", tc.parts, got, tc.want)
		}
	}
}

func TestSameHostComparesSchemeAndHost(t *testing.T) {
	const base = "https://login.microsoftonline.com"
	for link, want := range map[string]bool{
		"https://login.microsoftonline.com/a/oauth2/v2.0/token": true,
		"https://LOGIN.microsoftonline.com/other":               true,
		"http://login.microsoftonline.com/a":                    false,
		"https://login.microsoftonline.com.evil.example/":       false,
		"https://login.microsoftonline.com@evil.example/":       false,
		"https://user@login.microsoftonline.com/":               false,
		"//login.microsoftonline.com/":                          false,
		"/a/oauth2/v2.0/token":                                  false,
		"":                                                      false,
		"%zz":                                                   false,
	} {
		if got := call.SameHost(base, link); got != want {
			t.Errorf("SameHost(%q) is %v, want %v", link, got, want)
		}
	}
}

func TestRebaseLinkKeepsTheConfiguredHost(t *testing.T) {
	const base = "http://127.0.0.1:1/graph/v1.0"
	for link, want := range map[string]string{
		"https://graph.microsoft.com/v1.0/users?$skiptoken=x": base + "/users?$skiptoken=x",
		"http://localhost:1/graph/v1.0/users?$top=1&$skip=2":  base + "/users?$top=1&$skip=2",
		"https://evil.example/v1.0/users":                     base + "/users",
		"/v1.0/users":                                         base + "/users",
		"https://graph.microsoft.com/v1.0/domains/a%2Fb.test": base + "/domains/a%2Fb.test",
		"https://graph.microsoft.com/beta/users":              "",
		"https://graph.microsoft.com/v1.0/../other":           "",
		"https://user@graph.microsoft.com/v1.0/users":         "",
		"%zz": "",
	} {
		if got, _ := call.RebaseLink(base, link, "/v1.0"); got != want {
			t.Errorf("RebaseLink(%q) is %q, want %q", link, got, want)
		}
	}
}
