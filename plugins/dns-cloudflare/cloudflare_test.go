// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/ports/contract"
)

// TestContract runs the port's promises over the simulator.
func TestContract(t *testing.T) {
	w := newWorld(t)
	contract.DNSProvider(t, func(testing.TB) contract.ProviderWorld { return w })
}

// TestBinary runs every suite over the plugin as it is built.
func TestBinary(t *testing.T) {
	path := testserver.Program(t, "release/plugins/dns-cloudflare")
	connect := func(base string) sdk.Connection {
		return sdk.Connection{Settings: map[string]string{"api_url": base}, Secrets: map[string]secret.Text{"api_token": secret.New("not-a-real-one")}}
	}
	conformance.DNS(t, conformance.Binary{Path: path, Connect: connect},
		func(t testing.TB, provider func(sdk.Connection) sdk.DNSProvider) contract.ProviderWorld {
			w := newWorld(t)
			w.make = func(c sdk.Connection) (sdk.DNSProvider, error) { return provider(c), nil }
			return w
		})
}

func text(name string, values ...string) dns.RRSet {
	return dns.RRSet{Name: name, Type: dns.TXT, TTL: 300, Values: values}
}

// A fresh domain costs its zone, its records for the plan, and the write.
func TestAtMostFiveCallsForAFreshDomain(t *testing.T) {
	w := newWorld(t)
	zone := w.NewZone(t)
	p := w.Provider()
	z, err := p.Zone(t.Context(), zone)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Records(t.Context(), z); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Apply(t.Context(), z, []dns.Change{{Before: text(zone), After: text(zone, "a", "b")}}); err != nil {
		t.Fatal(err)
	}
	if n := w.calls.Load(); n > 5 {
		t.Fatalf("%d calls", n)
	}
}

