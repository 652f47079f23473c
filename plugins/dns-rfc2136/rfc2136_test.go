// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"slices"
	"strings"
	"testing"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestContract runs the contract suite of a DNS provider (package ports/contract) with a real BIND
// server.
func TestContract(t *testing.T) {
	fixture := newFixture(t)
	conformance.DNSInProcess(t, func(conformance.T) conformance.DNSFixture { return fixture })
}

// TestBinary runs the conformance suites with the plugin's release binary.
func TestBinary(t *testing.T) {
	path := testserver.Program(t, "release/plugins/dns-rfc2136")
	conformance.DNS(t, conformance.Binary{Path: path},
		func(t conformance.T, provider func(sdk.Connection) sdk.DNSProvider) conformance.DNSFixture {
			fixture := newFixture(t)
			fixture.newProviderFunc = func(connection sdk.Connection) (sdk.DNSProvider, error) { return provider(connection), nil }
			return fixture
		})
}

func TestZoneThatTheServerLacksIsReported(t *testing.T) {
	fixture := newFixture(t)
	connection := fixture.connection(fixture.server.Secret)
	connection.Settings["zones"] = "lacking.test"
	dnsProvider, err := newTestProvider(connection)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dnsProvider.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "zones: the server does not serve") {
		t.Errorf("Check: %v, want an error that names the setting zones", err)
	}
	if _, err := dnsProvider.Zone(t.Context(), "lacking.test"); !sdk.IsNoZone(err) {
		t.Errorf("Zone: %v, want no zone", err)
	}
}

// TestPrerequisitesDetectConcurrentChanges creates an update, changes the zone, and then sends the
// update. The server must refuse it.
func TestPrerequisitesDetectConcurrentChanges(t *testing.T) {
	fixture := newFixture(t)
	for name, tc := range map[string]struct {
		before, concurrent, after sdk.RRSet
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
			zone := fixture.NewZone(t)
			tc.before.Name, tc.concurrent.Name, tc.after.Name = "x."+zone, "x."+zone, "x."+zone
			if len(tc.before.Values) > 0 {
				fixture.Put(t, zone, tc.before)
			}
			dnsProvider := fixture.Provider().(*provider)
			records, err := dnsProvider.transfer(t.Context(), zone)
			if err != nil {
				t.Fatal(err)
			}
			msg, err := newUpdateMessage(zone, records, []sdk.Change{{Before: tc.before, After: tc.after}})
			if err != nil {
				t.Fatal(err)
			}
			fixture.Put(t, zone, tc.concurrent)
			if err := dnsProvider.update(t.Context(), msg); sdk.OutcomeOf(err) != sdk.OutcomeOf(sdk.ZoneChanged()) {
				t.Fatalf("got %v, want the error that the zone changed", err)
			}
			if held := fixture.Held(t, zone); len(held) != 1 || !held[0].Same(tc.concurrent) {
				t.Fatalf("the zone has %+v, want only %+v", held, tc.concurrent)
			}
		})
	}
}

// TestApplyKeepsTheStringsOfATXT adds a value to a TXT set. The set has a text that its owner has
// divided into several strings.
func TestApplyKeepsTheStringsOfATXT(t *testing.T) {
	fixture := newFixture(t)
	zone := fixture.NewZone(t)
	ownersRecord := &wire.TXT{Hdr: wire.RR_Header{Name: zone + ".", Rrtype: wire.TypeTXT, Class: wire.ClassINET, Ttl: 700}, Txt: []string{"in ", "two"}}
	for _, ttl := range []int{700, 900} { // 700 keeps the TTL of the set, 900 changes it
		fixture.Put(t, zone, sdk.RRSet{Name: zone, Type: sdk.TXT})
		msg := new(wire.Msg).SetUpdate(zone + ".")
		msg.Insert([]wire.RR{ownersRecord})
		fixture.update(t, msg)
		provider := fixture.Provider()
		zoneInfo, err := provider.Zone(t.Context(), zone)
		if err != nil {
			t.Fatal(err)
		}
		sets, err := provider.Records(t.Context(), zoneInfo)
		if err != nil {
			t.Fatal(err)
		}
		before := sdk.FindSet(sets, zone, sdk.TXT)
		after := sdk.RRSet{Name: zone, Type: sdk.TXT, TTL: ttl, Values: append(slices.Clone(before.Values), "more")}
		if _, err := provider.Apply(t.Context(), zoneInfo, []sdk.Change{{Before: before, After: after}}); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(fixture.transfer(t, zone), func(rr wire.RR) bool {
			text, ok := rr.(*wire.TXT)
			return ok && slices.Equal(text.Txt, ownersRecord.Txt) && int(text.Hdr.Ttl) == ttl
		}) {
			t.Fatalf("the zone has %v, want a TXT record with the strings %q and the TTL %d", fixture.transfer(t, zone), ownersRecord.Txt, ttl)
		}
	}
}

// TestApplyKeepsATTLOf0 adds a value to a set whose owner has chosen the TTL 0.
func TestApplyKeepsATTLOf0(t *testing.T) {
	fixture := newFixture(t)
	zone := fixture.NewZone(t)
	before := sdk.RRSet{Name: zone, Type: sdk.TXT, Values: []string{"of the owner"}}
	fixture.Put(t, zone, before)
	after := before
	after.Values = []string{"of the owner", "MS=ms1"}
	provider := fixture.Provider()
	zoneInfo, err := provider.Zone(t.Context(), zone)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Apply(t.Context(), zoneInfo, []sdk.Change{{Before: before, After: after}}); err != nil {
		t.Fatal(err)
	}
	if held := sdk.FindSet(fixture.Held(t, zone), zone, sdk.TXT); !held.Same(after) || held.TTL != 0 {
		t.Errorf("the zone has %+v, want %+v", held, after)
	}
}

