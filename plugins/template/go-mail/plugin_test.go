// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"

	"github.com/tenantry/tenantry/plugins/template/go-mail/simulator"
)

// TestBinary builds the plugin, starts it as tenantry does, and runs the checks of a mail platform.
// The platform is the simulator.
func TestBinary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail-example")
	if output, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the plugin: %v\n%s", err, output)
	}
	binary := conformance.Binary{Path: path, Connect: func(baseURL string) sdk.Connection {
		return sdk.Connection{
			Settings: map[string]string{"api_url": baseURL, "login_url": baseURL},
			Secrets:  map[string]sdk.Secret{"api_token": sdk.NewSecret(simulator.Token)},
		}
	}}
	conformance.Mail(t, binary, func(t conformance.T, newPlatform func(sdk.Connection) sdk.MailPlatform) conformance.MailFixture {
		return conformance.SimulateMail(t, simulator.New, newPlatform)
	})
}

// TestRefusalsArePublished checks that asOutcome converts each error code of the API to the
// published code in the map refusals.
func TestRefusalsArePublished(t *testing.T) {
	for refused, code := range refusals {
		if result := sdk.OutcomeOf(asOutcome(refusal{refused})); result.Kind != sdk.Refused || result.Code.Name != code {
			t.Errorf("%s: got %+v, want %s", refused, result, code)
		}
	}
}

// TestInvalidSettingsAreRefused checks that a plugin without one of its settings names the missing
// setting.
func TestInvalidSettingsAreRefused(t *testing.T) {
	for missing, connection := range map[string]sdk.Connection{
		"setting api_url":   {Settings: map[string]string{"login_url": "https://login.example.com"}, Secrets: map[string]sdk.Secret{"api_token": sdk.NewSecret("x")}},
		"setting login_url": {Settings: map[string]string{"api_url": "https://api.example.com"}, Secrets: map[string]sdk.Secret{"api_token": sdk.NewSecret("x")}},
		"setting api_token": {Settings: map[string]string{"api_url": "https://api.example.com", "login_url": "https://login.example.com"}},
	} {
		_, err := plugin().Mail(connection)
		if result := sdk.OutcomeOf(err); result.Kind != sdk.Refused || result.Cause != missing {
			t.Errorf("%s: got %v, want a refusal with this cause", missing, err)
		}
	}
}

// TestInvalidTokensAreRefused checks that the plugin refuses a token that is not valid in an HTTP
// header.
func TestInvalidTokensAreRefused(t *testing.T) {
	for _, token := range []string{"a\nb", "k\x01", "日本"} {
		_, err := plugin().Mail(sdk.Connection{
			Settings: map[string]string{"api_url": "https://api.example.com", "login_url": "https://login.example.com"},
			Secrets:  map[string]sdk.Secret{"api_token": sdk.NewSecret(token)},
		})
		if result := sdk.OutcomeOf(err); result.Kind != sdk.Refused || result.Cause != "setting api_token" {
			t.Errorf("%q: got %v, want a refusal with the cause of api_token", token, err)
		}
	}
}
