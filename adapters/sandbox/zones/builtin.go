// SPDX-License-Identifier: Apache-2.0

package zones

import (
	"strings"

	wire "github.com/miekg/dns"
)

// host is a company that serves zones.
type host struct {
	servers [2]string
	mailbox string // the SOA's
	zone    string // where the servers' names live
}

// hosts are the places where a zone can be. Their servers' names are those by
// which a provider is recognised; all of them are this one server.
var hosts = map[string]host{
	"cloudflare": {[2]string{"ada.ns.cloudflare.com", "bob.ns.cloudflare.com"}, "dns.cloudflare.com", "ns.cloudflare.com"},
	"manual":     {[2]string{"ns1.sandbox-registrar.test", "ns2.sandbox-registrar.test"}, "hostmaster.sandbox-registrar.test", "sandbox-registrar.test"},
}

// documentation is an address that leads nowhere: the mail platform's own
// machines are not part of the sandbox, but their names resolve.
const documentation = "192.0.2.25"

// builtin are the zones that are there without anybody's doing: those of the
// name servers and those of the mail platform that customers' records name.
func builtin() map[string]*zone {
	a := func(name, addr string) Record { return Record{Type: "A", Name: name, Content: addr, TTL: 300} }
	text := func(name, content string) Record {
		return Record{Type: "TXT", Name: name, Content: content, TTL: 300}
	}
	lists := map[string][]Record{
		"outlook.com": {
			text("spf.protection.outlook.com", "v=spf1 ip4:40.92.0.0/15 ip4:40.107.0.0/16 ip4:52.100.0.0/15 ip4:52.102.0.0/16 "+
				"ip4:52.103.0.0/17 ip4:104.47.0.0/17 ip6:2a01:111:f400::/48 ip6:2a01:111:f403::/49 -all"),
			a("autodiscover.outlook.com", documentation),
			a("*.mail.protection.outlook.com", documentation),
		},
		"mx.microsoft":           {a("*.mx.microsoft", documentation)},
		"onmicrosoft.com":        {text("*.onmicrosoft.com", signingKey)},
		"dkim.mail.microsoft":    {text("*.dkim.mail.microsoft", signingKey)},
		"ns.cloudflare.com":      nil,
		"sandbox-registrar.test": nil,
	}
	for _, h := range hosts {
		for _, server := range h.servers {
			lists[h.zone] = append(lists[h.zone], a(server, "127.0.0.1"))
		}
	}
	out := map[string]*zone{}
	for apex, records := range lists {
		z, err := makeZone(apex, kept{Provider: "manual", Serial: 1, Records: records})
		if err != nil {
			panic("built-in zone " + apex + ": " + err.Error()) // a test opens a store
		}
		out[apex] = z
	}
	out["onmicrosoft.com"].wild, out["dkim.mail.microsoft"].wild = selector, selector
	return out
}

// selector reports whether name is a DKIM selector's. The platform has a key at
// each and no text at its other names.
func selector(name string) bool { return strings.Contains(name, "._domainkey.") }

// registrySOA is the SOA of a zone above all others, "" for the root.
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
