// SPDX-License-Identifier: Apache-2.0

package e2e

import "testing"

// TestMessyZonesAtPowerDNS plans each of the prepared zones from what a real
// server says, applies what is safe through the plugin, and holds provider and
// DNS against what is to stand there.
func TestMessyZonesAtPowerDNS(t *testing.T) {
	t.Parallel()
	settleAll(t, newPower(t), mess(), "powerdns")
}

// TestMessyZonesAtCloudflare does so over the simulator of Cloudflare, with what
// only Cloudflare does.
func TestMessyZonesAtCloudflare(t *testing.T) {
	t.Parallel()
	settleAll(t, newCloud(t), append(mess(), messyCloudflare...), "cloudflare")
}
