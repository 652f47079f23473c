// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestContract runs the contract suite of a DNS provider (package ports/contract) with a real
// PowerDNS server.
func TestContract(t *testing.T) {
	fixture := newFixture(t)
	conformance.DNSInProcess(t, func(conformance.T) conformance.DNSFixture { return fixture })
}

// TestBinary runs the conformance suites with the plugin's release binary.
func TestBinary(t *testing.T) {
	path := testserver.Program(t, "release/plugins/dns-powerdns")
	connect := func(base string) sdk.Connection {
		return sdk.Connection{
			Settings: map[string]string{"api_url": base, "allow_private": "true"},
			Secrets:  map[string]sdk.Secret{"api_key": sdk.NewSecret("not-a-real-one")},
		}
	}
	conformance.DNS(t, conformance.Binary{Path: path, Connect: connect},
		func(t conformance.T, provider func(sdk.Connection) sdk.DNSProvider) conformance.DNSFixture {
			fixture := newFixture(t)
			fixture.newProvider = func(connection sdk.Connection) (sdk.DNSProvider, error) { return provider(connection), nil }
			return fixture
		})
}

func findZone(t *testing.T, f *fixture, zone string) sdk.Zone {
	t.Helper()
	zoneInfo, err := f.Provider().Zone(t.Context(), zone)
	if err != nil {
		t.Fatal(err)
	}
	return zoneInfo
}

func TestApplyKeepsTheOwnersRecords(t *testing.T) {
	fixture := newFixture(t)
	zone := fixture.NewZone(t)
	fixture.replaceSet(t, zone, map[string]any{"name": zone + ".", "type": "TXT", "ttl": 700, "changetype": "REPLACE", "records": []map[string]any{
		{"content": `"in" "two strings"`}, {"content": `"kept for later"`, "disabled": true},
	}})
	zoneInfo := findZone(t, fixture, zone)
	sets, err := fixture.Provider().Records(t.Context(), zoneInfo)
	if err != nil {
		t.Fatal(err)
	}
	before := sdk.FindSet(sets, zone, sdk.TXT)
	if diff := cmp.Diff([]string{"intwo strings"}, before.Values); diff != "" {
		t.Fatalf("the values of the set, want only the enabled record (-want +got):\n%s", diff)
	}
	after := before
	after.Values = append([]string{"MS=ms1"}, before.Values...)
	if _, err := fixture.Provider().Apply(t.Context(), zoneInfo, []sdk.Change{{Before: before, After: after}}); err != nil {
		t.Fatal(err)
	}
	set := fixture.storedZone(t, zone).findSet(before)
	want := rrsetDoc{Name: zone + ".", Type: "TXT", TTL: 700, Records: []recordDoc{
		{Content: `"MS=ms1"`}, {Content: `"in" "two strings"`}, {Content: `"kept for later"`, Disabled: true},
	}}
	if diff := cmp.Diff(want, set, cmpopts.SortSlices(func(a, b recordDoc) bool { return a.Content < b.Content })); diff != "" {
		t.Errorf("the stored set differs (-want +got):\n%s", diff)
	}
}

// TestApplyEnablesADisabledRecord writes a value that a disabled record of the zone already has.
func TestApplyEnablesADisabledRecord(t *testing.T) {
	fixture := newFixture(t)
	zone := fixture.NewZone(t)
	for _, after := range []sdk.RRSet{
		{Name: "_dmarc." + zone, Type: sdk.TXT, TTL: 300, Values: []string{"v=DMARC1; p=none"}},
		{Name: "autodiscover." + zone, Type: sdk.CNAME, TTL: 300, Values: []string{"autodiscover.outlook.com"}},
	} {
		fixture.putSet(t, zone, after, true)
		before := sdk.RRSet{Name: after.Name, Type: after.Type}
		if _, err := fixture.Provider().Apply(t.Context(), findZone(t, fixture, zone), []sdk.Change{{Before: before, After: after}}); err != nil {
			t.Fatal(err)
		}
		if held := sdk.FindSet(fixture.Held(t, zone), after.Name, after.Type); !held.Same(after) {
			t.Errorf("the zone has %+v, want %+v", held, after)
		}
	}
	for _, set := range fixture.storedZone(t, zone).RRSets {
		if slices.ContainsFunc(set.Records, func(r recordDoc) bool { return r.Disabled }) {
			t.Errorf("a disabled record is left: %+v", set)
		}
	}
}

