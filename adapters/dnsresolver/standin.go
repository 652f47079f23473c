// SPDX-License-Identifier: Apache-2.0

package dnsresolver

// standIns are the resolvers in the place of a zone's servers. They share one
// name, which tells nobody where they are.
func (r *Reader) standIns() []server {
	return []server{{name: "resolver", addrs: r.resolvers[:min(len(r.resolvers), maxPerServer)]}}
}

// manner is how a zone's servers are asked, or those in their place.
func (r *Reader) manner() manner {
	if r.recursive {
		return asStandIn
	}
	return asServer
}