// What the owner set at a record stays when its content changes, automatic
// TTLs too; what we make is neither proxied nor flattened.
func TestWhatTheOwnerSetStays(t *testing.T) {
	w := newWorld(t)
	zone := w.NewZone(t)
	w.replace(t, zone, []map[string]any{
		{"type": "TXT", "name": zone, "content": "unquoted by hand", "ttl": 1, "comment": "theirs"},
		{"type": "CNAME", "name": "www." + zone, "content": "pages.example", "ttl": 1, "proxied": true},
	})
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
	if before.TTL != automaticTTL || before.Values[0] != "unquoted by hand" {
		t.Fatalf("got %+v", before)
	}
	key := dns.RRSet{Name: "k." + zone, Type: dns.CNAME, TTL: 3600, Values: []string{"target.example"}}
	_, err = p.Apply(t.Context(), z, []dns.Change{
		{Before: before, After: text(zone, "changed")}, {Before: dns.RRSet{Name: key.Name, Type: dns.CNAME}, After: key},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range w.records(t, zone) {
		switch r["name"] {
		case zone:
			if r["comment"] != "theirs" || r["ttl"] != 1.0 || r["content"] != `"changed"` {
				t.Errorf("got %v", r)
			}
		case key.Name:
			if flat := r["settings"].(map[string]any)["flatten_cname"]; r["proxied"] != false || flat != false || r["comment"] != comment {
				t.Errorf("got %v", r)
			}
		default:
			if r["proxied"] != true {
				t.Errorf("got %v", r)
			}
		}
	}
}

// A CNAME at the apex is flattened, so mail records may stand beside it; those
// below it may not.
func TestAnAliasAtTheApexIsNoNeighbour(t *testing.T) {
	w := newWorld(t)
	zone := w.NewZone(t)
	alias := dns.RRSet{Name: zone, Type: dns.CNAME, TTL: 300, Values: []string{"pages.example"}}
	w.Put(t, zone, alias)
	w.Put(t, zone, dns.RRSet{Name: "k." + zone, Type: dns.CNAME, TTL: 300, Values: []string{"target.example"}})
	p := w.Provider()
	z, err := p.Zone(t.Context(), zone)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Apply(t.Context(), z, []dns.Change{{Before: text(zone), After: text(zone, "x")}}); err != nil {
		t.Errorf("beside the apex's alias: %v", err)
	}
	if _, err := p.Apply(t.Context(), z, []dns.Change{{Before: text("k." + zone), After: text("k."+zone, "x")}}); !dns.IsChanged(err) {
		t.Errorf("beside another alias: %v", err)
	}
	now, err := p.Records(t.Context(), z)
	if err != nil || !dns.Find(now, zone, dns.CNAME).Same(alias) || len(now) != 3 {
		t.Errorf("the zone holds %+v, %v", now, err)
	}
}

func TestAZoneThatIsNotActiveIsIdle(t *testing.T) {
	w := newWorld(t)
	zone := w.NewZone(t)
	w.control(t, "PUT", "/zones/"+zone, map[string]string{"status": "moved"}, nil)
	if z, err := w.Provider().Zone(t.Context(), zone); err != nil || z.Idle != "moved" {
		t.Fatalf("got %+v, %v", z, err)
	}
}

func TestHowACallEnds(t *testing.T) {
	for status, want := range map[int]outcome.Kind{
		429: outcome.Throttled, 500: outcome.Broken, 503: outcome.Down, 504: outcome.Unknown, 400: outcome.Refused, 403: outcome.Refused,
	} {
		w := newWorld(t)
		now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
		w.make = patientHouse(func() time.Time { return now }).provider
		zone := w.NewZone(t)
		z, err := w.Provider().Zone(t.Context(), zone)
		if err != nil {
			t.Fatal(err)
		}
		f := map[string]any{"kind": "status", "status": status, "times": 1, "writes_only": true}
		if status == 429 {
			f["retry_after"] = 7
		}
		w.fault(t, f)
		_, err = w.Provider().Apply(t.Context(), z, []dns.Change{{Before: text(zone), After: text(zone, "x")}})
		if outcome.Of(err) != want {
			t.Errorf("%d: %v, want %s", status, err, want)
		}
		if status != 429 {
			continue
		}
		before := w.calls.Load()
		_, err = w.Provider().Check(t.Context())
		var o *outcome.Error
		if !errors.As(err, &o) || o.Kind != outcome.Throttled || o.RetryAfter != 7*time.Second || w.calls.Load() != before {
			t.Errorf("Check during the pause of 7 s: %v after %d calls, want throttled without a call", err, w.calls.Load()-before)
		}
	}
}

// Of 1,200 calls in five minutes the next one is not made.
func TestTheLimitIsNeverExceeded(t *testing.T) {
	now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	all := newBudgets(func() time.Time { return now })
	mine := all.of("a")
	for i := range limit {
		if err := mine.take(); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		mine.ended()
		now = now.Add(100 * time.Millisecond)
	}
	var o *outcome.Error
	if err := mine.take(); !errors.As(err, &o) || o.Kind != outcome.Throttled || o.RetryAfter != 3*time.Minute {
		t.Fatalf("got %v", err)
	}
	if err := all.of("b").take(); err != nil {
		t.Fatalf("another token: %v", err)
	}
	all.of("b").ended()
	now = now.Add(3 * time.Minute)
	if err := mine.take(); err != nil {
		t.Fatalf("when the first call is five minutes old: %v", err)
	}
	mine.ended()
	now = now.Add(time.Hour)
	all.of("c")
	if len(all.all) != 1 {
		t.Errorf("%d budgets are kept", len(all.all))
	}
}

// A call that is under way may arrive at any time, so it counts from its end.
func TestACallCountsFromItsEnd(t *testing.T) {
	now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	mine := newBudgets(func() time.Time { return now }).of("a")
	for range limit {
		if err := mine.take(); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(window)
	if outcome.Of(mine.take()) != outcome.Throttled {
		t.Fatal("calls are forgotten while they are under way")
	}
	for range limit {
		mine.ended()
	}
	now = now.Add(window - time.Second)
	if outcome.Of(mine.take()) != outcome.Throttled {
		t.Fatal("a call counts from its beginning")
	}
	now = now.Add(time.Second)
	if err := mine.take(); err != nil {
		t.Fatal(err)
	}
}

// An identical record that is there already is our own earlier write.
func TestARecordThatExistsIsLookedAt(t *testing.T) {
	w := newWorld(t)
	zone := w.NewZone(t)
	p := w.Provider().(*provider)
	z, err := p.Zone(t.Context(), zone)
	if err != nil {
		t.Fatal(err)
	}
	c := []dns.Change{{Before: text(zone), After: text(zone, "x")}}
	w.Put(t, zone, text(zone, "x"))
	if _, err := p.write(t.Context(), z, nil, c); err != nil {
		t.Fatalf("81058 for what is wanted: %v", err)
	}
	w.Put(t, zone, text(zone, "x", "more"))
	if _, err := p.write(t.Context(), z, nil, c); !dns.IsChanged(err) {
		t.Fatalf("81058 for something else: %v", err)
	}
}

func TestConnectionsThatMakeNoSense(t *testing.T) {
	for name, c := range map[string]sdk.Connection{
		"no token":      {},
		"two words":     {Secrets: map[string]secret.Text{"api_token": secret.New("a b")}},
		"no URL":        {Settings: map[string]string{"api_url": "x"}, Secrets: map[string]secret.Text{"api_token": secret.New("a")}},
		"no account id": {Settings: map[string]string{"account_id": "../zones"}, Secrets: map[string]secret.Text{"api_token": secret.New("a")}},
	} {
		if _, err := newHouse().provider(c); !errors.Is(err, fault.InvalidRequest) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
