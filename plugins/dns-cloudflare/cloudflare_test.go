// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestContract runs the contract suite of a DNS provider (package ports/contract) with the
// simulator.
func TestContract(t *testing.T) {
	fixture := newFixture(t)
	conformance.DNSInProcess(t, func(conformance.T) conformance.DNSFixture { return fixture })
}

// TestBinary runs the conformance suites with the plugin's release binary.
func TestBinary(t *testing.T) {
	path := testserver.Program(t, "release/plugins/dns-cloudflare")
	connect := func(base string) sdk.Connection {
		return sdk.Connection{Settings: map[string]string{"api_url": base}, Secrets: map[string]sdk.Secret{"api_token": sdk.NewSecret("not-a-real-one")}}
	}
	conformance.DNS(t, conformance.Binary{Path: path, Connect: connect},
		func(t conformance.T, provider func(sdk.Connection) sdk.DNSProvider) conformance.DNSFixture {
			fixture := newFixture(t)
			fixture.newProvider = func(connection sdk.Connection) (sdk.DNSProvider, error) { return provider(connection), nil }
			return fixture
		})
}

func txtSet(name string, values ...string) sdk.RRSet {
	return sdk.RRSet{Name: name, Type: sdk.TXT, TTL: 300, Values: values}
}

func findZone(t *testing.T, f *fixture, zone string) sdk.Zone {
	t.Helper()
	zoneInfo, err := f.Provider().Zone(t.Context(), zone)
	if err != nil {
		t.Fatal(err)
	}
	return zoneInfo
}

// TestApplyKeepsTheOwnersRecordSettings checks that a record keeps its comment and its automatic
// TTL when Apply changes its content, and that a proxied CNAME stays proxied. A CNAME that Apply
// adds is neither proxied nor flattened.
func TestApplyKeepsTheOwnersRecordSettings(t *testing.T) {
	fixture := newFixture(t)
	zone := fixture.NewZone(t)
	fixture.replaceRecords(t, zone, []map[string]any{
		{"type": "TXT", "name": zone, "content": "unquoted by hand", "ttl": 1, "comment": "by the owner"},
		{"type": "CNAME", "name": "www." + zone, "content": "pages.example", "ttl": 1, "proxied": true},
	})
	provider := fixture.Provider()
	zoneInfo := findZone(t, fixture, zone)
	sets, err := provider.Records(t.Context(), zoneInfo)
	if err != nil {
		t.Fatal(err)
	}
	before := sdk.FindSet(sets, zone, sdk.TXT)
	if before.TTL != automaticTTL || before.Values[0] != "unquoted by hand" {
		t.Fatalf("got %+v, want the automatic TTL and the owner's text", before)
	}
	cname := sdk.RRSet{Name: "k." + zone, Type: sdk.CNAME, TTL: 3600, Values: []string{"target.example"}}
	_, err = provider.Apply(t.Context(), zoneInfo, []sdk.Change{
		{Before: before, After: txtSet(zone, "changed")}, {Before: sdk.RRSet{Name: cname.Name, Type: sdk.CNAME}, After: cname},
	})
	if err != nil {
		t.Fatal(err)
	}
	records := fixture.records(t, zone)
	if len(records) != 3 {
		t.Fatalf("the zone has the records %v, want three", records)
	}
	for _, stored := range records {
		switch stored["name"] {
		case zone:
			if stored["comment"] != "by the owner" || stored["ttl"] != 1.0 || stored["content"] != `"changed"` {
				t.Errorf("the changed record is %v, want the new content and the owner's comment and TTL", stored)
			}
		case cname.Name:
			if flat := stored["settings"].(map[string]any)["flatten_cname"]; stored["proxied"] != false || flat != false || stored["comment"] != recordComment {
				t.Errorf("the new record is %v, want it neither proxied nor flattened, with the comment %q", stored, recordComment)
			}
		default:
			if stored["proxied"] != true {
				t.Errorf("the owner's record is %v, want it proxied", stored)
			}
		}
	}
}

