// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-emailbison/simulator"
)

// accountForms are the states that an account can have, with EmailBison's status.
var accountForms = []conformance.AccountForm{
	{Account: sdk.Account{State: sdk.AccountConnected}, Members: map[string]any{"status": "Connected"}},
	{Account: sdk.Account{State: sdk.AccountFailed, HasError: true, Reason: "disconnected"}, Members: map[string]any{"status": "Not connected"}},
	{Account: sdk.Account{State: sdk.AccountOther}, Members: map[string]any{"status": "Pending move"}},
}

// newFixture returns the environment of the contract, with the simulator as EmailBison.
func newFixture(t conformance.T, newPlatform func(sdk.Connection) sdk.SendingPlatform) conformance.SendingFixture {
	i := newInstance(t)
	with := func(instance, token string) sdk.SendingPlatform {
		return newPlatform(i.Given(map[string]string{"instance_url": instance, "api_key": token}))
	}
	// The token alone and the instance replace the credential of both that the simulator names.
	i.Ready.Secrets["api_key"], i.Ready.Settings["instance_url"] = simulator.Token, i.URL
	out := i.Fixture(description(), newPlatform, accountForms, "email", func(name string) map[string]any {
		return map[string]any{"name": name}
	})
	out.Absent = with(conformance.UnreachableURL(t), simulator.Token)
	out.WithWorkspaces = func(_ conformance.T, n int) sdk.SendingPlatform {
		i.superAdmin(n)
		return with(i.URL, superAdminToken)
	}
	return out
}

// superAdminToken is a token that the tests create with the type super-admin.
const superAdminToken = "2|simulatedSuperAdmin"

// TestContract runs the contract of a sending platform over the plugin's code and the simulator.
func TestContract(t *testing.T) { conformance.SendingInProcess(t, plugin(), newFixture) }

// TestBinary builds the plugin and runs every suite of a sending platform over the binary.
func TestBinary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sending-emailbison")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	conformance.Sending(t, conformance.Binary{Path: path}, newFixture)
}

func TestRetryAfterHoldsBackTheKey(t *testing.T) {
	conformance.RetryAfter(t, simulator.New, plugin())
}
