// SPDX-License-Identifier: Apache-2.0

package dns

// Provider is a DNS provider that has a plugin.
type Provider struct {
	ID    string // such as cloudflare
	Title string // display name, such as Cloudflare
	// NameServers are patterns of the provider's name servers, such as *.ns.cloudflare.com. Without
	// patterns, the provider is found only by a connection that reaches the zone.
	NameServers []string
}