// TestApplyEndsProxyingAndFlattening checks that Records lists proxied and flattened CNAMEs as
// veiled. If the wanted set is not veiled, Apply must end the proxying and the flattening, and
// change nothing else.
func TestApplyEndsProxyingAndFlattening(t *testing.T) {
	for _, setting := range []map[string]any{{"proxied": true}, {"settings": map[string]any{"flatten_cname": true}}} {
		fixture := newFixture(t)
		zone := fixture.NewZone(t)
		record := map[string]any{"type": "CNAME", "name": "k." + zone, "content": "target.example", "ttl": 1, "comment": "by the owner"}
		maps.Copy(record, setting)
		fixture.replaceRecords(t, zone, []map[string]any{record})
		provider := fixture.Provider()
		zoneInfo := findZone(t, fixture, zone)
		sets, err := provider.Records(t.Context(), zoneInfo)
		before := sdk.FindSet(sets, "k."+zone, sdk.CNAME)
		if err != nil || !before.Veiled {
			t.Fatalf("%v: got %+v, %v, want a veiled set", setting, before, err)
		}
		after := before
		after.Veiled = false
		change := []sdk.Change{{Before: before, After: after}}
		for range 2 { // the second Apply finds the wanted set in the zone
			if written, err := provider.Apply(t.Context(), zoneInfo, change); err != nil || len(written) != 1 || written[0].Veiled {
				t.Fatalf("%v: got %+v, %v, want a set that is not veiled", setting, written, err)
			}
		}
		records := fixture.records(t, zone)
		if len(records) != 1 {
			t.Fatalf("%v: the zone has the records %v, want one", setting, records)
		}
		for _, stored := range records {
			if stored["proxied"] != false || stored["settings"].(map[string]any)["flatten_cname"] != false || stored["comment"] != "by the owner" || stored["ttl"] != 1.0 {
				t.Errorf("the record is %v, want only the proxying and the flattening ended", stored)
			}
		}
	}
}

// TestApexCNAMEDoesNotConflictWithOtherRecords checks that a TXT record can be added beside a CNAME
// at the apex, but not beside a CNAME below the apex. Cloudflare always answers for a CNAME at the
// apex with addresses.
func TestApexCNAMEDoesNotConflictWithOtherRecords(t *testing.T) {
	fixture := newFixture(t)
	zone := fixture.NewZone(t)
	alias := sdk.RRSet{Name: zone, Type: sdk.CNAME, TTL: 300, Values: []string{"pages.example"}}
	fixture.Put(t, zone, alias)
	fixture.Put(t, zone, sdk.RRSet{Name: "k." + zone, Type: sdk.CNAME, TTL: 300, Values: []string{"target.example"}})
	provider := fixture.Provider()
	zoneInfo := findZone(t, fixture, zone)
	if _, err := provider.Apply(t.Context(), zoneInfo, []sdk.Change{{Before: txtSet(zone), After: txtSet(zone, "x")}}); err != nil {
		t.Errorf("adding a TXT beside the CNAME at the apex: %v, want no error", err)
	}
	if _, err := provider.Apply(t.Context(), zoneInfo, []sdk.Change{{Before: txtSet("k." + zone), After: txtSet("k."+zone, "x")}}); sdk.OutcomeOf(err) != sdk.OutcomeOf(sdk.ZoneChanged()) {
		t.Errorf("adding a TXT beside a CNAME below the apex: %v, want the error that the zone changed", err)
	}
	sets, err := provider.Records(t.Context(), zoneInfo)
	if err != nil || !sdk.FindSet(sets, zone, sdk.CNAME).Same(alias) || len(sets) != 3 {
		t.Errorf("the zone has %+v, %v, want three sets, with the CNAME at the apex", sets, err)
	}
}

func TestInactiveZoneIsIdle(t *testing.T) {
	fixture := newFixture(t)
	zone := fixture.NewZone(t)
	fixture.control(t, "PUT", "/zones/"+zone, map[string]string{"status": "moved"}, nil)
	if zoneInfo, err := fixture.Provider().Zone(t.Context(), zone); err != nil || zoneInfo.Idle != "moved" {
		t.Fatalf("got %+v, %v, want the reason moved in Idle", zoneInfo, err)
	}
}

