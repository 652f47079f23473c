// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/ports/contract"
)

// TestMicrosoft365 runs every suite over the bundled plugin as it is built,
// before its simulator as it is run.
func TestMicrosoft365(t *testing.T) {
	path := testserver.Program(t, "release/plugins/mail-microsoft365")
	conformance.Mail(t, conformance.Binary{Path: path, Connect: microsoft},
		func(t testing.TB, platform func(sdk.Connection) sdk.MailPlatform) contract.World {
			return newSimulated(t, path, platform)
		})
}

func microsoft(base string) sdk.Connection {
	return sdk.Connection{
		Settings: map[string]string{
			"login_url": base + "/login", "graph_url": base + "/graph", "exchange_url": base + "/exchange",
			"client_id": "11111111-1111-4111-8111-111111111111", "pacing": "0",
		},
		Secrets: map[string]secret.Text{"client_secret": secret.New("not-a-real-one")},
	}
}
