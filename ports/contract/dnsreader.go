// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/ports"
)

// DNSReaderEnv is a test environment of a DNS reader: the reader and the zones it can read.
type DNSReaderEnv interface {
	Reader() ports.DNSReader
	// NewZone creates a zone for one check and returns its name.
	NewZone(t T) string
	// Publish replaces the records of a zone. SOA and NS stay.
	Publish(t T, zone string, records ...dns.Record)
}

type dnsReaderCheck struct {
	name string
	run  func(t T, env DNSReaderEnv)
}

// DNSReader runs the contract suite of ports.DNSReader.
func DNSReader[R Runner[R]](t R, open func(R) DNSReaderEnv) {
	for _, check := range dnsReaderChecks {
		t.Run(check.name, func(t R) { check.run(t, open(t)) })
	}
}

var dnsReaderChecks = []dnsReaderCheck{
	{"a domain's mail records are read", func(t T, env DNSReaderEnv) {
		zone := env.NewZone(t)
		env.Publish(t, zone,
			dns.Record{Type: dns.MX, Name: zone, Content: "Mail.Example.Net", Preference: 10, TTL: 300},
			dns.Record{Type: dns.TXT, Name: "_dmarc." + zone, Content: "v=DMARC1; p=none", TTL: 300},
			dns.Record{Type: dns.CNAME, Name: "selector1._domainkey." + zone, Content: "Target.Example.net", TTL: 300},
			dns.Record{Type: dns.CNAME, Name: "autodiscover." + zone, Content: "autodiscover.outlook.com", TTL: 300},
		)
		read := readDNS(t, env, zone)
		if !read.Complete || read.Zone != zone || read.Domain != zone || read.At.IsZero() {
			t.Fatalf("got %+v, want a complete read", read)
		}
		if len(read.Delegation) == 0 || read.ServersAsked() < len(read.Delegation) || read.ServersAgreeing() != read.ServersAsked() {
			t.Fatalf("the delegation is %v and the servers are %+v, want an equal answer from all servers", read.Delegation, read.Servers)
		}
		requireRecords(t, read, zone, dns.MX, "10 mail.example.net")
		requireRecords(t, read, "_dmarc."+zone, dns.TXT, "v=DMARC1; p=none")
		requireRecords(t, read, "selector1._domainkey."+zone, dns.CNAME, "target.example.net")
		requireRecords(t, read, "autodiscover."+zone, dns.CNAME, "autodiscover.outlook.com")
	}},
	{"all texts are read, long ones in one piece", func(t T, env DNSReaderEnv) {
		zone := env.NewZone(t)
		longText := "v=spf1 " + strings.Repeat("ip4:192.0.2.1 ", 30) + "-all"
		env.Publish(t, zone,
			dns.Record{Type: dns.TXT, Name: zone, Content: longText, TTL: 300},
			dns.Record{Type: dns.TXT, Name: zone, Content: "MS=ms12345678", TTL: 300},
		)
		requireRecords(t, readDNS(t, env, zone), zone, dns.TXT, longText, "MS=ms12345678")
	}},
	{"a record that is not published is absent", func(t T, env DNSReaderEnv) {
		zone := env.NewZone(t)
		env.Publish(t, zone, dns.Record{Type: dns.TXT, Name: zone, Content: "hello", TTL: 300})
		read := readDNS(t, env, zone)
		if !read.Complete {
			t.Fatalf("got %+v, want a complete read", read)
		}
		requireRecords(t, read, zone, dns.MX)
		requireRecords(t, read, "selector1._domainkey."+zone, dns.CNAME)
	}},
	{"a name below the zone's apex has its own records", func(t T, env DNSReaderEnv) {
		zone := env.NewZone(t)
		env.Publish(t, zone,
			dns.Record{Type: dns.TXT, Name: zone, Content: "apex", TTL: 300},
			dns.Record{Type: dns.TXT, Name: "mail." + zone, Content: "below", TTL: 300},
		)
		read := readDNS(t, env, "mail."+zone)
		if read.Zone != zone || read.Domain != "mail."+zone {
			t.Fatalf("got the zone %q and the domain %q, want %q and %q", read.Zone, read.Domain, zone, "mail."+zone)
		}
		requireRecords(t, read, "mail."+zone, dns.TXT, "below")
	}},
	{"the names that wanted records depend on are looked up", func(t T, env DNSReaderEnv) {
		zone := env.NewZone(t)
		subdomain := "mail." + zone
		env.Publish(t, zone,
			dns.Record{Type: dns.MX, Name: subdomain, Content: "alias." + zone, Preference: 10, TTL: 300},
			dns.Record{Type: dns.MX, Name: subdomain, Content: "nowhere." + zone, Preference: 10, TTL: 300},
			dns.Record{Type: dns.CNAME, Name: "alias." + zone, Content: "nowhere." + zone, TTL: 300},
			dns.Record{Type: dns.TXT, Name: "nowhere." + zone, Content: "no address", TTL: 300},
			dns.Record{Type: dns.TXT, Name: subdomain, Content: "v=spf1 include:one." + zone + " -all", TTL: 300},
			dns.Record{Type: dns.TXT, Name: "one." + zone, Content: "v=spf1 include:two." + zone + " -all", TTL: 300},
			dns.Record{Type: dns.TXT, Name: "two." + zone, Content: "v=spf1 -all", TTL: 300},
			dns.Record{Type: dns.TXT, Name: "_dmarc." + zone, Content: "v=DMARC1; p=reject", TTL: 300},
			dns.Record{Type: dns.TXT, Name: "selector1._domainkey." + subdomain, Content: "v=DKIM1; p=abc", TTL: 300},
			dns.Record{Type: dns.TXT, Name: "key." + zone, Content: "v=DKIM1; p=abc", TTL: 300},
		)
		wanted := dns.DesiredRecords(subdomain, dns.Offer{
			Service: []dns.Record{{Type: dns.TXT, Name: subdomain, Content: "v=spf1 include:three." + zone + " -all"}},
			Signing: dns.Signing{Selector1: dns.Record{Type: dns.CNAME, Name: "selector1._domainkey." + subdomain, Content: "key." + zone}},
		})
		read := readDNS(t, env, subdomain, wanted...)
		if !read.Complete {
			t.Fatalf("got %+v, want a complete read", read)
		}
		requireLookup(t, read.Referenced.SPF, "one."+zone, "v=spf1 include:two."+zone+" -all")
		requireLookup(t, read.Referenced.SPF, "two."+zone, "v=spf1 -all")
		requireLookup(t, read.Referenced.SPF, "three."+zone)
		requireLookup(t, read.Referenced.ParentDMARC, "_dmarc."+zone, "v=DMARC1; p=reject")
		requireLookup(t, read.Referenced.Keys, "key."+zone, "v=DKIM1; p=abc")
		want := map[string]dns.MXProblem{"alias." + zone: dns.MXProblemAlias, "nowhere." + zone: dns.MXProblemNoAddress}
		if !maps.Equal(read.Referenced.Exchanges, want) {
			t.Fatalf("the problems of MX targets are %v, want %v", read.Referenced.Exchanges, want)
		}
	}},
	{"without wanted records no other name is looked up", func(t T, env DNSReaderEnv) {
		zone := env.NewZone(t)
		env.Publish(t, zone, dns.Record{Type: dns.MX, Name: zone, Content: "nowhere." + zone, Preference: 10, TTL: 300})
		referenced := readDNS(t, env, zone).Referenced
		if len(referenced.SPF)+len(referenced.ParentDMARC)+len(referenced.Exchanges)+len(referenced.Keys) > 0 {
			t.Fatalf("got %+v, want nothing", referenced)
		}
	}},
	{"each read is fresh", func(t T, env DNSReaderEnv) {
		zone := env.NewZone(t)
		env.Publish(t, zone)
		requireRecords(t, readDNS(t, env, zone), zone, dns.TXT)
		env.Publish(t, zone, dns.Record{Type: dns.TXT, Name: zone, Content: "now", TTL: 3600})
		requireRecords(t, readDNS(t, env, zone), zone, dns.TXT, "now")
	}},
	{"a read of a name that no server knows is incomplete, not an error", func(t T, env DNSReaderEnv) {
		read := readDNS(t, env, "nobody-serves-this."+env.NewZone(t)+"-elsewhere")
		if read.Complete || read.Reason == "" {
			t.Fatalf("got %+v, want an incomplete read with a reason", read)
		}
	}},
	{"a cancelled context is an error", func(t T, env DNSReaderEnv) {
		zone := env.NewZone(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if read, err := env.Reader().Read(ctx, "ann", zone); err == nil {
			t.Fatalf("got %+v, want an error", read)
		}
	}},
}

func readDNS(t T, env DNSReaderEnv, name string, wanted ...dns.Desired) dns.ZoneRead {
	t.Helper()
	read, err := env.Reader().Read(callContext(t), "ann", name, wanted...)
	must(t, "read", err)
	return read
}

// requireLookup checks that a read looked up this name outside the domain, and found these texts.
func requireLookup(t T, texts map[string][]string, name string, want ...string) {
	t.Helper()
	if got, lookedUp := texts[name]; !lookedUp || !slices.Equal(got, want) {
		t.Fatalf("%s has the texts %q (looked up: %v), want %q", name, got, lookedUp, want)
	}
}

// requireRecords checks the values of one record set, in any order.
func requireRecords(t T, read dns.ZoneRead, name string, recordType dns.Type, want ...string) {
	t.Helper()
	var got []string
	for _, set := range read.Sets {
		if set.Name == name && set.Type == recordType {
			got = append(got, set.Values...)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("the values of %s %s are %q, want %q", name, recordType, got, want)
	}
}
