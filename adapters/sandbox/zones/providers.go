// SPDX-License-Identifier: Apache-2.0

package zones

// hostingProvider is a provider that hosts zones.
type hostingProvider struct {
	servers [2]string
	mailbox string // mailbox name in the SOA record
	zone    string // the zone of the server names
}

// SeededProvider is the provider of the zones of a seeded sandbox.
const SeededProvider = "cloudflare"

// registrarProvider is a provider without a plugin, such as a registrar at which a person edits the
// records.
const registrarProvider = "manual"

// hostingProviders are the providers that can host zones while no simulator of the provider runs,
// keyed by id. The service recognises a provider by the names of its name servers. All these names
// resolve to the address of the sandbox's DNS server.
var hostingProviders = map[string]hostingProvider{
	SeededProvider:    {[2]string{"ada.ns.cloudflare.com", "bob.ns.cloudflare.com"}, "dns.cloudflare.com", "ns.cloudflare.com"},
	registrarProvider: {[2]string{"ns1.sandbox-registrar.test", "ns2.sandbox-registrar.test"}, "hostmaster.sandbox-registrar.test", "sandbox-registrar.test"},
}

// otherZone is the zone with the name servers of all providers that are not in hostingProviders.
const otherZone = "sandbox-dns.test"

// hostingProviderOf returns the name servers and the SOA mailbox of a provider. For a provider that
// is not in hostingProviders, the names are below otherZone.
func hostingProviderOf(provider string) hostingProvider {
	if h, ok := hostingProviders[provider]; ok {
		return h
	}
	base := provider + "." + otherZone
	return hostingProvider{[2]string{"ns1." + base, "ns2." + base}, "hostmaster." + base, otherZone}
}

// NameServers returns the name servers of the zones of a provider.
func NameServers(provider string) []string {
	servers := hostingProviderOf(provider).servers
	return servers[:]
}

// IsHostedBySandbox reports whether zones of the provider can be added while no simulator of the
// provider runs.
func IsHostedBySandbox(provider string) bool {
	_, known := hostingProviders[provider]
	return known
}