// TestDisabledCNAMEIsNotReplaced writes a CNAME at a name that has a disabled CNAME with a
// different target. The server allows only one CNAME for a name, whether the CNAME is disabled or
// not.
func TestDisabledCNAMEIsNotReplaced(t *testing.T) {
	fixture := newFixture(t)
	zone := fixture.NewZone(t)
	disabled := sdk.RRSet{Name: "autodiscover." + zone, Type: sdk.CNAME, TTL: 300, Values: []string{"mail.old.example"}}
	fixture.putSet(t, zone, disabled, true)
	after := disabled
	after.Values = []string{"autodiscover.outlook.com"}
	_, err := fixture.Provider().Apply(t.Context(), findZone(t, fixture, zone), []sdk.Change{{Before: sdk.RRSet{Name: after.Name, Type: sdk.CNAME}, After: after}})
	if result := sdk.OutcomeOf(err); result.Kind != sdk.Refused || !strings.Contains(result.Detail, "disabled CNAME") || !strings.Contains(result.Detail, after.Name) {
		t.Errorf("got %v, want a refusal that names the disabled CNAME at %s", err, after.Name)
	}
	if patches := fixture.patches.Load(); patches != 0 {
		t.Errorf("%d PATCH requests, want none", patches)
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
	if _, err := fixture.Provider().Apply(t.Context(), findZone(t, fixture, zone), []sdk.Change{{Before: before, After: after}}); err != nil {
		t.Fatal(err)
	}
	if held := sdk.FindSet(fixture.Held(t, zone), zone, sdk.TXT); !held.Same(after) || held.TTL != 0 {
		t.Errorf("the zone has %+v, want %+v", held, after)
	}
}

// TestChangeDuringAWriteIsReported lets the zone's owner add a value between the plugin's read and
// its PATCH. The PATCH replaces the whole set, so the owner's value is lost. The plugin must report
// the overlap instead of success.
func TestChangeDuringAWriteIsReported(t *testing.T) {
	fixture := newFixture(t)
	for name, soaEditAPI := range map[string]string{"default serials": "DEFAULT", "increased serials": "INCREASE", "lower case": "increase"} {
		t.Run(name, func(t *testing.T) {
			zone := fixture.NewZone(t)
			fixture.callServer(t, http.MethodPut, "/zones/"+zone+".", map[string]any{"soa_edit_api": soaEditAPI})
			fixture.Put(t, zone, sdk.RRSet{Name: zone, Type: sdk.TXT, TTL: 300, Values: []string{"of the owner"}})
			zoneInfo := findZone(t, fixture, zone)
			write := func(value string) error {
				sets, err := fixture.Provider().Records(t.Context(), zoneInfo)
				if err != nil {
					t.Fatal(err)
				}
				before := sdk.FindSet(sets, zone, sdk.TXT)
				after := before
				after.Values = append([]string{value}, before.Values...)
				_, err = fixture.Provider().Apply(t.Context(), zoneInfo, []sdk.Change{{Before: before, After: after}})
				return err
			}
			if err := write("MS=ms1"); err != nil {
				t.Fatalf("a write alone: %v, want no error", err)
			}
			ownersWrite := func() {
				fixture.Put(t, zone, sdk.RRSet{Name: zone, Type: sdk.TXT, TTL: 300, Values: []string{"of the owner", "MS=ms1", "added now"}})
			}
			fixture.beforePatch.Store(&ownersWrite)
			if err := write("v=spf1 -all"); sdk.OutcomeOf(err) != sdk.OutcomeOf(sdk.Overlapped()) {
				t.Errorf("Apply during the owner's write: %v, want overlapped", err)
			}
			if err := write("v=late"); err != nil {
				t.Errorf("the next write: %v, want no error", err)
			}
		})
	}
}

// TestZoneWithoutChangeCounterIsNotWritten checks zones whose serials do not show every change. The
// plugin refuses to write such a zone, because it could not detect that its PATCH removed a value
// that somebody else had added meanwhile.
func TestZoneWithoutChangeCounterIsNotWritten(t *testing.T) {
	fixture := newFixture(t)
	for _, soaEditAPI := range []string{"", "EPOCH", "SOA-EDIT"} {
		zone := fixture.NewZone(t)
		fixture.callServer(t, http.MethodPut, "/zones/"+zone+".", map[string]any{"soa_edit_api": soaEditAPI})
		zoneInfo, patchesBefore := findZone(t, fixture, zone), fixture.patches.Load()
		change := sdk.Change{Before: sdk.RRSet{Name: zone, Type: sdk.TXT}, After: sdk.RRSet{Name: zone, Type: sdk.TXT, TTL: 300, Values: []string{"x"}}}
		_, err := fixture.Provider().Apply(t.Context(), zoneInfo, []sdk.Change{change})
		if sdk.OutcomeOf(err).Code.Name != "invalid_request" || sdk.OutcomeOf(err).Kind != sdk.Refused || fixture.patches.Load() != patchesBefore {
			t.Errorf("soa_edit_api %q: got %v and %d PATCH requests, want invalid_request and none", soaEditAPI, err, fixture.patches.Load()-patchesBefore)
		}
		fixture.callServer(t, http.MethodPut, "/zones/"+zone+".", map[string]any{"soa_edit_api": "default"})
		if _, err := fixture.Provider().Apply(t.Context(), zoneInfo, []sdk.Change{change}); err != nil {
			t.Errorf("Apply with soa_edit_api default: %v, want no error", err)
		}
	}
}

// TestSerialsShowOtherChanges checks what the serials before and after a PATCH say about changes of
// somebody else between the read and the PATCH. The PATCH itself increases the serial once.
func TestSerialsShowOtherChanges(t *testing.T) {
	for _, tc := range []struct {
		soaEditAPI, before, after string
		wantChanged               bool
	}{
		{"INCREASE", "7", "8", false},
		{"INCREASE", "7", "9", true},
		{"INCREASE", "4294967295", "0", false},
		{"DEFAULT", "2026112305", "2026112306", false},
		{"DEFAULT", "2026112305", "2026112307", true},
		{"DEFAULT", "2026112205", "2026112301", false}, // the first change of a day
		{"DEFAULT", "2026112205", "2026112302", true},
		{"DEFAULT", "0", "2026112301", false},
		{"EPOCH", "1795421000", "1795421900", false},
		{"", "7", "7", false},
		{"", "7", "", false},
	} {
		soa := sdk.RRSet{Name: "a.test", Type: sdk.SOA, Values: []string{"ns1.a.test hostmaster.a.test " + tc.before + " 3600 600 604800 60"}}
		zone := zoneDoc{Name: "a.test.", SOAEditAPI: &tc.soaEditAPI}
		if got := zone.changedBetween(tc.after, []sdk.RRSet{soa}); got != tc.wantChanged {
			t.Errorf("soa_edit_api %q, serial %s to %s: changed in between %v, want %v", tc.soaEditAPI, tc.before, tc.after, got, tc.wantChanged)
		}
	}
}

func TestZoneAndApplyMakeFewCalls(t *testing.T) {
	fixture := newFixture(t)
	zone := fixture.NewZone(t)
	fixture.calls.Store(0)
	zoneInfo := findZone(t, fixture, zone)
	set := sdk.RRSet{Name: zone, Type: sdk.TXT, TTL: 300, Values: []string{"x"}}
	for _, want := range []int64{4, 5} { // total calls after each Apply; the second writes nothing
		if _, err := fixture.Provider().Apply(t.Context(), zoneInfo, []sdk.Change{{Before: sdk.RRSet{Name: zone, Type: sdk.TXT}, After: set}}); err != nil {
			t.Fatal(err)
		}
		if got := fixture.calls.Load(); got != want {
			t.Errorf("%d calls in total, want %d", got, want)
		}
	}
}

func TestSecondaryZoneIsIdle(t *testing.T) {
	fixture := newFixture(t)
	fixture.callServer(t, http.MethodPost, "/zones", map[string]any{"name": "second.test.", "kind": "Slave", "masters": []string{"192.0.2.1"}, "nameservers": []string{}})
	if zoneInfo := findZone(t, fixture, "second.test"); zoneInfo.Idle != "secondary" {
		t.Fatalf("got %+v, want the reason secondary in Idle", zoneInfo)
	}
}

func TestStatusesOfAWriteAreClassified(t *testing.T) {
	fixture := newFixture(t)
	zone := fixture.NewZone(t)
	zoneInfo := findZone(t, fixture, zone)
	for status, want := range map[int]sdk.OutcomeKind{
		429: sdk.Throttled, 503: sdk.Down, 500: sdk.Broken, 504: sdk.Unknown,
		422: sdk.Refused, 401: sdk.Refused, 302: sdk.Broken,
	} {
		fixture.nextStatus.Store(int64(status))
		_, err := fixture.Provider().Apply(t.Context(), zoneInfo, []sdk.Change{{
			Before: sdk.RRSet{Name: zone, Type: sdk.TXT}, After: sdk.RRSet{Name: zone, Type: sdk.TXT, Values: []string{"x"}},
		}})
		if sdk.OutcomeOf(err).Kind != want || sdk.OutcomeOf(err) == sdk.OutcomeOf(sdk.ZoneChanged()) {
			t.Errorf("status %d: %v, want %s", status, err, want)
		}
	}
	if held := fixture.Held(t, zone); len(held) > 0 {
		t.Errorf("a refused or failed write changed the zone: %+v", held)
	}
}

func TestInvalidConnectionsAreRefused(t *testing.T) {
	validConnection := func() sdk.Connection {
		return sdk.Connection{
			Settings: map[string]string{"api_url": "https://dns.example.com:8081/api/v1/"},
			Secrets:  map[string]sdk.Secret{"api_key": sdk.NewSecret("k")},
		}
	}
	dnsProvider, err := newProcessState().provider(validConnection())
	if err != nil || dnsProvider.(*provider).base != "https://dns.example.com:8081/api/v1/servers/localhost" {
		t.Fatalf("a valid connection: %+v, %v, want the base URL of the server localhost", dnsProvider, err)
	}
	for name, makeInvalid := range map[string]func(sdk.Connection){
		"no URL":                  func(connection sdk.Connection) { connection.Settings["api_url"] = "" },
		"no host":                 func(connection sdk.Connection) { connection.Settings["api_url"] = "dns.example.com" },
		"not a web URL":           func(connection sdk.Connection) { connection.Settings["api_url"] = "ftp://dns.example.com" },
		"key in clear":            func(connection sdk.Connection) { connection.Settings["api_url"] = "http://dns.example.com:8081" },
		"a password":              func(connection sdk.Connection) { connection.Settings["api_url"] = "https://a:b@dns.example.com" },
		"a query":                 func(connection sdk.Connection) { connection.Settings["api_url"] = "https://dns.example.com?x=1" },
		"no key":                  func(connection sdk.Connection) { delete(connection.Secrets, "api_key") },
		"a line break in the key": func(connection sdk.Connection) { connection.Secrets["api_key"] = sdk.NewSecret("k\r\nX-Evil: 1") },
		"a control character":     func(connection sdk.Connection) { connection.Secrets["api_key"] = sdk.NewSecret("k\x01") },
		"not a boolean":           func(connection sdk.Connection) { connection.Settings["allow_private"] = "maybe" },
	} {
		connection := validConnection()
		makeInvalid(connection)
		if _, err := newProcessState().provider(connection); sdk.OutcomeOf(err).Code.Name != "invalid_request" {
			t.Errorf("%s: got %v, want invalid_request", name, err)
		}
	}
}

// TestPrivateAddressesAreNotCalled covers private addresses. A customer chooses the server, so the
// plugin must not call servers in the operator's network.
func TestPrivateAddressesAreNotCalled(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the server at a private address was called") }))
	defer server.Close()
	provider, err := newProcessState().provider(sdk.Connection{
		Settings: map[string]string{"api_url": strings.Replace(server.URL, "http:", "https:", 1)},
		Secrets:  map[string]sdk.Secret{"api_key": sdk.NewSecret("k")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Check(t.Context()); sdk.OutcomeOf(err).Code.Name != "invalid_request" {
		t.Fatalf("Check of a private address: %v, want invalid_request", err)
	}
}

// TestApplyHandlesRepeatedTexts checks two pairs of TXT records. The records of a pair have the
// same text, divided into different strings. The change removes one record of the first pair.
func TestApplyHandlesRepeatedTexts(t *testing.T) {
	fixture := newFixture(t)
	zone := fixture.NewZone(t)
	fixture.replaceSet(t, zone, map[string]any{"name": zone + ".", "type": "TXT", "ttl": 700, "changetype": "REPLACE", "records": []map[string]any{
		{"content": `"twice"`}, {"content": `"twi" "ce"`}, {"content": `"both stay"`}, {"content": `"both " "stay"`},
	}})
	zoneInfo := findZone(t, fixture, zone)
	sets, err := fixture.Provider().Records(t.Context(), zoneInfo)
	if err != nil {
		t.Fatal(err)
	}
	before := sdk.FindSet(sets, zone, sdk.TXT)
	after := before
	after.Values = []string{"both stay", "both stay", "twice"}
	if _, err := fixture.Provider().Apply(t.Context(), zoneInfo, []sdk.Change{{Before: before, After: after}}); err != nil {
		t.Fatal(err)
	}
	if held := sdk.FindSet(fixture.Held(t, zone), zone, sdk.TXT); !held.Same(after) {
		t.Errorf("the zone has %+v, want %+v", held, after)
	}
}

// TestUnservedRowsAreLeftOut reads a zone whose database has rows that the server does not serve.
func TestUnservedRowsAreLeftOut(t *testing.T) {
	const rowFormat = `{"name":"%s","type":"%s","ttl":60,"records":[{"content":"%s"}]}`
	row := func(name, recordType, content string) string {
		return fmt.Sprintf(rowFormat, name, recordType, content)
	}
	rows := strings.Join([]string{
		row("a.test.", "A", "192.0.2.1"),
		row("b.test.", "A", "192.0.2.2"),        // outside the zone
		row("not-a.test.", "TXT", "not quoted"), // outside the zone
		row("test.", "A", "192.0.2.3"),          // outside the zone
		row("between.a.test.", "", ""),          // a name between two names with records
		row("lower.a.test.", "a", "192.0.2.4"),  // the server does not know this type
		row("w.A.test.", "TYPE65534", "\\\\# 0"),
	}, ",")
	dnsProvider := providerAnswering(t, `{"id":"a.test.","name":"a.test.","rrsets":[`, rows, 1, "]}")
	got, err := dnsProvider.Records(t.Context(), sdk.Zone{ID: "a.test.", Name: "a.test"})
	if err != nil {
		t.Fatal(err)
	}
	want := []sdk.RRSet{
		{Name: "a.test", Type: "A", TTL: 60, Values: []string{"192.0.2.1"}},
		{Name: "w.a.test", Type: "TYPE65534", TTL: 60, Values: []string{`\# 0`}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the record sets (-want +got):\n%s", diff)
	}
	// An answer with a different zone must not count as an empty zone.
	if _, err := dnsProvider.Records(t.Context(), sdk.Zone{ID: "b.test.", Name: "b.test"}); sdk.OutcomeOf(err).Kind != sdk.Broken {
		t.Errorf("Records of a different zone: %v, want broken", err)
	}
}
