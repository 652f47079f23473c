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

// Provider is a DNS provider of a running plugin.
func Provider(p *wire.Process, c sdk.Connection) sdk.DNSProvider {
	return wire.DNS(func(context.Context, ...secret.Text) (wire.Session, error) {
		return wire.Session{Process: p, Connection: c}, nil
	})
}

// DNS runs the suites of a DNS provider, those of Plugin among them. world
// makes a world whose providers call the running plugin through provider.
func DNS(t *testing.T, b Binary, world func(t testing.TB, provider func(sdk.Connection) sdk.DNSProvider) contract.ProviderWorld) {
	Plugin(t, b)
	t.Run("the contract of the port", func(t *testing.T) {
		p := b.Start(t)
		w := world(t, func(c sdk.Connection) sdk.DNSProvider { return Provider(p, c) })
		contract.DNSProvider(t, func(testing.TB) contract.ProviderWorld { return w })
	})
}