func validConnection() sdk.Connection {
	return sdk.Connection{
		Settings: map[string]string{"server": "ns1.example.com", "zones": "Example.com., example.net", "key_name": "upd"},
		Secrets:  map[string]sdk.Secret{"key_secret": sdk.NewSecret("c2VjcmV0")},
	}
}

func TestInvalidConnectionsAreRefused(t *testing.T) {
	dnsProvider, err := newProvider(validConnection())
	if err != nil || dnsProvider.(*provider).server != "ns1.example.com:53" || !slices.Equal(dnsProvider.(*provider).zones, []string{"example.com", "example.net"}) {
		t.Fatalf("a valid connection: %+v, %v, want the port 53 and two zones", dnsProvider, err)
	}
	for name, makeInvalid := range map[string]func(sdk.Connection){
		"no server":        func(connection sdk.Connection) { connection.Settings["server"] = "" },
		"a URL":            func(connection sdk.Connection) { connection.Settings["server"] = "https://ns1.example.com/" },
		"port 0":           func(connection sdk.Connection) { connection.Settings["server"] = "ns1.example.com:0" },
		"no zones":         func(connection sdk.Connection) { connection.Settings["zones"] = " , " },
		"a bad zone":       func(connection sdk.Connection) { connection.Settings["zones"] = "a..b" },
		"no key":           func(connection sdk.Connection) { connection.Settings["key_name"] = "" },
		"an old algorithm": func(connection sdk.Connection) { connection.Settings["key_algorithm"] = "hmac-md5" },
		"not base64":       func(connection sdk.Connection) { connection.Secrets["key_secret"] = sdk.NewSecret("???") },
		"no secret":        func(connection sdk.Connection) { delete(connection.Secrets, "key_secret") },
		"not a boolean":    func(connection sdk.Connection) { connection.Settings["allow_private"] = "maybe" },
	} {
		connection := validConnection()
		makeInvalid(connection)
		if _, err := newProvider(connection); sdk.OutcomeOf(err).Code.Name != "invalid_request" {
			t.Errorf("%s: got %v, want invalid_request", name, err)
		}
	}
}

// TestTheServerIsTheOnlyAllowedHost checks several forms of the setting `server`. HostsOf must
// return only the host that the plugin calls.
func TestTheServerIsTheOnlyAllowedHost(t *testing.T) {
	for _, server := range []string{"ns1.example.com", " NS1.example.com.:53 ", "192.0.2.1:5353", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:53"} {
		connection := validConnection()
		connection.Settings["server"] = server
		dnsProvider, err := newProvider(connection)
		if err != nil {
			t.Fatal(err)
		}
		host, _, err := net.SplitHostPort(dnsProvider.(*provider).server)
		if hosts := description().HostsOf(connection); err != nil || !slices.Equal(hosts, []string{sdk.PlainName(host)}) {
			t.Errorf("%q: the hosts %q are allowed, want only the host %q that the plugin calls: %v", server, hosts, host, err)
		}
	}
}

// TestPrivateAddressesAreNotCalled covers private addresses. A customer chooses the server, so the
// plugin must not call servers in the operator's network.
func TestPrivateAddressesAreNotCalled(t *testing.T) {
	connection := validConnection()
	connection.Settings["server"] = "127.0.0.1:1"
	provider, err := newProvider(connection)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Check(t.Context()); sdk.OutcomeOf(err).Code.Name != "invalid_request" {
		t.Fatalf("Check of a private address: %v, want invalid_request", err)
	}
}

func TestUnreachableServerIsDown(t *testing.T) {
	connection := validConnection()
	connection.Settings["server"], connection.Settings["allow_private"] = "127.0.0.1:1", "true"
	provider, err := newTestProvider(connection)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Check(t.Context()); sdk.OutcomeOf(err).Kind != sdk.Down {
		t.Fatalf("Check of an unreachable server: %v, want down", err)
	}
}

// TestApplyHandlesRepeatedTexts checks two pairs of TXT records. The records of a pair have the
// same text, divided into different strings. The change removes one record of the first pair.
func TestApplyHandlesRepeatedTexts(t *testing.T) {
	fixture := newFixture(t)
	zone := fixture.NewZone(t)
	msg := new(wire.Msg).SetUpdate(wire.Fqdn(zone))
	for _, stringsOfText := range [][]string{{"twice"}, {"twi", "ce"}, {"both stay"}, {"both ", "stay"}} {
		msg.Insert([]wire.RR{&wire.TXT{Hdr: wire.RR_Header{Name: "x." + zone + ".", Rrtype: wire.TypeTXT, Class: wire.ClassINET, Ttl: 300}, Txt: stringsOfText}})
	}
	fixture.update(t, msg)
	before := sdk.FindSet(fixture.Held(t, zone), "x."+zone, sdk.TXT)
	after := before
	after.Values = []string{"both stay", "both stay", "twice"}
	if _, err := fixture.Provider().Apply(t.Context(), sdk.Zone{ID: zone, Name: zone}, []sdk.Change{{Before: before, After: after}}); err != nil {
		t.Fatal(err)
	}
	if held := sdk.FindSet(fixture.Held(t, zone), "x."+zone, sdk.TXT); !held.Same(after) {
		t.Errorf("the zone has %+v, want %+v", held, after)
	}
}
