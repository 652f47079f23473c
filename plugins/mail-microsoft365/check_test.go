// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/login"
	"github.com/tenantry/tenantry/ports/contract"
)

// checkWith runs Check of a copy of the platform whose settings were changed.
func (env *testEnv) checkWith(t *testing.T, change func(*settings)) error {
	t.Helper()
	changedPlatform := *env.platform.(*platform)
	change(&changedPlatform.settings)
	return changedPlatform.Check(t.Context())
}

func TestCheckReportsTheReasonOfARefusal(t *testing.T) {
	env := newTestEnv(t)
	home, _ := env.consentedTenant(t, contract.Setup{}, nil)
	withoutApplication := env.NewTenant(t, contract.Setup{})
	for _, tc := range []struct {
		name   string
		change func(*settings)
		cause  string // cause of the refusal, "" if Check succeeds
	}{
		{"no home tenant", func(*settings) {}, ""},
		{"the home tenant", func(s *settings) { s.homeTenant = string(home.GUID) }, ""},
		{"wrong secret, no home tenant", func(s *settings) { s.credential.Secret = secret.New("x") }, "AADSTS7000215"},
		{"wrong secret in the home tenant", func(s *settings) {
			s.homeTenant, s.credential.Secret = string(home.GUID), secret.New("x")
		}, "AADSTS7000215"},
		{"an unknown client id", func(s *settings) { s.credential.ClientID = "c0a8f7de-3b51-4d7e-9f55-7a2f0d6e1b90" }, "AADSTS700016"},
		{"an unknown home tenant", func(s *settings) { s.homeTenant = "nowhere.example" }, "AADSTS90002"},
		{"a tenant without the application", func(s *settings) { s.homeTenant = string(withoutApplication.GUID) }, "AADSTS700016"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := env.checkWith(t, tc.change)
			var refusal *outcome.Error
			switch {
			case tc.cause == "" && err != nil:
				t.Fatalf("Check fails: %v, want success", err)
			case tc.cause != "" && (!errors.As(err, &refusal) || refusal.Kind != outcome.Refused || !errors.Is(err, fault.AccessDenied) || refusal.Cause != tc.cause):
				t.Fatalf("got %v, want access_denied with the cause %s", err, tc.cause)
			}
		})
	}
}

func TestCheckReportsAnExpiredSecretAndAnUnreachablePlatform(t *testing.T) {
	env := newTestEnv(t)
	env.control(t, http.MethodPost, "/app", options{"expire_secret": true})
	err := env.platform.Check(t.Context())
	expectOutcome(t, err, outcome.Refused, fault.AccessDenied)
	if refusal := (*outcome.Error)(nil); !errors.As(err, &refusal) || refusal.Cause != "AADSTS7000222" {
		t.Fatalf("got %v, want the cause AADSTS7000222", err)
	}
	const unreachable = "http://127.0.0.1:1" // no server listens on port 1
	expectOutcome(t, env.checkWith(t, func(s *settings) { s.loginURL = unreachable }), outcome.Down, fault.ProviderUnavailable)
}

func TestTenantNamesAreSafeInAPath(t *testing.T) {
	for name, want := range map[string]bool{
		"organizations": true, "contoso.onmicrosoft.com": true, "c0a8f7de-3b51-4d7e-9f55-7a2f0d6e1b90": true,
		"": false, "a/b": false, "..": false, "a?b": false, "a b": false,
	} {
		if got := login.IsTenantName(name); got != want {
			t.Errorf("IsTenantName(%q) is %v, want %v", name, got, want)
		}
	}
}
