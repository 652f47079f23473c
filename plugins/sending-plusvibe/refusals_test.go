// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
)

// TestBadKeys: how PlusVibe turns a bad key away is not published, so each way
// is one, and a page of its edge is not.
func TestBadKeys(t *testing.T) {
	w := newWorld(t)
	bad := w.with(texts{"api_key": "guessed"})
	for _, status := range []int{401, 403, 200} {
		w.behave(m{"bad_key": status})
		if _, err := bad.Check(t.Context()); !errors.Is(err, fault.AccessDenied) {
			t.Errorf("by %d: %v", status, err)
		}
	}
	w.fault(m{"kind": "html", "status": 403})
	if _, err := w.with(nil).Check(t.Context()); outcome.Of(err) != outcome.Throttled || errors.Is(err, fault.AccessDenied) {
		t.Errorf("a page of the edge: %v", err)
	}
	w.fault(m{"kind": "status", "status": 402})
	var o *outcome.Error
	if _, err := w.with(nil).Check(t.Context()); !errors.As(err, &o) || o.Cause != "plan_inactive" {
		t.Errorf("without a plan: %v", err)
	}
}

// TestThrottledWithoutRetryAfter: nobody says that PlusVibe sends one.
func TestThrottledWithoutRetryAfter(t *testing.T) {
	w := newWorld(t)
	w.fault(m{"kind": "status", "status": 429})
	var f *fault.Error
	if _, err := w.with(nil).Check(t.Context()); outcome.Of(err) != outcome.Throttled || !errors.As(err, &f) || f.RetryAfter <= 0 {
		t.Errorf("got %v", err)
	}
}

// TestPartnerLogin: it is tried with the credential, and only where it may be
// used.
func TestPartnerLogin(t *testing.T) {
	w := newWorld(t)
	wrong := texts{"partner_password": "guessed-password"}
	if _, err := w.with(wrong).Check(t.Context()); !errors.Is(err, fault.AccessDenied) {
		t.Errorf("a wrong password: %v", err)
	}
	if _, err := w.with(wrong).StartSignIn(t.Context(), "anna@a.example"); !errors.Is(err, fault.AccessDenied) {
		t.Errorf("a start with a wrong password: %v", err)
	}
	for _, off := range []string{"false", ""} {
		w.control(http.MethodDelete, "/calls", nil)
		p := w.with(merged(wrong, texts{"allow_password_credentials": off}))
		if _, err := p.Check(t.Context()); outcome.Of(err) != outcome.Refused || !errors.Is(err, fault.InvalidRequest) {
			t.Errorf("a login that may not be used: %v", err)
		}
		if _, err := p.StartSignIn(t.Context(), "anna@a.example"); !errors.Is(err, fault.CapabilityMissing) {
			t.Errorf("a start that may not be: %v", err)
		}
		if calls := w.asked(); len(calls) > 0 {
			t.Errorf("asked %v", calls)
		}
	}
}

// TestLinks: a link is taken from wherever it may be, and only to where links
// may lead.
func TestLinks(t *testing.T) {
	w := newWorld(t)
	for _, at := range []string{"data.url", "data.auth_url", "url", "auth_url", "oauth_url"} {
		w.behave(m{"link_at": at})
		if s, err := w.with(nil).StartSignIn(t.Context(), "anna@a.example"); err != nil || !strings.Contains(s.URL, "state=") || s.ID != "" || !s.ExpiresAt.IsZero() {
			t.Errorf("at %s: %+v, %v", at, s, err)
		}
	}
	w.behave(m{"link_at": "elsewhere"})
	if _, err := w.with(nil).StartSignIn(t.Context(), "anna@a.example"); outcome.Of(err) != outcome.Broken {
		t.Errorf("a link somewhere else: %v", err)
	}
	w.behave(m{"link_at": "url"})
	for to, taken := range map[string]bool{
		"https://login.microsoftonline.com/common/oauth2/v2.0/authorize?state=x": true,
		"http://login.microsoftonline.com/common/oauth2/v2.0/authorize?state=x":  false,
		"https://login.microsoftonline.com@evil.example/":                        false,
		"https://app.plusvibe.ai/login":                                          false,
		"javascript:alert(1)":                                                    false,
	} {
		w.behave(m{"link_to": to})
		s, err := w.with(texts{"auth_hosts": " login.microsoftonline.com , other.example"}).StartSignIn(t.Context(), "anna@a.example")
		if (err == nil) != taken || (s.URL == to) != taken || !taken && outcome.Of(err) != outcome.Broken {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// TestConnectionsThatMakeNoSense are refused before anybody is asked.
func TestConnectionsThatMakeNoSense(t *testing.T) {
	w := newWorld(t)
	for name, value := range map[string]string{
		"api_key": "two words", "base_url": "plusvibe", "user_agent": "a\nb", "partner_password": "",
	} {
		_, err := newHouse().provider(w.connection(texts{name: value}))
		var o *outcome.Error
		if !errors.Is(err, fault.InvalidRequest) || !errors.As(err, &o) || o.Cause != outcome.CauseSetting+name {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(fmt.Sprintf("%v %+v", err, o), "two words") {
			t.Errorf("%s is quoted", name)
		}
	}
	for _, key := range []string{"", "k\r\nX: y", "schlüssel"} {
		if _, err := newHouse().provider(w.connection(texts{"api_key": key})); !errors.Is(err, fault.InvalidRequest) {
			t.Errorf("the key %q: %v", key, err)
		}
	}
}
