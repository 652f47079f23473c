// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"slices"
	"testing"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestContract runs the contract suite of a DNS provider (package ports/contract) with a real BIND
// server.
func TestContract(t *testing.T) {
	f := newFixture(t)
	conformance.DNSInProcess(t, func(conformance.T) conformance.DNSFixture { return f })
}

// TestBinary runs the conformance suites with the plugin's release binary.
func TestBinary(t *testing.T) {
	path := testserver.Program(t, "release/plugins/dns-rfc2136")
	conformance.DNS(t, conformance.Binary{Path: path},
		func(t conformance.T, provider func(sdk.Connection) sdk.DNSProvider) conformance.DNSFixture {
			f := newFixture(t)
			f.newProviderFunc = func(c sdk.Connection) (sdk.DNSProvider, error) { return provider(c), nil }
			return f
		})
}

// TestPrerequisitesDetectConcurrentChanges sends an update that was created before the zone
// changed.
func TestPrerequisitesDetectConcurrentChanges(t *testing.T) {
	f := newFixture(t)
	for name, tt := range map[string]struct {
		before, concurrent sdk.RRSet
		after              sdk.RRSet
	}{
		"a value changed": {
			sdk.RRSet{Type: sdk.TXT, TTL: 300, Values: []string{"old"}}, sdk.RRSet{Type: sdk.TXT, TTL: 300, Values: []string{"foreign"}},
			sdk.RRSet{Type: sdk.TXT, TTL: 300, Values: []string{"managed"}},
		},
		"a set was created": {
			sdk.RRSet{Type: sdk.TXT}, sdk.RRSet{Type: sdk.TXT, TTL: 300, Values: []string{"foreign"}},
			sdk.RRSet{Type: sdk.TXT, TTL: 300, Values: []string{"managed"}},
		},
		"a text was added at the name of the CNAME": {
			sdk.RRSet{Type: sdk.CNAME}, sdk.RRSet{Type: sdk.TXT, TTL: 300, Values: []string{"foreign"}},
			sdk.RRSet{Type: sdk.CNAME, TTL: 300, Values: []string{"managed.example"}},
		},
		"a CNAME was added at the name of the text": {
			sdk.RRSet{Type: sdk.TXT}, sdk.RRSet{Type: sdk.CNAME, TTL: 300, Values: []string{"foreign.example"}},
			sdk.RRSet{Type: sdk.TXT, TTL: 300, Values: []string{"managed"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			zone := f.NewZone(t)
			tt.before.Name, tt.concurrent.Name, tt.after.Name = "x."+zone, "x."+zone, "x."+zone
			if len(tt.before.Values) > 0 {
				f.Put(t, zone, tt.before)
			}
			p := f.Provider().(*provider)
			records, err := p.transfer(t.Context(), zone)
			if err != nil {
				t.Fatal(err)
			}
			m, err := newUpdateMessage(zone, records, []sdk.Change{{Before: tt.before, After: tt.after}})
			if err != nil {
				t.Fatal(err)
			}
			f.Put(t, zone, tt.concurrent)
			if err := p.update(t.Context(), m); sdk.OutcomeOf(err) != sdk.OutcomeOf(sdk.ZoneChanged()) {
				t.Fatalf("got %v, want a changed zone", err)
			}
			if held := f.Held(t, zone); len(held) != 1 || !held[0].Same(tt.concurrent) {
				t.Fatalf("the zone has %+v", held)
			}
		})
	}
}

// TestApplyKeepsTheStringsOfATXT checks a text that its owner has split into several strings.
func TestApplyKeepsTheStringsOfATXT(t *testing.T) {
	f := newFixture(t)
	zone := f.NewZone(t)
	ownersRecord := &wire.TXT{Hdr: wire.RR_Header{Name: zone + ".", Rrtype: wire.TypeTXT, Class: wire.ClassINET, Ttl: 700}, Txt: []string{"in ", "two"}}
	m := new(wire.Msg).SetUpdate(zone + ".")
	m.Insert([]wire.RR{ownersRecord})
	f.update(t, m)
	for _, ttl := range []int{700, 900} { // the second TTL applies to the whole set
		p := f.Provider()
		z, err := p.Zone(t.Context(), zone)
		if err != nil {
			t.Fatal(err)
		}
		sets, err := p.Records(t.Context(), z)
		if err != nil {
			t.Fatal(err)
		}
		before := sdk.FindSet(sets, zone, sdk.TXT)
		after := sdk.RRSet{Name: zone, Type: sdk.TXT, TTL: ttl, Values: append(slices.Clone(before.Values), "more")}
		if _, err := p.Apply(t.Context(), z, []sdk.Change{{Before: before, After: after}}); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(f.transfer(t, zone), func(rr wire.RR) bool {
			text, ok := rr.(*wire.TXT)
			return ok && slices.Equal(text.Txt, ownersRecord.Txt) && int(text.Hdr.Ttl) == ttl
		}) {
			t.Fatalf("the strings changed: %v", f.transfer(t, zone))
		}
		f.Put(t, zone, sdk.RRSet{Name: zone, Type: sdk.TXT})
		f.update(t, func() *wire.Msg {
			m := new(wire.Msg).SetUpdate(zone + ".")
			m.Insert([]wire.RR{ownersRecord})
			return m
		}())
	}
}

func validConnection() sdk.Connection {
	return sdk.Connection{
		Settings: map[string]string{"server": "ns1.example.com", "zones": "Example.com., example.net", "key_name": "upd"},
		Secrets:  map[string]sdk.Secret{"key_secret": sdk.NewSecret("c2VjcmV0")},
	}
}

func TestInvalidConnectionsAreRefused(t *testing.T) {
	p, err := newProvider(validConnection())
	if err != nil || p.(*provider).server != "ns1.example.com:53" || !slices.Equal(p.(*provider).zones, []string{"example.com", "example.net"}) {
		t.Fatalf("%+v, %v", p, err)
	}
	for name, makeInvalid := range map[string]func(sdk.Connection){
		"no server":        func(c sdk.Connection) { c.Settings["server"] = "" },
		"a URL":            func(c sdk.Connection) { c.Settings["server"] = "https://ns1.example.com/" },
		"port 0":           func(c sdk.Connection) { c.Settings["server"] = "ns1.example.com:0" },
		"no zones":         func(c sdk.Connection) { c.Settings["zones"] = " , " },
		"a bad zone":       func(c sdk.Connection) { c.Settings["zones"] = "a..b" },
		"no key":           func(c sdk.Connection) { c.Settings["key_name"] = "" },
		"an old algorithm": func(c sdk.Connection) { c.Settings["key_algorithm"] = "hmac-md5" },
		"not base64":       func(c sdk.Connection) { c.Secrets["key_secret"] = sdk.NewSecret("???") },
		"no secret":        func(c sdk.Connection) { delete(c.Secrets, "key_secret") },
		"not a boolean":    func(c sdk.Connection) { c.Settings["allow_private"] = "maybe" },
	} {
		c := validConnection()
		makeInvalid(c)
		if _, err := newProvider(c); sdk.OutcomeOf(err).Code.Name != "invalid_request" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestTheServerIsTheOnlyNamedHost checks that each form of the field server names the host that the
// plugin connects to.
func TestTheServerIsTheOnlyNamedHost(t *testing.T) {
	for _, server := range []string{"ns1.example.com", " NS1.example.com.:53 ", "192.0.2.1:5353", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:53"} {
		c := validConnection()
		c.Settings["server"] = server
		p, err := newProvider(c)
		if err != nil {
			t.Fatal(err)
		}
		host, _, err := net.SplitHostPort(p.(*provider).server)
		if hosts := description().HostsOf(c); err != nil || !slices.Equal(hosts, []string{sdk.PlainName(host)}) {
			t.Errorf("%q: the hosts %q are named, and %q is called, %v", server, hosts, host, err)
		}
	}
}

// TestPrivateAddressesAreNotCalled covers private addresses. A customer chooses the server, so the
// plugin must not call servers in the operator's network.
func TestPrivateAddressesAreNotCalled(t *testing.T) {
	c := validConnection()
	c.Settings["server"] = "127.0.0.1:1"
	p, err := newProvider(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Check(t.Context()); sdk.OutcomeOf(err).Code.Name != "invalid_request" {
		t.Fatalf("got %v", err)
	}
}

func TestUnreachableServerIsDown(t *testing.T) {
	c := validConnection()
	c.Settings["server"], c.Settings["allow_private"] = "127.0.0.1:1", "true"
	p, err := newProvider(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Check(t.Context()); sdk.OutcomeOf(err).Kind != sdk.Down {
		t.Fatalf("got %v", err)
	}
}

// TestApplyHandlesRepeatedTexts checks a zone with two TXT records of the same text, which are
// split into different strings. A change may remove one of the two records.
func TestApplyHandlesRepeatedTexts(t *testing.T) {
	f := newFixture(t)
	zone := f.NewZone(t)
	m := new(wire.Msg).SetUpdate(wire.Fqdn(zone))
	for _, parts := range [][]string{{"twice"}, {"twi", "ce"}, {"both stay"}, {"both ", "stay"}} {
		m.Insert([]wire.RR{&wire.TXT{Hdr: wire.RR_Header{Name: "x." + zone + ".", Rrtype: wire.TypeTXT, Class: wire.ClassINET, Ttl: 300}, Txt: parts}})
	}
	f.update(t, m)
	before := sdk.FindSet(f.Held(t, zone), "x."+zone, sdk.TXT)
	after := before
	after.Values = []string{"both stay", "both stay", "twice"}
	if _, err := f.Provider().Apply(t.Context(), sdk.Zone{ID: zone, Name: zone}, []sdk.Change{{Before: before, After: after}}); err != nil {
		t.Fatal(err)
	}
	if held := sdk.FindSet(f.Held(t, zone), "x."+zone, sdk.TXT); !held.Same(after) {
		t.Errorf("the zone has %+v", held)
	}
}
