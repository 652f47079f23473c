// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestContract runs the contract suite of a sending platform with the plugin's code and the
// simulator. The simulator uses both meanings of skip and two forms of lists.
func TestContract(t *testing.T) {
	for name, behaviour := range map[string]jsonObject{
		"offsets, and no search": {"skip": "offset", "search": false},
		"pages, and flat lists":  {"skip": "page", "shape": "flat"},
	} {
		t.Run(name, func(t *testing.T) { conformance.SendingInProcess(t, plugin(), fixtureWith(behaviour)) })
	}
}

// TestBinary runs the conformance suites with the plugin's release binary.
func TestBinary(t *testing.T) {
	path := testserver.Program(t, "release/plugins/sending-salesblink")
	connect := func(base string) sdk.Connection {
		return sdk.Connection{Settings: texts{"base_url": base}, Secrets: map[string]sdk.Secret{"api_key": sdk.NewSecret("not-a-real-one")}}
	}
	conformance.Sending(t, conformance.Binary{Path: path, Connect: connect}, fixtureWith(jsonObject{"shape": "folders"}))
}

// fixtureWith returns a function that creates an environment for the contract suite (package
// ports/contract). A simulator with this behaviour replaces SalesBlink.
func fixtureWith(behaviour jsonObject) conformance.NewSendingFixture {
	return func(t conformance.T, newPlatform func(sdk.Connection) sdk.SendingPlatform) conformance.SendingFixture {
		env := newTestEnv(t)
		env.Behave(behaviour)
		// Each fixture has its own key. One plugin process serves all fixtures. If a fixture had
		// the port and the key of an earlier fixture, a pause of that key would still apply.
		key := "key-" + rand.Text()
		env.createKey(key, "owner", 1)
		env.Ready.Secrets["api_key"] = key
		return env.Fixture(description(), newPlatform)
	}
}
