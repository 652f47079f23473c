// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
)

var zoneReadChecks = []providerCheck{
	{"a good credential reaches its zones", func(t testing.TB, w ProviderWorld) {
		w.NewZone(t)
		before, err := w.Provider().Check(call(t))
		must(t, "check", err)
		w.NewZone(t)
		after, err := w.Provider().Check(call(t))
		must(t, "check", err)
		if before < 1 || after <= before {
			t.Fatalf("%d zones, then %d", before, after)
		}
	}},
	{"a credential that is not taken is refused everywhere", func(t testing.TB, w ProviderWorld) {
		zone := w.NewZone(t)
		at := find(t, w.Provider(), zone)
		_, err := w.Refused().Check(call(t))
		refused(t, "check", err, fault.AccessDenied)
		_, err = w.Refused().Zone(call(t), zone)
		refused(t, "zone", err, fault.AccessDenied)
		_, err = w.Refused().Apply(call(t), at, []dns.Change{{Before: of(zone, dns.TXT, 0), After: of(zone, dns.TXT, 300, "x")}})
		refused(t, "apply", err, fault.AccessDenied)
		inZone(t, w, zone)
	}},
	{"a zone is found by its apex", func(t testing.TB, w ProviderWorld) {
		zone := w.NewZone(t)
		z := find(t, w.Provider(), zone)
		if z.Name != zone || z.ID == "" || z.Idle != "" || len(z.NameServers) == 0 || slices.Contains(z.NameServers, "") {
			t.Fatalf("got %+v", z)
		}
	}},
	{"a name that is no apex is no zone", func(t testing.TB, w ProviderWorld) {
		zone := w.NewZone(t)
		for _, name := range []string{"sub." + zone, "nobody-has-this." + zone, zone + ".example"} {
			if z, err := w.Provider().Zone(call(t), name); !dns.IsNoZone(err) {
				t.Fatalf("%s: got %+v, %v", name, z, err)
			}
		}
	}},
	{"all record sets are read, with every byte", func(t testing.TB, w ProviderWorld) {
		zone := w.NewZone(t)
		for _, s := range mail(zone) {
			w.Put(t, zone, s)
		}
		at := find(t, w.Provider(), zone)
		sets, err := w.Provider().Records(call(t), at)
		must(t, "records", err)
		sets = slices.DeleteFunc(sets, func(s dns.RRSet) bool { return s.Type == dns.SOA || s.Type == dns.NS })
		if diff := cmp.Diff(sorted(mail(zone)), sorted(sets)); diff != "" {
			t.Fatalf("records (-want +got):\n%s", diff)
		}
	}},
	{"a wildcard makes nothing up", func(t testing.TB, w ProviderWorld) {
		zone := w.NewZone(t)
		w.Put(t, zone, of("*."+zone, dns.TXT, 300, "wild"))
		at := find(t, w.Provider(), zone)
		sets, err := w.Provider().Records(call(t), at)
		must(t, "records", err)
		if got := dns.Find(sets, "_dmarc."+zone, dns.TXT); len(got.Values) > 0 {
			t.Fatalf("got %+v", got)
		}
		want := of("_dmarc."+zone, dns.TXT, 300, "v=DMARC1; p=none")
		_, err = w.Provider().Apply(call(t), at, []dns.Change{{Before: of("_dmarc."+zone, dns.TXT, 0), After: want}})
		must(t, "apply below the wildcard", err)
		inZone(t, w, zone, of("*."+zone, dns.TXT, 300, "wild"), want)
	}},
	{"a call whose context ended returns at once", func(t testing.TB, w ProviderWorld) {
		zone := w.NewZone(t)
		at := find(t, w.Provider(), zone)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ended := make(chan error, 1)
		go func() {
			_, err := w.Provider().Apply(ctx, at, []dns.Change{{Before: of(zone, dns.TXT, 0), After: of(zone, dns.TXT, 300, "x")}})
			ended <- err
		}()
		err := within(t, soon, ended, "the end of the call")
		if err == nil || outcome.Of(err) == outcome.Refused {
			t.Fatalf("got %v, want the end of the context", err)
		}
		inZone(t, w, zone)
	}},
}
