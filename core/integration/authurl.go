// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/netip"
	"net/url"
	"slices"
)

// AuthURL reports whether an authorization URL may be shown to a person. It must use https and one
// of the hosts. Plain http is allowed for loopback addresses, which only test systems configure.
func AuthURL(raw string, hosts []string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || u.Opaque != "" || !slices.Contains(hosts, u.Host) {
		return false
	}
	if u.Scheme == "http" {
		at, err := netip.ParseAddr(u.Hostname())
		return err == nil && at.IsLoopback()
	}
	return u.Scheme == "https"
}
