// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestRefusedKeysAreDistinguishedFromTheProxy covers the statuses with which PlusVibe may refuse a
// key, the HTML page of the proxy in front of PlusVibe, and 402.
func TestRefusedKeysAreDistinguishedFromTheProxy(t *testing.T) {
	env := newTestEnv(t)
	withBadKey := env.With(texts{"api_key": "guessed"})
	for _, status := range []int{401, 403, 200} {
		env.Behave(jsonObject{"bad_key": status})
		if _, err := withBadKey.Check(t.Context()); sdk.OutcomeOf(err).Code.Name != "access_denied" {
			t.Errorf("a bad key with status %d: %v, want access_denied", status, err)
		}
	}
	env.FailOnce(jsonObject{"kind": "html", "status": 403})
	if _, err := env.With(nil).Check(t.Context()); sdk.OutcomeOf(err).Kind != sdk.Throttled {
		t.Errorf("a page of the proxy: %v, want throttled", err)
	}
	env.FailOnce(jsonObject{"kind": "status", "status": 402})
	if _, err := env.With(nil).Check(t.Context()); sdk.OutcomeOf(err).Cause != "plan_inactive" {
		t.Errorf("without a plan: %v, want the cause plan_inactive", err)
	}
}

// TestThrottlingWithoutRetryAfterHasNoDelay covers a 429 without Retry-After, because it is not
// known whether PlusVibe sends this header. The host then chooses the wait.
func TestThrottlingWithoutRetryAfterHasNoDelay(t *testing.T) {
	env := newTestEnv(t)
	env.FailOnce(jsonObject{"kind": "status", "status": 429})
	_, err := env.With(nil).Check(t.Context())
	if result := sdk.OutcomeOf(err); result.Kind != sdk.Throttled || result.RetryAfter != 0 {
		t.Errorf("got %v, want throttled without a wait", err)
	}
}

// TestPartnerLoginIsTriedOnlyWhenTheOperatorAllowsIt uses a partner's login with a wrong password,
// first with the operator's permission for such logins and then without it.
func TestPartnerLoginIsTriedOnlyWhenTheOperatorAllowsIt(t *testing.T) {
	env := newTestEnv(t)
	wrongPassword := texts{"partner_password": "guessed-password"}
	if _, err := env.With(wrongPassword).Check(t.Context()); sdk.OutcomeOf(err).Code.Name != "access_denied" {
		t.Errorf("Check with a wrong password: %v, want access_denied", err)
	}
	if _, err := env.With(wrongPassword).StartSignIn(t.Context(), "anna@a.example"); sdk.OutcomeOf(err).Code.Name != "access_denied" {
		t.Errorf("StartSignIn with a wrong password: %v, want access_denied", err)
	}
	for _, notAllowed := range []string{"false", ""} {
		env.Send(http.MethodDelete, "/calls", nil)
		platform := env.With(wrongPassword, texts{"allow_password_credentials": notAllowed})
		if _, err := platform.Check(t.Context()); sdk.OutcomeOf(err).Kind != sdk.Refused || sdk.OutcomeOf(err).Code.Name != "invalid_request" {
			t.Errorf("Check without the permission of the operator: %v, want invalid_request", err)
		}
		if _, err := platform.StartSignIn(t.Context(), "anna@a.example"); sdk.OutcomeOf(err).Code.Name != "capability_not_supported" {
			t.Errorf("StartSignIn without the permission of the operator: %v, want capability_not_supported", err)
		}
		if calls := env.receivedRequests(); len(calls) > 0 {
			t.Errorf("PlusVibe received %v, want no call", calls)
		}
	}
}

// TestSignInLinksAreFoundAndTheirHostsChecked covers each path in linkPaths, and hosts that are not
// allowed.
func TestSignInLinksAreFoundAndTheirHostsChecked(t *testing.T) {
	env := newTestEnv(t)
	for _, path := range []string{"data.url", "data.auth_url", "url", "auth_url", "oauth_url"} {
		env.Behave(jsonObject{"link_at": path})
		if session, err := env.With(nil).StartSignIn(t.Context(), "anna@a.example"); err != nil || !strings.Contains(session.URL, "state=") || session.ID != "" || !session.ExpiresAt.IsZero() {
			t.Errorf("a link at %s: %+v, %v, want the link without an id or expiry", path, session, err)
		}
	}
	env.Behave(jsonObject{"link_at": "elsewhere"})
	if _, err := env.With(nil).StartSignIn(t.Context(), "anna@a.example"); sdk.OutcomeOf(err).Kind != sdk.Broken {
		t.Errorf("a link at an unknown path: %v, want broken", err)
	}
	env.Behave(jsonObject{"link_at": "url"})
	for link, allowed := range map[string]bool{
		"https://login.microsoftonline.com/common/oauth2/v2.0/authorize?state=x": true,
		"http://login.microsoftonline.com/common/oauth2/v2.0/authorize?state=x":  false,
		"https://login.microsoftonline.com@evil.example/":                        false,
		"https://app.plusvibe.ai/login":                                          false,
		"javascript:alert(1)":                                                    false,
	} {
		env.Behave(jsonObject{"link_to": link})
		session, err := env.With(texts{"auth_hosts": " login.microsoftonline.com , other.example"}).StartSignIn(t.Context(), "anna@a.example")
		if (err == nil) != allowed || (session.URL == link) != allowed || !allowed && sdk.OutcomeOf(err).Kind != sdk.Broken {
			t.Errorf("the link %s: %v, want allowed: %v", link, err, allowed)
		}
	}
}

func TestInvalidConnectionsAreRefusedWithoutACall(t *testing.T) {
	env := newTestEnv(t)
	for name, value := range map[string]string{
		"api_key": "two words", "base_url": "plusvibe", "user_agent": "a\nb", "partner_password": "",
	} {
		_, err := newProcessState().newPlatform(env.Given(texts{name: value}))
		result := sdk.OutcomeOf(err)
		if result.Code.Name != "invalid_request" || result.Cause != "setting "+name {
			t.Errorf("%s: %v, want invalid_request with the cause setting %s", name, err, name)
		}
		if value != "" && strings.Contains(fmt.Sprintf("%v %+v", err, result), value) {
			t.Errorf("the error quotes the value of %s", name)
		}
	}
	for _, key := range []string{"", "k\r\nX: y", "schlüssel"} {
		if _, err := newProcessState().newPlatform(env.Given(texts{"api_key": key})); sdk.OutcomeOf(err).Code.Name != "invalid_request" {
			t.Errorf("the key %q: %v, want invalid_request", key, err)
		}
	}
	if calls := env.receivedRequests(); len(calls) > 0 {
		t.Errorf("PlusVibe received %v, want no call", calls)
	}
}
