// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/core/dns"
)

// Two records of one text, cut otherwise, are what a plan makes one of.
func TestATextThatIsThereTwice(t *testing.T) {
	w := newWorld(t)
	zone := w.NewZone(t)
	m := new(wire.Msg).SetUpdate(wire.Fqdn(zone))
	for _, strings := range [][]string{{"twice"}, {"twi", "ce"}, {"both stay"}, {"both ", "stay"}} {
		m.Insert([]wire.RR{&wire.TXT{Hdr: wire.RR_Header{Name: "x." + zone + ".", Rrtype: wire.TypeTXT, Class: wire.ClassINET, Ttl: 300}, Txt: strings}})
	}
	w.send(t, m)
	before := dns.Find(w.Held(t, zone), "x."+zone, dns.TXT)
	after := before
	after.Values = []string{"both stay", "both stay", "twice"}
	if _, err := w.Provider().Apply(t.Context(), dns.Zone{ID: zone, Name: zone}, []dns.Change{{Before: before, After: after}}); err != nil {
		t.Fatal(err)
	}
	if held := dns.Find(w.Held(t, zone), "x."+zone, dns.TXT); !held.Same(after) {
		t.Errorf("held %+v", held)
	}
}
