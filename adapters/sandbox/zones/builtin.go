// SPDX-License-Identifier: Apache-2.0

package zones

import (
	"strings"

	wire "github.com/miekg/dns"
)

// hostingProvider is a provider that hosts zones.
type hostingProvider struct {
	servers [2]string
	mailbox string // mailbox name in the SOA record
	zone    string // the zone of the server names
}

// SeededProvider is the provider of the zones of a seeded sandbox.
const SeededProvider = "cloudflare"

// hostingProviders are the providers whose zones the sandbox itself hosts, keyed by id. The service
// recognises a provider by the names of its name servers. All these names resolve to the address of
// the sandbox's DNS server.
var hostingProviders = map[string]hostingProvider{
	SeededProvider:    {[2]string{"ada.ns.cloudflare.com", "bob.ns.cloudflare.com"}, "dns.cloudflare.com", "ns.cloudflare.com"},
	registrarProvider: {[2]string{"ns1.sandbox-registrar.test", "ns2.sandbox-registrar.test"}, "hostmaster.sandbox-registrar.test", "sandbox-registrar.test"},
}

// otherZone is the zone with the name servers of all providers that are not in hostingProviders.
const otherZone = "sandbox-dns.test"

// hostingProviderOf returns the name servers and the SOA mailbox of a provider. For a provider that
// is not in hostingProviders, the names are below otherZone. Such a provider can come from a plugin
// that an operator has added.
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

// IsHostedBySandbox reports whether the sandbox itself hosts zones of the provider. Zones of other
// providers can be added only while the simulators of these providers run.
func IsHostedBySandbox(provider string) bool {
	_, known := hostingProviders[provider]
	return known
}

// builtinZones returns the zones that always exist: the zones of the name servers, and iana.org,
// which `tenantry doctor` reads to check that the DNS works.
func builtinZones() map[string]*zone {
	address := func(name, addr string) Record { return Record{Type: "A", Name: name, Content: addr, TTL: 300} }
	lists := map[string][]Record{
		"iana.org":               nil,
		"ns.cloudflare.com":      nil,
		"sandbox-registrar.test": nil,
		otherZone:                {address("*."+otherZone, "127.0.0.1")},
	}
	for _, h := range hostingProviders {
		for _, server := range h.servers {
			lists[h.zone] = append(lists[h.zone], address(server, "127.0.0.1"))
		}
	}
	builtin := map[string]*zone{}
	for apex, records := range lists {
		z, err := newZone(apex, storedZone{Provider: registrarProvider, Serial: 1, Records: records})
		if err != nil {
			panic("built-in zone " + apex + ": " + err.Error()) // cannot happen, because the records are constants
		}
		builtin[apex] = z
	}
	return builtin
}

// hasDKIMKey reports whether records contain a DKIM key.
func hasDKIMKey(records []wire.RR) bool {
	for _, rr := range recordsOfType(records, wire.TypeTXT) {
		if txt, ok := rr.(*wire.TXT); ok && strings.HasPrefix(strings.Join(txt.Txt, ""), "v=DKIM1") {
			return true
		}
	}
	return false
}

// isSelector reports whether name is the name of a DKIM selector. A mail platform has a key at each
// selector, but no TXT record at other names.
func isSelector(name string) bool { return strings.Contains(name, "._domainkey.") }

// registrySOA returns the SOA of a registry zone: a top-level domain, or the root "".
func registrySOA(apex string) *wire.SOA {
	soa := &wire.SOA{
		Hdr: header(apex, wire.TypeSOA, 3600), Ns: "a.root.sandbox-registrar.test.", Mbox: "hostmaster.sandbox-registrar.test.",
		Serial: 1, Refresh: 3600, Retry: 600, Expire: 604800, Minttl: negativeTTL,
	}
	if apex == "" {
		soa.Hdr.Name = "."
	}
	return soa
}
