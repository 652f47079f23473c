// SPDX-License-Identifier: Apache-2.0

package zones_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/sandbox/zones"
)

// TestMessyZonesAreServedAndDocumented checks that the server serves all messy zones, and that
// docs/sandbox.md lists them. Seeding again must not change a zone that was edited.
func TestMessyZonesAreServedAndDocumented(t *testing.T) {
	store, server := openStore(t)
	page, err := os.ReadFile("../../../docs/sandbox.md")
	if err != nil {
		t.Fatal(err)
	}
	if rows := strings.Count(string(page), "| `messy-"); rows != len(zones.MessyZones) {
		t.Errorf("docs/sandbox.md lists %d messy zones, want %d", rows, len(zones.MessyZones))
	}
	for _, messy := range zones.MessyZones {
		if err := store.Seed(messy); err != nil {
			t.Fatal(err)
		}
		if answer := query(t, server, "tcp", messy.Name, "SOA", false); len(answer.Answer) != 1 {
			t.Errorf("%s is not served: %v", messy.Name, answer)
		}
		if served, err := store.Records(messy.Name); err != nil || len(served) == 0 {
			t.Errorf("the records of %s are %v, %v, want at least one", messy.Name, served, err)
		}
		row := "| `" + messy.Name + "` | " + map[string]string{"cloudflare": "Cloudflare", "manual": "a registrar"}[messy.Provider] + " | " + messy.About + " |\n"
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/sandbox.md does not have the row %s", row)
		}
	}
	edited := parseRecords(t, `[{"type":"A","name":"messy-mx-null.test","content":"192.0.2.1","ttl":60}]`)
	if err := store.Replace("messy-mx-null.test", edited); err != nil {
		t.Fatal(err)
	}
	for _, messy := range zones.MessyZones {
		if err := store.Seed(messy); err != nil {
			t.Fatal(err)
		}
	}
	if served, _ := store.Records("messy-mx-null.test"); len(served) != 1 || served[0].Type != "A" {
		t.Errorf("seeding changed an edited zone: %v", served)
	}
}

// TestEditOfAChangedZoneFails checks that Edit changes nothing if the zone was changed after the
// caller read it. Edit also refuses an invalid record and an unknown zone.
func TestEditOfAChangedZoneFails(t *testing.T) {
	store, _ := openStore(t)
	if err := store.Add("example.test", "cloudflare"); err != nil {
		t.Fatal(err)
	}
	staleZone := store.Hosted("cloudflare", "example.test")[0]
	if err := store.Replace("example.test", parseRecords(t, sampleZone)); err != nil {
		t.Fatal(err)
	}
	if err := store.Edit(staleZone); !errors.Is(err, zones.ErrChanged) {
		t.Errorf("edit of a changed zone: got %v, want ErrChanged", err)
	}
	currentZone := store.Hosted("cloudflare", "")[0]
	if len(currentZone.Records) != len(parseRecords(t, sampleZone)) {
		t.Errorf("after the refused edit the zone has %v, want the records of sampleZone", currentZone.Records)
	}
	currentZone.Records, currentZone.VeiledRecords = nil, []zones.VeiledRecord{{Record: zones.Record{Type: "TXT", Name: "example.test", Content: "x", TTL: 60}, Veil: zones.Proxied}}
	if err := store.Edit(currentZone); !errors.As(err, new(zones.InvalidError)) {
		t.Errorf("a proxied TXT record: got %v, want an InvalidError", err)
	}
	currentZone.Name = "other.test"
	if err := store.Edit(currentZone); !errors.Is(err, zones.ErrUnknown) {
		t.Errorf("edit of an unknown zone: got %v, want ErrUnknown", err)
	}
}
