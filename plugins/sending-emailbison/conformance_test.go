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

// newFixture returns an environment for the contract suite (package ports/contract), in which the
// simulator replaces EmailBison.
func newFixture(t conformance.T, newPlatform func(sdk.Connection) sdk.SendingPlatform) conformance.SendingFixture {
	return newInstance(t).Fixture(description(), newPlatform)
}

// superAdminToken is a token that the tests create with the type super-admin.
const superAdminToken = "2|simulatedSuperAdmin"

// TestContract runs the contract suite of a sending platform with the plugin's code and the
// simulator.
func TestContract(t *testing.T) { conformance.SendingInProcess(t, plugin(), newFixture) }

// TestBinary builds the plugin and runs the conformance suites with the binary.
func TestBinary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sending-emailbison")
	if output, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the plugin: %v\n%s", err, output)
	}
	conformance.Sending(t, conformance.Binary{Path: path}, newFixture)
}

func TestRetryAfterHoldsBackTheKey(t *testing.T) {
	conformance.RetryAfter(t, simulator.New, plugin())
}
