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

// checks tells how the check ends with other settings.
func (w *world) checks(t *testing.T, change func(*settings)) error {
	t.Helper()
	other := *w.platform.(*platform)
	change(&other.settings)
	return other.Check(t.Context())
}

func TestCheckTellsWhatIsWrong(t *testing.T) {
	w := newWorld(t)
	home, _ := w.consented(t, contract.Setup{}, nil)
	stranger := w.NewTenant(t, contract.Setup{})
	for _, tt := range []struct {
		name   string
		change func(*settings)
		cause  string // of the refusal; "" where there is none
	}{
		{"no home named", func(*settings) {}, ""},
		{"at home", func(s *settings) { s.home = string(home.GUID) }, ""},
		{"wrong secret, no home named", func(s *settings) { s.credential.Secret = secret.New("x") }, "AADSTS7000215"},
		{"wrong secret at home", func(s *settings) {
			s.home, s.credential.Secret = string(home.GUID), secret.New("x")
		}, "AADSTS7000215"},
		{"another client id", func(s *settings) { s.credential.ClientID = "c0a8f7de-3b51-4d7e-9f55-7a2f0d6e1b90" }, "AADSTS700016"},
		{"a home that is none", func(s *settings) { s.home = "nowhere.example" }, "AADSTS90002"},
		{"another's home", func(s *settings) { s.home = string(stranger.GUID) }, "AADSTS700016"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := w.checks(t, tt.change)
			var o *outcome.Error
			switch {
			case tt.cause == "" && err != nil:
				t.Fatalf("got %v", err)
			case tt.cause != "" && (!errors.As(err, &o) || o.Kind != outcome.Refused || !errors.Is(err, fault.AccessDenied) || o.Cause != tt.cause):
				t.Fatalf("got %v, want a refusal by %s", err, tt.cause)
			}
		})
	}
}

func TestCheckOfAnExpiredSecretAndOfAPlatformThatIsDown(t *testing.T) {
	w := newWorld(t)
	w.control(t, http.MethodPost, "/app", knobs{"expire_secret": true})
	err := w.platform.Check(t.Context())
	ends(t, err, outcome.Refused, fault.AccessDenied)
	if o := (*outcome.Error)(nil); !errors.As(err, &o) || o.Cause != "AADSTS7000222" {
		t.Fatalf("got %v", err)
	}
	ends(t, w.checks(t, func(s *settings) { s.loginURL = "http://127.0.0.1:1" }), outcome.Down, fault.ProviderUnavailable)
}

func TestTenantsByName(t *testing.T) {
	for name, want := range map[string]bool{
		"organizations": true, "contoso.onmicrosoft.com": true, "c0a8f7de-3b51-4d7e-9f55-7a2f0d6e1b90": true,
		"": false, "a/b": false, "..": false, "a?b": false, "a b": false,
	} {
		if got := login.TenantName(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
