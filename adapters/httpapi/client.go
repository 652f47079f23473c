// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// clientOf is who sent a request: the other end of the connection, or, when
// that is a trusted proxy, whom it names. X-Forwarded-For grows to the right,
// so it is read from there and only as far as trusted proxies wrote it; what
// stands left of the first stranger is that stranger's own word.
//
// Nothing is decided by this address. It is for the log.
func (g *guard) clientOf(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	client := peer.Addr().Unmap().WithZone("")
	named := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, name := range slices.Backward(named) {
		if !g.trusts(client) {
			break
		}
		next, err := netip.ParseAddr(strings.TrimSpace(name))
		if err != nil {
			break
		}
		client = next.Unmap().WithZone("")
	}
	return client
}

func (g *guard) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(g.trusted, func(p netip.Prefix) bool { return p.Contains(a) })
}
