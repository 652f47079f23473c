// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"sync"
	"testing"

	"github.com/tenantry/tenantry/core/dns"
)

var zoneMovedChecks = []providerCheck{
	{"a set that moved since the plan stops the whole write", func(t testing.TB, w ProviderWorld) {
		for name, by := range map[string]func(dns.RRSet) dns.RRSet{
			"another value":  func(s dns.RRSet) dns.RRSet { return of(s.Name, s.Type, s.TTL, "v=spf1 mx -all") },
			"one value more": func(s dns.RRSet) dns.RRSet { return of(s.Name, s.Type, s.TTL, append(s.Values[:2:2], "more")...) },
			"one value less": func(s dns.RRSet) dns.RRSet { return of(s.Name, s.Type, s.TTL, s.Values[0]) },
			"gone":           func(s dns.RRSet) dns.RRSet { return of(s.Name, s.Type, 0) },
		} {
			zone := w.NewZone(t)
			old := mail(zone)[1]
			w.Put(t, zone, old)
			at := find(t, w.Provider(), zone)
			now := by(old)
			w.Put(t, zone, now)
			_, err := w.Provider().Apply(call(t), at, append(creations(fresh(zone)),
				dns.Change{Before: old, After: of(zone, dns.TXT, 900, "v=spf1 include:new.example -all")}))
			moved(t, name, err)
			if len(now.Values) == 0 {
				inZone(t, w, zone)
			} else {
				inZone(t, w, zone, now)
			}
		}
	}},
	{"a set that somebody else made first is not overwritten", func(t testing.TB, w ProviderWorld) {
		zone := w.NewZone(t)
		at := find(t, w.Provider(), zone)
		theirs := of("_dmarc."+zone, dns.TXT, 300, "v=DMARC1; p=reject")
		w.Put(t, zone, theirs)
		_, err := w.Provider().Apply(call(t), at, creations(fresh(zone)))
		moved(t, "apply", err)
		inZone(t, w, zone, theirs)
	}},
	{"a CNAME never gets a neighbour", func(t testing.TB, w ProviderWorld) {
		zone := w.NewZone(t)
		at := find(t, w.Provider(), zone)
		key := of("selector1._domainkey."+zone, dns.TXT, 300, "v=DKIM1; p=abc")
		vendor := of("_dmarc."+zone, dns.CNAME, 300, "dmarc.vendor.example")
		w.Put(t, zone, key)
		_, err := w.Provider().Apply(call(t), at, creations(fresh(zone)[:1]))
		moved(t, "a CNAME beside a TXT", err)
		w.Put(t, zone, vendor)
		_, err = w.Provider().Apply(call(t), at, creations(fresh(zone)[2:3]))
		moved(t, "a TXT beside a CNAME", err)
		inZone(t, w, zone, key, vendor)
	}},
	{"of two writers from one state one wins", func(t testing.TB, w ProviderWorld) {
		zone := w.NewZone(t)
		old := of(zone, dns.TXT, 300, "v=spf1 -all")
		w.Put(t, zone, old)
		at := find(t, w.Provider(), zone)
		const writers = 4
		errs := make([]error, writers)
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				_, errs[i] = w.Provider().Apply(call(t), at, []dns.Change{
					{Before: old, After: of(zone, dns.TXT, 300, "v=spf1 -all", fmt.Sprintf("writer %d", i))},
				})
			})
		}
		all.Wait()
		won := -1
		for i, err := range errs {
			switch {
			case err == nil && won < 0:
				won = i
			case err == nil:
				t.Fatalf("writers %d and %d both won", won, i)
			default:
				moved(t, fmt.Sprint("writer ", i), err)
			}
		}
		if won < 0 {
			t.Fatal("nobody won")
		}
		inZone(t, w, zone, of(zone, dns.TXT, 300, "v=spf1 -all", fmt.Sprintf("writer %d", won)))
	}},
}