// TestStatusesOfAWriteAreClassified checks the outcome of a write for several statuses. After a 429
// with a Retry-After, Check must fail without a call.
func TestStatusesOfAWriteAreClassified(t *testing.T) {
	for status, want := range map[int]sdk.OutcomeKind{
		429: sdk.Throttled, 500: sdk.Broken, 503: sdk.Down, 504: sdk.Unknown, 400: sdk.Refused, 403: sdk.Refused,
	} {
		fixture := newFixture(t)
		now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
		fixture.newProvider = newTestState(func() time.Time { return now }).provider
		zone := fixture.NewZone(t)
		zoneInfo := findZone(t, fixture, zone)
		fault := map[string]any{"kind": "status", "status": status, "times": 1, "writes_only": true}
		if status == 429 {
			fault["retry_after"] = 7
		}
		fixture.planFault(t, fault)
		_, err := fixture.Provider().Apply(t.Context(), zoneInfo, []sdk.Change{{Before: txtSet(zone), After: txtSet(zone, "x")}})
		if sdk.OutcomeOf(err).Kind != want {
			t.Errorf("%d: %v, want %s", status, err, want)
		}
		if status != 429 {
			continue
		}
		callsBefore := fixture.calls.Load()
		_, err = fixture.Provider().Check(t.Context())
		if result := sdk.OutcomeOf(err); result.Kind != sdk.Throttled || result.RetryAfter != 7*time.Second || fixture.calls.Load() != callsBefore {
			t.Errorf("Check during the pause of 7 s: %v after %d calls, want throttled without a call", err, fixture.calls.Load()-callsBefore)
		}
	}
}

// TestBudgetRefusesCallsBeyondTheLimit checks that a call is refused after 1,200 calls in five
// minutes, and that calls of one token do not count for a different token. forToken must delete the
// idle budgets of other tokens.
func TestBudgetRefusesCallsBeyondTheLimit(t *testing.T) {
	now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	budgets := newBudgets(func() time.Time { return now })
	budget := budgets.forToken("a")
	for i := range maxCalls {
		if err := budget.acquire(); err != nil {
			t.Fatalf("call %d is refused: %v", i, err)
		}
		budget.release()
		now = now.Add(100 * time.Millisecond)
	}
	if result := sdk.OutcomeOf(budget.acquire()); result.Kind != sdk.Throttled || result.RetryAfter != 3*time.Minute {
		t.Fatalf("a call beyond the limit: %+v, want throttled for 3 minutes", result)
	}
	if err := budgets.forToken("b").acquire(); err != nil {
		t.Fatalf("a call with a different token is refused: %v", err)
	}
	budgets.forToken("b").release()
	now = now.Add(3 * time.Minute)
	if err := budget.acquire(); err != nil {
		t.Fatalf("a call five minutes after the end of the first call is refused: %v", err)
	}
	budget.release()
	now = now.Add(time.Hour)
	budgets.forToken("c")
	if len(budgets.byToken) != 1 {
		t.Errorf("%d budgets are in memory, want 1", len(budgets.byToken))
	}
}

