// SPDX-License-Identifier: Apache-2.0

package dnsresolver_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/contract"

	wire "github.com/miekg/dns"
)

func TestContract(t *testing.T) {
	contract.DNSReader(t, func(t *testing.T) contract.DNSReaderEnv {
		env := newFixture(t, "")
		fixture := contractFixture{env, newServer(t, ""), env.reader()}
		env.startServer("127.0.0.2", fixture.server)
		return fixture
	})
}

// contractFixture implements contract.DNSReaderEnv. It serves one zone.
type contractFixture struct {
	*fixture
	server *recordServer
	reader ports.DNSReader
}

const contractZone = "contract.example"

func (f contractFixture) Reader() ports.DNSReader { return f.reader }

func (f contractFixture) NewZone(t contract.T) string {
	f.Publish(t, contractZone)
	return contractZone
}

func (f contractFixture) Publish(t contract.T, name string, records ...dns.Record) {
	rrs := newServer(t, apexText(name)).records
	for _, r := range records {
		header := wire.RR_Header{Name: r.Name + ".", Rrtype: wire.StringToType[string(r.Type)], Class: wire.ClassINET, Ttl: uint32(r.TTL)}
		rrs = append(rrs, wireRecord(header, r))
	}
	f.server.replace(rrs)
	f.resolver.replace(append(newServer(t, "ns."+name+". 300 IN A 127.0.0.2\n").records, rrs...))
}

// apexText returns the SOA and NS records of the zone name.
func apexText(name string) string {
	return fmt.Sprintf("%[1]s. 300 IN SOA ns.%[1]s. h.%[1]s. 1 2 3 4 5\n%[1]s. 300 IN NS ns.%[1]s.\n", name)
}

// wireRecord returns r as a record of package miekg/dns.
func wireRecord(header wire.RR_Header, r dns.Record) wire.RR {
	switch r.Type {
	case dns.MX:
		return &wire.MX{Hdr: header, Preference: uint16(r.Preference), Mx: r.Content + "."}
	case dns.CNAME:
		return &wire.CNAME{Hdr: header, Target: r.Content + "."}
	default:
		var parts []string
		for part := range slices.Chunk([]byte(r.Content), 255) { // the maximum length of one string
			parts = append(parts, string(part))
		}
		return &wire.TXT{Hdr: header, Txt: parts}
	}
}
