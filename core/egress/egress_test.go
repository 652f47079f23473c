// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"net/netip"
	"testing"

	"github.com/tenantry/tenantry/core/egress"
)

func TestPublic(t *testing.T) {
	for address, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true, "::ffff:8.8.8.8": true,
		"127.0.0.1": false, "::1": false, "::ffff:127.0.0.1": false, "10.1.2.3": false, "172.31.0.1": false,
		"192.168.1.1": false, "100.64.0.1": false, "169.254.169.254": false, "0.0.0.0": false, "255.255.255.255": false,
		"224.0.0.1": false, "fe80::1": false, "fd00::1": false, "64:ff9b::7f00:1": false, "2002:7f00:1::": false, "fe80::1%eth0": false,
	} {
		if got := egress.Public(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
	if egress.Public(netip.Addr{}) {
		t.Error("no address is public")
	}
}