// TestBudgetCountsACallFromItsEnd checks that a window begins at the end of a call. A call in
// flight may arrive at Cloudflare at any time before its end.
func TestBudgetCountsACallFromItsEnd(t *testing.T) {
	now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	budget := newBudgets(func() time.Time { return now }).forToken("a")
	for range maxCalls {
		if err := budget.acquire(); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(rateWindow)
	if sdk.OutcomeOf(budget.acquire()).Kind != sdk.Throttled {
		t.Fatal("a call is accepted while the whole limit is in flight, want throttled")
	}
	for range maxCalls {
		budget.release()
	}
	now = now.Add(rateWindow - time.Second)
	if sdk.OutcomeOf(budget.acquire()).Kind != sdk.Throttled {
		t.Fatal("a call is accepted less than one window after the end of the earlier calls, want throttled")
	}
	now = now.Add(time.Second)
	if err := budget.acquire(); err != nil {
		t.Fatalf("a call one window after the end of the earlier calls is refused: %v", err)
	}
}

// TestWriteChecksARecordThatExists covers Cloudflare's error 81058: an identical record exists
// already. An earlier attempt of the same write may have created the record.
func TestWriteChecksARecordThatExists(t *testing.T) {
	fixture := newFixture(t)
	zone := fixture.NewZone(t)
	dnsProvider := fixture.Provider().(*provider)
	zoneInfo := findZone(t, fixture, zone)
	changes := []sdk.Change{{Before: txtSet(zone), After: txtSet(zone, "x")}}
	fixture.Put(t, zone, txtSet(zone, "x"))
	if _, err := dnsProvider.write(t.Context(), zoneInfo, nil, changes); err != nil {
		t.Fatalf("after the error 81058, the zone has the wanted record: %v, want success", err)
	}
	fixture.Put(t, zone, txtSet(zone, "x", "more"))
	if _, err := dnsProvider.write(t.Context(), zoneInfo, nil, changes); sdk.OutcomeOf(err) != sdk.OutcomeOf(sdk.ZoneChanged()) {
		t.Fatalf("after the error 81058, the zone has a different set: %v, want the error that the zone changed", err)
	}
	fixture.planFault(t, map[string]any{"kind": "status", "status": 400, "times": 1, "operation": "recordList"})
	if _, err := dnsProvider.write(t.Context(), zoneInfo, nil, changes); sdk.OutcomeOf(err).Kind != sdk.Unknown {
		t.Fatalf("after the error 81058, the zone cannot be read: %v, want unknown, because an earlier attempt may have written", err)
	}
}

// TestWriteChecksARecordThatNoLongerExists covers Cloudflare's error 81044: a record that the batch
// replaces or deletes was deleted after it was read.
func TestWriteChecksARecordThatNoLongerExists(t *testing.T) {
	fixture := newFixture(t)
	zone := fixture.NewZone(t)
	dnsProvider := fixture.Provider().(*provider)
	zoneInfo := findZone(t, fixture, zone)
	before := txtSet(zone, "v=spf1 mx -all", "kept")
	fixture.Put(t, zone, before)
	staleRecords, err := dnsProvider.listRecords(t.Context(), zoneInfo)
	if err != nil {
		t.Fatal(err)
	}
	fixture.Put(t, zone, txtSet(zone, "kept"))
	for name, tc := range map[string]struct {
		after       sdk.RRSet
		wantChanged bool
	}{
		"the batch replaces the record":                               {txtSet(zone, "v=spf1 include:spf.protection.outlook.com -all", "kept"), true},
		"the batch deletes the record, and the zone is as wanted now": {txtSet(zone, "kept"), false},
	} {
		_, err := dnsProvider.write(t.Context(), zoneInfo, staleRecords, []sdk.Change{{Before: before, After: tc.after}})
		if isChanged := sdk.OutcomeOf(err) == sdk.OutcomeOf(sdk.ZoneChanged()); isChanged != tc.wantChanged || (err != nil) != tc.wantChanged {
			t.Errorf("%s: %v, want the error that the zone changed: %v", name, err, tc.wantChanged)
		}
	}
}

func TestInvalidConnectionsAreRefused(t *testing.T) {
	for name, connection := range map[string]sdk.Connection{
		"no token":             {},
		"a control character":  {Secrets: map[string]sdk.Secret{"api_token": sdk.NewSecret("a\x01b")}},
		"a token of two words": {Secrets: map[string]sdk.Secret{"api_token": sdk.NewSecret("a b")}},
		"a URL without a host": {Settings: map[string]string{"api_url": "x"}, Secrets: map[string]sdk.Secret{"api_token": sdk.NewSecret("a")}},
		"a path as account id": {Settings: map[string]string{"account_id": "../zones"}, Secrets: map[string]sdk.Secret{"api_token": sdk.NewSecret("a")}},
	} {
		if _, err := newProcessState().provider(connection); sdk.OutcomeOf(err).Code.Name != "invalid_request" {
			t.Errorf("%s: got %v, want invalid_request", name, err)
		}
	}
}

// TestErrorOfAccountIDNamesLowerCase checks that the error for an account id in upper case says
// that the digits must be lower-case. Cloudflare's ids have no upper-case letters.
func TestErrorOfAccountIDNamesLowerCase(t *testing.T) {
	connection := sdk.Connection{Settings: map[string]string{"account_id": strings.Repeat("A", 32)}, Secrets: map[string]sdk.Secret{"api_token": sdk.NewSecret("a")}}
	_, err := newProcessState().provider(connection)
	if detail := sdk.OutcomeOf(err).Detail; !strings.Contains(detail, "lower-case") {
		t.Errorf("the error is %q, want it to mention lower-case", detail)
	}
}
