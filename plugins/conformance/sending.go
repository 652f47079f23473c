// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"testing"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports/contract"
)

// SendingPlatform is a sending platform of a running plugin.
func SendingPlatform(p *wire.Process, c sdk.Connection) sdk.SendingPlatform {
	return wire.Sending(func(context.Context, ...secret.Text) (wire.Session, error) {
		return wire.Session{Process: p, Connection: c}, nil
	})
}

// SendingPlace is what a world is, so that an author needs nothing but this
// package.
type SendingPlace = contract.SendingWorld

// SendingWorld makes a world whose platforms are made by platform, best from
// Simulate.
type SendingWorld func(t testing.TB, platform func(sdk.Connection) sdk.SendingPlatform) contract.SendingWorld

// Sending runs the suites of a sending platform over the built binary, those of
// Plugin among them. world is called for a new world for each check.
func Sending(t *testing.T, b Binary, world SendingWorld) {
	Plugin(t, b)
	t.Run("it says what a sending platform needs", func(t *testing.T) { checkSending(t, described(t, b.Start(t))) })
	t.Run("the contract of the port", func(t *testing.T) {
		p := b.Start(t)
		contract.SendingPlatform(t, func(t testing.TB) contract.SendingWorld {
			return world(t, func(c sdk.Connection) sdk.SendingPlatform { return SendingPlatform(p, c) })
		})
	})
}

// SendingInProcess runs the contract of the port over the plugin's code.
func SendingInProcess(t *testing.T, p sdk.Plugin, world SendingWorld) {
	checkSending(t, p.Describe)
	contract.SendingPlatform(t, func(t testing.TB) contract.SendingWorld {
		return world(t, func(c sdk.Connection) sdk.SendingPlatform {
			made, err := p.Sending(c)
			if err != nil {
				t.Fatalf("a platform of the world's: %v", err)
			}
			return made
		})
	})
}
