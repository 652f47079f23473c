// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-instantly/simulator"
)

// TestContract runs the contract suite of a sending platform with the plugin's code and the
// simulator.
func TestContract(t *testing.T) { conformance.SendingInProcess(t, plugin(), newFixture) }

// TestBinary runs the conformance suites with the plugin's release binary.
func TestBinary(t *testing.T) {
	path := testserver.Program(t, "release/plugins/sending-instantly")
	connect := func(base string) sdk.Connection {
		return sdk.Connection{Settings: map[string]string{"base_url": base}, Secrets: map[string]sdk.Secret{"api_key": sdk.NewSecret("not-a-real-one")}}
	}
	conformance.Sending(t, conformance.Binary{Path: path, Connect: connect}, newFixture)
}

// newFixture returns an environment for the contract suite (package ports/contract), in which the
// simulator replaces Instantly.
func newFixture(t conformance.T, newPlatform func(sdk.Connection) sdk.SendingPlatform) conformance.SendingFixture {
	return newTestEnv(t).Fixture(description(), newPlatform)
}

func TestRetryAfterHoldsBackTheKey(t *testing.T) {
	conformance.RetryAfter(t, simulator.New, plugin())
}
