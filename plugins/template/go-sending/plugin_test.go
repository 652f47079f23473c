// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"

	"github.com/tenantry/tenantry/plugins/template/go-sending/simulator"
)

// TestBinary builds the plugin, starts it as tenantry does, and runs every check of a sending
// platform over it. The platform is the simulator.
func TestBinary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sending-example")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	conformance.Sending(t, conformance.Binary{Path: path}, newFixture)
}

// TestContract runs the contract of a sending platform over the code in this process, for a
// debugger.
func TestContract(t *testing.T) { conformance.SendingInProcess(t, plugin(), newFixture) }

// TestRetryAfter checks that a Retry-After holds back all calls of the key.
func TestRetryAfter(t *testing.T) { conformance.RetryAfter(t, simulator.New, plugin()) }

// newFixture returns the environment of the contract: the simulator, and what a person does there.
func newFixture(t conformance.T, newPlatform func(sdk.Connection) sdk.SendingPlatform) conformance.SendingFixture {
	s := conformance.SimulateSending(t, simulator.New, plugin().Sending)
	out := s.Fixture(description(), newPlatform, []conformance.AccountForm{
		{Account: sdk.Account{State: sdk.AccountConnected}, Members: map[string]any{"state": "ok"}},
		{Account: sdk.Account{State: sdk.AccountFailed, HasError: true}, Members: map[string]any{"state": "failed"}},
		{Account: sdk.Account{State: sdk.AccountOther}, Members: map[string]any{"state": "strange"}},
	}, "address", func(name string) map[string]any { return map[string]any{"name": name} })
	out.Sessions = true
	out.Decline = func(_ conformance.T, at sdk.SignInSession) { s.Decide(at.URL, "", "deny") }
	out.Expire = func(_ conformance.T, at sdk.SignInSession) {
		s.Send(http.MethodPost, "/links/"+at.ID+"/expire", nil)
	}
	return out
}
