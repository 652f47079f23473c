// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"slices"
	"testing"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/ports/contract"
)

// TestContract runs the port's promises over a real BIND.
func TestContract(t *testing.T) {
	w := newWorld(t)
	contract.DNSProvider(t, func(testing.TB) contract.ProviderWorld { return w })
}

// TestBinary runs every suite over the plugin as it is built.
func TestBinary(t *testing.T) {
	path := testserver.Program(t, "release/plugins/dns-rfc2136")
	connect := func(string) sdk.Connection { return good() }
	conformance.DNS(t, conformance.Binary{Path: path, Connect: connect},
		func(t testing.TB, provider func(sdk.Connection) sdk.DNSProvider) contract.ProviderWorld {
			w := newWorld(t)
			w.make = func(c sdk.Connection) (sdk.DNSProvider, error) { return provider(c), nil }
			return w
		})
}

// The prerequisites are what stops a write that was read too early: the
// transaction is made from an old read, and the zone moved since.
func TestPrerequisitesCompareAndSwap(t *testing.T) {
	w := newWorld(t)
	for name, tt := range map[string]struct {
		before, meanwhile dns.RRSet
		after             dns.RRSet
	}{
		"a value changed": {
			dns.RRSet{Type: dns.TXT, TTL: 300, Values: []string{"old"}}, dns.RRSet{Type: dns.TXT, TTL: 300, Values: []string{"theirs"}},
			dns.RRSet{Type: dns.TXT, TTL: 300, Values: []string{"ours"}},
		},
		"a set was made": {
			dns.RRSet{Type: dns.TXT}, dns.RRSet{Type: dns.TXT, TTL: 300, Values: []string{"theirs"}},
			dns.RRSet{Type: dns.TXT, TTL: 300, Values: []string{"ours"}},
		},
		"a neighbour came for our CNAME": {
			dns.RRSet{Type: dns.CNAME}, dns.RRSet{Type: dns.TXT, TTL: 300, Values: []string{"theirs"}},
			dns.RRSet{Type: dns.CNAME, TTL: 300, Values: []string{"ours.example"}},
		},
		"a CNAME came for our text": {
			dns.RRSet{Type: dns.TXT}, dns.RRSet{Type: dns.CNAME, TTL: 300, Values: []string{"theirs.example"}},
			dns.RRSet{Type: dns.TXT, TTL: 300, Values: []string{"ours"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			zone := w.NewZone(t)
			tt.before.Name, tt.meanwhile.Name, tt.after.Name = "x."+zone, "x."+zone, "x."+zone
			if len(tt.before.Values) > 0 {
				w.Put(t, zone, tt.before)
			}
			p := w.Provider().(*provider)
			all, err := p.transfer(t.Context(), zone)
			if err != nil {
				t.Fatal(err)
			}
			m, err := transaction(zone, all, []dns.Change{{Before: tt.before, After: tt.after}})
			if err != nil {
				t.Fatal(err)
			}
			w.Put(t, zone, tt.meanwhile)
			if err := p.update(t.Context(), m); !dns.IsChanged(err) {
				t.Fatalf("got %v, want a changed zone", err)
			}
			if held := w.Held(t, zone); len(held) != 1 || !held[0].Same(tt.meanwhile) {
				t.Fatalf("held %+v", held)
			}
		})
	}
}

// A text that its owner wrote in several strings keeps them.
func TestStringsStay(t *testing.T) {
	w := newWorld(t)
	zone := w.NewZone(t)
	theirs := &wire.TXT{Hdr: wire.RR_Header{Name: zone + ".", Rrtype: wire.TypeTXT, Class: wire.ClassINET, Ttl: 700}, Txt: []string{"in ", "two"}}
	m := new(wire.Msg).SetUpdate(zone + ".")
	m.Insert([]wire.RR{theirs})
	w.send(t, m)
	for _, ttl := range []int{700, 900} { // the second writes the whole set anew
		p := w.Provider()
		z, err := p.Zone(t.Context(), zone)
		if err != nil {
			t.Fatal(err)
		}
		now, err := p.Records(t.Context(), z)
		if err != nil {
			t.Fatal(err)
		}
		before := dns.Find(now, zone, dns.TXT)
		after := dns.RRSet{Name: zone, Type: dns.TXT, TTL: ttl, Values: append(slices.Clone(before.Values), "more")}
		if _, err := p.Apply(t.Context(), z, []dns.Change{{Before: before, After: after}}); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(w.raw(t, zone), func(rr wire.RR) bool {
			text, ok := rr.(*wire.TXT)
			return ok && slices.Equal(text.Txt, theirs.Txt) && int(text.Hdr.Ttl) == ttl
		}) {
			t.Fatalf("the strings changed: %v", w.raw(t, zone))
		}
		w.Put(t, zone, dns.RRSet{Name: zone, Type: dns.TXT})
		w.send(t, func() *wire.Msg { m := new(wire.Msg).SetUpdate(zone + "."); m.Insert([]wire.RR{theirs}); return m }())
	}
}

func good() sdk.Connection {
	return sdk.Connection{
		Settings: map[string]string{"server": "ns1.example.com", "zones": "Example.com., example.net", "key_name": "upd"},
		Secrets:  map[string]secret.Text{"key_secret": secret.New("c2VjcmV0")},
	}
}

func TestConnectionsThatMakeNoSense(t *testing.T) {
	p, err := newProvider(good())
	if err != nil || p.(*provider).server != "ns1.example.com:53" || !slices.Equal(p.(*provider).zones, []string{"example.com", "example.net"}) {
		t.Fatalf("%+v, %v", p, err)
	}
	for name, spoil := range map[string]func(sdk.Connection){
		"no server":         func(c sdk.Connection) { c.Settings["server"] = "" },
		"a URL":             func(c sdk.Connection) { c.Settings["server"] = "https://ns1.example.com/" },
		"a port that isn't": func(c sdk.Connection) { c.Settings["server"] = "ns1.example.com:0" },
		"no zones":          func(c sdk.Connection) { c.Settings["zones"] = " , " },
		"a bad zone":        func(c sdk.Connection) { c.Settings["zones"] = "a..b" },
		"no key":            func(c sdk.Connection) { c.Settings["key_name"] = "" },
		"an old algorithm":  func(c sdk.Connection) { c.Settings["key_algorithm"] = "hmac-md5" },
		"not base64":        func(c sdk.Connection) { c.Secrets["key_secret"] = secret.New("???") },
		"no secret":         func(c sdk.Connection) { delete(c.Secrets, "key_secret") },
		"maybe private":     func(c sdk.Connection) { c.Settings["allow_private"] = "maybe" },
	} {
		c := good()
		spoil(c)
		if _, err := newProvider(c); !errors.Is(err, fault.InvalidRequest) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A customer names the host, so one on our own network is not called.
func TestPrivateHostsAreNotCalled(t *testing.T) {
	c := good()
	c.Settings["server"] = "127.0.0.1:1"
	p, err := newProvider(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Check(t.Context()); !errors.Is(err, fault.InvalidRequest) {
		t.Fatalf("got %v", err)
	}
}

func TestAServerThatIsAwayIsDown(t *testing.T) {
	c := good()
	c.Settings["server"], c.Settings["allow_private"] = "127.0.0.1:1", "true"
	p, err := newProvider(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Check(t.Context()); outcome.Of(err) != outcome.Down {
		t.Fatalf("got %v", err)
	}
}
