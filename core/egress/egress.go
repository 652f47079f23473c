// SPDX-License-Identifier: Apache-2.0

// Package egress decides to which addresses the service may connect when a customer chose the host.
package egress

import "net/netip"

// forbiddenNetworks lists networks to which customers may not direct connections. In IPv6, only
// 2000::/3 is public at all. The IPv6 networks listed here are parts of 2000::/3 that embed other
// networks, or are reserved for documentation or special services.
var forbiddenNetworks = parsePrefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16",
	"192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
)

var publicIPv6 = netip.MustParsePrefix("2000::/3")

func parsePrefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, p := range list {
		out[i] = netip.MustParsePrefix(p)
	}
	return out
}

// IsPublic reports whether a is a public unicast address. Customers choose some hosts, such as the
// name servers of their domains. Connections to addresses that are not public would let customers
// reach the internal network of the service.
func IsPublic(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsValid() || a.Zone() != "" || (a.Is6() && !publicIPv6.Contains(a)) {
		return false
	}
	for _, p := range forbiddenNetworks {
		if p.Contains(a) {
			return false
		}
	}
	return true
}
