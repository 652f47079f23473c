// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"

	"github.com/tenantry/tenantry/plugins/template/go-sending/simulator"
)

// TestBinary builds the plugin, starts it as tenantry does, and runs the checks of a sending
// platform. The platform is the simulator.
func TestBinary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sending-example")
	if output, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the plugin: %v\n%s", err, output)
	}
	conformance.Sending(t, conformance.Binary{Path: path}, newFixture)
}

// TestContract runs the contract of a sending platform over the code in this process, so that a
// debugger can be used.
func TestContract(t *testing.T) { conformance.SendingInProcess(t, plugin(), newFixture) }

// TestRetryAfterHoldsBackTheKey checks that the plugin sends no request of the key during a
// Retry-After.
func TestRetryAfterHoldsBackTheKey(t *testing.T) { conformance.RetryAfter(t, simulator.New, plugin()) }

// TestAccountOnASecondPageIsFound searches for an address that is a part of 100 other addresses,
// which fill the first page.
func TestAccountOnASecondPageIsFound(t *testing.T) {
	env := conformance.SimulateSending(t, simulator.New, plugin().Sending)
	for n := range 100 {
		env.Put(fmt.Sprintf("n%d-ann@a.test", n), map[string]any{})
	}
	env.Put("ann@a.test", map[string]any{})
	if found, err := env.With().Account(t.Context(), "ann@a.test"); err != nil || found.Address != "ann@a.test" {
		t.Errorf("Account: %+v, %v, want ann@a.test", found, err)
	}
}

// TestInvalidSettingsAreRefused checks that the plugin refuses values that are not valid in an HTTP
// header. Accounts choose these values, so they must not count as failures of the platform.
func TestInvalidSettingsAreRefused(t *testing.T) {
	for _, invalid := range []string{"a\nb", "k\x01", "日本"} {
		for field, values := range map[string][2]string{"api_key": {invalid, ""}, "workspace_id": {"k", invalid}} {
			_, err := plugin().Sending(sdk.Connection{
				Settings: map[string]string{"base_url": "https://api.example.com", "workspace_id": values[1]},
				Secrets:  map[string]sdk.Secret{"api_key": sdk.NewSecret(values[0])},
			})
			if result := sdk.OutcomeOf(err); result.Kind != sdk.Refused || result.Code.Name != "invalid_request" || result.Cause != "setting "+field {
				t.Errorf("%s %q: got %v, want a refusal with the cause %q", field, invalid, err, "setting "+field)
			}
		}
	}
}

// newFixture returns the environment of the contract. The simulator describes itself in its Suite.
func newFixture(t conformance.T, newPlatform func(sdk.Connection) sdk.SendingPlatform) conformance.SendingFixture {
	return conformance.SimulateSending(t, simulator.New, plugin().Sending).Fixture(description(), newPlatform)
}
