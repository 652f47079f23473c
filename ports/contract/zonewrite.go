// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/outcome"
)

// fresh is what a new mail domain needs.
func fresh(zone string) []dns.RRSet {
	return []dns.RRSet{
		of("selector1._domainkey."+zone, dns.CNAME, 3600, "selector1.dkim.mail.example"),
		of("selector2._domainkey."+zone, dns.CNAME, 3600, "selector2.dkim.mail.example"),
		of("_dmarc."+zone, dns.TXT, 3600, "v=DMARC1; p=none"),
		of("autodiscover."+zone, dns.CNAME, 3600, "autodiscover.mail.example"),
	}
}

func creations(sets []dns.RRSet) []dns.Change {
	var all []dns.Change
	for _, s := range sets {
		all = append(all, dns.Change{Before: of(s.Name, s.Type, 0), After: s})
	}
	return all
}

var zoneWriteChecks = []providerCheck{
	{"sets are made in a zone with a past, which stays", func(t testing.TB, w ProviderWorld) {
		zone := w.NewZone(t)
		for _, s := range mail(zone) {
			w.Put(t, zone, s)
		}
		at := find(t, w.Provider(), zone)
		got, err := w.Provider().Apply(call(t), at, creations(fresh(zone)))
		must(t, "apply", err)
		if diff := cmp.Diff(sorted(fresh(zone)), sorted(got)); diff != "" {
			t.Fatalf("returned (-want +got):\n%s", diff)
		}
		inZone(t, w, zone, append(fresh(zone), mail(zone)...)...)
	}},
	{"a set gets one value more and keeps the others and its TTL", func(t testing.TB, w ProviderWorld) {
		zone := w.NewZone(t)
		old := mail(zone)[1]
		w.Put(t, zone, old)
		at := find(t, w.Provider(), zone)
		want := of(zone, dns.TXT, 900, append(slices.Clone(old.Values), "MS=ms12345678")...)
		seen := old
		seen.TTL = 60 // as a resolver shows it; no TTL is planned to change
		after := want
		after.TTL = 60
		got, err := w.Provider().Apply(call(t), at, []dns.Change{{Before: seen, After: after}})
		must(t, "apply", err)
		if diff := cmp.Diff(sorted([]dns.RRSet{want}), sorted(got)); diff != "" {
			t.Fatalf("returned (-want +got):\n%s", diff)
		}
		inZone(t, w, zone, want)
	}},
	{"values are replaced, TTLs changed and sets removed in one go", func(t testing.TB, w ProviderWorld) {
		zone := w.NewZone(t)
		for _, s := range mail(zone) {
			w.Put(t, zone, s)
		}
		past := mail(zone)
		at := find(t, w.Provider(), zone)
		mx := of(zone, dns.MX, 3600, "0 new.mail.example")
		spf := of(zone, dns.TXT, 900, "v=spf1 include:old.example include:new.example ~all", past[1].Values[1])
		key := of("vendor."+zone, dns.TXT, 3600, strings.Repeat("0123456789", 30)+`"\`)
		_, err := w.Provider().Apply(call(t), at, []dns.Change{
			{Before: past[0], After: mx}, {Before: past[1], After: spf},
			{Before: past[3], After: of("vendor."+zone, dns.CNAME, 0)},
			{Before: of(key.Name, dns.TXT, 0), After: key},
		})
		must(t, "apply", err)
		inZone(t, w, zone, mx, spf, key, past[2], past[4])
	}},
	{"the same again writes nothing and succeeds", func(t testing.TB, w ProviderWorld) {
		zone := w.NewZone(t)
		at := find(t, w.Provider(), zone)
		for range 2 {
			got, err := w.Provider().Apply(call(t), at, creations(fresh(zone)))
			must(t, "apply", err)
			if diff := cmp.Diff(sorted(fresh(zone)), sorted(got)); diff != "" {
				t.Fatalf("returned (-want +got):\n%s", diff)
			}
		}
		inZone(t, w, zone, fresh(zone)...)
	}},
	{"what half is there already is completed", func(t testing.TB, w ProviderWorld) {
		zone := w.NewZone(t)
		at := find(t, w.Provider(), zone)
		for _, s := range fresh(zone)[:2] {
			w.Put(t, zone, s)
		}
		_, err := w.Provider().Apply(call(t), at, creations(fresh(zone)))
		must(t, "apply", err)
		inZone(t, w, zone, fresh(zone)...)
	}},
	{"nothing to change changes nothing", func(t testing.TB, w ProviderWorld) {
		zone := w.NewZone(t)
		_, err := w.Provider().Apply(call(t), find(t, w.Provider(), zone), nil)
		must(t, "apply", err)
		inZone(t, w, zone)
	}},
	{"the zone's own NS and names elsewhere are out of reach", func(t testing.TB, w ProviderWorld) {
		zone := w.NewZone(t)
		at := find(t, w.Provider(), zone)
		for _, s := range []dns.RRSet{of(zone, dns.NS, 300, "ns.evil.example"), of("elsewhere.example", dns.TXT, 300, "x")} {
			changes := append(creations(fresh(zone)), dns.Change{Before: of(s.Name, s.Type, 0), After: s})
			_, err := w.Provider().Apply(call(t), at, changes)
			ended(t, "apply", err, outcome.Refused)
			inZone(t, w, zone)
		}
	}},
	{"a lost write is never settled, and the same again completes it", func(t testing.TB, w ProviderWorld) {
		for _, how := range []Failure{LosesRequest, LosesAnswer} {
			zone := w.NewZone(t)
			at := find(t, w.Provider(), zone)
			w.Lose(t, how)
			_, err := w.Provider().Apply(call(t), at, creations(fresh(zone)))
			unsettled(t, err)
			if how == LosesRequest && err == nil {
				t.Fatal("a write that never got there succeeded")
			}
			_, err = w.Provider().Apply(call(t), at, creations(fresh(zone)))
			must(t, "apply again", err)
			inZone(t, w, zone, fresh(zone)...)
		}
	}},
}
