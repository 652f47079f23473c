// SPDX-License-Identifier: Apache-2.0

package dns

// Provider is a DNS provider that there is a plugin for.
type Provider struct {
	ID    string // as in cloudflare
	Title string // for people, as in Cloudflare
	// NameServers are patterns of its name servers, as *.ns.cloudflare.com.
	// A provider without any is found only by a connection of the account
	// that reaches the zone.
	NameServers []string
}
