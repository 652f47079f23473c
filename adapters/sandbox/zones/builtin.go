// SPDX-License-Identifier: Apache-2.0

package zones

import (
	"strings"

	wire "github.com/miekg/dns"
)

// hosting is a provider that hosts zones.
type hosting struct {
	servers [2]string
	mailbox string // mailbox name in the SOA record
	zone    string // the zone of the server names
}

// hostings are the providers that can host a zone, keyed by id. A provider is recognised by the
// names of its name servers. All these names resolve to the address of the sandbox's DNS server.
var hostings = map[string]hosting{
	"cloudflare": {[2]string{"ada.ns.cloudflare.com", "bob.ns.cloudflare.com"}, "dns.cloudflare.com", "ns.cloudflare.com"},
	"manual":     {[2]string{"ns1.sandbox-registrar.test", "ns2.sandbox-registrar.test"}, "hostmaster.sandbox-registrar.test", "sandbox-registrar.test"},
}

// otherZone is the zone of the name servers of all other providers.
const otherZone = "sandbox-dns.test"

// hostingOf returns the hosting of a provider. A provider that is not in hostings, such as one whose
// plugin was written elsewhere, has name servers below otherZone.
func hostingOf(provider string) hosting {
	if h, ok := hostings[provider]; ok {
		return h
	}
	base := provider + "." + otherZone
	return hosting{[2]string{"ns1." + base, "ns2." + base}, "hostmaster." + base, otherZone}
}

// IsHosting reports whether the sandbox itself knows the provider. The other providers host zones
// only while their simulators run.
func IsHosting(provider string) bool {
	_, known := hostings[provider]
	return known
}

// documentationAddr is an address for documentation (RFC 5737), which no host has. The names of the
// mail platform resolve to it, because the platform's hosts are not part of the sandbox.
const documentationAddr = "192.0.2.25"

// builtin returns the zones that always exist: the zones of the name servers, and the zones of the
// mail platform to which customers' records refer.
func builtin() map[string]*zone {
	address := func(name, addr string) Record { return Record{Type: "A", Name: name, Content: addr, TTL: 300} }
	text := func(name, content string) Record {
		return Record{Type: "TXT", Name: name, Content: content, TTL: 300}
	}
	lists := map[string][]Record{
		"outlook.com": {
			text("spf.protection.outlook.com", "v=spf1 ip4:40.92.0.0/15 ip4:40.107.0.0/16 ip4:52.100.0.0/15 ip4:52.102.0.0/16 "+
				"ip4:52.103.0.0/17 ip4:104.47.0.0/17 ip6:2a01:111:f400::/48 ip6:2a01:111:f403::/49 -all"),
			address("autodiscover.outlook.com", documentationAddr),
			address("*.mail.protection.outlook.com", documentationAddr),
		},
		"mx.microsoft":           {address("*.mx.microsoft", documentationAddr)},
		"onmicrosoft.com":        {text("*.onmicrosoft.com", signingKey)},
		"dkim.mail.microsoft":    {text("*.dkim.mail.microsoft", signingKey)},
		"ns.cloudflare.com":      nil,
		"sandbox-registrar.test": nil,
		otherZone:                {address("*."+otherZone, "127.0.0.1")},
	}
	for _, h := range hostings {
		for _, server := range h.servers {
			lists[h.zone] = append(lists[h.zone], address(server, "127.0.0.1"))
		}
	}
	out := map[string]*zone{}
	for apex, records := range lists {
		z, err := newZone(apex, storedZone{Provider: "manual", Serial: 1, Records: records})
		if err != nil {
			panic("built-in zone " + apex + ": " + err.Error()) // cannot happen: the records are constants
		}
		out[apex] = z
	}
	out["onmicrosoft.com"].wildcardCovers, out["dkim.mail.microsoft"].wildcardCovers = isSelector, isSelector
	return out
}

// isSelector reports whether name is the name of a DKIM selector. The platform has a key at each
// selector, and no TXT record at other names.
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

// signingKey is the DKIM public key that the mail platform publishes at each selector. The private
// key was deleted, because the sandbox signs no mail.
const signingKey = "v=DKIM1; k=rsa; p=" +
	"MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAtdutiQq6h/2/1kN15htrVNvX++Oh7bq2IYANevhj4slUaJeqYWcQwv/+" +
	"XMA8GBGbOytSrKiO10LCo9LjemKyyWnZVJyoczc0xEQmSZkz7VyyNBXPHnhhAH8NELls1HSVvBqw2BNjB/DL6POColTt3TSujooi" +
	"nFxquJqgWW9Ybp7fgGA4G5FqQrktWgSuZ0XlopigVz84CDlH4v5TIFsb02S8SGPsLGt5yhP0e8GPhQhVQ2RG+vWMxoJb8dTotf27" +
	"7cSoUEd/F3qp+8+LOIx6WR/d3E4h4m9/oAo0kyH/KS/x8IP9BGPMAevobCZXLlbGwqRGlrYJqyf/jLGkKMqKsQIDAQAB"
