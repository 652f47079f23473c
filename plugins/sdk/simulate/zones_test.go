// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
)

func openZones(t *testing.T, o Options) *Zones {
	t.Helper()
	kit, err := Open("acme", o)
	if err != nil {
		t.Fatal(err)
	}
	zones, err := OpenZones(kit)
	if err != nil {
		t.Fatal(err)
	}
	return zones
}

// TestZonesSurviveARestart creates and edits a zone outside a sandbox. It reads the zone after a
// restart.
func TestZonesSurviveARestart(t *testing.T) {
	options := Options{URL: "http://127.0.0.1:1", DataDir: t.TempDir()}
	zones := openZones(t, options)
	created := httptest.NewRecorder()
	zones.Control().ServeHTTP(created, httptest.NewRequest("PUT", "/_control/zones/One.test", nil))
	if created.Code != http.StatusOK {
		t.Fatalf("creating the zone: %d %s, want 200", created.Code, created.Body)
	}
	preference := 10
	records := []Record{{Type: "TXT", Name: "one.test", Content: "hello", TTL: 60}, {Type: "MX", Name: "one.test", Content: "mx.acme.example", TTL: 60, Priority: &preference}}
	if err := zones.Edit(t.Context(), "one.test", 1, records); err != nil {
		t.Fatal(err)
	}
	if err := zones.Edit(t.Context(), "one.test", 1, nil); !errors.Is(err, ErrZoneChanged) {
		t.Errorf("editing an old version: %v, want ErrZoneChanged", err)
	}
	if err := zones.Edit(t.Context(), "two.test", 1, nil); !errors.Is(err, ErrNoZone) {
		t.Errorf("editing a missing zone: %v, want ErrNoZone", err)
	}
	got, err := openZones(t, options).Get(t.Context(), "ONE.test")
	want := Zone{Name: "one.test", NameServers: []string{"ns1.acme.sandbox-dns.test", "ns2.acme.sandbox-dns.test"}, Version: 2, Records: records}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("the zone after a restart: %v (-want +got):\n%s", err, diff)
	}
	sets := []dns.RRSet{
		{Name: "one.test", Type: dns.TXT, TTL: 60, Values: []string{"hello"}},
		{Name: "one.test", Type: dns.MX, TTL: 60, Values: []string{"10 mx.acme.example"}},
	}
	if diff := cmp.Diff(sets, SetsOf(got.Records)) + cmp.Diff(records, RecordsOf(sets)); diff != "" {
		t.Errorf("the conversion of the records (-want +got):\n%s", diff)
	}
}

// TestZonesAreKeptInTheSandbox checks the requests to the sandbox and the errors for its answers.
func TestZonesAreKeptInTheSandbox(t *testing.T) {
	status, body, requested := http.StatusOK, `[{"name":"one.test","version":7,"records":[]}]`, ""
	sandbox := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requested = r.Method + " " + r.URL.String()
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer sandbox.Close()
	zones := openZones(t, Options{URL: "http://127.0.0.1:1", DataDir: t.TempDir(), World: sandbox.URL})
	if zone, err := zones.Get(t.Context(), "ONE.test"); err != nil || zone.Version != 7 || requested != "GET /zones?name=one.test&provider=acme" {
		t.Errorf("got %v, %v after %s, want version 7", zone, err, requested)
	}
	for code, want := range map[int]error{http.StatusNotFound: ErrNoZone, http.StatusConflict: ErrZoneChanged, http.StatusBadRequest: InvalidRecords("no such type")} {
		status, body = code, `{"error":"no such type"}`
		if err := zones.Edit(t.Context(), "one.test", 7, nil); !errors.Is(err, want) || requested != "PUT /zones/one.test" {
			t.Errorf("status %d: got %v, want %v, after %s", code, err, want, requested)
		}
	}
	created := httptest.NewRecorder()
	zones.Control().ServeHTTP(created, httptest.NewRequest("PUT", "/_control/zones/two.test", nil))
	if created.Code != http.StatusBadRequest {
		t.Errorf("creating a zone in a sandbox: %d, want 400", created.Code)
	}
}
