// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestContract runs the contract of a sending platform over the plugin's code and the simulator,
// with both meanings of skip and two forms of lists.
func TestContract(t *testing.T) {
	for name, knobs := range map[string]m{
		"offsets, and no search": {"skip": "offset", "search": false},
		"pages, and flat lists":  {"skip": "page", "shape": "flat"},
	} {
		t.Run(name, func(t *testing.T) { conformance.SendingInProcess(t, plugin(), fixtureWith(knobs)) })
	}
}

// TestBinary runs every suite of a sending platform over the built plugin.
func TestBinary(t *testing.T) {
	path := testserver.Program(t, "release/plugins/sending-salesblink")
	connect := func(base string) sdk.Connection {
		return sdk.Connection{Settings: texts{"base_url": base}, Secrets: map[string]secret.Text{"api_key": secret.New("not-a-real-one")}}
	}
	conformance.Sending(t, conformance.Binary{Path: path, Connect: connect}, fixtureWith(m{"shape": "folders"}))
}

// fixtureWith returns the function that makes the environment of the contract, with the simulator
// as SalesBlink in a given behaviour.
func fixtureWith(behaviour m) conformance.NewSendingFixture {
	return func(t conformance.T, newPlatform func(sdk.Connection) sdk.SendingPlatform) conformance.SendingFixture {
		env := newTestEnv(t)
		env.Behave(behaviour)
		// Each fixture has its own key. The plugin process serves all fixtures; when a fixture gets the
		// port of an earlier one, the pause of the earlier key would still apply for a minute.
		own := "key-" + rand.Text()
		env.key(own, "owner", 1)
		env.Ready.Secrets["api_key"] = own
		return env.Fixture(description(), newPlatform)
	}
}
