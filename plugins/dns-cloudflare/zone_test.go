// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestApplyHandlesRepeatedTexts checks two pairs of TXT records. The records of a pair have the
// same text, divided into different strings. The change removes one record of the first pair.
func TestApplyHandlesRepeatedTexts(t *testing.T) {
	fixture := newFixture(t)
	zone := fixture.NewZone(t)
	fixture.replaceRecords(t, zone, []map[string]any{
		{"type": "TXT", "name": zone, "content": `"twice"`, "ttl": 300}, {"type": "TXT", "name": zone, "content": `"twi" "ce"`, "ttl": 300},
		{"type": "TXT", "name": zone, "content": `"both stay"`, "ttl": 300}, {"type": "TXT", "name": zone, "content": `"both " "stay"`, "ttl": 300},
	})
	provider := fixture.Provider()
	zoneInfo := findZone(t, fixture, zone)
	after := txtSet(zone, "both stay", "both stay", "twice")
	if _, err := provider.Apply(t.Context(), zoneInfo, []sdk.Change{{Before: txtSet(zone, "both stay", "both stay", "twice", "twice"), After: after}}); err != nil {
		t.Fatal(err)
	}
	if held := sdk.FindSet(fixture.Held(t, zone), zone, sdk.TXT); !held.Same(after) {
		t.Errorf("the zone has %+v, want %+v", held, after)
	}
}

// TestZonePrefersTheActiveZone checks a token that has access to two zones of a domain, and a token
// that has access only to the inactive zone.
func TestZonePrefersTheActiveZone(t *testing.T) {
	const moved, active = `{"id":"old","name":"a.test","status":"moved","type":"full","name_servers":["x.ns.cloudflare.com"]}`,
		`{"id":"new","name":"a.test","status":"active","type":"full","name_servers":["y.ns.cloudflare.com"]}`
	for answer, want := range map[string]string{
		moved + "," + active: "new", active + "," + moved: "new", moved: "old",
	} {
		provider := providerAnswering(t, func(url.Values) string { return answer })
		zoneInfo, err := provider.Zone(t.Context(), "a.test")
		if err != nil || zoneInfo.ID != want || (zoneInfo.Idle == "") != (want == "new") {
			t.Errorf("%s: got %+v, %v, want the zone %s", answer, zoneInfo, err, want)
		}
	}
}

// TestZoneWithAnInternationalizedName finds, reads and writes a zone whose name the API returns in
// Unicode. The names of the record sets have A-labels, even if the API returns names in Unicode.
func TestZoneWithAnInternationalizedName(t *testing.T) {
	const zone = "xn--mnchen-3ya.test"
	fixture := newFixture(t)
	fixture.control(t, http.MethodPut, "/zones/"+zone, map[string]string{}, nil)
	provider := fixture.Provider()
	zoneInfo, err := provider.Zone(t.Context(), zone)
	if err != nil || zoneInfo.Name != zone {
		t.Fatalf("got %+v, %v, want the zone %s", zoneInfo, err, zone)
	}
	after := txtSet("_dmarc."+zone, "v=DMARC1; p=none")
	if _, err := provider.Apply(t.Context(), zoneInfo, []sdk.Change{{Before: txtSet("_dmarc." + zone), After: after}}); err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{"1": `{"id":"a","type":"A","name":"_x.münchen.test","content":"192.0.2.1"}`}
	provider = providerAnswering(t, func(query url.Values) string { return pages[query.Get("page")] })
	sets, err := provider.Records(t.Context(), sdk.Zone{ID: "z", Name: zone})
	if err != nil || len(sets) != 1 || sets[0].Name != "_x."+zone {
		t.Errorf("got %+v, %v, want a set of _x.%s", sets, err, zone)
	}
}

// TestRecordsReadsAllPagesWithoutATotal reads two pages. The answers do not contain the total
// number of records.
func TestRecordsReadsAllPagesWithoutATotal(t *testing.T) {
	pages := map[string]string{"1": `{"id":"a","type":"A","name":"a.test","content":"192.0.2.1"}`, "2": `{"id":"b","type":"MX","name":"a.test","content":"mx.test","priority":5}`}
	provider := providerAnswering(t, func(query url.Values) string { return pages[query.Get("page")] })
	sets, err := provider.Records(t.Context(), sdk.Zone{ID: "z", Name: "a.test"})
	if err != nil || len(sdk.FindSet(sets, "a.test", sdk.MX).Values) != 1 {
		t.Errorf("got %+v, %v, want the MX set of the second page", sets, err)
	}
}

// TestRecordsReadsAPageOfLongTexts reads a full page of texts of the greatest length, 2,048 octets.
func TestRecordsReadsAPageOfLongTexts(t *testing.T) {
	text := strings.Repeat("x", 2048)
	provider := providerAnswering(t, func(query url.Values) string {
		if query.Get("page") != "1" {
			return ""
		}
		records := make([]string, perPage)
		for i := range records {
			records[i] = fmt.Sprintf(`{"id":"%d","type":"TXT","name":"t%d.a.test","content":"\"%s\"","ttl":300}`, i, i, text)
		}
		return strings.Join(records, ",")
	})
	sets, err := provider.Records(t.Context(), sdk.Zone{ID: "z", Name: "a.test"})
	if err != nil || len(sets) != perPage {
		t.Errorf("got %d sets, %v, want %d", len(sets), err, perPage)
	}
}

// providerAnswering returns a provider whose server answers each request successfully. result
// returns the elements of the JSON array "result" in the answer to a query.
func providerAnswering(t *testing.T, result func(url.Values) string) sdk.DNSProvider {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"success":true,"errors":[],"messages":[],"result":[` + result(r.URL.Query()) + `]}`))
	}))
	t.Cleanup(server.Close)
	provider, err := newTestState(time.Now).provider(sdk.Connection{
		Settings: map[string]string{"api_url": server.URL}, Secrets: map[string]sdk.Secret{"api_token": sdk.NewSecret("not-a-real-one")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return provider
}
